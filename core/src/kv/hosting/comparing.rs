//! What this store tells other owners of a range about what it holds, and takes over of what they hold: sums,
//! then the keys of leaves that differ. Only between owners of one adopted configuration, and not while the
//! range is being moved. Spec: sharding 10.19 f, g; reliability I-74, I-75.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::Bound;

use super::range::{PART_LIMITS, item};
use super::{BucketStore, HostedRange, Listener};
use crate::ddata::state::key::Key;
use crate::ident::UniqueAddress;
use crate::journal::state::StoreId;
use crate::kv::merkle::MerkleTree;
use crate::kv::protocol::trees::{TreeAnswer, TreeAsk, TreeStatement};
use crate::kv::protocol::{BucketBody, Rejection};
use crate::kv::state::configuration::{Configuration, Owners};
use crate::kv::state::entry::KvEntry;
use crate::kv::state::exchange::{KvAnswer, KvAsk, KvRefusal};
use crate::kv::state::node::MerkleNode;
use crate::kv::state::part::{RangeItem, RangePart};
use crate::kv::state::settings::range_of;
use crate::kv::state::table::RangeId;
use crate::store::Bytes;
use crate::time::Now;

/// Keys that are looked at for one answer: a fraction of a millisecond of work.
const LOOKED_AT_MAX: usize = 4_096;

/// In how many parts of the grace it is noted that the store is open.
const SEEN_PER_GRACE: u64 = 8;

/// What was taken over of another owner's keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::kv) struct TakenKeys {
    /// How many changed.
    pub(in crate::kv) changed: u64,
    /// Those about which a turn is open: it is to be ended.
    pub(in crate::kv) open: Vec<Key>,
}

impl BucketStore {
    /// The ranges that this store owns with others and that are not being moved.
    pub(in crate::kv) fn compared(&self) -> impl Iterator<Item = (RangeId, &Configuration)> {
        let known = self.ranges.iter();
        known.filter_map(|(range, held)| Some((*range, self.settled(held)?)))
    }

