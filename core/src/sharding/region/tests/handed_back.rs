//! Messages that reach a region which does not serve their shard: they go back to the node whose user sent them, and that
//! one sends them again, in order. Spec: sharding 10.14 b.

use super::*;
use crate::sharding::state::chain::AskChain;

/// A message of a user of `from`.
fn foreign(text: &str, from: UniqueAddress) -> PendingMessage {
    PendingMessage {
        from: Some(from),
        ..pending(text, None, 1)
    }
}

/// A message of this node's user that comes back after so many hops.
fn comes_back(rig: &mut Rig, text: &str, hops: u8, from: UniqueAddress) -> Vec<Effect> {
    let pending = PendingMessage {
        from: None,
        ..pending(text, None, hops)
    };
    rig.act(|region, shared| region.on_handed_back(shared, &from, pending))
}

fn asks_home() -> Effect {
    says(a(), ShardingBody::GetShardHome { shard: SHARD })
}

fn learns(rig: &mut Rig, home: UniqueAddress) -> Vec<Effect> {
    rig.act(|region, shared| region.on_shard_homes(shared, &a(), term(), homes(home)))
}

#[test]
fn what_is_not_served_here_is_handed_back_and_never_passed_on() {
    let mut rig = Rig::registered(true);
    learns(&mut rig, c());
    let effects = rig.act(|region, shared| region.route(shared, foreign("1", a())));
    assert_eq!(effects, vec![hands_back(a(), envelope("1", None, 1))]);
    let own = rig.route("2");
    assert_eq!(own, vec![sends(c(), envelope("2", None, 0))], "only users' own");
    assert_eq!(rig.fixture.stats.sharding.entity_messages_handed_back, 1);
}

#[test]
fn what_waits_for_a_home_that_turns_out_to_be_elsewhere_is_handed_back_in_order() {
    let mut rig = Rig::registered(true);
    for text in ["1", "2"] {
        rig.act(|region, shared| region.route(shared, foreign(text, c())));
    }
    assert_eq!(
        learns(&mut rig, a()),
        vec![
            hands_back(c(), envelope("1", None, 1)),
            hands_back(c(), envelope("2", None, 1)),
        ]
    );
}

#[test]
fn what_comes_back_goes_out_again_in_order_and_before_what_came_later() {
    let mut rig = Rig::registered(true);
    learns(&mut rig, c());
    for text in ["1", "2", "3"] {
        rig.route(text);
    }
    assert_eq!(comes_back(&mut rig, "1", 2, c()), vec![asks_home()]);
    assert_eq!(rig.route("4"), vec![], "the home is not believed any more");
    assert_eq!(comes_back(&mut rig, "2", 2, c()), vec![], "asked once");
    assert_eq!(comes_back(&mut rig, "3", 2, c()), vec![]);
    let again = [("1", 2), ("2", 2), ("3", 2), ("4", 0)];
    let again: Vec<Effect> = again
        .iter()
        .map(|(text, hops)| sends(a(), envelope(text, None, *hops)))
        .collect();
    assert_eq!(learns(&mut rig, a()), again);
}

#[test]
fn what_comes_back_after_a_new_home_is_known_goes_there_at_once() {
    let mut rig = Rig::registered(true);
    learns(&mut rig, c());
    rig.route("1");
    learns(&mut rig, a());
    let effects = comes_back(&mut rig, "1", 2, c());
    assert_eq!(effects, vec![sends(a(), envelope("1", None, 2))]);
    assert_eq!(rig.route("2"), vec![sends(a(), envelope("2", None, 0))]);
}

#[test]
fn a_message_that_comes_back_to_the_shards_new_home_is_delivered() {
    let mut rig = Rig::hosting();
    let effects = comes_back(&mut rig, "1", 2, c());
    assert!(effects.contains(&delivers(slot(0), "1")), "{effects:?}");
}

