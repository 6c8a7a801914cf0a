//! Every way through the phases, in a time that the tests name.

use alloc::vec::Vec;

use super::*;

const fn at(seconds: u64) -> Instant {
    Instant::from_micros(seconds * 1_000_000)
}

/// The phases of the node itself, in their order.
fn of_node() -> Vec<ShutdownPhase> {
    ShutdownPhase::ALL
        .into_iter()
        .filter(|phase| phase.is_of_node())
        .collect()
}

fn begun() -> Phases {
    let mut phases = Phases::new(ShutdownConfig::default());
    assert_eq!(
        phases.begin(at(0)),
        Some(ShutdownStep::Enter(ShutdownPhase::BeforeServiceUnbind))
    );
    phases
}

/// Ends the tasks of one phase after the other until the node is waited for, or until the end; what was
/// entered meanwhile.
fn without_tasks(phases: &mut Phases, now: Instant) -> Vec<ShutdownPhase> {
    let mut entered = Vec::new();
    while let Some(present) = phases.present() {
        match phases.on_tasks_ended(present, now) {
            Some(ShutdownStep::Enter(phase)) => entered.push(phase),
            Some(ShutdownStep::Over) | None => break,
        }
    }
    entered
}

#[test]
fn the_phases_are_those_of_the_reference_in_its_order() {
    let names: Vec<&str> = ShutdownPhase::ALL.iter().map(|phase| phase.name()).collect();
    let expected = "before-service-unbind service-unbind service-requests-done service-stop before-cluster-shutdown \
                    cluster-sharding-shutdown-region cluster-leave cluster-exiting cluster-exiting-done cluster-shutdown \
                    before-process-end process-end";
    assert_eq!(names.join(" "), expected);
    assert!(ShutdownPhase::ALL.is_sorted());
    let seconds = ShutdownPhase::ALL.map(|phase| phase.limit(&ShutdownConfig::default()).as_secs());
    assert_eq!(seconds, [5, 5, 5, 5, 5, 10, 5, 10, 5, 5, 5, 10]);
}

#[test]
fn a_node_waits_in_its_phases_only_and_each_begins_when_the_one_before_is_over() {
    let mut phases = begun();
    assert_eq!(phases.begin(at(0)), None, "once");
    let mut entered = without_tasks(&mut phases, at(1));
    for phase in of_node() {
        assert_eq!(phases.present(), Some(phase), "it waits for the node");
        assert_eq!(phases.on_tasks_ended(phase, at(1)), None, "said twice");
        if let Some(ShutdownStep::Enter(next)) = phases.on_node_did(phase, at(1)) {
            entered.push(next);
        }
        entered.extend(without_tasks(&mut phases, at(1)));
    }
    assert_eq!(entered, ShutdownPhase::ALL[1..]);
    assert!(phases.is_over() && phases.deadline().is_none());
    assert_eq!(phases.begin(at(2)), None, "it cannot be repeated");
}

#[test]
fn a_phase_is_over_when_its_tasks_and_the_node_are_whichever_is_first() {
    let (present, next) = (
        ShutdownPhase::ClusterShardingShutdownRegion,
        ShutdownPhase::ClusterLeave,
    );
    let mut phases = begun();
    for phase in ShutdownPhase::ALL
        .into_iter()
        .take_while(|phase| *phase < present)
    {
        phases.on_tasks_ended(phase, at(0));
    }
    assert_eq!(phases.present(), Some(present));
    let mut tasks_first = phases.clone();
    assert_eq!(tasks_first.on_tasks_ended(present, at(1)), None);
    assert_eq!(
        tasks_first.on_node_did(present, at(2)),
        Some(ShutdownStep::Enter(next))
    );
    assert_eq!(phases.on_node_did(present, at(1)), None);
    // What the node does before its phase begins is done then.
    assert_eq!(phases.on_node_did(next, at(1)), None);
    assert_eq!(
        phases.on_tasks_ended(present, at(2)),
        Some(ShutdownStep::Enter(next))
    );
    assert_eq!(
        phases.on_tasks_ended(next, at(2)),
        Some(ShutdownStep::Enter(ShutdownPhase::ClusterExiting))
    );
    // Words about a phase that is over, or has not begun, change nothing.
    assert_eq!(phases.on_tasks_ended(present, at(2)), None);
    assert_eq!(phases.on_tasks_ended(ShutdownPhase::ProcessEnd, at(2)), None);
    assert_eq!(phases.present(), Some(ShutdownPhase::ClusterExiting));
}

