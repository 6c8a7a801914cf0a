//! The coordinator's rules, one by one.

use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use super::*;
use crate::kv::state::table::{RangeLevels, replaced};
use crate::planner::{ChangeReason, MoveError};
use crate::token::Token;

mod finding;
mod model;

const fn at(seconds: u64) -> Instant {
    Instant::from_micros(seconds * 1_000_000)
}

const fn id(store: u128) -> StoreId {
    StoreId(store)
}

fn settings(ranges: u16) -> RangeSettings {
    RangeSettings {
        ranges,
        levels: RangeLevels::new(3, 2, 2).unwrap(),
        term: Token { term: 0, count: 1 },
        is_durable: true,
        is_kept: true,
        away_max: Duration::from_secs(100),
        tell_again: Duration::from_secs(1),
        move_timeout: Duration::from_secs(50),
    }
}

fn open(store: u128) -> RangeStore {
    RangeStore {
        store: id(store),
        standing: NodeStanding::Open,
        zone: None,
    }
}

/// A coordinator that is told that what it decides is kept, and what it says by the way.
struct Driven {
    coordinator: RangeCoordinator,
    now: Instant,
    gate: PlanningGate,
}

impl Driven {
    fn new(settings: RangeSettings) -> Self {
        let is_kept = settings.is_kept;
        let mut coordinator = RangeCoordinator::new(settings);
        if is_kept {
            coordinator.on_opened(Some(RangeTable::new()), at(0));
        }
        let (now, gate) = (at(0), PlanningGate::Open);
        Self {
            coordinator,
            now,
            gate,
        }
    }

    /// A range that the stores 1, 2 and 3 own; 4 is there too.
    fn given() -> Self {
        let mut driven = Self::new(settings(1));
        driven.stores(1..=3);
        driven.look();
        assert_eq!(driven.owners(0), stable(1, [1, 2, 3]));
        driven.adopt([1, 2, 3], 1, &[]);
        driven.stores(1..=4);
        driven.look();
        driven
    }

    /// The same, and the first owner is being replaced by 4.
    fn moving() -> Self {
        let mut driven = Self::given();
        driven.command(RangeCommand::Move {
            range: RangeId(0),
            from: id(1),
            to: id(4),
        });
        driven.look();
        assert_eq!(driven.owners(0), joint(2, [1, 2, 3], (1, 4)));
        driven
    }

    fn stores(&mut self, stores: impl IntoIterator<Item = u128>) {
        self.coordinator.on_stores(stores.into_iter().map(open), self.now);
    }

    fn later(&mut self, seconds: u64) {
        self.now = self.now + Duration::from_secs(seconds);
    }

    fn command(&mut self, command: RangeCommand) {
        assert_eq!(self.coordinator.on_command(command, self.now), Ok(()));
    }

    /// Looks, until nothing is to be kept any more.
    fn look(&mut self) -> Vec<RangeEffect> {
        let mut effects = Vec::new();
        loop {
            self.coordinator.look(self.now, self.gate);
            let new = self.coordinator.take_effects();
            let keeps = new.iter().any(|effect| matches!(effect, RangeEffect::Keep(_)));
            effects.extend(new);
            if !keeps {
                return effects;
            }
            self.coordinator.on_kept(self.now);
        }
    }

    fn news(&mut self) -> Vec<RangeEvent> {
        let news = self.look().into_iter().filter_map(|effect| match effect {
            RangeEffect::Notify(event) => Some(event),
            _ => None,
        });
        news.collect()
    }

    fn adopt<const N: usize>(&mut self, stores: [u128; N], epoch: u64, merged: &[u128]) {
        let merged: Vec<StoreId> = merged.iter().copied().map(StoreId).collect();
        for store in stores {
            self.coordinator
                .on_adopted(id(store), RangeId(0), (epoch, &merged));
        }
    }

    fn owners(&self, range: u16) -> Configuration {
        let entry = self.coordinator.table().get(RangeId(range));
        entry.expect("a range that has owners").configuration.clone()
    }
}

fn stable(epoch: u64, owners: [u128; 3]) -> Configuration {
    Configuration {
        epoch,
        owners: Owners::Stable(owners.map(StoreId).to_vec()),
    }
}

fn joint(epoch: u64, owners: [u128; 3], (goes, comes): (u128, u128)) -> Configuration {
    let owners = replaced(&owners.map(StoreId), id(goes), id(comes)).unwrap();
    Configuration { epoch, owners }
}

