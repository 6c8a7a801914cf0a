//! A new incarnation at the address of an old one. Spec: membership §2.1 (6b), §8.10, §6 I and O.

use super::{MOMENT, Rig, n, names, state};
use crate::membership::state::reachability::ReachabilityStatus;
use crate::membership::tests::{reach, seen};

fn terminated(rig: &Rig, observer: &str, subject: &str) -> bool {
    rig.m.gossip.reachability().status(&n(observer), &n(subject)) == ReachabilityStatus::Terminated
}

#[test]
fn m_402_and_m_403_a_restart_terminates_and_downs_the_exact_old_incarnation_without_an_answer() {
    for old in ["d", "dJ", "dW", "dL", "dX"] {
        let mut rig = Rig::member("a", state(&alloc::format!("a b {old}"), "a b d", "a"));
        rig.join("d#3");
        // Who is exiting goes without being downed.
        let expected = if old == "dX" { "a b dX" } else { "a b dD" };
        assert_eq!(rig.members(), expected, "{old}");
        assert!(terminated(&rig, "a", "d") && !rig.m.gossip.contains(&n("d#3")));
        assert_eq!(
            (rig.sent().as_str(), rig.f.stats.node.rejected),
            ("", 0),
            "{old}: neither welcome nor push"
        );
    }
}

#[test]
fn what_users_hear_of_a_restart() {
    let mut rig = Rig::member("a", state("a b d", "a b d", "a"));
    rig.join("d#3");
    assert_eq!(rig.did(), "downed(d) unreachable(d) seen(a) reachability");
}

#[test]
fn an_old_incarnation_that_is_already_down_is_only_marked_as_terminated_once() {
    let mut rig = Rig::member("a", reach(state("a b dD", "a b", "a"), "b>d:U"));
    rig.join("d#3");
    assert_eq!((rig.members().as_str(), rig.clock("a")), ("a b dD", 2));
    assert!(terminated(&rig, "a", "d"));
    rig.did();
    rig.join("d#3");
    assert_eq!(
        (rig.did().as_str(), rig.clock("a")),
        ("", 2),
        "the joiner may ask as often as it likes"
    );
}

#[test]
fn m_405_the_new_incarnation_is_admitted_once_the_old_one_was_removed() {
    let mut rig = Rig::member("a", state("a b d", "a b d", "a"));
    rig.join("d#3");
    rig.gossip("b", &seen((*rig.m.gossip).clone(), "a b"));
    rig.leader_tick();
    assert_eq!(
        (rig.members().as_str(), names(rig.m.gossip.tombstones()).as_str()),
        ("a b", "d")
    );
    rig.did();
    rig.join("d#3");
    assert_eq!(rig.did(), "joined(d#3) welcome>d#3");
    rig.join("d");
    assert_eq!(
        rig.did(),
        "rejected(d: join refused: this incarnation was removed before) refused(UidRemoved)>d"
    );
}

#[test]
fn a_restart_in_a_full_cluster_ends_the_old_incarnation_and_so_makes_its_own_room() {
    let full = |config: &mut crate::config::Config| config.limits.members_max = 3;
    let mut rig = Rig::configured("a", full).with_state(state("a b d", "a b d", "a"));
    rig.join("d#3");
    assert_eq!((rig.members().as_str(), rig.f.stats.node.rejected), ("a b dD", 0));
}

#[test]
fn every_old_incarnation_of_the_address_is_ended_the_live_one_first() {
    let mut rig = Rig::member("a", state("a bD b#2", "a", "a"));
    rig.join("b#3");
    assert_eq!(rig.members(), "a bD b#2D");
    assert!(terminated(&rig, "a", "b#2"));
    assert!(!terminated(&rig, "a", "b"));
}

#[test]
fn f_30_whoever_else_a_state_names_at_my_address_is_ended_in_one_change() {
    let mut codes = alloc::string::String::from("a b");
    for uid in 2..200 {
        codes += &alloc::format!(" a#{uid}{}", if uid == 5 { "X" } else { "" });
    }
    let mut rig = Rig::member("a", state("a b", "a b", "a"));
    let revision = rig.f.view.revision;
    rig.gossip("b", &state(&codes, "b", "a b"));
    assert_eq!(
        (rig.f.view.revision, rig.clock("a")),
        (revision + 2, 2),
        "theirs, then mine"
    );
    let ended = rig
        .members()
        .split(' ')
        .filter(|code| code.ends_with('D'))
        .count();
    assert_eq!(ended, 197, "who is exiting is removed without it");
    assert!((2..200).all(|uid| terminated(&rig, "a", &alloc::format!("a#{uid}"))));
    assert_eq!(rig.f.stats.membership.incarnations_terminated, 198);
}

#[test]
fn i_15_two_incarnations_admitted_by_members_that_had_not_heard_of_each_other_do_not_both_become_up() {
    // b took d in, which crashed; c, which had not heard of that, took its successor in.
    for status in ["J", "W", ""] {
        let old = alloc::format!("d{status}");
        let mut rig = Rig::member("a", state(&alloc::format!("a b {old} d#3J"), "a b d", "a"));
        rig.leader_tick();
        assert_eq!(rig.members(), alloc::format!("a b {old} d#3J"));
    }
    let mut rig = Rig::member("a", state("a b dD d#3J", "a b d", "a"));
    rig.leader_tick();
    assert_eq!(rig.members(), "a b dD d#3", "who is Down is nobody's rival");
}

