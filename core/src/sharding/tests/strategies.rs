//! Kinds with strategies of their own, in a whole small cluster.

use alloc::vec::Vec;

use super::*;
use crate::effect::{Answer, CommandError, ShardingCommandError};
use crate::input::{KindSettings, ShardingCommand};
use crate::sharding::allocation::{AllocationSettings, HashingLimits};
use crate::sharding::passivation::PassivationSettings;
use crate::sharding::state::allocation::PLACED_NAME_BYTES_MAX;
use crate::sharding::state::ids::SHARDS_MAX;
use crate::sharding::state::wish::Wish;

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
        .map(|(shard, at)| (ShardId(*shard), Wish::at(address(*at).address().clone())))
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

/// What a node says to a wish before it is kept.
fn checked(world: &mut World, at: usize, kind: KindId, shard: u32) -> Result<(), ShardingCommandError> {
    world.with(at, |peer| {
        let shard = ShardId(shard);
        let command = ShardingCommand::CheckPlace { kind, shard };
        peer.registered.clear();
        peer.sharding.on_command(&mut peer.fixture.cx(), 900, command);
    });
    match world.peers[at].registered.pop() {
        Some(Answer::Done) => Ok(()),
        Some(Answer::Refused(CommandError::Sharding(error))) => Err(error),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_cannot_be_placed_from_outside_is_refused_by_who_knows_the_kind() {
    let no_such = |shard, shards| {
        let shard = ShardId(shard);
        Err(ShardingCommandError::NoSuchShard { shard, shards })
    };
    let mut world = two_of_three(&AllocationSettings::External);
    assert_eq!(checked(&mut world, 0, kind(), SHARDS - 1), Ok(()));
    assert_eq!(checked(&mut world, 0, kind(), SHARDS), no_such(SHARDS, SHARDS));
    // The third does not have the kind: only what no kind has is wrong for sure.
    assert_eq!(checked(&mut world, 2, kind(), SHARDS), Ok(()));
    assert_eq!(
        checked(&mut world, 2, kind(), SHARDS_MAX),
        no_such(SHARDS_MAX, SHARDS_MAX)
    );
    // A proxy that names no allocation leaves it to who hosts.
    world.register_as(2, settings(false));
    assert_eq!(checked(&mut world, 2, kind(), 0), Ok(()));
    assert_eq!(checked(&mut world, 2, kind(), SHARDS), no_such(SHARDS, SHARDS));

    let hashing = AllocationSettings::ConsistentHashing(HashingLimits::default());
    let mut world = two_of_three(&hashing);
    assert_eq!(
        checked(&mut world, 0, kind(), 0),
        Err(ShardingCommandError::NotPlaced)
    );
    world.register_as(2, settings(true));
    assert_eq!(
        checked(&mut world, 2, kind(), 0),
        Err(ShardingCommandError::NotPlaced),
        "who hosts and names none has the configured one"
    );
}

#[test]
fn a_kind_that_is_placed_from_outside_has_a_name_that_a_key_has_room_for() {
    let most = PLACED_NAME_BYTES_MAX;
    for (bytes, allocation, error) in [
        (most, Some(AllocationSettings::External), None),
        (most + 1, None, None),
        (
            most + 1,
            Some(AllocationSettings::External),
            Some(ShardingCommandError::NameTooLongToPlace),
        ),
    ] {
        for hosts in [true, false] {
            let mut world = World::without_kind_on(&[0], 1, 0);
            world.set(&[(0, Status::Up)]);
            world.peers[0].registered.clear();
            let kind = KindSettings {
                name: "k".repeat(bytes).into(),
                allocation: allocation.clone(),
                ..settings(hosts)
            };
            world.register_as(0, kind);
            world.run_for(secs(5));
            let said = match &world.peers[0].registered[..] {
                [Answer::Done] => None,
                [Answer::Refused(CommandError::Sharding(error))] => Some(error.clone()),
                other => panic!("{other:?}"),
            };
            assert_eq!(said, error, "{bytes} bytes, hosts: {hosts}");
        }
    }
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
