//! Spec: membership §6 E.

use super::{confirmed, g, in_dc, n, names, of, reach, seen};
use crate::ident::UniqueAddress;
use crate::membership::state::convergence::{
    Blocker, blockers, converged, dc_reachability, dc_reachability_excluding_downed_observers,
    dc_reachability_no_outside_nodes,
};
use crate::membership::state::gossip::Gossip;
use alloc::string::String;
use alloc::vec::Vec;

/// Whether the state is converged as `me` sees it; the list of blockers must say the same.
fn is(gossip: &Gossip, me: &str, exiting_confirmed: &str) -> bool {
    let (me, exiting) = (n(me), confirmed(exiting_confirmed));
    let answer = converged(gossip, &me, &exiting);
    assert_eq!(answer, blockers(gossip, &me, &exiting).is_empty());
    answer
}

/// Two data centers of two nodes each.
fn two_dcs() -> Gossip {
    of([
        in_dc("a", "dc1"),
        in_dc("b", "dc1"),
        in_dc("c", "dc2"),
        in_dc("d", "dc2"),
    ])
}

#[test]
fn m_079_to_m_081_everybody_who_is_up_must_have_seen() {
    assert!(is(&Gossip::new(), "a", ""));
    assert!(is(&seen(g("a"), "a"), "a", ""));
    assert!(!is(&seen(g("a b"), "a"), "a", ""));
    assert!(is(&seen(g("a b"), "a b"), "a", ""));
}

#[test]
fn m_082_to_m_085_joining_weakly_up_down_and_exiting_need_not_have_seen() {
    for codes in ["a b eJ", "a b eW", "a b eD", "a b cX"] {
        assert!(is(&seen(g(codes), "a b"), "a", ""), "{codes}");
    }
}

#[test]
fn m_086_leaving_must_have_seen_unless_it_said_goodbye() {
    let leaving = seen(g("a b cL"), "a b");
    assert!(!is(&leaving, "a", "") && is(&leaving, "a", "c"));
    assert!(is(&reach(leaving, "b>c:U"), "a", "c"));
}

#[test]
fn m_087_preparing_and_ready_must_have_seen() {
    assert!(!is(&seen(g("a b pP"), "a b"), "a", ""));
    assert!(!is(&seen(g("a b pR"), "a b"), "a", ""));
}

#[test]
fn m_088_unreachability_of_another_blocks_and_my_own_does_not() {
    let gossip = seen(reach(g("a b"), "b>a:U"), "a b");
    assert!(!is(&gossip, "b", "") && is(&gossip, "a", ""));
}

#[test]
fn m_089_to_m_091_what_the_downed_say_and_what_is_said_about_the_lost_does_not_block() {
    let by_downed = seen(reach(g("a b eD"), "e>a:U"), "a b e");
    assert!(is(&by_downed, "b", ""));
    for codes in ["a b cD", "a b cX"] {
        assert!(is(&seen(reach(g(codes), "b>c:U"), "a b c"), "a", ""), "{codes}");
    }
    for codes in ["a b cJ", "a b cW"] {
        assert!(!is(&seen(reach(g(codes), "b>c:U"), "a b c"), "a", ""), "{codes}");
    }
    assert!(
        !is(&seen(reach(g("a b c"), "b>c:T"), "a b c"), "a", ""),
        "terminated counts as unreachable"
    );
}

#[test]
fn m_093_every_data_center_converges_for_itself() {
    let gossip = seen(two_dcs(), "a b c");
    assert!(is(&gossip, "a", "") && !is(&gossip, "c", ""));
}

#[test]
fn m_094_the_first_member_of_a_data_center_waits_for_everybody() {
    let gossip = of(
        [in_dc("a", "dc1"), in_dc("b", "dc1"), in_dc("e", "dc2")].map(|member| match member.node {
            ref node if *node == n("e") => in_dc("eJ", "dc2"),
            _ => member,
        }),
    );
    let some = seen(gossip.clone(), "a e");
    assert!(!is(&some, "a", "") && !is(&some, "e", ""));
    assert!(is(&seen(gossip, "a b e"), "e", ""));
    // One that is only weakly up is no full member yet: another one of its kind has to know, too.
    let weak = of([in_dc("a", "dc1"), in_dc("eW", "dc2"), in_dc("fW", "dc2")]);
    assert!(!is(&seen(weak.clone(), "a e"), "e", "") && !is(&seen(weak.clone(), "e f"), "e", ""));
    assert!(is(&seen(weak, "a e f"), "e", ""));
}

#[test]
fn m_096_and_m_097_only_observations_inside_the_data_center_block() {
    let inside = seen(reach(two_dcs(), "c>d:U"), "a b c d");
    assert!(is(&inside, "a", "") && !is(&inside, "c", ""));
    let across = seen(reach(two_dcs(), "a>d:U d>a:U"), "a b c d");
    assert!(is(&across, "a", "") && is(&across, "d", "") && is(&across, "b", "") && is(&across, "c", ""));
}

#[test]
fn blockers_name_every_node_once_per_reason() {
    let gossip = seen(reach(g("a b c d"), "a>c:U b>c:U a>d:T"), "a c");
    let found: Vec<(UniqueAddress, Blocker)> = blockers(&gossip, &n("a"), &confirmed(""));
    let of = |reason: Blocker| -> String {
        names(
            found
                .iter()
                .filter(|(_, blocker)| *blocker == reason)
                .map(|(node, _)| node),
        )
    };
    assert_eq!(
        (of(Blocker::NotSeen), of(Blocker::Unreachable)),
        ("b d".into(), "c d".into())
    );
    assert_eq!(found.len(), 4);
}

#[test]
fn the_views_of_a_data_center_leave_out_what_they_say() {
    let mut gossip = reach(two_dcs(), "a>b:U a>c:U b>a:U c>a:U");
    gossip.mark_down(&n("b"));
    let unreachable =
        |table: &crate::membership::state::reachability::Reachability| names(&table.all_unreachable());
    assert_eq!(unreachable(&dc_reachability(&gossip, "dc1")), "a b c");
    assert_eq!(
        unreachable(&dc_reachability_excluding_downed_observers(&gossip, "dc1")),
        "b"
    );
    assert_eq!(
        unreachable(&dc_reachability_no_outside_nodes(&gossip, "dc1")),
        "a b"
    );
    assert_eq!(dc_reachability(&gossip, "dc3").versions().len(), 0);
}