    /// Who owns a range, if this store does and it is not being moved.
    fn settled<'h>(&self, held: &'h HostedRange) -> Option<&'h Configuration> {
        let known = held.configuration()?;
        let is_settled = matches!(&known.owners, Owners::Stable(stores) if stores.contains(&self.id));
        is_settled.then_some(known)
    }

    /// The tree of a range, if its owners are these.
    pub(in crate::kv) fn tree(&self, range: RangeId, owners: &Configuration) -> Option<&MerkleTree> {
        let held = self.ranges.get(&range)?;
        let is_same = self.settled(held) == Some(owners);
        is_same.then(|| held.replica.tree())
    }

    /// The range of a question, if its owners are those that are named.
    fn asked(&mut self, asked: &TreeAsk, now: Now) -> Result<Option<&mut HostedRange>, Rejection> {
        if !self.has_room() {
            return Ok(None);
        }
        self.adopt(asked.range, &asked.configuration, now.mono)?;
        let is_same = self.tree(asked.range, &asked.configuration).is_some();
        Ok(self.ranges.get_mut(&asked.range).filter(|_| is_same))
    }

    fn answer(&mut self, to: &UniqueAddress, statement: TreeStatement) {
        self.say(Listener::Node(to.clone()), BucketBody::Trees(Box::new(statement)));
    }

    const fn answer_to(&self, asked: &TreeAsk) -> TreeAnswer {
        TreeAnswer {
            store: self.id,
            comparison: asked.comparison,
        }
    }

    /// Another owner asks what lies below some nodes.
    pub(in crate::kv) fn on_compare(
        &mut self,
        from: &UniqueAddress,
        asked: &TreeAsk,
        nodes: &[MerkleNode],
        now: Now,
    ) -> Result<(), Rejection> {
        let said = self.answer_to(asked);
        let Some(held) = self.asked(asked, now)? else {
            return Ok(());
        };
        let tree = held.replica.tree();
        let children: Option<Vec<_>> = nodes.iter().map(|node| tree.children(*node)).collect();
        let sums = children.ok_or(Rejection::Tree)?.concat();
        self.answer(from, TreeStatement::Sums { said, sums });
        Ok(())
    }

    /// Another owner asks what this one holds in some leaves.
    pub(in crate::kv) fn on_fetch(
        &mut self,
        from: &UniqueAddress,
        asked: &TreeAsk,
        (leaves, after): (&[MerkleNode], Option<Bytes>),
        now: Now,
    ) -> Result<(), Rejection> {
        if !leaves.is_sorted() {
            return Err(Rejection::Tree);
        }
        let said = self.answer_to(asked);
        let Some(held) = self.asked(asked, now)? else {
            return Ok(());
        };
        let (keys, looked_at) = held.keys_in(leaves, after.as_deref());
        let epoch = asked.configuration.epoch;
        for key in &keys {
            // What has expired ends first: else the two would be found to differ again.
            if self.ask_itself(asked.range, epoch, (key, &KvAsk::Get), now).1 {
                self.note_key(asked.range, key.clone());
            }
        }
        let Some(held) = self.ranges.get(&asked.range) else {
            return Ok(());
        };
        let part = RangePart::cut(
            keys.iter().filter_map(|key| item(key, held.entry(key)?)),
            PART_LIMITS,
        );
        let last = part.items.last().map(|item| Bytes::clone(&item.key));
        let next = if part.is_last { looked_at } else { last };
        let items = part.items;
        self.answer(from, TreeStatement::Held { said, items, next });
        Ok(())
    }

    /// Asks this store's own replica something of a key; whether what is held changed.
    fn ask_itself(
        &mut self,
        range: RangeId,
        epoch: u64,
        (key, ask): (&Key, &KvAsk),
        now: Now,
    ) -> (KvAnswer, bool) {
        let answered = self.with_range(range, |held| held.answer(key, epoch, ask, now.unix_ms));
        answered.map_or((KvAnswer::Done, false), |answered| {
            (answered.answer, answered.is_changed)
        })
    }

    /// Takes over what another owner holds, as a call would have it merged.
    pub(in crate::kv) fn on_held(
        &mut self,
        range: RangeId,
        owners: &Configuration,
        items: &[RangeItem],
        now: Now,
    ) -> Result<TakenKeys, Rejection> {
        let mut taken = TakenKeys::default();
        for item in items {
            let text = core::str::from_utf8(&item.key).map_err(|_| Rejection::Entry)?;
            let key = Key::new(text).map_err(|_| Rejection::Entry)?;
            if range_of(&key, self.settings.ranges) != range {
                return Err(Rejection::KeyElsewhere(range));
            }
            let theirs = KvEntry::decode(&item.content).map_err(|_| Rejection::Entry)?;
            let ask = KvAsk::Merge(theirs);
            let (answer, is_changed) = self.ask_itself(range, owners.epoch, (&key, &ask), now);
            if is_changed {
                self.note_key(range, key.clone());
                taken.changed += 1;
            }
            if matches!(answer, KvAnswer::Refused(KvRefusal::Blocked(_))) {
                taken.open.push(key);
            }
        }
        self.repaired += taken.changed;
        Ok(taken)
    }

    /// Keys that this store took over from other owners because it lacked them, since it was opened.
    #[must_use]
    pub const fn keys_repaired(&self) -> u64 {
        self.repaired
    }

    /// Whether it was away for longer than the grace, and has not caught up in some range.
    #[must_use]
    pub fn is_behind(&self) -> bool {
        self.ranges.values().any(|held| held.replica.is_behind())
    }

    /// It was away for so long that what it holds may be older than what others have forgotten.
    pub(in crate::kv) fn set_behind(&mut self) {
        for held in self.ranges.values_mut() {
            held.replica.set_behind();
        }
    }

    /// Other owners whose content it lacks, because it was away.
    pub(in crate::kv) fn behind_of(&self) -> impl Iterator<Item = (RangeId, StoreId)> {
        let behind = self.ranges.iter().filter(|(_, held)| held.replica.is_behind());
        let behind = behind.filter_map(|(range, held)| Some((*range, &held.replica, self.settled(held)?)));
        behind.flat_map(|(range, replica, owners)| {
            let owners = owners.owners.all().filter(|owner| *owner != self.id);
            let lacks = owners.filter(|owner| replica.is_behind_of(*owner));
            lacks.map(move |owner| (range, owner))
        })
    }

    /// All that another owner held is held here now.
    pub(in crate::kv) fn on_compared(&mut self, range: RangeId, owners: &Configuration, with: StoreId) {
        let levels = self.settings.levels;
        if let Some(held) = self.ranges.get_mut(&range) {
            let answers = levels.reads().max(levels.decisive());
            held.replica.on_caught_up(with, owners.epoch, answers);
        }
    }

    /// How long a store was closed is known by when it was last noted to be open.
    pub(super) const fn was_away(&self, seen_ms: u64, now_ms: u64) -> bool {
        now_ms.saturating_sub(seen_ms) > self.settings.grace_ms
    }

    /// Notes from time to time that the store is open: not before it has caught up, which it would forget.
    pub(super) fn note_seen(&mut self, now_ms: u64) {
        let every = self.settings.grace_ms / SEEN_PER_GRACE;
        let is_due = self
            .seen_ms
            .is_none_or(|seen_ms| now_ms.saturating_sub(seen_ms) >= every);
        if self.is_durable && is_due && !self.is_behind() {
            (self.seen_ms, self.unkept.seen_ms) = (Some(now_ms), Some(now_ms));
        }
    }
}

impl HostedRange {
    /// The keys of some leaves behind one, ascending; the last key that was looked at, if there are more.
    fn keys_in(&self, leaves: &[MerkleNode], after: Option<&[u8]>) -> (Vec<Key>, Option<Bytes>) {
        let after = after.and_then(|after| Key::new(core::str::from_utf8(after).ok()?).ok());
        let from = after.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let mut keys = self.keys_behind(from).peekable();
        let mut found = Vec::new();
        let mut last = None;
        for key in keys.by_ref().take(LOOKED_AT_MAX) {
            last = Some(key);
            if leaves.binary_search(&MerkleNode::leaf_of(key)).is_ok() {
                found.push(key.clone());
            }
        }
        let next = keys.peek().and(last);
        (found, next.map(|key| Bytes::from(key.as_str().as_bytes())))
    }
}
