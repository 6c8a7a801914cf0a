//! Leaving, exiting and the goodbye. Spec: membership §2.9, §6 J.

use super::{Rig, TOKEN, at, n, names, secs, state, versioned};
use crate::drain::DrainPart;
use crate::effect::HaltReason;
use crate::membership::machine::ExitStage;
use crate::membership::tests::{reach, seen};
use crate::timer::MembershipTimer::{ExitDrain, ExitLeaving, LeaderActions};
use crate::view::MembershipPhase;
use core::time::Duration;

fn leave_command(rig: &mut Rig, host: Option<&str>) {
    let address = host.map(at);
    rig.call(|m, cx| m.on_leave_command(cx, TOKEN, address.as_ref()));
}

/// `b` of `a b c`, which has just heard that it is Exiting.
fn exiting() -> Rig {
    let mut rig = Rig::member("b", state("a bL c", "a b c", "a b"));
    rig.gossip("a", &state("a bX c", "a", "a a b"));
    rig
}

fn drained(rig: &mut Rig) {
    for part in DrainPart::ALL {
        rig.call(|m, cx| m.on_drained(cx, part));
    }
}

#[test]
fn leaving_says_so_at_once_and_asks_for_the_hand_over() {
    let mut rig = Rig::member("a", state("a b", "a b", "a"));
    leave_command(&mut rig, None);
    assert_eq!(rig.did(), "done left(a) seen(a) gossip>b");
    assert_eq!(rig.heard(), "drain");
    assert_eq!((rig.members().as_str(), rig.clock("a")), ("aL b", 2));
    assert_eq!(rig.halted(), None);
}

#[test]
fn another_member_can_be_asked_to_leave_by_address_or_by_message() {
    let mut rig = Rig::member("a", state("a b c", "a b c", "a"));
    leave_command(&mut rig, Some("b"));
    rig.call(|m, cx| m.on_leave(cx, &n("b"), &n("c")));
    assert_eq!((rig.members().as_str(), rig.heard().as_str()), ("a bL cL", ""));
    leave_command(&mut rig, Some("x"));
    assert!(rig.did().ends_with("refused(UnknownMember)"));
}

#[test]
fn f_36_only_members_that_are_not_on_their_way_out_begin_to_leave() {
    for (codes, after) in [
        ("a bJ", "a bL"),
        ("a bW", "a bL"),
        ("a bP", "a bL"),
        ("a bR", "a bL"),
        ("a bL", "a bL"),
        ("a bX", "a bX"),
        ("a bD", "a bD"),
    ] {
        let mut rig = Rig::member("a", state(codes, "a", "a"));
        rig.call(|m, cx| m.leave(cx, &n("b")));
        assert_eq!(rig.members(), after);
        assert_eq!(rig.did().is_empty(), codes == after, "{codes}");
    }
}

#[test]
fn a_node_that_is_in_no_cluster_leaves_at_once() {
    let mut rig = Rig::idle("a");
    leave_command(&mut rig, None);
    assert_eq!(
        (rig.did().as_str(), rig.halted()),
        ("done", Some(HaltReason::Left))
    );
    assert_eq!(rig.halted(), None, "said once");
}

#[test]
fn an_exiting_node_asks_for_the_hand_over_within_a_time_limit_and_stays() {
    let mut rig = exiting();
    assert_eq!(rig.did(), "exited(b) seen(a b) gossip>a");
    assert_eq!((rig.heard().as_str(), rig.halted()), ("drain", None));
    assert_eq!(rig.deadlines(), [(ExitDrain, 10_000)]);
    assert_eq!(rig.m.exit, ExitStage::Draining);
}

#[test]
fn while_it_hands_over_an_exiting_node_does_not_count_as_having_seen_the_state() {
    let mut rig = exiting();
    rig.did();
    rig.gossip("a", &state("a bX cL", "a", "a a a b"));
    assert_eq!(
        (rig.did().as_str(), rig.seen().as_str()),
        ("left(c) seen(a)", "a"),
        "and does not talk back"
    );
    rig.gossip("c", &state("a bX cL dJ", "c", "a a a b c"));
    assert_eq!(
        (rig.did().as_str(), rig.seen().as_str()),
        ("joined(d) seen(c)", "c")
    );
    rig.join("e");
    rig.call(|m, cx| m.leave(cx, &n("d")));
    assert_eq!(rig.seen(), "", "nor after a change of its own");
}

