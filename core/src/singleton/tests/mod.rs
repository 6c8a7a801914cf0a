//! Singletons on a few nodes without membership: the cases of the catalogue, by number. Spec: sharding 6.7.

mod proxies;
mod registration;
mod retirement;
mod tokens;
mod world;

use alloc::vec::Vec;
use core::time::Duration;

use self::world::{MARGIN, World, secs};
use super::Singletons;
use super::protocol::{Event, SingletonBody};
use super::state::{SingletonId, SingletonPhase};
use crate::config::{Config, DowningStrategy};
use crate::effect::{Answer, CommandError, Effect, SingletonCommandError};
use crate::fixture::{Fixture, node};
use crate::input::{SingletonCommand, SingletonSettings};
use crate::lease::protocol::LeaseOutcome;
use crate::membership::state::member::Status;
use crate::sharding::state::errors::AskFailure;

/// Every node a hand-over is asked of has answered, and nothing is in the way.
const SOON: Duration = Duration::from_millis(1);

const NOBODY: [usize; 0] = [];

#[test]
fn s_151_the_oldest_leaves_and_the_instance_stops_there_before_it_starts_on_the_next() {
    let mut world = World::formed(6);
    world.host(0).slow_to_stop = true;
    assert_eq!(world.running(), [0]);
    world.leave(&[0]);
    world.run_for(secs(5));
    assert_eq!(world.running(), [0], "it has not stopped yet");
    assert!(!world.drained(0), "it is waited for");
    world.ends(0);
    world.run_for(SOON);
    assert_eq!(world.running(), [1]);
    assert!(world.drained(0), "handed over before it exits");
    assert_eq!(world.phase(0), SingletonPhase::End);
    world.remove(&[0]);
    world.run_for(secs(30));
    assert_eq!(world.running(), [1]);
}

#[test]
fn under_auto_down_each_host_is_warned_once_and_its_state_says_so_but_not_with_a_lease() {
    let careless = |config: &mut Config| config.downing.strategy = DowningStrategy::AutoDown;
    let strategy = "auto-down";
    let warned = |world: &World, at| world.said(at, |event| *event == Event::MayRunTwice { strategy });
    let mut world = World::with_config(3, careless);
    world.all_up();
    assert!(world.register(1, true), "it hosts it already");
    assert!(world.register(2, false), "it does more than that already");
    for at in 0..3 {
        assert_eq!(warned(&world, at), 1);
        assert_eq!(world.state(at).may_run_twice, Some(strategy));
        assert!(world.may_run_twice(at));
    }
    world.stop(1, secs(5));
    assert!(world.register(1, true), "it hosts it again");
    assert_eq!(warned(&world, 1), 2);
    let mut world = World::build(2, true, careless);
    world.all_up();
    assert_eq!((warned(&world, 0), world.state(0).may_run_twice), (0, None));
    assert!(!world.may_run_twice(0));
    let world = World::formed(2);
    assert_eq!((warned(&world, 0), world.state(0).may_run_twice), (0, None));
}

#[test]
fn s_152_after_a_crash_the_next_starts_once_the_oldest_is_removed_and_the_margin_is_over() {
    let mut world = World::formed(6);
    world.crash(&[0]);
    world.set(&[(0, Status::Down)]);
    world.run_for(secs(60));
    assert_eq!(world.running(), Vec::<usize>::new(), "Down is not removed");
    world.remove(&[0]);
    world.run_for(MARGIN - SOON);
    assert_eq!(world.running(), Vec::<usize>::new());
    world.run_for(SOON + SOON);
    assert_eq!(world.running(), [1]);
    world.crash(&[1, 2]);
    world.set(&[(1, Status::Down), (2, Status::Down)]);
    world.remove(&[1, 2]);
    world.run_for(MARGIN + secs(2));
    assert_eq!(world.running(), [3]);
}

#[test]
fn s_154_a_downed_node_kills_its_instance_at_once_and_begins_nothing_more() {
    let mut world = World::formed(3);
    world.host(0).slow_to_stop = true;
    world.set(&[(0, Status::Down)]);
    assert_eq!(world.host(0).killed, 1);
    assert_eq!(world.phase(0), SingletonPhase::Stopped);
    world.ends(0);
    world.run_for(secs(60));
    assert_eq!(world.running(), Vec::<usize>::new());
    assert!(!world.register(0, true), "a halted node hosts nothing");
}

