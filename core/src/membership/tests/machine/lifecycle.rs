//! The rest of a member's life: weakly up, preparing for shutdown, removal by hand, refusals that the other
//! side hears, and time limits on joining and leaving. Spec: membership §2.1, §2.2, §2.8, §2.9, §2.12, §2.16,
//! §6 G to K.

use super::{Rig, TOKEN, at, n, names, secs, state, versioned};
use crate::drain::DrainPart;
use crate::effect::HaltReason;
use crate::input::DownTarget;
use crate::membership::state::member::Status;
use crate::membership::tests::{reach, seen};
use crate::message::JoinRefused;
use crate::reject::JoinRefusal;

/// `a` leads and waits for `b`, which has not seen the state.
fn waiting(codes: &str, rows: &str) -> Rig {
    Rig::member("a", reach(state(codes, "a", "a"), rows))
}

fn remove(rig: &mut Rig, node: &str) {
    let target = DownTarget::Node(n(node));
    rig.call(|m, cx| m.on_remove_command(cx, TOKEN, &target));
}

fn prepare(rig: &mut Rig) {
    rig.call(|m, cx| m.on_prepare_command(cx, TOKEN));
}

fn refused(rig: &mut Rig, from: &str, to: &str, reason: JoinRefusal) {
    let refused = JoinRefused { to: n(to), reason };
    rig.call(|m, cx| m.on_join_refused(cx, &n(from), &refused));
}

fn removed(rig: &mut Rig, from: &str, to: &str) {
    let (from, to) = (n(from), n(to));
    rig.call(|m, cx| m.on_removed(cx, &from, &to));
}

/// Leader ticks until something is told, at most ten.
fn ticks_until_told(rig: &mut Rig) -> (usize, alloc::string::String) {
    for tick in 1..=10 {
        rig.leader_tick();
        let told = rig.told();
        if !told.is_empty() {
            return (tick, told);
        }
    }
    (0, alloc::string::String::new())
}

#[test]
fn a_leader_without_convergence_admits_the_joining_as_weakly_up_at_the_seventh_tick() {
    let mut rig = waiting("a b cJ dJ", "");
    assert_eq!(
        ticks_until_told(&mut rig),
        (7, "weakly-up(c) weakly-up(d)".into())
    );
    assert_eq!(
        (
            rig.members().as_str(),
            rig.f.stats.membership.members_weakly_up,
            rig.f.stats.membership.leader_actions
        ),
        ("a b cW dW", 2, 1)
    );
}

#[test]
fn weakly_up_counts_whole_ticks_of_any_length() {
    for (after_ms, tick) in [(1, 1), (1_000, 1), (1_001, 2), (2_500, 3)] {
        let after = Some(core::time::Duration::from_millis(after_ms));
        let mut rig = Rig::configured("a", |config| config.membership.allow_weakly_up_members = after)
            .with_state(state("a b cJ", "a", "a"));
        assert_eq!(ticks_until_told(&mut rig).0, tick, "{after_ms}");
    }
}

#[test]
fn m_207_and_m_209_nobody_is_admitted_weakly_while_it_is_off_or_somebody_finds_it_unreachable_or_too_few_are_there()
 {
    let mut off = Rig::configured("a", |config| config.membership.allow_weakly_up_members = None)
        .with_state(state("a b cJ", "a", "a"));
    assert_eq!(ticks_until_told(&mut off).0, 0);
    let mut few = Rig::configured("a", |config| config.membership.min_nr_of_members = 4)
        .with_state(state("a b cJ", "a", "a"));
    assert_eq!(ticks_until_told(&mut few).0, 0);
    assert_eq!(ticks_until_told(&mut waiting("a b cJ", "b>c:U")).0, 0);
    let told = ticks_until_told(&mut waiting("a b cJ dJ", "b>c:U")).1;
    assert_eq!(told, "weakly-up(d)");
    let told = ticks_until_told(&mut waiting("a bD cJ e", "b>c:U")).1;
    assert_eq!(told, "weakly-up(c)", "what a downed observer says does not count");
}

#[test]
fn only_the_leader_admits_weakly() {
    let mut rig = Rig::member("b", state("a b cJ", "b", "b"));
    assert_eq!(ticks_until_told(&mut rig).0, 0);
}

#[test]
fn m_208_a_weakly_up_member_becomes_up_on_convergence() {
    let mut rig = Rig::member("a", state("a bW", "a", "a"));
    rig.leader_tick();
    assert_eq!(rig.told(), "up(b:2) seen(a)");
}

