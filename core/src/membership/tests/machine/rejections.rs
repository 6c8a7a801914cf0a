//! What peers do wrong: dropped, counted, no change. Spec: reliability §3c B-36 to B-50; membership §6 I.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use super::{Rig, n, state};
use crate::ident::Roles;
use crate::membership::protocol::Msg;
use crate::membership::state::gossip::Gossip;
use crate::membership::tests::reach;
use crate::message::Join;

/// A join from `from` is refused with these words, which the joiner hears too, and changes nothing.
fn refused(mut rig: Rig, from: &str, why: &str) {
    let before = rig.m.gossip.clone();
    rig.join(from);
    let did = rig.did();
    let told = alloc::format!("rejected({from}: join refused: {why}) refused(");
    assert!(
        did.starts_with(&told) && did.ends_with(&alloc::format!(")>{from}")),
        "{did}"
    );
    assert_eq!((&rig.m.gossip, rig.f.stats.node.rejected), (&before, 1));
}

fn removed(codes: &str, gone: &str) -> Gossip {
    let mut gossip = state(codes, "a", "a");
    for name in gone.split_whitespace() {
        gossip.remove(&n(name));
    }
    gossip
}

/// `a b` with at most two members.
fn full(gossip: Gossip) -> Rig {
    Rig::configured("a", |config| config.limits.members_max = 2).with_state(gossip)
}

#[test]
fn f_37_a_receiver_that_is_down_or_exiting_refuses_joins() {
    for codes in ["aD b", "aX b"] {
        refused(
            Rig::member("a", state(codes, "a", "a")),
            "d",
            "the member that was asked is Down or Exiting",
        );
        refused(
            Rig::member("a", state(codes, "a", "a")),
            "b",
            "the member that was asked is Down or Exiting",
        );
    }
}

#[test]
fn b_43_a_joiner_with_my_own_address_is_refused() {
    let rig = Rig::member("a", state("a b", "a b", "a"));
    refused(
        rig,
        "a#2",
        "the joining node has the address of the member it asked",
    );
}

#[test]
fn b_44_an_incarnation_that_was_removed_is_refused_and_a_new_one_is_not() {
    let gossip = removed("a b d", "d");
    refused(
        Rig::member("a", gossip.clone()),
        "d",
        "this incarnation was removed before",
    );
    let mut rig = Rig::member("a", gossip);
    rig.join("d#2");
    assert_eq!(rig.members(), "a b d#2J");
}

#[test]
fn m_162_nobody_is_admitted_while_the_cluster_shuts_down() {
    for codes in ["aP b", "a bP", "a bR"] {
        refused(
            Rig::member("a", state(codes, "a", "a")),
            "d",
            "the cluster is shutting down",
        );
    }
}

#[test]
fn a_full_cluster_admits_nobody_but_resends_welcomes() {
    let rig = full(state("a b", "a", "a"));
    refused(rig.clone(), "d", "the cluster has reached its member limit");
    let mut rig = rig;
    rig.join("b");
    assert_eq!(rig.did(), "welcome>b");
}

#[test]
fn section_8_3_with_a_full_tombstone_table_nobody_is_admitted() {
    let gossip = removed("a b x y", "x y");
    let rig = Rig::configured("a", |config| config.limits.tombstones_max = 2).with_state(gossip.clone());
    refused(rig, "d", "too many members were removed recently");
    let mut rig = Rig::configured("a", |config| config.limits.tombstones_max = 3).with_state(gossip);
    rig.join("d");
    assert_eq!(rig.members(), "a b dJ");
}

#[test]
fn a_join_meant_for_another_incarnation_of_my_address_is_dropped() {
    let mut rig = Rig::member("a#2", state("a#2 b", "a#2", "a#2"));
    let join = Join {
        to: n("a"),
        roles: Roles::default(),
        app_version: Default::default(),
    };
    rig.call(|m, cx| m.on_join(cx, &n("d"), &join));
    assert!(rig.did().starts_with("rejected(d: the message is for a:7355#"));
    assert_eq!(
        (rig.members().as_str(), rig.f.stats.membership.joins_received),
        ("a#2 b", 0)
    );
}

#[test]
fn b_48_a_welcome_that_nobody_asked_for_is_dropped() {
    for mut rig in [Rig::idle("d"), Rig::member("d", state("b d", "d", "d"))] {
        let before = rig.m.gossip.clone();
        rig.welcome("a", "d", &state("a dJ", "a", "a"));
        assert_eq!(rig.did(), "rejected(a: unexpected Welcome)");
        assert_eq!((&rig.m.gossip, rig.f.stats.node.rejected), (&before, 1));
    }
    let mut rig = Rig::idle("d");
    rig.seeds("a");
    rig.did();
    rig.welcome("a", "d", &state("a dJ", "a", "a"));
    assert_eq!(
        rig.did(),
        "rejected(a: unexpected Welcome)",
        "asked whether, but not to join"
    );
}

/// `d` waits for `a`'s Welcome.
fn waiting() -> Rig {
    let mut rig = Rig::idle("d");
    rig.seeds("a");
    rig.ack("a");
    rig.did();
    rig
}

