//! One range at one store: under which owners it answers, which versions it makes, and what it holds of the
//! keys that it is asked about. Entries are its host's, which hands them in, keeps what changed and gives
//! answers out in order, each once everything changed before it is kept. If that may have failed, the replica
//! is thrown away and opened again in the store's next boot. Never asks another store. Spec: sharding 10.7,
//! 10.19 b, c, g; reliability I-70 to I-75.

mod head;
mod minted;
mod room;

use alloc::vec::Vec;

use self::minted::MintedRequests;
use super::merkle::MerkleTree;
use super::moving::begins_empty;
use super::state::clock::{Actor, VersionClock, VersionDot};
use super::state::configuration::{Configuration, Owners};
use super::state::entry::KvEntry;
use super::state::exchange::{KvAnswer, KvAsk, KvRefusal, Mint, SettleStep, merged};
use super::state::siblings::Version;
use super::state::table::EPOCH_MAX;
use crate::bytes::WireError;
use crate::ddata::state::key::Key;
use crate::journal::state::StoreId;
use crate::ordered::{OrderedMap, OrderedSet};

/// How far a configuration may be above the one that is known, in epochs.
pub const EPOCHS_AHEAD_MAX: u64 = 1 << 32;

/// What adopting a configuration means for what the store holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adoption {
    /// It was known.
    Known,
    /// It is new: the head is to be kept.
    New,
    /// The store is to become an owner: the head is to be kept, and all entries of the range are dropped.
    Dropped,
}

/// An answer, and what has to be done before it is given out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnsweredAsk {
    /// What is answered.
    pub answer: KvAnswer,
    /// Whether the entry changed: it is to be kept first, and to be removed if it is empty.
    pub is_changed: bool,
}

/// What does not change while a range lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplicaSettings {
    /// N.
    pub copies: usize,
    /// How long what was deleted is remembered: longer than any message, call, hint or pause of the process
    /// lasts, and than the clocks of the stores differ.
    pub grace_ms: u64,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct RangeReplica {
    settings: ReplicaSettings,
    actor: Actor,
    /// The last dot that was given.
    count: u64,
    configuration: Option<Configuration>,
    /// The latest actor of each other owner, and the last dot that was seen of it.
    seen: OrderedMap<StoreId, VersionDot>,
    minted: MintedRequests,
    tree: MerkleTree,
    is_full: bool,
    /// Of one that was away for longer than the grace: the owners from which it has since taken what they
    /// hold, in the present epoch.
    behind: Option<OrderedSet<StoreId>>,
}

impl RangeReplica {
    /// The range in this store, which was opened for the `boot`th time, with the head that it kept.
    ///
    /// # Errors
    /// The bytes are none of [`Self::head`].
    pub fn open(
        settings: ReplicaSettings,
        store: StoreId,
        boot: u64,
        head: Option<&[u8]>,
    ) -> Result<Self, WireError> {
        let (since, configuration) = match head {
            Some(bytes) => head::decode(bytes).map(|(since, configuration)| (since, Some(configuration)))?,
            None => (0, None),
        };
        Ok(Self {
            settings,
            actor: Actor { store, boot, since },
            count: 0,
            configuration,
            seen: OrderedMap::new(),
            minted: MintedRequests::default(),
            tree: MerkleTree::new(),
            is_full: false,
            behind: None,
        })
    }

    /// What has to be kept whenever a configuration was adopted; empty if none was.
    #[must_use]
    pub fn head(&self) -> Vec<u8> {
        let configuration = self.configuration.as_ref();
        configuration.map_or_else(Vec::new, |configuration| {
            head::encode(self.actor.since, configuration)
        })
    }

    /// The store holds this since before it was opened.
    pub fn on_loaded(&mut self, key: &Key, entry: &KvEntry) {
        self.tree.update(key, 0, digest(key, entry));
        self.see(entry.siblings.clock());
    }

    /// Who makes versions here.
    #[must_use]
    pub const fn actor(&self) -> Actor {
        self.actor
    }

    /// The owners as far as is known.
    #[must_use]
    pub const fn configuration(&self) -> Option<&Configuration> {
        self.configuration.as_ref()
    }

