//! What others say of how often a member has changed the state: how far it is believed, and that its own word
//! takes it back. Spec: membership §8.9; reliability 3c, B-36, B-37.

use alloc::sync::Arc;
use std::vec::Vec;

use super::{Rig, n, secs, state, versioned};
use crate::config::Limits;
use crate::membership::doubts::CLOCK_JUMP_MAX;
use crate::membership::state::gossip::Gossip;
use crate::membership::state::packed::COUNTER_MAX;
use crate::membership::state::vector_clock::VectorClock;
use crate::membership::tests::{m, reach};
use crate::message::{GossipBody, GossipEnvelope, Lane, MembershipMsg, Message};
use crate::paths::state::tests::table_at;
use crate::wire::{HEADER_BYTES, decode_message, encode_message};

/// The state with this clock.
fn with_clock(state: &Gossip, entries: &[(&str, u64)]) -> Gossip {
    let entries = entries.iter().map(|(name, counter)| (n(name), *counter));
    let mut state = state.clone();
    state.set_version(VectorClock::from_entries(entries.collect()).unwrap());
    state
}

/// `a`'s clock says 3; a state in which it says `claimed` and that lacks what `a` knows about `c`.
fn claim(claimed: u64) -> Gossip {
    with_clock(&state("a b c", "b", ""), &[("a", claimed), ("b", 1)])
}

fn lied_to() -> Rig {
    Rig::member("a", versioned(&reach(state("a b c", "a", ""), "a>c:U"), "a a a"))
}

/// `a` with a clock of its own making, and `b`'s and `c`'s entries.
fn third() -> Rig {
    Rig::member(
        "a",
        with_clock(&state("a b c", "a b c", ""), &[("a", 2), ("b", 4), ("c", 7)]),
    )
}

#[test]
fn section_8_9_and_b_37_i_go_above_a_claim_of_changes_that_i_did_not_make_and_it_is_counted() {
    let mut rig = lied_to();
    rig.gossip("b", &claim(9));
    assert_eq!(
        rig.did(),
        "rejected(b: the state has 9 changes of this node, which made 3) gossip>b"
    );
    assert!(rig.f.view.suspects(&n("c")), "my own observation survives");
    assert_eq!(
        (rig.clock("a"), rig.clock("b"), rig.seen().as_str()),
        (10, 1, "a")
    );
    assert_eq!(rig.f.stats.membership.rejected_forged_clock, 1);
    // It comes again: an older state.
    rig.gossip("b", &claim(9));
    assert_eq!((rig.did().as_str(), rig.clock("a")), ("gossip>b", 10));
}

#[test]
fn a_name_claims_nothing() {
    let mut rig = lied_to();
    rig.status("b", &claim(12));
    assert_eq!(rig.did(), "status>b");
    rig.call(|m, cx| m.leave(cx, &n("b")));
    assert_eq!(rig.clock("a"), 4);
}

#[test]
fn b_36_claims_raise_my_counter_so_far_in_a_second_and_never_near_its_end() {
    let mut rig = lied_to();
    for claimed in [3 + CLOCK_JUMP_MAX + 1, 1 << 40, COUNTER_MAX] {
        rig.gossip("b", &claim(claimed));
        assert_eq!(rig.clock("a"), 3, "{claimed}");
    }
    // In steps it gets as far as in one.
    for _ in 0..100 {
        let claimed = rig.clock("a") + CLOCK_JUMP_MAX / 8;
        rig.gossip("b", &claim(claimed));
    }
    let first = rig.clock("a");
    assert!(
        first <= 3 + CLOCK_JUMP_MAX + 8,
        "with my own changes between the steps: {first}"
    );
    rig.f.stand_still(secs(1));
    rig.gossip("b", &claim(first + CLOCK_JUMP_MAX));
    assert_eq!(rig.clock("a"), first + CLOCK_JUMP_MAX + 1);
}

#[test]
fn b_37_who_claims_too_much_of_mine_hears_in_the_next_round_how_many_there_are() {
    let mut rig = lied_to();
    rig.gossip("b", &with_clock(&rig.m.gossip.clone(), &[("a", 1 << 40)]));
    rig.did();
    rig.gossip_tick();
    assert!(rig.sent().contains("gossip>b"));
}

#[test]
fn b_37_a_welcome_that_claims_changes_of_mine_lets_me_in_and_my_first_change_outdates_it() {
    for (claimed, next) in [(1, 2), (CLOCK_JUMP_MAX, CLOCK_JUMP_MAX + 1), (1 << 40, 1)] {
        let mut rig = Rig::idle("d");
        rig.seeds("a");
        rig.ack("a");
        rig.did();
        rig.welcome(
            "a",
            "d",
            &with_clock(&state("a dJ", "a", ""), &[("a", 1), ("d", claimed)]),
        );
        assert_eq!(
            (rig.members().as_str(), rig.clock("d")),
            ("a dJ", next),
            "{claimed}"
        );
        assert_eq!(rig.f.stats.membership.rejected_forged_clock, 1);
    }
}

