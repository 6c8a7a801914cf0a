//! Kinds with strategies of their own, in a whole small cluster.

use alloc::vec::Vec;

use super::*;
use crate::input::{KindSettings, ShardingCommand};
use crate::sharding::allocation::{AllocationSettings, HashingLimits};
use crate::sharding::passivation::PassivationSettings;

use super::world::settings;

/// Three workers, of which two are members and have the kind with this strategy.
fn two_of_three(allocation: &AllocationSettings) -> World {
    let mut world = World::without_kind_on(&[0, 1, 2], 3, 0);
    world.set(&[(0, Status::Up), (1, Status::Up)]);
    register(&mut world, 0, allocation);
    register(&mut world, 1, allocation);
    world
}

fn register(world: &mut World, at: usize, allocation: &AllocationSettings) {
    let settings = KindSettings {
        allocation: Some(allocation.clone()),
        ..settings(true)
    };
    world.register_as(at, settings);
}

/// Says on every node where shards are wanted.
fn want(world: &mut World, homes: &[(u32, usize)]) {
    let homes: Vec<_> = homes
        .iter()
        .map(|(shard, at)| (ShardId(*shard), address(*at).address().clone()))
        .collect();
    for at in 0..2 {
        let homes = homes.clone();
        world.with(at, |peer| {
            let kind = kind();
            let command = ShardingCommand::SetDesiredHomes { kind, homes };
            peer.sharding.on_command(&mut peer.fixture.cx(), 0, command);
        });
    }
}

fn home(world: &World, shard: u32) -> Option<usize> {
    world.hosts().get(&ShardId(shard)).map(|hosts| hosts[0])
}

#[test]
fn s_050_shards_go_where_they_are_wanted_from_outside_as_soon_as_somebody_is_there() {
    let mut world = two_of_three(&AllocationSettings::External);
    world.touch_all(1);
    assert_eq!(
        world.counts()[1],
        SHARDS as usize,
        "everything is where it was asked for"
    );
    want(&mut world, &[(3, 0), (4, 2), (99, 0)]);
    world.run_for(secs(11));
    assert_eq!(
        (home(&world, 3), home(&world, 4)),
        (Some(0), Some(1)),
        "nobody is at the third"
    );
    assert_eq!(world.counts()[1], SHARDS as usize - 1);
    world.set(&[(2, Status::Up)]);
    register(&mut world, 2, &AllocationSettings::External);
    world.run_for(secs(11));
    assert_eq!(home(&world, 4), Some(2));
    world.touch_all(1);
    assert_eq!(world.handled(), 2 * SHARDS as usize);
}

#[test]
fn a_kind_with_consistent_hashing_moves_what_belongs_to_a_newcomer_and_nothing_else() {
    let hashing = AllocationSettings::ConsistentHashing(HashingLimits::default());
    let mut world = two_of_three(&hashing);
    world.touch_all(0);
    let before = world.hosts();
    world.run_for(secs(21));
    assert_eq!(world.hosts(), before, "everything is where it belongs");
    world.set(&[(2, Status::Up)]);
    register(&mut world, 2, &hashing);
    world.run_for(secs(21));
    let after = world.hosts();
    assert_eq!(after.len(), SHARDS as usize);
    assert!(world.counts()[2] > 0, "{:?}", world.counts());
    for (shard, hosts) in &after {
        assert!(
            hosts == &before[shard] || hosts[0] == 2,
            "{shard} moved between old nodes"
        );
    }
}

#[test]
fn by_default_an_entity_leaves_memory_after_two_minutes_and_its_asks_are_answered_all_the_same() {
    let mut world = World::formed(2, 0);
    world.touch_all(0);
    let entities = |world: &World| -> usize {
        let regions = world.peers.iter().filter_map(|peer| peer.sharding.region(kind()));
        regions
            .flat_map(|region| region.hosted)
            .map(|(_, entities)| entities)
            .sum()
    };
    assert_eq!(entities(&world), SHARDS as usize);
    world.run_for(secs(110));
    let token = world.ask(1, &entity_in(5), secs(5));
    assert!(world.peers[1].answers[&token].is_ok());
    world.run_for(secs(71));
    assert_eq!(entities(&world), 1, "the one that was asked");
    world.touch_all(1);
    assert_eq!(entities(&world), SHARDS as usize);
    assert_eq!(world.handled(), 2 * SHARDS as usize + 1);
    assert_eq!(
        PassivationSettings::default().idle.map(|idle| idle.timeout()),
        Some(secs(120))
    );
}