#[test]
fn a_message_that_comes_back_again_and_again_waits_longer_and_is_given_up_in_the_end() {
    let mut rig = Rig::registered(true);
    for hops in [2, 4] {
        learns(&mut rig, c());
        assert_eq!(comes_back(&mut rig, "1", hops, c()), vec![asks_home()], "at once");
    }
    learns(&mut rig, c());
    assert_eq!(comes_back(&mut rig, "1", 6, c()), vec![], "with the next retry");
    assert!(rig.timer(RegionTimer::Retry));
    let retry = rig.act(|region, shared| region.on_timer(shared, &RegionTimer::Retry));
    assert_eq!(retry, vec![asks_home()]);
    learns(&mut rig, c());
    let dead = ShardingEvent::DeadLetter {
        shard: SHARD,
        reason: AskFailure::HandedOff,
    };
    assert_eq!(comes_back(&mut rig, "1", 8, c()), vec![event(dead)]);
}

#[test]
fn what_comes_for_a_shard_that_stops_is_handed_back_at_once_unless_it_starts_here_again() {
    let mut rig = Rig::hosting();
    rig.route("1");
    rig.act(|region, shared| region.on_hand_off(shared, &a(), term(), SHARD));
    let effects = rig.act(|region, shared| region.route(shared, foreign("2", c())));
    assert_eq!(effects, vec![hands_back(c(), envelope("2", None, 1))]);
    rig.act(|region, shared| region.on_host_shard(shared, &a(), term(), SHARD));
    let effects = rig.act(|region, shared| region.route(shared, foreign("3", c())));
    assert_eq!(effects, vec![], "kept for its next incarnation");
    // It is to stop after all.
    let effects = rig.act(|region, shared| region.on_hand_off(shared, &a(), term(), SHARD));
    assert_eq!(effects, vec![hands_back(c(), envelope("3", None, 1))]);
}

#[test]
fn a_region_that_has_ended_hands_back_what_others_send_and_fails_what_comes_back() {
    let mut rig = Rig::registered(true);
    rig.act(|region, shared| region.drain(shared));
    assert!(rig.region.is_drained());
    let effects = rig.act(|region, shared| region.route(shared, foreign("1", c())));
    assert_eq!(effects, vec![hands_back(c(), envelope("1", None, 1))]);
    let dead = ShardingEvent::DeadLetter {
        shard: SHARD,
        reason: AskFailure::NodeStoppedUnsent,
    };
    assert_eq!(comes_back(&mut rig, "2", 2, c()), vec![event(dead)]);
}

#[test]
fn a_region_whose_time_to_hand_over_is_up_hands_back_and_does_not_answer_for_others() {
    let mut rig = Rig::registered(true);
    rig.act(|region, shared| region.route(shared, foreign("1", c())));
    rig.route("2");
    rig.act(|region, shared| region.drain(shared));
    let effects = rig.act(|region, shared| region.on_timer(shared, &RegionTimer::Drain));
    let dead = event(ShardingEvent::DeadLetter {
        shard: SHARD,
        reason: AskFailure::NodeStoppedUnsent,
    });
    assert_eq!(effects[..2], [hands_back(c(), envelope("1", None, 1)), dead]);
}

#[test]
fn an_expired_message_is_dropped_instead_of_handed_back() {
    let mut rig = Rig::registered(true);
    let ticket = AskTicket {
        ask: AskRef { asker: c(), id: 9 },
        remaining_ms: 500,
        chain: AskChain::default(),
    };
    let mut asked = pending("1", Some(ticket), 1);
    asked.deadline = Some(rig.fixture.mono() + Duration::from_millis(500));
    rig.act(|region, shared| region.route(shared, asked));
    rig.fixture.stand_still(Duration::from_millis(500));
    assert_eq!(learns(&mut rig, a()), vec![]);
    assert_eq!(rig.fixture.stats.sharding.entity_messages_expired, 1);
}
