//! The message that entities of a kind handle last: put into each mailbox before the entity begins. Decides
//! nothing. Spec: sharding 1.3 (hand-off stop message), 1.4.

use std::sync::Arc;

use quorate_core::sharding::ids::Payload;

use super::reports::{EntityStart, Starter};
use crate::sync::Task;

/// Starts what another starter starts, each with a last message.
pub(crate) struct PartingStarter {
    pub(crate) starter: Arc<dyn Starter>,
    pub(crate) last: Payload,
}

impl Starter for PartingStarter {
    fn start(&self, start: EntityStart) -> Task {
        start.mailbox.ends_with(self.last.clone());
        self.starter.start(start)
    }
}
