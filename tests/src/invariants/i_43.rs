//! I-43: from one sender an entity handles messages in order, wherever it runs and however often it moves. Gaps are possible,
//! swaps are not. Holds with any faults and outside of the safe assumptions too.

use std::collections::BTreeMap;

use quorate_core::sharding::ids::EntityId;

use crate::sim::{History, ProcessId};

/// The last message that each entity handled of each sender.
#[derive(Debug, Default)]
pub(crate) struct InOrder {
    last: BTreeMap<(ProcessId, EntityId), usize>,
}

impl InOrder {
    /// An entity handles a message. Messages are numbered in the order in which they were sent.
    pub(crate) fn on_handled(&mut self, history: &History, at: usize) -> Result<(), String> {
        let Some(message) = history.messages.get(at) else {
            return Ok(());
        };
        let (sender, entity) = (message.sender, message.entity.clone());
        match self.last.insert((sender, entity), at) {
            Some(before) if before > at => Err(format!(
                "{} handles message {at} of process {sender} after its message {before}",
                message.entity
            )),
            Some(_) | None => Ok(()),
        }
    }
}
