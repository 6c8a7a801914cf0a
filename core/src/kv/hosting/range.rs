//! One range at this node's store: its replica, what it holds, and, of a newcomer, what it lacks. Decides
//! nothing: the replica and the arrival do. Spec: sharding 10.19 b.

use core::ops::Bound;

use crate::ddata::state::key::Key;
use crate::journal::state::StoreId;
use crate::kv::moving::{Arrival, PartLimits, RangeItem, RangePart};
use crate::kv::replica::{AnsweredAsk, RangeReplica, ReplicaSettings};
use crate::kv::state::configuration::Configuration;
use crate::kv::state::entry::KvEntry;
use crate::kv::state::exchange::KvAsk;
use crate::kv::state::part::ITEMS_MAX;
use crate::ordered::OrderedMap;
use crate::store::Bytes;
use crate::store::limits::VALUE_BYTES_MAX;
use crate::token::Token;

/// How much a part of a range has: a frame of this size is on its way in a few milliseconds.
pub(in crate::kv) const PART_LIMITS: PartLimits = PartLimits {
    items_max: ITEMS_MAX,
    bytes_max: 64 << 10,
    item_bytes_max: VALUE_BYTES_MAX,
};

/// See the module.
#[derive(Clone, Debug)]
pub struct HostedRange {
    pub(super) replica: RangeReplica,
    entries: OrderedMap<Key, KvEntry>,
    /// About how many bytes that is.
    bytes: usize,
    pub(super) arrival: Option<Arrival>,
}

impl HostedRange {
    /// A range with what the store holds of it. `None` if its head cannot be read.
    pub(super) fn open(
        settings: ReplicaSettings,
        (store, boot): (StoreId, u64),
        head: Option<&[u8]>,
        entries: OrderedMap<Key, KvEntry>,
    ) -> Option<Self> {
        let mut replica = RangeReplica::open(settings, store, boot, head).ok()?;
        let mut bytes = 0;
        for (key, entry) in entries.iter() {
            replica.on_loaded(key, entry);
            bytes += held_bytes(key, entry);
        }
        Some(Self {
            replica,
            entries,
            bytes,
            arrival: None,
        })
    }

    /// Keys from a place on, in their order.
    pub(super) fn keys_behind(&self, from: Bound<&Key>) -> impl Iterator<Item = &Key> {
        self.entries.range((from, Bound::Unbounded)).map(|(key, _)| key)
    }

    /// The key before this one.
    pub(super) fn key_before(&self, key: &Key) -> Option<&Key> {
        let before = self.entries.range((Bound::Unbounded, Bound::Excluded(key)));
        before.map(|(key, _)| key).next_back()
    }

    /// What the store holds of a key.
    #[must_use]
    pub fn entry(&self, key: &Key) -> Option<&KvEntry> {
        self.entries.get(key)
    }

    /// Who owns it, as far as this store knows.
    #[must_use]
    pub const fn configuration(&self) -> Option<&Configuration> {
        self.replica.configuration()
    }

    /// What the store answers by: actor, epoch, sums.
    #[must_use]
    pub const fn replica(&self) -> &RangeReplica {
        &self.replica
    }

    /// What it holds, by key.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = (&Key, &KvEntry)> {
        self.entries.iter()
    }

    /// Whose content this store, a newcomer, has merged.
    pub fn merged(&self) -> impl Iterator<Item = StoreId> {
        self.arrival.iter().flat_map(Arrival::merged)
    }

    /// Whether the store is an owner, whether it is being replaced or not; who replaces one is none yet.
    pub(super) fn is_settled_owner(&self, store: StoreId) -> bool {
        let owners = self.configuration().map(|known| &known.owners);
        owners.is_some_and(|owners| owners.sets().0.contains(&store))
    }

    /// The epoch that the store has adopted; 0 for none.
    pub(super) fn epoch(&self) -> u64 {
        self.configuration().map_or(0, |known| known.epoch)
    }

    pub(super) fn clear(&mut self) {
        self.entries.clear();
        self.bytes = 0;
    }

    /// About how many bytes of keys and values it holds.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Of a key something else is held than so many bytes.
    fn recount(&mut self, before: usize, after: usize) {
        self.bytes = self.bytes.saturating_sub(before).saturating_add(after);
    }

    /// Answers a question about a key; whether what is held of it changed.
    pub(super) fn answer(&mut self, key: &Key, epoch: u64, ask: &KvAsk, now_ms: u64) -> AnsweredAsk {
        let mut none = KvEntry::default();
        let entry = self.entries.get_mut(key);
        let is_held = entry.is_some();
        let entry = entry.unwrap_or(&mut none);
        let before = held_bytes(key, entry);
        let answered = self.replica.answer((key, entry), epoch, ask, now_ms);
        let after = held_bytes(key, entry);
        match (is_held, entry.is_empty()) {
            (true, true) => {
                self.entries.remove(key);
            }
            (false, false) => {
                self.entries.insert(key.clone(), none);
            }
            (true, false) | (false, true) => {}
        }
        self.recount(before, after);
        answered
    }

    /// What it holds behind a key, as much as goes at once.
    pub(super) fn part(&self, after: Option<&[u8]>) -> RangePart {
        let after = after.and_then(|after| core::str::from_utf8(after).ok());
        let after = after.and_then(|after| Key::new(after).ok());
        let from = after.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let entries = self.entries.range((from, Bound::Unbounded));
        RangePart::cut(entries.filter_map(|(key, entry)| item(key, entry)), PART_LIMITS)
    }

    /// Takes in what an owner holds of a key; whether that changed anything. `None` if no owner holds such a
    /// thing.
    pub(super) fn take_over(&mut self, epoch: u64, key: &Key, content: &[u8]) -> Option<bool> {
        let theirs = KvEntry::decode(content).ok()?;
        let mut entry = self.entries.get(key).cloned().unwrap_or_default();
        let is_changed = self.replica.take_over((key, &mut entry), epoch, &theirs);
        let is_changed = is_changed.ok()?;
        if is_changed {
            let after = held_bytes(key, &entry);
            let before = self.entries.insert(key.clone(), entry);
            self.recount(before.map_or(0, |before| held_bytes(key, &before)), after);
        }
        Some(is_changed)
    }
}

/// About how many bytes a key and what is held of it take; none where nothing is held.
pub(super) fn held_bytes(key: &Key, entry: &KvEntry) -> usize {
    if entry.is_empty() {
        return 0;
    }
    key.as_str().len() + entry.bytes()
}

/// What is held of a key, as it is sent.
pub(super) fn item(key: &Key, entry: &KvEntry) -> Option<RangeItem> {
    let encoded = entry.encode();
    debug_assert!(encoded.is_ok(), "what is held can be written");
    Some(RangeItem {
        key: Bytes::from(key.as_str().as_bytes()),
        content: Bytes::from(encoded.ok()?),
        promised: Token::NONE,
    })
}