#[test]
fn with_the_hand_over_done_it_says_goodbye_to_the_two_best_candidates_and_goes() {
    let mut rig = exiting();
    rig.did();
    drained(&mut rig);
    assert_eq!(
        rig.sent_in_any_order(),
        "confirmed>a confirmed>c gossip>a gossip>c"
    );
    assert_eq!(
        (rig.halted(), rig.deadlines()),
        (Some(HaltReason::Left), [].into())
    );
    assert_eq!(rig.f.view.phase(), MembershipPhase::Halted);
    assert_eq!(rig.f.view.self_member(), None, "F-55");
}

#[test]
fn the_goodbye_goes_to_leaders_that_can_act_and_the_state_to_five_at_random() {
    let gossip = state("a b cD d e f g h i", "b", "b");
    let mut rig = Rig::member("b", reach(gossip, "b>a:U d>e:U"));
    rig.call(|m, cx| m.leave(cx, &n("b")));
    let mut next = (*rig.m.gossip).clone();
    next.set_status(&n("b"), crate::membership::state::member::Status::Exiting);
    rig = rig.with_state(next);
    drained(&mut rig);
    let sent = rig.sent();
    assert!(sent.ends_with("confirmed>d confirmed>f"), "{sent}");
    assert_eq!(sent.matches("gossip>").count(), 5, "{sent}");
}

#[test]
fn the_goodbye_goes_to_the_leader_that_acts_even_if_a_downed_member_lost_sight_of_it() {
    let mut rig = Rig::member("b", state("a bL cD", "a b", "a"));
    rig.gossip("a", &versioned(&reach(state("a bX cD", "a", ""), "c>a:U"), "a a"));
    drained(&mut rig);
    assert!(rig.sent().ends_with("confirmed>a"));
    assert!(rig.f.outbox.loopback.is_empty(), "never to itself");
}

#[test]
fn the_last_state_of_an_exiting_node_says_that_it_is_gone_and_is_seen_by_it() {
    let mut rig = exiting();
    rig.gossip("c", &state("a bX cL dJ", "c", "a a a b c"));
    rig.did();
    drained(&mut rig);
    assert_eq!(
        (rig.seen().as_str(), names(rig.m.gossip.gone()).as_str()),
        ("b", "b")
    );
}

#[test]
fn an_exiting_node_whose_time_ran_out_does_not_say_that_it_is_gone() {
    let mut rig = exiting();
    rig.gossip("c", &state("a bX cL dJ", "c", "a a a b c"));
    rig.run(secs(10));
    rig.call(|m, cx| m.on_drained(cx, DrainPart::Paths));
    rig.call(|m, cx| m.on_drained(cx, DrainPart::Kv));
    rig.call(|m, cx| m.on_drained(cx, DrainPart::Singletons));
    rig.call(|m, cx| m.on_drained(cx, DrainPart::Ddata));
    assert_eq!(rig.halted(), Some(HaltReason::Left));
    assert!(rig.m.gossip.gone().is_empty());
    assert_eq!(rig.seen(), "b c");
    assert!(rig.sent().contains("confirmed>"), "it goes all the same");
}

#[test]
fn a_goodbye_after_a_time_out_removes_its_sender_and_proves_nothing() {
    let mut leaver = exiting();
    leaver.did();
    leaver.run(secs(141));
    // Its handler ends only now, when it has gone: nobody hears of it any more.
    drained(&mut leaver);
    assert!(leaver.m.gossip.gone().is_empty());
    let mut leader = Rig::member("a", state("a bX c", "a b c", "a a"));
    leader.gossip("b", &seen((*leaver.m.gossip).clone(), "a b c"));
    leader.call(|m, cx| m.on_exiting_confirmed(cx, &n("b"), &n("a")));
    leader.leader_tick();
    leader.leader_tick();
    assert_eq!(leader.members(), "a c");
    assert!(
        leader.m.gossip.gone().is_empty(),
        "everybody keeps the removal margin"
    );
    assert_eq!(names(leader.m.gossip.tombstones()), "b");
}