#[test]
fn s_155_nobody_starts_until_a_slow_first_has_stopped_though_others_leave() {
    let mut world = World::formed(4);
    world.host(0).slow_to_stop = true;
    world.leave(&[0, 1, 3]);
    world.run_for(secs(12));
    assert_eq!(world.running(), [0]);
    world.ends(0);
    world.run_for(secs(3));
    world.remove(&[0]);
    world.run_for(secs(3));
    world.remove(&[1, 3]);
    world.run_for(MARGIN + secs(3));
    assert_eq!(world.running(), [2]);
}

#[test]
fn s_157_a_node_that_started_anew_and_runs_nothing_lets_the_next_begin_at_once() {
    let mut world = World::formed(3);
    // As another one sees it that was asked about an earlier life: it is younger, and nothing runs there.
    world.says(2, 1, 41, SingletonBody::HandOverToMe);
    let answers = world.heard_by(2, |body| matches!(body, SingletonBody::HandOverDone { .. }));
    assert_eq!(answers, [(1, 41)]);
    // One that leaves says nothing: its predecessor may have asked it to take over.
    world.set(&[(1, Status::Leaving)]);
    world.says(2, 1, 42, SingletonBody::HandOverToMe);
    assert_eq!(
        world.heard_by(2, |body| matches!(body, SingletonBody::HandOverDone { .. })),
        [(1, 41)]
    );
}

#[test]
fn s_158_a_node_that_becomes_the_oldest_that_is_up_runs_it_within_three_seconds() {
    let mut world = World::new(3);
    world.set(&[(0, Status::Joining), (1, Status::Up), (2, Status::Up)]);
    world.run_for(secs(3));
    assert_eq!(world.running(), [1], "Joining counts for nothing");
    world.set(&[(0, Status::WeaklyUp)]);
    world.run_for(secs(3));
    assert_eq!(world.running(), [1]);
}

#[test]
fn s_158_a_node_that_is_not_up_yet_is_nobodys_successor() {
    let mut world = World::new(2);
    world.set(&[(0, Status::Joining), (1, Status::Up)]);
    world.run_for(secs(3));
    assert_eq!(world.running(), [1]);
    world.leave(&[1]);
    world.run_for(SOON);
    assert!(world.drained(1), "there is nobody to wait for");
}

#[test]
fn s_160_the_last_node_waits_for_its_instance_to_stop_before_it_ends() {
    let mut world = World::formed(1);
    world.host(0).slow_to_stop = true;
    world.leave(&[0]);
    world.run_for(secs(5));
    assert_eq!((world.host(0).told_to_stop, world.drained(0)), (1, false));
    world.ends(0);
    world.run_for(SOON);
    assert!(world.drained(0));
}

#[test]
fn s_161_nothing_starts_before_the_lease_is_held_and_it_is_asked_for_again() {
    let mut world = World::with_lease(2);
    world.set(&[(0, Status::Up), (1, Status::Up)]);
    assert_eq!(world.phase(0), SingletonPhase::AcquiringLease);
    assert_eq!(world.host(0).leases_asked, 1);
    world.lease(0, LeaseOutcome::Denied);
    world.run_for(secs(5) + SOON);
    assert_eq!(world.host(0).leases_asked, 2);
    world.run_for(secs(5));
    assert_eq!(world.host(0).leases_asked, 3, "no answer is a refusal");
    assert_eq!(world.running(), Vec::<usize>::new());
    world.lease(0, LeaseOutcome::Granted { token: 7 });
    world.run_for(SOON);
    assert_eq!(world.running(), [0]);
}

#[test]
fn s_162_a_lost_lease_stops_the_instance_and_the_next_one_needs_it_again() {
    let mut world = World::with_lease(2);
    world.set(&[(0, Status::Up), (1, Status::Up)]);
    world.lease(0, LeaseOutcome::Granted { token: 7 });
    world.run_for(SOON);
    let first = world.token(0);
    world.host(0).slow_to_stop = true;
    world.lease(0, LeaseOutcome::Lost);
    assert_eq!(
        (world.host(0).told_to_stop, world.host(0).killed),
        (1, 1),
        "in the same step, and nothing of what waits is begun with"
    );
    assert_eq!(world.host(0).leases_asked, 1, "not before it has stopped");
    world.ends(0);
    assert_eq!(world.host(0).leases_asked, 2);
    world.lease(0, LeaseOutcome::Granted { token: 9 });
    world.run_for(SOON);
    assert_eq!(world.running(), [0]);
    assert!(world.token(0) > first);
}

