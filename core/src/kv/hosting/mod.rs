//! This node's store of one bucket: answers what owners are asked, adopts who owns what, and gets what it
//! lacks of ranges that it is to own. Says what it says to nodes and to stores; where stores are it does not
//! know. Spec: sharding 10.19 b.

mod arriving;
mod comparing;
mod hints;
mod listing;
mod range;
mod room;
mod sweeping;
#[cfg(test)]
mod tests;
mod turns;
mod unkept;
mod watching;

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::mem;
use core::time::Duration;

use self::hints::Hints;
pub use self::range::HostedRange;
pub(super) use self::range::PART_LIMITS;
use self::room::HeldBytes;
pub(super) use self::sweeping::{SweepPlace, SweptKey};
pub(super) use self::turns::OpenTurn;
use self::unkept::{KeptTurn, StoredThing, Unkept};
use self::watching::Watchers;
use super::protocol::{
    AdoptedRange, BucketBody, Event, OwnerAnswer, OwnerAsk, RANGES_PER_MESSAGE_MAX, RangeContent,
    RangeStatement, Rejection,
};
use super::replica::{Adoption, ReplicaSettings};
use super::state::bucket::BucketName;
use super::state::configuration::Configuration;
use super::state::entry::KvEntry;
use super::state::exchange::{KvAnswer, KvRefusal};
use super::state::settings::{BucketSettings, range_of};
use super::state::table::{RangeId, RangeLevels};
use crate::ddata::state::key::Key;
use crate::ident::UniqueAddress;
use crate::journal::state::StoreId;
use crate::ordered::OrderedMap;
use crate::store::limits::CHANGES_PER_BATCH_MAX;
use crate::store::{Bytes, Change, StoreIdentity};
use crate::time::{Instant, Now};
use crate::token::Token;

/// What a store that is kept in memory counts as its openings: it has one.
const BOOT: u64 = 1;

/// What waits until the node's store has kept what came before, at most: as many answers as a commit has
/// changes, and as many bytes as a disk writes in a fraction of a second. What is asked beyond that is asked
/// again.
const WAITING_ANSWERS_MAX: usize = CHANGES_PER_BATCH_MAX;
const WAITING_BYTES_MAX: usize = 16 << 20;

/// To whom a store says something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Listener {
    /// A node.
    Node(UniqueAddress),
    /// The node that has this store.
    Store(StoreId),
    /// Who coordinates the ranges.
    Coordinator,
}

/// What bounds a store and what it goes by.
#[derive(Clone, Copy, Debug)]
pub(super) struct HostSettings {
    /// How many ranges the bucket has.
    pub(super) ranges: u16,
    /// Copies and least levels.
    pub(super) levels: RangeLevels,
    /// How long tombstones are kept.
    pub(super) grace_ms: u64,
    /// After which time an owner that owes a newcomer something is asked again.
    pub(super) ask_again: Duration,
    /// How many bytes it may hold before it takes nothing new.
    pub(super) bytes_max: usize,
    /// Whether it stands in for owners that are away.
    pub(super) is_sloppy: bool,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct BucketStore {
    id: StoreId,
    settings: HostSettings,
    ranges: OrderedMap<RangeId, HostedRange>,
    /// Whether the node's store keeps it.
    is_durable: bool,
    /// How often that was opened.
    boot: u64,
    unkept: Unkept,
    turn: Option<KeptTurn>,
    /// The highest term in which a coordinator has spoken.
    term: Token,
    /// What may be said as soon as what came before is kept.
    said: Vec<(Listener, BucketBody)>,
    /// Bytes of users in that.
    said_bytes: usize,
    /// What may be said.
    ready: Vec<(Listener, BucketBody)>,
    news: Vec<Event>,
    /// Keys taken over from other owners.
    repaired: u64,
    /// When it was last noted that it is open.
    seen_ms: Option<u64>,
    watchers: Watchers,
    held: HeldBytes,
    hints: Hints,
}

/// What the node's store holds of a bucket.
#[derive(Clone, Debug, Default)]
pub(super) struct StoredBucket {
    /// How it was opened; `None` if it never was.
    pub(super) settings: Option<BucketSettings>,
    pub(super) heads: OrderedMap<RangeId, Bytes>,
    pub(super) entries: OrderedMap<RangeId, OrderedMap<Key, KvEntry>>,
    /// For which owner what is kept, and since when.
    pub(super) hints: OrderedMap<(StoreId, Key), (u64, KvEntry)>,
    /// When it was last known to be open.
    pub(super) seen_ms: Option<u64>,
}

impl BucketStore {
    /// A store in memory, which holds nothing.
    pub(super) fn in_memory(id: StoreId, settings: HostSettings) -> Self {
        Self {
            id,
            settings,
            ranges: OrderedMap::new(),
            is_durable: false,
            boot: BOOT,
            unkept: Unkept::default(),
            turn: None,
            term: Token::NONE,
            said: Vec::new(),
            said_bytes: 0,
            ready: Vec::new(),
            news: Vec::new(),
            repaired: 0,
            seen_ms: None,
            watchers: Watchers::default(),
            held: HeldBytes::default(),
            hints: Hints::default(),
        }
    }

