//! When each process learned that a member was removed that may have gone on running, by its own clock: what
//! the removal margin counts from (I-25, I-31).

use std::collections::BTreeMap;

use quorate_core::ident::UniqueAddress;
use quorate_core::view::View;

use crate::sim::ProcessId;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Removals {
    learned: BTreeMap<(ProcessId, UniqueAddress), u64>,
}

impl Removals {
    pub(super) fn on_step(&mut self, process: ProcessId, now: u64, before: &View, after: &View) {
        if before.gossip().tombstones() == after.gossip().tombstones() {
            return;
        }
        let is_gone = |node: &UniqueAddress| before.gossip().is_gone(node) || after.gossip().is_gone(node);
        for member in before.members().iter().filter(|m| !is_gone(&m.node)) {
            if after.member(&member.node).is_none() {
                self.learned.insert((process, member.node.clone()), now);
            }
        }
    }

    /// For how long a process has known that a member was removed; `None` if it never was a member there, or
    /// had said that nothing runs there any more.
    pub(super) fn known_for(&self, process: ProcessId, node: &UniqueAddress, now: u64) -> Option<u64> {
        let learned = self.learned.get(&(process, node.clone()))?;
        Some(now - learned)
    }
}
