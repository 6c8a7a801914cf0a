//! Sharding of a whole small cluster: who hosts what after which event. Each machine's own tests are beside
//! it.

mod crowded;
mod failures;
mod may_run_twice;
mod pauses;
mod remembered;
mod same_kind;
mod scale;
mod schedules;
mod shutdown;
mod stopping;
mod strategies;
mod surveys;
mod watching;
mod world;

use core::time::Duration;

use crate::config::Config;
use crate::event::ShardingEvent;
use crate::ident::ClusterName;
use crate::input::{DropReason, SendTarget};
use crate::membership::state::member::Status;
use crate::message::{
    AskReply, AskTicket, EntityEnvelope, Message, ShardingBody, ShardingMessage, ShardingMsg,
};
use crate::reject::{Rejection, ShardingRejection};
use crate::sharding::coordinator::CoordinatorPhase;
use crate::sharding::state::chain::AskChain;
use crate::sharding::state::errors::AskFailure;
use crate::sharding::state::ids::{AskRef, EntityId, KindId, Payload, ShardId};

use world::{SHARDS, World, address, entity_in, kind};

const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// The removal margin of the documented defaults.
const MARGIN: Duration = secs(20);

#[test]
fn s_081_an_unknown_shard_is_allocated_and_its_messages_follow() {
    let mut world = World::formed(3, 1);
    let token = world.ask(3, &entity_in(5), secs(5));
    assert_eq!(world.peers[3].answers[&token].as_deref(), Ok(b"?".as_slice()));
    world.touch_all(3);
    assert_eq!(world.handled(), 13);
    assert_eq!(world.counts(), [4, 4, 4, 0], "least shards first");
}

#[test]
fn s_082_s_085_a_crash_moves_the_dead_nodes_shards_only_and_only_after_the_margin() {
    let mut world = World::formed(3, 1);
    world.touch_all(3);
    let before = world.hosts();
    world.crash_and_remove(&[1]);
    let kept = |world: &World| {
        before
            .iter()
            .filter(|(shard, hosts)| hosts[0] != 1 && world.hosts().get(*shard) == Some(hosts))
            .count()
    };
    assert_eq!((world.counts(), kept(&world)), (alloc::vec![4, 0, 4, 0], 8));
    world.touch_all(3);
    world.run_for(MARGIN - secs(1));
    assert_eq!((world.hosts().len(), world.handled()), (8, 20));
    world.run_for(secs(2));
    assert_eq!((world.counts(), kept(&world)), (alloc::vec![6, 0, 6, 0], 8));
    assert_eq!(world.handled(), 24, "what waited was delivered");
}

#[test]
fn the_margin_is_that_of_the_members_before_the_removal() {
    // Six members wait for 10 s, the five that are left would for 7 s; who is cut off still knows six.
    let mut config = Config::lan(ClusterName::new("test").unwrap());
    config.sharding.rebalance_relative_limit = 1.0;
    let mut world = World::with_config(3, 3, &config);
    world.all_up();
    world.touch_all(5);
    world.crash_and_remove(&[1]);
    world.touch_all(5);
    world.run_for(secs(9));
    assert_eq!(world.counts()[1], 0);
    assert_eq!(world.hosts().len(), 8);
    world.run_for(secs(2));
    assert_eq!(world.hosts().len(), 12);
}

#[test]
fn the_oldest_crashes_and_the_next_one_takes_over_with_every_home() {
    let mut world = World::formed(4, 1);
    world.touch_all(4);
    world.crash_and_remove(&[0]);
    let phase = |world: &World| world.peers[1].sharding.coordinator(kind()).map(|c| c.phase);
    assert_eq!(phase(&world), Some(CoordinatorPhase::Waiting));
    world.touch_all(4);
    world.run_for(MARGIN - secs(1));
    assert_eq!(phase(&world), Some(CoordinatorPhase::Waiting));
    world.run_for(secs(2));
    assert_eq!(phase(&world), Some(CoordinatorPhase::Active));
    assert_eq!(world.counts().iter().sum::<usize>(), SHARDS as usize);
    assert_eq!(world.handled(), 24, "the buffered messages arrived");
    assert_eq!(
        world.said(1, |e| matches!(e, ShardingEvent::ShardConflict { .. })),
        0
    );
}

