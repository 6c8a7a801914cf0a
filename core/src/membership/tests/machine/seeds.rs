//! The seed process. Spec: membership §2.2, §6 I.

use super::{Rig, at, secs, state};
use crate::effect::HaltReason;
use crate::timer::MembershipTimer::{Gossip, JoinRetry, LeaderActions, SeedRetry, SeedSelfJoin};
use crate::view::MembershipPhase;
use core::time::Duration;

/// Seeds are asked again this often.
const HALF: Duration = Duration::from_millis(500);

#[test]
fn m_153_a_node_that_joins_itself_is_up_at_once_and_converged() {
    let mut rig = Rig::idle("a");
    rig.seeds("a");
    assert_eq!(rig.did(), "done joined(a) leader(a) converged(a) up(a:1) self-up");
    assert_eq!((rig.members().as_str(), rig.clock("a")), ("a", 2));
    assert!(rig.f.view.converged && rig.f.view.phase() == MembershipPhase::Member);
    assert_eq!(rig.deadlines(), [(Gossip, 1_000), (LeaderActions, 1_000)]);
}

#[test]
fn m_165_the_node_that_forms_the_cluster_is_the_oldest_whatever_its_address() {
    let mut rig = Rig::idle("d");
    rig.seeds("d");
    rig.join("a");
    rig.leader_tick();
    assert_eq!(
        rig.told(),
        "joined(d) leader(d) converged(d) up(d:1) self-up joined(a) up(a:2) leader(a) seen(d)"
    );
}

#[test]
fn the_first_seed_asks_the_others_twice_a_second_until_it_gives_up_waiting() {
    let mut rig = Rig::idle("a");
    rig.seeds("a b c");
    assert_eq!(rig.did(), "done init-join>b init-join>c");
    assert_eq!(rig.f.view.phase(), MembershipPhase::Joining);
    assert_eq!(rig.deadlines(), [(SeedRetry, 500), (SeedSelfJoin, 5_000)]);
    rig.run(HALF);
    assert_eq!(rig.did(), "init-join>b init-join>c");
    rig.nack("b");
    rig.run(HALF);
    assert_eq!(
        rig.did(),
        "init-join>b init-join>c",
        "who was in no cluster may be in one now"
    );
    rig.ack("b");
    assert_eq!((rig.did().as_str(), rig.members().as_str()), ("join>b", ""));
}

#[test]
fn m_166_the_first_seed_forms_the_cluster_when_all_others_are_in_none() {
    let mut rig = Rig::idle("a");
    rig.seeds("a b c");
    rig.nack("b");
    rig.nack("b");
    rig.nack("x");
    assert_eq!(
        (rig.sent().as_str(), rig.members().as_str()),
        ("done init-join>b init-join>c", "")
    );
    rig.nack("c");
    assert_eq!(rig.members(), "a");
    assert_eq!(rig.deadlines(), [(Gossip, 1_000), (LeaderActions, 1_000)]);
}

#[test]
fn m_167_the_first_seed_forms_the_cluster_when_nobody_answers_within_the_timeout() {
    let mut rig = Rig::idle("a");
    rig.seeds("a b");
    rig.run(Duration::from_millis(4_999));
    assert_eq!(rig.members(), "");
    rig.run(Duration::from_millis(1));
    assert_eq!(rig.members(), "a");
}

#[test]
fn m_168_one_ack_makes_the_first_seed_join_that_node_and_not_itself() {
    let mut rig = Rig::idle("a");
    rig.seeds("a b c");
    rig.did();
    rig.ack("c");
    assert_eq!(rig.did(), "join>c");
    assert_eq!(rig.deadlines(), [(JoinRetry, 1_000)]);
    rig.nack("b");
    rig.run(secs(3));
    assert_eq!(
        (rig.did().as_str(), rig.members().as_str()),
        ("join>c join>c join>c", "")
    );
}

#[test]
fn m_169_another_seed_never_forms_a_cluster_asks_all_again_twice_a_second_and_warns_after_each_timeout() {
    let mut rig = Rig::idle("b");
    rig.seeds("a b c");
    assert_eq!(rig.did(), "done init-join>a init-join>c");
    assert_eq!(rig.deadlines(), [(SeedRetry, 500)]);
    rig.nack("a");
    rig.nack("c");
    assert_eq!((rig.did().as_str(), rig.members().as_str()), ("", ""));
    rig.run(Duration::from_millis(4_999));
    assert_eq!(rig.did(), ["init-join>a init-join>c"; 9].join(" "));
    rig.run(Duration::from_millis(1));
    assert_eq!(
        rig.did(),
        "failed(no seed admitted this node in attempt 1: a:7355 (not in a cluster yet), c:7355 (not in a cluster yet)) init-join>a init-join>c"
    );
    rig.run(Duration::from_millis(4_500));
    assert_eq!(rig.did(), ["init-join>a init-join>c"; 9].join(" "));
    rig.run(Duration::from_millis(500));
    assert_eq!(
        rig.did(),
        "failed(no seed admitted this node in attempt 2: a:7355 (no answer), c:7355 (no answer)) init-join>a init-join>c"
    );
    rig.run(secs(3_600));
    assert_eq!(rig.members(), "");
}