    /// The sums of what is held.
    #[must_use]
    pub const fn tree(&self) -> &MerkleTree {
        &self.tree
    }

    /// It was away for longer than the grace: until it has caught up it answers no reads, makes no versions
    /// and forgets nothing, because what was sent to it before may still arrive.
    pub fn set_behind(&mut self) {
        self.behind = Some(OrderedSet::new());
    }

    /// Whether it is to catch up first.
    #[must_use]
    pub const fn is_behind(&self) -> bool {
        self.behind.is_some()
    }

    /// All that an owner held at this epoch is held here now. Enough have been heard once any read that this
    /// many owners answer would have found the same.
    pub fn on_caught_up(&mut self, owner: StoreId, epoch: u64, answers: usize) {
        let is_now = self.check(epoch).is_ok();
        if let Some(heard) = self.behind.as_mut().filter(|_| is_now) {
            heard.insert(owner);
            // Itself is one of them.
            if heard.len() + 1 >= answers {
                self.behind = None;
            }
        }
    }

    /// Whether it lacks what an owner holds.
    #[must_use]
    pub fn is_behind_of(&self, owner: StoreId) -> bool {
        self.behind.as_ref().is_some_and(|heard| !heard.contains(&owner))
    }

    /// The calls of an incarnation are over, because it is no member any more.
    pub fn forget_origin(&mut self, origin: u64) {
        self.minted.forget_origin(origin);
    }

    /// Somebody names the owners: with every request, and whenever they change. A request is handed to
    /// [`Self::answer`] whatever comes of this: it refuses by itself, and remembers what it refused.
    ///
    /// # Errors
    /// They are older than those that are known, or cannot be.
    pub fn adopt(&mut self, configuration: &Configuration) -> Result<Adoption, KvRefusal> {
        let known = self.configuration.as_ref().map_or(0, |known| known.epoch);
        if let Some(own) = self
            .configuration
            .as_ref()
            .filter(|_| configuration.epoch <= known)
        {
            return if own == configuration {
                Ok(Adoption::Known)
            } else {
                Err(KvRefusal::OtherConfiguration(own.clone()))
            };
        }
        let is_near = configuration.epoch <= known.saturating_add(EPOCHS_AHEAD_MAX).min(EPOCH_MAX);
        if configuration.epoch == 0 || !is_near || configuration.owners.check().is_err() {
            return Err(KvRefusal::TooFarAhead);
        }
        let own = self.actor.store;
        let is_first = self.configuration.is_none();
        let is_newcomer = begins_empty(own, self.configuration.as_ref(), configuration);
        if is_newcomer || is_first {
            self.actor.since = configuration.epoch;
            self.count = 0;
            self.minted = MintedRequests::default();
            self.tree = MerkleTree::new();
            self.seen.clear();
            self.behind = None;
        }
        if let Some(heard) = &mut self.behind {
            heard.clear();
        }
        self.seen.retain(|store, _| configuration.owners.contains(*store));
        self.configuration = Some(configuration.clone());
        Ok(if is_newcomer {
            Adoption::Dropped
        } else {
            Adoption::New
        })
    }

    /// Answers what it is asked about a key, of which the store holds `entry`, by somebody for whom the range
    /// is at `epoch`. Linear in the entry.
    pub fn answer(
        &mut self,
        (key, entry): (&Key, &mut KvEntry),
        epoch: u64,
        ask: &KvAsk,
        now_ms: u64,
    ) -> AnsweredAsk {
        let before = entry.clone();
        entry.expire(now_ms);
        let answer = if let KvAsk::Mint(mint) = ask {
            self.mint_once(entry, epoch, mint, now_ms)
        } else {
            self.check(epoch)
                .and_then(|()| self.obey((key, entry), ask, now_ms))
        };
        AnsweredAsk {
            answer: answer.unwrap_or_else(KvAnswer::Refused),
            is_changed: self.note(key, &before, entry),
        }
    }

    /// Keeps the tree up; whether the entry changed.
    fn note(&mut self, key: &Key, before: &KvEntry, after: &KvEntry) -> bool {
        let is_changed = before != after;
        if is_changed {
            self.tree.update(key, digest(key, before), digest(key, after));
        }
        is_changed
    }