#[test]
fn m_220_preparing_moves_everybody_who_is_up_once_and_says_so_at_once() {
    let mut rig = Rig::member("a", state("a b cJ dL eW", "a b d", "a"));
    prepare(&mut rig);
    assert_eq!(rig.members(), "aP bP cJ dL eW");
    assert!(rig.f.view.is_shutting_down());
    assert!(
        rig.f
            .view
            .members_in(Status::WeaklyUp)
            .map(|m| &m.node)
            .eq([&n("e")])
    );
    let did = rig.did();
    assert!(did.starts_with("done preparing(a) preparing(b) seen(a)"), "{did}");
    assert!(did.contains("gossip>"), "{did}");
    let clock = rig.clock("a");
    prepare(&mut rig);
    assert_eq!(
        (rig.did().as_str(), rig.clock("a")),
        ("done", clock),
        "the second time changes nothing"
    );
}

#[test]
fn f_45_another_node_prepares_on_its_leader_tick_and_the_leader_moves_all_on() {
    let mut rig = Rig::member("b", state("aP b", "a b", "a"));
    rig.leader_tick();
    assert_eq!(rig.members(), "aP bP");
    let mut rig = Rig::member("a", state("aP bP cL", "a b c", "a"));
    rig.leader_tick();
    assert_eq!(rig.members(), "aR bR cX", "Leaving goes on");
    rig.leader_tick();
    assert_eq!(rig.members(), "aR bR cX");
}

#[test]
fn nobody_rises_while_the_cluster_prepares() {
    let mut rig = waiting("aP b cJ", "");
    for _ in 0..8 {
        rig.leader_tick();
    }
    assert_eq!(rig.members(), "aP b cJ", "not weakly up");
    let mut rig = Rig::member("a", state("aR bJ", "a", "a"));
    rig.leader_tick();
    assert_eq!(rig.members(), "aR bJ", "not up");
}

#[test]
fn preparing_is_refused_outside_a_cluster() {
    let mut rig = Rig::idle("a");
    prepare(&mut rig);
    assert_eq!(rig.did(), "refused(NotAMember)");
}

#[test]
fn preparing_is_refused_while_nobody_is_up_and_may_be_repeated() {
    let mut rig = waiting("aW bJ", "");
    prepare(&mut rig);
    assert!(rig.did().ends_with("refused(NobodyIsUp)"));
    let mut rig = Rig::member("a", state("aR bR", "a b", "a b"));
    prepare(&mut rig);
    assert_eq!(rig.did(), "done");
}

#[test]
fn a_cluster_stays_prepared_when_all_who_prepared_are_leaving() {
    let mut rig = Rig::member("a", state("aR bR cJ", "a b c", "a b c"));
    for node in ["a", "b"] {
        rig.call(|m, cx| m.leave(cx, &n(node)));
    }
    assert_eq!(rig.members(), "aL bL cJ");
    assert!(rig.f.view.is_shutting_down() && rig.f.view.is_ready_for_shutdown());
    rig.join("d");
    assert!(rig.did().ends_with("refused(ShuttingDown)>d"));
}

#[test]
fn m_394_and_m_429_a_removed_member_is_gone_at_once_is_told_and_never_comes_back() {
    let mut rig = Rig::member("a", reach(state("a b c", "a b c", "a b"), "b>c:U"));
    remove(&mut rig, "b");
    assert_eq!(
        rig.did(),
        "done removed-you>b tombstones removed(b:Up) reachable(c) seen(a) reachability gossip>c"
    );
    assert_eq!((rig.members().as_str(), rig.clock("b")), ("a c", 0));
    assert_eq!(names(rig.m.gossip.tombstones()), "b");
    assert_eq!(rig.f.stats.membership.removed_told, 1);
    assert!(rig.f.view.removed().eq([&n("b")]) && !rig.f.view.is_shutting_down());
    remove(&mut rig, "b");
    assert_eq!(rig.did(), "done", "repeating it changes nothing");
    rig.join("b");
    assert!(rig.did().ends_with("refused(UidRemoved)>b"));
    rig.join("b#2");
    assert_eq!(rig.members(), "a b#2J c");
}

