//! This node's own changes on their way to the others: what each node was sent of each key, and what is too
//! much to send as changes. Never sends. Spec: sharding 1.12 (delta propagation).

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::crdt::DataDelta;
use super::protocol::DeltaEntry;
use super::state::key::Key;
use crate::ident::UniqueAddress;
use crate::ordered::{OrderedMap, OrderedSet};

/// Logged changes of all keys, at most: past it a key's changes are left to gossip, which carries values.
const CHANGES_MAX: usize = 100_000;

/// A change larger than this is left to gossip: it would fill a message of its own, and the value is hardly
/// larger.
pub(super) const DELTA_BYTES_MAX: usize = 64 << 10;

/// One change, or the note that there was one that only gossip brings.
#[derive(Clone, Debug)]
struct LoggedDelta {
    upto: u64,
    delta: Option<DataDelta>,
}

#[derive(Clone, Debug, Default)]
struct KeyLog {
    /// The number before the first change that is kept.
    after: u64,
    /// Up to when the value was settled at the last change. What was logged before it was is behind one that
    /// only gossip brings.
    settled_ms: u64,
    /// The last change that was dropped before everybody had it.
    lost: u64,
    changes: VecDeque<LoggedDelta>,
    size: usize,
    /// The last change each node was sent (or was not, because it was too much).
    sent: OrderedMap<UniqueAddress, u64>,
}

/// Changes not yet sent to everybody. Numbers are given once per process and key, and never again, so that a
/// key that expired and came back is not taken for its former self.
#[derive(Clone, Debug, Default)]
pub(super) struct DeltaLog {
    last: u64,
    logs: OrderedMap<Key, KeyLog>,
    changes: usize,
}

impl DeltaLog {
    /// Logs a change of a key whose last number was `before`, and which is settled up to `settled_ms`; the
    /// number of this one. `None` stands for a change that only gossip brings.
    pub(super) fn push(
        &mut self,
        key: &Key,
        (before, settled_ms): (u64, u64),
        delta: Option<DataDelta>,
        size_max: usize,
    ) -> u64 {
        self.last += 1;
        let upto = self.last;
        let room = self.changes < CHANGES_MAX;
        let log = self.logs.entry(key.clone()).or_insert_with(|| KeyLog {
            after: before,
            ..KeyLog::default()
        });
        log.settled_ms = settled_ms;
        let delta = delta.filter(|_| room);
        log.size += size_of(delta.as_ref());
        log.changes.push_back(LoggedDelta { upto, delta });
        self.changes += 1;
        // Whoever lacks the oldest of so many gets none of them (S-210): they need not be kept.
        while log.size >= size_max && log.drop_oldest() {
            log.lost = log.after;
            self.changes -= 1;
        }
        upto
    }

    /// A deleted or expired key has no changes any more.
    pub(super) fn forget(&mut self, key: &Key) {
        if let Some(log) = self.logs.remove(key) {
            self.changes -= log.changes.len();
        }
    }

    /// The number of the last change.
    pub(super) const fn last(&self) -> u64 {
        self.last
    }

    pub(super) fn is_empty(&self) -> bool {
        self.logs.is_empty()
    }

    /// What `node` was not sent yet. It counts as sent from now on: what is lost, gossip brings.
    pub(super) fn take_for(&mut self, node: &UniqueAddress) -> Vec<DeltaEntry> {
        let logs = self.logs.iter_mut();
        logs.filter_map(|(key, log)| log.take_for(key, node)).collect()
    }

    /// What `node` was not sent yet of one key, the newest change included; `None` if that cannot be sent as
    /// changes. It counts as sent from now on.
    pub(super) fn take_key_for(&mut self, key: &Key, node: &UniqueAddress) -> Option<DeltaEntry> {
        self.logs.get_mut(key)?.take_for(key, node)
    }

    /// `node` was sent the whole value, which has all changes.
    pub(super) fn note_sent(&mut self, key: &Key, node: &UniqueAddress) {
        let Some(log) = self.logs.get_mut(key) else {
            return;
        };
        if let Some(change) = log.changes.back() {
            log.sent.insert(node.clone(), change.upto);
        }
    }

    /// Drops what every one of `nodes` was sent.
    pub(super) fn clean_up(&mut self, nodes: &OrderedSet<UniqueAddress>) {
        let mut dropped = 0;
        self.logs.retain(|_, log| {
            log.sent.retain(|node, _| nodes.contains(node));
            let sent_of = |node| log.sent.get(node).copied().unwrap_or(0);
            let everybody = nodes.iter().map(sent_of).min().unwrap_or(u64::MAX);
            while log.changes.front().is_some_and(|change| change.upto <= everybody) {
                dropped += usize::from(log.drop_oldest());
            }
            !log.changes.is_empty()
        });
        self.changes -= dropped;
    }
}

impl KeyLog {
    fn drop_oldest(&mut self) -> bool {
        let Some(change) = self.changes.pop_front() else {
            return false;
        };
        self.after = change.upto;
        self.size -= size_of(change.delta.as_ref());
        true
    }

    fn take_for(&mut self, key: &Key, node: &UniqueAddress) -> Option<DeltaEntry> {
        let last = self.changes.back()?.upto;
        let sent = self.sent.insert(node.clone(), last).unwrap_or(0);
        if sent < self.lost {
            // What lies between is gone; what follows would only be a gap over there.
            return None;
        }
        let mut entry = DeltaEntry {
            key: key.clone(),
            after: self.after.max(sent),
            upto: last,
            settled_ms: self.settled_ms,
            deltas: Vec::new(),
        };
        for change in self.changes.iter().filter(|change| change.upto > sent) {
            match &change.delta {
                Some(delta) => entry.deltas.push(delta.clone()),
                None => {
                    // Only what follows can be applied, by who has this from gossip.
                    entry.after = change.upto;
                    entry.deltas.clear();
                }
            }
        }
        (!entry.deltas.is_empty()).then_some(entry)
    }
}

fn size_of(delta: Option<&DataDelta>) -> usize {
    delta.map_or(0, DataDelta::size)
}

#[cfg(test)]
mod tests;
