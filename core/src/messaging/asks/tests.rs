//! Asks are answered exactly once, and the answer says whether the message may have been handled.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use super::*;
use crate::config::Config;
use crate::cx::OfSharding;
use crate::effect::{Answer, Effect};
use crate::fixture::{Fixture, node};
use crate::ident::ClusterName;
use crate::sharding::state::ids::{KindId, ShardId};
use crate::timer::{ShardingTimer, Timer};

const KIND: KindId = KindId::from_raw(1);
const SHARD: ShardId = ShardId(2);

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

fn failed(token: Token, reason: AskFailure) -> Effect {
    Effect::Reply {
        token,
        answer: Answer::Asked(Err(reason)),
    }
}

#[test]
fn a_timeout_says_whether_the_message_had_been_sent() {
    let mut fixture = Fixture::new(node("a", 1));
    let mut asks = Asks::default();
    let (first, _) = asks
        .open(&mut fixture.cx::<OfSharding>(), 10, (KIND, SHARD), secs(5))
        .unwrap();
    let (second, _) = asks
        .open(&mut fixture.cx::<OfSharding>(), 11, (KIND, SHARD), secs(5))
        .unwrap();
    asks.sent(second, &node("b", 2));
    let due = fixture.mono() + secs(5);
    assert_eq!(
        fixture.next_timer(due),
        Some(Timer::Sharding(ShardingTimer::AskDeadline))
    );
    let buffered = asks.on_deadline(&mut fixture.cx::<OfSharding>(), |_| false);
    let place = (KIND, SHARD);
    assert_eq!(buffered, vec![ExpiredAsk { id: first, place }]);
    assert_eq!(
        fixture.effects(),
        vec![
            failed(10, AskFailure::TimeoutBuffered),
            failed(11, AskFailure::TimeoutSent)
        ]
    );
    assert_eq!(
        (asks.len(), fixture.timers.next()),
        (0, None),
        "nothing is waited for any more"
    );
}

#[test]
fn a_lost_node_fails_exactly_the_asks_that_were_sent_there() {
    let mut fixture = Fixture::new(node("a", 1));
    let mut asks = Asks::default();
    let ids: Vec<u64> = (0..3)
        .map(|token| {
            asks.open(&mut fixture.cx::<OfSharding>(), token, (KIND, SHARD), secs(5))
                .unwrap()
                .0
        })
        .collect();
    asks.sent(ids[0], &node("b", 2));
    asks.sent(ids[1], &node("c", 3));
    asks.on_node_lost(&mut fixture.cx::<OfSharding>(), &node("b", 2));
    assert_eq!(fixture.effects(), vec![failed(0, AskFailure::PeerLost)]);
    assert!(
        !asks.close(&mut fixture.cx::<OfSharding>(), ids[0], Ok(Box::from([1]))),
        "a late answer finds nobody"
    );
    assert!(asks.close(&mut fixture.cx::<OfSharding>(), ids[1], Ok(Box::from([1]))));
    asks.stop(&mut fixture.cx::<OfSharding>());
    let answered = Effect::Reply {
        token: 1,
        answer: Answer::Asked(Ok(Box::from([1]))),
    };
    assert_eq!(
        fixture.effects(),
        vec![answered, failed(2, AskFailure::NodeStoppedUnsent)]
    );
    asks.check_invariants().unwrap();
}

#[test]
fn i_44_what_comes_back_unsent_when_its_node_is_no_member_any_more_was_not_handled() {
    let mut fixture = Fixture::new(node("a", 1));
    let mut asks = Asks::default();
    let ids: Vec<u64> = (0..3)
        .map(|token| {
            asks.open(&mut fixture.cx::<OfSharding>(), token, (KIND, SHARD), secs(5))
                .unwrap()
                .0
        })
        .collect();
    for id in &ids {
        asks.sent(*id, &node("b", 2));
    }
    asks.give_up_on(&mut fixture.cx::<OfSharding>(), &node("b", 2));
    assert_eq!(fixture.effects(), vec![], "the host has its turn");
    assert!(asks.close(
        &mut fixture.cx::<OfSharding>(),
        ids[0],
        Err(AskFailure::Unreachable)
    ));
    assert!(
        asks.close(&mut fixture.cx::<OfSharding>(), ids[1], Ok(Box::from([1]))),
        "answered before"
    );
    asks.check_invariants().unwrap();
    fixture.effects();
    fixture.stand_still(GIVEN_BACK_WITHIN);
    asks.on_deadline(&mut fixture.cx::<OfSharding>(), |_| false);
    assert_eq!(fixture.effects(), vec![failed(2, AskFailure::PeerLost)]);
    asks.check_invariants().unwrap();
}

#[test]
fn open_asks_are_bounded_and_timeouts_clamped() {
    let mut config = Config::lan(ClusterName::new("test").unwrap());
    config.sharding.open_asks_max = 1;
    let mut fixture = Fixture::with_config(node("a", 1), config);
    let mut asks = Asks::default();
    let (_, deadline) = asks
        .open(&mut fixture.cx::<OfSharding>(), 1, (KIND, SHARD), Duration::ZERO)
        .unwrap();
    assert_eq!(deadline.since(fixture.mono()), TIMEOUT_MIN);
    let refused = asks.open(&mut fixture.cx::<OfSharding>(), 2, (KIND, SHARD), Duration::MAX);
    assert_eq!(refused, Err(AskFailure::TooManyOpenAsks));
}

#[test]
fn a_nearer_deadline_moves_the_timer_and_an_answered_one_fires_for_nothing() {
    let mut fixture = Fixture::new(node("a", 1));
    let mut asks = Asks::default();
    let start = fixture.mono();
    asks.open(&mut fixture.cx::<OfSharding>(), 1, (KIND, SHARD), secs(9))
        .unwrap();
    let (near, _) = asks
        .open(&mut fixture.cx::<OfSharding>(), 2, (KIND, SHARD), secs(1))
        .unwrap();
    assert_eq!(
        fixture.timers.next(),
        Some((start + secs(1), &Timer::Sharding(ShardingTimer::AskDeadline)))
    );
    asks.close(&mut fixture.cx::<OfSharding>(), near, Ok(Box::from([])));
    assert_eq!(
        fixture.next_timer(start + secs(1)),
        Some(Timer::Sharding(ShardingTimer::AskDeadline))
    );
    assert_eq!(
        asks.on_deadline(&mut fixture.cx::<OfSharding>(), |_| false),
        vec![]
    );
    assert_eq!(
        fixture.timers.next(),
        Some((start + secs(9), &Timer::Sharding(ShardingTimer::AskDeadline)))
    );
    asks.check_invariants().unwrap();
}

#[test]
fn a_deadline_without_an_ask_and_an_ask_without_its_deadline_are_named() {
    let mut fixture = Fixture::new(node("a", 1));
    let mut asks = Asks::default();
    let (id, _) = asks
        .open(&mut fixture.cx::<OfSharding>(), 10, (KIND, SHARD), secs(5))
        .unwrap();
    assert_eq!(asks.check_invariants(), Ok(()));
    let named = Err(String::from("asks: the deadlines do not mirror the open asks"));
    let due = *asks.deadlines.first().unwrap();
    asks.deadlines.insert((due.0, id + 1));
    assert_eq!(asks.check_invariants(), named);
    asks.deadlines.remove(&due);
    assert_eq!(asks.check_invariants(), named, "as many as there are asks");
}
