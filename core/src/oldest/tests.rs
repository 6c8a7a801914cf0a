//! The room of age on one node: what it publishes, says and waits for. Spec: sharding 10.1.

use alloc::vec::Vec;
use core::time::Duration;

use super::*;
use crate::config::Config;
use crate::fixture::{Fixture, member, node, picture_of};
use crate::ident::{ClusterName, Role, Roles, UniqueAddress};
use crate::membership::state::gossip::Gossip;
use crate::membership::state::member::Status;
use crate::oldest::state::{candidates, oldest};
use crate::signal::Signal;
use crate::timer::Timer as AnyTimer;

const MARGIN: Duration = Duration::from_secs(20);

fn a() -> UniqueAddress {
    node("a", 1)
}

fn b() -> UniqueAddress {
    node("b", 2)
}

fn backend() -> Role {
    Role::new("backend").unwrap()
}

/// A node with the role `backend`.
fn fixture(me: UniqueAddress) -> Fixture {
    let mut config = Config::lan(ClusterName::new("test").unwrap());
    config.roles = alloc::vec![backend()];
    config.downing.down_removal_margin = Some(MARGIN);
    Fixture::with_config(me, config)
}

/// A state of these members, the ones marked having the role, and of the nodes that were removed.
fn state(members: &[(UniqueAddress, Status, bool)], removed: &[UniqueAddress]) -> Gossip {
    let mut gossip = Gossip::new();
    for node in removed {
        gossip.remove(node);
    }
    for (node, status, has_role) in members {
        let mut member = member(node, *status);
        if *has_role {
            member.roles = Roles::new([backend()], "default").unwrap();
        }
        gossip.upsert_member(member);
    }
    gossip
}

fn sees(fixture: &mut Fixture, members: &[(UniqueAddress, Status, bool)], removed: &[UniqueAddress]) {
    let view = picture_of(&fixture.me.clone(), state(members, removed));
    fixture.see(view);
}

/// What this node is for all members, and for the role.
fn standings(fixture: &Fixture) -> [Option<RoleStanding>; 2] {
    [None, Some(&backend())].map(|role| fixture.succession.standing(role))
}

fn fires(fixture: &mut Fixture, after: Duration) -> Vec<Signal> {
    let until = fixture.mono() + after;
    while let Some(timer) = fixture.next_timer(until) {
        assert_eq!(timer, AnyTimer::Oldest(Timer::MarginOver));
        Oldest.on_timer(&mut fixture.cx(), &Timer::MarginOver);
    }
    fixture.heard()
}

#[test]
fn s_091_a_successor_acts_once_older_members_of_the_role_are_removed_and_the_margin_is_over() {
    let mut b = fixture(b());
    sees(
        &mut b,
        &[(a(), Status::Up, true), (self::b(), Status::Up, true)],
        &[],
    );
    assert_eq!(standings(&b), [None, None]);
    sees(
        &mut b,
        &[(a(), Status::Down, true), (self::b(), Status::Up, true)],
        &[],
    );
    assert_eq!(standings(&b), [None, None], "Down is not removed");
    sees(&mut b, &[(self::b(), Status::Up, true)], &[a()]);
    assert_eq!(standings(&b), [Some(RoleStanding::Waiting); 2]);
    assert_eq!(
        b.stats.oldest.successions_awaited, 3,
        "of all, of the role, of the data center"
    );
    b.heard();
    assert_eq!(fires(&mut b, MARGIN - Duration::from_millis(1)).len(), 0);
    assert_eq!(standings(&b), [Some(RoleStanding::Waiting); 2]);
    let said = fires(&mut b, Duration::from_millis(1));
    assert!(matches!(said.as_slice(), [Signal::MarginOver]), "{said:?}");
    assert_eq!(standings(&b), [Some(RoleStanding::Acting); 2]);
    assert!(b.timers.next().is_none(), "nothing is waited for any more");
}

#[test]
fn a_member_without_the_role_holds_nobody_up_who_acts_for_the_role() {
    let mut b = fixture(b());
    sees(
        &mut b,
        &[(a(), Status::Up, false), (self::b(), Status::Up, true)],
        &[],
    );
    assert_eq!(standings(&b), [None, Some(RoleStanding::Acting)]);
    sees(&mut b, &[(self::b(), Status::Up, true)], &[a()]);
    assert_eq!(
        standings(&b),
        [Some(RoleStanding::Waiting), Some(RoleStanding::Acting)]
    );
    // For a role that this node does not have it is nothing.
    assert_eq!(b.succession.standing(Some(&Role::new("other").unwrap())), None);
}

#[test]
fn whoever_acts_for_others_hears_of_a_picture_once_its_ages_are_known() {
    let mut a = fixture(a());
    sees(&mut a, &[(self::a(), Status::Up, true)], &[]);
    let said = a.heard();
    assert!(
        matches!(said.as_slice(), [Signal::AgesChanged { .. }]),
        "{said:?}"
    );
    assert_eq!(standings(&a), [Some(RoleStanding::Acting); 2]);
    sees(&mut a, &[(self::a(), Status::Down, true)], &[]);
    assert_eq!(standings(&a), [None, None], "one that is Down acts for nobody");
    assert_eq!(oldest(&a.view, None).map(|member| &member.node), Some(&self::a()));
    assert_eq!(candidates(&a.view, None), Vec::<UniqueAddress>::new());
}

#[test]
fn s_168_of_two_that_leave_at_once_and_their_successor_all_are_candidates() {
    let mut a = fixture(a());
    let c = node("c", 3);
    let d = node("d", 4);
    let members = [
        (self::a(), Status::Exiting, true),
        (b(), Status::Leaving, true),
        (c.clone(), Status::Up, true),
        (d, Status::Up, true),
    ];
    sees(&mut a, &members, &[]);
    assert_eq!(candidates(&a.view, Some(&backend())), [self::a(), b(), c]);
    assert_eq!(
        standings(&a),
        [Some(RoleStanding::Acting); 2],
        "it acts until it is gone"
    );
}