    /// The store of a durable bucket, with what the node's store holds of it. `None` if that is damaged.
    pub(super) fn open(
        identity: StoreIdentity,
        settings: HostSettings,
        stored: StoredBucket,
        now: Now,
    ) -> Option<Self> {
        let StoredBucket {
            heads,
            mut entries,
            hints,
            seen_ms,
            ..
        } = stored;
        let mut store = Self::in_memory(StoreId(identity.id), settings);
        (store.is_durable, store.boot) = (true, identity.boot);
        for ((owner, key), (since_ms, entry)) in hints {
            store.hints.insert(owner, key, entry, since_ms);
        }
        for (range, head) in heads {
            let held = entries.remove(&range).unwrap_or_default();
            let held = HostedRange::open(store.of_range(), (store.id, store.boot), Some(&head), held)?;
            store.held.add(held.bytes());
            store.ranges.insert(range, held);
            // What it had merged it keeps, and merges all of it again.
            store.begin_arrival(range, now.mono);
            store.arrive(range);
        }
        if seen_ms.is_some_and(|seen_ms| store.was_away(seen_ms, now.unix_ms)) {
            store.set_behind();
        }
        store.note_seen(now.unix_ms);
        // What lies outside of any range was dropped, or was never said to be anybody's.
        entries.is_empty().then_some(store)
    }

    const fn of_range(&self) -> ReplicaSettings {
        ReplicaSettings {
            copies: self.settings.levels.copies(),
            grace_ms: self.settings.grace_ms,
        }
    }

    /// Its name.
    #[must_use]
    pub const fn id(&self) -> StoreId {
        self.id
    }

    /// The ranges of which it knows something: those that it owns, and those that it owned.
    pub fn ranges(&self) -> impl ExactSizeIterator<Item = (RangeId, &HostedRange)> {
        self.ranges.iter().map(|(range, held)| (*range, held))
    }

    /// Whether it is an owner of any range, or is to become one.
    #[must_use]
    pub fn owns_anything(&self) -> bool {
        let known = self.ranges.values().filter_map(HostedRange::configuration);
        known.into_iter().any(|known| known.owners.contains(self.id))
    }

    /// What may be said now, in its order: of a durable store nothing while something is not kept that came
    /// before.
    pub(super) fn take_said(&mut self, now: Instant) -> Vec<(Listener, BucketBody)> {
        if !self.is_durable {
            let unkept = mem::take(&mut self.unkept);
            self.on_merged(&unkept.merged, now);
        }
        if self.turn.is_none() && self.unkept.is_empty() {
            self.tell_watchers();
            self.ready.append(&mut self.said);
            self.said_bytes = 0;
        }
        mem::take(&mut self.ready)
    }

    /// What the node's store is to keep next of this durable one, if anything.
    pub(super) fn batch(&mut self, bucket: &BucketName) -> Option<Vec<Change>> {
        if self.turn.is_none() && !self.unkept.is_empty() {
            self.tell_watchers();
            let (unkept, said) = (mem::take(&mut self.unkept), mem::take(&mut self.said));
            self.said_bytes = 0;
            let (ranges, hints) = (&self.ranges, &self.hints);
            let stored = |thing: StoredThing<'_>| match thing {
                StoredThing::Head(range) => ranges.get(&range).map(|held| held.replica.head()),
                // What is held can be written.
                StoredThing::Entry(range, key) => ranges.get(&range)?.entry(key)?.encode().ok(),
                StoredThing::Hint(owner, key) => hints.stored(owner, key),
            };
            self.turn = Some(KeptTurn::new(bucket, unkept, said, stored));
        }
        self.turn.as_mut().map(KeptTurn::batch)
    }