#[test]
fn a_limit_that_has_passed_ends_its_phase_and_says_what_it_waited_for() {
    let mut phases = begun();
    assert_eq!(phases.deadline(), Some(at(5)));
    assert_eq!(phases.on_time(at(4)), None);
    let late = |phase, tasks, node| LatePhase { phase, tasks, node };
    let first = late(ShutdownPhase::BeforeServiceUnbind, true, false);
    assert_eq!(
        phases.on_time(at(5)),
        Some((first, ShutdownStep::Enter(ShutdownPhase::ServiceUnbind)))
    );
    assert_eq!(
        phases.deadline(),
        Some(at(10)),
        "the next one has all of its time"
    );
    without_tasks(&mut phases, at(6));
    let moves = late(ShutdownPhase::ClusterShardingShutdownRegion, false, true);
    assert_eq!(
        phases.on_time(at(16)),
        Some((moves, ShutdownStep::Enter(ShutdownPhase::ClusterLeave)))
    );
    let leaves = late(ShutdownPhase::ClusterLeave, true, true);
    assert_eq!(
        phases.on_time(at(30)),
        Some((leaves, ShutdownStep::Enter(ShutdownPhase::ClusterExiting)))
    );
}

#[test]
fn if_nobody_ever_says_a_word_it_ends_after_the_sum_of_all_limits() {
    let mut phases = begun();
    let mut steps = 0;
    let mut now = at(0);
    while let Some(deadline) = phases.deadline() {
        now = deadline;
        assert!(phases.on_time(now).is_some());
        steps += 1;
    }
    assert_eq!((steps, now), (12, at(75)));
    assert!(phases.is_over());
}

#[test]
fn a_node_that_is_out_runs_all_tasks_and_waits_only_until_it_has_closed_what_it_has() {
    let mut phases = begun();
    assert_eq!(
        phases.on_node_out(at(0)),
        None,
        "the tasks of the first phase run"
    );
    let entered = without_tasks(&mut phases, at(0));
    assert_eq!(entered.last(), Some(&ShutdownPhase::ClusterShutdown));
    assert_eq!(phases.present(), Some(ShutdownPhase::ClusterShutdown));
    assert_eq!(
        phases.on_node_did(ShutdownPhase::ClusterShutdown, at(1)),
        Some(ShutdownStep::Enter(ShutdownPhase::BeforeProcessEnd))
    );
    assert_eq!(without_tasks(&mut phases, at(1)), [ShutdownPhase::ProcessEnd]);
    // In the middle of the way out.
    let mut phases = begun();
    without_tasks(&mut phases, at(0));
    assert_eq!(
        phases.on_tasks_ended(ShutdownPhase::ClusterShardingShutdownRegion, at(0)),
        None
    );
    assert_eq!(
        phases.on_node_out(at(1)),
        Some(ShutdownStep::Enter(ShutdownPhase::ClusterLeave))
    );
}

#[test]
fn tasks_may_be_added_to_phases_that_have_not_begun() {
    let mut phases = Phases::new(ShutdownConfig::default());
    assert!(ShutdownPhase::ALL.iter().all(|phase| phases.admits(*phase)));
    phases.begin(at(0));
    phases.on_tasks_ended(ShutdownPhase::BeforeServiceUnbind, at(0));
    let admitted: Vec<bool> = ShutdownPhase::ALL[..4]
        .iter()
        .map(|phase| phases.admits(*phase))
        .collect();
    assert_eq!(admitted, [false, false, true, true]);
    phases.cut_short();
    assert!(!ShutdownPhase::ALL.iter().any(|phase| phases.admits(*phase)));
}

#[test]
fn a_node_that_is_to_end_at_once_enters_no_phase_any_more() {
    for mut phases in [Phases::new(ShutdownConfig::default()), begun()] {
        phases.cut_short();
        assert!(phases.is_over() && phases.has_begun());
        assert_eq!(phases.begin(at(1)), None);
        assert_eq!(
            phases.on_tasks_ended(ShutdownPhase::BeforeServiceUnbind, at(1)),
            None
        );
        assert_eq!(phases.on_node_out(at(1)), None);
        assert_eq!(phases.on_time(at(100)), None);
    }
}