#[test]
fn a_coordinator_allocates_nothing_before_everybody_has_spoken_or_is_gone() {
    let mut world = World::formed(4, 0);
    world.touch_all(3);
    // The third node is cut off from the successor just when the oldest dies: it may host anything.
    world.cut.extend([(2, 1), (1, 2)]);
    world.crash_and_remove(&[0]);
    world.run_for(MARGIN + secs(5));
    let state = world.peers[1].sharding.coordinator(kind()).unwrap();
    assert_eq!(state.phase, CoordinatorPhase::Recovering);
    assert_eq!(state.homes.len(), 6, "its own and the fourth node's shards");
    let token = world.ask(3, &entity_in(lost_shard(&world, 0)), secs(3));
    world.run_for(secs(4));
    assert_eq!(
        world.peers[3].answers[&token],
        Err(AskFailure::TimeoutBuffered),
        "an unknown home is not given"
    );
    world.cut.clear();
    world.run_for(secs(5));
    let hosted = world.counts().iter().sum::<usize>();
    assert_eq!(
        hosted, 10,
        "the three live nodes' shards, and the one that was asked for"
    );
    world.touch_all(3);
    assert_eq!(world.hosts().len(), SHARDS as usize);
}

/// A shard nobody hosts now, by its position among those.
fn lost_shard(world: &World, position: usize) -> u32 {
    let hosts = world.hosts();
    let mut lost = (0..SHARDS).filter(|shard| !hosts.contains_key(&ShardId(*shard)));
    lost.nth(position).unwrap()
}

#[test]
fn s_084_a_node_joins_and_gets_its_share() {
    let mut world = World::new(3, 0);
    world.set(&[(0, Status::Up), (1, Status::Up), (2, Status::Joining)]);
    world.touch_all(0);
    assert_eq!(world.counts(), [6, 6, 0]);
    world.run_for(secs(11));
    assert_eq!(world.counts(), [6, 6, 0], "not while somebody is joining");
    world.set(&[(2, Status::Up)]);
    world.run_for(secs(11));
    assert_eq!(world.counts(), [4, 4, 4]);
    world.touch_all(1);
    assert_eq!(world.handled(), 24);
}

#[test]
fn s_108_when_two_of_five_leave_what_the_others_host_does_not_move() {
    let mut world = World::formed(5, 1);
    world.touch_all(5);
    let before = world.hosts();
    world.set(&[(2, Status::Leaving), (4, Status::Leaving)]);
    for leaving in [2, 4] {
        world.drain(leaving);
        assert!(world.peers[leaving].drained);
    }
    world.set(&[(2, Status::Exiting), (4, Status::Exiting)]);
    world.remove(&[2, 4]);
    world.run_for(secs(30));
    let after = world.hosts();
    for (shard, home) in &before {
        if home[0] == 2 || home[0] == 4 {
            assert_ne!(after[shard], *home, "{shard:?} was handed over");
        } else {
            assert_eq!(after[shard], *home, "{shard:?} stays");
        }
    }
    assert_eq!(world.counts(), [4, 4, 0, 4, 0, 0]);
    world.touch_all(5);
    assert_eq!(world.handled(), 24);
}

#[test]
fn s_104_the_oldest_leaves_and_its_coordinator_stays_until_it_is_removed() {
    let mut world = World::formed(3, 1);
    world.touch_all(3);
    world.set(&[(0, Status::Leaving)]);
    world.drain(0);
    assert!(world.peers[0].drained);
    world.set(&[(0, Status::Exiting)]);
    let at = |world: &World, at: usize| world.peers[at].sharding.coordinator(kind()).map(|c| c.phase);
    assert_eq!(at(&world, 0), Some(CoordinatorPhase::Active));
    assert_eq!(at(&world, 1), None);
    world.remove(&[0]);
    assert_eq!(
        at(&world, 1),
        Some(CoordinatorPhase::Active),
        "a confirmed exit needs no margin"
    );
    world.touch_all(3);
    assert_eq!((world.counts(), world.handled()), (alloc::vec![0, 6, 6, 0], 24));
}