#[test]
fn b_37_an_entry_of_another_member_far_ahead_is_not_taken_over_and_what_else_is_said_is() {
    let mut rig = third();
    let lie = with_clock(&state("a b c dJ", "b", ""), &[("a", 2), ("b", 5), ("c", 1 << 40)]);
    rig.gossip("b", &lie);
    assert_eq!((rig.members().as_str(), rig.clock("c")), ("a b c dJ", 7));
    assert_eq!((rig.clock("a"), rig.clock("b")), (3, 5), "by a change of mine");
    assert_eq!(rig.f.stats.membership.rejected_clock_ahead, 1);
    let told = rig.did();
    assert!(
        told.starts_with("rejected(b: the state has 1099511627776 changes of c"),
        "{told}"
    );
    // The same again is no news, and nobody who errs is answered for ever.
    rig.gossip("b", &with_clock(&lie, &[("a", 3), ("b", 5), ("c", 1 << 40)]));
    assert_eq!((rig.sent().as_str(), rig.clock("a")), ("", 3));
    // Who can settle it is asked in the next round.
    rig.gossip_tick();
    assert!(rig.sent().split(' ').any(|sent| sent == "gossip>c"));
}

#[test]
fn b_37_what_a_member_says_of_itself_stands_however_far_it_is() {
    let mut rig = third();
    rig.gossip(
        "c",
        &with_clock(&state("a b c", "c", ""), &[("a", 2), ("b", 4), ("c", 1 << 40)]),
    );
    assert_eq!(
        (rig.clock("c"), rig.f.stats.membership.rejected_clock_ahead),
        (1 << 40, 0)
    );
}

#[test]
fn b_37_a_members_word_takes_back_what_others_said_of_it() {
    let forged = with_clock(
        &state("a b c", "a b", ""),
        &[("a", 2), ("b", 4), ("c", COUNTER_MAX)],
    );
    let honest = with_clock(&state("a b c dJ", "c", ""), &[("a", 2), ("b", 4), ("c", 8)]);
    let mut rig = Rig::member("a", forged.clone());
    rig.gossip("c", &honest);
    assert_eq!(
        (rig.members().as_str(), rig.clock("c"), rig.clock("a")),
        ("a b c dJ", 8, 3)
    );
    assert_eq!(rig.sent(), "gossip>c");
    // One that counts nothing at all says so too.
    let mut rig = Rig::member("a", forged);
    rig.gossip("c", &with_clock(&honest, &[("a", 2), ("b", 4)]));
    assert_eq!((rig.clock("c"), rig.clock("a")), (0, 3));
}

#[test]
fn b_37_a_member_whose_own_entries_are_forged_sees_it_by_others_and_asks() {
    let forged = with_clock(
        &state("a b c", "a b", ""),
        &[("a", 2), ("b", 4), ("c", COUNTER_MAX)],
    );
    let mut rig = Rig::member("a", forged);
    rig.gossip(
        "b",
        &with_clock(&state("a b c", "b", ""), &[("a", 2), ("b", 4), ("c", 7)]),
    );
    assert_eq!(rig.clock("c"), COUNTER_MAX, "b cannot know how many there are");
    rig.did();
    rig.gossip_tick();
    assert!(rig.sent().split(' ').any(|sent| sent == "gossip>c"));
    rig.gossip_tick();
    assert_eq!(rig.sent().split(' ').count(), 1, "once for each doubt");
}

#[test]
fn b_37_of_one_that_is_on_its_way_out_the_largest_entry_counts_so_that_it_can_be_removed() {
    for code in ["cD", "cX"] {
        let codes = alloc::format!("a b {code}");
        let mut rig = Rig::member("a", with_clock(&state(&codes, "a", ""), &[("a", 2), ("c", 7)]));
        rig.gossip(
            "b",
            &with_clock(&state(&codes, "b", ""), &[("a", 2), ("c", 1 << 40)]),
        );
        assert_eq!(rig.clock("c"), 1 << 40, "{code}");
    }
}

#[test]
fn b_37_a_node_speaks_with_a_bounded_number_of_those_that_it_doubts() {
    let names: alloc::vec::Vec<_> = (0..100).map(|at| alloc::format!("x{at}")).collect();
    let codes = alloc::format!("a b {}", names.join(" "));
    let lie: alloc::vec::Vec<_> = names.iter().map(|name| (name.as_str(), 1 << 40)).collect();
    let mut rig = Rig::member("a", state(&codes, "a b", "a"));
    rig.gossip("b", &with_clock(&state(&codes, "b", ""), &lie));
    assert_eq!(rig.f.stats.membership.rejected_clock_ahead, 100);
    rig.did();
    rig.gossip_tick();
    assert!((16..=17).contains(&rig.sent().split(' ').count()));
}