#[test]
fn work_that_is_not_handed_over_in_time_does_not_hold_an_exiting_node() {
    let mut rig = exiting();
    rig.run(Duration::from_millis(9_999));
    assert_eq!(rig.heard(), "drain");
    rig.run(Duration::from_millis(1));
    assert_eq!((rig.heard().as_str(), rig.halted()), ("drain-paths", None));
    assert!(rig.told().contains("timed-out(Sharding)"));
    rig.run(secs(60));
    assert_eq!((rig.heard().as_str(), rig.halted()), ("drain-kv", None));
    assert!(rig.told().contains("timed-out(Paths)"));
    rig.run(secs(60));
    assert_eq!((rig.heard().as_str(), rig.halted()), ("drain-singletons", None));
    assert!(rig.told().contains("timed-out(Kv)"));
    rig.run(secs(10));
    assert_eq!((rig.heard().as_str(), rig.halted()), ("drain-ddata", None));
    assert!(rig.told().contains("timed-out(Singletons)"));
    rig.run(secs(1));
    assert!(rig.told().contains("timed-out(Ddata)"));
    assert_eq!(rig.halted(), Some(HaltReason::Left));
}

#[test]
fn a_hand_over_that_is_done_while_leaving_waits_for_the_leader() {
    let mut rig = Rig::member("b", state("a b c", "a b c", "a"));
    leave_command(&mut rig, None);
    drained(&mut rig);
    assert_eq!(rig.halted(), None);
    rig.did();
    rig.gossip("a", &state("a bX c", "a", "a a b"));
    assert_eq!(
        rig.sent_in_any_order(),
        "confirmed>a confirmed>c gossip>a gossip>c"
    );
    assert_eq!(
        (rig.seen().as_str(), names(rig.m.gossip.gone()).as_str()),
        ("b", "b")
    );
    assert_eq!(rig.halted(), Some(HaltReason::Left));
}

#[test]
fn m_211_a_leader_that_leaves_moves_itself_to_exiting_without_having_seen_it() {
    let mut rig = Rig::member("a", state("aL b c", "a b c", "a"));
    rig.leader_tick();
    assert_eq!(rig.did(), "exited(a) leader(b) seen() gossip>b");
    assert_eq!((rig.members().as_str(), rig.seen().as_str()), ("aX b c", ""));
    assert_eq!(rig.heard(), "drain");
    assert_eq!(rig.deadlines(), [(LeaderActions, 1_000), (ExitDrain, 10_000)]);
    drained(&mut rig);
    assert_eq!(
        rig.sent_in_any_order(),
        "confirmed>b confirmed>c gossip>b gossip>c"
    );

    let mut next = Rig::member("b", state("aX b c", "b c", "a a"));
    next.call(|m, cx| m.on_exiting_confirmed(cx, &n("a"), &n("b")));
    next.leader_tick();
    next.leader_tick();
    assert_eq!(next.members(), "b c");
}

#[test]
fn m_212_a_node_alone_leaves_on_its_next_leader_ticks() {
    let mut rig = Rig::idle("a");
    rig.seeds("a");
    leave_command(&mut rig, None);
    rig.run(secs(1));
    assert_eq!(rig.members(), "aX");
    drained(&mut rig);
    assert_eq!(rig.halted(), Some(HaltReason::Left));
}

