//! I-06: equal clocks mean equal states: members, reachability and tombstones. Checked over the whole run, not only
//! between states held at one time.

use std::collections::HashMap;

use super::{Facts, Step};
use crate::sim::ProcessId;

/// The content that each clock stood for, and who held it first.
#[derive(Debug, Default)]
pub(super) struct EqualClocks {
    content: HashMap<u64, (u64, ProcessId, u64)>,
}

impl EqualClocks {
    pub(super) fn check(&mut self, step: &Step<'_>, facts: &Facts) -> Result<(), String> {
        let clock = facts.clock.1;
        let first = (facts.content.1, step.process, step.at);
        let (content, process, at) = *self.content.entry(clock).or_insert(first);
        if content == facts.content.1 {
            return Ok(());
        }
        let version = step.after.gossip().version();
        Err(format!(
            "another state than p{process} held at {at} µs under the same clock {version:?}"
        ))
    }
}