#[test]
fn s_094_two_nodes_leave_at_once_and_both_finish() {
    let mut world = World::formed(4, 0);
    world.touch_all(0);
    world.set(&[(2, Status::Leaving), (3, Status::Leaving)]);
    world.drain(2);
    world.drain(3);
    assert!(world.peers[2].drained && world.peers[3].drained);
    assert_eq!(world.counts(), [6, 6, 0, 0]);
}

#[test]
fn the_last_member_stops_its_entities_and_is_drained() {
    let mut world = World::formed(1, 0);
    world.touch_all(0);
    world.set(&[(0, Status::Leaving)]);
    world.drain(0);
    assert!(world.peers[0].drained);
    assert_eq!(world.counts(), [0]);
}

#[test]
fn a_node_without_a_kind_is_drained_at_once() {
    let mut world = World::formed(1, 1);
    world.set(&[(1, Status::Leaving)]);
    world.drain(1);
    assert!(world.peers[1].drained, "a proxy region with an empty buffer too");
}

#[test]
fn s_102_a_region_without_a_shard_leaves_at_once() {
    let mut world = World::formed(3, 0);
    world.set(&[(2, Status::Leaving)]);
    assert_eq!(world.counts(), [0, 0, 0]);
    world.drain(2);
    assert!(world.peers[2].drained, "there is nothing to hand over");
    world.touch_all(0);
    assert_eq!(world.counts(), [6, 6, 0], "and it gets nothing");
}

#[test]
fn s_107_a_downed_node_stops_everything_at_once() {
    let mut world = World::formed(2, 0);
    world.touch_all(0);
    world.cut.extend([(0, 1), (1, 0)]);
    let local = world.hosts().iter().find(|(_, hosts)| hosts[0] == 0).unwrap().0.0;
    let remote = (0..SHARDS).find(|s| world.hosts()[&ShardId(*s)][0] == 1).unwrap();
    let done = world.ask(0, &entity_in(local), secs(5));
    let sent = world.ask(0, &entity_in(remote), secs(5));
    world.set(&[(0, Status::Down)]);
    assert_eq!(world.counts(), [0, 6]);
    assert_eq!(world.peers[0].answers[&done].as_deref(), Ok(b"?".as_slice()));
    assert_eq!(
        world.peers[0].answers.get(&sent),
        None,
        "its answer may come before the node ends"
    );
    world.with(0, |peer| peer.sharding.answer_the_rest(&mut peer.fixture.cx()));
    assert_eq!(world.peers[0].answers[&sent], Err(AskFailure::NodeStopped));
    let late = world.ask(0, &entity_in(local), secs(5));
    assert_eq!(world.peers[0].answers[&late], Err(AskFailure::NodeStoppedUnsent));
}

#[test]
fn an_entity_that_ignores_stop_is_killed_and_its_shard_moves() {
    let mut world = World::formed(3, 0);
    world.touch_all(0);
    world.peers[2].stubborn = true;
    world.set(&[(2, Status::Leaving)]);
    world.drain(2);
    assert_eq!(world.counts(), [4, 4, 4]);
    assert!(!world.peers[2].drained);
    world.run_for(secs(10));
    assert!(world.peers[2].drained, "within the time an exiting node is given");
    assert_eq!(world.counts(), [6, 6, 0]);
    assert_eq!(
        world.said(2, |e| matches!(e, ShardingEvent::ShardStopTimeout { .. })),
        4
    );
}

#[test]
fn s_122_lost_messages_are_repeated_until_the_shard_is_there() {
    let mut world = World::formed(3, 1);
    world.cut.extend([(3, 0), (0, 2)]);
    world.touch_all(3);
    world.run_for(secs(15));
    assert_eq!(world.handled(), 0);
    world.cut.clear();
    world.run_for(secs(15));
    assert_eq!(world.handled(), SHARDS as usize);
    assert_eq!(world.counts(), [4, 4, 4, 0]);
}