#[test]
fn m_213_a_node_that_never_became_up_can_leave() {
    let mut rig = Rig::configured("a", |config| config.membership.min_nr_of_members = 2);
    rig.seeds("a");
    rig.did();
    leave_command(&mut rig, None);
    rig.run(secs(1));
    assert_eq!(rig.told(), "left(a) exited(a) converged()");
    drained(&mut rig);
    assert_eq!(rig.halted(), Some(HaltReason::Left));

    let mut leader = Rig::member("a", state("a bJ", "a", "a"));
    leader.call(|m, cx| m.on_leave(cx, &n("b"), &n("b")));
    leader.gossip("b", &seen((*leader.m.gossip).clone(), "a b"));
    leader.leader_tick();
    leader.call(|m, cx| m.on_exiting_confirmed(cx, &n("b"), &n("a")));
    leader.leader_tick();
    leader.leader_tick();
    assert_eq!(
        leader.told(),
        "left(b) seen(a) converged(a b) exited(b) converged(a) tombstones removed(b:Exiting)"
    );
}

#[test]
fn an_exiting_node_that_is_downed_meanwhile_stops_as_downed() {
    let mut rig = exiting();
    rig.gossip("a", &state("a bD c", "a", "a a a b"));
    assert_eq!(rig.halted(), Some(HaltReason::Downed));
}

#[test]
fn a_leader_that_has_handed_over_while_leaving_goes_as_soon_as_it_moves_itself_on() {
    let mut rig = Rig::member("a", state("a b", "a b", "a"));
    leave_command(&mut rig, None);
    drained(&mut rig);
    rig.gossip("b", &seen((*rig.m.gossip).clone(), "a b"));
    rig.did();
    rig.leader_tick();
    assert_eq!(rig.members(), "aX b");
    assert_eq!(
        rig.halted(),
        Some(HaltReason::Left),
        "nothing is handed over twice"
    );
    assert_eq!(names(rig.m.gossip.gone()), "a");
}

#[test]
fn the_time_limits_of_leaving_follow_one_another_and_end_with_it() {
    let mut rig = Rig::member("b", state("a b c", "a b c", "a"));
    leave_command(&mut rig, None);
    assert_eq!(rig.deadlines(), [(ExitDrain, 10_000)]);
    rig.run(secs(3));
    drained(&mut rig);
    assert_eq!(rig.deadlines(), [(ExitLeaving, 13_000)]);
    rig.gossip("a", &state("a bX c", "a", "a a b"));
    assert_eq!(
        (rig.halted(), rig.deadlines()),
        (Some(HaltReason::Left), [].into())
    );
}

#[test]
fn a_time_limit_that_is_over_with_the_hand_over_tells_nothing() {
    let mut rig = Rig::member("b", state("a b c", "a b c", "a"));
    leave_command(&mut rig, None);
    drained(&mut rig);
    rig.did();
    rig.call(|m, cx| m.on_drain_timeout(cx));
    assert_eq!((rig.did().as_str(), rig.m.exit), ("", ExitStage::Drained));
}

#[test]
fn a_leaving_node_that_is_downed_does_not_go_as_one_that_left() {
    // Downed together with `c`, it stays until `c` knows: the limits of leaving are none of its business any
    // more.
    for drains_first in [true, false] {
        let mut rig = Rig::member("b", state("a b c", "a b c", "a"));
        leave_command(&mut rig, None);
        if drains_first {
            drained(&mut rig);
        }
        rig.gossip("a", &state("a bD cD", "a", "a a b"));
        drained(&mut rig);
        rig.run(secs(60));
        assert_eq!(rig.halted(), None, "{drains_first}");
        rig.gossip("c", &seen((*rig.m.gossip).clone(), "b c"));
        rig.leader_tick();
        assert_eq!(rig.halted(), Some(HaltReason::Downed), "{drains_first}");
    }
}

#[test]
fn a_goodbye_that_comes_again_changes_nothing() {
    let mut rig = Rig::member("a", state("a b cX", "a", "a"));
    rig.call(|m, cx| m.on_exiting_confirmed(cx, &n("c"), &n("a")));
    let revision = rig.f.view.revision();
    rig.call(|m, cx| m.on_exiting_confirmed(cx, &n("c"), &n("a")));
    assert_eq!((rig.f.view.revision(), rig.did().as_str()), (revision, ""));
}