const fn begun(from: u128, to: u128, reason: ChangeReason) -> RangeEvent {
    RangeEvent::MoveBegun {
        range: RangeId(0),
        from: id(from),
        to: id(to),
        reason,
    }
}

const ENDED: RangeEvent = RangeEvent::MoveEnded { range: RangeId(0) };

const fn undone(reason: UndoReason) -> RangeEvent {
    RangeEvent::MoveUndone {
        range: RangeId(0),
        reason,
    }
}

#[test]
fn ranges_are_given_when_as_many_stores_are_there_as_copies() {
    let mut driven = Driven::new(settings(256));
    driven.stores([1, 2]);
    assert_eq!(driven.look(), []);
    driven.coordinator.on_stores(
        [open(1), open(2)].into_iter().chain([RangeStore {
            standing: NodeStanding::Closed,
            ..open(3)
        }]),
        at(0),
    );
    assert_eq!(driven.look(), [], "one of them may get nothing");
    driven.stores(1..=6);
    assert_eq!(driven.news(), [RangeEvent::Given { ranges: 256 }]);
    let table = driven.coordinator.table();
    let has = |store| {
        table
            .entries()
            .filter(move |(_, entry)| entry.configuration.owners.contains(id(store)))
    };
    assert_eq!(
        (1..=6).map(|store| has(store).count()).collect::<Vec<_>>(),
        [128; 6]
    );
    assert_eq!(driven.news(), [], "nothing is uneven");
}

#[test]
fn a_step_is_told_when_it_is_kept_and_one_is_on_its_way_at_a_time() {
    let mut driven = Driven::new(settings(1));
    driven.stores(1..=3);
    driven.coordinator.look(at(0), PlanningGate::Open);
    let effects = driven.coordinator.take_effects();
    let [RangeEffect::Keep(change)] = &effects[..] else {
        panic!("{effects:?}");
    };
    assert_eq!(change.entries[0].1.configuration, stable(1, [1, 2, 3]));
    assert_eq!(driven.coordinator.table().entries().len(), 0);
    driven.coordinator.look(at(9), PlanningGate::Open);
    assert_eq!(driven.coordinator.take_effects(), []);
    driven.now = at(9);
    driven.coordinator.on_kept(driven.now);
    let told = driven.look();
    let tell = |store: &StoreId| RangeEffect::Tell {
        store: *store,
        ranges: vec![(RangeId(0), stable(1, [1, 2, 3]))],
    };
    let expected: Vec<_> = [id(1), id(2), id(3)].iter().map(tell).collect();
    assert_eq!(told[0], RangeEffect::Notify(RangeEvent::Given { ranges: 1 }));
    assert_eq!(told[1..], expected[..]);
    driven.adopt([1], 1, &[]);
    driven.adopt([2], 7, &[]);
    assert_eq!(
        driven.look(),
        [],
        "not yet again, and nobody believes what was never decided"
    );
    driven.later(1);
    assert_eq!(driven.look(), expected[1..], "whoever has not adopted it");
}

#[test]
fn an_owner_is_replaced_when_enough_refuse_and_enough_is_merged() {
    let mut driven = Driven::moving();
    driven.adopt([4], 2, &[2, 3]);
    assert_eq!(driven.news(), [], "two could still acknowledge among themselves");
    driven.adopt([2, 3], 1, &[]);
    assert_eq!(driven.news(), [], "they have adopted what was before");
    driven.adopt([2, 3], 2, &[2, 3]);
    assert_eq!(driven.news(), [ENDED]);
    assert_eq!(driven.owners(0), stable(3, [4, 2, 3]));
    let mut driven = Driven::moving();
    driven.adopt([1, 2, 3], 2, &[1, 2, 3]);
    driven.adopt([4], 2, &[3]);
    assert_eq!(
        driven.news(),
        [],
        "only a newcomer merges, and two have to be merged"
    );
    driven.adopt([4], 2, &[1]);
    assert_eq!(driven.news(), [ENDED]);
}

#[test]
fn who_goes_is_told_until_it_has_adopted_what_follows() {
    let mut driven = Driven::moving();
    driven.adopt([2, 3], 2, &[]);
    driven.adopt([4], 2, &[2, 3]);
    driven.look();
    driven.adopt([2, 3, 4], 3, &[]);
    driven.later(1);
    let RangeEffect::Tell { store, .. } = &driven.look()[0] else {
        panic!("somebody is told");
    };
    assert_eq!(*store, id(1));
    driven.adopt([1], 3, &[]);
    driven.later(1);
    assert_eq!(driven.look(), []);
}