#[test]
fn asks_to_a_lost_node_fail_at_once_and_unsent_ones_wait() {
    let mut world = World::formed(2, 1);
    world.touch_all(2);
    let there = (0..SHARDS).find(|s| world.hosts()[&ShardId(*s)][0] == 1).unwrap();
    world.cut.insert((2, 1));
    let sent = world.ask(2, &entity_in(there), secs(30));
    assert_eq!(world.peers[2].answers.get(&sent), None);
    world.crash(&[1]);
    world.suspect(&[1]);
    world.set(&[(1, Status::Down)]);
    world.run_for(Duration::from_micros(1));
    assert_eq!(world.peers[2].answers[&sent], Err(AskFailure::PeerLost));
    let waiting = world.ask(2, &entity_in(there), secs(60));
    world.remove(&[1]);
    world.run_for(MARGIN);
    assert_eq!(world.peers[2].answers[&waiting].as_deref(), Ok(b"?".as_slice()));
}

#[test]
fn a_link_that_goes_down_fails_the_asks_sent_over_it() {
    let mut world = World::formed(2, 1);
    world.touch_all(2);
    let there = (0..SHARDS).find(|s| world.hosts()[&ShardId(*s)][0] == 1).unwrap();
    world.cut.insert((2, 1));
    let token = world.ask(2, &entity_in(there), secs(30));
    world.with(2, |peer| {
        peer.sharding.on_link_down(&mut peer.fixture.cx(), &address(1));
    });
    assert_eq!(world.peers[2].answers[&token], Err(AskFailure::PeerLost));
}

#[test]
fn a_message_the_host_dropped_fails_with_what_the_host_said() {
    for (reason, expected) in [
        (DropReason::QueueFull, AskFailure::MailboxFull),
        (DropReason::TooLarge, AskFailure::TooLarge),
        (DropReason::Unreachable, AskFailure::Unreachable),
    ] {
        let mut world = World::formed(2, 1);
        world.touch_all(2);
        let there = (0..SHARDS).find(|s| world.hosts()[&ShardId(*s)][0] == 1).unwrap();
        world.cut.insert((2, 1));
        let token = world.ask(2, &entity_in(there), secs(30));
        let ask = AskRef {
            asker: address(2),
            id: 1,
        };
        let message = ShardingMsg::Entity(envelope(there, Some(ask)));
        world.with(2, |peer| {
            let to = SendTarget::Node(address(1));
            peer.sharding
                .on_dropped(&mut peer.fixture.cx(), &to, message, reason);
        });
        assert_eq!(world.peers[2].answers[&token], Err(expected));
    }
}

fn envelope(shard: u32, ask: Option<AskRef>) -> EntityEnvelope {
    EntityEnvelope {
        kind: kind(),
        shard: ShardId(shard),
        entity: entity_in(shard),
        payload: Payload::from(b"!".as_slice()),
        ask: ask.map(|ask| AskTicket {
            ask,
            remaining_ms: 1_000,
            chain: AskChain::default(),
        }),
        hops: 0,
    }
}

#[test]
fn b_58_a_message_that_does_not_fit_is_refused_and_accounted_for() {
    let mut world = World::formed(2, 0);
    let mut strange = envelope(3, None);
    strange.kind = KindId::of("nothing");
    let mut misplaced = envelope(3, None);
    misplaced.shard = ShardId(4);
    let mut nameless = envelope(3, None);
    nameless.entity = EntityId::new(b"");
    let mut endless = envelope(3, None);
    endless.entity = EntityId::new(&[7; 1025]);
    for envelope in [strange, misplaced, nameless, endless] {
        world.deliver(1, 0, Message::Sharding(ShardingMsg::Entity(envelope)));
    }
    let out_of_range = |what| Rejection::Sharding(ShardingRejection::OutOfRange { what });
    let expected = [
        Rejection::Sharding(ShardingRejection::UnknownKind),
        out_of_range("shard"),
        out_of_range("length of an entity id"),
        out_of_range("length of an entity id"),
    ];
    assert_eq!(world.peers[0].rejected, expected);
    assert_eq!(world.peers[0].fixture.stats.sharding.dead_letters, 4);
    assert_eq!(world.handled(), 0);
}

