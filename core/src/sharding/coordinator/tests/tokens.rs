//! Which placement came later: tokens of claims, of choices and of what is stored (10.15, 10.16).

use super::*;

fn tokens_of(rig: &Rig) -> Vec<(ShardId, Token)> {
    rig.given.clone()
}

fn hand_off() -> ShardingBody {
    let (term, shard) = (term(), S);
    ShardingBody::HandOff {
        term,
        shard,
        by_force: true,
    }
}

#[test]
fn s_10_15_each_placement_has_a_token_above_all_that_were_given_or_claimed() {
    let mut rig = Rig::active();
    rig.coordinator.set_home(ShardId(0), at(&a()));
    rig.asks_home(&c(), S);
    let first = tokens_of(&rig)[0].1;
    assert_eq!(first, Token::new(1, 1), "the term is the coordinator's");
    rig.asks_home(&c(), ShardId(5));
    let second = tokens_of(&rig)[0].1;
    assert!(second > first);
    // A region had something from an earlier coordinator with a higher count, whatever that may be worth.
    rig.claims(&b(), &[(S, first), (ShardId(9), Token::new(1, 40))]);
    rig.coordinator.clear_home(&mut rig.fixture.cx(), ShardId(5));
    rig.asks_home(&b(), ShardId(5));
    assert_eq!(tokens_of(&rig), [(ShardId(5), Token::new(1, 41))]);
    // What is said again is said with the same token.
    rig.fire(Duration::from_secs(10));
    assert_eq!(tokens_of(&rig), [(ShardId(5), Token::new(1, 41))]);
}

#[test]
fn s_10_16_of_two_claims_the_higher_token_wins_and_the_other_stops_and_confirms() {
    for winner_first in [true, false] {
        let mut rig = Rig::active();
        let (lower, higher) = (Token::new(1, 3), Token::new(1, 4));
        if winner_first {
            rig.claims(&b(), &[(S, higher)]);
            rig.claims(&c(), &[(S, lower)]);
        } else {
            rig.claims(&c(), &[(S, lower)]);
            rig.claims(&b(), &[(S, higher)]);
        }
        assert_eq!(rig.fixture.stats.sharding.claims_outdone, 1);
        for node in [a(), b()] {
            assert_eq!(rig.acks(&node), vec![]);
        }
        assert_eq!(rig.acks(&c()), vec![says(c(), hand_off())], "b goes on");
        assert_eq!(rig.asks_home(&a(), S), vec![], "c may still run it");
        assert_eq!(rig.asks_home(&c(), S), vec![]);
        let effects = rig.stopped(&c());
        assert_eq!(effects, vec![says(b(), host(S))], "no other home is chosen");
        assert_eq!(tokens_of(&rig), [(S, higher)], "and nothing begins anew");
        assert_eq!(rig.started(&b(), S), vec![says(c(), home(S, b()))]);
    }
}

#[test]
fn s_10_16_two_claims_of_which_none_is_higher_both_stop() {
    for token in [Token::NONE, Token::new(1, 3)] {
        let mut rig = Rig::active();
        rig.claims(&b(), &[(S, token)]);
        rig.claims(&c(), &[(S, token)]);
        rig.acks(&a());
        rig.acks(&b());
        let effects = rig.acks(&c());
        assert_eq!(effects, vec![says(b(), hand_off()), says(c(), hand_off())]);
    }
}

#[test]
fn s_10_16_a_third_claim_above_both_has_all_of_them_stop() {
    let mut rig = Rig::active();
    rig.claims(&a(), &[(S, Token::new(1, 4))]);
    rig.claims(&b(), &[(S, Token::new(1, 3))]);
    rig.claims(&c(), &[(S, Token::new(1, 5))]);
    for node in [a(), b(), c()] {
        rig.acks(&node);
    }
    for node in [a(), b()] {
        assert_eq!(rig.stopped(&node), vec![]);
    }
    let effects = rig.stopped(&c());
    assert!(
        effects.iter().any(|effect| matches!(
            effect,
            Effect::Notify(Event::Sharding {
                event: ShardingEvent::ShardAllocated { .. },
                ..
            })
        )),
        "{effects:?}"
    );
}

#[test]
fn s_10_16_the_winner_of_two_claims_may_be_lost_before_the_other_has_stopped() {
    let mut rig = Rig::active();
    rig.claims(&b(), &[(S, Token::new(1, 4))]);
    rig.claims(&c(), &[(S, Token::new(1, 3))]);
    rig.act(|coordinator, cx| coordinator.on_region_stopped(cx, &b()));
    for node in [a(), c()] {
        rig.acks(&node);
    }
    let effects = rig.stopped(&c());
    assert_eq!(effects, vec![allocated(S, a())]);
}

