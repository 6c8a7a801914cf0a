//! What is done with gossip that arrives. Spec: membership §2.5, §6 H, §8.9.

use super::{Rig, n, state, versioned};
use crate::effect::HaltReason;
use crate::membership::tests::reach;
use crate::signal::Signal;

#[test]
fn m_131_a_status_of_a_stranger_or_of_somebody_i_find_unreachable_is_not_answered() {
    let local = reach(state("a b c", "a", "a"), "a>c:U");
    let mut rig = Rig::member("a", local);
    let newer = state("a b c", "b", "a b");
    rig.status("d", &newer);
    rig.status("b#2", &newer);
    rig.status("c", &newer);
    assert_eq!(
        rig.did(),
        "rejected(d: the sender is not a member) rejected(b#2: the sender is not a member) \
         rejected(c: this node observes the sender as unreachable)"
    );
}

#[test]
fn m_132_a_status_with_my_version_and_my_digest_is_not_answered() {
    let local = state("a b c", "a b", "a b");
    let mut rig = Rig::member("a", local.clone());
    rig.status("b", &local);
    assert_eq!(rig.did(), "");
}

#[test]
fn f_20_a_status_with_my_version_and_another_digest_is_answered_with_the_state() {
    let mut rig = Rig::member("a", state("a b c", "a b", "a b"));
    rig.status("b", &state("a b c", "b", "a b"));
    assert_eq!(rig.did(), "gossip>b");
}

#[test]
fn m_134_a_status_of_a_state_that_i_never_held_is_answered_with_my_status() {
    for ticks in ["a b", "b", "c"] {
        let mut rig = Rig::member("a", state("a b c", "a b", "a"));
        rig.status("b", &state("a b c", "b", ticks));
        assert_eq!(rig.did(), "status>b", "{ticks}");
    }
}

#[test]
fn m_135_who_holds_what_i_held_before_or_answers_with_what_i_never_held_gets_the_state() {
    // A difference of a smaller state is not worth it.
    let before = state("a b c e f g h i k l", "a b", "a");
    let mut rig = Rig::member("a", before.clone());
    rig.status("b", &before);
    assert_eq!(rig.did(), "", "the state has a name now");
    rig.gossip("c", &state("a b c dJ e f g h i k l", "a c", "a c"));
    rig.did();
    rig.status("b", &before);
    assert_eq!(rig.sent(), "gossip>b");
    assert_eq!(rig.f.stats.membership.gossip_deltas_sent, 1);
    rig.answered_status("b", &state("a b c", "b", "b"));
    assert_eq!(rig.sent(), "gossip>b");
    assert_eq!(rig.f.stats.membership.gossip_deltas_sent, 1, "a whole one");
}

#[test]
fn m_137_and_b_40_gossip_for_another_incarnation_of_my_address_is_dropped() {
    let mut rig = Rig::member("a", state("a b", "a", "a"));
    let before = rig.m.gossip.clone();
    rig.gossip_to("b", n("a#2"), &state("a b c", "b", "a b"));
    assert!(rig.did().starts_with("rejected(b: the message is for a:7355#"));
    assert_eq!((&rig.m.gossip, rig.f.stats.node.rejected), (&before, 1));
}

#[test]
fn m_138_and_b_41_gossip_of_a_stranger_or_of_a_removed_incarnation_is_dropped() {
    let mut local = state("a b d", "a", "a");
    local.remove(&n("d"));
    let mut rig = Rig::member("a", local);
    let before = rig.m.gossip.clone();
    for from in ["c", "d", "b#2"] {
        rig.gossip(from, &state("a b c", "b", "a b"));
        let did = rig.did();
        assert!(did.contains("the sender is not a member)"), "{from}");
        // One that was a member hears that it is none any more; a stranger hears nothing.
        assert_eq!(did.ends_with("removed-you>d"), from == "d", "{did}");
    }
    assert_eq!((&rig.m.gossip, rig.f.stats.node.rejected), (&before, 3));
}