#[test]
fn i_15_nor_does_a_leader_without_convergence_admit_one_of_two_incarnations_weakly() {
    let mut rig = Rig::member("a", reach(state("a b d#3J dJ eJ", "a", "a"), "a>b:U"));
    rig.run(core::time::Duration::from_secs(30));
    rig.leader_tick();
    rig.run(core::time::Duration::from_secs(30));
    assert_eq!(rig.members(), "a b dJ d#3J eW");
}

#[test]
fn i_15_an_incarnation_ends_the_others_at_its_address_whoever_admitted_it() {
    for old in ["d", "dJ", "dW", "dL", "dX"] {
        let mut rig = Rig::member("d#3", state("a b d#3J", "a b", "a"));
        rig.gossip("b", &state(&alloc::format!("a b {old} d#3J"), "a b", "a b"));
        let expected = if old == "dX" { "a b dX d#3J" } else { "a b dD d#3J" };
        assert_eq!(rig.members(), expected, "{old}");
        assert!(terminated(&rig, "d#3", "d"));
        assert!(rig.sent().contains("gossip"), "{old}: it says so");
    }
}

#[test]
fn i_15_an_incarnation_on_its_way_out_ends_nobody_at_its_address() {
    for me in ["dL", "dX", "dD"] {
        let mine = alloc::format!("a b {me}");
        let mut rig = Rig::member("d", state(&mine, "a b d", "a"));
        rig.gossip("b", &state(&alloc::format!("{mine} d#3J"), "a b d", "a b"));
        assert!(rig.members().contains("d#3J"), "{me}: {}", rig.members());
    }
}

/// `d` has said that nothing runs there any more.
fn gone(mut gossip: crate::membership::state::gossip::Gossip) -> crate::membership::state::gossip::Gossip {
    assert!(gossip.mark_gone(&n("d")));
    gossip
}

#[test]
fn a_restart_after_an_incarnation_that_is_gone_is_admitted_at_once_and_both_changes_are_one() {
    let mut rig = Rig::member("a", gone(state("a b dX", "a", "a")));
    rig.join("d#3");
    assert_eq!(rig.sent(), "welcome>d#3");
    assert_eq!(
        (rig.members().as_str(), rig.f.stats.node.rejected),
        ("a b dX d#3J", 0)
    );
    rig.gossip("b", &seen((*rig.m.gossip).clone(), "a b"));
    rig.run(MOMENT);
    assert_eq!(rig.members(), "a b d#3", "without waiting for the leader's tick");
    assert_eq!(names(rig.m.gossip.tombstones()), "d");
    assert!(rig.m.gossip.is_gone(&n("d")), "whoever hears later knows it, too");
}

#[test]
fn a_restart_after_an_exit_that_is_not_known_to_be_complete_waits_for_the_removal() {
    let mut rig = Rig::member("a", state("a b dX", "a b", "a"));
    rig.join("d#3");
    assert_eq!((rig.sent().as_str(), rig.members().as_str()), ("", "a b dX"));
    rig.gossip("b", &seen((*rig.m.gossip).clone(), "a b"));
    rig.run(MOMENT);
    assert_eq!(rig.members(), "a b");
    assert!(
        rig.m.gossip.gone().is_empty(),
        "the use of its address proves nothing"
    );
    rig.join("d#3");
    assert!(rig.sent().contains("welcome>d#3"));
}

#[test]
fn what_a_member_said_of_itself_is_kept_by_every_merge_and_by_its_tombstone() {
    let said = gone(state("a b dX", "a", "a d"));
    let unsaid = state("a bL dX", "b", "a b");
    for merged in [
        crate::membership::state::merge::merge(&said, &unsaid),
        crate::membership::state::merge::merge(&unsaid, &said),
    ] {
        assert_eq!(names(merged.gone()), "d");
        merged.check_invariants().unwrap();
    }
    let mut removed = state("a b dX", "a", "a d");
    removed.remove(&n("d"));
    for merged in [
        crate::membership::state::merge::merge(&said, &removed),
        crate::membership::state::merge::merge(&removed, &said),
    ] {
        assert_eq!(
            (names(merged.tombstones()), names(merged.gone())),
            ("d".into(), "d".into())
        );
    }
    let mut pruned = crate::membership::state::merge::merge(&said, &removed);
    pruned.prune_tombstones(&[n("d")]);
    assert!(pruned.gone().is_empty());
}

#[test]
fn only_who_is_exiting_can_be_gone() {
    for code in ["d", "dJ", "dW", "dL", ""] {
        let mut gossip = state(&alloc::format!("a {code}"), "a", "a");
        assert!(!gossip.mark_gone(&n("d")), "{code}");
    }
}

#[test]
fn whoever_hears_the_last_words_of_a_leaver_tells_the_leader_at_once() {
    let mut rig = Rig::member("b", state("a b c dX", "a b c", "a"));
    let last = gone(state("a b c dX", "d", "a d"));
    rig.gossip("d", &last);
    assert_eq!(rig.sent(), "gossip>a", "and does not answer one that is no more");
}
