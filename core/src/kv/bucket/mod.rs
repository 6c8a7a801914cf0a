//! A bucket as one node has opened it: whether its settings are those of the others, who owns its ranges as
//! far as is known, where the stores are, and this node's own store. Spec: sharding 10.11, 10.19.

mod stand_ins;

use alloc::vec::Vec;

use super::hosting::{BucketStore, StoredBucket};
use super::protocol::{RangeStatement, StoreAt};
use super::state::clock::Actor;
use super::state::configuration::Configuration;
use super::state::settings::BucketSettings;
use super::state::table::{RangeEntry, RangeId, RangeLevels, TableChange};
use crate::ident::UniqueAddress;
use crate::input::Token as CallerToken;
use crate::journal::state::StoreId;
use crate::ordered::OrderedMap;
use crate::time::Instant;
use crate::token::Token;
use crate::view::View;

/// What the cluster makes of the settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BucketStanding {
    /// Nothing yet: nobody may hear of this bucket.
    Pending,
    /// They stand; its coordinator is asked for the table.
    Looking,
    /// Its coordinator has the same.
    Accepted,
    /// Others stand.
    Refused,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct OpenBucket {
    settings: BucketSettings,
    levels: RangeLevels,
    pub(super) standing: BucketStanding,
    /// Callers who wait for that.
    pub(super) waits: Vec<CallerToken>,
    known: OrderedMap<RangeId, Configuration>,
    /// Where the stores are, by the coordinator of this term.
    nodes: OrderedMap<StoreId, UniqueAddress>,
    term: Token,
    /// Who has made the last version that an owner made for this node.
    actors: OrderedMap<(RangeId, StoreId), Actor>,
    /// A store is named of which it is not known where it is, or a newer configuration was met.
    is_behind: bool,
    looked_at: Option<Instant>,
    /// What the node's store holds of it, until its settings stand and are kept.
    pub(super) loaded: Option<StoredBucket>,
    /// This node's store, if it has the bucket's role.
    pub(super) store: Option<BucketStore>,
}

impl OpenBucket {
    pub(super) const fn new(settings: BucketSettings, levels: RangeLevels) -> Self {
        Self {
            settings,
            levels,
            standing: BucketStanding::Pending,
            waits: Vec::new(),
            known: OrderedMap::new(),
            nodes: OrderedMap::new(),
            term: Token::NONE,
            actors: OrderedMap::new(),
            is_behind: false,
            looked_at: None,
            loaded: None,
            store: None,
        }
    }

    /// Whether it has a store that has read what the node's store holds.
    pub(super) const fn has_durable_store(&self) -> bool {
        self.settings.is_durable && self.store.is_some()
    }

    /// How it was opened.
    #[must_use]
    pub const fn settings(&self) -> &BucketSettings {
        &self.settings
    }

    pub(super) const fn levels(&self) -> RangeLevels {
        self.levels
    }

    /// This node's store, if it has the bucket's role.
    #[must_use]
    pub const fn store(&self) -> Option<&BucketStore> {
        self.store.as_ref()
    }

    /// Who owns a range, as far as is known.
    #[must_use]
    pub fn configuration(&self, range: RangeId) -> Option<&Configuration> {
        self.known.get(&range)
    }

    /// Where a store is, as far as is known.
    #[must_use]
    pub fn node_of(&self, store: StoreId) -> Option<&UniqueAddress> {
        self.nodes.get(&store)
    }

    /// Whether the cluster has accepted its settings.
    pub(super) const fn stands(&self) -> bool {
        matches!(self.standing, BucketStanding::Looking | BucketStanding::Accepted)
    }

    /// Whether this node and the others have opened it with the same settings.
    #[must_use]
    pub fn is_accepted(&self) -> bool {
        self.standing == BucketStanding::Accepted
    }

