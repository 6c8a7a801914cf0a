//! A node that is finished: whatever still arrives or falls due, it changes nothing, says nothing and tells
//! nothing. Spec: membership §2.0, §2.9, §2.10.

use super::{MOMENT, Rig, TOKEN, n, secs, state};
use crate::drain::DrainPart;
use crate::effect::HaltReason;
use crate::membership::tests::{confirmed, seen};
use crate::signal::Verdicts;
use crate::timer::MembershipTimer;

/// What is done to it.
type Act = fn(&mut Rig);

/// `a` leads a converged cluster with work for a leader, and has just gone.
fn finished() -> Rig {
    let mut rig = Rig::member("a", state("a bJ cL dP", "a c d", "a"));
    rig.call(|m, cx| m.halt(cx, HaltReason::Left));
    rig.did();
    rig.heard();
    rig
}

#[test]
fn a_finished_node_changes_nothing_and_says_nothing() {
    let acts: [(&str, Act); 13] = [
        ("leader tick", |rig| rig.leader_tick()),
        ("gossip tick", |rig| rig.gossip_tick()),
        ("extra gossip", |rig| {
            rig.call(|m, cx| m.on_timer(cx, &MembershipTimer::GossipExtraFirst));
        }),
        ("convergence", |rig| {
            rig.call(|m, cx| m.on_timer(cx, &MembershipTimer::Converged));
        }),
        ("end of the hand-over", |rig| {
            rig.call(|m, cx| m.on_timer(cx, &MembershipTimer::ExitDrain));
        }),
        ("end of leaving", |rig| {
            rig.call(|m, cx| m.on_timer(cx, &MembershipTimer::ExitLeaving));
        }),
        ("drained", |rig| {
            rig.call(|m, cx| m.on_drained(cx, DrainPart::Sharding))
        }),
        ("goodbye", |rig| {
            rig.call(|m, cx| m.on_exiting_confirmed(cx, &n("c"), &n("a")));
        }),
        ("leave", |rig| rig.call(|m, cx| m.leave(cx, &n("b")))),
        ("down", |rig| rig.call(|m, cx| m.down(cx, &n("b")))),
        ("gossip", |rig| {
            let theirs = state("a b cL dP", "b", "a b");
            rig.gossip("b", &theirs);
            rig.status("b", &theirs);
        }),
        ("verdicts", |rig| {
            let verdicts = Verdicts {
                unreachable: confirmed("b"),
                ..Verdicts::default()
            };
            rig.call(|m, cx| m.on_verdicts(cx, &verdicts));
        }),
        ("a word of being removed", |rig| {
            rig.call(|m, cx| m.on_removed(cx, &n("b"), &n("a")));
        }),
    ];
    for (what, act) in acts {
        let mut rig = finished();
        let view = rig.f.view.clone();
        act(&mut rig);
        rig.run(MOMENT);
        assert_eq!((rig.did().as_str(), rig.heard().as_str()), ("", ""), "{what}");
        assert_eq!(
            (rig.members().as_str(), rig.clock("a")),
            ("a bJ cL dP", 1),
            "{what}"
        );
        assert!(alloc::sync::Arc::ptr_eq(&view, &rig.f.view), "{what}");
    }
}

#[test]
fn a_node_that_left_and_drains_late_says_goodbye_once() {
    let mut rig = Rig::member("b", state("a bL c", "a b c", "a b"));
    rig.gossip("a", &state("a bX c", "a", "a a b"));
    rig.run(secs(141));
    assert_eq!(rig.halted(), Some(HaltReason::Left));
    assert!(rig.sent().contains("confirmed>a"));
    rig.call(|m, cx| m.on_drained(cx, DrainPart::Sharding));
    assert_eq!((rig.did().as_str(), rig.halted()), ("", None));
}

#[test]
fn a_node_that_is_downed_while_it_leaves_tells_of_no_time_limit_after_that() {
    let mut rig = Rig::member("b", state("a b", "a b", "a"));
    rig.call(|m, cx| m.on_leave_command(cx, TOKEN, None));
    rig.call(|m, cx| m.down(cx, &n("b")));
    assert_eq!(rig.halted(), Some(HaltReason::Downed));
    rig.did();
    rig.run(secs(60));
    assert_eq!(rig.did(), "");
}

#[test]
fn a_leader_that_is_finished_before_its_turn_comes_does_not_act() {
    let mut rig = Rig::member("a", state("a b cJ", "a", "a"));
    let everybody = seen((*rig.m.gossip).clone(), "a b");
    rig.gossip("b", &everybody);
    rig.call(|m, cx| m.halt(cx, HaltReason::Removed));
    rig.did();
    rig.run(MOMENT);
    assert_eq!((rig.did().as_str(), rig.members().as_str()), ("", "a b cJ"));
}

#[test]
fn gossip_that_ends_this_node_is_not_answered_beyond_its_farewell() {
    // A claim of changes of mine, and a change by an incarnation that was removed since: both are taken in
    // with a change of mine, and both show me Down.
    let mut claimed = Rig::member("a", state("a b c", "a", "a a"));
    claimed.gossip("b", &state("aD b c", "b", "a a a b"));
    let mut local = state("a b c d", "a", "a");
    local.remove(&n("d"));
    let mut unnamed = Rig::member("a", super::versioned(&local, "a a"));
    unnamed.gossip("b", &state("aD b c d", "b", "a d d"));
    for mut rig in [claimed, unnamed] {
        assert_eq!(rig.halted(), Some(HaltReason::Downed));
        assert_eq!(rig.sent_in_any_order(), "gossip>b gossip>c");
    }
}