#[test]
fn a_lease_is_given_back_only_once_the_instance_has_stopped() {
    let mut world = World::with_lease(1);
    world.set(&[(0, Status::Up)]);
    world.lease(0, LeaseOutcome::Granted { token: 7 });
    world.run_for(SOON);
    world.host(0).slow_to_stop = true;
    world.leave(&[0]);
    world.run_for(secs(3));
    assert_eq!(
        (world.host(0).told_to_stop, world.host(0).leases_released),
        (1, 0)
    );
    world.ends(0);
    assert_eq!(world.host(0).leases_released, 1);
}

#[test]
fn one_that_was_asked_to_leave_before_it_was_a_member_takes_no_part() {
    let mut world = World::new(2);
    world.set(&[(0, Status::Up)]);
    world.run_for(secs(2));
    world.drain(1);
    world.set(&[(1, Status::Leaving)]);
    world.run_for(secs(2));
    assert_eq!(world.phase(1), SingletonPhase::Start);
    assert_eq!(world.running(), [0]);
}

#[test]
fn a_node_that_is_down_gives_its_lease_back_once_its_instance_has_ended() {
    let mut world = World::with_lease(1);
    world.set(&[(0, Status::Up)]);
    world.lease(0, LeaseOutcome::Granted { token: 7 });
    world.run_for(SOON);
    world.host(0).slow_to_stop = true;
    world.set(&[(0, Status::Down)]);
    assert_eq!((world.host(0).killed, world.host(0).leases_released), (1, 0));
    world.ends(0);
    assert_eq!(world.host(0).leases_released, 1);
}

#[test]
fn s_164_a_hand_over_done_of_another_node_or_of_an_earlier_attempt_starts_nothing() {
    let mut world = World::formed(3);
    world.forgive_two();
    world.cut(&[0]);
    world.leave(&[0]);
    assert_eq!(world.phase(1), SingletonPhase::BecomingOldest);
    world.says(2, 1, 1, SingletonBody::HandOverDone { term: 0 });
    world.run_for(SOON);
    assert_eq!(
        world.phase(1),
        SingletonPhase::BecomingOldest,
        "not the head of those before"
    );
    world.says(0, 1, 0, SingletonBody::HandOverDone { term: 0 });
    world.run_for(SOON);
    assert_eq!(
        world.phase(1),
        SingletonPhase::BecomingOldest,
        "an earlier attempt"
    );
    assert_eq!(world.stats(1).answers_stale, 1);
    world.says(0, 1, 1, SingletonBody::HandOverDone { term: 5 });
    world.run_for(SOON);
    assert_eq!(world.phase(1), SingletonPhase::Oldest);
    assert_eq!(
        world.token(1).map(|token| token.term),
        Some(6),
        "above what the last one had"
    );
}

#[test]
fn s_165_a_successor_that_nobody_answers_is_stuck_and_begins_anew_until_the_other_is_removed() {
    let mut world = World::formed(2);
    world.cut(&[0]);
    world.leave(&[0]);
    // At least 15 retries, and more while the margin could still be running: 20 s and 3.
    world.run_for(secs(24) - SOON);
    assert_eq!(world.said(1, |event| *event == Event::HandOverStuck), 0);
    world.run_for(secs(1));
    assert_eq!(world.said(1, |event| *event == Event::HandOverStuck), 1);
    assert_eq!(world.stats(1).hand_overs_stuck, 1);
    assert_eq!(
        world.running(),
        Vec::<usize>::new(),
        "who leaves stops in the end"
    );
    world.crash(&[0]);
    world.remove(&[0]);
    world.run_for(MARGIN + secs(3));
    assert_eq!(world.running(), [1]);
}

#[test]
fn s_168_of_two_that_leave_at_once_neither_leaves_two_instances_behind() {
    let mut world = World::formed(3);
    world.leave(&[0, 1]);
    world.run_for(secs(3));
    world.remove(&[0]);
    world.run_for(secs(3));
    world.remove(&[1]);
    world.run_for(MARGIN + secs(5));
    assert_eq!(world.running(), [2]);
    assert_eq!(world.starts(), 2, "one on the first, one on the third");
}