#[test]
fn a_leader_that_hears_last_words_itself_acts_on_them_at_once() {
    let mut rig = Rig::member("a", state("a b dX", "a b", "a"));
    let mut last = state("a b dX", "b d", "a d");
    assert!(last.mark_gone(&n("d")));
    rig.gossip("d", &last);
    assert_eq!(rig.sent(), "", "one that is no more is not answered");
    rig.run(super::MOMENT);
    assert_eq!(rig.members(), "a b");
}

/// `b` of `a b c`, whose host has work of its own on the way out.
fn paced() -> Rig {
    let mut rig = Rig::member("b", state("a b c", "a b c", "a b"));
    rig.call(|m, cx| m.on_pace_command(cx, TOKEN));
    assert_eq!(rig.did(), "done");
    rig
}

fn hand_over(rig: &mut Rig, part: DrainPart) {
    rig.call(|m, cx| m.on_hand_over_command(cx, TOKEN, part));
}

#[test]
fn a_host_with_work_of_its_own_is_waited_for_between_the_parts() {
    let mut rig = paced();
    leave_command(&mut rig, None);
    rig.did();
    assert_eq!(rig.heard(), "", "nobody is asked");
    rig.gossip("a", &versioned(&state("a bX c", "a", ""), "a b b a"));
    assert_eq!(rig.members(), "a bX c");
    rig.run(secs(60));
    assert_eq!(
        (rig.heard().as_str(), rig.halted()),
        ("", None),
        "nor is it removed"
    );
    rig.did();
    hand_over(&mut rig, DrainPart::Sharding);
    assert_eq!((rig.did().as_str(), rig.heard().as_str()), ("done", "drain"));
    rig.call(|m, cx| m.on_drained(cx, DrainPart::Sharding));
    assert_eq!(
        (rig.did().as_str(), rig.heard().as_str()),
        ("handed-over(Sharding)", "")
    );
    hand_over(&mut rig, DrainPart::Singletons);
    assert_eq!(rig.heard(), "drain-paths");
    rig.call(|m, cx| m.on_drained(cx, DrainPart::Paths));
    assert_eq!(rig.heard(), "drain-kv");
    rig.call(|m, cx| m.on_drained(cx, DrainPart::Kv));
    assert_eq!(rig.heard(), "drain-singletons");
    rig.did();
    // The host waits no longer.
    hand_over(&mut rig, DrainPart::Ddata);
    assert_eq!(rig.did(), "done timed-out(Singletons)");
    assert_eq!(rig.heard(), "drain-ddata");
    rig.call(|m, cx| m.on_drained(cx, DrainPart::Ddata));
    assert_eq!(rig.halted(), Some(HaltReason::Left));
    assert!(rig.m.gossip.gone().is_empty(), "an instance may still run");
}

#[test]
fn a_paced_node_goes_with_the_last_part_although_the_leader_has_not_moved_it_on() {
    let mut rig = paced();
    leave_command(&mut rig, None);
    rig.did();
    for part in DrainPart::ALL {
        hand_over(&mut rig, part);
        assert_eq!(rig.halted(), None);
        rig.did();
        rig.call(|m, cx| m.on_drained(cx, part));
    }
    assert!(rig.did().contains("timed-out(Exiting)"));
    assert_eq!(rig.halted(), Some(HaltReason::Left));
}

#[test]
fn what_a_host_lets_begin_before_the_node_leaves_begins_with_it() {
    let mut rig = paced();
    hand_over(&mut rig, DrainPart::Sharding);
    assert_eq!((rig.did().as_str(), rig.heard().as_str()), ("done", ""));
    leave_command(&mut rig, None);
    assert_eq!(rig.heard(), "drain");
    let mut outside = Rig::idle("a");
    outside.call(|m, cx| m.on_pace_command(cx, TOKEN));
    hand_over(&mut outside, DrainPart::Ddata);
    assert_eq!(
        (outside.did().as_str(), outside.heard().as_str()),
        ("done done", "")
    );
    leave_command(&mut outside, None);
    assert_eq!(
        outside.halted(),
        Some(HaltReason::Left),
        "it has nothing to hand over"
    );
}