    /// Takes in what an earlier owner holds, while this store is to become one. Linear in the entries.
    ///
    /// Whether the entry changed, so that it has to be kept.
    ///
    /// # Errors
    /// It owns the range already, or it is no message of this epoch: nothing changed.
    pub fn take_over(
        &mut self,
        (key, entry): (&Key, &mut KvEntry),
        epoch: u64,
        theirs: &KvEntry,
    ) -> Result<bool, KvRefusal> {
        self.check(epoch)?;
        let owners = self.configuration.as_ref().map(|known| &known.owners);
        if owners.and_then(Owners::newcomer) != Some(self.actor.store) {
            return Err(KvRefusal::NoOwner);
        }
        self.check_clock(theirs.siblings.clock())?;
        let before = entry.clone();
        entry.take_over(theirs);
        self.see(theirs.siblings.clock());
        Ok(self.note(key, &before, entry))
    }

    fn check(&self, epoch: u64) -> Result<(), KvRefusal> {
        let known = self.configuration.as_ref().ok_or(KvRefusal::NoOwner)?;
        if epoch != known.epoch {
            return Err(KvRefusal::OtherConfiguration(known.clone()));
        }
        if !known.owners.contains(self.actor.store) {
            return Err(KvRefusal::NoOwner);
        }
        Ok(())
    }

    /// Whether somebody for whom the range is at `epoch` may read here.
    pub(super) fn check_reads(&self, epoch: u64) -> Result<(), KvRefusal> {
        self.check(epoch)?;
        if self.is_behind() {
            return Err(KvRefusal::Behind);
        }
        Ok(())
    }

    fn obey(
        &mut self,
        (key, entry): (&Key, &mut KvEntry),
        ask: &KvAsk,
        now_ms: u64,
    ) -> Result<KvAnswer, KvRefusal> {
        match ask {
            KvAsk::Get | KvAsk::Promise(_) | KvAsk::Settle { .. } if self.is_behind() => {
                Err(KvRefusal::Behind)
            }
            KvAsk::Get | KvAsk::Mint(_) => Ok(KvAnswer::Held(entry.clone())),
            KvAsk::Promise(ballot) => {
                self.check_turn(entry)?;
                entry.promise_to(*ballot)?;
                Ok(KvAnswer::Held(entry.clone()))
            }
            KvAsk::Accept(accepted) => {
                entry.accept(accepted)?;
                Ok(KvAnswer::Done)
            }
            KvAsk::Extend { ballot, write } => {
                entry.extend(*ballot, write)?;
                Ok(KvAnswer::Done)
            }
            KvAsk::Merge(theirs) => {
                self.check_clock(theirs.siblings.clock())?;
                *entry = merged(entry, theirs)?;
                self.see(theirs.siblings.clock());
                Ok(KvAnswer::Done)
            }
            KvAsk::Settle { digest, step } => self.settle((key, entry), *digest, step, now_ms),
        }
    }

    /// Ends what is the same at all owners. Reaping and pruning forget what keeps older versions away, so
    /// there must be none: all N own the range in this epoch, and hold the same.
    fn settle(
        &self,
        (key, entry): (&Key, &mut KvEntry),
        digest: u64,
        step: &SettleStep,
        now_ms: u64,
    ) -> Result<KvAnswer, KvRefusal> {
        let owners = self.configuration.as_ref().map(|known| known.owners.sets());
        let is_whole = owners.is_some_and(|(own, to)| to.is_none() && own.len() == self.settings.copies);
        if !is_whole || entry.digest(key) != digest {
            return Err(KvRefusal::NotAlike);
        }
        match step {
            SettleStep::Compare => {}
            SettleStep::Reap if entry.is_dead_for(self.settings.grace_ms, now_ms) => {
                *entry = KvEntry::default()
            }
            SettleStep::Prune(actors) if actors.iter().all(|actor| self.is_over(*actor)) => {
                entry.forget(|actor| actors.contains(&actor));
            }
            SettleStep::Reap | SettleStep::Prune(_) => return Err(KvRefusal::NotAlike),
        }
        Ok(KvAnswer::Done)
    }

