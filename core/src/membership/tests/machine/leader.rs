//! Leader actions. Spec: membership §2.7, §2.8, §6 J; tombstones §8.3.

use super::{MOMENT, Rig, n, names, secs, state, versioned};
use crate::ident::{Role, Roles};
use crate::membership::tests::{aged, confirmed, in_dc, m, of, reach, seen, with_roles};
use crate::message::Join;
use core::time::Duration;

/// One leader tick at `a`.
fn ticked(codes: &str, seen_by: &str, rows: &str) -> Rig {
    let mut rig = Rig::member("a", versioned(&reach(state(codes, seen_by, ""), rows), "a"));
    rig.leader_tick();
    rig
}

#[test]
fn a_converged_leader_moves_everybody_on_by_one_step() {
    let mut rig = ticked("aP bJ cW dL eP fR", "a d e f", "");
    assert_eq!(
        rig.members(),
        "aR bJ cW dX eR fR",
        "nobody rises while the cluster shuts down"
    );
    assert_eq!(
        (
            rig.seen().as_str(),
            rig.clock("a"),
            rig.f.stats.membership.leader_actions
        ),
        ("a", 2, 1)
    );
    assert_eq!(rig.told(), "ready(a) exited(d) ready(e) seen(a)");
    assert_eq!(ticked("a bJ cW", "a", "").members(), "a b c");
}

#[test]
fn f_23_up_numbers_follow_the_youngest_in_address_order() {
    let gossip = of([aged("a", 4), m("bJ"), m("cW"), aged("d", 7)]);
    let mut rig = Rig::member("a", versioned(&seen(gossip, "a d"), "a"));
    rig.leader_tick();
    assert_eq!(rig.told(), "up(b:8) up(c:9) seen(a)");
    // Whatever has become of the youngest since, its number is given while it is a member.
    for youngest in ["dL", "dX", "dD", "dR"] {
        let gossip = of([aged("a", 4), m("bJ"), aged(youngest, 7)]);
        let number = crate::membership::state::leader::youngest_up_number(&gossip, "default");
        assert_eq!(number.get(), 7, "{youngest}");
    }
}

#[test]
fn m_200_the_number_of_a_removed_youngest_member_is_given_again() {
    let gossip = of([aged("a", 1), aged("bD", 2)]);
    let mut rig = Rig::member("a", reach(seen(gossip, "a"), "a>b:U"));
    rig.leader_tick();
    assert_eq!(rig.members(), "a");
    rig.join("c");
    rig.leader_tick();
    assert!(rig.told().contains("up(c:2)"));
}

#[test]
fn a_node_that_does_not_lead_changes_nothing() {
    let mut rig = Rig::member("b", state("a b cJ dL eD", "a b d", "a"));
    rig.leader_tick();
    assert_eq!((rig.did().as_str(), rig.members().as_str()), ("", "a b cJ dL eD"));
}

#[test]
fn a_leader_without_convergence_does_nothing_and_says_so_after_a_while() {
    let mut rig = Rig::configured("a", |config| config.membership.allow_weakly_up_members = None)
        .with_state(state("a b cJ dL", "a b", "a"));
    rig.leader_tick();
    rig.run(secs(18));
    assert_eq!(rig.told(), "");
    rig.run(secs(1));
    assert_eq!(rig.told(), "incapacitated(20)");
    rig.run(secs(99));
    assert_eq!(rig.told(), "incapacitated(60)");
    rig.run(secs(1));
    assert_eq!(rig.told(), "incapacitated(120)");
    assert_eq!(
        rig.members(),
        "a b cJ dL",
        "M-209: Joining stays, for weakly up is off"
    );
    rig.gossip("b", &state("a b cJ dL", "a b d", "a"));
    rig.run(MOMENT);
    assert_eq!(rig.told(), "converged(a b d) up(c:2) exited(d) seen(a)");
    rig.run(secs(19));
    assert_eq!(rig.told(), "", "counted anew");
    rig.run(secs(1));
    assert_eq!(rig.told(), "incapacitated(20)");
}