/// The first has handed over to the second and is a member still, when the second leaves as well. Nobody
/// waits for the removal of either.
#[test]
fn i_31_the_last_host_hands_over_too_while_an_older_one_is_there() {
    let mut world = World::formed(3);
    world.leave(&[0]);
    world.run_for(SOON);
    assert_eq!(world.running(), [1]);
    world.host(1).slow_to_stop = true;
    world.leave(&[1]);
    world.run_for(secs(5));
    assert_eq!(world.running(), [1], "it has not stopped");
    world.ends(1);
    world.run_for(SOON);
    assert_eq!(world.running(), [2]);
}

/// The same, and the first hosts it no more: it answers everybody that it has nothing to hand over.
#[test]
fn i_31_one_that_hosts_it_no_more_does_not_hand_over_for_the_last_host() {
    let mut world = World::formed(3);
    world.stop(0, secs(1));
    world.leave(&[0]);
    world.run_for(SOON);
    assert_eq!(world.running(), [1]);
    world.host(1).slow_to_stop = true;
    world.leave(&[1]);
    world.run_for(secs(5));
    assert_eq!(world.running(), [1], "it has not stopped");
    world.ends(1);
    world.run_for(SOON);
    assert_eq!(world.running(), [2]);
}

/// The same, and the third hears of both only now.
#[test]
fn i_31_who_has_missed_that_another_was_the_oldest_asks_it_too() {
    let mut world = World::formed(5);
    world.cut(&[2]);
    world.leave(&[0]);
    world.run_for(SOON);
    assert_eq!(world.running(), [1]);
    world.host(1).slow_to_stop = true;
    world.leave(&[1]);
    world.heal();
    world.run_for(secs(5));
    assert_eq!(world.running(), [1]);
    world.ends(1);
    world.run_for(secs(2));
    assert_eq!(world.running(), [2]);
}

/// Nothing ran on the second, which leaves with the first: nobody waits for its removal.
#[test]
fn s_168_of_two_that_leave_the_one_that_ran_nothing_is_not_waited_for() {
    let mut world = World::formed(3);
    world.leave(&[0, 1]);
    world.run_for(SOON);
    assert_eq!(world.running(), [2]);
}

#[test]
fn s_168_who_leaves_while_it_waits_for_the_last_instance_starts_none() {
    let mut world = World::formed(3);
    world.host(0).slow_to_stop = true;
    world.leave(&[0]);
    world.run_for(SOON);
    assert_eq!(world.host(0).told_to_stop, 1, "the second has asked for it");
    world.leave(&[1]);
    world.run_for(SOON);
    world.ends(0);
    world.run_for(SOON);
    assert_eq!(world.starts(), 1, "the second is on its way out");
    world.remove(&[0, 1]);
    world.run_for(MARGIN + secs(5));
    assert_eq!(world.running(), [2]);
    assert_eq!(world.starts(), 2, "one on the first, one on the third");
}

#[test]
fn of_two_that_leave_at_once_the_first_does_not_wait_for_a_second_that_is_gone_before() {
    let mut world = World::formed(2);
    world.host(0).slow_to_stop = true;
    world.hold_wire();
    world.leave(&[0, 1]);
    world.remove(&[1]);
    world.release_wire();
    world.run_for(SOON);
    assert_eq!(
        world.host(0).told_to_stop,
        1,
        "nobody is left who could take over"
    );
    world.ends(0);
    world.run_for(SOON);
    assert!(world.drained(0));
}

#[test]
fn while_the_cluster_prepares_to_shut_down_nothing_starts_and_nothing_is_handed_over() {
    let mut world = World::formed(3);
    let preparing = Status::PreparingForShutdown;
    world.set(&[(0, preparing), (1, preparing), (2, preparing)]);
    assert_eq!(world.running(), [0], "what runs goes on");
    world.crash(&[0]);
    world.remove(&[0]);
    world.run_for(MARGIN + secs(60));
    assert_eq!(world.running(), Vec::<usize>::new());
    assert_eq!(world.starts(), 1);
}