#[test]
fn late_and_premature_answers_change_nothing() {
    let mut world = World::formed(1, 1);
    world.cut.insert((1, 0));
    let token = world.ask(1, &entity_in(3), secs(5));
    let reply = |id| {
        Message::Sharding(ShardingMsg::AskReply(AskReply {
            id,
            to: address(1),
            result: Ok(Payload::from(b"forged".as_slice())),
        }))
    };
    world.deliver(0, 1, reply(1));
    assert_eq!(
        world.peers[1].answers.get(&token),
        None,
        "its message is still in the buffer"
    );
    world.deliver(0, 1, reply(77));
    let stats = world.peers[1].fixture.stats;
    assert_eq!((stats.node.rejected, stats.sharding.ask_replies_late), (1, 1));
    world.run_for(secs(5));
    assert_eq!(world.peers[1].answers[&token], Err(AskFailure::TimeoutBuffered));
}

#[test]
fn b_48_an_answer_counts_only_from_the_node_that_the_message_was_given_to() {
    let mut world = World::formed(3, 1);
    world.touch_all(0);
    let here = failures::shard_on(&world, 0);
    world.lose = |message| matches!(message, Message::Sharding(ShardingMsg::Entity(_)));
    let token = world.ask(3, &entity_in(here), secs(5));
    world.lose = |_| false;
    let reply = |id| {
        Message::Sharding(ShardingMsg::AskReply(AskReply {
            id,
            to: address(3),
            result: Ok(Payload::from(b"forged".as_slice())),
        }))
    };
    for id in 0..8 {
        world.deliver(1, 3, reply(id));
        world.deliver(2, 3, reply(id));
    }
    assert_eq!(
        world.peers[3].answers.get(&token),
        None,
        "neither runs the entity"
    );
    let elsewhere = Rejection::Unexpected {
        what: "answer to an ask that was not sent there",
    };
    let forged = world.peers[3].rejected.iter().filter(|why| **why == elsewhere);
    assert_eq!(forged.count(), 2);
    world.deliver(0, 3, reply(1));
    assert_eq!(
        world.peers[3].answers[&token].as_deref(),
        Ok(b"forged".as_slice()),
        "its home may"
    );
}

#[test]
fn b_48_a_message_that_names_the_ask_of_another_node_is_refused_and_answers_nothing() {
    let mut world = World::formed(3, 1);
    world.touch_all(0);
    let here = failures::shard_on(&world, 0);
    let there = failures::shard_on(&world, 1);
    world.lose = |message| matches!(message, Message::Sharding(ShardingMsg::Entity(_)));
    let token = world.ask(3, &entity_in(here), secs(5));
    world.lose = |_| false;
    let before: usize = world.handled();
    let ask = AskRef {
        asker: address(3),
        id: 1,
    };
    let mut unknown = envelope(here, Some(ask.clone()));
    unknown.kind = KindId::of("nothing");
    for lie in [envelope(here, Some(ask.clone())), unknown] {
        // To its home, and to who asked.
        for to in [0, 3] {
            world.deliver(1, to, Message::Sharding(ShardingMsg::Entity(lie.clone())));
        }
        // It comes back from a node that it was not given to.
        world.deliver(1, 3, Message::Sharding(ShardingMsg::HandBack(lie)));
    }
    let elsewhere = envelope(there, Some(ask));
    world.deliver(2, 1, Message::Sharding(ShardingMsg::Entity(elsewhere)));
    assert_eq!(world.peers[3].answers.get(&token), None);
    assert_eq!(world.handled(), before);
    let another = Rejection::Unexpected {
        what: "an ask of another node",
    };
    let refused = |at: usize| {
        let rejected = &world.peers[at].rejected;
        rejected.iter().filter(|why| **why == another).count()
    };
    assert_eq!([refused(0), refused(1), refused(3)], [2, 1, 2]);
}

