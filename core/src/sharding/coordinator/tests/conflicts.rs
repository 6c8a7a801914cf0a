//! Words of another term, and shards that more than one region claims.

use super::*;

/// The same node under the term it had as the oldest of other members.
fn another_term() -> Term {
    Term {
        up_number: UpNumber::new(9),
        node: a(),
    }
}

fn stop(by_force: bool) -> ShardingBody {
    ShardingBody::HandOff {
        term: term(),
        shard: S,
        by_force,
    }
}

fn timeout(running: &[UniqueAddress]) -> Effect {
    event(ShardingEvent::HandOffTimeout {
        shard: S,
        unmarked: vec![],
        running: running.to_vec(),
    })
}

fn conflict() -> Effect {
    event(ShardingEvent::ShardConflict { shard: S })
}

#[test]
fn b_59_no_region_counts_under_the_term_that_asked_only() {
    let mut rig = Rig::on(a(), 64);
    rig.view(&[(a(), Status::Up), (b(), Status::Up)]);
    rig.register(&a(), &[]);
    let late = another_term();
    rig.act(|coordinator, cx| coordinator.on_no_region(cx, &b(), &late));
    assert_eq!(
        rig.phase(),
        Some(CoordinatorPhase::Recovering),
        "said to another coordinator: b may have a region by now"
    );
    rig.act(|coordinator, cx| coordinator.on_no_region(cx, &b(), &term()));
    assert_eq!(rig.phase(), Some(CoordinatorPhase::Active));
}

#[test]
fn b_59_an_acknowledgement_counts_under_the_term_that_asked_only() {
    let mut rig = Rig::moving();
    rig.acks(&a());
    rig.acks(&c());
    let late = another_term();
    let effects = rig.act(|coordinator, cx| coordinator.on_begin_hand_off_ack(cx, &b(), &late, (S, 1)));
    assert_eq!(effects, vec![], "b may still send to the old home");
    assert_eq!(rig.acks(&b()), vec![says(b(), stop(false))]);
}

/// `b` hosts shard `S` and is being emptied; everybody has forgotten the home and `b` was told to stop.
fn stopping() -> Rig {
    let mut rig = Rig::moving();
    for node in [a(), b(), c()] {
        rig.acks(&node);
    }
    rig
}

#[test]
fn a_second_claimant_during_a_hand_off_makes_it_a_conflict() {
    let mut rig = stopping();
    let effects = rig.register(&c(), &[S]);
    assert!(effects.contains(&says(c(), stop(true))), "{effects:?}");
    assert_eq!(rig.stopped(&b()), vec![], "c still runs it");
    // The time limit passes: a shard with two claimants may not keep its home as one that merely moves does.
    rig.asks_home(&b(), S);
    let effects = rig.fire(Duration::from_secs(60));
    assert!(effects.contains(&timeout(&[c()])));
    assert!(!effects.contains(&says(b(), home(S, b()))), "b has stopped it");
    assert!(rig.coordinator.hand_offs[&S].claims.is_conflict());
}

#[test]
fn the_same_claim_again_during_a_hand_off_is_no_conflict() {
    let mut rig = stopping();
    rig.register(&b(), &[S]);
    rig.asks_home(&c(), S);
    rig.fire(Duration::from_secs(60));
    let effects = rig.started(&b(), S);
    assert_eq!(effects, vec![says(c(), home(S, b()))], "it stays where it is");
}

#[test]
fn a_conflict_that_outlives_its_time_limit_begins_again_until_both_have_stopped() {
    let mut rig = Rig::active();
    rig.register(&b(), &[S]);
    let effects = rig.register(&c(), &[S]);
    assert!(effects.contains(&conflict()));
    for node in [a(), b(), c()] {
        rig.acks(&node);
    }
    rig.stopped(&b());
    for round in 1..=3 {
        let effects = rig.fire(Duration::from_secs(60));
        assert!(effects.contains(&timeout(&[c()])), "round {round}");
        let begins = ShardingBody::BeginHandOff {
            term: term(),
            shard: S,
            number: round + 1,
        };
        assert!(
            effects.contains(&says(c(), begins)),
            "from the beginning: {round}"
        );
        assert_eq!(rig.asks_home(&b(), S), vec![], "told to nobody: {round}");
        for node in [a(), b(), c()] {
            rig.acks(&node);
        }
    }
    let last = rig.stopped(&c());
    let anew = |effect: &Effect| {
        matches!(
            effect,
            Effect::Notify(Event::Sharding {
                event: ShardingEvent::ShardAllocated { .. },
                ..
            })
        )
    };
    assert_eq!(last.iter().filter(|effect| anew(effect)).count(), 1, "{last:?}");
}

#[test]
fn b_59_that_a_shard_has_stopped_counts_under_the_term_that_asked_only() {
    let mut rig = stopping();
    let late = another_term();
    let effects = rig.act(|coordinator, cx| coordinator.on_shard_stopped(cx, &b(), &late, S));
    assert_eq!(effects, vec![]);
    assert!(rig.coordinator.hand_offs.contains_key(&S), "b may run it still");
    rig.stopped(&b());
    assert!(!rig.coordinator.hand_offs.contains_key(&S));
}

#[test]
fn a_conflict_that_not_all_have_marked_in_time_begins_again_and_is_never_cancelled() {
    let mut rig = Rig::active();
    rig.register(&b(), &[S]);
    rig.register(&c(), &[S]);
    rig.acks(&a());
    rig.acks(&b());
    let effects = rig.fire(Duration::from_secs(60));
    let late = event(ShardingEvent::HandOffTimeout {
        shard: S,
        unmarked: vec![c()],
        running: vec![],
    });
    assert!(effects.contains(&late), "{effects:?}");
    let begins = ShardingBody::BeginHandOff {
        term: term(),
        shard: S,
        number: 2,
    };
    for node in [b(), c()] {
        assert!(effects.contains(&says(node, begins.clone())), "{effects:?}");
    }
    assert!(!effects.contains(&says(b(), host(S))), "nobody goes on");
    for node in [a(), b(), c()] {
        rig.acks(&node);
    }
    assert_eq!(rig.stopped(&b()), vec![]);
    assert_ne!(rig.stopped(&c()), vec![], "it gets a home once both have stopped");
}
