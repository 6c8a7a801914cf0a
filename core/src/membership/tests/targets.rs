//! Spec: membership 2.6 and §6 G, as far as one data center is concerned.

use super::{g, n, names, reach, seen};
use crate::membership::state::gossip::Gossip;
use crate::membership::targets::{
    choose_target, different_view_probability, gossip_targets, is_valid_target, speed_up_needed,
};
use crate::ordered::OrderedSet;
use alloc::string::String;
use alloc::vec::Vec;

/// Whom every possible draw chooses.
fn targets(gossip: &Gossip, prefer_unseen: bool) -> String {
    let (me, nobody) = (n("a"), OrderedSet::new());
    let choose = |draw: &mut dyn FnMut(usize) -> usize| {
        choose_target(gossip, &me, prefer_unseen, &nobody, draw).cloned()
    };
    let mut among = 0;
    choose(&mut |of| {
        among = of;
        0
    });
    let chosen: Vec<_> = (0..among).filter_map(|at| choose(&mut |_| at)).collect();
    if !prefer_unseen {
        let all: Vec<_> = gossip_targets(gossip, &me, false).cloned().collect();
        assert_eq!(chosen, all);
    }
    names(&chosen)
}

#[test]
fn the_preference_fades_between_the_limit_and_three_times_the_limit() {
    for (members, expected) in [
        (1, 0.8),
        (400, 0.8),
        (401, 0.7991),
        (600, 0.62),
        (800, 0.44),
        (1000, 0.26),
        (1199, 0.0809),
        (1200, 0.08),
        (5000, 0.08),
    ] {
        let found = different_view_probability(0.8, 400, members);
        assert!((found - expected).abs() < 1e-9, "{members}: {found}");
    }
    assert!((different_view_probability(0.8, 0, 0) - 0.08).abs() < 1e-9);
    assert!((different_view_probability(0.8, usize::MAX, 10) - 0.8).abs() < 1e-9);
}

#[test]
fn m_114_to_m_116_those_who_have_not_seen_the_state_may_be_preferred() {
    let gossip = seen(g("a b c"), "b");
    assert_eq!(
        (targets(&gossip, true), targets(&gossip, false)),
        ("c".into(), "b c".into())
    );
    assert_eq!(targets(&seen(g("a b c"), "a b c"), true), "b c");
    assert_eq!(targets(&seen(g("a b c"), "b c"), true), "b c", "all but me");
    assert_eq!(targets(&g("b c"), false), "b c", "I am no member yet");
}

#[test]
fn m_117_and_m_118_only_my_own_view_excludes_a_target() {
    assert_eq!(targets(&reach(g("a b c"), "a>b:U"), false), "c");
    assert_eq!(targets(&reach(g("a b c"), "a>b:U b>c:U"), true), "c");
    assert!(!is_valid_target(&g("a b"), &n("a"), &n("a")));
}

#[test]
fn m_130_a_node_alone_has_no_target() {
    assert_eq!(targets(&g("a"), true), "");
}

#[test]
fn gossip_speeds_up_for_a_departure_or_when_fewer_than_half_have_seen() {
    let needed = |codes: &str, by: &str| speed_up_needed(&seen(g(codes), by), &n("a"));
    assert!(needed("a b cD", "a b c") && needed("a b cL", "a b c") && needed("a b cX", "a b c"));
    assert!(!needed("a b c", "a") && needed("a b c d", "a") && !needed("a b c d", "a b"));
    assert!(needed("a b c", "") && !needed("a", ""));
}
