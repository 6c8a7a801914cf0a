//! What somebody outside wants, as people are told who ask where a shard is and why. Spec: sharding 1.7
//! (external), 1.3 (queries).

use alloc::boxed::Box;

use super::*;
use crate::ident::Address;
use crate::membership::state::app_version::AppVersion;
use crate::sharding::allocation::AllocationSettings;
use crate::sharding::protocol::survey::{DECISIONS_MAX, Placement, ShardDecision};
use crate::sharding::state::wish::Wish;

const UP: fn() -> [(UniqueAddress, Status); 3] = || [(a(), Status::Up), (b(), Status::Up), (c(), Status::Up)];

/// As [`Rig::active`], placed from outside, with `S` at `a`, which asked for it.
fn placed_from_outside() -> Rig {
    let mut rig = Rig::active();
    rig.coordinator.kind.settings.allocation = Some(AllocationSettings::External);
    rig.asks_home(&a(), S);
    rig.started(&a(), S);
    rig
}

fn wish(at: &UniqueAddress, since_ms: u64) -> Wish {
    Wish {
        at: at.address().clone(),
        by: Some(c()),
        since_ms,
    }
}

fn not_followed(at: &UniqueAddress, why: WishObstacle) -> ShardDecision {
    let wanted: Address = at.address().clone();
    ShardDecision::NotFollowed { wanted, why }
}

fn at(home: UniqueAddress, is_desired: bool) -> ShardDecision {
    ShardDecision::Allocated { home, is_desired }
}

impl Rig {
    fn wants(&mut self, wishes: &[(ShardId, Wish)]) {
        let wishes = wishes.to_vec();
        self.act(|coordinator, cx| coordinator.set_desired_homes(cx, wishes));
    }

    fn looks(&mut self) {
        self.act(|coordinator, cx| coordinator.on_rebalance_tick(cx));
    }

    fn placement(&self) -> Placement {
        self.coordinator.placement(S).unwrap()
    }

    fn decided(&self) -> Vec<ShardDecision> {
        let decided = self.placement().decided.into_iter();
        decided.map(|decided| decided.decision).collect()
    }
}

#[test]
fn s_050_a_shard_that_is_placed_from_outside_says_who_wanted_it_there_and_how_it_got_there() {
    let mut rig = placed_from_outside();
    assert_eq!(rig.decided(), [at(a(), false)]);
    rig.wants(&[(S, wish(&b(), 5))]);
    assert_eq!(rig.placement().wish, Some(wish(&b(), 5)));
    rig.looks();
    assert!(rig.placement().is_moving);
    for node in [a(), b(), c()] {
        rig.acks(&node);
    }
    rig.stopped(&a());
    rig.started(&b(), S);
    let wished = |at: &UniqueAddress, since| ShardDecision::Wished(Box::new(wish(at, since)));
    let so_far = [
        at(a(), false),
        wished(&b(), 5),
        ShardDecision::Moves { from: a() },
        ShardDecision::Freed { home: a() },
        at(b(), true),
    ];
    assert_eq!(rig.decided(), so_far);
    assert_eq!(rig.placement().home, Some(b()));
    // The same wish, though who said it was removed: nothing new. Of another shard: nothing about this one.
    let nobodys = Wish {
        by: None,
        ..wish(&b(), 5)
    };
    rig.wants(&[(S, nobodys.clone()), (ShardId(9), wish(&a(), 6))]);
    rig.looks();
    assert_eq!(rig.decided(), so_far);
    assert_eq!(rig.placement().wish, Some(nobodys));
    // Said again, later; then it may be anywhere.
    rig.wants(&[(S, wish(&b(), 7))]);
    assert_eq!(rig.decided()[5..], [wished(&b(), 7)]);
    rig.wants(&[]);
    rig.looks();
    assert_eq!((rig.placement().wish, rig.decided().len()), (None, 6));
}

#[test]
fn a_wish_that_is_not_followed_says_why() {
    let stranger = node("d", 4);
    type Hinders = fn(&mut Rig);
    let cases: [(WishObstacle, UniqueAddress, Hinders); 11] = [
        (WishObstacle::NotAMember, stranger, |_| ()),
        (WishObstacle::NotAMember, c(), |rig| {
            rig.view(&[(a(), Status::Up), (b(), Status::Up), (c(), Status::Down)]);
        }),
        (WishObstacle::Unreachable, c(), |rig| {
            rig.view_with(&UP(), &[c()]);
        }),
        (WishObstacle::NoRegion, c(), |rig| {
            rig.coordinator.regions.get_mut(&c()).unwrap().proxy = true;
        }),
        (WishObstacle::TakesNone, c(), |rig| {
            rig.view(&[(a(), Status::Up), (b(), Status::Up), (c(), Status::Leaving)]);
        }),
        (WishObstacle::OtherUnreachable, b(), |rig| {
            rig.view_with(&UP(), &[c()]);
        }),
        (WishObstacle::Unsettled, b(), |rig| {
            let newcomer = (node("d", 4), Status::Joining);
            rig.view(&[&UP()[..], &[newcomer]].concat());
        }),
        (WishObstacle::MixedVersions, b(), |rig| {
            let mut gossip = Gossip::new();
            for (node, status) in UP() {
                let mut member = member(&node, status);
                if node == c() {
                    member.app_version = AppVersion::new("7.0.0").unwrap();
                }
                gossip.upsert_member(member);
            }
            rig.fixture.see(picture_of(&a(), gossip));
        }),
        (WishObstacle::Unheard, b(), |rig| {
            rig.coordinator.unheard.insert(c());
        }),
        (WishObstacle::Paused, b(), |rig| rig.coordinator.on_paused()),
        (WishObstacle::NotExternal, b(), |rig| {
            rig.coordinator.kind.settings.allocation = None;
        }),
    ];
    for (why, wanted, hinder) in cases {
        let mut rig = placed_from_outside();
        rig.wants(&[(S, wish(&wanted, 5))]);
        hinder(&mut rig);
        rig.looks();
        rig.looks();
        let wished = ShardDecision::Wished(Box::new(wish(&wanted, 5)));
        let not_followed = not_followed(&wanted, why);
        assert_eq!(rig.decided(), [at(a(), false), wished, not_followed], "{why}");
        assert_eq!(rig.placement().home, Some(a()), "{why}");
    }
}