#[test]
fn a_pause_holds_up_a_start_and_messages_until_this_node_is_known_to_be_a_member() {
    let mut world = World::formed(2);
    world.run_for(SOON);
    world.pause(0);
    let ask = world.ask(1, secs(60));
    assert_eq!(world.host(0).delivered, 0, "kept");
    world.fails(0);
    world.run_for(secs(40));
    assert_eq!(world.running(), Vec::<usize>::new(), "nothing begins");
    assert!(world.answered(ask).is_some_and(|result| result.is_err()));
    world.still_member(0);
    world.run_for(SOON);
    assert_eq!(world.running(), [0]);
    world.pause(0);
    let ask = world.ask(1, secs(60));
    world.still_member(0);
    world.run_for(SOON);
    assert!(
        world.answered(ask).is_some_and(|result| result.is_ok()),
        "what was kept is delivered"
    );
}

#[test]
fn an_instance_that_does_not_stop_in_time_is_killed_and_still_waited_for() {
    let mut world = World::formed(2);
    world.host(0).slow_to_stop = true;
    world.leave(&[0]);
    world.run_for(secs(10) - SOON);
    assert_eq!(world.host(0).killed, 0);
    world.run_for(SOON + SOON);
    assert_eq!(world.host(0).killed, 1);
    world.run_for(secs(60));
    assert_eq!(
        world.running(),
        [0],
        "a handler that blocks its thread cannot be ended: nobody else starts"
    );
    world.ends(0);
    world.run_for(secs(2));
    assert_eq!(world.running(), [1]);
}

#[test]
fn one_that_fails_rests_twice_as_long_each_time_and_its_successor_has_a_higher_token() {
    let mut world = World::formed(1);
    let mut last = world.token(0);
    for rest in [1, 2, 4, 8, 16, 30, 30] {
        world.fails(0);
        world.run_for(secs(rest) - SOON);
        assert_eq!(world.running(), Vec::<usize>::new(), "after {rest} s");
        world.run_for(SOON + SOON);
        assert_eq!(world.running(), [0], "after {rest} s");
        assert!(world.token(0) > last);
        last = world.token(0);
    }
    world.run_for(secs(31));
    world.fails(0);
    world.run_for(secs(1) + SOON);
    assert_eq!(
        world.running(),
        [0],
        "one that ran for long has failed for the first time"
    );
}

#[test]
fn only_members_with_the_role_host_it_and_a_node_that_leaves_hosts_nothing_new() {
    let mut world = World::formed(2);
    assert!(
        world.register(0, true),
        "registered again as it is, nothing happens"
    );
    assert_eq!(world.starts(), 1);
    let mut late = World::new(2);
    late.forget(1);
    late.set(&[(0, Status::Up), (1, Status::Leaving)]);
    assert!(!late.register(1, true));
    assert!(late.register(1, false), "it may reach it");
}

#[test]
fn a_node_that_leaves_a_prepared_cluster_stops_its_instance_at_once_and_nobody_takes_it_over() {
    let mut world = World::formed(3);
    let ready = Status::ReadyForShutdown;
    world.set(&[(0, ready), (1, ready), (2, ready)]);
    world.host(0).slow_to_stop = true;
    world.leave(&[0]);
    world.run_for(SOON);
    assert_eq!(world.host(0).told_to_stop, 1, "no successor is asked first");
    assert!(!world.drained(0), "it ends before its node does");
    world.ends(0);
    world.run_for(SOON);
    assert!(world.drained(0));
    world.leave(&[1, 2]);
    world.run_for(SOON);
    world.remove(&[0]);
    world.run_for(MARGIN + secs(60));
    assert!(world.drained(1) && world.drained(2));
    assert_eq!((world.running(), world.starts()), (Vec::new(), 1));
    assert_eq!(
        world.said(0, |event| matches!(event, Event::HandedOver { .. })),
        0
    );
}

#[test]
fn a_hand_over_that_has_begun_when_the_cluster_prepares_ends_with_nothing_running() {
    let mut world = World::formed(2);
    world.cut(&[0]);
    world.leave(&[0]);
    world.run_for(SOON);
    assert_eq!(world.running(), [0], "it asks who comes next");
    world.set(&[(0, Status::Leaving), (1, Status::PreparingForShutdown)]);
    world.heal();
    world.run_for(secs(3));
    assert!(world.drained(0));
    assert_eq!((world.running(), world.starts()), (Vec::new(), 1));
}

