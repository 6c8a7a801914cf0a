//! What the loop has to do for the pump. Plain values: a test plays the hands.

use std::task::Waker;

use quorate_core::effect::{Answer, HaltReason};
use quorate_core::event::Event;
use quorate_links::LinkOrder;

use crate::sync::{Sender, Task};

/// What the loop has to do.
pub(crate) enum LoopAction {
    /// Something with a link.
    Link(LinkOrder),
    /// Run an entity.
    Start(Task),
    /// Tell those who listen.
    Publish(Event),
    /// Answer a command. After the view was published, so that its caller finds there what the command did.
    Answer(Sender<Answer>, Answer),
    /// Everything was said: finish.
    Halt(HaltReason),
}

/// What is left to do of an order.
pub(crate) enum AfterOrder {
    Nothing,
    Start(Task),
    /// This task has something to look at.
    Wake(Waker),
}