#[test]
fn a_cluster_that_prepares_to_shut_down_and_a_silent_store_are_reasons_too() {
    let mut rig = placed_from_outside();
    rig.wants(&[(S, wish(&b(), 5))]);
    let preparing = Status::PreparingForShutdown;
    rig.view(&[(a(), preparing), (b(), preparing), (c(), preparing)]);
    rig.looks();
    assert_eq!(
        rig.decided().last(),
        Some(&not_followed(&b(), WishObstacle::ShuttingDown))
    );

    let mut rig = placed_from_outside();
    let other = ShardId(5);
    rig.wants(&[(other, wish(&b(), 5))]);
    let why = |rig: &Rig| rig.coordinator.placement(other).unwrap().decided.pop();
    rig.coordinator.choose_home(other, &b());
    rig.looks();
    assert!(why(&rig).is_some_and(|said| said.decision == ShardDecision::Wished(Box::new(wish(&b(), 5)))));
    rig.coordinator.late = 1;
    rig.looks();
    let silent = not_followed(&b(), WishObstacle::StoreSilent);
    assert!(why(&rig).is_some_and(|said| said.decision == silent));
}

#[test]
fn a_shard_that_begins_elsewhere_than_it_is_wanted_says_why() {
    let mut rig = Rig::active();
    rig.coordinator.kind.settings.allocation = Some(AllocationSettings::External);
    rig.wants(&[(S, wish(&c(), 5))]);
    rig.looks();
    rig.view_with(&UP(), &[c()]);
    rig.asks_home(&a(), S);
    let begun = [
        ShardDecision::Wished(Box::new(wish(&c(), 5))),
        not_followed(&c(), WishObstacle::Unreachable),
        at(a(), false),
    ];
    assert_eq!(rig.decided(), begun);
    // It goes there as soon as it can.
    rig.view(&UP());
    rig.looks();
    assert!(rig.placement().is_moving);
}

#[test]
fn reasons_that_come_and_go_leave_what_was_decided_in_the_history() {
    let mut rig = placed_from_outside();
    rig.wants(&[(S, wish(&c(), 5))]);
    rig.view_with(&UP(), &[c()]);
    rig.looks();
    let first = rig.placement().decided.pop().unwrap();
    rig.fixture.now.unix_ms += 1_000;
    rig.looks();
    assert_eq!(
        rig.placement().decided.pop(),
        Some(first),
        "it is as long ago as that"
    );
    for round in 0..3 * DECISIONS_MAX {
        rig.fixture.now.unix_ms += 1_000;
        let unreachable = if round % 2 == 0 { b() } else { c() };
        rig.view_with(&UP(), &[unreachable]);
        rig.looks();
    }
    let last = rig.placement().decided.pop().unwrap();
    assert_eq!(last.at_ms, rig.fixture.now.unix_ms);
    let wished = ShardDecision::Wished(Box::new(wish(&c(), 5)));
    let last = not_followed(&c(), WishObstacle::Unreachable);
    assert_eq!(rig.decided(), [at(a(), false), wished, last.clone()]);
    // Another wish is another matter.
    let stranger = node("d", 4);
    rig.wants(&[(S, wish(&stranger, 6))]);
    rig.looks();
    let not_there = not_followed(&stranger, WishObstacle::NotAMember);
    assert_eq!(
        rig.decided()[2..],
        [
            last,
            ShardDecision::Wished(Box::new(wish(&stranger, 6))),
            not_there
        ]
    );
}

#[test]
fn a_hand_off_that_was_cancelled_says_that_the_shard_stays() {
    let mut rig = placed_from_outside();
    rig.wants(&[(S, wish(&b(), 5))]);
    rig.looks();
    // Nobody answers.
    let timeout = rig.coordinator.kind.config.handoff_timeout;
    rig.fire(timeout);
    assert!(!rig.placement().is_moving);
    assert_eq!(
        rig.decided()[2..],
        [
            ShardDecision::Moves { from: a() },
            ShardDecision::Stays { home: a() }
        ]
    );
}

#[test]
fn a_coordinator_that_takes_over_knows_what_is_wanted() {
    let mut rig = Rig::on(b(), 6000);
    rig.wants(&[(S, wish(&c(), 5))]);
    assert_eq!(rig.coordinator.placement(S), None, "it coordinates nothing");
    rig.view(&[(b(), Status::Up), (c(), Status::Up)]);
    for node in [b(), c()] {
        rig.register(&node, &[]);
    }
    assert_eq!(rig.placement().wish, Some(wish(&c(), 5)));
    assert_eq!(rig.decided(), []);
}

#[test]
fn a_decision_is_as_small_as_ever() {
    let bytes = core::mem::size_of::<crate::sharding::protocol::survey::Decided>();
    assert!(bytes <= 48, "{bytes}: there may be half a million of them");
}
