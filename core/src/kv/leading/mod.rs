//! Drives the coordinator of one bucket's ranges while this node is the oldest member of the bucket's role:
//! finds out which member has which store, hands the coordinator what it has to know, and does what it asks
//! for. What is decided is the coordinator's. Spec: sharding 10.1, 10.13, 10.19 a and b.
//!
//! With `journal.voters` above 0 voters keep the table (`ledger`); else it is found again from what stores
//! have adopted.

mod ledger;

use alloc::sync::Arc;
use alloc::vec::Vec;

use self::ledger::TableLedger;
pub use self::ledger::table_log;
use super::protocol::ranges::{RangeCommand, RangeCommandError, RangeEvent};
use super::protocol::{AdoptedRange, BucketBody, Event, RangeContent, RangeStatement, Rejection, StoreAt};
use super::ranges::{RangeCoordinator, RangeEffect, RangeSettings, RangeStore};
use super::state::bucket::BucketName;
use super::state::configuration::Configuration;
use super::state::settings::BucketSettings;
use super::state::table::{RangeId, RangeLevels, RangeTable};
use super::{Cx, send};
use crate::config::ValidConfig;
use crate::ident::UniqueAddress;
use crate::journal::state::StoreId;
use crate::membership::state::member::{Member, Status};
use crate::ordered::{OrderedMap, OrderedSet};
use crate::planner::NodeStanding;
use crate::planner::gate::gate_of;
use crate::time::Instant;
use crate::token::Token;
use crate::view::View;

/// See the module.
#[derive(Clone, Debug)]
pub struct LeadBucket {
    settings: BucketSettings,
    /// Where voters keep the table.
    ledger: Option<TableLedger>,
    term: Token,
    coordinator: RangeCoordinator,
    /// Members of the role, as far as they have said which store they have; removed ones until their margin
    /// has passed.
    members: OrderedMap<UniqueAddress, Option<StoreId>>,
    /// Whether all have once.
    is_complete: bool,
    sought_at: Option<Instant>,
    /// Members that wait for a table.
    lookers: OrderedSet<UniqueAddress>,
    /// Whether users have heard that it decides.
    is_announced: bool,
    is_outdone: bool,
}

impl LeadBucket {
    /// Knows nothing yet.
    pub(super) fn new(
        bucket: &BucketName,
        (settings, levels): (BucketSettings, RangeLevels),
        term: Token,
        config: &ValidConfig,
        is_paused: bool,
    ) -> Self {
        let is_kept = config.journal.voters > 0;
        let mut coordinator = RangeCoordinator::new(RangeSettings {
            ranges: settings.ranges,
            levels,
            term,
            is_durable: settings.is_durable,
            is_kept,
            away_max: config.kv.away_max,
            tell_again: config.kv.repeat_interval,
            move_timeout: config.kv.move_timeout,
        });
        coordinator.on_paused(is_paused);
        Self {
            ledger: is_kept.then(|| TableLedger::new(bucket, settings.ranges, levels)),
            settings,
            term,
            coordinator,
            members: OrderedMap::new(),
            is_complete: false,
            sought_at: None,
            lookers: OrderedSet::new(),
            is_announced: false,
            is_outdone: false,
        }
    }

    /// How it was opened.
    pub(super) const fn settings(&self) -> &BucketSettings {
        &self.settings
    }

    /// Its term: the number of the oldest member, then how manieth of that member's coordinators it is.
    #[must_use]
    pub const fn term(&self) -> Token {
        self.term
    }

    /// Whether it decides; until then it looks for what was decided.
    #[must_use]
    pub fn is_active(&self) -> bool {
        self.coordinator.is_active()
    }

    /// What is decided.
    #[must_use]
    pub const fn table(&self) -> &RangeTable {
        self.coordinator.table()
    }

    /// Whose store is which.
    pub fn stores(&self) -> impl Iterator<Item = (StoreId, &UniqueAddress)> {
        let members = self.members.iter();
        members.filter_map(|(node, store)| Some(((*store)?, node)))
    }

    /// Whether its table was none: it is to be replaced.
    pub(super) const fn is_outdone(&self) -> bool {
        self.is_outdone
    }

    pub(super) fn on_paused(&mut self, is_paused: bool) {
        self.coordinator.on_paused(is_paused);
    }

