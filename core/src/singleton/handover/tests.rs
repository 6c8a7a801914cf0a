//! What the conformance vectors leave out: the lease's answers, and being downed. Spec: sharding 1.10.

use alloc::vec;

use super::*;
use crate::fixture::node;

const ACQUIRING: HandOverStage = HandOverStage::AcquiringLease { instance: false };

fn me() -> UniqueAddress {
    node("b", 2)
}

fn other() -> UniqueAddress {
    node("a", 1)
}

/// One step of a manager that needs a lease, or does not.
fn stepped(stage: HandOverStage, event: HandOverEvent, lease: bool) -> (HandOverStage, Vec<HandOverStep>) {
    let facts = HandOverFacts {
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
    let retries = HandOverRetries::new(15, 1_000, 20_000);
    assert_eq!((retries.hand_over_max, retries.take_over_max), (23, 20));
    let without_margin = HandOverRetries::new(15, 1_000, 0);
    assert_eq!(
        (without_margin.hand_over_max, without_margin.take_over_max),
        (15, 12)
    );
}

#[test]
fn an_instance_starts_only_once_the_lease_is_granted() {
    let oldest = HandOverEvent::OldestChanged(Some(me()));
    let younger = HandOverStage::Younger { previous: Vec::new() };
    let (stage, steps) = stepped(younger, oldest, true);
    assert_eq!((&stage, steps), (&ACQUIRING, vec![HandOverStep::AcquireLease]));
    for event in [HandOverEvent::LeaseDenied, HandOverEvent::LeaseLost] {
        assert_eq!(stepped(stage.clone(), event, true), (ACQUIRING, vec![]));
    }
    assert_eq!(
        stepped(stage, HandOverEvent::LeaseGranted, true),
        (
            HandOverStage::Oldest { instance: true },
            vec![HandOverStep::StartInstance]
        )
    );
}

#[test]
fn an_instance_whose_lease_is_lost_stops_and_asks_for_it_again_when_it_has_ended() {
    let running = HandOverStage::Oldest { instance: true };
    let (stage, steps) = stepped(running, HandOverEvent::LeaseLost, true);
    assert_eq!(
        (&stage, steps),
        (
            &HandOverStage::AcquiringLease { instance: true },
            vec![HandOverStep::StopInstance]
        )
    );
    assert_eq!(
        stepped(stage, HandOverEvent::InstanceTerminated, true),
        (ACQUIRING, vec![HandOverStep::AcquireLease])
    );
    let ended = HandOverStage::Oldest { instance: false };
    assert_eq!(
        stepped(ended, HandOverEvent::LeaseLost, true),
        (ACQUIRING, vec![HandOverStep::AcquireLease])
    );
}

#[test]
fn who_was_the_oldest_and_loses_its_lease_stops_its_instance_before_it_is_asked() {
    let new = Some(other());
    for (instance, wanted) in [(true, vec![HandOverStep::StopInstance]), (false, vec![])] {
        let was_oldest = HandOverStage::WasOldest {
            new: new.clone(),
            instance,
        };
        assert_eq!(
            stepped(was_oldest.clone(), HandOverEvent::LeaseLost, true),
            (was_oldest, wanted)
        );
    }
}

#[test]
fn who_is_the_oldest_again_before_the_other_asked_goes_on() {
    let new = Some(other());
    for instance in [true, false] {
        let was_oldest = HandOverStage::WasOldest {
            new: new.clone(),
            instance,
        };
        let again = HandOverEvent::OldestChanged(Some(me()));
        assert_eq!(
            stepped(was_oldest.clone(), again.clone(), false),
            (HandOverStage::Oldest { instance }, vec![])
        );
        assert_eq!(
            stepped(was_oldest.clone(), again, true),
            (was_oldest, vec![]),
            "the lease may be lost"
        );
    }
}

#[test]
fn who_lost_its_lease_hands_over_only_once_its_instance_has_ended() {
    let stops = HandOverStage::AcquiringLease { instance: true };
    let asks = HandOverEvent::HandOverToMe(other());
    let (stage, steps) = stepped(stops.clone(), asks, true);
    assert_eq!(stage, HandOverStage::HandingOver { to: Some(other()) });
    assert_eq!(
        steps,
        vec![
            HandOverStep::HandOverInProgress(other()),
            HandOverStep::StopInstance
        ]
    );
    let (stage, steps) = stepped(stops.clone(), HandOverEvent::OldestChanged(Some(other())), true);
    let was_oldest = HandOverStage::WasOldest {
        new: Some(other()),
        instance: true,
    };
    assert_eq!(
        (stage, steps),
        (
            was_oldest,
            vec![HandOverStep::TakeOverFromMe(other()), HandOverStep::Retry(1)]
        )
    );
    // An answer to an earlier question starts nothing beside it.
    assert_eq!(
        stepped(stops.clone(), HandOverEvent::LeaseGranted, true),
        (stops.clone(), vec![])
    );
    assert_eq!(
        stepped(stops, HandOverEvent::SelfDowned, true),
        (
            HandOverStage::Stopping,
            vec![HandOverStep::StopInstance, HandOverStep::ReleaseLease]
        )
    );
}

#[test]
fn who_waits_for_its_lease_goes_on_waiting_while_its_predecessor_repeats_itself() {
    assert_eq!(
        stepped(ACQUIRING, HandOverEvent::TakeOverFromMe(other()), true),
        (ACQUIRING, vec![HandOverStep::HandOverToMe(other())])
    );
    assert_eq!(
        stepped(ACQUIRING, HandOverEvent::OldestChanged(Some(me())), true),
        (ACQUIRING, vec![])
    );
}

#[test]
fn a_node_that_is_downed_starts_nothing_and_stops_what_runs() {
    let previous = || vec![other()];
    for stage in [
        HandOverStage::Start,
        HandOverStage::Younger { previous: previous() },
        HandOverStage::BecomingOldest { previous: previous() },
        ACQUIRING,
        HandOverStage::Oldest { instance: false },
    ] {
        assert_eq!(
            stepped(stage.clone(), HandOverEvent::SelfDowned, false),
            (HandOverStage::Stopped, vec![]),
            "{stage:?}"
        );
    }
    for stage in [
        HandOverStage::Oldest { instance: true },
        HandOverStage::WasOldest {
            new: Some(other()),
            instance: true,
        },
    ] {
        assert_eq!(
            stepped(stage.clone(), HandOverEvent::SelfDowned, true),
            (
                HandOverStage::Stopping,
                vec![HandOverStep::StopInstance, HandOverStep::ReleaseLease]
            ),
            "{stage:?}"
        );
    }
    assert_eq!(
        stepped(HandOverStage::Stopping, HandOverEvent::InstanceTerminated, false),
        (HandOverStage::Stopped, vec![])
    );
}

/// One step while the cluster prepares to stop; this node is on its way out, or is not.
fn prepared(stage: HandOverStage, event: HandOverEvent, exited: bool) -> (HandOverStage, Vec<HandOverStep>) {
    let facts = HandOverFacts {
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
    let running = HandOverStage::Oldest { instance: true };
    let was_oldest = HandOverStage::WasOldest {
        new: Some(other()),
        instance: true,
    };
    let becoming = HandOverStage::BecomingOldest {
        previous: vec![other()],
    };
    for stage in [running.clone(), was_oldest.clone(), becoming.clone(), ACQUIRING] {
        for event in [
            HandOverEvent::HandOverToMe(other()),
            HandOverEvent::TakeOverFromMe(other()),
            HandOverEvent::HandOverDone(other()),
        ] {
            assert_eq!(
                prepared(stage.clone(), event, false),
                (stage.clone(), vec![]),
                "{stage:?}"
            );
        }
    }
    // Whoever asked when it began waits for nobody any more.
    let younger = HandOverStage::Younger {
        previous: vec![other()],
    };
    let asks_again = HandOverEvent::HandOverRetry(2);
    assert_eq!(
        prepared(becoming.clone(), asks_again.clone(), false),
        (younger, vec![])
    );
    assert_eq!(
        prepared(becoming, asks_again, true),
        (HandOverStage::Stopped, vec![])
    );
    // What runs ends with its node, at once.
    let stops = (HandOverStage::Stopping, vec![HandOverStep::StopInstance]);
    let next = HandOverEvent::OldestChanged(Some(other()));
    assert_eq!(prepared(running, next, true), stops);
    assert_eq!(prepared(was_oldest, HandOverEvent::TakeOverRetry(1), true), stops);
}

#[test]
fn what_is_over_stays_over() {
    for stage in [HandOverStage::Stopped, HandOverStage::Stuck] {
        for event in [
            HandOverEvent::OldestChanged(Some(me())),
            HandOverEvent::HandOverDone(other()),
            HandOverEvent::LeaseGranted,
            HandOverEvent::InstanceTerminated,
        ] {
            assert_eq!(stepped(stage.clone(), event, true), (stage.clone(), vec![]));
        }
    }
}

/// One step of a manager that takes over, when these are removed for certain.
fn taking_over(
    previous: &[UniqueAddress],
    event: HandOverEvent,
    removed: &[UniqueAddress],
) -> (HandOverStage, Vec<HandOverStep>) {
    let facts = HandOverFacts {
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
    step(HandOverStage::BecomingOldest { previous }, event, &facts)
}

#[test]
fn of_two_before_it_the_one_that_is_not_removed_is_asked() {
    let (first, second) = (other(), node("c", 3));
    let both = [first.clone(), second.clone()];
    let removed = HandOverEvent::RemovedAfterMargin(first.clone());
    let (stage, steps) = taking_over(&both, removed, core::slice::from_ref(&first));
    let previous = vec![second.clone()];
    assert_eq!(
        (&stage, steps),
        (&HandOverStage::BecomingOldest { previous }, vec![])
    );
    let (_, steps) = taking_over(
        core::slice::from_ref(&second),
        HandOverEvent::HandOverRetry(1),
        &[first],
    );
    assert_eq!(
        steps,
        [HandOverStep::HandOverToMe(second), HandOverStep::Retry(2)]
    );
}

#[test]
fn who_hands_over_to_one_tells_no_other_that_it_is_under_way() {
    let to = Some(other());
    let asked = |from: UniqueAddress| {
        let stage = HandOverStage::HandingOver { to: to.clone() };
        stepped(stage, HandOverEvent::HandOverToMe(from), false)
    };
    let stage = HandOverStage::HandingOver { to: to.clone() };
    let steps = vec![HandOverStep::HandOverInProgress(other())];
    assert_eq!(asked(other()), (stage.clone(), steps));
    assert_eq!(asked(node("c", 3)), (stage, vec![]));
}
