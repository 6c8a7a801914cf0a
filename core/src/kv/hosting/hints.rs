//! What this store keeps, in a sloppy bucket, for owners that were away: outside of its ranges, in no tree
//! and no listing. Answers in their place; who is given what is kept, and when, is `kv::hints`' to decide.
//! Spec: sharding 5.6, 10.19 e, g.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::Bound;

use super::range::held_bytes;
use super::{BucketStore, Listener};
use crate::ddata::state::key::Key;
use crate::ident::UniqueAddress;
use crate::journal::state::StoreId;
use crate::kv::protocol::hints::{HintAnswer, HintAsk, HintStatement, HintWanted};
use crate::kv::protocol::{BucketBody, Rejection};
use crate::kv::replica::EPOCHS_AHEAD_MAX;
use crate::kv::state::configuration::Configuration;
use crate::kv::state::entry::KvEntry;
use crate::kv::state::exchange::{KvAnswer, KvRefusal, merged};
use crate::kv::state::settings::range_of;
use crate::kv::state::table::RangeId;
use crate::ordered::{OrderedMap, OrderedSet};
use crate::time::Now;

/// Hints of a bucket that a store keeps at most: the first calls of an absence, the rest is for the trees.
pub(in crate::kv) const HINTS_MAX: usize = 65_536;

/// Which part of the bytes that a store may hold its hints may take beside.
const HINTS_PART: usize = 16;

/// Which part of the tombstones' grace a hint lives: the other half is for the call that brought it, for the
/// one that gives it to its owner, and for what clocks differ.
const LIFE_PART: u64 = 2;

/// What is kept for one owner of one key.
#[derive(Clone, Debug)]
struct Hint {
    entry: KvEntry,
    /// Since when hints have held some of it, in milliseconds since the Unix epoch.
    since_ms: u64,
}

/// What has happened since that was asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::kv) struct HintCounts {
    pub(in crate::kv) kept: u64,
    pub(in crate::kv) expired: u64,
    pub(in crate::kv) refused: u64,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Hints {
    held: OrderedMap<StoreId, OrderedMap<Key, Hint>>,
    /// Each of them, the one that was kept first in front.
    ages: OrderedSet<(u64, StoreId, Key)>,
    bytes: usize,
    counts: HintCounts,
}

impl Hints {
    fn get(&self, owner: StoreId, key: &Key) -> Option<&Hint> {
        self.held.get(&owner)?.get(key)
    }

    /// What the node's store is to keep of a hint.
    pub(super) fn stored(&self, owner: StoreId, key: &Key) -> Option<Vec<u8>> {
        let hint = self.get(owner, key)?;
        let mut out = Vec::from(hint.since_ms.to_le_bytes());
        // What is held can be written.
        out.extend(hint.entry.encode().ok()?);
        Some(out)
    }

    pub(super) fn insert(&mut self, owner: StoreId, key: Key, entry: KvEntry, since_ms: u64) {
        self.remove(owner, &key);
        self.bytes = self.bytes.saturating_add(held_bytes(&key, &entry));
        self.ages.insert((since_ms, owner, key.clone()));
        let hints = self.held.entry(owner).or_default();
        hints.insert(key, Hint { entry, since_ms });
    }

    fn remove(&mut self, owner: StoreId, key: &Key) {
        let Some(hints) = self.held.get_mut(&owner) else {
            return;
        };
        if let Some(hint) = hints.remove(key) {
            self.bytes = self.bytes.saturating_sub(held_bytes(key, &hint.entry));
            self.ages.remove(&(hint.since_ms, owner, key.clone()));
        }
        if hints.is_empty() {
            self.held.remove(&owner);
        }
    }

    /// Takes in what an owner is to have; whether that changed anything.
    fn keep(
        &mut self,
        (owner, key): (StoreId, &Key),
        theirs: &KvEntry,
        since_ms: u64,
        bytes_max: usize,
    ) -> Result<bool, KvRefusal> {
        let (before, since_ms) = match self.get(owner, key) {
            Some(hint) if hint.entry.holds(theirs) => return Ok(false),
            // What it holds beside is no younger for that.
            Some(hint) if !theirs.holds(&hint.entry) => (hint.entry.clone(), hint.since_ms.min(since_ms)),
            Some(hint) => (hint.entry.clone(), since_ms),
            None => (KvEntry::default(), since_ms),
        };
        let entry = merged(&before, theirs)?;
        let bytes = self.bytes.saturating_sub(held_bytes(key, &before)) + held_bytes(key, &entry);
        let count = self.ages.len() + usize::from(before.is_empty());
        if bytes > bytes_max || count > HINTS_MAX {
            return Err(KvRefusal::NoHint);
        }
        self.insert(owner, key.clone(), entry, since_ms);
        Ok(true)
    }
}

