//! This node's store of one bucket: answers what owners are asked, adopts who owns what, and gets what it
//! lacks of ranges that it is to own. Says what it says to nodes and to stores; where stores are it does not
//! know. Spec: sharding 10.19 b.

mod range;

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::mem;
use core::time::Duration;

pub use self::range::HostedRange;
use self::range::PART_LIMITS;
use super::moving::{Arrival, ArrivalEffect};
use super::protocol::{
    AdoptedRange, BucketBody, Event, OwnerAnswer, OwnerAsk, RANGES_PER_MESSAGE_MAX, RangeContent,
    RangeStatement, Rejection,
};
use super::replica::{Adoption, ReplicaSettings};
use super::state::configuration::Configuration;
use super::state::exchange::{KvAnswer, KvRefusal};
use super::state::part::{RangeItem, RangePart};
use super::state::table::{RangeId, RangeLevels};
use crate::ident::UniqueAddress;
use crate::journal::state::StoreId;
use crate::ordered::OrderedMap;
use crate::store::Bytes;
use crate::time::{Instant, Now};
use crate::token::Token;

/// What a store that is kept in memory counts as its openings: it has one.
const BOOT: u64 = 1;

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
}

/// See the module.
#[derive(Clone, Debug)]
pub struct BucketStore {
    id: StoreId,
    settings: HostSettings,
    ranges: OrderedMap<RangeId, HostedRange>,
    /// The highest term in which a coordinator has spoken.
    term: Token,
    said: Vec<(Listener, BucketBody)>,
    news: Vec<Event>,
}