#[test]
fn a_move_is_undone_without_its_newcomer_or_after_its_time() {
    for leaves in [false, true] {
        let mut driven = Driven::moving();
        driven.adopt([1, 2, 3], 2, &[]);
        driven.stores(1..=3);
        if leaves {
            let standing = NodeStanding::Leaving;
            let leaving = RangeStore { standing, ..open(4) };
            driven
                .coordinator
                .on_stores((1..=3).map(open).chain([leaving]), driven.now);
        }
        assert_eq!(driven.news(), [undone(UndoReason::NewcomerGone)]);
        assert_eq!(driven.owners(0), stable(3, [1, 2, 3]));
    }
    let mut driven = Driven::moving();
    driven.later(49);
    assert_eq!(driven.news(), []);
    driven.later(1);
    assert_eq!(driven.news(), [undone(UndoReason::TooLong)]);
    let again = RangeCommand::Move {
        range: RangeId(0),
        from: id(1),
        to: id(4),
    };
    let refused = driven.coordinator.on_command(again, driven.now);
    assert_eq!(refused, Err(MoveError::NotEligible.into()), "it had its time");
    driven.later(50);
    driven.look();
    driven.command(again);
}

#[test]
fn an_owner_that_is_away_keeps_its_ranges_for_its_time() {
    let mut driven = Driven::given();
    driven.stores(2..=4);
    assert_eq!(driven.news(), []);
    driven.later(99);
    driven.stores(1..=4);
    assert_eq!(driven.news(), [], "it was restarted");
    driven.stores(2..=4);
    driven.later(99);
    assert_eq!(driven.news(), []);
    driven.later(1);
    assert_eq!(driven.news(), [begun(1, 4, ChangeReason::Repair)]);
    driven.adopt([4], 2, &[2, 3]);
    driven.adopt([2], 2, &[]);
    assert_eq!(driven.news(), [], "it may come back and acknowledge with 3");
    driven.adopt([3], 2, &[]);
    assert_eq!(driven.news(), [ENDED]);
}

#[test]
fn an_owner_in_memory_is_gone_with_its_node() {
    let mut driven = Driven::new(RangeSettings {
        is_durable: false,
        levels: RangeLevels::new(3, 1, 3).unwrap(),
        ..settings(1)
    });
    driven.stores(1..=3);
    driven.look();
    driven.stores(2..=4);
    assert_eq!(driven.news(), [begun(1, 4, ChangeReason::Repair)]);
    driven.adopt([2, 3], 2, &[]);
    driven.adopt([4], 2, &[3]);
    assert_eq!(driven.news(), [ENDED], "who is gone refuses");
    driven.stores([3, 5, 6, 7]);
    let news = driven.news();
    assert_eq!(news, [begun(4, 5, ChangeReason::Repair)], "one at a time");
    driven.stores([5, 6, 7]);
    let lost = RangeEvent::CopiesLost { range: RangeId(0) };
    let next = begun(2, 6, ChangeReason::Repair);
    assert_eq!(
        driven.news(),
        [lost, ENDED, next],
        "nobody is left who could be merged"
    );
}

#[test]
fn a_newcomer_that_is_gone_becomes_no_owner_whatever_it_has_merged() {
    let mut driven = Driven::new(RangeSettings {
        is_durable: false,
        ..settings(1)
    });
    driven.stores(1..=3);
    driven.look();
    driven.stores(2..=4);
    driven.look();
    driven.adopt([2, 3], 2, &[]);
    driven.adopt([4], 2, &[2, 3]);
    driven.stores([2, 3]);
    assert_eq!(driven.news(), [undone(UndoReason::NewcomerGone)]);
    assert_eq!(driven.owners(0), stable(3, [1, 2, 3]));
}

#[test]
fn a_lost_owner_is_replaced_on_command() {
    let mut driven = Driven::given();
    let replace = |lost| RangeCommand::Replace { lost: id(lost) };
    let refused =
        |driven: &mut Driven, lost| driven.coordinator.on_command(replace(lost), at(0)).unwrap_err();
    assert_eq!(refused(&mut driven, 4), RangeCommandError::NoOwner);
    assert_eq!(refused(&mut driven, 1), RangeCommandError::NotAway);
    driven.stores(2..=4);
    assert_eq!(driven.news(), []);
    driven.command(replace(1));
    assert_eq!(driven.news(), [begun(1, 4, ChangeReason::Repair)]);
    assert!(
        driven.coordinator.table().is_lost(id(1)),
        "the next coordinator knows it too"
    );
    driven.adopt([2], 2, &[]);
    driven.adopt([4], 2, &[2, 3]);
    assert_eq!(driven.news(), [ENDED], "it never acknowledges again");
    assert_eq!(driven.coordinator.table().lost().count(), 0, "no range names it");
}

