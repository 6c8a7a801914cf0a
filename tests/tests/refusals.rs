//! Nodes that refuse others for good: what that does to both, and to the rest. Spec: membership 8.11.

use quorate_core::effect::HaltReason;
use quorate_tests::sim::{Sim, all_up, secs};

fn decisions(sim: &Sim) -> u64 {
    sim.sum(|stats| stats.downing.decisions)
}

fn suspicions(sim: &Sim) -> u64 {
    sim.sum(|stats| stats.detector.unreachable_verdicts)
}

#[test]
fn u_05_a_member_that_one_or_two_of_five_refuse_goes_on_and_nobody_is_suspected() {
    for refusing in [vec![0], vec![0, 1], vec![3, 4]] {
        let mut sim = Sim::new(31).nodes(5);
        sim.run_until(all_up);
        for at in &refusing {
            sim.quarantine(*at, 2);
        }
        sim.run_for(secs(60));
        assert_eq!((suspicions(&sim), decisions(&sim)), (0, 0), "{refusing:?}");
        // The cluster changes as ever.
        sim.start(5);
        sim.run_until(all_up);
        sim.expect_members(0..6, 0..6);
        sim.leave(4);
        sim.run_for(secs(20));
        sim.expect_members([0, 1, 2, 3, 5], [0, 1, 2, 3, 5]);
        assert_eq!(decisions(&sim), 0, "{refusing:?}");
    }
}

#[test]
fn u_05_a_member_that_all_others_refuse_ends_and_takes_nobody_along() {
    let mut sim = Sim::new(32).nodes(4);
    sim.run_until(all_up);
    for at in [0, 1, 3] {
        sim.quarantine(at, 2);
    }
    sim.run_for(secs(5));
    sim.expect_halted([2], HaltReason::Removed);
    sim.run_for(secs(30));
    sim.expect_members([0, 1, 3], [0, 1, 3]);
}

#[test]
fn u_05_two_of_whom_one_refuses_the_other_are_told_apart_by_a_crash() {
    for (gone, rest) in [(2, [0, 1, 3]), (0, [1, 2, 3])] {
        let mut sim = Sim::new(33).nodes(4);
        sim.run_until(all_up);
        sim.quarantine(0, 2);
        sim.run_for(secs(20));
        sim.crash(gone);
        sim.run_for(secs(20));
        sim.expect_members(rest, rest);
    }
}