#[test]
fn the_instance_of_a_node_on_its_way_out_stays_until_it_is_its_turn() {
    let mut world = World::formed(2);
    world.set(&[(0, Status::Exiting)]);
    world.run_for(secs(5));
    assert_eq!(world.running(), [0], "its node's entities may need it");
    assert_eq!(world.host(0).told_to_stop, 0);
    world.leave(&[0]);
    world.run_for(SOON);
    assert_eq!(world.running(), [1], "without waiting for the next question");
}

#[test]
fn s_152_a_newcomer_waits_for_an_older_one_that_was_removed_as_it_came_and_for_who_left_after() {
    let mut world = World::new(3);
    world.set(&[(0, Status::Up), (1, Status::Up), (2, Status::Joining)]);
    world.run_for(secs(5));
    assert_eq!(world.running(), [0]);
    world.crash(&[0]);
    world.set(&[(0, Status::Down)]);
    world.leave(&[1]);
    // Nobody is left who knows the last token.
    world.has_promised(2, 5);
    world.remove_and_set(&[0], &[(2, Status::Up)]);
    world.remove(&[1]);
    world.run_for(MARGIN - SOON);
    assert_eq!(
        world.running(),
        Vec::<usize>::new(),
        "it may still run where it ran"
    );
    world.run_for(secs(3));
    assert_eq!(world.running(), [2]);
}

#[test]
fn who_never_was_responsible_does_not_hand_over_for_one_that_was_removed_a_moment_ago() {
    let mut world = World::new(3);
    world.set(&[(0, Status::Up), (1, Status::Up), (2, Status::Joining)]);
    world.run_for(secs(5));
    world.crash(&[0]);
    world.set(&[(0, Status::Down)]);
    world.has_promised(2, 5);
    world.remove_and_set(&[0], &[(1, Status::Exiting), (2, Status::Up)]);
    // As one that has finished does.
    let (_, epoch) = world
        .heard_by(1, |body| matches!(body, SingletonBody::HandOverToMe))
        .pop()
        .expect("it is asked");
    world.says(1, 2, epoch, SingletonBody::HandOverDone { term: 1 });
    world.run_for(MARGIN - SOON);
    assert_eq!(
        world.running(),
        Vec::<usize>::new(),
        "it may still run where it ran"
    );
}

/// One of whom this node has never seen the record counts as the oldest there can be, also for a member that
/// is as old.
#[test]
fn s_152_a_first_member_waits_for_one_that_was_removed_and_whose_age_nobody_knows() {
    let mut world = World::new(3);
    world.set(&[(0, Status::Up), (1, Status::Up)]);
    world.as_old_as_the_first(1);
    world.run_for(secs(5));
    assert_eq!(world.running(), [0]);
    world.remove(&[2]);
    world.leave(&[0]);
    world.run_for(MARGIN - SOON);
    assert_eq!(world.running(), Vec::<usize>::new(), "it may still run there");
    world.remove(&[0]);
    world.run_for(secs(3));
    assert_eq!(world.running(), [1]);
}

#[test]
fn s_161_a_lease_that_is_granted_to_who_has_left_the_race_is_given_back() {
    let mut world = World::with_lease(2);
    world.set(&[(0, Status::Up), (1, Status::Up)]);
    assert_eq!(world.phase(0), SingletonPhase::AcquiringLease);
    world.leave(&[0]);
    let before = world.host(0).leases_released;
    world.lease(0, LeaseOutcome::Granted { token: 7 });
    assert_eq!(world.host(0).leases_released, before + 1);
    assert_ne!(world.running(), [0]);
}

#[test]
fn what_a_pause_held_takes_no_room_from_what_the_next_one_holds() {
    let mut world = World::with_config(2, |config| config.singleton.buffer_bytes_max = 3);
    world.all_up();
    world.run_for(SOON);
    for round in 0..3 {
        world.pause(0);
        let asks: Vec<_> = (0..3).map(|_| world.ask(1, secs(60))).collect();
        let full = world.ask(1, secs(60));
        assert_eq!(
            world.answered(full),
            Some(Err(AskFailure::MailboxFull)),
            "round {round}"
        );
        world.still_member(0);
        world.run_for(SOON);
        let is_answered = |ask: &(usize, u64)| world.answered(*ask).is_some_and(|result| result.is_ok());
        assert!(asks.iter().all(is_answered), "round {round}");
    }
}