    /// A member has opened the bucket, and looks for its table.
    pub(super) fn on_look(
        &mut self,
        cx: &mut Cx<'_>,
        bucket: &BucketName,
        from: &UniqueAddress,
        (settings, store): (&BucketSettings, Option<StoreId>),
    ) -> Result<(), Rejection> {
        if self.settings.differs_from(settings).is_some() {
            let settings = self.settings.clone();
            send_ranges(cx, from, bucket, RangeStatement::Differs { settings });
            return Ok(());
        }
        let view = Arc::clone(cx.view());
        let others = self
            .stores()
            .filter(|(known, node)| Some(*known) == store && *node != from);
        let others: Vec<_> = others.map(|(_, node)| node.clone()).collect();
        // The next incarnation at an address has the store of the one before.
        let is_anothers =
            |node: &UniqueAddress| node.address() != from.address() && view.member(node).is_some();
        if others.iter().any(is_anothers) {
            return Err(Rejection::NotItsStore);
        }
        for node in others {
            self.members.insert(node, None);
        }
        let member = cx.view().member(from);
        if member.is_some_and(|member| self.has_role(member)) {
            self.members.insert(from.clone(), store);
        }
        if self.is_active() {
            self.send_table(cx, bucket, from);
        } else {
            self.lookers.insert(from.clone());
        }
        Ok(())
    }

    /// A member has not opened the bucket.
    pub(super) fn on_not_open(&mut self, from: &UniqueAddress) {
        self.members.entry(from.clone()).or_insert(None);
    }

    /// A store says what it knows.
    pub(super) fn on_found(
        &mut self,
        (from, store): (&UniqueAddress, StoreId),
        known: &[(RangeId, Configuration)],
        is_last: bool,
    ) -> Result<(), Rejection> {
        self.check_store(from, store)?;
        self.coordinator.on_found(store, known, is_last);
        Ok(())
    }

    /// A store says what it has adopted.
    pub(super) fn on_adopted(
        &mut self,
        (from, store): (&UniqueAddress, StoreId),
        ranges: &[AdoptedRange],
    ) -> Result<(), Rejection> {
        self.check_store(from, store)?;
        for AdoptedRange { range, epoch, merged } in ranges {
            self.coordinator.on_adopted(store, *range, (*epoch, merged));
        }
        Ok(())
    }

    fn check_store(&self, from: &UniqueAddress, store: StoreId) -> Result<(), Rejection> {
        if self.members.get(from) == Some(&Some(store)) {
            Ok(())
        } else {
            Err(Rejection::NotItsStore)
        }
    }

    /// An operator commands something.
    pub(super) fn on_command(
        &mut self,
        command: RangeCommand,
        now: Instant,
    ) -> Result<(), RangeCommandError> {
        self.coordinator.on_command(command, now)
    }

    fn has_role(&self, member: &Member) -> bool {
        let role = self.settings.role.as_ref();
        role.is_none_or(|role| member.roles.contains(role))
    }

    /// Does what is due. To be called after everything that was heard, and every interval.
    pub(super) fn look(&mut self, cx: &mut Cx<'_>, bucket: &BucketName) {
        let (view, now) = (Arc::clone(cx.view()), cx.mono());
        self.claim_log(cx);
        self.count_members(cx, bucket, &view);
        if self.is_complete {
            let stores = self.members.iter().filter_map(|(node, store)| {
                let member = view.member(node);
                Some(RangeStore {
                    store: (*store)?,
                    standing: member.map_or(NodeStanding::Closed, |member| standing(&view, member)),
                    zone: member.and_then(|member| member.roles.zone()).map(Arc::from),
                })
            });
            let stores: Vec<RangeStore> = stores.collect();
            self.coordinator.on_stores(stores, now);
            if let Some(kept) = self.take_opened() {
                self.coordinator.on_opened(kept, now);
            }
            self.coordinator.look(now, gate_of(&view));
        }
        self.perform(cx, bucket);
        self.write(cx, bucket);
        if self.is_active() && !self.is_announced {
            self.is_announced = true;
            let (term, ranges) = (self.term, self.table().entries().len());
            cx.notify((bucket.clone(), Event::Coordinating { term, ranges }));
        }
        if self.is_active() && !self.lookers.is_empty() {
            for node in core::mem::take(&mut self.lookers) {
                self.send_table(cx, bucket, &node);
            }
        }
    }

