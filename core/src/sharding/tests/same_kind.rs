//! A kind is the same everywhere or nowhere (sharding 10.11): nodes whose kinds differ, and that no entity
//! ever lives twice.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::*;
use crate::effect::{Answer, CommandError, ShardingCommandError};
use crate::event::ShardingEvent;
use crate::ident::Role;
use crate::input::KindSettings;
use crate::message::ShardingMsg;
use crate::sharding::protocol::registry::{
    RegistrationFields, RegistrationId, RegistrationVerdict, RegistryMsg,
};
use crate::sharding::state::extractor::ShardExtractor;
use crate::sharding::state::fields::{FieldDifference, KindFields};

use super::world::{config, settings};
use crate::config::KindConfig;
use crate::sharding::allocation::{AllocationSettings, HashingLimits};
use crate::sharding::passivation::PassivationSettings;
use crate::sharding::state::fields::StoreMode;
use crate::sharding::state::remember::RememberStore;

fn without_role() -> KindSettings {
    KindSettings {
        role: None,
        ..settings(true)
    }
}

fn leased() -> KindSettings {
    KindSettings {
        lease: true,
        ..settings(true)
    }
}

fn role() -> Option<Role> {
    settings(true).role
}

fn refused_for_its_role(answer: &Answer) -> bool {
    let Answer::Refused(CommandError::Sharding(ShardingCommandError::KindDiffers { difference })) = answer
    else {
        return false;
    };
    let (ours, theirs) = (None, role());
    *difference.fields() == [FieldDifference::Role { ours, theirs }]
}

#[test]
fn ten_carts_with_a_role_on_one_node_and_without_on_the_next_live_once_each() {
    let mut world = World::worker_second();
    world.all_up();
    world.register_as(1, settings(true));
    world.register_as(0, without_role());
    assert_eq!(world.peers[1].registered, [Answer::Done]);
    let said = &world.peers[0].registered;
    assert!(
        said.iter().all(refused_for_its_role) && said.len() == 1,
        "{said:?}"
    );
    let refused = |event: &ShardingEvent| matches!(event, ShardingEvent::KindRefused { .. });
    let refused_on = |event: &ShardingEvent| matches!(event, ShardingEvent::KindRefusedOn { .. });
    assert_eq!(world.said(0, refused), 1);
    assert_eq!(world.said(0, refused_on), 1, "it is the oldest too");
    // `World` fails as soon as a shard is on two nodes.
    for shard in 0..10 {
        let there = world.ask(1, &entity_in(shard), secs(5));
        let here = world.ask(0, &entity_in(shard), secs(5));
        assert!(world.peers[1].answers[&there].is_ok());
        assert_eq!(world.peers[0].answers[&here], Err(AskFailure::UnknownKind));
    }
    world.run_for(secs(20));
    assert_eq!(world.counts(), [0, 10]);
}

#[test]
fn a_kind_registered_before_joining_is_refused_by_an_event_and_comes_in_once_the_others_are_gone() {
    let mut world = World::without_kind_on(&[0, 1], 2, 0);
    world.register_as(0, without_role());
    world.register_as(1, settings(true));
    assert_eq!(world.peers[1].registered, [Answer::Done], "nobody could be asked");
    world.all_up();
    world.run_for(secs(3));
    let refused = |event: &ShardingEvent| matches!(event, ShardingEvent::KindRefused { .. });
    let who: Vec<usize> = (0..2).filter(|at| world.said(*at, refused) > 0).collect();
    let [loser] = who[..] else { panic!("{who:?}") };
    let winner = 1 - loser;
    let token = world.ask(loser, &entity_in(3), secs(5));
    assert_eq!(world.peers[loser].answers[&token], Err(AskFailure::KindRefused));
    world.touch_all(winner);
    world.crash_and_remove(&[winner]);
    world.run_for(MARGIN + secs(5));
    world.touch_all(loser);
    world.run_for(secs(5));
    assert_eq!(world.counts()[loser], SHARDS as usize);
}

#[test]
fn nothing_is_hosted_before_the_kind_is_accepted() {
    let mut world = World::without_kind_on(&[1], 2, 0);
    world.all_up();
    world.touch_all(0);
    world.lose = |message| matches!(message, Message::Sharding(ShardingMsg::Registry(_)));
    world.register(1, true);
    world.run_for(secs(30));
    assert_eq!(
        world.counts(),
        [12, 0],
        "no rebalancing to a region that is not accepted"
    );
    assert_eq!(world.peers[1].registered, [], "the caller waits");
    let token = world.ask(1, &entity_in(3), secs(30));
    world.lose = |_| false;
    world.run_for(secs(25));
    assert_eq!(world.peers[1].registered, [Answer::Done]);
    assert!(world.peers[1].answers[&token].is_ok(), "what waited is delivered");
    assert_eq!(world.counts(), [6, 6]);
}