#[test]
fn the_end_of_an_earlier_instance_says_nothing_about_the_next() {
    let mut world = World::formed(1);
    let first = world.slot(0);
    world.fails(0);
    world.run_for(secs(2));
    assert_eq!(world.running(), [0]);
    assert_ne!(world.slot(0), first);
    let token = world.token(0);
    world.reports_end(0, first);
    assert_eq!((world.running(), world.token(0)), (Vec::from([0]), token));
}

#[test]
fn i_33_who_asks_again_because_the_end_of_a_hand_over_was_lost_is_told_again() {
    let mut world = World::formed(2);
    world.run_for(SOON);
    world.leave(&[0]);
    world.run_for(SOON);
    assert_eq!(world.running(), [1]);
    assert_eq!(world.phase(0), SingletonPhase::End);
    let done = |body: &SingletonBody| matches!(body, SingletonBody::HandOverDone { .. });
    let before = world.heard_by(1, done).len();
    world.says(1, 0, 77, SingletonBody::HandOverToMe);
    let heard = world.heard_by(1, done);
    assert_eq!(heard[before..], [(0, 77)], "in the words of the question");
}

#[test]
fn i_100_who_took_a_hand_over_without_being_next_is_followed_after_its_removal() {
    let mut world = World::formed(3);
    world.run_for(SOON);
    world.says(2, 0, 7, SingletonBody::HandOverToMe);
    world.run_for(SOON);
    assert_eq!(
        (world.phase(0), world.running()),
        (SingletonPhase::End, Vec::new())
    );
    world.crash(&[2]);
    world.remove(&[2]);
    world.run_for(MARGIN - secs(1));
    assert_eq!(world.running(), Vec::<usize>::new(), "it may run there still");
    world.run_for(secs(4));
    assert_eq!(world.running(), [0]);
}

#[test]
fn who_waits_for_an_older_one_to_take_over_runs_it_again_once_that_is_removed() {
    let mut world = World::build(3, true, |_| {});
    world.all_up();
    world.lease(0, LeaseOutcome::Granted { token: 7 });
    world.run_for(SOON);
    world.leave(&[0]);
    world.run_for(SOON);
    world.lease(1, LeaseOutcome::Granted { token: 8 });
    world.run_for(SOON);
    assert_eq!(world.running(), [1]);
    // One that is Exiting is downed: it is the oldest again until it is removed.
    world.crash(&[0]);
    world.set(&[(0, Status::Down)]);
    assert_eq!(world.phase(1), SingletonPhase::WasOldest);
    world.remove(&[0]);
    world.run_for(MARGIN + secs(5));
    world.lease(1, LeaseOutcome::Granted { token: 9 });
    world.run_for(secs(5));
    assert_eq!(world.running(), [1]);
}

#[test]
fn who_only_joins_has_no_vote_about_a_term() {
    // Two of three are a majority of those that are Up, and none of five.
    let mut world = World::new(5);
    world.cut(&[2, 3, 4]);
    world.set(&[
        (0, Status::Up),
        (1, Status::Up),
        (2, Status::Up),
        (3, Status::Joining),
        (4, Status::Joining),
    ]);
    world.run_for(secs(2));
    assert_eq!(world.running(), [0]);
}

#[test]
fn a_name_has_bytes_and_not_too_many() {
    for (name, is_good) in [("", false), ("billing", true), (&*"x".repeat(1_000), false)] {
        let mut fixture = Fixture::new(node("a", 1));
        let settings = SingletonSettings {
            name: name.into(),
            role: None,
            hosts: false,
            lease: false,
            durable: false,
        };
        let command = SingletonCommand::Register(settings);
        Singletons::default().on_command(&mut fixture.cx(), 7, command);
        let bad = CommandError::Singleton(SingletonCommandError::BadName);
        let answer = if is_good {
            Answer::Done
        } else {
            Answer::Refused(bad)
        };
        assert!(
            fixture.effects().contains(&Effect::Reply { token: 7, answer }),
            "{name}"
        );
    }
}

#[test]
fn two_names_are_two_numbers_also_on_the_wire() {
    let [one, other] = ["billing", "mail"].map(SingletonId::of);
    assert_ne!(one.raw(), other.raw());
    assert_eq!(SingletonId::from_raw(one.raw()), one);
}
