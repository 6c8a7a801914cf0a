//! What a member answers to joiners, and what a joiner does with its Welcome. Spec: membership §2.1, §6 I.

use super::{Rig, at, n, secs, state};
use crate::effect::Effect;
use crate::fixture::Fixture;
use crate::membership::state::member::{Member, Status};
use crate::message::{InitJoin, MembershipMsg, Message};
use crate::timer::MembershipTimer::{Gossip, JoinRetry, LeaderActions};
use crate::view::MembershipPhase;
use alloc::vec::Vec;

fn init_join(rig: &mut Rig, from: &str) {
    let ask = InitJoin {
        settings: rig.f.config.shared_settings().clone(),
    };
    rig.call(|m, cx| m.on_init_join(cx, &n(from), &ask));
}

/// `d` asked `a` and waits for its Welcome.
fn waiting() -> Rig {
    let mut rig = Rig::idle("d");
    rig.seeds("a b");
    rig.ack("a");
    rig.did();
    rig
}

#[test]
fn m_152_a_node_answers_init_join_only_once_it_is_in_a_cluster() {
    let mut rig = Rig::idle("a");
    init_join(&mut rig, "b");
    rig.seeds("c");
    init_join(&mut rig, "b");
    rig.ack("c");
    init_join(&mut rig, "b");
    assert_eq!(rig.sent(), "nack>b done init-join>c nack>b join>c nack>b");
    rig.welcome("c", "a", &state("aJ c", "c", "c"));
    rig.did();
    init_join(&mut rig, "b");
    assert_eq!(rig.did(), "ack>b");
}

#[test]
fn f_37_a_member_that_is_down_or_exiting_admits_nobody() {
    for (codes, answer) in [
        ("aX b", "nack>d"),
        ("aD b", "nack>d"),
        ("aL b", "ack>d"),
        ("aJ b", "ack>d"),
    ] {
        let mut rig = Rig::member("a", state(codes, "a", "a"));
        init_join(&mut rig, "d");
        assert_eq!(rig.did(), answer, "{codes}");
    }
}

#[test]
fn m_164_the_leader_hears_at_once_whom_another_member_admitted() {
    let mut rig = Rig::member("b", state("a b c", "a b c", "a"));
    rig.join("d");
    assert_eq!(rig.sent(), "welcome>d gossip>a");
    assert_eq!(rig.members(), "a b c dJ");
    rig.join("d");
    assert_eq!(rig.sent(), "welcome>d", "it was admitted once");
}

#[test]
fn a_joiner_is_added_as_joining_and_welcomed_with_the_new_state() {
    let mut rig = Rig::member("a", state("a b", "a b", "a"));
    rig.join("d");
    let effects: Vec<Effect> = rig.f.effects();
    let Some(Effect::Send {
        message: Message::Membership(MembershipMsg::Welcome(welcome)),
        ..
    }) = effects.last()
    else {
        panic!("no welcome in {effects:?}")
    };
    assert_eq!(
        (&welcome.to, &welcome.gossip),
        (&n("d"), &rig.m.gossip.clone().into())
    );
    assert_eq!(rig.members(), "a b dJ");
    assert_eq!((rig.seen().as_str(), rig.clock("a")), ("a", 2));
    assert_eq!(rig.m.gossip.member(&n("d")).unwrap().status, Status::Joining);
}

#[test]
fn the_record_of_a_joiner_carries_what_it_said_about_itself() {
    let mut rig = Rig::member("a", state("a", "a", "a"));
    let roles = crate::ident::Roles::new([crate::ident::Role::new("x").unwrap()], "west").unwrap();
    let app_version = crate::membership::state::app_version::AppVersion::new("1.2.3").unwrap();
    let join = crate::message::Join {
        to: n("a"),
        roles: roles.clone(),
        app_version: app_version.clone(),
    };
    rig.call(|m, cx| m.on_join(cx, &n("d"), &join));
    let expected = Member::joining(n("d"), roles, app_version);
    assert_eq!(rig.m.gossip.member(&n("d")), Some(&expected));
}

#[test]
fn m_154_a_join_to_a_node_that_is_no_member_has_no_effect() {
    let mut rig = Rig::idle("a");
    rig.join("d");
    rig.run(secs(2));
    assert_eq!((rig.did().as_str(), rig.members().as_str()), ("", ""));
    let mut rig = waiting();
    rig.join("c");
    assert_eq!((rig.did().as_str(), rig.members().as_str()), ("", ""));
}

#[test]
fn m_155_joining_again_while_a_member_changes_nothing() {
    let mut rig = Rig::member("a", state("a b", "a b", "a"));
    for hosts in ["b", "a", "c d"] {
        rig.seeds(hosts);
        assert_eq!(rig.did(), "refused(AlreadyJoined)");
    }
    rig.run(secs(2));
    assert_eq!((rig.told().as_str(), rig.clock("a")), ("", 1));
}

#[test]
fn m_156_the_same_incarnation_joining_twice_gets_its_welcome_again_and_nothing_changes() {
    for codes in ["a dJ", "a d", "a dL", "a dD"] {
        let mut rig = Rig::member("a", state(codes, "a", "a"));
        let before = rig.m.gossip.clone();
        rig.join("d");
        assert_eq!(
            (rig.did().as_str(), &rig.m.gossip),
            ("welcome>d", &before),
            "{codes}"
        );
        assert_eq!(rig.f.stats.membership.welcomes_resent, 1);
    }
}

