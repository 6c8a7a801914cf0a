//! I-06: equal clocks mean equal states: members, reachability and tombstones. Checked over the whole run,
//! not only between states held at one time. Tombstones are compared until the first of them expires: a state
//! from before may bring an expired one back without a change of the clock, which is harmless (it keeps out
//! who must stay out, and expires again).

use std::collections::HashMap;

use super::{Facts, Step};
use crate::sim::{ProcessId, digest};

/// The content that each clock stood for, and who held it first.
#[derive(Debug, Default)]
pub(super) struct EqualClocks {
    content: HashMap<u64, ((u64, u64), ProcessId, u64)>,
    expired: bool,
}

impl EqualClocks {
    pub(super) fn check(&mut self, step: &Step<'_>, facts: &Facts) -> Result<(), String> {
        let (before, after) = (step.before.gossip(), step.after.gossip());
        self.expired |= !before.tombstones().is_subset(after.tombstones());
        let mine = (facts.content.1, digest::tombstones(after));
        let first = (mine, step.process, step.at);
        let ((content, tombstones), process, at) = *self.content.entry(facts.clock.1).or_insert(first);
        if content == mine.0 && (self.expired || tombstones == mine.1) {
            return Ok(());
        }
        let version = step.after.gossip().version();
        Err(format!(
            "another state than p{process} held at {at} µs under the same clock {version:?}"
        ))
    }
}