impl BucketStore {
    /// A node asks it in place of an owner.
    pub(in crate::kv) fn on_hint_ask(
        &mut self,
        from: &UniqueAddress,
        asked: &HintAsk,
        known: Option<&Configuration>,
        now: Now,
    ) -> Result<(), Rejection> {
        let (range, owners) = (asked.range, &asked.configuration.owners);
        if range.0 >= self.settings.ranges {
            return Err(Rejection::NoRange(range));
        }
        if range_of(&asked.key, self.settings.ranges) != range {
            return Err(Rejection::KeyElsewhere(range));
        }
        let is_owners = owners.sets().0.len() == self.settings.levels.copies();
        let stands_in = owners.contains(asked.owner) && !owners.contains(self.id);
        if !(self.settings.is_sloppy && is_owners && stands_in) {
            return Err(Rejection::NoStandIn);
        }
        if !self.has_room() {
            return Ok(());
        }
        let own = self.ranges.get(&range).and_then(|held| held.configuration());
        let known = own.into_iter().chain(known).max_by_key(|known| known.epoch);
        let epoch = asked.configuration.epoch;
        let outcome = match known {
            Some(known) if known.epoch > epoch => Err(KvRefusal::OtherConfiguration(known.clone())),
            known if epoch > known.map_or(0, |known| known.epoch) + EPOCHS_AHEAD_MAX => {
                Err(KvRefusal::TooFarAhead)
            }
            Some(_) | None => self.obey_hint(asked, now.unix_ms),
        };
        let (age_ms, answer) = outcome.unwrap_or_else(|refusal| {
            let is_other = matches!(refusal, KvRefusal::OtherConfiguration(_));
            self.hints.counts.refused += u64::from(!is_other);
            (0, KvAnswer::Refused(refusal))
        });
        let answered = HintAnswer {
            store: self.id,
            owner: asked.owner,
            call: asked.call,
            step: asked.step,
            epoch,
            age_ms,
            answer,
        };
        let body = BucketBody::Hint(Box::new(HintStatement::Answer(answered)));
        self.say(Listener::Node(from.clone()), body);
        Ok(())
    }

    fn obey_hint(&mut self, asked: &HintAsk, now_ms: u64) -> Result<(u64, KvAnswer), KvRefusal> {
        self.expire_hints(now_ms);
        let (entry, age_ms) = match &asked.wanted {
            HintWanted::Held => return Ok(self.hinted(&asked.key, now_ms)),
            HintWanted::Keep { entry, age_ms } => (entry, *age_ms),
        };
        if entry.register.is_some() {
            return Err(KvRefusal::Conditional);
        }
        if age_ms >= self.hint_life_ms() {
            return Err(KvRefusal::NoHint);
        }
        let of = (asked.owner, &asked.key);
        let bytes_max = self.settings.bytes_max / HINTS_PART;
        if self
            .hints
            .keep(of, entry, now_ms.saturating_sub(age_ms), bytes_max)?
        {
            self.hints.counts.kept += 1;
            self.note_hint(asked.owner, &asked.key);
        }
        Ok((0, KvAnswer::Done))
    }

    /// What hints hold of a key, and for how long some of it.
    fn hinted(&self, key: &Key, now_ms: u64) -> (u64, KvAnswer) {
        let mut all = KvEntry::default();
        let mut since_ms = now_ms;
        for hint in self.hints.held.values().filter_map(|hints| hints.get(key)) {
            all.siblings.join(&hint.entry.siblings);
            since_ms = since_ms.min(hint.since_ms);
        }
        all.expire(now_ms);
        (now_ms - since_ms, KvAnswer::Held(all))
    }

    fn note_hint(&mut self, owner: StoreId, key: &Key) {
        if self.is_durable {
            self.unkept.hints.insert((owner, key.clone()));
        }
    }

    const fn hint_life_ms(&self) -> u64 {
        self.settings.grace_ms / LIFE_PART
    }

    /// Drops hints that were kept for so long that what overwrote them may be forgotten before they arrive.
    pub(in crate::kv) fn expire_hints(&mut self, now_ms: u64) {
        let life_ms = self.hint_life_ms();
        let is_over = |(since_ms, _, _): &&(u64, StoreId, Key)| since_ms.saturating_add(life_ms) <= now_ms;
        while let Some((_, owner, key)) = self.hints.ages.first().filter(is_over).cloned() {
            self.hints.remove(owner, &key);
            self.hints.counts.expired += 1;
            self.note_hint(owner, &key);
        }
    }

    /// The owner has what was kept for it, or refuses it for good: what came since then stays.
    pub(in crate::kv) fn drop_hint(&mut self, owner: StoreId, key: &Key, sent: &KvEntry) {
        if self
            .hints
            .get(owner, key)
            .is_some_and(|hint| sent.holds(&hint.entry))
        {
            self.hints.remove(owner, key);
            self.note_hint(owner, key);
        }
    }

    /// Hints that it keeps for owners that are away.
    #[must_use]
    pub fn hints(&self) -> usize {
        self.hints.ages.len()
    }

    /// How many of them are about keys of which range. Linear in the hints.
    #[must_use]
    pub fn hints_by_range(&self) -> OrderedMap<RangeId, usize> {
        let mut counts = OrderedMap::new();
        for (_, _, key) in self.hints.ages.iter() {
            *counts.entry(range_of(key, self.settings.ranges)).or_default() += 1;
        }
        counts
    }

    /// Whether others lose something if it ends.
    pub(in crate::kv) fn is_needed(&self) -> bool {
        self.owns_anything() || self.hints() > 0
    }

    /// For whom it keeps hints.
    pub(in crate::kv) fn hinted_owners(&self) -> impl Iterator<Item = StoreId> {
        self.hints.held.keys().copied()
    }

    /// What it keeps for an owner, by key, behind this one.
    pub(in crate::kv) fn hints_for(
        &self,
        owner: StoreId,
        after: Option<&Key>,
    ) -> impl Iterator<Item = (&Key, &KvEntry)> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let hints = self.hints.held.get(&owner).into_iter();
        let hints = hints.flat_map(move |hints| hints.range((from, Bound::Unbounded)));
        hints.map(|(key, hint)| (key, &hint.entry))
    }

    /// What has happened to hints since the last call.
    pub(in crate::kv) fn take_hint_counts(&mut self) -> HintCounts {
        core::mem::take(&mut self.hints.counts)
    }
}