#[test]
fn m_139_gossip_of_a_node_that_only_others_find_unreachable_is_accepted() {
    let local = reach(state("a b c", "a", "a"), "c>b:U");
    let mut rig = Rig::member("a", local.clone());
    let newer = versioned(&reach(state("a b c dJ", "b", ""), "c>b:U"), "a b");
    rig.gossip("b", &newer);
    assert_eq!(rig.members(), "a b c dJ");
    let mut rig = Rig::member("a", reach(local, "a>b:U"));
    rig.gossip("b", &newer);
    assert_eq!(
        rig.did(),
        "rejected(b: this node observes the sender as unreachable)"
    );
    assert_eq!(rig.members(), "a b c");
}

#[test]
fn m_140_and_b_42_gossip_that_does_not_contain_me_is_dropped() {
    let mut rig = Rig::member("a", state("a b", "a", "a"));
    for remote in [state("b c", "b", "b b"), state("a#2 b", "b", "b b")] {
        rig.gossip("b", &remote);
        assert_eq!(rig.did(), "rejected(b: the state does not contain the receiver)");
        assert_eq!((rig.members().as_str(), rig.clock("b")), ("a b", 0));
    }
}

#[test]
fn gossip_before_this_node_is_a_member_is_dropped_silently() {
    let mut rig = Rig::idle("a");
    let remote = state("a b", "b", "b");
    rig.gossip("b", &remote);
    rig.status("b", &remote);
    rig.call(|m, cx| m.on_exiting_confirmed(cx, &n("b"), &n("a")));
    rig.call(|m, cx| m.on_leave(cx, &n("b"), &n("a")));
    rig.call(|m, cx| m.on_down(cx, &n("b"), &n("a")));
    assert_eq!((rig.did().as_str(), rig.members().as_str()), ("", ""));
}

#[test]
fn m_143_equal_clocks_unite_the_seen_sets_and_talk_back_only_if_mine_was_missing() {
    let mut rig = Rig::member("a", state("a b c", "a", "a b"));
    rig.gossip("b", &state("a b c", "b", "a b"));
    assert_eq!(rig.did(), "seen(a b) gossip>b");
    rig.gossip("b", &state("a b c", "a b c", "a b"));
    assert_eq!(rig.did(), "converged(a b c)");
    assert_eq!((rig.clock("a"), rig.f.stats.membership.gossip_merges), (1, 0));
}

#[test]
fn m_144_older_gossip_changes_nothing_and_is_answered_with_the_state() {
    let mut rig = Rig::member("a", state("a b c", "a c", "a b"));
    let before = rig.m.gossip.clone();
    rig.gossip("b", &state("a b", "a b", "b"));
    assert_eq!((rig.did().as_str(), &rig.m.gossip), ("gossip>b", &before));
    assert_eq!(
        (
            rig.f.stats.membership.gossips_received,
            rig.f.stats.membership.gossip_merges
        ),
        (1, 0)
    );
}

#[test]
fn m_145_newer_gossip_that_i_have_not_seen_is_adopted_and_answered() {
    let mut rig = Rig::member("a", state("a b c", "a", "a"));
    rig.gossip("b", &state("a b c dJ", "b", "a b"));
    assert_eq!(rig.did(), "joined(d) seen(a b) gossip>b");
    assert_eq!(
        (rig.members().as_str(), rig.clock("a"), rig.clock("b")),
        ("a b c dJ", 1, 1)
    );
}

#[test]
fn m_146_newer_gossip_that_says_i_saw_it_is_adopted_and_not_answered() {
    let mut rig = Rig::member("a", state("a b c", "a", "a"));
    rig.gossip("b", &state("a b c dJ", "a b", "a b"));
    assert_eq!(rig.did(), "joined(d) seen(a b)");
}

#[test]
fn m_147_concurrent_gossip_is_merged_and_answered_and_my_clock_entry_stays() {
    let mut rig = Rig::member("a", state("a b c", "a c", "a c"));
    rig.gossip("b", &state("a b cL dJ", "a b", "a b"));
    assert_eq!(rig.did(), "left(c) joined(d) seen(a) gossip>b");
    assert_eq!(rig.members(), "a b cL dJ");
    assert_eq!(rig.m.gossip.version(), &crate::membership::tests::clock("a b c"));
    assert_eq!(rig.f.stats.membership.gossip_merges, 1);
}

