//! What the conformance vectors leave out: the lease's answers, and being downed. Spec: sharding 1.10.

use alloc::vec;

use super::*;
use crate::fixture::node;

const ACQUIRING: Stage = Stage::AcquiringLease { instance: false };

fn me() -> UniqueAddress {
    node("b", 2)
}

fn other() -> UniqueAddress {
    node("a", 1)
}

/// One step of a manager that needs a lease, or does not.
fn stepped(stage: Stage, event: Event, lease: bool) -> (Stage, Vec<Step>) {
    let facts = Facts {
        me: &me(),
        lease,
        leaving: false,
        preparing: false,
        exited: false,
        self_removed: false,
        retries_max: 3,
        removed: &OrderedSet::new(),
    };
    step(stage, event, &facts)
}

#[test]
fn s_167_questions_are_repeated_until_the_removal_margin_is_certainly_over() {
    let retries = Retries::new(15, 1_000, 20_000);
    assert_eq!((retries.hand_over_max, retries.take_over_max), (23, 20));
    let without_margin = Retries::new(15, 1_000, 0);
    assert_eq!(
        (without_margin.hand_over_max, without_margin.take_over_max),
        (15, 12)
    );
}

#[test]
fn an_instance_starts_only_once_the_lease_is_granted() {
    let oldest = Event::OldestChanged(Some(me()));
    let younger = Stage::Younger { previous: Vec::new() };
    let (stage, steps) = stepped(younger, oldest, true);
    assert_eq!((&stage, steps), (&ACQUIRING, vec![Step::AcquireLease]));
    for event in [Event::LeaseDenied, Event::LeaseLost] {
        assert_eq!(stepped(stage.clone(), event, true), (ACQUIRING, vec![]));
    }
    assert_eq!(
        stepped(stage, Event::LeaseGranted, true),
        (Stage::Oldest { instance: true }, vec![Step::StartInstance])
    );
}

#[test]
fn an_instance_whose_lease_is_lost_stops_and_asks_for_it_again_when_it_has_ended() {
    let running = Stage::Oldest { instance: true };
    let (stage, steps) = stepped(running, Event::LeaseLost, true);
    assert_eq!(
        (&stage, steps),
        (
            &Stage::AcquiringLease { instance: true },
            vec![Step::StopInstance]
        )
    );
    assert_eq!(
        stepped(stage, Event::InstanceTerminated, true),
        (ACQUIRING, vec![Step::AcquireLease])
    );
    let ended = Stage::Oldest { instance: false };
    assert_eq!(
        stepped(ended, Event::LeaseLost, true),
        (ACQUIRING, vec![Step::AcquireLease])
    );
}

#[test]
fn who_was_the_oldest_and_loses_its_lease_stops_its_instance_before_it_is_asked() {
    let new = Some(other());
    for (instance, wanted) in [(true, vec![Step::StopInstance]), (false, vec![])] {
        let was_oldest = Stage::WasOldest {
            new: new.clone(),
            instance,
        };
        assert_eq!(
            stepped(was_oldest.clone(), Event::LeaseLost, true),
            (was_oldest, wanted)
        );
    }
}

#[test]
fn who_lost_its_lease_hands_over_only_once_its_instance_has_ended() {
    let stops = Stage::AcquiringLease { instance: true };
    let asks = Event::HandOverToMe(other());
    let (stage, steps) = stepped(stops.clone(), asks, true);
    assert_eq!(stage, Stage::HandingOver { to: Some(other()) });
    assert_eq!(steps, vec![Step::HandOverInProgress(other()), Step::StopInstance]);
    let (stage, steps) = stepped(stops.clone(), Event::OldestChanged(Some(other())), true);
    let was_oldest = Stage::WasOldest {
        new: Some(other()),
        instance: true,
    };
    assert_eq!(
        (stage, steps),
        (was_oldest, vec![Step::TakeOverFromMe(other()), Step::Retry(1)])
    );
    // An answer to an earlier question starts nothing beside it.
    assert_eq!(
        stepped(stops.clone(), Event::LeaseGranted, true),
        (stops.clone(), vec![])
    );
    assert_eq!(
        stepped(stops, Event::SelfDowned, true),
        (Stage::Stopping, vec![Step::StopInstance, Step::ReleaseLease])
    );
}

#[test]
fn who_waits_for_its_lease_goes_on_waiting_while_its_predecessor_repeats_itself() {
    assert_eq!(
        stepped(ACQUIRING, Event::TakeOverFromMe(other()), true),
        (ACQUIRING, vec![Step::HandOverToMe(other())])
    );
    assert_eq!(
        stepped(ACQUIRING, Event::OldestChanged(Some(me())), true),
        (ACQUIRING, vec![])
    );
}

