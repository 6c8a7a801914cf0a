//! Shards that are given with tokens: which are stale, and what begins anew (10.15, 10.16).

use super::*;
use crate::effect::HostedInstance;
use crate::owner::Requester;
use crate::sharding::state::fields::StoreMode;

const FIRST: Token = Token::new(2, 5);
const LATER: Token = Token::new(2, 6);

impl Rig {
    /// The coordinator gives the shard with a token.
    fn given(&mut self, token: Token) -> Vec<Effect> {
        self.act(|region, shared| region.on_host_shard(shared, &a(), term(), (SHARD, token)))
    }

    fn entity_stops(&mut self, slot: Slot) -> Vec<Effect> {
        let tenant = self.slots.release(slot).unwrap();
        self.act(|region, shared| region.on_entity_stopped(shared, tenant.shard, &tenant.entity))
    }

    fn hosting_with(token: Token) -> Self {
        let mut rig = Self::registered(true);
        rig.region.kind.settings.store_mode = Some(StoreMode::Events);
        rig.given(token);
        rig
    }
}

fn started() -> Effect {
    let (term, shard) = (term(), SHARD);
    says(a(), ShardingBody::ShardStarted { term, shard })
}

fn stopped() -> Effect {
    let (term, shard) = (term(), SHARD);
    says(a(), ShardingBody::ShardStopped { term, shard })
}

fn tokens_in(effects: &[Effect]) -> Vec<PlacementToken> {
    let token = |effect: &Effect| match effect {
        Effect::Host(
            Requester::Sharding,
            HostOrder::Start {
                instance: HostedInstance::Entity { token, .. },
                ..
            },
        ) => Some(*token),
        _ => None,
    };
    effects.iter().filter_map(token).collect()
}

#[test]
fn s_10_15_an_entity_is_started_with_the_token_of_its_shard() {
    let mut rig = Rig::hosting_with(FIRST);
    let effects = rig.route("1");
    let token = PlacementToken {
        token: FIRST,
        is_stored: true,
    };
    assert_eq!(tokens_in(&effects), [token]);
    assert_eq!(token.stored(), Some(FIRST));
    // Where homes are in memory it orders placements, and nothing that outlives the cluster may be fenced by
    // it.
    let mut rig = Rig::registered(true);
    rig.given(FIRST);
    let tokens = tokens_in(&rig.route("1"));
    assert_eq!((tokens[0].token, tokens[0].stored()), (FIRST, None));
}

#[test]
fn s_10_16_a_shard_that_is_given_with_a_higher_token_begins_anew_with_it() {
    let mut rig = Rig::hosting_with(FIRST);
    rig.route("1");
    let effects = rig.given(LATER);
    assert_eq!(
        effects,
        [Effect::Host(
            Requester::Sharding,
            HostOrder::Stop { slot: slot(0) }
        )]
    );
    assert_eq!(rig.route("2"), [], "it waits");
    assert_eq!(rig.given(LATER), [], "it has not begun again");
    let effects = rig.entity_stops(slot(0));
    assert!(effects.contains(&started()), "{effects:?}");
    assert!(!effects.contains(&stopped()), "{effects:?}");
    assert_eq!(tokens_in(&effects)[0].token, LATER, "{effects:?}");
    assert!(matches!(
        effects.last(),
        Some(Effect::Host(Requester::Sharding, HostOrder::Deliver { .. }))
    ));
    assert_eq!(rig.given(LATER), [started()], "the same again changes nothing");
}

#[test]
fn a_shard_without_an_entity_just_takes_the_higher_token() {
    let mut rig = Rig::hosting_with(FIRST);
    assert_eq!(rig.given(LATER), [started()]);
    assert_eq!(tokens_in(&rig.route("1"))[0].token, LATER);
}

#[test]
fn s_10_16_a_lower_token_is_stale_and_the_coordinator_hears_of_the_higher_one() {
    let mut rig = Rig::hosting_with(LATER);
    rig.route("1");
    let effects = rig.given(FIRST);
    let tokens = ShardingBody::ShardTokens {
        tokens: vec![(SHARD, LATER)],
    };
    let fields = KindFields::of(&rig.region.kind.settings);
    let registers = ShardingBody::Register {
        fields,
        hosted: vec![SHARD],
        draining: false,
        part: ListPart::WHOLE,
    };
    assert_eq!(effects, [says(a(), tokens), says(a(), registers)]);
    assert_eq!(rig.fixture.stats.sharding.tokens_stale, 1);
    assert_eq!(rig.route("2"), [delivers(slot(0), "2")], "it goes on");
}

#[test]
fn what_is_told_to_live_here_and_does_not_is_not_begun_without_a_token() {
    let mut rig = Rig::hosting_with(FIRST);
    let me = node("b", 2);
    rig.act(|region, shared| region.on_hand_off(shared, &a(), term(), (SHARD, false)));
    let effects = rig.act(|region, shared| region.on_shard_homes(shared, &a(), term(), homes(me)));
    assert_eq!(effects, [stopped()], "so that it is given again");
    assert!(rig.region.runs_nothing());
    assert!(rig.given(LATER).contains(&started()));
}

#[test]
fn what_stops_when_it_is_told_to_live_here_goes_on_with_its_token() {
    let mut rig = Rig::hosting_with(FIRST);
    rig.route("1");
    let me = node("b", 2);
    rig.act(|region, shared| region.on_hand_off(shared, &a(), term(), (SHARD, false)));
    rig.act(|region, shared| region.on_shard_homes(shared, &a(), term(), homes(me)));
    assert!(rig.region.shards.running(SHARD).is_some());
    assert_eq!(rig.region.shards.hosted(SHARD).unwrap().token.token, FIRST);
    assert_eq!(
        rig.entity_stops(slot(0)),
        [],
        "it goes on, and its next message starts it"
    );
    assert!(!rig.route("2").is_empty());
}

#[test]
fn what_stops_and_is_given_again_with_another_token_begins_anew_with_that() {
    let mut rig = Rig::hosting_with(FIRST);
    rig.route("1");
    rig.act(|region, shared| region.on_hand_off(shared, &a(), term(), (SHARD, false)));
    assert_eq!(rig.given(LATER), [], "what runs has the earlier one");
    assert!(rig.region.shards.running(SHARD).is_none());
    let effects = rig.entity_stops(slot(0));
    assert!(effects.contains(&started()), "{effects:?}");
    assert_eq!(rig.region.shards.hosted(SHARD).unwrap().token.token, LATER);
}

#[test]
fn s_10_15_a_shard_that_was_given_during_a_pause_is_not_said_to_have_stopped() {
    let mut rig = Rig::registered(true);
    rig.region.on_paused();
    assert_eq!(rig.given(FIRST), []);
    let me = node("b", 2);
    let effects = rig.act(|region, shared| region.on_shard_homes(shared, &a(), term(), homes(me)));
    assert_eq!(effects, [], "it has not begun, and will");
    let effects = rig.act(|region, shared| region.on_still_member(shared));
    assert!(effects.contains(&started()), "{effects:?}");
}

#[test]
fn what_is_given_without_a_token_goes_on_with_its_own_or_is_given_again() {
    let mut rig = Rig::registered(true);
    assert_eq!(rig.given(Token::NONE), [stopped()], "nothing begins without one");
    assert!(rig.region.shards.hosted(SHARD).is_none());
    assert!(rig.given(FIRST).contains(&started()));
    assert_eq!(rig.given(Token::NONE), [started()], "it goes on");
    assert_eq!(rig.region.shards.hosted(SHARD).unwrap().token.token, FIRST);
}