    /// Whether the coordinator is to be asked for the table.
    pub(super) fn needs_table(&self) -> bool {
        let is_whole = self.known.len() == usize::from(self.settings.ranges);
        match self.standing {
            BucketStanding::Looking => true,
            BucketStanding::Accepted => !is_whole || self.is_behind,
            BucketStanding::Pending | BucketStanding::Refused => false,
        }
    }

    /// The question for the table, if it is time for it.
    pub(super) fn look(&mut self, now: Instant, again: core::time::Duration) -> Option<RangeStatement> {
        let is_due = self.looked_at.is_none_or(|at| now.since(at) >= again);
        if !is_due || !self.needs_table() {
            return None;
        }
        self.looked_at = Some(now);
        Some(self.question())
    }

    /// What says that it is open here.
    pub(super) fn question(&self) -> RangeStatement {
        RangeStatement::Look {
            settings: self.settings.clone(),
            store: self.store.as_ref().map(BucketStore::id),
        }
    }

    /// Where to send what is for a store. A durable one goes on in another process, which its coordinator
    /// knows: who knows of none that is a member asks for the table.
    pub(super) fn place_of(&mut self, store: StoreId, view: &View) -> Option<UniqueAddress> {
        let node = self.nodes.get(&store).filter(|node| view.member(node).is_some());
        let node = node.cloned();
        self.is_behind |= node.is_none();
        node
    }

    /// A message cannot be sent, because nobody has said where its store is.
    pub(super) const fn miss(&mut self) {
        self.is_behind = true;
    }

    /// The coordinator says who owns what and where the stores are.
    pub(super) fn on_table(&mut self, term: Token, stores: Vec<StoreAt>, table: TableChange) {
        if term < self.term {
            return;
        }
        self.term = term;
        self.is_behind = false;
        self.nodes = stores.into_iter().map(|at| (at.store, at.node)).collect();
        for (range, entry) in table.entries {
            self.learn(range, &entry);
        }
        self.standing = BucketStanding::Accepted;
    }

    /// An owner says who owns a range now.
    pub(super) fn on_configuration(&mut self, range: RangeId, configuration: &Configuration) {
        let entry = RangeEntry {
            configuration: configuration.clone(),
            levels: self.levels,
        };
        if self.learn(range, &entry)
            && configuration
                .owners
                .all()
                .any(|store| self.node_of(store).is_none())
        {
            self.is_behind = true;
        }
    }

    fn learn(&mut self, range: RangeId, entry: &RangeEntry) -> bool {
        let is_possible = range.0 < self.settings.ranges && entry.levels == self.levels;
        let known = self.known.get(&range).map_or(0, |known| known.epoch);
        let is_newer = entry.configuration.epoch > known;
        if !is_possible || !is_newer || entry.check().is_err() {
            return false;
        }
        let configuration = entry.configuration.clone();
        self.actors
            .retain(|(of, store), _| *of != range || configuration.owners.contains(*store));
        self.known.insert(range, configuration);
        true
    }

    /// An owner has said who makes versions there.
    pub(super) fn on_actor(&mut self, range: RangeId, actor: Actor) {
        let owners = self.known.get(&range).map(|known| &known.owners);
        if owners.is_some_and(|owners| owners.contains(actor.store)) {
            self.actors.insert((range, actor.store), actor);
        }
    }

    /// Owners that may make a version: this node's own store first, then those that can be reached.
    pub(super) fn minters(&self, range: RangeId, view: &View) -> Vec<(StoreId, Option<Actor>)> {
        let own = self.store.as_ref().map(BucketStore::id);
        let owners = self.known.get(&range).map(|known| known.owners.all());
        let mut owners: Vec<StoreId> = owners.into_iter().flatten().collect();
        owners.sort_by_key(|store| {
            let node = self.node_of(*store);
            let is_there = node.is_some_and(|node| view.member(node).is_some() && view.is_reachable(node));
            (Some(*store) != own, !is_there)
        });
        let actor = |store: StoreId| self.actors.get(&(range, store)).copied();
        owners.into_iter().map(|store| (store, actor(store))).collect()
    }
}
