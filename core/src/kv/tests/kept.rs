//! Tables that voters keep: nothing is told before it is kept, and what was told is there whoever comes next.

use alloc::vec::Vec;
use core::time::Duration;

use super::durable::durable;
use super::settings::Registry;
use super::world::{World, carts, config, put, settings, values};
use crate::kv::protocol::ranges::{RangeCommand, RangeEvent};
use crate::kv::protocol::{BucketBody, Event, RangeStatement};
use crate::kv::state::clock::VersionClock;
use crate::kv::state::configuration::{Configuration, Owners};
use crate::kv::state::settings::BucketSettings;
use crate::kv::state::table::RangeId;

const SECOND: Duration = Duration::from_secs(1);
const RANGE: RangeId = RangeId(0);

fn world(count: usize) -> World {
    let mut config = config();
    config.journal.voters = 3;
    World::with_config(count, config)
}

fn opened(count: usize, settings: &BucketSettings) -> World {
    let mut world = world(count);
    for index in 0..count {
        world.open_as(index, settings.clone());
    }
    world.run(SECOND * 5);
    world
}

fn kept(world: &World, lead: usize) -> Configuration {
    let lead = world.peers[lead].machine.lead(&carts()).unwrap();
    lead.table().get(RANGE).unwrap().configuration.clone()
}

/// What the node's store has adopted.
fn adopted(world: &World, index: usize) -> Option<Configuration> {
    let store = world.peers[index].machine.bucket(&carts())?.store()?;
    let (_, hosted) = store.ranges().find(|(range, _)| *range == RANGE)?;
    hosted.configuration().cloned()
}

/// A move from the first owner to the store that is none; the new one's place.
fn begin_move(world: &mut World, lead: usize, nodes: &[usize]) -> usize {
    let owners = world.owners(lead, RANGE);
    let is_other = |index: &&usize| !owners.contains(&world.store(**index));
    let to = *nodes.iter().find(is_other).unwrap();
    let (range, from) = (RANGE, owners[0]);
    let to_store = world.store(to);
    let command = RangeCommand::Move {
        range,
        from,
        to: to_store,
    };
    world.command_ranges(lead, command).unwrap();
    to
}

fn kill_all(world: &mut World, count: usize) {
    for index in 0..count {
        world.kill(index);
        world.forget(index);
    }
}

fn refusals(world: &World, index: usize) -> usize {
    let refused = |event: &&Event| matches!(event, Event::CoordinatorRefused { .. });
    world.peers[index].events.iter().filter(refused).count()
}

#[test]
fn no_step_is_told_before_it_is_kept() {
    let mut world = opened(4, &durable());
    let before = kept(&world, 0);
    assert!(world.logs.appended > 0);
    world.logs.are_away = true;
    begin_move(&mut world, 0, &[0, 1, 2, 3]);
    world.run(SECOND * 3);
    assert_eq!(kept(&world, 0), before);
    for index in 0..4 {
        let epoch = adopted(&world, index).map_or(0, |known| known.epoch);
        assert!(epoch <= before.epoch, "a step was told to {index}");
    }
    world.put(1, "a", "1");
    world.logs.are_away = false;
    world.run(SECOND * 3);
    let after = kept(&world, 0);
    assert_eq!(after.epoch, before.epoch + 2, "it has ended");
    assert_ne!(after.owners, before.owners);
}

#[test]
fn nothing_is_given_before_what_is_kept_was_read() {
    let mut world = world(3);
    world.logs.are_away = true;
    for index in 0..3 {
        world.open_as(index, durable());
    }
    world.run(SECOND * 10);
    assert!(!world.peers[0].machine.lead(&carts()).unwrap().is_active());
    assert!((0..3).all(|index| adopted(&world, index).is_none()));
    world.logs.are_away = false;
    world.run(SECOND * 5);
    world.put(2, "a", "1");
}

#[test]
fn who_owns_what_is_there_after_all_processes_ended_in_the_middle_of_a_move() {
    let mut world = opened(4, &durable());
    world.put(0, "a", "1");
    // The newcomer gets nothing.
    world.lose = |body| matches!(body, BucketBody::Content(_));
    let newcomer = begin_move(&mut world, 0, &[0, 1, 2, 3]);
    world.run(SECOND);
    let joint = kept(&world, 0);
    assert!(matches!(joint.owners, Owners::Joint { .. }));
    kill_all(&mut world, 4);
    world.lose = |_| false;
    // All but the newcomer, which alone would have been told of more: the table has it all the same.
    for index in (0..4).filter(|index| *index != newcomer) {
        world.restart(index);
    }
    world.see();
    for index in 4..7 {
        world.open_as(index, durable());
    }
    world.run(SECOND * 5);
    let found = kept(&world, 4);
    assert!(found.epoch >= joint.epoch, "{found:?} after {joint:?}");
    assert_eq!(values(&world.get(5, "a")), ["1"]);
}

#[test]
fn a_coordinator_that_was_outdone_tells_nothing_and_begins_anew() {
    let mut world = opened(4, &durable());
    let before = kept(&world, 0);
    // Somebody else has the log.
    let other = crate::kv::leading::table_log(&carts());
    world.logs.ask(0, 9, open(other));
    world.logs.answer(0).unwrap();
    begin_move(&mut world, 0, &[0, 1, 2, 3]);
    world.run(Duration::from_millis(50));
    assert_eq!(refusals(&world, 0), 1);
    assert!(!world.peers[0].machine.lead(&carts()).unwrap().is_active());
    for index in 0..4 {
        let epoch = adopted(&world, index).map_or(0, |known| known.epoch);
        assert!(epoch <= before.epoch, "{index}");
    }
    assert_eq!(world.peers[0].fixture.stats.kv.tables_refused, 1);
    world.run(SECOND * 5);
    assert_eq!(kept(&world, 0), before, "what was decided and not kept is void");
    assert_eq!(refusals(&world, 0), 1);
    begin_move(&mut world, 0, &[0, 1, 2, 3]);
    world.run(SECOND * 5);
    assert_eq!(kept(&world, 0).epoch, before.epoch + 2);
}