#[test]
fn b_58_a_token_that_nobody_can_have_given_is_rejected() {
    let mut rig = Rig::active();
    for (tokens, what) in [
        (vec![(ShardId(6000), Token::new(1, 1))], "shard"),
        (vec![(S, Token::new(1, 1 << 32))], "token"),
    ] {
        let effects = rig.act(|coordinator, cx| coordinator.on_shard_tokens(cx, &b(), tokens));
        let rejection = Rejection::Sharding(ShardingRejection::OutOfRange { what });
        let peer = b();
        let rejected = Event::Rejected { peer, rejection };
        assert_eq!(effects, vec![Effect::Notify(rejected)]);
    }
}

#[test]
fn s_10_16_a_home_that_says_an_old_token_during_its_hand_off_is_not_told_to_begin() {
    let mut rig = Rig::active();
    let (lower, higher) = (Token::new(1, 3), Token::new(1, 4));
    rig.claims(&b(), &[(S, higher)]);
    rig.claims(&b(), &[(S, lower)]);
    assert_eq!(tokens_of(&rig), [(S, higher)], "what it was told has not come");
    rig.act(|coordinator, cx| coordinator.on_graceful_shutdown(cx, &b()));
    rig.claims(&b(), &[(S, lower)]);
    assert_eq!(tokens_of(&rig), [], "it is about to be told to stop");
}

#[test]
fn i_100_a_shard_with_a_token_that_nobody_can_have_given_is_stopped_and_given_another() {
    let mut rig = Rig::active();
    for token in [
        Token::new(u64::MAX, u64::MAX),
        Token::new(u64::MAX >> 16, 1),
        Token::new(2, 1),
        Token::new(1, (1 << 16) + 100),
        Token::new(0, 1 << 40),
    ] {
        rig.claims(&b(), &[(S, token)]);
        for node in [a(), b(), c()] {
            rig.acks(&node);
        }
        rig.stopped(&b());
        let [(shard, given)] = tokens_of(&rig)[..] else {
            // Its new home is this node itself.
            rig.coordinator.clear_home(&mut rig.fixture.cx(), S);
            continue;
        };
        assert_eq!((shard, given.term), (S, 1), "after {token}");
        assert!(given.count < 10, "{given} after {token}");
        rig.coordinator.clear_home(&mut rig.fixture.cx(), S);
    }
    assert_eq!(rig.fixture.stats.sharding.claims_void, 5);
}

#[test]
fn i_100_a_token_out_of_reach_takes_no_shard_from_its_home_and_none_within_reach_is_raised_by_saying_it() {
    let mut rig = Rig::active();
    rig.asks_home(&c(), S);
    let given = rig.coordinator.places.token(S);
    let home = rig.coordinator.places.home(S).cloned().unwrap();
    let liar = [b(), c()].into_iter().find(|node| *node != home).unwrap();
    rig.claims(&liar, &[(S, Token::new(u64::MAX >> 16, 1))]);
    assert_eq!(rig.coordinator.places.home(S), Some(&home));
    assert_eq!(
        rig.fixture.stats.sharding.claims_void, 0,
        "it goes on where it is"
    );
    assert_eq!(rig.coordinator.places.token(S), given);
    for number in 1..200 {
        let token = Token::new(1, number << 16);
        rig.claims(&liar, &[(ShardId(70), token)]);
    }
    let mut highest = 0;
    for shard in 100..103 {
        rig.asks_home(&home, ShardId(shard));
        highest = highest.max(rig.coordinator.places.token(ShardId(shard)).count);
    }
    assert!(highest < 3 << 16, "{highest}");
}

#[test]
fn i_100_what_a_coordinator_before_was_told_by_a_liar_is_stopped_once_the_next_one_acts() {
    let mut rig = Rig::on(a(), 6000);
    rig.view(&[(a(), Status::Up), (b(), Status::Up), (c(), Status::Up)]);
    rig.register(&a(), &[]);
    rig.claims(
        &b(),
        &[(S, Token::new(u64::MAX >> 16, 9)), (ShardId(5), Token::new(1, 3))],
    );
    let effects = rig.register(&c(), &[]);
    assert!(rig.coordinator.is_active());
    let begins = |shard: ShardId| {
        let is_it = move |effect: &Effect| {
            matches!(effect, Effect::Send { message: Message::Sharding(ShardingMsg::Kind(said)), .. }
                if matches!(said.body, ShardingBody::BeginHandOff { shard: begun, .. } if begun == shard))
        };
        effects.iter().any(is_it)
    };
    assert!(begins(S), "{effects:?}");
    assert!(!begins(ShardId(5)), "what it can have been given stays");
}

#[test]
fn a_home_that_has_not_said_its_token_and_runs_the_shard_no_more_begins_it_with_a_new_one() {
    let mut rig = Rig::active();
    rig.register(&b(), &[S]);
    assert_eq!(rig.stopped(&b()), vec![says(b(), host(S))]);
    assert_eq!(tokens_of(&rig), [(S, Token::new(1, 1))]);
    assert_eq!(rig.stopped(&b()), vec![says(b(), host(S))], "said again");
    assert_eq!(tokens_of(&rig), [(S, Token::new(1, 1))]);
}
