//! When a value with a time to live ends: at the moment that the owner which made it set, at every owner.

use alloc::vec::Vec;
use core::time::Duration;

use super::world::{World, carts, key, settings, values};
use crate::kv::protocol::BucketBody;
use crate::kv::state::clock::VersionClock;
use crate::kv::state::entry::KvEntry;
use crate::kv::state::exchange::{KvAsk, KvChange};
use crate::kv::state::level::Level;
use crate::kv::state::outcome::CallGoal;

const SECOND: Duration = Duration::from_secs(1);

fn held(world: &World) -> Vec<KvEntry> {
    let stores = world.peers.iter();
    let stores = stores.map(|peer| peer.machine.bucket(&carts()).unwrap().store().unwrap());
    let ranges = stores.flat_map(|store| store.ranges());
    ranges
        .filter_map(|(_, range)| range.entry(&key("a")).cloned())
        .collect()
}

#[test]
fn an_owner_that_hears_late_of_a_value_ends_it_when_the_others_do() {
    let mut world = World::new(3);
    world.open(0..3);
    world.lose = |body| match body {
        BucketBody::Ask(asked) => {
            matches!(asked.ask, KvAsk::Merge(_)) && asked.store == asked.configuration.owners.sets().0[2]
        }
        _ => false,
    };
    let owners = world.owners(0, settings().range_of(&key("a")));
    let caller = (0..3).find(|index| world.store(*index) == owners[0]).unwrap();
    let mortal = CallGoal::Write {
        change: KvChange::Put {
            bytes: b"1"[..].into(),
            ttl_ms: Some(20_000),
        },
        context: VersionClock::new(),
        level: Level::Quorum,
    };
    world.call(caller, "a", mortal).unwrap();
    world.run(SECOND * 5);
    assert_eq!(held(&world).len(), 2, "the third has not heard of it");
    world.lose = |_| false;
    world.run(SECOND * 10);
    let before = held(&world);
    assert_eq!(before.len(), 3);
    assert!(
        before
            .iter()
            .all(|entry| *entry == before[0] && values(entry) == ["1"])
    );
    world.run(SECOND * 6);
    for index in 0..3 {
        assert_eq!(values(&world.get(index, "a")), [] as [&str; 0]);
    }
    world.run(SECOND * 120);
    assert_eq!(held(&world), [], "reaped, and nobody brought it back");
}