#[test]
fn m_173_a_welcome_of_another_node_than_the_one_asked_is_dropped() {
    let mut rig = waiting();
    for from in ["b", "c", "a#2"] {
        rig.welcome(from, "d", &state("a b dJ", "a", "a"));
        assert!(rig.did().ends_with("unexpected Welcome)"), "{from}");
    }
    assert_eq!((rig.members().as_str(), rig.f.stats.node.rejected), ("", 3));
    assert_eq!(rig.deadlines(), [(JoinRetry, 1_000)]);
}

#[test]
fn m_176_periodic_tasks_start_with_the_welcome_and_not_before() {
    let mut rig = waiting();
    assert_eq!(rig.deadlines(), [(JoinRetry, 1_000)]);
    rig.run(secs(2));
    rig.welcome("a", "d", &state("a b dJ", "a", "a"));
    assert_eq!(
        rig.did(),
        "join>a join>a up(a:1) up(b:1) joined(d) leader(a) seen(a d) gossip>a"
    );
    assert_eq!(
        rig.deadlines(),
        [(Gossip, 3_000), (LeaderActions, 3_000), (JoinRetry, 12_000)]
    );
    assert_eq!(
        (rig.seen().as_str(), rig.f.view.phase()),
        ("a d", MembershipPhase::Member)
    );
    assert_eq!(rig.clock("d"), 0, "being welcomed is not a change of mine");
}

#[test]
fn the_first_periodic_task_waits_for_the_initial_delay_or_a_longer_interval() {
    let mut rig = Rig::configured("a", |config| {
        config.membership.gossip_interval = secs(3);
        config.membership.leader_actions_interval = core::time::Duration::from_millis(100);
        config.membership.periodic_tasks_initial_delay = secs(2);
    });
    rig.seeds("a");
    assert_eq!(rig.deadlines(), [(LeaderActions, 2_000), (Gossip, 3_000)]);
}

#[test]
fn a_welcome_that_shows_this_node_down_ends_it() {
    let mut rig = waiting();
    rig.welcome("a", "d", &state("a b dD", "a", "a"));
    assert_eq!(rig.halted(), Some(crate::effect::HaltReason::Downed));
}

#[test]
fn m_198_leaving_by_my_own_address_means_myself_even_before_i_am_a_member() {
    let mut rig = waiting();
    rig.call(|m, cx| m.on_leave_command(cx, super::TOKEN, Some(&at("d"))));
    assert_eq!(rig.did(), "done");
    assert_eq!(rig.halted(), Some(crate::effect::HaltReason::Left));

    let mut rig = Rig::member("a#2", state("a#1 a#2 b", "a#2", "a#2"));
    rig.call(|m, cx| m.on_leave_command(cx, super::TOKEN, Some(&at("a"))));
    assert_eq!(rig.members(), "a a#2L b", "not the old incarnation of my address");
}

#[test]
fn a_join_command_after_the_end_is_refused() {
    let mut rig = Rig::idle("a");
    rig.call(|m, cx| m.on_leave_command(cx, super::TOKEN, None));
    rig.did();
    rig.seeds("a");
    rig.call(|m, cx| m.on_leave_command(cx, super::TOKEN, None));
    assert_eq!(rig.did(), "refused(Stopped) refused(Stopped)");
}

#[test]
fn same_seed_and_same_inputs_give_the_same_effects() {
    let script = |rig: &mut Rig| {
        rig.seeds("a b");
        rig.nack("b");
        for host in ["b", "c", "d", "e", "f", "g", "h"] {
            rig.join(host);
        }
        rig.run(secs(5));
        rig.call(|m, cx| m.down(cx, &n("d")));
        rig.run(secs(5));
        (rig.f.effects(), rig.deadlines(), rig.f.view.clone())
    };
    let first = script(&mut Rig::idle("a"));
    assert_eq!(first, script(&mut Rig::idle("a")));
    let mut original = Rig::idle("a");
    let mut copy = original.clone();
    assert_eq!(script(&mut original), script(&mut copy));
    let other = script(&mut Rig {
        f: Fixture {
            rng: rand_core::SeedableRng::seed_from_u64(8),
            ..original.f.clone()
        },
        ..Rig::idle("a")
    });
    assert_ne!(first.0, other.0, "chance matters in this script");
}

#[test]
fn a_node_that_stays_joining_asks_again_because_to_the_others_it_may_be_a_stranger() {
    let mut rig = waiting();
    rig.welcome("a", "d", &state("a b dJ", "a", "a"));
    rig.did();
    let retry = JoinRetry;
    rig.call(|m, cx| m.on_timer(cx, &retry));
    let asked = rig.sent();
    assert!(asked == "join>a" || asked == "join>b", "{asked}");
    rig.welcome("a", "d", &state("a b dJ", "a", "a"));
    assert_eq!(rig.did(), "", "a Welcome sent again is no offence");
    rig.gossip("a", &state("a b d", "a", "a a"));
    rig.did();
    rig.call(|m, cx| m.on_timer(cx, &retry));
    assert_eq!(rig.sent(), "", "once Up there is nothing to ask for");
}
