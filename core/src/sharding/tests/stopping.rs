//! Shards that a user wants stopped: by command, from any node, each acknowledged.

use alloc::vec;
use alloc::vec::Vec;

use super::world::{config, settings};
use super::*;
use crate::effect::{Answer, CommandError, ShardingAnswer, ShardingCommandError};
use crate::input::{KindSettings, ShardingCommand};
use crate::sharding::protocol::stop::{STOP_SHARDS_MAX, StopMsg, StoppedShards};
use crate::sharding::state::remember::RememberStore;

fn stop(world: &mut World, at: usize, shards: &[u32]) {
    world.with(at, |peer| {
        peer.registered.clear();
        let command = ShardingCommand::StopShards {
            kind: kind(),
            shards: shards.iter().copied().map(ShardId).collect(),
            timeout: secs(30),
        };
        peer.sharding.on_command(&mut peer.fixture.cx(), 800, command);
    });
}

fn answered(world: &mut World, at: usize) -> Option<Answer> {
    world.peers[at].registered.pop()
}

fn all_stopped(shards: &[u32]) -> Option<Answer> {
    let stopped = shards.iter().copied().map(ShardId).collect();
    let unconfirmed = Vec::new();
    Some(Answer::Sharding(ShardingAnswer::ShardsStopped(StoppedShards {
        stopped,
        unconfirmed,
    })))
}

fn running(world: &World) -> Vec<u32> {
    world.hosts().keys().map(|shard| shard.0).collect()
}

#[test]
fn shards_are_stopped_by_command_from_any_node_and_begin_again_with_a_message_only() {
    for at in 0..4 {
        let mut world = World::formed(3, 1);
        world.touch_all(3);
        stop(&mut world, at, &[1, 5, 7]);
        world.run_for(secs(1));
        assert_eq!(
            answered(&mut world, at),
            all_stopped(&[1, 5, 7]),
            "from node {at}"
        );
        assert_eq!(running(&world), [0, 2, 3, 4, 6, 8, 9, 10, 11]);
        world.run_for(secs(120));
        assert_eq!(running(&world).len(), 9, "nobody has sent them a message");
        // What has stopped is acknowledged at once, beside what has not.
        stop(&mut world, at, &[1, 5]);
        assert_eq!(answered(&mut world, at), all_stopped(&[1, 5]));
        let handled = world.handled();
        world.tell(3, &entity_in(5), "again");
        world.run_for(secs(1));
        assert_eq!((world.handled(), running(&world).len()), (handled + 1, 10));
    }
}

#[test]
fn what_is_lost_is_said_again_and_what_does_not_stop_in_time_is_named() {
    let mut world = World::formed(3, 1);
    world.touch_all(3);
    let of_two: Vec<u32> = world
        .hosts()
        .iter()
        .filter(|(_, on)| **on == [2])
        .map(|(shard, _)| shard.0)
        .collect();
    world.lose = |message| matches!(message, Message::Sharding(ShardingMsg::Kind(it)) if matches!(it.body, ShardingBody::Stop(_)));
    stop(&mut world, 3, &of_two);
    world.run_for(secs(3));
    assert_eq!(answered(&mut world, 3), None, "nobody has heard of it");
    world.lose = |_| false;
    world.run_for(secs(3));
    assert_eq!(answered(&mut world, 3), all_stopped(&of_two));
    // An entity that does not stop keeps its shard.
    world.touch_all(3);
    let stuck = world
        .hosts()
        .iter()
        .find(|(_, on)| **on == [1])
        .map(|(shard, _)| shard.0)
        .unwrap();
    world.peers[1].stubborn = true;
    stop(&mut world, 0, &[stuck]);
    world.run_for(secs(31));
    let unconfirmed = StoppedShards {
        stopped: Vec::new(),
        unconfirmed: vec![ShardId(stuck)],
    };
    assert_eq!(
        answered(&mut world, 0),
        Some(Answer::Sharding(ShardingAnswer::ShardsStopped(unconfirmed)))
    );
}

#[test]
fn a_new_coordinator_is_asked_and_the_shards_of_a_node_that_ended_have_stopped() {
    let mut world = World::formed(3, 1);
    world.touch_all(3);
    let all: Vec<u32> = (0..SHARDS).collect();
    world.peers[0].stubborn = true;
    stop(&mut world, 3, &all);
    world.crash_and_remove(&[0]);
    world.run_for(MARGIN + secs(5));
    assert_eq!(answered(&mut world, 3), all_stopped(&all));
    assert_eq!(running(&world), [0; 0]);
}

#[test]
fn shards_of_a_kind_that_remembers_its_entities_are_not_stopped_by_command() {
    let mut world = World::bare(1, 1, &config());
    world.all_up();
    let remembers = KindSettings {
        remember_entities: Some(RememberStore::Data),
        ..settings(true)
    };
    world.register_as(0, remembers);
    world.register(1, false);
    world.run_for(secs(3));
    let refused = Some(Answer::Refused(CommandError::Sharding(
        ShardingCommandError::RemembersEntities,
    )));
    stop(&mut world, 0, &[1]);
    assert_eq!(answered(&mut world, 0), refused, "it knows by itself");
    for peer in &mut world.peers {
        // The store answers nothing: then the coordinator does not act, and says nothing.
        peer.fixture.outbox.asked.clear();
    }
}

#[test]
fn what_cannot_be_stopped_is_refused() {
    let mut world = World::formed(2, 0);
    let refused = |error| Some(Answer::Refused(CommandError::Sharding(error)));
    stop(&mut world, 0, &[1, SHARDS]);
    let (shard, shards) = (ShardId(SHARDS), SHARDS);
    assert_eq!(
        answered(&mut world, 0),
        refused(ShardingCommandError::NoSuchShard { shard, shards })
    );
    stop(&mut world, 0, &[]);
    assert_eq!(
        answered(&mut world, 0),
        all_stopped(&[]),
        "nothing is done at once"
    );
    world.touch_all(1);
    world.lose = |_| true;
    for _ in 0..16 {
        stop(&mut world, 1, &[1]);
        assert_eq!(answered(&mut world, 1), None);
    }
    stop(&mut world, 1, &[1]);
    assert_eq!(
        answered(&mut world, 1),
        refused(ShardingCommandError::TooManyStops)
    );
    world.lose = |_| false;
    world.set(&[
        (0, Status::PreparingForShutdown),
        (1, Status::PreparingForShutdown),
    ]);
    stop(&mut world, 0, &[2]);
    assert_eq!(
        answered(&mut world, 0),
        refused(ShardingCommandError::ClusterShuttingDown)
    );
    world.with(1, |peer| {
        peer.registered.clear();
        peer.sharding.halt(&mut peer.fixture.cx());
    });
    world.run_for(secs(31));
}

#[test]
fn a_member_without_a_region_stops_nothing_and_a_shard_that_cannot_be_is_rejected() {
    let mut world = World::without_kind_on(&[2], 2, 1);
    world.all_up();
    world.touch_all(0);
    let say = |shards: Vec<ShardId>| {
        let body = ShardingBody::Stop(StopMsg::Stop { shards });
        Message::Sharding(ShardingMsg::Kind(ShardingMessage { kind: kind(), body }))
    };
    world.deliver(2, 0, say(vec![ShardId(1)]));
    world.deliver(1, 0, say(vec![ShardId(SHARDS); STOP_SHARDS_MAX]));
    world.run_for(secs(3));
    assert_eq!(running(&world).len(), SHARDS as usize);
    let what = "shard";
    assert_eq!(
        world.peers[0].rejected,
        [Rejection::Sharding(ShardingRejection::OutOfRange { what })]
    );
}