#[test]
fn a_new_oldest_hears_everybody_before_it_accepts_a_newcomer() {
    let mut world = World::without_kind_on(&[2], 3, 0);
    world.all_up();
    world.touch_all(1);
    world.crash_and_remove(&[0]);
    // The new oldest does not hear itself: it does not know that it hosts the kind.
    world.cut.insert((1, 1));
    world.register_as(2, without_role());
    world.run_for(secs(1));
    assert_eq!(world.peers[2].registered, [], "the margin of the removed one");
    world.run_for(MARGIN + secs(5));
    let said = &world.peers[2].registered;
    assert!(
        said.iter().all(refused_for_its_role) && said.len() == 1,
        "{said:?}"
    );
}

#[test]
fn a_kind_that_is_refused_while_it_runs_stops_everything_and_may_come_back() {
    let mut world = World::formed(2, 0);
    world.touch_all(0);
    assert_eq!(world.counts(), [6, 6]);
    let term = world.peers[1]
        .sharding
        .region(kind())
        .unwrap()
        .registered
        .unwrap();
    let standing = RegistrationFields::Kind(KindFields::of(&without_role()));
    let verdicts = RegistryMsg::Verdicts {
        term,
        round: 1,
        verdicts: alloc::vec![(
            RegistrationId::Kind(kind()),
            RegistrationVerdict::Refused { standing }
        )],
    };
    world.cut.insert((1, 0));
    world.deliver(0, 1, Message::Sharding(ShardingMsg::Registry(verdicts)));
    let refused = |event: &ShardingEvent| matches!(event, ShardingEvent::KindRefused { .. });
    assert_eq!(world.said(1, refused), 1);
    assert_eq!(world.counts(), [6, 0]);
    let here = world.ask(1, &entity_in(2), secs(5));
    assert_eq!(world.peers[1].answers[&here], Err(AskFailure::KindRefused));
    // The oldest has not refused it, and says so as soon as it hears of it again.
    world.cut.clear();
    world.run_for(secs(5));
    let token = world.ask(1, &entity_in(2), secs(5));
    assert!(world.peers[1].answers[&token].is_ok());
}

#[test]
fn a_second_call_for_a_kind_that_is_being_registered_is_refused() {
    let mut world = World::without_kind_on(&[0, 1], 2, 0);
    world.all_up();
    world.lose = |message| matches!(message, Message::Sharding(ShardingMsg::Registry(_)));
    world.register(1, true);
    world.register(1, true);
    let pending = CommandError::Sharding(ShardingCommandError::RegistrationPending);
    assert_eq!(world.peers[1].registered, [Answer::Refused(pending)]);
    world.with(1, |peer| peer.sharding.halt(&mut peer.fixture.cx()));
    let stopped = Answer::Refused(CommandError::Stopped);
    assert_eq!(
        world.peers[1].registered.last(),
        Some(&stopped),
        "nobody waits for ever"
    );
}

#[test]
fn a_kind_whose_entities_find_other_shards_is_refused_and_one_that_agrees_is_served_by_kafkas_hash() {
    let kafka = || KindSettings {
        extractor: ShardExtractor::Kafka,
        ..settings(true)
    };
    let mut world = World::without_kind_on(&[0, 1], 2, 0);
    world.all_up();
    world.register_as(0, kafka());
    world.register_as(1, settings(true));
    let refused = |answer: &Answer| match answer {
        Answer::Refused(CommandError::Sharding(ShardingCommandError::KindDiffers { difference })) => {
            matches!(difference.fields(), [FieldDifference::Extractor { .. }])
        }
        _ => false,
    };
    assert!(
        world.peers[1].registered.iter().all(refused),
        "{:?}",
        world.peers[1].registered
    );
    world.register_as(1, kafka());
    assert_eq!(world.peers[1].registered.last(), Some(&Answer::Done));
    let entity = EntityId::from("12345");
    let token = world.ask(1, &entity, secs(5));
    assert!(world.peers[1].answers[&token].is_ok());
    let hosted: Vec<ShardId> = world.hosts().into_keys().collect();
    assert_eq!(hosted, [ShardExtractor::Kafka.shard_of(&entity, SHARDS)]);
    assert_ne!(hosted, [ShardId::of(&entity, SHARDS)]);
}