#[test]
fn a_node_removes_itself_only_when_alone_and_strangers_never() {
    let mut rig = Rig::member("a", state("a b", "a b", "a"));
    remove(&mut rig, "a");
    remove(&mut rig, "x");
    assert_eq!(rig.did(), "refused(NotMyself) refused(UnknownMember)");
    let mut alone = Rig::member("a", state("a", "a", "a"));
    remove(&mut alone, "a");
    assert_eq!(alone.halted(), Some(HaltReason::Removed));
    let mut idle = Rig::idle("a");
    remove(&mut idle, "a");
    assert_eq!(idle.did(), "refused(NotAMember)");
}

#[test]
fn u_05_one_members_word_that_this_node_was_removed_is_passed_on_and_ends_nobody() {
    let mut rig = Rig::member("b", state("a b", "a b", "a"));
    removed(&mut rig, "a", "b");
    assert_eq!((rig.heard().as_str(), rig.halted()), ("told-removed(a)", None));
    rig.call(|m, cx| m.on_disowned(cx));
    assert_eq!(rig.halted(), Some(HaltReason::Removed));
}

#[test]
fn u_05_a_roll_call_is_a_new_state_that_others_are_told_of_at_once() {
    let mut rig = Rig::member("a", state("a b c", "a b c", "a b c"));
    rig.call(|m, cx| m.on_roll_call(cx));
    assert_eq!(rig.sent_in_any_order(), "gossip>b gossip>c");
    assert_eq!(
        (rig.clock("a"), rig.f.view.gossip().has_seen(&n("b"))),
        (2, false)
    );
}

#[test]
fn u_01_a_stranger_a_member_on_its_way_out_or_a_notice_for_another_incarnation_stops_nobody() {
    for (codes, from, to) in [
        ("a b", "x", "b"),
        ("aL b", "a", "b"),
        ("aX b", "a", "b"),
        ("aD b", "a", "b"),
        ("a b", "a", "b#2"),
    ] {
        let mut rig = Rig::member("b", state(codes, "a b", "a"));
        removed(&mut rig, from, to);
        assert_eq!(
            (rig.heard().as_str(), rig.f.stats.node.rejected),
            ("", 1),
            "{codes} {from} {to}"
        );
    }
}

#[test]
fn a_joiner_that_can_never_be_admitted_stops_and_says_why() {
    let mut rig = Rig::idle("d");
    rig.seeds("a b");
    rig.ack("a");
    rig.did();
    refused(&mut rig, "a", "d", JoinRefusal::UidRemoved);
    assert_eq!(rig.did(), "failed(Refused { reason: UidRemoved })");
    assert_eq!(rig.halted(), Some(HaltReason::JoinRefused));
}

#[test]
fn a_joiner_that_is_refused_for_now_goes_on_asking() {
    let mut rig = Rig::idle("d");
    rig.seeds("a b");
    rig.ack("a");
    rig.did();
    refused(&mut rig, "a", "d", JoinRefusal::TooManyMembers);
    assert_eq!(rig.did(), "failed(Refused { reason: TooManyMembers })");
    rig.run(secs(9));
    assert_eq!(rig.did(), ["join>a"; 9].join(" "));
    rig.run(secs(1));
    assert_eq!(rig.did(), "failed(NoWelcome) init-join>a init-join>b");
    assert_eq!(rig.halted(), None);
}

#[test]
fn a_refusal_that_nobody_waits_for_is_dropped() {
    let mut idle = Rig::idle("d");
    refused(&mut idle, "a", "d", JoinRefusal::UidRemoved);
    assert_eq!((idle.halted(), idle.f.stats.node.rejected), (None, 1));
    let mut up = Rig::member("d", state("a d", "a d", "a"));
    refused(&mut up, "a", "d", JoinRefusal::UidRemoved);
    assert_eq!((up.halted(), up.did().as_str()), (None, ""));
}

#[test]
fn a_member_that_is_joining_still_and_was_removed_meanwhile_stops() {
    let mut rig = Rig::member("d", state("a dJ", "a d", "a"));
    refused(&mut rig, "a", "d", JoinRefusal::UidRemoved);
    assert_eq!(rig.halted(), Some(HaltReason::Removed));
}

#[test]
fn a_join_that_takes_too_long_is_aborted_if_so_configured() {
    let mut rig = Rig::configured("d", |config| {
        config.membership.shutdown_after_unsuccessful_join = Some(secs(25));
    });
    rig.seeds("a b");
    rig.ack("a");
    rig.run(secs(24));
    assert_eq!(rig.halted(), None, "attempts come and go");
    rig.did();
    rig.run(secs(1));
    assert!(rig.told().ends_with("failed(Aborted)"));
    assert_eq!(rig.halted(), Some(HaltReason::JoinAborted));
}