fn open(log: crate::store::LogName) -> crate::journal::protocol::Command {
    crate::journal::protocol::Command::Open {
        log,
        opener: 9,
        claim: crate::journal::state::TokenClaim::Term,
    }
}

#[test]
fn the_next_coordinator_reads_a_snapshot_and_what_follows() {
    let mut world = opened(5, &durable());
    for _ in 0..18 {
        begin_move(&mut world, 0, &[0, 1, 2, 3, 4]);
        world.run(SECOND * 3);
    }
    assert!(world.logs.are_trimmed());
    let before = kept(&world, 0);
    world.kill(0);
    world.lose_sight_of(0);
    world.remove(0);
    world.open_as(1, durable());
    world.run(SECOND * 5);
    assert_eq!(kept(&world, 1), before);
}

#[test]
fn by_a_damaged_table_nothing_is_decided() {
    let mut world = opened(4, &durable());
    world.put(0, "a", "1");
    world.logs.damage();
    world.kill(0);
    world.lose_sight_of(0);
    world.remove(0);
    world.run(SECOND * 20);
    let damaged = |event: &&Event| matches!(event, Event::TableDamaged);
    assert_eq!(world.peers[1].events.iter().filter(damaged).count(), 1);
    assert!(!world.peers[1].machine.lead(&carts()).unwrap().is_active());
    assert_eq!(values(&world.get(2, "a")), ["1"], "owners serve as they did");
}

#[test]
fn a_bucket_that_nobody_kept_the_table_of_is_taken_over_under_epochs_that_nobody_has() {
    let mut world = World::new(4);
    for index in 0..4 {
        world.open_as(index, durable());
    }
    world.run(SECOND * 5);
    world.put(0, "a", "1");
    let before = kept(&world, 0);
    kill_all(&mut world, 4);
    world.config.journal.voters = 3;
    for index in 0..4 {
        world.restart(index);
    }
    world.see();
    // An owner is missing: what it was told last may be more than the others know.
    let owner = (4..8).find(|index| before.owners.contains(node_store(&world, *index)));
    let missing = owner.unwrap();
    for index in (4..8).filter(|index| *index != missing) {
        world.open_as(index, durable());
    }
    world.run(SECOND * 5);
    let late = world.open_as(missing, durable());
    world.run(SECOND * 5);
    assert!(world.peers[missing].answers.contains_key(&late));
    let after = kept(&world, 4);
    assert_eq!(after.owners, before.owners);
    assert!(
        after.epoch > before.epoch + 1,
        "{} after {}",
        after.epoch,
        before.epoch
    );
    assert_eq!(values(&world.get(5, "a")), ["1"]);
}

fn node_store(world: &World, index: usize) -> crate::journal::state::StoreId {
    crate::journal::state::StoreId(world.peers[index].store.identity().unwrap().id)
}

#[test]
fn ranges_in_memory_are_given_anew_at_once_when_all_their_owners_are_gone() {
    let mut world = opened(3, &settings());
    world.put(0, "a", "1");
    let before = kept(&world, 0);
    kill_all(&mut world, 3);
    for index in 0..3 {
        world.restart(index);
    }
    world.see();
    let appended = world.logs.appended;
    for index in 3..6 {
        world.open_as(index, settings());
    }
    world.run(SECOND * 5);
    assert_eq!(world.logs.appended, appended + 1, "in one step");
    let after = kept(&world, 3);
    assert!(after.epoch > before.epoch);
    let lost = |event: &&Event| matches!(event, Event::Ranges(RangeEvent::CopiesLost { .. }));
    assert_eq!(world.peers[3].events.iter().filter(lost).count(), 8);
    assert!(world.get(3, "a").is_empty());
    world.call(4, "a", put("2", VersionClock::new())).unwrap();
    assert_eq!(values(&world.get(5, "a")), ["2"]);
}

#[test]
fn a_table_of_other_settings_says_nothing() {
    let mut world = opened(3, &settings());
    kill_all(&mut world, 3);
    world.registry = Registry::default();
    for index in 0..3 {
        world.restart(index);
    }
    world.see();
    let other = BucketSettings {
        copies: 2,
        ranges: 4,
        ..settings()
    };
    for index in 3..6 {
        world.open_as(index, other.clone());
    }
    world.run(SECOND * 5);
    let table: Vec<_> = world.peers[3]
        .machine
        .lead(&carts())
        .unwrap()
        .table()
        .entries()
        .collect();
    assert_eq!(table.len(), 4);
    assert!(table.iter().all(|(_, entry)| entry.levels.copies() == 2));
}

#[test]
fn stores_are_not_asked_for_a_table_that_is_kept() {
    let mut world = opened(3, &durable());
    world.kill(0);
    world.lose_sight_of(0);
    world.remove(0);
    world.lose = |body| matches!(body, BucketBody::Ranges(RangeStatement::Found { .. }));
    world.run(SECOND * 5);
    assert!(world.peers[1].machine.lead(&carts()).unwrap().is_active());
}