#[test]
fn i_44_every_message_is_accounted_for_through_joins_leaves_and_crashes() {
    let mut world = World::new(5, 1);
    let up = |at| (at, Status::Up);
    world.set(&[up(0), up(1), up(2), up(5)]);
    let mut tokens = alloc::vec![];
    let mut ask_all = |world: &mut World| {
        for shard in 0..SHARDS {
            tokens.push(world.ask(5, &entity_in(shard), secs(40)));
            world.tell(5, &entity_in(shard), "tell");
        }
    };
    ask_all(&mut world);
    world.set(&[up(3), up(4)]);
    world.run_for(secs(11));
    ask_all(&mut world);
    world.set(&[(1, Status::Leaving)]);
    world.drain(1);
    ask_all(&mut world);
    world.crash_and_remove(&[0]);
    ask_all(&mut world);
    world.run_for(secs(60));
    ask_all(&mut world);
    world.run_for(secs(60));
    let answers = &world.peers[5].answers;
    assert_eq!(answers.len(), tokens.len(), "every ask has exactly one answer");
    let stats = |at: usize| world.peers[at].fixture.stats;
    let sent = stats(5);
    let sum = |field: fn(&crate::stats::Stats) -> u64| (0..6).map(|at| field(&stats(at))).sum::<u64>();
    assert_eq!(sent.sharding.entity_messages_accepted, 2 * tokens.len() as u64);
    let ended = sum(|s| s.sharding.entity_messages_delivered)
        + sum(|s| s.sharding.dead_letters)
        + sent.sharding.asks_failed;
    assert_eq!(
        ended + sum(|s| s.sharding.entity_messages_expired),
        2 * tokens.len() as u64,
        "nothing is in flight or buffered any more"
    );
    assert_eq!(world.hosts().len(), SHARDS as usize);
}

#[test]
fn an_ask_whose_message_comes_back_waits_again_and_is_delivered_at_most_once() {
    let mut world = World::formed(2, 1);
    world.touch_all(2);
    let there = (0..SHARDS).find(|s| world.hosts()[&ShardId(*s)][0] == 1).unwrap();
    world.cut.insert((2, 1));
    let token = world.ask(2, &entity_in(there), secs(5));
    let ask = AskRef {
        asker: address(2),
        id: 1,
    };
    let returned = || Message::Sharding(ShardingMsg::HandBack(envelope(there, Some(ask.clone()))));
    // The shard is on the move when its old home hands the message back, so that its home is not known here
    // any more.
    let term = world.peers[2]
        .sharding
        .region(kind())
        .unwrap()
        .registered
        .unwrap();
    let body = ShardingBody::BeginHandOff {
        term,
        shard: ShardId(there),
        number: 1,
    };
    world.deliver(
        0,
        2,
        Message::Sharding(ShardingMsg::Kind(ShardingMessage { kind: kind(), body })),
    );
    world.cut.extend([(2, 0), (1, 2)]);
    let state = |world: &World| world.peers[2].sharding.region(kind()).unwrap().buffered;
    let returns = |world: &mut World, from, message| {
        world.cut.remove(&(1, 2));
        world.deliver(from, 2, message);
        world.cut.insert((1, 2));
    };
    // It was not sent there, or is somebody else's.
    returns(&mut world, 0, returned());
    let of_another = AskRef {
        asker: address(0),
        id: 1,
    };
    let of_another = ShardingMsg::HandBack(envelope(there, Some(of_another)));
    returns(&mut world, 1, Message::Sharding(of_another));
    assert_eq!(state(&world), 0);
    returns(&mut world, 1, returned());
    assert_eq!(state(&world), 1);
    returns(&mut world, 1, returned());
    let what = "message of an ask that was not sent there";
    let expected = [
        Rejection::Unexpected { what },
        Rejection::WrongReceiver { to: address(0) },
        Rejection::Unexpected { what },
    ];
    assert_eq!(world.peers[2].rejected, expected);
    world.run_for(secs(5));
    assert_eq!(world.peers[2].answers[&token], Err(AskFailure::TimeoutBuffered));
    returns(&mut world, 1, returned());
    assert_eq!(
        (
            state(&world),
            world.peers[2].fixture.stats.sharding.entity_messages_expired
        ),
        (0, 1)
    );
}
