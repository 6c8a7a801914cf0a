//! I-45: a region holds no more messages than it may. Only what comes back from another node, which had been taken before, is kept in any
//! case.

use std::collections::BTreeMap;

use super::Cause;
use crate::sim::ProcessId;

/// How many messages each region held last.
#[derive(Debug, Default)]
pub(crate) struct WithinItsBounds {
    held: BTreeMap<ProcessId, usize>,
}

impl WithinItsBounds {
    /// A node has done something.
    pub(crate) fn on_step(
        &mut self,
        process: ProcessId,
        cause: &Cause,
        (held, most): (usize, usize),
    ) -> Result<(), String> {
        let before = self.held.insert(process, held).unwrap_or(0);
        let comes_back = match cause {
            Cause::Message { name, .. } => *name == "HandBack",
            // What could not be sent.
            Cause::Link => true,
            Cause::Tick | Cause::Command | Cause::Entity => false,
        };
        if held > most && held > before && !comes_back {
            return Err(format!(
                "holds {held} messages, {most} are allowed, and {before} were before"
            ));
        }
        Ok(())
    }
}
