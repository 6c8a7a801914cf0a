//! What is sent in a gossip round and when there are more of them. Spec: membership §2.6, §6 G.

use super::{Rig, n, secs, state};
use crate::membership::tests::{in_dc, m, of, reach, seen};
use crate::timer::MembershipTimer::{Gossip, GossipExtraFirst, GossipExtraSecond};
use alloc::string::String;
use core::time::Duration;

/// What `rounds` gossip ticks send, without repetitions.
fn rounds(mut rig: Rig, count: usize) -> String {
    let mut words = crate::ordered::OrderedSet::new();
    for _ in 0..count {
        rig.gossip_tick();
        words.insert(rig.did());
    }
    words.into_iter().collect::<alloc::vec::Vec<_>>().join(" ")
}

#[test]
fn m_114_and_m_129_who_has_seen_the_state_gets_a_status_and_who_has_not_the_state() {
    let rig = Rig::member("a", state("a b c", "a b", "a"));
    assert_eq!(rounds(rig, 100), "gossip>c status>b");
}

#[test]
fn m_129_another_data_center_always_gets_a_status() {
    let gossip = seen(of([m("a"), m("b"), in_dc("c", "far")]), "a");
    assert_eq!(rounds(Rig::member("a", gossip), 100), "gossip>b status>c");
}

#[test]
fn f_01_a_node_that_has_not_seen_the_state_is_preferred_eight_times_in_ten() {
    let mut rig = Rig::member("a", state("a b c", "a b", "a"));
    for _ in 0..2_000 {
        rig.gossip_tick();
    }
    // Preferred: c. Else either of the two: 0.8 + 0.2 / 2 = 0.9 of the rounds; four standard deviations are
    // 0.027.
    let share = rig.f.stats.membership.gossips_sent;
    assert!((1_746..=1_854).contains(&share), "{share} of 2000 rounds");
    assert_eq!(share + rig.f.stats.membership.gossip_statuses_sent, 2_000);
}

#[test]
fn m_117_nobody_gossips_with_whom_it_finds_unreachable_itself() {
    let gossip = reach(state("a b c d", "a", "a"), "a>b:U b>c:U a>d:T");
    assert_eq!(rounds(Rig::member("a", gossip), 100), "gossip>c");
}

#[test]
fn m_130_a_node_alone_never_gossips_but_keeps_its_rhythm() {
    let mut rig = Rig::member("a", state("a", "a", "a"));
    rig.gossip_tick();
    assert_eq!(
        (rig.did().as_str(), rig.deadlines()),
        ("", [(Gossip, 1_000)].into())
    );
    let alone = reach(state("a b", "a", "a"), "a>b:U");
    assert_eq!(rounds(Rig::member("a", alone), 10), "");
}

#[test]
fn m_151_in_an_idle_converged_cluster_only_statuses_flow() {
    let mut rig = Rig::member("a", state("a b c d", "a b c d", "a b"));
    rig.gossip_tick();
    rig.leader_tick();
    rig.run(secs(60));
    assert_eq!(
        (
            rig.f.stats.membership.gossips_sent,
            rig.f.stats.membership.gossip_statuses_sent
        ),
        (0, 61)
    );
    assert_eq!((rig.told().as_str(), rig.clock("a")), ("", 1));
}

#[test]
fn an_interval_has_two_more_rounds_while_less_than_half_have_seen_the_state() {
    let mut rig = Rig::member("a", state("a b c d", "a", "a"));
    rig.gossip_tick();
    assert_eq!(
        rig.deadlines(),
        [(GossipExtraFirst, 333), (GossipExtraSecond, 666), (Gossip, 1_000)]
    );
    rig.run(Duration::from_millis(999));
    assert_eq!(rig.f.stats.membership.gossips_sent, 3);
}

#[test]
fn an_extra_round_is_left_out_once_it_is_not_needed_any_more() {
    let mut rig = Rig::member("a", state("a b c d", "a", "a b"));
    rig.gossip_tick();
    rig.did();
    rig.gossip("b", &state("a b c d", "a b", "a b"));
    rig.did();
    rig.run(Duration::from_millis(999));
    assert_eq!(
        (rig.did().as_str(), rig.deadlines()),
        ("", [(Gossip, 1_000)].into())
    );
}

#[test]
fn f_38_a_member_on_its_way_out_speeds_gossip_up() {
    for (codes, extra) in [
        ("a b c", 0),
        ("a b cL", 2),
        ("a b cX", 2),
        ("a b cD", 2),
        ("a b cJ", 0),
    ] {
        let mut rig = Rig::member("a", state(codes, "a b c", "a"));
        rig.gossip_tick();
        assert_eq!(rig.deadlines().len(), 1 + extra, "{codes}");
    }
}

#[test]
fn a_round_sends_the_state_as_it_is() {
    let mut rig = Rig::member("a", state("a b", "a", "a"));
    rig.gossip_tick();
    let effects = rig.f.effects();
    let expected = crate::effect::Effect::Send {
        to: crate::input::SendTarget::Node(n("b")),
        message: crate::message::Message::Membership(crate::message::MembershipMsg::Gossip(
            crate::message::GossipEnvelope {
                to: n("b"),
                gossip: rig.m.gossip.clone().into(),
            },
        )),
    };
    assert_eq!(effects, [expected]);
}

#[test]
fn m_125_members_chosen_at_random_leave_out_oneself() {
    let mut rig = Rig::member("a", state("a b c", "a", "a"));
    rig.call(|m, cx| m.push_to_random(cx, 3));
    assert_eq!(rig.sent_in_any_order(), "gossip>b gossip>c");
}

#[test]
fn u_05_no_round_is_lost_on_a_member_to_whom_no_link_gets_through() {
    let mut rig = Rig::member("a", state("a b c", "a b", "a"));
    rig.call(|m, _| m.on_links_cut([n("c")].into_iter().collect()));
    assert_eq!(rounds(rig, 100), "status>b");
}
