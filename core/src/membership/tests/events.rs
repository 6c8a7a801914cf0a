//! Spec: membership §6 N.

use super::{g, in_dc, m, n, names, of, reach, seen, with_roles};
use crate::membership::state::events::{MembershipChange as Change, diff};
use crate::membership::state::gossip::Gossip;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

fn show(change: &Change) -> String {
    let name = |member: &crate::membership::state::member::Member| names([&member.node]);
    match change {
        Change::TombstonesChanged => "Tombstones".into(),
        Change::Removed { member, previous } => format!("Removed({} {previous})", name(member)),
        Change::Joined(member) => format!("Joined({})", name(member)),
        Change::WeaklyUp(member) => format!("WeaklyUp({})", name(member)),
        Change::Up(member) => format!("Up({})", name(member)),
        Change::Left(member) => format!("Left({})", name(member)),
        Change::Exited(member) => format!("Exited({})", name(member)),
        Change::Downed(member) => format!("Downed({})", name(member)),
        Change::PreparingForShutdown(member) => format!("Preparing({})", name(member)),
        Change::ReadyForShutdown(member) => format!("Ready({})", name(member)),
        Change::Unreachable(member) => format!("Unreachable({})", name(member)),
        Change::Reachable(member) => format!("Reachable({})", name(member)),
        Change::LeaderChanged(leader) => format!("Leader({})", names(leader)),
        Change::RoleLeaderChanged { role, leader } => format!("RoleLeader({role} {})", names(leader)),
        Change::SeenChanged { converged, seen } => format!("Seen({converged} {seen})"),
        Change::ReachabilityChanged => "Reachability".into(),
    }
}

/// Every change as `me` is told, in order; role leaders of the data center role are left out for brevity.
fn changes(before: &Gossip, after: &Gossip, me: &str) -> String {
    let all = diff(before, after, &n(me));
    let shown = all
        .iter()
        .map(show)
        .filter(|text| !text.starts_with("RoleLeader(dc-"));
    shown.collect::<Vec<_>>().join(" ")
}

fn all_seen(codes: &str) -> Gossip {
    let gossip = g(codes);
    let every: Vec<String> = gossip
        .members()
        .iter()
        .map(|member| names([&member.node]))
        .collect();
    seen(gossip, &every.join(" "))
}

#[test]
fn m_378_nothing_changed_is_nothing_told() {
    let gossip = reach(all_seen("a b"), "a>b:U");
    assert_eq!(diff(&gossip, &gossip.clone(), &n("a")), []);
    assert_eq!(
        diff(&gossip, &reach(all_seen("a b"), "a>b:U"), &n("a")),
        [],
        "nor for an equal state elsewhere"
    );
}

#[test]
fn m_379_and_m_380_members_are_told_in_address_order() {
    assert_eq!(
        changes(&all_seen("a"), &all_seen("a b eJ"), "a"),
        "Up(b) Joined(e) Seen(true 3)"
    );
    let (before, after) = (seen(g("aJ b c"), "a b c"), seen(g("a b cL eJ"), "a b c"));
    assert_eq!(changes(&before, &after, "a"), "Up(a) Left(c) Joined(e) Leader(a)");
}

#[test]
fn m_381_to_m_383_downed_removed_and_replaced() {
    assert_eq!(
        changes(&seen(g("a e"), "a"), &seen(g("a eD"), "a"), "a"),
        "Downed(e) Seen(true 1)"
    );
    let mut removed = seen(g("a dX"), "a");
    let before = removed.clone();
    removed.remove(&n("d"));
    assert_eq!(changes(&before, &removed, "a"), "Tombstones Removed(d Exiting)");
    let mut replaced = seen(g("a d"), "a d");
    let before = replaced.clone();
    replaced.remove(&n("d"));
    replaced.upsert_member(m("d#2"));
    assert_eq!(
        changes(&before, &replaced, "a"),
        "Tombstones Removed(d Up) Up(d#2) Seen(false 1)"
    );
}

#[test]
fn every_status_has_its_event_and_a_new_number_is_told_again() {
    let shown = changes(&Gossip::new(), &g("aJ bW c dP eR fL hX iD"), "a");
    assert_eq!(
        shown,
        "Joined(a) WeaklyUp(b) Up(c) Preparing(d) Ready(e) Left(f) Exited(h) Downed(i) Leader(c) Seen(false 0)"
    );
    let mut numbered = g("a");
    numbered.set_up_number(&n("a"), crate::membership::state::member::UpNumber::new(7));
    assert_eq!(changes(&g("a"), &numbered, "a"), "Up(a)");
}

