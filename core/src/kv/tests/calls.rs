//! What calls cost a node while an owner is away, and what becomes of what they leave behind.

use core::time::Duration;

use super::world::{World, carts, change, config, key, put, settings, values};
use crate::kv::protocol::BucketBody;
use crate::kv::state::clock::VersionClock;
use crate::kv::state::exchange::KvAsk;
use crate::kv::state::outcome::{CallAnswer, CallError, CallGoal};

const SECOND: Duration = Duration::from_secs(1);

/// Three owners of every range, of which one has just ended.
fn without_one() -> World {
    let mut world = World::new(3);
    world.open(0..3);
    world.kill(2);
    world
}

#[test]
fn calls_that_nobody_waits_for_give_way_to_those_that_somebody_does() {
    let mut world = without_one();
    let open_max = 4;
    let mut small = config();
    small.kv.open_calls_max = open_max;
    world.peers[0].fixture.config = small.validate().unwrap();
    for number in 0..20 {
        let name = alloc::format!("key {number}");
        // Refused if those before, which go on asking the third owner, took all the room.
        let written = world.call(0, &name, put("1", VersionClock::new()));
        assert!(
            matches!(written, Ok(CallAnswer::Written(_))),
            "{number}: {written:?}"
        );
        assert!(world.peers[0].machine.open_calls() <= open_max);
    }
    assert_eq!(world.peers[0].machine.open_calls(), open_max);
    assert_eq!(values(&world.get(1, "key 0")), ["1"]);
}

#[test]
fn who_is_away_is_asked_less_and_less_by_calls_that_nobody_waits_for() {
    let mut world = without_one();
    world.call(0, "a", put("1", VersionClock::new())).unwrap();
    let before = world.peers[0].fixture.stats.kv.calls_repeated;
    world.run(SECOND * 11);
    let repeated = world.peers[0].fixture.stats.kv.calls_repeated - before;
    assert!((2..=6).contains(&repeated), "{repeated} times in ten seconds");
    assert_eq!(world.peers[0].machine.open_calls(), 0);
}

#[test]
fn a_decision_that_was_answered_asks_an_owner_with_a_later_turn_less_and_less() {
    let mut world = World::new(3);
    world.open(0..3);
    let conditional = |expected, value| CallGoal::Conditional {
        expected,
        change: change(value),
    };
    world.lose = |body| match body {
        BucketBody::Ask(asked) => {
            let last = asked.configuration.owners.sets().0[2];
            matches!(asked.ask, KvAsk::Accept(_)) && asked.store == last
        }
        _ => false,
    };
    let owners = world.owners(0, settings().range_of(&key("a")));
    let caller = (0..3).find(|index| world.store(*index) == owners[0]).unwrap();
    let Ok(CallAnswer::Decided(first)) = world.call(caller, "a", conditional(None, "1")) else {
        panic!("nobody else was there")
    };
    world.lose = |_| false;
    let next = world.call(caller, "a", conditional(Some(first), "2"));
    assert!(matches!(next, Ok(CallAnswer::Decided(_))));
    let before = world.peers[caller].fixture.stats.kv.calls_repeated;
    world.run(SECOND * 11);
    let repeated = world.peers[caller].fixture.stats.kv.calls_repeated - before;
    assert!((2..=6).contains(&repeated), "{repeated} times in ten seconds");
}

#[test]
fn a_turn_that_one_owner_promised_and_nobody_ends_is_ended_and_its_key_forgotten() {
    let mut world = World::new(3);
    world.open(0..3);
    let promised = |body: &BucketBody| match body {
        BucketBody::Ask(asked) => matches!(asked.ask, KvAsk::Promise(_)),
        _ => false,
    };
    // Only the store of the node that calls hears of the turn, and it is not the first owner of anything.
    let caller = (0..3).find(|index| {
        let owners = world.owners(0, settings().range_of(&key("a")));
        owners.first() != Some(&world.store(*index))
    });
    let caller = caller.unwrap();
    world.lose = promised;
    let condition = CallGoal::Conditional {
        expected: None,
        change: change("1"),
    };
    let timeout = CallError::Timeout { acknowledged: 0 };
    assert_eq!(world.call(caller, "a", condition), Err(timeout));
    world.lose = |_| false;
    let held = |world: &World| {
        let stores = world.peers.iter();
        let stores = stores.map(|peer| peer.machine.bucket(&carts()).unwrap().store().unwrap());
        let ranges = stores.flat_map(|store| store.ranges());
        ranges.filter(|(_, held)| held.entry(&key("a")).is_some()).count()
    };
    assert_eq!(held(&world), 1);
    world.run(SECOND * 15);
    assert_eq!(held(&world), 3, "all have accepted that it holds nothing");
    world.run(SECOND * 100);
    assert_eq!(held(&world), 0);
    let resolved = world
        .peers
        .iter()
        .map(|peer| peer.fixture.stats.kv.turns_resolved);
    assert_eq!(resolved.sum::<u64>(), 1);
}