#[test]
fn m_170_later_acks_of_other_seeds_are_ignored_and_are_nobodys_fault() {
    let mut rig = Rig::idle("d");
    rig.seeds("a b");
    rig.ack("a");
    assert_eq!(rig.did(), "done init-join>a init-join>b join>a");
    rig.ack("b");
    rig.welcome("a", "d", &state("a b dJ", "a", "a"));
    rig.did();
    rig.ack("b");
    assert_eq!(rig.did(), "");
    assert_eq!(rig.f.stats.node.rejected, 0);
}

#[test]
fn an_ack_of_a_node_that_was_not_asked_is_dropped_and_counted() {
    let mut rig = Rig::idle("d");
    rig.ack("a");
    assert_eq!(rig.did(), "rejected(a: unexpected InitJoinAck)");
    rig.seeds("b");
    rig.did();
    rig.ack("a");
    assert_eq!(rig.did(), "rejected(a: unexpected InitJoinAck)");
    assert_eq!(rig.f.stats.node.rejected, 2);
    assert_eq!(rig.deadlines(), [(SeedRetry, 500)]);
}

#[test]
fn every_seed_is_asked_again_twice_a_second_and_the_first_that_is_in_a_cluster_is_joined() {
    for taken in ["a", "b"] {
        let mut rig = Rig::idle("d");
        rig.seeds("a b");
        rig.did();
        rig.nack("b");
        rig.run(HALF);
        let why = "the answer of one may be lost, and the other may have joined a cluster";
        assert_eq!(rig.did(), "init-join>a init-join>b", "{why}");
        rig.ack(taken);
        assert_eq!(rig.did(), ["join>", taken].concat());
        assert_eq!(rig.deadlines(), [(JoinRetry, 1_500)]);
    }
}

#[test]
fn m_193_seeds_with_another_downing_strategy_end_the_joiner() {
    let mut rig = Rig::idle("d");
    rig.seeds("a");
    rig.did();
    let ack = super::answer(false);
    rig.call(|m, cx| m.on_init_join_ack(cx, &super::n("a"), &ack));
    assert_eq!(
        rig.did(),
        "failed(the settings of a:7355 differ from this node's: the peer's version does not say which)"
    );
    assert_eq!(rig.halted(), Some(HaltReason::IncompatibleConfig));
    assert_eq!(rig.f.view.phase(), MembershipPhase::Halted);
}

#[test]
fn m_164_asking_for_seeds_again_starts_over_and_is_harmless() {
    let mut rig = Rig::idle("c");
    rig.seeds("a b c");
    rig.run(secs(4));
    rig.did();
    rig.seeds("a b c");
    assert_eq!(rig.did(), "done init-join>a init-join>b");
    assert_eq!(rig.deadlines(), [(SeedRetry, 4_500)]);
    rig.ack("a");
    rig.seeds("b");
    assert_eq!(rig.did(), "join>a done init-join>b");
    assert_eq!(
        rig.deadlines(),
        [(SeedRetry, 4_500)],
        "the old target is forgotten"
    );
}

#[test]
fn a_list_without_seeds_is_refused() {
    let mut rig = Rig::idle("a");
    rig.seeds("");
    assert_eq!(rig.did(), "refused(NoSeeds)");
    assert_eq!(rig.f.view.phase(), MembershipPhase::Idle);
}

#[test]
fn m_174_without_a_welcome_the_seeds_are_asked_again_and_a_resent_welcome_completes() {
    let mut rig = Rig::idle("d");
    rig.seeds("a b");
    rig.ack("a");
    rig.did();
    rig.run(Duration::from_millis(9_999));
    assert_eq!(rig.did(), ["join>a"; 9].join(" "), "once a second");
    rig.run(Duration::from_millis(1));
    assert_eq!(rig.did(), "failed(NoWelcome) init-join>a init-join>b");
    rig.ack("b");
    assert_eq!(rig.did(), "join>b");
    rig.welcome("b", "d", &state("a b d", "a b", "a b"));
    assert_eq!(rig.members(), "a b d");
}

#[test]
fn a_first_seed_that_found_a_cluster_does_not_form_another_by_waiting() {
    let mut rig = Rig::idle("a");
    rig.seeds("a b c");
    rig.ack("b");
    rig.run(secs(600));
    assert_eq!(rig.members(), "", "somebody said that there is a cluster");
    rig.nack("b");
    rig.nack("c");
    assert_eq!(rig.members(), "a", "everybody said that there is none any more");
}

#[test]
fn contacts_are_asked_at_their_addresses_and_never_myself() {
    let mut rig = Rig::idle("b");
    rig.seeds("b b a");
    assert_eq!(rig.did(), "done init-join>a");
    assert!(rig.f.me.address() == &at("b"));
}