#[test]
fn m_384_and_m_385_unreachable_and_back_is_told_about_others_only() {
    let before = seen(reach(g("a b c e"), "a>c:U a>e:U"), "a b");
    let after = reach(seen(g("a bD c e"), "a"), "a>c:U a>e:U c>a:U a>b:U");
    assert_eq!(
        changes(&before, &after, "a"),
        "Downed(b) Unreachable(b) Seen(false 1) Reachability"
    );
    let before = reach(g("a b c"), "a>b:U");
    let after = reach(before.clone(), "a>c:U a>b:R c>a:U");
    assert_eq!(
        changes(&before, &after, "a"),
        "Unreachable(c) Reachable(b) Reachability"
    );
}

#[test]
fn m_386_terminated_is_told_as_unreachable_and_never_as_reachable() {
    let over = reach(g("a b"), "a>b:T");
    assert_eq!(changes(&g("a b"), &over, "a"), "Unreachable(b) Reachability");
    assert_eq!(changes(&over, &g("a b"), "a"), "Reachability");
    assert_eq!(
        changes(
            &reach(g("a b c"), "a>b:U"),
            &reach(g("a b c"), "a>b:U c>b:T"),
            "a"
        ),
        "Reachability"
    );
}

#[test]
fn m_389_to_m_391_a_leader_is_told_when_it_changes() {
    let mut after = seen(g("a b eJ"), "b");
    let before = after.clone();
    after.remove(&n("a"));
    assert_eq!(
        changes(&before, &after, "b"),
        "Tombstones Removed(a Up) Leader(b) Seen(true 1)"
    );
    assert_eq!(changes(&g("a b"), &g("a bL"), "a"), "Left(b)");
    assert_eq!(changes(&g("b"), &g("a b"), "b"), "Up(a) Leader(a)");
}

#[test]
fn m_106_role_leaders_are_told_when_they_change() {
    let before = of([
        with_roles("a", "AA,AB"),
        with_roles("b", "AB,BB"),
        with_roles("c", ""),
        with_roles("dL", "DD,DE"),
        with_roles("eJ", "EE,DE"),
    ]);
    let after = of([
        with_roles("b", "AB,BB"),
        with_roles("c", ""),
        with_roles("dX", "DD,DE"),
        with_roles("eJ", "EE,DE"),
    ]);
    let told: Vec<String> = diff(&before, &after, &n("b")).iter().map(show).collect();
    let roles: Vec<&str> = told
        .iter()
        .map(String::as_str)
        .filter(|text| text.starts_with("Role"))
        .collect();
    assert_eq!(
        roles,
        [
            "RoleLeader(AA )",
            "RoleLeader(AB b)",
            "RoleLeader(DE e)",
            "RoleLeader(dc-default b)"
        ],
        "DD stays with d, which is the only one to have it"
    );
}

#[test]
fn m_107_another_data_center_is_told_neither_leaders_nor_reachability() {
    let others = |codes: &str| {
        codes
            .split_whitespace()
            .map(|code| in_dc(code, "dc1"))
            .collect::<Vec<_>>()
    };
    let with = |codes: &str| seen(of(others(codes).into_iter().chain([in_dc("z", "dc2")])), "z");
    let after = reach(with("b c"), "b>c:U");
    let told: Vec<String> = diff(&with("b"), &after, &n("z")).iter().map(show).collect();
    assert_eq!(told, ["Up(c)", "Reachability"]);
}

#[test]
fn m_098_who_has_seen_is_told_even_when_convergence_stays() {
    let (before, after) = (seen(g("a b eJ"), "a b e"), seen(g("a b eJ"), "a b"));
    assert_eq!(changes(&before, &after, "a"), "Seen(true 2)");
    let converged_only = seen(reach(g("a b"), "a>b:U"), "a b");
    assert_eq!(
        changes(&converged_only, &seen(g("a b"), "a b"), "a"),
        "Reachable(b) Seen(true 2) Reachability",
        "convergence was reached although the same nodes have seen it"
    );
}

#[test]
fn m_392_the_end_is_the_difference_to_nothing() {
    assert_eq!(
        changes(&seen(g("a bL"), "a"), &Gossip::new(), "a"),
        "Removed(a Up) Removed(b Leaving) Leader() Seen(true 0)"
    );
}
