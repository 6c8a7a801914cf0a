//! After a pause nothing begins until the node is known to be a member still (sharding 10.13), and while the cluster prepares
//! for a full shutdown nothing moves for balance (10.12).

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
