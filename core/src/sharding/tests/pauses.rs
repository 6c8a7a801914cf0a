//! After a pause nothing begins until the node is known to be a member still (sharding 10.13), and while the
//! cluster prepares for a full shutdown nothing moves for balance (10.12).

use alloc::vec::Vec;

use super::*;

fn pause(world: &mut World, at: usize) {
    world.with(at, |peer| peer.sharding.on_paused());
}

fn still_member(world: &mut World, at: usize) {
    world.with(at, |peer| peer.sharding.on_still_member(&mut peer.fixture.cx()));
}

#[test]
fn a_coordinator_that_stood_still_allocates_nothing_until_it_is_a_member_still() {
    let mut world = World::formed(2, 1);
    pause(&mut world, 0);
    let token = world.ask(2, &entity_in(3), secs(60));
    world.run_for(secs(20));
    assert_eq!(world.counts(), [0, 0, 0]);
    still_member(&mut world, 0);
    assert!(world.peers[2].answers[&token].is_ok(), "it goes on at once");
}

#[test]
fn a_coordinator_that_stood_still_moves_nothing() {
    let mut world = World::without_kind_on(&[1], 2, 1);
    world.all_up();
    world.touch_all(2);
    assert_eq!(world.counts(), [12, 0, 0]);
    world.register(1, true);
    pause(&mut world, 0);
    world.run_for(secs(30));
    assert_eq!(world.counts(), [12, 0, 0], "no balance");
    world.drain(0);
    world.run_for(secs(2));
    assert_eq!(world.counts(), [12, 0, 0], "no hand-over either");
    still_member(&mut world, 0);
    world.run_for(secs(5));
    assert_eq!(world.counts(), [0, 12, 0]);
}

#[test]
fn a_region_that_stood_still_begins_no_shard_and_delivers_nothing() {
    let mut world = World::formed(2, 1);
    world.touch_all(2);
    let here = (0..SHARDS).find(|s| world.hosts()[&ShardId(*s)][0] == 1).unwrap();
    let handled = world.handled();
    pause(&mut world, 1);
    let waits = world.ask(2, &entity_in(here), secs(60));
    world.run_for(secs(15));
    assert_eq!(world.handled(), handled, "it may live elsewhere by now");
    assert_eq!(world.peers[2].answers.get(&waits), None);
    still_member(&mut world, 1);
    assert!(world.peers[2].answers[&waits].is_ok());
}

#[test]
fn a_shard_given_to_a_region_that_stood_still_begins_after_the_pause() {
    let mut world = World::formed(2, 1);
    pause(&mut world, 1);
    world.touch_all(2);
    assert_eq!(world.counts(), [6, 0, 0], "half of them wait");
    assert_eq!(world.handled(), 6);
    still_member(&mut world, 1);
    assert_eq!((world.counts(), world.handled()), (alloc::vec![6, 6, 0], 12));
}

#[test]
fn the_oldest_that_stood_still_accepts_no_kind() {
    let mut world = World::without_kind_on(&[1], 2, 0);
    world.all_up();
    pause(&mut world, 0);
    world.register(1, true);
    world.run_for(secs(10));
    assert_eq!(world.peers[1].registered, []);
    still_member(&mut world, 0);
    world.run_for(secs(3));
    assert_eq!(world.peers[1].registered, [crate::effect::Answer::Done]);
}

#[test]
fn s_110_while_the_cluster_prepares_for_shutdown_nothing_moves_and_what_a_message_needs_is_allocated() {
    let mut world = World::without_kind_on(&[1], 2, 1);
    world.all_up();
    for shard in 0..SHARDS - 1 {
        world.tell(2, &entity_in(shard), "touch");
    }
    world.set(&[
        (0, Status::PreparingForShutdown),
        (1, Status::PreparingForShutdown),
        (2, Status::PreparingForShutdown),
    ]);
    world.register(1, true);
    world.run_for(secs(60));
    assert_eq!(world.counts(), [11, 0, 0], "nothing moves for balance");
    let token = world.ask(2, &entity_in(SHARDS - 1), secs(5));
    assert!(world.peers[2].answers[&token].is_ok());
    assert_eq!(world.counts(), [11, 1, 0]);
}

fn prepared(world: &mut World) {
    let all: Vec<(usize, Status)> = (0..world.peers.len())
        .map(|at| (at, Status::ReadyForShutdown))
        .collect();
    world.set(&all);
}

/// Hand-offs that a node's coordinator has finished, and shards it has given a home.
fn moved(world: &World, at: usize) -> (u64, u64) {
    let counters = &world.peers[at].fixture.stats.sharding;
    (counters.hand_offs_completed, counters.shards_allocated)
}

#[test]
fn a_node_that_leaves_a_prepared_cluster_hands_nothing_over_and_what_a_message_needs_begins_elsewhere() {
    let mut world = World::formed(3, 0);
    world.touch_all(0);
    assert_eq!(world.counts(), [4, 4, 4]);
    prepared(&mut world);
    world.set(&[(1, Status::Leaving)]);
    world.drain(1);
    world.run_for(secs(60));
    assert!(world.peers[1].drained);
    assert_eq!(world.counts(), [4, 0, 4], "its shards ended with it");
    assert_eq!(moved(&world, 0), (0, 12), "and nobody gave them another home");
    let hosts = world.hosts();
    let lost = (0..SHARDS).find(|shard| hosts.get(&ShardId(*shard)).is_none_or(Vec::is_empty));
    let token = world.ask(2, &entity_in(lost.unwrap()), secs(5));
    assert!(world.peers[2].answers[&token].is_ok());
    assert_eq!(moved(&world, 0), (0, 13), "only the one that a message needs");
}

#[test]
fn when_all_leave_a_prepared_cluster_at_once_nothing_moves_although_nobody_shows_any_more_that_it_is_prepared()
 {
    let mut world = World::formed(3, 0);
    world.touch_all(0);
    prepared(&mut world);
    world.set(&[(0, Status::Leaving), (1, Status::Leaving), (2, Status::Leaving)]);
    for at in 0..3 {
        world.drain(at);
    }
    world.run_for(secs(1));
    assert!(
        world.peers.iter().all(|peer| peer.drained),
        "nobody waits for anybody"
    );
    assert_eq!(world.counts(), [0, 0, 0]);
    assert_eq!(moved(&world, 0), (0, 12));
}

#[test]
fn a_region_that_hands_over_when_the_cluster_begins_to_prepare_stops_instead() {
    let mut world = World::formed(2, 0);
    world.touch_all(0);
    world.set(&[(1, Status::Leaving)]);
    world.cut.insert((0, 1));
    world.drain(1);
    assert!(!world.peers[1].drained, "it waits for the coordinator");
    world.set(&[(0, Status::PreparingForShutdown), (1, Status::Leaving)]);
    assert!(world.peers[1].drained);
    assert_eq!(world.peers[1].fixture.stats.sharding.shards_stopped, 6);
}

#[test]
fn shards_of_a_member_that_dies_in_a_prepared_cluster_begin_where_a_message_needs_them_and_nowhere_else() {
    let mut world = World::formed(3, 0);
    world.touch_all(0);
    prepared(&mut world);
    world.crash_and_remove(&[2]);
    world.run_for(secs(120));
    assert_eq!(world.counts()[..2], [4, 4]);
    world.touch_all(1);
    world.run_for(secs(10));
    assert_eq!(world.counts()[..2], [6, 6]);
}