#[test]
fn b_49_and_f_07_a_welcome_for_another_incarnation_is_dropped() {
    let mut rig = waiting();
    rig.welcome("a", "d#2", &state("a dJ d#2J", "a", "a"));
    assert!(rig.did().starts_with("rejected(a: the message is for d:7355#"));
    assert_eq!((rig.members().as_str(), rig.f.stats.node.rejected), ("", 1));
}

#[test]
fn a_welcome_without_me_is_dropped_and_the_node_keeps_waiting() {
    let mut rig = waiting();
    for codes in ["a b", "a d#2"] {
        rig.welcome("a", "d", &state(codes, "a", "a"));
        assert_eq!(rig.did(), "rejected(a: the state does not contain the receiver)");
    }
    rig.welcome("a", "d", &state("a dJ", "a", "a"));
    assert_eq!(rig.members(), "a dJ");
}

#[test]
fn a_goodbye_for_another_incarnation_or_of_a_stranger_is_dropped() {
    let mut rig = Rig::member("a", state("a bX", "a", "a"));
    rig.call(|m, cx| m.on_exiting_confirmed(cx, &n("b"), &n("a#2")));
    assert!(rig.did().starts_with("rejected(b: the message is for a:7355#"));
    for from in ["b#2", "c"] {
        rig.call(|m, cx| m.on_exiting_confirmed(cx, &n(from), &n("a")));
        assert_eq!(
            rig.did(),
            alloc::format!("rejected({from}: the sender is not a member)")
        );
    }
    assert!(rig.m.exiting_confirmed.is_empty());
}

#[test]
fn only_members_may_ask_that_somebody_leaves_or_is_downed() {
    let mut rig = Rig::member("a", state("a b", "a b", "a"));
    rig.call(|m, cx| m.on_leave(cx, &n("c"), &n("b")));
    rig.call(|m, cx| m.on_down(cx, &n("b#2"), &n("b")));
    assert_eq!(
        rig.did(),
        "rejected(c: the sender is not a member) rejected(b#2: the sender is not a member)"
    );
    assert_eq!((rig.members().as_str(), rig.f.stats.node.rejected), ("a b", 2));
}

#[test]
fn a_joiner_is_refused_while_the_state_might_outgrow_its_frame() {
    let small = |bytes| {
        let mut members = alloc::string::String::from("a b");
        for first in 'e'..='j' {
            for second in 'a'..='j' {
                members.extend([' ', first, second]);
            }
        }
        Rig::configured("a", move |config| config.limits.gossip_frame_bytes_max = bytes)
            .with_state(state(&members, "a", "a"))
    };
    refused(
        small(8 << 10),
        "d",
        "the cluster's state would become too large to be sent",
    );
    let mut roomy = small(16 << 10);
    roomy.join("d");
    assert!(roomy.members().starts_with("a b dJ ea"));
}

/// What of gossip of `from` is answered that comes every second so many times.
fn told_while_gossiping(rig: &mut Rig, from: &str, kind: u16, secs: usize) -> Vec<usize> {
    let hears = |_: &usize| {
        rig.run(Duration::from_secs(1));
        rig.did();
        rig.call(|m, cx| m.turn_away(cx, &n(from), kind));
        rig.did().contains(&alloc::format!("removed-you>{from}"))
    };
    (1..=secs).filter(hears).collect()
}

#[test]
fn who_gossips_and_was_removed_hears_so_whatever_gossip_it_is() {
    for tag in [
        Msg::GOSSIP_STATUS,
        Msg::GOSSIP,
        Msg::GOSSIP_DELTA,
        Msg::GOSSIP_SEEN,
    ] {
        let mut rig = Rig::member("a", removed("a b d", "d"));
        assert_eq!(
            told_while_gossiping(&mut rig, "d", tag.kind, 2),
            [1, 2],
            "{tag:?}"
        );
    }
    let mut rig = Rig::member("a", removed("a b d", "d"));
    assert_eq!(told_while_gossiping(&mut rig, "d", Msg::LEAVE.kind, 2), [0; 0]);
}

#[test]
fn who_was_let_in_by_nobody_left_hears_that_it_is_no_member_and_not_before_others_could_have_said_so() {
    let mut rig = Rig::configured("a", |config| {
        config.downing.stable_after = Some(Duration::from_secs(7));
        config.downing.down_removal_margin = Some(Duration::from_secs(3));
    })
    .with_state(state("a b", "a b", "a"));
    let kind = Msg::GOSSIP_STATUS.kind;
    assert_eq!(told_while_gossiping(&mut rig, "x", kind, 12), [11, 12]);
    assert_eq!(told_while_gossiping(&mut rig, "y", Msg::LEAVE.kind, 20), [0; 0]);
    // Who is out of reach may have let it in, however long that takes; then all of it begins anew.
    assert_eq!(told_while_gossiping(&mut rig, "z", kind, 10), [0; 0]);
    let whole = (*rig.m.gossip).clone();
    rig.m.gossip = Arc::new(reach(whole.clone(), "b>a:U"));
    assert_eq!(told_while_gossiping(&mut rig, "z", kind, 60), [0; 0]);
    rig.m.gossip = Arc::new(whole);
    assert_eq!(told_while_gossiping(&mut rig, "z", kind, 12), [11, 12]);
}