    /// It is kept.
    pub(super) fn on_kept(&mut self, now: Instant) {
        if !self.turn.as_mut().is_some_and(KeptTurn::on_kept) {
            return;
        }
        let turn = self.turn.take().unwrap_or_default();
        self.ready.extend(turn.said);
        self.on_merged(&turn.merged, now);
    }

    /// What users hear.
    pub(super) fn take_news(&mut self) -> Vec<Event> {
        mem::take(&mut self.news)
    }

    fn say(&mut self, to: Listener, body: BucketBody) {
        self.said_bytes = self.said_bytes.saturating_add(body.bytes());
        self.said.push((to, body));
    }

    /// Whether more may wait for the node's store.
    const fn has_room(&self) -> bool {
        self.said.len() < WAITING_ANSWERS_MAX && self.said_bytes < WAITING_BYTES_MAX
    }

    /// Whether a coordinator with this term may speak: none with a higher one has.
    pub(super) fn hears(&mut self, term: Token) -> bool {
        self.term = self.term.max(term);
        term == self.term
    }

    /// An owner is asked about a key.
    pub(super) fn on_ask(
        &mut self,
        from: &UniqueAddress,
        asked: &OwnerAsk,
        now: Now,
    ) -> Result<(), Rejection> {
        if range_of(&asked.key, self.settings.ranges) != asked.range {
            return Err(Rejection::KeyElsewhere(asked.range));
        }
        if !self.has_room() {
            return Ok(());
        }
        self.adopt(asked.range, &asked.configuration, now.mono)?;
        let epoch = asked.configuration.epoch;
        let answered = self.with_range(asked.range, |held| {
            held.answer(&asked.key, epoch, &asked.ask, now.unix_ms)
        });
        let answer = match answered {
            Some(answered) => {
                self.note_refusal(&answered.answer);
                if answered.is_changed {
                    self.watchers.on_changed(&asked.key, &asked.ask);
                    self.note_key(asked.range, asked.key.clone());
                }
                answered.answer
            }
            None => KvAnswer::Refused(KvRefusal::NoOwner),
        };
        let answered = OwnerAnswer {
            store: self.id,
            call: asked.call,
            step: asked.step,
            epoch,
            answer,
        };
        let to = Listener::Node(from.clone());
        self.say(to, BucketBody::Answer(Box::new(answered)));
        Ok(())
    }

    fn note_key(&mut self, range: RangeId, key: Key) {
        if self.is_durable {
            self.unkept.keys.insert((range, key));
        }
    }

    /// Somebody asks something under a configuration. Ranges of others are not noted.
    fn adopt(&mut self, range: RangeId, named: &Configuration, now: Instant) -> Result<(), Rejection> {
        if self.ranges.contains_key(&range) || named.owners.contains(self.id) {
            return self.note(range, named, now);
        }
        Ok(())
    }

    /// Somebody names the owners of a range.
    fn note(&mut self, range: RangeId, named: &Configuration, now: Instant) -> Result<(), Rejection> {
        let (me, settings) = (self.id, self.settings);
        if range.0 >= settings.ranges {
            return Err(Rejection::NoRange(range));
        }
        if named.owners.sets().0.len() != settings.levels.copies() {
            return Err(Rejection::Owners);
        }
        let mut opened = None;
        let held = match self.ranges.get_mut(&range) {
            Some(held) => held,
            None => {
                let new = HostedRange::open(self.of_range(), (me, self.boot), None, OrderedMap::new());
                let Some(new) = new else { return Ok(()) };
                opened.insert(new)
            }
        };
        let was_owner = held.is_settled_owner(me);
        let Ok(adoption @ (Adoption::New | Adoption::Dropped)) = held.replica.adopt(named) else {
            return Ok(());
        };
        if adoption == Adoption::Dropped {
            self.held.forget(held.bytes());
            held.clear();
        }
        if self.is_durable {
            self.unkept.heads.insert(range);
            if adoption == Adoption::Dropped {
                self.unkept.dropped.insert(range);
            }
        }
        let is_owner = held.is_settled_owner(me);
        if is_owner && !was_owner {
            self.news.push(Event::OwnerOf { range });
        } else if was_owner && !is_owner {
            self.news.push(Event::OwnerNoMore { range });
        }
        if let Some(opened) = opened {
            self.ranges.insert(range, opened);
        }
        self.begin_arrival(range, now);
        self.arrive(range);
        Ok(())
    }

