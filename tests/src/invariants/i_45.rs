//! I-45: a region holds no more messages than it may. Beyond that are kept what comes back from another node,
//! which had been taken before, asks, and as many messages as may wait with their callers.

use std::collections::BTreeMap;

use super::Cause;
use crate::sim::ProcessId;

/// What a region holds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Holds {
    pub(crate) messages: usize,
    /// Of them those that wait with their callers, asks not counted.
    pub(crate) waiting: usize,
    /// Open asks of its node, wherever they are.
    pub(crate) asks: usize,
}

/// What each region held last.
#[derive(Debug, Default)]
pub(crate) struct WithinItsBounds {
    held: BTreeMap<ProcessId, Holds>,
}

impl WithinItsBounds {
    /// A node has done something; so many messages may be held, and so many wait beside them.
    pub(crate) fn on_step(
        &mut self,
        process: ProcessId,
        cause: &Cause,
        now: Holds,
        (most, waiting_max): (usize, usize),
    ) -> Result<(), String> {
        let before = self.held.insert(process, now).unwrap_or_default();
        let comes_back = match cause {
            Cause::Message { name, .. } => *name == "HandBack",
            // What could not be sent.
            Cause::Link => true,
            Cause::Tick | Cause::Command | Cause::Entity => false,
        };
        let is_kept = comes_back || now.asks > before.asks || now.waiting > before.waiting;
        let is_beyond = now.messages > most && now.messages > before.messages;
        if (is_beyond && !is_kept) || now.waiting > waiting_max {
            return Err(format!(
                "holds {now:?}, {most} are allowed, and {before:?} were before"
            ));
        }
        Ok(())
    }
}
