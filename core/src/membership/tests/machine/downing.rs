//! Downing and what a downed node does. Spec: membership §2.10, §2.11, §6 J.

use super::{Rig, TOKEN, at, n, names, secs, state, versioned};
use crate::effect::HaltReason;
use crate::input::DownTarget;
use crate::membership::tests::{confirmed, in_dc, m, of, reach, seen};
use crate::signal::Verdicts;

fn down(rig: &mut Rig, name: &str) {
    rig.call(|m, cx| m.down(cx, &n(name)));
}

fn down_command(rig: &mut Rig, target: &DownTarget) {
    rig.call(|m, cx| m.on_down_command(cx, TOKEN, target));
}

#[test]
fn m_218_a_live_member_that_is_downed_hears_it_at_once_and_counts_no_longer_as_having_seen() {
    let mut rig = Rig::member("a", state("a b c", "a b c", "a"));
    down_command(&mut rig, &DownTarget::Address(at("c")));
    assert_eq!(rig.did(), "done downed(c) seen(a) gossip>c");
    assert_eq!((rig.members().as_str(), rig.clock("a")), ("a b cD", 2));

    let mut downed = Rig::member("c", state("a b c", "a b c", "a"));
    downed.gossip("a", &rig.m.gossip);
    assert_eq!(downed.halted(), Some(HaltReason::Downed));
}

#[test]
fn a_member_that_i_find_unreachable_is_downed_without_a_push() {
    let mut rig = Rig::member("a", reach(state("a b c", "a b", "a"), "a>c:U"));
    down(&mut rig, "c");
    assert_eq!(rig.did(), "downed(c) seen(a)");
}

#[test]
fn m_216_downing_a_stranger_or_a_downed_member_changes_nothing() {
    let mut rig = Rig::member("a", state("a b cD", "a b", "a"));
    let before = rig.m.gossip.clone();
    for (target, answer) in [
        (DownTarget::Address(at("x")), "refused(UnknownMember)"),
        (DownTarget::Node(n("b#2")), "refused(UnknownMember)"),
        (DownTarget::Address(at("c")), "done"),
        (DownTarget::Node(n("c")), "done"),
    ] {
        down_command(&mut rig, &target);
        assert_eq!(
            (rig.did().as_str(), &rig.m.gossip),
            (answer, &before),
            "{target:?}"
        );
    }
    rig.call(|m, cx| m.on_down(cx, &n("b"), &n("x")));
    rig.call(|m, cx| m.on_down(cx, &n("b"), &n("c")));
    assert_eq!((rig.did().as_str(), &rig.m.gossip), ("", &before));
}

#[test]
fn u_10_downing_an_address_means_its_live_incarnation() {
    let mut rig = Rig::member("a", state("a bD b#2", "a", "a"));
    down_command(&mut rig, &DownTarget::Address(at("b")));
    assert_eq!(rig.members(), "a bD b#2D");
}

#[test]
fn m_214_a_node_that_downs_itself_tells_a_few_others_once_and_stops() {
    let mut rig = Rig::member("a", state("a b c", "a b c", "a"));
    down_command(&mut rig, &DownTarget::Address(at("a")));
    assert_eq!(rig.clone().told(), "downed(a) leader(b) seen(a)");
    assert_eq!(rig.sent_in_any_order(), "done gossip>b gossip>c");
    assert_eq!(rig.halted(), Some(HaltReason::Downed));
}

#[test]
fn m_215_several_members_are_downed_together_and_each_hears_it() {
    let mut rig = Rig::member("a", state("a b c", "a b c", "a"));
    rig.call(|m, cx| m.on_down_decided(cx, &confirmed("b c")));
    assert_eq!(rig.sent(), "gossip>b gossip>c");
    assert_eq!((rig.members().as_str(), rig.halted()), ("a bD cD", None));
}

#[test]
fn f_30_members_that_are_downed_together_are_one_change_and_a_bounded_number_hears_it_at_once() {
    // A picture has all members in it: one for each of nine thousand would not fit into memory.
    let names: alloc::string::String = (0..1_000).map(|at| alloc::format!(" x{at}")).collect();
    let mut rig = Rig::member("a", state(&alloc::format!("a{names}"), "a", "a"));
    let revision = rig.f.view.revision;
    rig.call(|m, cx| m.on_down_decided(cx, &confirmed(&names)));
    assert_eq!((rig.f.view.revision, rig.clock("a")), (revision + 1, 2));
    assert_eq!(rig.sent().split(' ').count(), 64);
}

#[test]
fn a_decision_that_includes_this_node_downs_it_last() {
    let mut rig = Rig::member("a", state("a b c d", "a b c d", "a"));
    rig.call(|m, cx| m.on_down_decided(cx, &confirmed("a b c")));
    assert_eq!(rig.members(), "aD bD cD d");
    let sent = rig.sent();
    assert!(sent.starts_with("gossip>b gossip>c "), "{sent}");
    assert_eq!(rig.halted(), None, "b and c have not confirmed that they know");
}