impl BucketStore {
    /// A store that holds nothing.
    pub(super) const fn new(id: StoreId, settings: HostSettings) -> Self {
        Self {
            id,
            settings,
            ranges: OrderedMap::new(),
            term: Token::NONE,
            said: Vec::new(),
            news: Vec::new(),
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

    /// What it has said since the last call, in its order.
    pub(super) fn take_said(&mut self) -> Vec<(Listener, BucketBody)> {
        mem::take(&mut self.said)
    }

    /// What users hear.
    pub(super) fn take_news(&mut self) -> Vec<Event> {
        mem::take(&mut self.news)
    }

    /// Whether it lacks something of a range.
    pub(super) fn is_arriving(&self) -> bool {
        self.ranges.values().any(|held| held.arrival.is_some())
    }

    fn say(&mut self, to: Listener, statement: RangeStatement) {
        self.said.push((to, BucketBody::Ranges(statement)));
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
        self.adopt(asked.range, &asked.configuration, now.mono)?;
        let epoch = asked.configuration.epoch;
        let answer = match self.ranges.get_mut(&asked.range) {
            Some(held) => held.answer(&asked.key, epoch, &asked.ask, now.unix_ms),
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
        self.said.push((to, BucketBody::Answer(Box::new(answered))));
        Ok(())
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
                let of_range = ReplicaSettings {
                    copies: settings.levels.copies(),
                    grace_ms: settings.grace_ms,
                };
                let Some(new) = HostedRange::open(of_range, (me, BOOT)) else {
                    return Ok(());
                };
                opened.insert(new)
            }
        };
        let was_owner = held.is_settled_owner(me);
        let Ok(adoption @ (Adoption::New | Adoption::Dropped)) = held.replica.adopt(named) else {
            return Ok(());
        };
        if adoption == Adoption::Dropped {
            held.clear();
        }
        let is_newcomer = named.owners.newcomer() == Some(me);
        let timing = (now, settings.ask_again);
        held.arrival = Some(named)
            .filter(|_| is_newcomer)
            .and_then(|named| Arrival::new(named, settings.levels, PART_LIMITS, timing));
        let is_owner = held.is_settled_owner(me);
        if is_owner && !was_owner {
            self.news.push(Event::OwnerOf { range });
        } else if was_owner && !is_owner {
            self.news.push(Event::OwnerNoMore { range });
        }
        if let Some(opened) = opened {
            self.ranges.insert(range, opened);
        }
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
        self.say(Listener::Node(from.clone()), adopted);
        Ok(())
    }

    /// The coordinator asks what is known.
    pub(super) fn on_recall(&mut self, from: &UniqueAddress, term: Token) {
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
            self.say(Listener::Node(from.clone()), statement);
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
        self.adopt(range, configuration, now)?;
        if let Some(held) = self.ranges.get(&range) {
            let (store, epoch) = (self.id, held.epoch());
            self.say(
                Listener::Node(from.clone()),
                RangeStatement::Refuses { store, range, epoch },
            );
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
        let to = Listener::Node(from.clone());
        self.said.push((to, BucketBody::Content(content)));
        Ok(true)
    }

    /// An owner refuses what was before.
    pub(super) fn on_refuses(&mut self, owner: StoreId, (range, epoch): (RangeId, u64), now: Instant) {
        let held = self.ranges.get_mut(&range);
        if let Some(arrival) = held.and_then(|held| held.arrival.as_mut()) {
            arrival.on_refusal(owner, epoch, now);
            self.arrive(range);
        }
    }

    /// An owner has sent a part of what it holds; whether it was merged.
    pub(super) fn on_part(
        &mut self,
        owner: StoreId,
        (range, epoch): (RangeId, u64),
        (after, part): (Option<&[u8]>, RangePart),
        now: Instant,
    ) -> Result<bool, Rejection> {
        let held = self.ranges.get_mut(&range);
        let Some(arrival) = held.and_then(|held| held.arrival.as_mut()) else {
            return Ok(false);
        };
        arrival.on_part(owner, (epoch, after), part)?;
        let mut is_merged = false;
        for effect in arrival.take_effects() {
            match effect {
                ArrivalEffect::Merge { owner, items } => {
                    self.merge(range, &items)?;
                    is_merged = true;
                    let held = self.ranges.get_mut(&range);
                    if let Some(arrival) = held.and_then(|held| held.arrival.as_mut()) {
                        arrival.on_kept(owner, now);
                    }
                }
                other => self.pull(range, other),
            }
        }
        self.arrive(range);
        Ok(is_merged)
    }

    fn merge(&mut self, range: RangeId, items: &[RangeItem]) -> Result<(), Rejection> {
        let Some(held) = self.ranges.get_mut(&range) else {
            return Ok(());
        };
        let epoch = held.epoch();
        for item in items {
            let taken = held.take_over(epoch, item);
            taken.and_then(Result::ok).ok_or(Rejection::Entry)?;
        }
        Ok(())
    }

    /// Asks for what is lacking of a range.
    fn arrive(&mut self, range: RangeId) {
        let held = self.ranges.get_mut(&range);
        let arrival = held.and_then(|held| held.arrival.as_mut());
        let effects = arrival.map(Arrival::take_effects).unwrap_or_default();
        for effect in effects {
            self.pull(range, effect);
        }
    }

    fn pull(&mut self, range: RangeId, effect: ArrivalEffect) {
        let Some(held) = self.ranges.get(&range) else {
            return;
        };
        let Some(configuration) = held.configuration().cloned() else {
            return;
        };
        match effect {
            ArrivalEffect::AskRefusal { owner } => self.say(
                Listener::Store(owner),
                RangeStatement::Refuse {
                    store: owner,
                    range,
                    configuration,
                },
            ),
            ArrivalEffect::AskPart { owner, after } => {
                let content = RangeContent::Pull {
                    store: owner,
                    range,
                    configuration,
                    after,
                };
                self.said
                    .push((Listener::Store(owner), BucketBody::Content(content)));
            }
            ArrivalEffect::Report => {
                let adopted = AdoptedRange {
                    range,
                    epoch: configuration.epoch,
                    merged: held.merged().collect(),
                };
                let (term, store) = (self.term, self.id);
                let ranges = [adopted].into();
                let statement = RangeStatement::Adopted { term, store, ranges };
                self.say(Listener::Coordinator, statement);
            }
            // Merged where it came.
            ArrivalEffect::Merge { .. } => {}
        }
    }

    /// Asks again who has not answered.
    pub(super) fn on_tick(&mut self, now: Instant) {
        let arriving = self.ranges.iter_mut();
        let arriving = arriving.filter_map(|(range, held)| {
            held.arrival.as_mut()?.on_tick(now);
            Some(*range)
        });
        let arriving: Vec<RangeId> = arriving.collect();
        for range in arriving {
            self.arrive(range);
        }
    }

    /// The calls of an incarnation are over.
    pub(super) fn forget_origin(&mut self, origin: u64) {
        for held in self.ranges.values_mut() {
            held.replica.forget_origin(origin);
        }
    }
}