#[test]
fn a_leaving_owner_is_replaced_and_then_named_no_more() {
    let mut driven = Driven::given();
    let leaving = RangeStore {
        standing: NodeStanding::Leaving,
        ..open(3)
    };
    let stores = [open(1), open(2), leaving, open(4)];
    driven.coordinator.on_stores(stores, at(0));
    assert_eq!(driven.news(), [begun(3, 4, ChangeReason::Evacuation)]);
    driven.adopt([1, 2], 2, &[]);
    driven.adopt([4], 2, &[1, 2]);
    assert!(driven.coordinator.table().names(id(3)));
    assert_eq!(driven.news(), [ENDED]);
    assert!(!driven.coordinator.table().names(id(3)));
}

#[test]
fn with_fewer_stores_than_copies_the_owners_stay() {
    let mut driven = Driven::given();
    driven.stores([2, 3]);
    driven.look();
    driven.later(200);
    assert_eq!(driven.news(), []);
    assert_eq!(driven.owners(0), stable(1, [1, 2, 3]));
}

#[test]
fn nothing_is_decided_or_told_while_paused_and_nothing_begun_while_the_gate_is_closed() {
    let mut driven = Driven::moving();
    driven.adopt([2, 3], 2, &[]);
    driven.adopt([4], 2, &[2, 3]);
    driven.coordinator.on_paused(true);
    driven.later(10);
    assert_eq!(driven.look(), []);
    driven.coordinator.on_paused(false);
    driven.gate = PlanningGate::Closed;
    assert_eq!(driven.news(), [ENDED], "what has begun ends");
    driven.stores(2..=5);
    driven.command(RangeCommand::Move {
        range: RangeId(0),
        from: id(2),
        to: id(5),
    });
    assert_eq!(driven.news(), []);
    driven.gate = PlanningGate::Open;
    assert_eq!(driven.news(), [begun(2, 5, ChangeReason::Command)]);
}

#[test]
fn commands_that_cannot_be_done_are_refused() {
    let mut driven = Driven::moving();
    let command = |driven: &mut Driven, range, from, to| {
        let (from, to) = (id(from), id(to));
        let range = RangeId(range);
        driven
            .coordinator
            .on_command(RangeCommand::Move { range, from, to }, at(0))
            .unwrap_err()
    };
    assert_eq!(command(&mut driven, 1, 1, 4), RangeCommandError::NoRange);
    assert_eq!(command(&mut driven, 0, 1, 4), MoveError::AlreadyThere.into());
    assert_eq!(command(&mut driven, 0, 2, 9), MoveError::NotEligible.into());
    assert_eq!(command(&mut driven, 0, 9, 4), MoveError::OtherHost.into());
    let repair = RangeCommand::Repair { range: RangeId(0) };
    driven.command(repair);
    assert_eq!(driven.look(), [RangeEffect::Repair { range: RangeId(0) }]);
    let mut nobody = RangeCoordinator::new(settings(1));
    assert_eq!(
        nobody.on_command(repair, at(0)),
        Err(RangeCommandError::NotCoordinating)
    );
}

#[test]
fn copies_are_spread_over_zones() {
    let mut driven = Driven::new(settings(64));
    let stores = (1..=6).map(|store| RangeStore {
        zone: Some(Arc::from(["a", "b", "c"][store as usize % 3])),
        ..open(store)
    });
    driven.coordinator.on_stores(stores, at(0));
    driven.look();
    for (_, entry) in driven.coordinator.table().entries() {
        let mut zones: Vec<u128> = entry
            .configuration
            .owners
            .all()
            .map(|store| store.0 % 3)
            .collect();
        zones.sort_unstable();
        assert_eq!(zones, [0, 1, 2]);
    }
}

#[test]
fn within_an_interval_is_planned_again_only_when_something_has_changed() {
    let mut driven = Driven::given();
    let planned = driven.coordinator.planned;
    driven.now = driven.now + Duration::from_millis(999);
    driven.adopt([1], 1, &[]);
    driven.look();
    assert!(planned.is_some() && driven.coordinator.planned == planned);
    driven.stores(1..=5);
    driven.look();
    assert_eq!(driven.coordinator.planned, Some((driven.now, driven.gate)));
    driven.later(1);
    driven.look();
    assert_eq!(driven.coordinator.planned, Some((driven.now, driven.gate)));
}