#[test]
fn m_179_nobody_becomes_up_before_enough_members_are_there() {
    let mut rig = Rig::configured("a", |config| config.membership.min_nr_of_members = 3);
    rig.seeds("a");
    rig.run(secs(5));
    rig.join("b");
    rig.gossip("b", &with_seen(&rig, "a b"));
    rig.run(secs(5));
    assert_eq!(rig.members(), "aJ bJ");
    rig.told();
    rig.join("c");
    rig.told();
    rig.gossip("b", &with_seen(&rig, "a b c"));
    rig.run(MOMENT);
    assert_eq!(
        rig.told(),
        "converged(a b c) up(a:1) self-up up(b:2) up(c:3) seen(a)"
    );
}

fn with_seen(rig: &Rig, names: &str) -> crate::membership::state::gossip::Gossip {
    seen((*rig.m.gossip).clone(), names)
}

#[test]
fn m_180_without_a_weakly_up_rule_waiting_longer_changes_nothing() {
    let mut rig = Rig::configured("a", |config| config.membership.min_nr_of_members = 2);
    rig.seeds("a");
    rig.run(secs(3_600));
    assert_eq!(rig.members(), "aJ");
}

#[test]
fn m_181_nobody_becomes_up_before_enough_members_of_a_role_are_there() {
    let backend = Role::new("backend").unwrap();
    let mut rig = Rig::configured("a", |config| {
        config
            .membership
            .min_nr_of_members_per_role
            .insert(backend.clone(), 2);
    });
    rig.seeds("a");
    for (host, up) in [("b", "aJ bJ"), ("c", "a b c")] {
        let roles = Roles::new([backend.clone()], "default").unwrap();
        let join = Join {
            to: n("a"),
            roles,
            app_version: Default::default(),
        };
        rig.call(|m, cx| m.on_join(cx, &n(host), &join));
        let everybody = names(rig.m.gossip.members().iter().map(|m| &m.node));
        rig.gossip(host, &with_seen(&rig, &everybody));
        rig.run(secs(2));
        assert_eq!(rig.members(), up);
    }
}

#[test]
fn m_203_a_down_member_is_removed_once_it_is_unreachable() {
    assert_eq!(
        ticked("a b cD", "a b", "").members(),
        "a b cD",
        "finding 9: it may still live"
    );
    let mut rig = ticked("a b cD", "a b", "b>c:U");
    assert_eq!(
        rig.did(),
        "tombstones quarantine(c) removed(c:Down) seen(a) reachability gossip>b"
    );
    assert_eq!(rig.members(), "a b");
    assert_eq!(names(rig.m.gossip.tombstones()), "c");
    assert!(rig.m.gossip.reachability().records().is_empty());
    assert_eq!(rig.f.stats.membership.members_removed, 1);
}

#[test]
fn m_201_and_m_222_members_of_another_data_center_are_only_removed_never_moved() {
    let far = ["bJ", "cL", "dD", "eX", "fP"].map(|code| in_dc(code, "far"));
    let mut rig = Rig::member("a", seen(of([m("a")].into_iter().chain(far)), "a"));
    rig.leader_tick();
    assert_eq!(rig.members(), "aP bJ cL fP", "but the whole cluster prepares");
}

#[test]
fn m_204_an_unreachable_exiting_member_is_removed_without_downing_and_without_quarantine() {
    assert_eq!(ticked("a b cX", "a b", "").members(), "a b cX");
    let mut rig = ticked("a b cX", "a b", "b>c:U");
    assert_eq!(
        rig.did(),
        "tombstones removed(c:Exiting) seen(a) reachability gossip>b"
    );
}

