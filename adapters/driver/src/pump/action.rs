//! What the loop has to do for the pump. Plain values: a test plays the hands.

use std::future::Future;
use std::pin::Pin;

use quorate_core::effect::{Answer, HaltReason};
use quorate_core::event::Event;
use quorate_links::Order;

use crate::sync::Sender;

/// A task of a user's entity.
pub(crate) type EntityTask = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What the loop has to do.
pub(crate) enum Action {
    /// Something with a link.
    Link(Order),
    /// Run an entity.
    Start(EntityTask),
    /// Tell those who listen.
    Publish(Event),
    /// Answer a command. After the view was published, so that its caller finds there what the command did.
    Answer(Sender<Answer>, Answer),
    /// Everything was said: finish.
    Halt(HaltReason),
}