#[test]
fn a_join_in_time_is_not_aborted() {
    let mut rig = Rig::configured("d", |config| {
        config.membership.shutdown_after_unsuccessful_join = Some(secs(3));
    });
    rig.seeds("a");
    rig.ack("a");
    rig.welcome("a", "d", &state("a dJ", "a", "a"));
    rig.run(secs(5));
    assert_eq!(rig.halted(), None);
}

#[test]
fn a_joiner_with_other_settings_joins_with_a_warning_if_they_are_not_enforced() {
    let mut rig = Rig::configured("d", |config| config.membership.enforce_config_on_join = false);
    rig.seeds("a");
    rig.did();
    let ack = super::answer(false);
    rig.call(|m, cx| m.on_init_join_ack(cx, &n("a"), &ack));
    assert_eq!(
        rig.did(),
        "failed(the settings of a:7355 differ from this node's: the peer's version does not say which) join>a"
    );
    assert_eq!(rig.halted(), None);
}

#[test]
fn a_leaving_node_whose_leader_cannot_act_goes_when_its_time_is_over() {
    let mut rig = Rig::member("b", state("a b c", "a b c", "a"));
    rig.call(|m, cx| m.on_leave_command(cx, TOKEN, Some(&at("b"))));
    for part in DrainPart::ALL {
        rig.call(|m, cx| m.on_drained(cx, part));
    }
    rig.did();
    rig.run(secs(9));
    assert_eq!(rig.halted(), None);
    rig.did();
    rig.run(secs(1));
    assert!(rig.clone().told().contains("timed-out(Exiting)"));
    assert_eq!(rig.sent_in_any_order(), "gossip>a gossip>c", "its last state");
    assert_eq!(rig.halted(), Some(HaltReason::Left));
}

#[test]
fn a_hand_over_that_takes_too_long_does_not_keep_a_leaving_node() {
    let mut rig = Rig::member("b", state("a b c", "a b c", "a"));
    rig.call(|m, cx| m.on_leave_command(cx, TOKEN, Some(&at("b"))));
    rig.did();
    rig.run(secs(141));
    assert!(rig.told().contains("timed-out(Sharding)"));
    rig.gossip("a", &state("a bX c", "a", "a a b"));
    assert_eq!(rig.halted(), Some(HaltReason::Left), "drained is drained");
}

#[test]
fn the_links_of_one_that_left_gracefully_are_refused_a_little_later_or_when_its_address_is_used_again() {
    let left = || {
        let mut rig = Rig::member("a", reach(state("a bX", "a", "a"), "a>b:U"));
        rig.leader_tick();
        assert_eq!(
            (rig.members().as_str(), rig.did().contains("quarantine")),
            ("a", false)
        );
        rig
    };
    let mut rig = left();
    rig.run(secs(4));
    assert_eq!(rig.sent(), "");
    rig.run(secs(1));
    assert_eq!(rig.sent(), "quarantine(b)");
    let mut rig = left();
    rig.join("b#2");
    assert_eq!(rig.sent(), "quarantine(b) welcome>b#2");
    rig.run(secs(5));
    assert!(!rig.did().contains("quarantine"), "once");
}

#[test]
fn weakly_up_counts_the_ticks_of_this_leadership_only() {
    // `b` leads for six ticks without `e` having seen the state, then `a` for one, then `b` again.
    let mut rig = Rig::member("b", state("b cJ d e", "b", "b"));
    for _ in 0..6 {
        rig.leader_tick();
    }
    rig.gossip("d", &state("a b cJ d e", "d", "b d"));
    rig.leader_tick();
    let mut without_a = state("a b cJ d e", "d", "");
    without_a.remove(&n("a"));
    rig.gossip("d", &seen(versioned(&without_a, "b d d"), "d"));
    rig.told();
    assert_eq!(ticks_until_told(&mut rig), (7, "weakly-up(c) seen(b)".into()));
}

#[test]
fn a_leader_that_waits_changes_nothing_while_nobody_joins() {
    let mut rig = waiting("a b cW dL", "");
    for _ in 0..12 {
        rig.leader_tick();
    }
    assert_eq!((rig.did().as_str(), rig.clock("a")), ("", 1));
    assert_eq!(rig.f.stats.membership.leader_actions, 0);
}