#[test]
fn m_205_an_exiting_member_that_said_goodbye_is_removed_as_soon_as_it_is_known_to_run_nothing() {
    let mut rig = Rig::member("a", state("a b cX", "a b", "a"));
    rig.call(|m, cx| m.on_exiting_confirmed(cx, &n("c"), &n("a")));
    rig.run(MOMENT);
    assert_eq!(
        rig.members(),
        "a b cX",
        "what it gossips at the same time may be overtaken"
    );
    rig.did();
    let mut last = state("a b cX", "a b", "a c");
    assert!(last.mark_gone(&n("c")));
    rig.gossip("c", &last);
    rig.run(MOMENT);
    assert_eq!(rig.members(), "a b");
    assert!(
        rig.m.gossip.is_gone(&n("c")),
        "and whoever hears of it knows it too"
    );
    rig.did();
    rig.leader_tick();
    assert!(rig.m.exiting_confirmed.is_empty(), "forgotten with the member");
}

#[test]
fn m_205_an_exiting_member_that_said_goodbye_and_nothing_else_is_removed_one_look_later() {
    let mut rig = Rig::member("a", state("a b cX", "a b", "a"));
    rig.call(|m, cx| m.on_exiting_confirmed(cx, &n("c"), &n("a")));
    rig.leader_tick();
    assert_eq!(rig.members(), "a b cX");
    rig.leader_tick();
    assert_eq!(rig.members(), "a b");
    assert!(
        rig.m.gossip.gone().is_empty(),
        "nobody said that nothing runs there"
    );
    assert_eq!(rig.did(), "tombstones removed(c:Exiting) seen(a) gossip>b");
    rig.leader_tick();
    assert!(rig.m.exiting_confirmed.is_empty(), "forgotten with the member");
}

#[test]
fn m_086_a_goodbye_that_overtakes_the_gossip_counts_as_seen_and_removes_only_once_exiting() {
    let mut rig = Rig::member("a", state("a b cL", "a b", "a"));
    assert!(!rig.f.view.converged);
    rig.call(|m, cx| m.on_exiting_confirmed(cx, &n("c"), &n("a")));
    assert!(rig.f.view.converged);
    rig.run(MOMENT);
    assert_eq!(rig.members(), "a b cL", "its gossip may be on its way");
    rig.leader_tick();
    assert_eq!(rig.members(), "a b cX");
    assert_eq!(rig.m.exiting_confirmed, confirmed("c"));
    let seen_by_all = with_seen(&rig, "a b");
    rig.gossip("b", &seen_by_all);
    rig.leader_tick();
    assert_eq!(rig.members(), "a b");
}

#[test]
fn f_18_the_last_leader_never_removes_itself_and_does_not_change_the_state_in_trying() {
    let mut rig = ticked("aX bD", "a", "b>a:U");
    rig.run(secs(3));
    assert_eq!(
        (rig.members().as_str(), rig.clock("a"), rig.told().as_str()),
        ("aX bD", 1, "")
    );
}

#[test]
fn m_210_the_leader_forgets_a_tombstone_a_day_after_it_saw_it_by_its_own_clock() {
    const DAY: Duration = Duration::from_secs(24 * 3_600);
    let mut gossip = state("a b c d", "a b", "");
    gossip.remove(&n("c"));
    let mut rig = Rig::member("a", versioned(&gossip, "a"));
    rig.f.stand_still(secs(3_600));
    let mut later = (*rig.m.gossip).clone();
    later.remove(&n("d"));
    rig.gossip("b", &seen(versioned(&later, "a b"), "a b"));
    rig.did();
    rig.f.stand_still(DAY - secs(3_600) - Duration::from_micros(1));
    rig.leader_tick();
    assert_eq!((rig.did().as_str(), rig.clock("a")), ("", 1));
    rig.f.stand_still(Duration::from_micros(1));
    rig.f.now.unix_ms = 0;
    rig.leader_tick();
    assert_eq!(rig.did(), "tombstones seen(a)");
    assert_eq!(
        (names(rig.m.gossip.tombstones()).as_str(), rig.clock("a")),
        ("d", 2)
    );
    assert_eq!(rig.f.stats.membership.tombstones_pruned, 1);
    rig.gossip("b", &with_seen(&rig, "a b"));
    rig.f.stand_still(secs(3_600));
    rig.leader_tick();
    assert!(rig.m.gossip.tombstones().is_empty() && rig.m.tombstones_since.is_empty());
}

