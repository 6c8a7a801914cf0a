//! I-03: who was removed at a node never becomes a member there again.

use std::collections::{BTreeMap, BTreeSet};

use quorate_core::ident::UniqueAddress;

use super::Step;
use crate::sim::ProcessId;

/// Whom each process has ever seen removed.
#[derive(Debug, Default)]
pub(super) struct NothingReturns {
    removed: BTreeMap<ProcessId, BTreeSet<UniqueAddress>>,
}

impl NothingReturns {
    pub(super) fn check(&mut self, step: &Step<'_>) -> Result<(), String> {
        let after = step.after.gossip();
        let removed = self.removed.entry(step.process).or_default();
        for node in after.tombstones() {
            if !removed.contains(node) {
                removed.insert(node.clone());
            }
        }
        match removed.iter().find(|node| after.contains(node)) {
            Some(node) => Err(format!("{node} was removed and is a member again")),
            None => Ok(()),
        }
    }
}
