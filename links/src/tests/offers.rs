//! Messages that are only offered: a full queue takes none, and says when there is room, so that what waited
//! in a node goes out in its order and whole. Spec: sharding 10.3, I-44.

use alloc::boxed::Box;
use alloc::string::ToString;
use alloc::vec::Vec;

use quorate_core::effect::{Effect, HostOrder};
use quorate_core::event::{Event, SeedCause, ShardingEvent};
use quorate_core::input::Recipient;
use quorate_core::input::{Command, DropReason, Input, KindSettings, LinkEvent, SendTarget, ShardingCommand};
use quorate_core::message::{Lane, Message, ShardMark, ShardingMsg};
use quorate_core::owner::Requester;
use quorate_core::sharding::ids::{EntityId, KindId, ShardId};

use super::pair::World;
use super::{Bench, Heard, dropped, entity, peer};
use crate::order::{LinkInput, LinkOrder};

fn offer(bench: &mut Bench, message: Message) {
    let to = SendTarget::Node(peer());
    bench.says(Effect::Offer { to, message });
}

fn room(heard: &[Heard]) -> usize {
    let to = peer().address().clone();
    let room = Heard::Link(LinkEvent::Room { to });
    heard.iter().filter(|heard| **heard == room).count()
}

fn queued(bench: &Bench) -> usize {
    bench.links.outbound.queued(peer().address(), Lane::User)
}

#[test]
fn i_44_a_full_queue_refuses_what_is_offered_and_all_that_would_overtake_it() {
    let mut bench = Bench::limited(|_, limits| {
        limits.user_queue_messages_max = 8;
        limits.user_queue_bytes_max = 1_000;
    });
    for _ in 0..7 {
        offer(&mut bench, entity(100));
    }
    assert_eq!(bench.heard(), []);
    offer(&mut bench, entity(400));
    assert_eq!(dropped(&bench.heard(), DropReason::NoRoom), 1, "by its bytes");
    offer(&mut bench, entity(1));
    bench.send(&peer(), entity(1));
    let heard = bench.heard();
    let counts = [DropReason::NoRoom, DropReason::QueueFull].map(|reason| dropped(&heard, reason));
    assert_eq!(counts, [1, 1], "they would fit");
    let mark = ShardMark {
        kind: KindId::of("k"),
        shard: ShardId(0),
        number: 1,
    };
    let mark = Message::Sharding(ShardingMsg::Mark(mark));
    bench.send(&peer(), mark.clone());
    assert_eq!(
        dropped(&bench.heard(), DropReason::QueueFull),
        1,
        "it would overtake them"
    );
    assert_eq!(queued(&bench), 7);
    assert_eq!(bench.links.stats().offers_refused, 2);

    let link = bench.dial();
    bench.answer(link, &peer());
    assert_eq!(queued(&bench), 0);
    let heard = bench.heard();
    assert_eq!(room(&heard), 1, "{heard:?}");
    offer(&mut bench, entity(400));
    bench.send(&peer(), entity(1));
    bench.send(&peer(), mark);
    assert_eq!(bench.heard(), []);
}

#[test]
fn i_44_room_is_told_when_what_waited_comes_back_as_unreachable_too() {
    let mut bench = Bench::limited(|_, limits| limits.user_queue_messages_max = 2);
    for _ in 0..3 {
        offer(&mut bench, entity(1));
    }
    assert_eq!(room(&bench.heard()), 0);
    let mut heard = Vec::new();
    for _ in 0..10 {
        let dial = bench.actions().into_iter().find_map(|order| match order {
            LinkOrder::Dial { link, .. } => Some(link),
            _ => None,
        });
        if let Some(link) = dial {
            bench.link(LinkInput::DialFailed(link, SeedCause::Refused));
        }
        bench.pass(2_000);
        heard.extend(bench.heard());
    }
    let back = dropped(&heard, DropReason::Unreachable);
    assert_eq!((back, room(&heard)), (2, 1), "{heard:?}");
}

/// So many messages are told to a kind that has no home yet, over a line of four kilobytes per millisecond.
/// All that waits is far more than what may wait for the link.
#[test]
fn i_44_fifty_thousand_messages_that_waited_for_homes_all_arrive_in_order() {
    const MESSAGES: usize = 50_000;
    const ENTITIES: usize = 40;
    let mut world = World::of_two(4_096);
    world.until("two members to be Up", World::are_up);
    register(&mut world, 0, false);
    for number in 0..MESSAGES {
        let input = Input::Tell {
            to: Recipient::Entity(
                KindId::of("files"),
                EntityId::from((number % ENTITIES).to_string().as_str()),
            ),
            payload: number.to_string().as_bytes().into(),
        };
        let now = world.now();
        let place = &mut world.places[0];
        place.node.handle(now, input);
        place.drive();
    }
    register(&mut world, 1, true);
    let delivers = |effect: &&Effect| {
        matches!(
            effect,
            Effect::Host(Requester::Sharding, HostOrder::Deliver { .. })
        )
    };
    let arrived = |world: &World| world.places[1].ordered.iter().filter(delivers).count();
    let lost = |effect: &Effect| {
        matches!(
            effect,
            Effect::Notify(Event::Sharding {
                event: ShardingEvent::DeadLetter { .. },
                ..
            })
        )
    };
    world.until("all messages", |world| {
        let at = world
            .places
            .iter()
            .flat_map(|place| &place.ordered)
            .find(|effect| lost(effect));
        assert_eq!(at, None);
        arrived(world) == MESSAGES
    });
    let mut last = [None; ENTITIES];
    for effect in &world.places[1].ordered {
        if let Effect::Host(Requester::Sharding, HostOrder::Deliver { payload, .. }) = effect {
            let number: usize = core::str::from_utf8(payload).unwrap().parse().unwrap();
            let before = last[number % ENTITIES].replace(number);
            assert!(before < Some(number), "{number} after {before:?}");
        }
    }
    assert!(
        world.places[0].links.stats().offers_refused > 0,
        "the queue was full"
    );
}

fn register(world: &mut World, at: usize, hosts: bool) {
    let command = ShardingCommand::RegisterKind(Box::new(KindSettings::new("files", 10, hosts)));
    let now = world.now();
    let place = &mut world.places[at];
    let command = Command::Sharding(command);
    place.node.handle(now, Input::Command { token: 2, command });
    place.drive();
}
