//! Buckets that the nodes' stores keep.

use core::time::Duration;

use super::world::{World, carts, change, put, settings, values};
use crate::effect::{Answer as AnyAnswer, CommandError};
use crate::kv::protocol::KvCommandError;
use crate::kv::state::clock::VersionClock;
use crate::kv::state::outcome::{CallAnswer, CallGoal};
use crate::kv::state::settings::BucketSettings;
use crate::kv::state::table::RangeId;

const SECOND: Duration = Duration::from_secs(1);

pub(super) fn durable() -> BucketSettings {
    BucketSettings {
        is_durable: true,
        ..settings()
    }
}

pub(super) fn opened(count: usize) -> World {
    let mut world = World::new(count);
    for index in 0..count {
        world.open_as(index, durable());
    }
    world.run(SECOND * 5);
    world
}

#[test]
fn what_was_acknowledged_is_there_after_all_processes_ended() {
    let mut world = opened(4);
    let first = world.put(0, "a", "1");
    world.put(1, "a", "2");
    let condition = CallGoal::Conditional {
        expected: None,
        change: change("3"),
    };
    let Ok(CallAnswer::Decided(version)) = world.call(2, "b", condition) else {
        panic!("nobody else was there")
    };
    let owners = world.owners(0, RangeId(0));
    for index in 0..4 {
        world.kill(index);
    }
    for index in 0..4 {
        world.forget(index);
        world.restart(index);
    }
    world.see();
    for index in 4..8 {
        world.open_as(index, durable());
    }
    world.run(SECOND * 5);
    assert_eq!(world.owners(4, RangeId(0)), owners, "a restart moves nothing");
    assert_eq!(values(&world.get(5, "a")), ["2"]);
    let next = CallGoal::Conditional {
        expected: Some(version),
        change: change("4"),
    };
    assert!(matches!(world.call(6, "b", next), Ok(CallAnswer::Decided(_))));
    assert_eq!(values(&world.get(7, "b")), ["4"]);
    // What the first life gave is known, and no dot is given twice.
    world.call(4, "a", put("late", first)).unwrap();
    let found = world.get(7, "a");
    let mut both = values(&found);
    both.sort_unstable();
    assert_eq!(both, ["2", "late"]);
    assert!(world.peers.iter().all(|peer| peer.rejections == 0));
}

#[test]
fn nothing_is_acknowledged_before_it_is_kept() {
    let mut world = opened(3);
    for index in 0..3 {
        world.stalled.insert(index);
    }
    let token = world.begin(0, "a", put("1", VersionClock::new()));
    world.run(SECOND * 3);
    assert_eq!(world.called(0, token), None);
    world.stalled.clear();
    world.run(SECOND);
    assert!(matches!(world.called(0, token), Some(Ok(CallAnswer::Written(_)))));
    for index in 0..3 {
        world.failing.insert(index);
    }
    let token = world.begin(1, "a", put("2", VersionClock::new()));
    world.run(SECOND * 3);
    assert_eq!(world.called(1, token), None);
    assert!(world.peers[1].fixture.stats.kv.store_failures > 0);
    // It goes on when there is room again.
    world.failing.clear();
    world.run(SECOND * 2);
    assert!(matches!(world.called(1, token), Some(Ok(CallAnswer::Written(_)))));
    let found = world.get(2, "a");
    let mut both = values(&found);
    both.sort_unstable();
    assert_eq!(both, ["1", "2"]);
}

#[test]
fn an_owner_that_is_away_keeps_its_ranges_and_comes_back_with_them() {
    let mut world = opened(4);
    world.put(0, "a", "1");
    let before = world.owners(0, RangeId(3));
    let own = world.store(3);
    world.kill(3);
    world.lose_sight_of(3);
    world.remove(3);
    world.run(SECOND * 30);
    assert_eq!(world.owners(0, RangeId(3)), before);
    world.put(1, "a", "2");
    let back = world.restart(3);
    world.see();
    world.open_as(back, durable());
    world.run(SECOND * 5);
    assert_eq!(world.store(back), own, "the store is the same");
    assert_eq!(values(&world.get(back, "a")), ["2"]);
}

#[test]
fn a_newcomer_keeps_what_it_gets_before_it_owns_anything() {
    let mut world = opened(3);
    for number in 0..20 {
        world.put(0, &alloc::format!("key {number}"), "kept");
    }
    let fourth = world.start();
    world.see();
    world.open_as(fourth, durable());
    world.run(SECOND * 30);
    let own = world.store(fourth);
    let owned = (0..8).filter(|range| world.owners(0, RangeId(*range)).contains(&own));
    assert_eq!(owned.count(), 6);
    for index in 0..4 {
        world.kill(index);
    }
    for index in 0..4 {
        world.forget(index);
        world.restart(index);
    }
    world.see();
    for index in 4..8 {
        world.open_as(index, durable());
    }
    world.run(SECOND * 5);
    let owned = (0..8).filter(|range| world.owners(4, RangeId(*range)).contains(&own));
    assert_eq!(owned.count(), 6);
    for number in 0..20 {
        assert_eq!(values(&world.get(7, &alloc::format!("key {number}"))), ["kept"]);
    }
}

#[test]
fn a_store_with_other_settings_or_damage_takes_no_part() {
    let mut world = opened(3);
    world.put(0, "a", "1");
    world.kill(2);
    world.lose_sight_of(2);
    world.remove(2);
    let other = BucketSettings {
        ranges: 16,
        ..durable()
    };
    let back = world.restart(2);
    world.see();
    let token = world.open_as(back, other.clone());
    world.run(SECOND);
    let difference = other.differs_from(&durable()).unwrap();
    let differs = KvCommandError::Differs { difference };
    let refused = |error| Some(AnyAnswer::Refused(CommandError::Kv(error)));
    assert_eq!(world.peers[back].answers.get(&token).cloned(), refused(differs));
    let damaged = world.restart(2);
    let stored = world.peers[damaged].store.clone();
    for (key, value) in stored.entries() {
        let mut value = value.to_vec();
        if key.len() > 8 {
            value.truncate(value.len() - 1);
            world.peers[damaged].store.damage(key, value);
        }
    }
    world.remove(back);
    world.see();
    let token = world.open_as(damaged, durable());
    world.run(SECOND);
    let answer = world.peers[damaged].answers.get(&token).cloned();
    assert_eq!(answer, refused(KvCommandError::StoreDamaged));
    assert_eq!(values(&world.get(0, "a")), ["1"]);
    assert!(world.peers[0].machine.bucket(&carts()).is_some());
}
