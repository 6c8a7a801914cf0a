//! What calls cost a node while an owner is away.

use core::time::Duration;

use super::world::{World, config, put, values};
use crate::kv::state::clock::VersionClock;
use crate::kv::state::outcome::CallAnswer;

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
