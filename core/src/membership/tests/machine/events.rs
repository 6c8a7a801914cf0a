//! What users are told of a step, and the picture it comes with. Spec: membership §2.17, §6 N.

use super::{Rig, n, secs, state, versioned};
use crate::effect::Effect;
use crate::event::{Event, MembershipEvent};
use crate::membership::tests::{aged, of, reach, seen};
use crate::view::MembershipPhase;
use alloc::sync::Arc;
use alloc::vec::Vec;

fn views(effects: &[Effect]) -> Vec<&Arc<crate::view::View>> {
    let mut views = Vec::new();
    for effect in effects {
        if let Effect::Notify(Event::Membership(MembershipEvent::Changed { view, .. })) = effect {
            views.push(view);
        }
    }
    views
}

#[test]
fn every_event_of_a_step_comes_with_the_picture_after_it() {
    let mut rig = Rig::member("a", state("a b c", "a b c", "a"));
    let revision = rig.f.view.revision();
    rig.call(|m, cx| m.leave(cx, &n("b")));
    let effects = rig.f.effects();
    let views = views(&effects);
    assert_eq!(views.len(), 2);
    assert!(views.iter().all(|view| Arc::ptr_eq(view, &rig.f.view)));
    assert!(Arc::ptr_eq(rig.f.view.gossip(), &rig.m.gossip));
    assert_eq!(rig.f.view.revision(), revision + 1);
}

#[test]
fn other_machines_hear_once_per_step_with_the_picture_before_it() {
    let mut rig = Rig::member("a", state("a b c", "a b c", "a"));
    let before = Arc::clone(&rig.f.view);
    rig.call(|m, cx| {
        m.leave(cx, &n("b"));
        m.down(cx, &n("c"));
    });
    let heard = rig.f.heard();
    let [crate::signal::Signal::ViewChanged { before: first, after }] = &heard[..] else {
        panic!("{heard:?}")
    };
    assert!(Arc::ptr_eq(first, &before) && Arc::ptr_eq(after, &rig.f.view));
}

#[test]
fn the_picture_names_phase_leader_convergence_and_who_is_unreachable() {
    let gossip = reach(state("a b c d", "a b c d", "a"), "b>a:U b>c:U a>d:T");
    let mut rig = Rig::member("b", gossip);
    let view = &rig.f.view;
    assert_eq!(view.phase(), MembershipPhase::Member);
    assert_eq!(view.leader, Some(n("b")), "a is not available to b");
    assert_eq!(view.unreachable, [n("a"), n("c"), n("d")]);
    assert!(!view.converged);
    rig = Rig::member("a", (*rig.m.gossip).clone());
    assert_eq!(rig.f.view.unreachable, [n("c"), n("d")], "never oneself");
    assert_eq!(rig.f.view.leader, Some(n("a")));
}

#[test]
fn self_up_is_said_once_even_if_the_up_number_is_settled_later() {
    let joining = versioned(&seen(of([aged("b", 1), super::super::m("aJ")]), "a b"), "b");
    let mut rig = Rig::member("a", joining);
    let up = |number: u32, ticks: &str| versioned(&seen(of([aged("a", number), aged("b", 1)]), "b"), ticks);
    rig.gossip("b", &up(3, "b b"));
    assert_eq!(rig.told(), "up(a:3) self-up leader(a)");
    rig.gossip("b", &up(2, "b b b"));
    assert_eq!(rig.told(), "up(a:2)");
}

#[test]
fn self_up_is_said_when_the_welcome_already_shows_it() {
    let mut rig = Rig::idle("d");
    rig.seeds("a");
    rig.ack("a");
    rig.did();
    rig.welcome("a", "d", &state("a d", "a", "a"));
    assert_eq!(rig.told(), "up(a:1) up(d:1) self-up leader(a) converged(a d)");
}

#[test]
fn only_the_removal_of_a_downed_member_quarantines_it() {
    let codes = "a bD cX dL e";
    let mut gone = state(codes, "a", "");
    for name in ["b", "c", "d"] {
        gone.remove(&n(name));
    }
    let mut rig = Rig::member("a", state(codes, "a e", "a"));
    rig.gossip("e", &versioned(&seen(gone, "a e"), "a e"));
    assert_eq!(
        rig.did(),
        "tombstones quarantine(b) removed(b:Down) removed(c:Exiting) removed(d:Leaving) converged(a e)"
    );
    assert_eq!(rig.f.stats.membership.members_removed, 3);
}

#[test]
fn m_378_gossip_that_changes_nothing_tells_nothing_and_keeps_the_picture() {
    let mut rig = Rig::member("a", state("a b c", "a b", "a"));
    let view = Arc::clone(&rig.f.view);
    rig.gossip("b", &state("a b c", "a b", "a"));
    rig.gossip("b", &state("a b c", "a", "a"));
    rig.run(secs(1));
    assert_eq!(rig.told(), "");
    assert!(Arc::ptr_eq(&view, &rig.f.view));
    assert!(rig.f.heard().is_empty());
}

#[test]
fn m_098_seen_alone_changing_is_told() {
    let mut rig = Rig::member("a", state("a b cJ", "a b c", "a"));
    rig.gossip("b", &state("a b cJ", "a b", "a b"));
    assert_eq!(rig.told(), "converged(a b)");
}