    /// Asks members that have not said which store they have. At the beginning nobody may be missed who could
    /// still serve, removed or not.
    fn count_members(&mut self, cx: &mut Cx<'_>, bucket: &BucketName, view: &View) {
        let now = cx.mono();
        let role = self.settings.role.clone();
        let departures = cx.succession().departures();
        let stays = |node: &UniqueAddress| view.member(node).is_some() || departures.safe_at_of(node) > now;
        self.members.retain(|node, _| stays(node));
        self.lookers.retain(|node| view.member(node).is_some());
        let may_begin = departures.safe_at(role.as_ref(), |_| true) <= now;
        let members = view.by_age(role.as_ref()).into_iter().map(|member| &member.node);
        let silent: Vec<_> = members.filter(|node| !self.members.contains_key(*node)).collect();
        self.is_complete |= silent.is_empty() && may_begin;
        let again = cx.config().kv.repeat_interval;
        let is_due = self.sought_at.is_none_or(|at| now.since(at) >= again);
        if is_due && !silent.is_empty() {
            self.sought_at = Some(now);
            let term = self.term;
            for node in silent {
                send_ranges(cx, node, bucket, RangeStatement::Seek { term });
            }
        }
    }

    fn perform(&mut self, cx: &mut Cx<'_>, bucket: &BucketName) {
        let term = self.term;
        let mut is_given = false;
        for effect in self.coordinator.take_effects() {
            match effect {
                RangeEffect::Keep(change) => self.keep(change),
                RangeEffect::Ask { store } => {
                    if let Some(node) = self.node_of(store) {
                        send_ranges(cx, &node, bucket, RangeStatement::Recall { term, store });
                    }
                }
                RangeEffect::Tell { store, ranges } => {
                    if let Some(node) = self.node_of(store) {
                        send_ranges(cx, &node, bucket, RangeStatement::Tell { term, store, ranges });
                    }
                }
                RangeEffect::Repair { range } => {
                    let entry = self.table().get(range);
                    let owners = entry.map(|entry| entry.configuration.owners.all());
                    for store in owners.into_iter().flatten() {
                        if let Some(node) = self.node_of(store) {
                            let repair = RangeStatement::Repair { term, store, range };
                            send_ranges(cx, &node, bucket, repair);
                        }
                    }
                }
                RangeEffect::Outdone => {
                    self.is_outdone = true;
                    cx.notify((bucket.clone(), Event::CoordinatorOutdone));
                }
                RangeEffect::Notify(event) => {
                    let counters = cx.counters();
                    match &event {
                        RangeEvent::MoveBegun { .. } => counters.moves_begun += 1,
                        RangeEvent::MoveEnded { .. } => counters.moves_ended += 1,
                        RangeEvent::MoveUndone { .. } => counters.moves_undone += 1,
                        RangeEvent::Given { .. } => is_given = true,
                        RangeEvent::CopiesLost { .. } | RangeEvent::MoveRefused { .. } => {}
                    }
                    cx.notify((bucket.clone(), Event::Ranges(event)));
                }
            }
        }
        if is_given {
            self.lookers.extend(self.members.keys().cloned());
        }
    }

    fn node_of(&self, store: StoreId) -> Option<UniqueAddress> {
        let mut stores = self.stores();
        stores
            .find(|(known, _)| *known == store)
            .map(|(_, node)| node.clone())
    }

    fn send_table(&self, cx: &mut Cx<'_>, bucket: &BucketName, to: &UniqueAddress) {
        let stores = self.stores().map(|(store, node)| StoreAt {
            store,
            node: node.clone(),
        });
        let content = RangeContent::Table {
            term: self.term,
            stores: stores.collect(),
            table: self.table().whole(),
        };
        send(cx, to, bucket, BucketBody::Content(content));
    }
}

fn send_ranges(cx: &mut Cx<'_>, to: &UniqueAddress, bucket: &BucketName, statement: RangeStatement) {
    send(cx, to, bucket, BucketBody::Ranges(statement));
}

/// Whether a member's store may be given something.
fn standing(view: &View, member: &Member) -> NodeStanding {
    match member.status {
        Status::Up if view.is_reachable(&member.node) => NodeStanding::Open,
        Status::Leaving | Status::Exiting => NodeStanding::Leaving,
        Status::Up
        | Status::Joining
        | Status::WeaklyUp
        | Status::PreparingForShutdown
        | Status::ReadyForShutdown
        | Status::Down
        | Status::Removed => NodeStanding::Closed,
    }
}
