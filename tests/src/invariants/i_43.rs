//! I-43: from one sender an entity handles messages in order, wherever it runs and however often it moves.
//! Gaps are possible, swaps are not. Holds with any faults and outside of the safe assumptions too, between
//! homes that follow one another. A process that stood still, was removed and wakes handles what it still had
//! beside the next home: outside of the safe assumptions that is the overlap which I-40 counts, and then only
//! each home by itself has an order.

use std::collections::BTreeMap;

use quorate_core::sharding::ids::EntityId;

use crate::sim::{History, ProcessId};

/// The last message that each entity handled of each sender, and where.
#[derive(Debug, Default)]
pub(crate) struct InOrder {
    last: BTreeMap<(ProcessId, EntityId), (usize, ProcessId)>,
}

/// A message that comes after a later one.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Swap {
    /// Who handled the later one.
    pub(crate) home: ProcessId,
    pub(crate) what: String,
}

impl InOrder {
    /// An entity handles a message. Messages are numbered in the order in which they were sent.
    pub(crate) fn on_handled(
        &mut self,
        history: &History,
        process: ProcessId,
        at: usize,
    ) -> Result<(), Swap> {
        let Some(message) = history.messages.get(at) else {
            return Ok(());
        };
        let (sender, entity) = (message.sender, message.entity.clone());
        match self.last.get(&(sender, entity.clone())) {
            Some((before, home)) if *before > at => Err(Swap {
                home: *home,
                what: format!(
                    "{entity} handles message {at} of process {sender} after its message {before} at p{home}"
                ),
            }),
            Some(_) | None => {
                self.last.insert((sender, entity), (at, process));
                Ok(())
            }
        }
    }
}
