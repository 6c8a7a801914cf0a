//! A node that stays and hosts it no more. Spec: sharding 1.10.

use alloc::vec::Vec;

use super::world::{MARGIN, World, secs};
use super::{NOBODY, SOON};
use crate::effect::{Answer, CommandError, SingletonAnswer, SingletonCommandError, StopOutcome};
use crate::lease::protocol::LeaseOutcome;
use crate::membership::state::member::Status;
use crate::sharding::state::errors::AskFailure;
use crate::singleton::protocol::SingletonBody;

const fn stopped(outcome: StopOutcome) -> Option<Answer> {
    Some(Answer::Singleton(SingletonAnswer::Stopped(outcome)))
}

const fn refused(error: SingletonCommandError) -> Option<Answer> {
    Some(Answer::Refused(CommandError::Singleton(error)))
}

#[test]
fn one_that_is_stopped_here_runs_nowhere_until_this_node_hosts_it_again_or_leaves() {
    let mut world = World::formed(3);
    let first = world.token(0);
    world.host(0).slow_to_stop = true;
    assert_eq!(world.stop(0, secs(5)), None, "not before it has ended");
    assert_eq!((world.host(0).told_to_stop, world.host(0).killed), (1, 0));
    world.ends(0);
    assert_eq!(world.told(0), stopped(StopOutcome::Stopped));
    let ask = world.ask(2, secs(2));
    world.run_for(secs(60));
    assert_eq!(world.running(), NOBODY);
    assert_eq!(world.answered(ask), Some(Err(AskFailure::TimeoutBuffered)));
    assert_eq!(world.stop(0, secs(5)), refused(SingletonCommandError::NotHosted));
    assert!(world.register(0, true));
    world.run_for(SOON);
    assert_eq!(world.running(), [0]);
    assert!(world.token(0) > first);
    assert_eq!(world.stop(0, secs(5)), stopped(StopOutcome::Stopped));
    world.leave(&[0]);
    assert!(world.drained(0), "nothing is to be handed over");
    world.run_for(secs(2));
    assert_eq!(
        world.running(),
        [1],
        "whoever comes next need not wait for its removal"
    );
}

#[test]
fn one_that_does_not_stop_within_the_callers_time_is_killed_and_one_that_blocks_is_told_of() {
    let mut world = World::formed(1);
    world.host(0).slow_to_stop = true;
    assert_eq!(world.stop(0, secs(3)), None);
    world.run_for(secs(3));
    assert_eq!(world.host(0).killed, 1);
    world.ends(0);
    assert_eq!(world.told(0), stopped(StopOutcome::Killed));
    assert!(world.register(0, true));
    world.run_for(SOON);
    world.host(0).slow_to_stop = true;
    assert_eq!(world.stop(0, secs(3)), None);
    world.run_for(secs(4));
    assert_eq!(world.told(0), stopped(StopOutcome::StillRuns));
    for _ in 0..2 {
        assert_eq!(world.stop(0, secs(3)), refused(SingletonCommandError::Stopping));
        assert!(!world.register(0, true), "two of them would run");
        world.run_for(secs(60));
    }
    world.ends(0);
    assert_eq!(world.told(0), None, "answered once");
    assert!(world.register(0, true));
    world.run_for(SOON);
    assert_eq!(world.running(), [0]);
}

#[test]
fn a_successor_that_does_not_host_it_keeps_nobody_who_leaves_waiting() {
    for registered in [true, false] {
        let mut world = World::formed(3);
        if registered {
            assert_eq!(world.stop(1, secs(5)), stopped(StopOutcome::NothingRan));
        } else {
            world.forget(1);
            // It hears who is there, as a node does that registers later.
            world.all_up();
        }
        world.leave(&[0]);
        world.run_for(secs(2));
        assert!(world.drained(0), "registered: {registered}");
        assert_eq!(world.running(), NOBODY, "the oldest hosts it no more");
        assert!(world.register(1, true));
        world.run_for(secs(2));
        assert_eq!(world.running(), [1]);
    }
}

#[test]
fn one_that_hosts_it_no_more_hears_up_to_which_term_it_ran_and_no_answer_to_an_earlier_question() {
    let mut world = World::formed(3);
    assert_eq!(world.stop(1, secs(5)), stopped(StopOutcome::NothingRan));
    world.says(0, 1, 77, SingletonBody::HandOverDone { term: 20 });
    world.says(0, 1, 0, SingletonBody::HandOverDone { term: 9 });
    world.leave(&[0]);
    world.run_for(secs(2));
    assert!(world.register(1, true));
    world.run_for(secs(2));
    assert_eq!(world.token(1).map(|token| token.term), Some(10));
}

#[test]
fn who_waits_for_a_stop_hears_of_the_end_of_the_node() {
    let mut world = World::formed(2);
    world.host(0).slow_to_stop = true;
    assert_eq!(world.stop(0, secs(5)), None);
    world.set(&[(0, Status::Down)]);
    assert_eq!(world.told(0), Some(Answer::Refused(CommandError::Stopped)));
    world.crash(&[0]);
    world.remove(&[0]);
    world.run_for(MARGIN + secs(3));
    assert_eq!(world.running(), [1]);
}

#[test]
fn a_hand_over_under_way_is_finished_and_the_lease_given_back() {
    let mut world = World::with_lease(2);
    world.set(&[(0, Status::Up), (1, Status::Up)]);
    world.lease(0, LeaseOutcome::Granted { token: 1 });
    world.run_for(SOON);
    assert_eq!(world.running(), [0]);
    world.host(0).slow_to_stop = true;
    world.leave(&[0]);
    assert_eq!(world.stop(0, secs(5)), None);
    world.ends(0);
    assert_eq!(world.told(0), stopped(StopOutcome::Stopped));
    assert_eq!(world.host(0).leases_released, 1);
    assert!(world.drained(0));
    let asked: Vec<usize> = (0..2).map(|at| world.host(at).leases_asked).collect();
    assert_eq!(asked, [1, 1], "the successor may begin");
}

#[test]
fn a_shorter_time_hastens_a_stop_that_is_under_way_and_a_longer_one_does_not_delay_it() {
    for (timeout, killed_after) in [(secs(2), secs(2)), (secs(3_600), secs(60))] {
        let mut world = World::with_config(2, |config| config.singleton.stop_timeout = secs(60));
        world.all_up();
        world.run_for(SOON);
        world.host(0).slow_to_stop = true;
        world.leave(&[0]);
        assert_eq!(world.stop(0, timeout), None);
        world.run_for(killed_after - SOON);
        assert_eq!(world.host(0).killed, 0);
        world.run_for(SOON + SOON);
        assert_eq!(world.host(0).killed, 1, "of {timeout:?}");
    }
}

#[test]
fn who_is_told_to_host_it_no_more_gives_its_lease_back_once_it_has_ended() {
    let mut world = World::with_lease(1);
    world.set(&[(0, Status::Up)]);
    world.lease(0, LeaseOutcome::Granted { token: 7 });
    world.run_for(SOON);
    world.host(0).slow_to_stop = true;
    assert_eq!(world.stop(0, secs(5)), None);
    assert_eq!(world.host(0).leases_released, 0);
    world.ends(0);
    assert_eq!(world.host(0).leases_released, 1);
}
