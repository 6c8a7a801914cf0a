//! What a caller hears when there is no answer, and whether the message may have been handled.

use alloc::vec::Vec;

use super::*;
use crate::input::HostReport;

pub(super) fn shard_on(world: &World, at: usize) -> u32 {
    (0..SHARDS)
        .find(|s| world.hosts()[&ShardId(*s)][0] == at)
        .unwrap()
}

#[test]
fn a_message_that_came_back_unsent_was_not_handled() {
    let mut world = World::formed(2, 1);
    world.touch_all(2);
    let there = shard_on(&world, 1);
    world.cut.insert((2, 1));
    let token = world.ask(2, &entity_in(there), secs(30));
    let ask = AskRef {
        asker: address(2),
        id: 1,
    };
    world.with(2, |peer| {
        let (cx, to) = (&mut peer.fixture.cx(), SendTarget::Node(address(1)));
        let message = ShardingMsg::Entity(envelope(there, Some(ask)));
        peer.sharding
            .on_dropped(cx, &to, message, DropReason::Unreachable);
        // The link's end is told after what waited for it.
        peer.sharding.on_link_down(cx, &address(1));
    });
    let failure = world.peers[2].answers[&token].clone().unwrap_err();
    assert_eq!(failure, AskFailure::Unreachable);
    assert!(!failure.may_have_been_handled());
}

#[test]
fn a_node_that_stops_says_which_asks_it_had_not_sent() {
    let mut world = World::formed(2, 1);
    world.touch_all(2);
    let there = shard_on(&world, 1);
    world.cut.insert((2, 1));
    let sent = world.ask(2, &entity_in(there), secs(30));
    world.lose = |message| matches!(message, Message::Sharding(ShardingMsg::Kind(_)));
    world.with(2, |peer| {
        let (cx, from) = (&mut peer.fixture.cx(), address(0));
        let term = peer.sharding.region(kind()).unwrap().registered.unwrap();
        let shard = ShardId(there);
        let body = ShardingBody::BeginHandOff {
            term,
            shard,
            number: 1,
        };
        let message = ShardingMsg::Kind(ShardingMessage { kind: kind(), body });
        peer.sharding.on_message(cx, &from, message);
    });
    let waiting = world.ask(2, &entity_in(there), secs(30));
    world.with(2, |peer| peer.sharding.halt(&mut peer.fixture.cx()));
    let late = world.ask(2, &entity_in(there), secs(30));
    assert_eq!(world.peers[2].answers.get(&sent), None, "it may still come back");
    world.with(2, |peer| peer.sharding.answer_the_rest(&mut peer.fixture.cx()));
    let answers = &world.peers[2].answers;
    assert_eq!(answers[&sent], Err(AskFailure::NodeStopped));
    assert_eq!(answers[&waiting], Err(AskFailure::NodeStoppedUnsent));
    assert_eq!(answers[&late], Err(AskFailure::NodeStoppedUnsent), "it had ended");
}

#[test]
fn an_answer_that_does_not_fit_is_an_error_at_once_here_as_elsewhere() {
    let mut world = World::formed(2, 0);
    world.touch_all(0);
    for asker in [0, 1] {
        let most = world.peers[0].fixture.config.limits.payload_bytes_max();
        for (bytes, fits) in [(most + 1, false), (most, true)] {
            let mut sent = Vec::new();
            world.with(0, |peer| {
                let ask = AskRef {
                    asker: address(asker),
                    id: 77,
                };
                let result = Ok(alloc::vec![0; bytes].into());
                let report = HostReport::Answered { ask, result };
                peer.sharding.on_report(&mut peer.fixture.cx(), report);
                let outbox = &mut peer.fixture.outbox;
                sent = outbox.loopback.drain(..).collect();
                let effects = outbox.effects.drain(..).filter_map(|effect| match effect {
                    crate::effect::Effect::Send { message, .. } => Some(message),
                    _ => None,
                });
                sent.extend(effects);
            });
            let [Message::Sharding(ShardingMsg::AskReply(reply))] = &sent[..] else {
                panic!("{sent:?}")
            };
            let expected = if fits {
                None
            } else {
                Some(AskFailure::ReplyTooLarge)
            };
            assert_eq!(reply.result.clone().err(), expected, "{bytes} bytes for {asker}");
        }
    }
    assert!(AskFailure::ReplyTooLarge.may_have_been_handled());
}

#[test]
fn an_answer_that_the_host_could_not_encode_reaches_its_asker_as_too_large() {
    let mut world = World::formed(2, 0);
    world.touch_all(0);
    let here = shard_on(&world, 0);
    world.lose =
        |message| matches!(message, Message::Sharding(ShardingMsg::AskReply(reply)) if reply.result.is_ok());
    let token = world.ask(1, &entity_in(here), secs(30));
    assert_eq!(world.peers[1].answers.get(&token), None);
    let reply = AskReply {
        id: 1,
        to: address(1),
        result: Ok(Payload::from(b"large".as_slice())),
    };
    world.with(0, |peer| {
        let to = SendTarget::Node(address(1));
        let message = ShardingMsg::AskReply(reply);
        peer.sharding
            .on_dropped(&mut peer.fixture.cx(), &to, message, DropReason::TooLarge);
    });
    assert_eq!(world.peers[1].answers[&token], Err(AskFailure::ReplyTooLarge));
}

#[test]
fn an_ask_for_a_kind_that_no_member_may_host_says_so() {
    // Two members that lack the role.
    let mut world = World::formed(0, 2);
    let token = world.ask(1, &entity_in(3), secs(5));
    world.run_for(secs(5));
    assert_eq!(world.peers[1].answers[&token], Err(AskFailure::NobodyHosts));
}

#[test]
fn an_ask_for_a_kind_that_its_coordinators_node_lacks_says_so_until_it_has_it() {
    let mut world = World::without_kind_on(&[0], 1, 1);
    world.all_up();
    let first = world.ask(1, &entity_in(3), secs(5));
    world.run_for(secs(5));
    assert_eq!(world.peers[1].answers[&first], Err(AskFailure::NobodyHosts));
    let second = world.ask(1, &entity_in(3), secs(9));
    world.run_for(secs(1));
    world.register(0, true);
    world.run_for(secs(3));
    assert!(
        world.peers[1].answers[&second].is_ok(),
        "what waited is delivered"
    );
    world.cut.insert((1, 0));
    let third = world.ask(1, &entity_in(4), secs(1));
    world.run_for(secs(1));
    assert_eq!(world.peers[1].answers[&third], Err(AskFailure::TimeoutBuffered));
}

#[test]
fn an_ask_for_a_kind_with_proxies_only_says_that_nobody_hosts_it() {
    let mut world = World::without_kind_on(&[0], 1, 1);
    world.register(0, false);
    world.all_up();
    let token = world.ask(1, &entity_in(3), secs(5));
    world.run_for(secs(5));
    assert_eq!(world.peers[1].answers[&token], Err(AskFailure::NobodyHosts));
}