#[test]
fn tombstones_are_pruned_only_by_a_converged_leader() {
    let mut gossip = state("a b c", "a", "");
    gossip.remove(&n("c"));
    for me in ["a", "b"] {
        let mut rig = Rig::member(
            me,
            seen(versioned(&gossip, "a"), if me == "a" { "a" } else { "a b" }),
        );
        rig.f.stand_still(secs(2 * 24 * 3_600));
        rig.leader_tick();
        assert_eq!(names(rig.m.gossip.tombstones()), "c", "{me}");
    }
}

#[test]
fn the_oldest_of_the_cluster_and_of_each_exiting_role_hear_at_once_who_exits() {
    let role = |code: &str, roles: &str, number: u32| crate::membership::state::member::Member {
        up_number: crate::membership::state::member::UpNumber::new(number),
        ..with_roles(code, roles)
    };
    let gossip = of([
        role("a", "", 1),
        role("b", "", 2),
        role("c", "", 3),
        role("dL", "x", 4),
        role("e", "y", 5),
        role("f", "x", 6),
        role("g", "x", 7),
    ]);
    let everybody = names(gossip.members().iter().map(|m| &m.node));
    let mut rig = Rig::member("a", versioned(&seen(gossip, &everybody), "a"));
    rig.leader_tick();
    assert_eq!(rig.sent_in_any_order(), "gossip>b gossip>d gossip>f");
}

#[test]
fn a_leader_that_hears_something_acts_at_once_only_on_convergence() {
    let mut rig = Rig::member("a", state("a b c dJ", "a", "a"));
    rig.gossip("b", &state("a b c dJ", "b", "a b"));
    rig.run(MOMENT);
    assert_eq!((rig.members().as_str(), rig.seen().as_str()), ("a b c dJ", "a b"));
    rig.gossip("c", &with_seen(&rig, "a b c"));
    rig.run(MOMENT);
    assert_eq!(rig.members(), "a b c d");
}

#[test]
fn only_the_leader_acts_when_it_hears_of_convergence() {
    let mut rig = Rig::member("b", state("a b cJ", "b", "b"));
    rig.gossip("a", &with_seen(&rig, "a b"));
    assert!(rig.f.view.converged);
    rig.run(MOMENT);
    assert_eq!(rig.members(), "a b cJ");
}

#[test]
fn convergence_that_is_over_when_the_leaders_turn_comes_leads_to_nothing() {
    let mut rig = Rig::member("a", state("a b cJ", "a", "a"));
    rig.gossip("b", &with_seen(&rig, "a b"));
    assert!(rig.f.view.converged);
    rig.call(|m, cx| m.leave(cx, &n("b")));
    rig.run(MOMENT);
    assert_eq!(rig.members(), "a bL cJ");
}

#[test]
fn gossip_without_news_gives_the_leader_no_turn() {
    let mut rig = Rig::member("a", state("a b cJ", "a b", "a"));
    rig.gossip("b", &with_seen(&rig, "a b"));
    assert_eq!(rig.deadlines(), []);
}

#[test]
fn who_exits_is_told_to_the_oldest_of_this_data_center_only() {
    let far = |code: &str| crate::membership::state::member::Member {
        up_number: crate::membership::state::member::UpNumber::FIRST,
        ..in_dc(code, "far")
    };
    let gossip = of([aged("a", 1), aged("b", 2), aged("cL", 3), far("d"), far("e")]);
    let mut rig = Rig::member("a", versioned(&seen(gossip, "a b c"), "a"));
    rig.leader_tick();
    assert_eq!(
        (rig.members().as_str(), rig.sent().as_str()),
        ("a b cX d e", "gossip>b")
    );
}
