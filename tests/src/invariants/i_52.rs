//! I-52: entities of a process that stood still for longer than a pause is accepted handle nothing until
//! their node knows that it is still a member.

use std::collections::BTreeMap;

use crate::sim::ProcessId;

/// Who stands still, or has and does not know yet, and until when it does.
#[derive(Debug, Default)]
pub(crate) struct SureOfItself {
    stood_still: BTreeMap<ProcessId, u64>,
    /// How often a node knew again that it is a member.
    pub(crate) sure_again: u64,
}

impl SureOfItself {
    /// A process stands still, and its node has to notice.
    pub(crate) fn stands_still(&mut self, process: ProcessId, until: u64) {
        self.stood_still.insert(process, until);
    }

    /// A node knows that it is still a member.
    pub(crate) fn on_still_member(&mut self, process: ProcessId) {
        self.sure_again += u64::from(self.stood_still.remove(&process).is_some());
    }

    /// An entity handles a message.
    pub(crate) fn on_handled(&self, process: ProcessId, now: u64) -> Result<(), String> {
        match self.stood_still.get(&process) {
            Some(until) if *until <= now => Err(format!(
                "handles a message after it stood still until {until} us, and does not know whether it is a member"
            )),
            Some(_) | None => Ok(()),
        }
    }
}