#[test]
fn a_node_that_is_downed_starts_nothing_and_stops_what_runs() {
    let previous = || vec![other()];
    for stage in [
        Stage::Start,
        Stage::Younger { previous: previous() },
        Stage::BecomingOldest { previous: previous() },
        ACQUIRING,
        Stage::Oldest { instance: false },
    ] {
        assert_eq!(
            stepped(stage.clone(), Event::SelfDowned, false),
            (Stage::Stopped, vec![]),
            "{stage:?}"
        );
    }
    for stage in [
        Stage::Oldest { instance: true },
        Stage::WasOldest {
            new: Some(other()),
            instance: true,
        },
    ] {
        assert_eq!(
            stepped(stage.clone(), Event::SelfDowned, true),
            (Stage::Stopping, vec![Step::StopInstance, Step::ReleaseLease]),
            "{stage:?}"
        );
    }
    assert_eq!(
        stepped(Stage::Stopping, Event::InstanceTerminated, false),
        (Stage::Stopped, vec![])
    );
}

/// One step while the cluster prepares to stop; this node is on its way out, or is not.
fn prepared(stage: Stage, event: Event, exited: bool) -> (Stage, Vec<Step>) {
    let facts = Facts {
        me: &me(),
        lease: false,
        leaving: exited,
        preparing: true,
        exited,
        self_removed: false,
        retries_max: 3,
        removed: &OrderedSet::new(),
    };
    step(stage, event, &facts)
}

#[test]
fn while_the_cluster_prepares_to_stop_nobody_hands_over_asks_or_begins() {
    let running = Stage::Oldest { instance: true };
    let was_oldest = Stage::WasOldest {
        new: Some(other()),
        instance: true,
    };
    let becoming = Stage::BecomingOldest {
        previous: vec![other()],
    };
    for stage in [running.clone(), was_oldest.clone(), becoming.clone(), ACQUIRING] {
        for event in [
            Event::HandOverToMe(other()),
            Event::TakeOverFromMe(other()),
            Event::HandOverDone(other()),
        ] {
            assert_eq!(
                prepared(stage.clone(), event, false),
                (stage.clone(), vec![]),
                "{stage:?}"
            );
        }
    }
    // Whoever asked when it began waits for nobody any more.
    let younger = Stage::Younger {
        previous: vec![other()],
    };
    let asks_again = Event::HandOverRetry(2);
    assert_eq!(
        prepared(becoming.clone(), asks_again.clone(), false),
        (younger, vec![])
    );
    assert_eq!(prepared(becoming, asks_again, true), (Stage::Stopped, vec![]));
    // What runs ends with its node, at once.
    let stops = (Stage::Stopping, vec![Step::StopInstance]);
    let next = Event::OldestChanged(Some(other()));
    assert_eq!(prepared(running, next, true), stops);
    assert_eq!(prepared(was_oldest, Event::TakeOverRetry(1), true), stops);
}

#[test]
fn what_is_over_stays_over() {
    for stage in [Stage::Stopped, Stage::Stuck] {
        for event in [
            Event::OldestChanged(Some(me())),
            Event::HandOverDone(other()),
            Event::LeaseGranted,
            Event::InstanceTerminated,
        ] {
            assert_eq!(stepped(stage.clone(), event, true), (stage.clone(), vec![]));
        }
    }
}

/// One step of a manager that takes over, when these are removed for certain.
fn taking_over(previous: &[UniqueAddress], event: Event, removed: &[UniqueAddress]) -> (Stage, Vec<Step>) {
    let facts = Facts {
        me: &me(),
        lease: false,
        leaving: false,
        preparing: false,
        exited: false,
        self_removed: false,
        retries_max: 3,
        removed: &removed.iter().cloned().collect(),
    };
    let previous = previous.to_vec();
    step(Stage::BecomingOldest { previous }, event, &facts)
}

#[test]
fn of_two_before_it_the_one_that_is_not_removed_is_asked() {
    let (first, second) = (other(), node("c", 3));
    let both = [first.clone(), second.clone()];
    let removed = Event::RemovedAfterMargin(first.clone());
    let (stage, steps) = taking_over(&both, removed, core::slice::from_ref(&first));
    let previous = vec![second.clone()];
    assert_eq!((&stage, steps), (&Stage::BecomingOldest { previous }, vec![]));
    let (_, steps) = taking_over(core::slice::from_ref(&second), Event::HandOverRetry(1), &[first]);
    assert_eq!(steps, [Step::HandOverToMe(second), Step::Retry(2)]);
}

#[test]
fn who_hands_over_to_one_tells_no_other_that_it_is_under_way() {
    let to = Some(other());
    let asked = |from: UniqueAddress| {
        let stage = Stage::HandingOver { to: to.clone() };
        stepped(stage, Event::HandOverToMe(from), false)
    };
    let stage = Stage::HandingOver { to: to.clone() };
    let steps = vec![Step::HandOverInProgress(other())];
    assert_eq!(asked(other()), (stage.clone(), steps));
    assert_eq!(asked(node("c", 3)), (stage, vec![]));
}