    /// Whether an actor gives no dots any more. Of a store that owns nothing here its host has to know that
    /// it is gone for good.
    #[must_use]
    pub fn is_over(&self, actor: Actor) -> bool {
        if actor.store == self.actor.store {
            return actor < self.actor;
        }
        let owners = self.configuration.as_ref().map(|known| &known.owners);
        let is_owner = owners.is_some_and(|owners| owners.contains(actor.store));
        let latest = self.seen.get(&actor.store);
        !is_owner || latest.is_some_and(|latest| actor < latest.actor)
    }

    fn mint_once(
        &mut self,
        entry: &mut KvEntry,
        epoch: u64,
        mint: &Mint,
        now_ms: u64,
    ) -> Result<KvAnswer, KvRefusal> {
        if mint.actor != self.actor {
            return Err(KvRefusal::OtherActor(self.actor));
        }
        let outcome = match self.minted.outcome(mint)? {
            Some(outcome) => outcome,
            None => {
                let outcome = self.mint(entry, epoch, mint, now_ms);
                self.minted.remember(mint.request, outcome.clone());
                outcome
            }
        };
        let entry = entry.clone();
        outcome.map(|dot| KvAnswer::Minted { dot, entry })
    }

    fn mint(
        &mut self,
        entry: &mut KvEntry,
        epoch: u64,
        mint: &Mint,
        now_ms: u64,
    ) -> Result<VersionDot, KvRefusal> {
        self.check(epoch)?;
        if self.is_behind() {
            return Err(KvRefusal::Behind);
        }
        self.check_clock(&mint.context)?;
        if !mint.is_proven {
            self.check_context(&mint.context)?;
        }
        let content = mint.change.content(now_ms)?;
        self.check_room(&content)?;
        entry.admits_versions()?;
        let dot = VersionDot {
            actor: self.actor,
            count: self.count + 1,
        };
        let version = Version {
            dot,
            at_ms: now_ms,
            content,
        };
        entry.siblings.put(version, &mint.context)?;
        self.see(&mint.context);
        self.count = dot.count;
        Ok(dot)
    }

    /// Nobody can have seen a dot of this store that it has not given.
    fn check_clock(&self, clock: &VersionClock) -> Result<(), KvRefusal> {
        let own = clock
            .entries()
            .iter()
            .filter(|entry| entry.actor.store == self.actor.store);
        let is_given =
            |actor: Actor, count: u64| actor < self.actor || (actor == self.actor && count <= self.count);
        if own.into_iter().all(|entry| is_given(entry.actor, entry.count)) {
            Ok(())
        } else {
            Err(KvRefusal::TooFarAhead)
        }
    }

    /// What a put overwrites was seen here: else the dots that its context covers might not have been
    /// given yet, and would be lost. Who gives none any more can lose none.
    fn check_context(&self, context: &VersionClock) -> Result<(), KvRefusal> {
        let is_seen = |actor: Actor, count: u64| {
            actor.store == self.actor.store
                || self.is_over(actor)
                || self
                    .seen
                    .get(&actor.store)
                    .is_some_and(|last| last.actor == actor && count <= last.count)
        };
        if context
            .entries()
            .iter()
            .all(|entry| is_seen(entry.actor, entry.count))
        {
            Ok(())
        } else {
            Err(KvRefusal::TooFarAhead)
        }
    }

    fn see(&mut self, clock: &VersionClock) {
        for entry in clock.entries() {
            let dot = VersionDot {
                actor: entry.actor,
                count: entry.count,
            };
            let owners = self.configuration.as_ref().map(|known| &known.owners);
            if dot.actor.store != self.actor.store
                && owners.is_some_and(|owners| owners.contains(dot.actor.store))
            {
                let last = self.seen.entry(dot.actor.store).or_insert(dot);
                *last = dot.max(*last);
            }
        }
    }
}

/// What a tree has of a key: nothing where nothing but a turn was promised.
fn digest(key: &Key, entry: &KvEntry) -> u64 {
    let is_held = !entry.siblings.is_empty() || entry.accepted().is_some();
    if is_held { entry.digest(key) } else { 0 }
}
