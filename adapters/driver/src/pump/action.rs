//! What the loop has to do for the pump. Plain values: a test plays the hands.

use std::future::Future;
use std::pin::Pin;

use quorate_core::effect::HaltReason;
use quorate_core::event::Event;
use quorate_links::Order;

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
    /// Everything was said: finish.
    Halt(HaltReason),
}