/// `a` and `b` are Down, both reachable; `a` has heard so from `c`.
fn downed_with_another(rows: &str, seen_by: &str) -> Rig {
    let mut rig = Rig::member("a", state("a b c", "a b c", "a"));
    rig.gossip(
        "c",
        &versioned(&reach(state("aD bD c", seen_by, ""), rows), "a c"),
    );
    rig
}

#[test]
fn a_downed_node_waits_until_the_other_downed_ones_know_or_cannot_be_reached() {
    assert_eq!(downed_with_another("", "c").halted(), None);
    assert_eq!(downed_with_another("", "b c").halted(), Some(HaltReason::Downed));
    assert_eq!(
        downed_with_another("c>b:U", "c").halted(),
        Some(HaltReason::Downed)
    );
    assert_eq!(
        downed_with_another("c>b:T", "c").halted(),
        Some(HaltReason::Downed)
    );
}

#[test]
fn a_downed_node_does_not_wait_for_another_data_center() {
    let mut rig = Rig::member("a", state("a b c", "a b c", "a"));
    rig.gossip(
        "c",
        &versioned(&seen(of([m("aD"), in_dc("bD", "far"), m("c")]), "c"), "a c"),
    );
    assert_eq!(rig.halted(), Some(HaltReason::Downed));
}

#[test]
fn a_downed_node_goes_as_soon_as_the_other_says_that_it_knows() {
    let mut rig = downed_with_another("", "c");
    rig.did();
    rig.gossip("b", &state("aD bD c", "b c", "a c"));
    assert_eq!(rig.halted(), None, "looked at on the next leader tick");
    rig.leader_tick();
    assert_eq!(rig.sent_in_any_order(), "gossip>b gossip>b gossip>c");
    assert_eq!(rig.halted(), Some(HaltReason::Downed));
}

#[test]
fn a_downed_node_waits_four_ticks_at_most() {
    let mut rig = downed_with_another("", "c");
    for _ in 0..3 {
        rig.leader_tick();
        assert_eq!(rig.halted(), None);
    }
    rig.leader_tick();
    assert_eq!(rig.halted(), Some(HaltReason::Downed));
    assert_eq!(rig.members(), "aD bD c", "and changed nothing more");
}

#[test]
fn a_node_that_only_sees_others_down_stays() {
    let mut rig = Rig::member("a", state("a bD cD", "a", "a"));
    rig.run(secs(1));
    for _ in 0..10 {
        rig.leader_tick();
    }
    assert_eq!(rig.halted(), None);
}

#[test]
fn verdicts_of_the_detector_become_my_own_rows_in_one_change() {
    let mut rig = Rig::member("a", state("a b c", "a b c", "a"));
    let verdicts = |unreachable: &str, reachable: &str| Verdicts {
        unreachable: confirmed(unreachable),
        reachable: confirmed(reachable),
    };
    rig.call(|m, cx| m.on_verdicts(cx, &verdicts("a b c x", "")));
    assert_eq!(rig.did(), "unreachable(b) unreachable(c) seen(a) reachability");
    assert_eq!(rig.clock("a"), 2);
    let rows = rig.m.gossip.reachability().records().iter();
    assert_eq!(
        names(rows.map(|row| &row.subject)),
        "b c",
        "nobody observes itself"
    );
    rig.call(|m, cx| m.on_verdicts(cx, &verdicts("b", "x")));
    assert_eq!((rig.did().as_str(), rig.clock("a")), ("", 2));
    rig.call(|m, cx| m.on_verdicts(cx, &verdicts("", "b")));
    assert_eq!(
        (rig.did().as_str(), rig.clock("a")),
        ("reachable(b) reachability", 3)
    );
}

#[test]
fn m_219_a_terminated_member_keeps_its_status_and_does_not_come_back() {
    let mut rig = Rig::member("a", reach(state("a b c", "a b c", "a"), "a>c:T"));
    let reachable = Verdicts {
        reachable: confirmed("c"),
        ..Verdicts::default()
    };
    rig.call(|m, cx| m.on_verdicts(cx, &reachable));
    assert_eq!((rig.did().as_str(), rig.members().as_str()), ("", "a b c"));
}

#[test]
fn a_member_may_be_downed_by_another_members_word() {
    let mut rig = Rig::member("a", state("a b c", "a b c", "a"));
    rig.call(|m, cx| m.on_down(cx, &n("x"), &n("c")));
    assert_eq!(rig.did(), "rejected(x: the sender is not a member)");
    rig.call(|m, cx| m.on_down(cx, &n("b"), &n("c")));
    assert_eq!(rig.did(), "downed(c) seen(a) gossip>c");
    assert_eq!((rig.members().as_str(), rig.clock("a")), ("a b cD", 2));
}