    /// The coordinator says who owns what.
    pub(super) fn on_tell(
        &mut self,
        from: &UniqueAddress,
        term: Token,
        told: &[(RangeId, Configuration)],
        now: Instant,
    ) -> Result<(), Rejection> {
        if !self.has_room() {
            return Ok(());
        }
        let mut ranges = Vec::with_capacity(told.len());
        for (range, configuration) in told {
            // Who goes may have known nothing of it: it has to refuse what named it.
            self.note(*range, configuration, now)?;
            if let Some(held) = self.ranges.get(range) {
                ranges.push(AdoptedRange {
                    range: *range,
                    epoch: held.epoch(),
                    merged: held.merged().collect(),
                });
            }
        }
        let store = self.id;
        let adopted = RangeStatement::Adopted { term, store, ranges };
        self.say(Listener::Node(from.clone()), BucketBody::Ranges(adopted));
        Ok(())
    }

    /// The coordinator asks what is known.
    pub(super) fn on_recall(&mut self, from: &UniqueAddress, term: Token) {
        if !self.has_room() {
            return;
        }
        let known = self.ranges.iter();
        let known = known.filter_map(|(range, held)| Some((*range, held.configuration()?.clone())));
        let known: Vec<_> = known.collect();
        let mut parts = known.chunks(RANGES_PER_MESSAGE_MAX).peekable();
        let store = self.id;
        let found = |known: &[(RangeId, Configuration)], is_last| RangeStatement::Found {
            term,
            store,
            known: known.to_vec(),
            is_last,
        };
        let mut said = Vec::new();
        if parts.peek().is_none() {
            said.push(found(&[], true));
        }
        while let Some(part) = parts.next() {
            said.push(found(part, parts.peek().is_none()));
        }
        for statement in said {
            self.say(Listener::Node(from.clone()), BucketBody::Ranges(statement));
        }
    }

    /// A newcomer has this owner refuse what was before.
    pub(super) fn on_refuse(
        &mut self,
        from: &UniqueAddress,
        range: RangeId,
        configuration: &Configuration,
        now: Instant,
    ) -> Result<(), Rejection> {
        if !self.has_room() {
            return Ok(());
        }
        self.adopt(range, configuration, now)?;
        if let Some(held) = self.ranges.get(&range) {
            let (store, epoch) = (self.id, held.epoch());
            let refuses = RangeStatement::Refuses { store, range, epoch };
            self.say(Listener::Node(from.clone()), BucketBody::Ranges(refuses));
        }
        Ok(())
    }

    /// A newcomer asks for what this owner holds.
    pub(super) fn on_pull(
        &mut self,
        from: &UniqueAddress,
        (range, configuration): (RangeId, &Configuration),
        after: Option<Bytes>,
        now: Instant,
    ) -> Result<bool, Rejection> {
        if !self.has_room() {
            return Ok(false);
        }
        self.adopt(range, configuration, now)?;
        let Some(held) = self.ranges.get(&range) else {
            return Ok(false);
        };
        let (store, epoch) = (self.id, held.epoch());
        if epoch != configuration.epoch {
            return Ok(false);
        }
        let part = held.part(after.as_deref());
        let content = RangeContent::Part {
            store,
            range,
            epoch,
            after,
            part,
        };
        self.say(Listener::Node(from.clone()), BucketBody::Content(content));
        Ok(true)
    }

    /// The calls of an incarnation are over.
    pub(super) fn forget_origin(&mut self, origin: u64) {
        for held in self.ranges.values_mut() {
            held.replica.forget_origin(origin);
        }
        self.watchers.forget_origin(origin);
    }
}