#[test]
fn a_kind_that_is_registered_twice_on_a_node_is_the_same_or_the_field_is_named() {
    let mut world = World::worker_second();
    world.all_up();
    world.register_as(1, settings(true));
    world.register_as(1, settings(true));
    assert_eq!(world.peers[1].registered, [Answer::Done, Answer::Done]);
    let mut refused = |settings| {
        world.register_as(1, settings);
        match world.peers[1].registered.pop() {
            Some(Answer::Refused(CommandError::Sharding(error))) => error,
            other => panic!("{other:?}"),
        }
    };
    let shards = settings(true).shards;
    let more = KindSettings {
        shards: shards + 1,
        ..settings(true)
    };
    let ShardingCommandError::KindDiffers { difference } = refused(more) else {
        panic!("its field is to be named");
    };
    let (ours, theirs) = (shards + 1, shards);
    assert_eq!(difference.fields(), [FieldDifference::Shards { ours, theirs }]);
    let ShardingCommandError::KindDiffers { difference } = refused(without_role()) else {
        panic!("its field is to be named");
    };
    let (ours, theirs) = (None, role());
    assert_eq!(difference.fields(), [FieldDifference::Role { ours, theirs }]);
    // What need not be the same everywhere is not changed by a second registration either.
    assert_eq!(refused(settings(false)), ShardingCommandError::KindConflict);
    let ShardingCommandError::KindDiffers { difference } = refused(leased()) else {
        panic!("its field is to be named");
    };
    let (ours, theirs) = (true, false);
    assert_eq!(difference.fields(), [FieldDifference::Lease { ours, theirs }]);
}

#[test]
fn a_node_without_leases_hosts_nothing_of_a_kind_that_has_them_elsewhere() {
    let mut world = World::without_kind_on(&[0, 1, 2], 3, 0);
    world.all_up();
    world.register_as(1, leased());
    world.register_as(2, settings(true));
    world.register_as(0, settings(false));
    assert_eq!(world.peers[1].registered, [Answer::Done]);
    let said = &world.peers[2].registered;
    let [Answer::Refused(CommandError::Sharding(ShardingCommandError::KindDiffers { difference }))] =
        &said[..]
    else {
        panic!("{said:?}");
    };
    let (ours, theirs) = (false, true);
    assert_eq!(difference.fields(), [FieldDifference::Lease { ours, theirs }]);
    assert_eq!(world.peers[0].registered, [Answer::Done], "a proxy has no leases");
    world.run_for(secs(5));
    assert!(world.peers[2].sharding.region(kind()).is_none());
}

#[test]
fn every_field_that_is_compared_is_refused_and_what_is_not_is_each_nodes_own() {
    let here = settings(true);
    let hour = secs(3_600);
    let refused = [
        KindSettings {
            shards: SHARDS + 1,
            ..here.clone()
        },
        KindSettings {
            role: None,
            ..here.clone()
        },
        KindSettings {
            extractor: ShardExtractor::Kafka,
            ..here.clone()
        },
        KindSettings {
            store_mode: Some(StoreMode::Events),
            ..here.clone()
        },
        KindSettings {
            remember_entities: Some(RememberStore::Data),
            ..here.clone()
        },
        KindSettings {
            lease: true,
            ..here.clone()
        },
    ];
    let own = KindSettings {
        passivation: Some(PassivationSettings::off()),
        allocation: Some(AllocationSettings::ConsistentHashing(HashingLimits::default())),
        config: Box::new(KindConfig {
            retry_interval: Some(hour),
            buffer_messages_max: Some(7),
            handoff_timeout: Some(hour),
            rebalance_interval: Some(hour),
            entity_restart_backoff: Some(hour),
            snapshot_after: Some(7),
            ..KindConfig::default()
        }),
        ..here.clone()
    };
    let mut config = config();
    config.journal.voters = 3;
    let said_of = |there: &KindSettings| {
        let mut world = World::bare(2, 0, &config);
        world.all_up();
        world.register_as(0, here.clone());
        world.register_as(1, there.clone());
        world
    };
    for there in refused {
        let world = said_of(&there);
        let [Answer::Refused(CommandError::Sharding(ShardingCommandError::KindDiffers { difference }))] =
            &world.peers[1].registered[..]
        else {
            panic!("{there:?}: {:?}", world.peers[1].registered);
        };
        assert_eq!(difference.fields().len(), 1, "{difference}");
    }
    let mut world = said_of(&own);
    assert_eq!(world.peers[1].registered, [Answer::Done]);
    world.touch_all(0);
    assert_eq!(world.counts().iter().sum::<usize>(), SHARDS as usize);
}

#[test]
fn a_setting_of_a_kind_out_of_the_nodes_range_is_refused_before_anything_is_announced() {
    let mut world = World::without_kind_on(&[0], 1, 0);
    world.all_up();
    let config = Box::new(KindConfig {
        handoff_timeout: Some(Duration::ZERO),
        ..KindConfig::default()
    });
    world.register_as(
        0,
        KindSettings {
            config,
            ..settings(true)
        },
    );
    let [Answer::Refused(CommandError::Sharding(ShardingCommandError::BadSetting(error)))] =
        &world.peers[0].registered[..]
    else {
        panic!("{:?}", world.peers[0].registered);
    };
    assert_eq!(error.key, "sharding.handoff_timeout");
    assert!(world.peers[0].sharding.region(kind()).is_none());
}