/// `b`'s state, newer than what `third` holds, with a table of paths at this counter.
fn with_paths(b_changes: u64, counter: u64) -> Gossip {
    let mut state = with_clock(&state("a b c", "b", ""), &[("a", 2), ("b", b_changes), ("c", 7)]);
    state.set_paths(table_at(counter));
    state
}

/// The state in the form in which it comes over the wire.
fn as_it_arrives(gossip: GossipBody) -> GossipBody {
    let (limits, to) = (Limits::default(), n("a"));
    let sent = Message::Membership(MembershipMsg::Gossip(GossipEnvelope { to, gossip }));
    let mut frame = Vec::new();
    encode_message(&sent, 0, &limits, &mut frame).unwrap();
    let body = &frame[HEADER_BYTES..];
    match decode_message(MembershipMsg::GOSSIP.kind, Lane::Gossip, body, &limits) {
        Ok(Message::Membership(MembershipMsg::Gossip(envelope))) => envelope.gossip,
        other => panic!("{other:?}"),
    }
}

/// [`third`], which holds a table of paths already.
fn third_with_paths() -> Rig {
    let mut rig = third();
    Arc::make_mut(&mut rig.m.gossip).set_paths(table_at(1));
    rig
}

#[test]
fn b_37_the_first_table_of_paths_counts_from_the_wall_clock_on() {
    let mut rig = third();
    let clock = rig.f.now.unix_ms;
    rig.gossip("b", &with_paths(5, clock + 30_000));
    assert_eq!(paths_at(&rig), clock + 30_000, "clocks half a minute apart");
    let mut rig = third();
    rig.gossip("b", &with_paths(5, clock + 10 * CLOCK_JUMP_MAX));
    assert_eq!(
        (paths_at(&rig), rig.f.stats.membership.rejected_paths_ahead),
        (0, 1)
    );
}

fn paths_at(rig: &Rig) -> u64 {
    rig.m.gossip.paths().counter()
}

#[test]
fn b_37_a_table_of_paths_far_ahead_is_not_taken_over_and_what_else_is_said_is() {
    let mut rig = third_with_paths();
    rig.f.stand_still(secs(1));
    rig.gossip("b", &with_paths(5, CLOCK_JUMP_MAX));
    assert_eq!((paths_at(&rig), rig.clock("b")), (CLOCK_JUMP_MAX, 5));
    rig.did();
    for packed in [false, true] {
        let mut lie = with_paths(6, COUNTER_MAX);
        lie.upsert_member(m("dJ"));
        let gossip = GossipBody::from(Arc::new(lie));
        let gossip = if packed { as_it_arrives(gossip) } else { gossip };
        let to = n("a");
        rig.call(|m, cx| m.on_gossip(cx, &n("b"), &GossipEnvelope { to, gossip }));
        assert_eq!(
            (rig.members().as_str(), paths_at(&rig)),
            ("a b c dJ", CLOCK_JUMP_MAX)
        );
        assert_eq!(rig.clock("a"), 3, "a change of mine tells my state from the lie");
    }
    assert_eq!(rig.f.stats.membership.rejected_paths_ahead, 2);
    assert!(
        rig.did()
            .starts_with("rejected(b: the state's table of paths is at 281474976710656, and at 65536 here)")
    );
}

#[test]
fn b_37_claims_raise_the_counter_of_paths_by_a_step_a_second_and_never_near_its_end() {
    let mut rig = third_with_paths();
    for change in 0..1_000 {
        let claimed = paths_at(&rig) + CLOCK_JUMP_MAX / 8;
        rig.gossip("b", &with_paths(5 + change, claimed));
    }
    let now = paths_at(&rig);
    assert!((CLOCK_JUMP_MAX..=2 * CLOCK_JUMP_MAX).contains(&now), "{now}");
}

#[test]
fn b_37_who_missed_many_changes_of_paths_takes_them_over_in_the_time_that_they_took() {
    let mut rig = third_with_paths();
    let far = 20 * CLOCK_JUMP_MAX;
    let mut rounds = 0;
    while paths_at(&rig) < far {
        rig.gossip("b", &with_paths(5, far));
        rig.f.stand_still(secs(1));
        rounds += 1;
    }
    assert_eq!(
        (paths_at(&rig), rig.f.stats.membership.rejected_paths_ahead),
        (far, rounds - 1)
    );
    assert!((19..=22).contains(&rounds), "{rounds} seconds");
    // What was saved up is gone a minute later.
    rig.f.stand_still(secs(100));
    rig.gossip("b", &with_paths(6, far + 2 * CLOCK_JUMP_MAX));
    assert_eq!(paths_at(&rig), far);
}
