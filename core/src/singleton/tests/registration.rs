//! The cluster accepts a singleton's role, lease and durability before it is hosted. Spec: sharding 10.11.
//! Whole clusters are in `tests/tests/same_kind.rs`.

use super::world::{World, secs, settings};
use super::{NOBODY, SOON};
use crate::effect::{Answer, CommandError, SingletonCommandError, StopOutcome};
use crate::ident::Role;
use crate::input::SingletonSettings;
use crate::membership::state::member::Status;
use crate::sharding::protocol::registry::Judgement;
use crate::sharding::state::errors::AskFailure;
use crate::sharding::state::fields::{FieldDifference, FieldDifferences};
use crate::singleton::protocol::{Answer as SingletonAnswer, Event};

fn other_role() -> FieldDifferences {
    let (ours, theirs) = (
        Some(Role::new("worker").unwrap()),
        Some(Role::new("other").unwrap()),
    );
    FieldDifferences::of(alloc::vec![FieldDifference::Role { ours, theirs }]).unwrap()
}

fn refused(error: SingletonCommandError) -> Option<Answer> {
    Some(Answer::Refused(CommandError::Singleton(error)))
}

fn differs() -> Option<Answer> {
    let difference = other_role();
    refused(SingletonCommandError::Differs { difference })
}

/// A member whose registry has not decided, and that has asked to host.
fn undecided() -> World {
    let mut world = World::new(1);
    world.forget(0);
    world.judgement = None;
    world.all_up();
    assert!(!world.register(0, true));
    world
}

#[test]
fn s_10_11_nothing_begins_and_the_caller_waits_until_the_cluster_has_accepted_it() {
    let mut world = undecided();
    world.run_for(secs(60));
    assert_eq!((world.told(0), world.running()), (None, NOBODY.to_vec()));
    assert!(!world.register(0, true), "it is being registered");
    let pending = SingletonCommandError::RegistrationPending;
    assert_eq!(world.register_as(0, settings(true)), refused(pending));
    world.judge(0, Judgement::Accepted);
    assert_eq!(
        (world.told(0), world.running()),
        (Some(Answer::Done), alloc::vec![0])
    );
}

#[test]
fn s_10_11_one_that_is_refused_while_the_caller_waits_is_not_there_and_may_be_registered_otherwise() {
    let mut world = undecided();
    let ask = world.ask(0, secs(60));
    world.judge(0, Judgement::Refused(other_role()));
    assert_eq!(world.told(0), differs());
    let difference = other_role();
    let refused_here = Event::Refused { difference };
    assert_eq!(world.said(0, |event| *event == refused_here), 1);
    assert_eq!(world.answered(ask), Some(Err(AskFailure::KindRefused)));
    let late = world.ask(0, secs(60));
    assert_eq!(world.answered(late), Some(Err(AskFailure::UnknownKind)));
    world.run_for(secs(60));
    assert_eq!(world.running(), NOBODY);
    world.judgement = Some(Judgement::Accepted);
    let anybody = SingletonSettings {
        role: None,
        ..settings(true)
    };
    assert_eq!(world.register_as(0, anybody), Some(Answer::Done));
    world.run_for(SOON);
    assert_eq!(world.running(), [0]);
    let mut world = undecided();
    world.judge(0, Judgement::TooMany);
    assert_eq!(world.told(0), refused(SingletonCommandError::TooMany));
}

#[test]
fn s_10_11_one_that_is_refused_while_it_runs_ends_and_begins_again_once_it_is_accepted() {
    let mut world = World::formed(1);
    let first = world.token(0);
    world.host(0).slow_to_stop = true;
    world.judge(0, Judgement::Refused(other_role()));
    assert_eq!(world.host(0).told_to_stop, 1, "it handles what it has");
    let ask = world.ask(0, secs(60));
    assert_eq!(world.answered(ask), Some(Err(AskFailure::KindRefused)));
    // Those with the other role are gone before it has ended.
    world.judge(0, Judgement::Accepted);
    world.ends(0);
    world.run_for(SOON);
    assert_eq!(world.running(), [0]);
    assert!(world.token(0) > first);
    let ask = world.ask(0, secs(60));
    assert!(matches!(world.answered(ask), Some(Ok(_))));
    world.host(0).slow_to_stop = false;
    world.judge(0, Judgement::Refused(other_role()));
    world.run_for(secs(60));
    assert_eq!(world.running(), NOBODY);
}

#[test]
fn s_10_11_a_proxy_that_asks_to_host_and_is_refused_stays_a_proxy() {
    let mut world = World::formed(2);
    world.forget(1);
    assert!(world.register(1, false));
    world.judgement = None;
    assert!(!world.register(1, true));
    world.judge(1, Judgement::Refused(other_role()));
    assert_eq!(world.told(1), differs());
    let ask = world.ask(1, secs(5));
    assert!(matches!(world.answered(ask), Some(Ok(_))));
    // What it announces again are a proxy's fields.
    world.judge(1, Judgement::Accepted);
    world.leave(&[0]);
    world.run_for(secs(1));
    assert_eq!(world.running(), NOBODY, "it hosts none");
    world.judgement = Some(Judgement::Accepted);
    assert!(world.register(1, true));
    world.remove(&[0]);
    world.run_for(secs(60));
    assert_eq!(world.running(), [1]);
}

#[test]
fn s_10_11_on_one_node_what_differs_is_named_as_well() {
    let mut world = World::formed(1);
    let mut refused = |settings| match world.register_as(0, settings) {
        Some(Answer::Refused(CommandError::Singleton(SingletonCommandError::Differs { difference }))) => {
            difference.fields().to_vec()
        }
        other => panic!("{other:?}"),
    };
    let (ours, theirs) = (true, false);
    let leased = SingletonSettings {
        lease: true,
        ..settings(true)
    };
    assert_eq!(refused(leased), [FieldDifference::Lease { ours, theirs }]);
    let durable = SingletonSettings {
        durable: true,
        ..settings(true)
    };
    assert_eq!(refused(durable), [FieldDifference::Durable { ours, theirs }]);
    let proxy = SingletonSettings {
        role: None,
        ..settings(false)
    };
    let (ours, theirs) = (None, settings(false).role);
    assert_eq!(refused(proxy), [FieldDifference::Role { ours, theirs }]);
    assert_eq!(world.register_as(0, settings(false)), Some(Answer::Done));
    assert_eq!(world.running(), [0]);
}

#[test]
fn s_10_11_nobody_waits_for_ever_for_a_decision_and_one_not_begun_can_be_stopped() {
    let mut world = undecided();
    world.leave(&[0]);
    assert_eq!(world.told(0), refused(SingletonCommandError::Leaving));
    assert!(world.drained(0));
    let mut world = undecided();
    world.set(&[(0, Status::Down)]);
    assert_eq!(world.told(0), Some(Answer::Refused(CommandError::Stopped)));
    let mut world = undecided();
    let nothing = SingletonAnswer::Stopped(StopOutcome::NothingRan);
    assert_eq!(world.stop(0, secs(1)), Some(Answer::Singleton(nothing)));
    world.judge(0, Judgement::Accepted);
    world.run_for(secs(60));
    assert_eq!(world.running(), NOBODY);
}