#[test]
fn f_09_two_nodes_that_merge_the_same_pair_hold_the_same_state_and_stop() {
    let (left, right) = (state("a b c", "a", "a c"), state("a b cL dJ", "b", "a b"));
    let (mut a, mut b) = (Rig::member("a", left.clone()), Rig::member("b", right.clone()));
    a.gossip("b", &right);
    b.gossip("a", &left);
    a.did();
    b.did();
    b.status("a", &a.m.gossip);
    assert_eq!(b.did(), "gossip>a", "only the seen sets differ");
    a.gossip("b", &b.m.gossip);
    assert_eq!(a.did(), "seen(a b) gossip>b");
    b.gossip("a", &a.m.gossip);
    assert_eq!(b.did(), "seen(a b)");
    assert_eq!(a.m.gossip, b.m.gossip);
}

#[test]
fn m_149_the_detector_hears_both_pictures_when_a_member_is_new() {
    let mut rig = Rig::member("a", state("a b", "a", "a"));
    rig.gossip("b", &state("a b c", "a b", "a b"));
    let heard = rig.f.heard();
    let [Signal::ViewChanged { before, after }] = &heard[..] else {
        panic!("{heard:?}")
    };
    assert!(!before.gossip().contains(&n("c")) && after.gossip().contains(&n("c")));
}

#[test]
fn m_150_and_b_38_gossip_that_newly_shows_me_down_ends_me_at_once() {
    let mut rig = Rig::member("a", state("a b c", "a", "a"));
    rig.gossip("b", &state("aD b c", "b", "a b"));
    assert_eq!(rig.clone().told(), "downed(a) leader(b) seen(a b)");
    assert_eq!(rig.sent_in_any_order(), "gossip>b gossip>c");
    assert_eq!(rig.halted(), Some(HaltReason::Downed));
}

#[test]
fn f_14_a_removed_member_does_not_come_back_with_a_lagging_state() {
    let mut local = state("a b c", "a", "a c");
    local.remove(&n("c"));
    let mut rig = Rig::member("a", versioned(&local, "a a"));
    rig.gossip("b", &state("a b c", "b c", "a b c"));
    assert_eq!((rig.members().as_str(), rig.clock("c")), ("a b", 0));
    assert!(rig.m.gossip.tombstones().contains(&n("c")));
}

#[test]
fn a_newer_state_that_misses_a_member_nobody_removed_does_not_remove_it() {
    for (mine, theirs) in [("a", "a a"), ("a a", "a")] {
        let mut rig = Rig::member("b", state("a b eJ", "b", mine));
        rig.gossip("a", &state("a b dJ", "a b", theirs));
        assert_eq!(rig.members(), "a b dJ eJ", "{mine} against {theirs}");
        assert_eq!(rig.sent(), "gossip>a", "the sender misses a member too");
    }
}

#[test]
fn m_143_the_same_state_again_is_answered_only_if_it_does_not_know_that_i_have_seen_it() {
    let local = state("a b c", "a b", "a");
    let mut rig = Rig::member("a", local.clone());
    rig.gossip("b", &local);
    assert_eq!(rig.did(), "");
    rig.gossip("b", &state("a b c", "b", "a"));
    assert_eq!(rig.did(), "gossip>b");
    // Who hands over is not to be counted as having seen it, so nobody has to hear that it has.
    let mut exiting = Rig::member("a", state("aL b c", "a b", "a"));
    exiting.gossip("b", &state("aX b c", "b", "a b"));
    exiting.did();
    exiting.gossip("b", &state("aX b c", "b", "a b"));
    assert_eq!(exiting.did(), "");
}

#[test]
fn a_change_whose_author_was_removed_is_taken_in_with_a_change_of_mine() {
    // Removed `c` had admitted `d`: with its clock entry goes what tells the merge from my own state.
    let mut local = state("a b c", "a", "a");
    local.remove(&n("c"));
    let mut rig = Rig::member("a", versioned(&local, "a a"));
    rig.gossip("b", &state("a b c dJ", "b", "a c c"));
    assert_eq!(rig.members(), "a b dJ");
    assert_eq!((rig.clock("a"), rig.clock("c"), rig.seen().as_str()), (3, 0, "a"));
    assert_eq!(rig.sent(), "gossip>b");
    // Nothing new in it: my clock stays.
    rig.gossip("b", &state("a b c", "b", "a c c"));
    assert_eq!((rig.members().as_str(), rig.clock("a")), ("a b dJ", 3));
}
