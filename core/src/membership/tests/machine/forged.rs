//! What a member can make others believe that follows the protocol and lies, and what it cannot.
//! `SECURITY.md` lists the same. Spec: membership §8.9; reliability 3c, B-36 to B-43.

use super::{Rig, n, state, versioned};
use crate::membership::state::gossip::Gossip;
use crate::membership::tests::{aged, of, reach};

/// `a` is Up and holds this; `b` is a member that lies.
fn honest() -> Rig {
    Rig::member("a", state("a b c", "a", "a"))
}

/// A state that is newer than the honest one.
fn lie(codes: &str) -> Gossip {
    state(codes, "b", "a b")
}

#[test]
fn nobody_can_turn_back_a_members_life() {
    for codes in ["a b cJ", "aJ b c", "aW bJ cJ"] {
        let mut rig = honest();
        rig.gossip("b", &lie(codes));
        assert_eq!(rig.members(), "a b c", "{codes}");
        assert_eq!(
            (rig.clock("a"), rig.clock("b")),
            (2, 1),
            "mine is newer than the lie"
        );
        assert_eq!(rig.sent(), "gossip>b", "and the liar hears it");
        assert_eq!(rig.f.stats.membership.gossip_merges, 1);
    }
}

#[test]
fn nobody_can_make_a_member_younger() {
    let old = of([aged("a", 1), aged("b", 2), aged("c", 3)]);
    let young = of([aged("a", 9), aged("b", 2), aged("c", 3)]);
    let mut rig = Rig::member("a", versioned(&old, "a"));
    rig.gossip("b", &versioned(&young, "a b"));
    assert_eq!(
        rig.m.gossip.member(&n("a")).map(|member| member.up_number.get()),
        Some(1)
    );
}

#[test]
fn nobody_can_bring_a_removed_incarnation_back() {
    let mut local = state("a b c", "a", "a");
    local.remove(&n("c"));
    let mut rig = Rig::member("a", versioned(&local, "a"));
    rig.gossip("b", &lie("a b c"));
    assert_eq!(rig.members(), "a b");
    assert!(rig.m.gossip.tombstones().contains(&n("c")), "its tombstone stays");
    assert_eq!(rig.clock("a"), 2, "and the others hear of it again");
}

#[test]
fn nobody_can_remove_me_behind_my_back() {
    let mut rig = honest();
    let mut without_me = lie("a b c");
    without_me.remove(&n("a"));
    rig.gossip("b", &without_me);
    assert_eq!(rig.did(), "rejected(b: the state does not contain the receiver)");
    assert_eq!(rig.members(), "a b c");
}

#[test]
fn nobody_can_observe_for_me() {
    // Silent, over, and reachable although it is silent.
    for (mine, lies, suspected) in [
        ("", "a>c:U", false),
        ("", "a>c:T", false),
        ("a>c:U", "a>c:U a>c:R", true),
    ] {
        let mut rig = Rig::member("a", reach(state("a b c", "a", "a"), mine));
        rig.gossip("b", &reach(lie("a b c"), lies));
        assert_eq!(rig.f.view.suspects(&n("c")), suspected, "{lies}");
        assert_eq!(
            (rig.clock("a"), rig.clock("b")),
            (2, 1),
            "mine is newer than the lie"
        );
        assert_eq!(rig.f.stats.membership.rejected_forged_rows, 1);
        // Whoever believed it hears better.
        let mut other = Rig::member("c", reach(lie("a b c"), lies));
        let mine = Gossip::clone(&rig.m.gossip);
        other.gossip("a", &mine);
        let heard = other.m.gossip.reachability();
        assert!(heard.agrees(&n("a"), mine.reachability(), |_| true), "{lies}");
    }
}

#[test]
fn what_a_member_can_do_is_believed() {
    // Down somebody, remove somebody, invent a member, speak for an observer: authenticated members are
    // trusted with these.
    let mut rig = honest();
    rig.gossip("b", &lie("a b cD"));
    assert_eq!(rig.members(), "a b cD");
    let mut rig = honest();
    let mut removed = lie("a b c");
    removed.remove(&n("c"));
    rig.gossip("b", &removed);
    assert_eq!(rig.members(), "a b");
    let mut rig = honest();
    rig.gossip("b", &lie("a b c dJ"));
    assert_eq!(rig.members(), "a b c dJ");
    let mut rig = honest();
    rig.gossip("b", &reach(lie("a b c"), "c>b:U"));
    assert!(!rig.f.view.is_reachable(&n("b")));
    assert!(
        !rig.f.view.suspects(&n("b")),
        "what I myself find, nobody decides for me"
    );
}
