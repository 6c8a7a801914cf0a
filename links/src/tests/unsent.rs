//! What was certainly not sent: it comes back before its peer is taken for lost, whichever link that news
//! comes from. Spec: I-44, issue 12 point 11.

use alloc::sync::Arc;

use quorate_core::effect::Effect;
use quorate_core::event::{Event, MembershipEvent};
use quorate_core::ident::Roles;
use quorate_core::input::{DropReason, LinkEvent, SendTarget};
use quorate_core::membership::app_version::AppVersion;
use quorate_core::membership::events::MembershipChange;
use quorate_core::membership::member::{Member, Status};
use quorate_core::message::{AskTicket, EntityEnvelope, Message, ShardingMsg, SingletonMsg};
use quorate_core::sharding::chain::AskChain;
use quorate_core::sharding::ids::{AskRef, EntityId, KindId, ShardId};
use quorate_core::singleton::protocol::InstanceMessage;
use quorate_core::singleton::state::SingletonId;
use quorate_core::token::Token;
use quorate_core::wire::handshake::LinkKind;

use super::{Bench, Heard, heartbeat, me, node, peer};
use crate::order::{LinkId, LinkInput, LinkOrder};

fn envelope(ask: Option<AskRef>) -> Message {
    Message::Sharding(ShardingMsg::Entity(EntityEnvelope {
        kind: KindId::of("files"),
        shard: ShardId(0),
        entity: EntityId::from("e"),
        payload: alloc::vec![7; 100].into(),
        ask: ask.map(|ask| AskTicket {
            ask,
            remaining_ms: 5_000,
            chain: AskChain::default(),
        }),
        hops: 0,
    }))
}

fn ask(id: u64) -> Message {
    envelope(Some(AskRef { asker: me(), id }))
}

fn asked_by(asker: quorate_core::ident::UniqueAddress) -> Message {
    envelope(Some(AskRef { asker, id: 1 }))
}

fn tell() -> Message {
    envelope(None)
}

/// The asks that came back before the node heard that the peer is lost, and those after.
fn back_before_down(heard: &[Heard]) -> (usize, usize) {
    let is_ask = |heard: &Heard| {
        matches!(
            heard,
            Heard::Link(LinkEvent::Dropped {
                message: Message::Sharding(ShardingMsg::Entity(EntityEnvelope { ask: Some(_), .. })),
                reason: DropReason::Unreachable,
                ..
            })
        )
    };
    let down = Heard::Link(LinkEvent::Down { peer: peer() });
    let at = heard.iter().position(|heard| *heard == down);
    let at = at.expect("the peer is lost");
    let count = |heard: &[Heard]| heard.iter().filter(|heard| is_ask(heard)).count();
    (count(&heard[..at]), count(&heard[at..]))
}

/// An open link for entity messages.
fn opened(bench: &mut Bench) -> LinkId {
    bench.send(&peer(), tell());
    let user = bench.dial();
    bench.answer(user, &peer());
    bench.actions();
    bench.heard();
    user
}

#[test]
fn i_44_asks_of_a_killed_peer_come_back_unsent_whichever_link_gives_up_first() {
    let mut bench = Bench::new();
    for id in 0..1_000 {
        bench.send(&peer(), ask(id));
    }
    let user = bench.dial();
    bench.send(&peer(), heartbeat(peer()));
    let control = bench.dial();
    // The link that they wait for is still being dialed when the other one gives up.
    let _ = user;
    for attempt in 1..=3 {
        let control = if attempt == 1 { control } else { bench.dial() };
        bench.fail_dial(control);
        if attempt < 3 {
            bench.pass(1_300);
        }
    }
    while bench.has_work() {
        bench.flush();
    }
    assert_eq!(back_before_down(&bench.heard()), (1_000, 0));
}

#[test]
fn i_44_asks_of_singletons_come_back_as_well_and_those_of_others_are_not_told_of_here() {
    let to_singleton = |asker| {
        Message::Singleton(SingletonMsg::Delivery(InstanceMessage {
            singleton: SingletonId::of("billing"),
            token: Token::new(1, 1),
            ask: Some(AskTicket {
                ask: AskRef { asker, id: 1 },
                remaining_ms: 5_000,
                chain: AskChain::default(),
            }),
            payload: alloc::vec![7; 10].into(),
        }))
    };
    let mut bench = Bench::new();
    for asker in [me(), node(3, 3), me()] {
        bench.send(&peer(), to_singleton(asker));
    }
    bench.dial();
    bench.send(&peer(), heartbeat(peer()));
    let mut control = bench.dial();
    for attempt in 1..=3 {
        bench.fail_dial(control);
        if attempt < 3 {
            bench.pass(1_300);
            control = bench.dial();
        }
    }
    while bench.has_work() {
        bench.flush();
    }
    let heard = bench.heard();
    let down = Heard::Link(LinkEvent::Down { peer: peer() });
    let at = heard
        .iter()
        .position(|heard| *heard == down)
        .expect("the peer is lost");
    let askers = heard[..at].iter().filter_map(|heard| match heard {
        Heard::Link(LinkEvent::Dropped {
            message: Message::Singleton(SingletonMsg::Delivery(delivery)),
            ..
        }) => delivery.ask.as_ref().map(|ticket| ticket.ask.asker.clone()),
        _ => None,
    });
    assert_eq!(askers.collect::<alloc::vec::Vec<_>>(), [me(), me()]);
}

#[test]
fn i_44_what_was_encoded_and_handed_to_no_writer_comes_back_when_its_link_breaks() {
    let mut bench = Bench::new();
    let user = opened(&mut bench);
    // The first write is under way: it may arrive. What follows is encoded, and beyond the buffer waits.
    let in_all = 4_000;
    for id in 0..in_all {
        bench.send(&peer(), ask(id));
    }
    let sent = bench.links.stats().frames_sent;
    assert!(sent > 1_000, "{sent}");
    bench.link(LinkInput::Broken(user));
    while bench.has_work() {
        bench.flush();
    }
    assert_eq!(
        back_before_down(&bench.heard()),
        (usize::try_from(in_all).unwrap(), 0)
    );
    assert_eq!(bench.links.stats().frames_sent, 1, "the first message");
}

#[test]
fn i_44_asks_on_a_user_link_that_is_fine_outlive_a_control_link_that_breaks() {
    let mut bench = Bench::new();
    let user = opened(&mut bench);
    bench.send(&peer(), heartbeat(peer()));
    let control = bench.dial();
    bench.answer(control, &peer());
    let theirs = bench.accepted(LinkKind::Control, 1);
    for id in 0..10 {
        bench.send(&peer(), ask(id));
    }
    bench.flush();
    bench.heard();
    for link in [control, theirs] {
        bench.link(LinkInput::Broken(link));
        bench.flush();
        assert_eq!(bench.heard(), [], "nothing is known to be lost");
    }
    bench.link(LinkInput::Broken(user));
    bench.flush();
    let down = Heard::Link(LinkEvent::Down { peer: peer() });
    assert_eq!(bench.heard().last(), Some(&down), "now it is");
}

#[test]
fn i_44_asks_that_wait_for_a_member_come_back_when_it_is_downed_or_removed() {
    let member = Member::joining(peer(), Roles::default(), AppVersion::default());
    let removed = MembershipChange::Removed {
        member: member.clone(),
        previous: Status::Exiting,
    };
    for change in [MembershipChange::Downed(member), removed] {
        let mut bench = Bench::new();
        bench.send(&peer(), ask(1));
        bench.send(&peer(), tell());
        bench.send(&node(3, 3), ask(2));
        let view = Arc::clone(&bench.node.view);
        let change = Effect::Notify(Event::Membership(MembershipEvent::Changed { change, view }));
        bench.node.says.push_back(change);
        bench.drive_node();
        let heard = bench.heard();
        let [Heard::Link(LinkEvent::Dropped { to, reason, .. })] = heard.as_slice() else {
            panic!("{heard:?}");
        };
        assert_eq!(
            (to, *reason),
            (&SendTarget::Node(peer()), DropReason::Unreachable)
        );
    }
}

#[test]
fn asks_of_others_and_messages_without_an_answer_go_over_the_next_link() {
    let mut bench = Bench::new();
    bench.send(&peer(), asked_by(node(3, 3)));
    bench.send(&peer(), ask(1));
    bench.send(&peer(), tell());
    bench.dial();
    let control = bench.accepted(LinkKind::Control, 1);
    bench.heard();
    bench.link(LinkInput::Broken(control));
    assert_eq!(back_before_down(&bench.heard()), (1, 0));
    let user = quorate_core::message::Lane::User;
    assert_eq!(bench.links.outbound.queued(peer().address(), user), 2);
}

#[test]
fn a_node_that_stops_gives_back_the_asks_that_it_has_not_sent_and_dials_nobody() {
    let mut bench = Bench::new();
    opened(&mut bench);
    bench.send(&node(3, 3), ask(1));
    bench.send(&node(3, 3), tell());
    bench.actions();
    bench.links.return_waiting_asks();
    bench.drive_node();
    bench.links.stop();
    let heard = bench.heard();
    let [Heard::Link(LinkEvent::Dropped { to, .. })] = heard.as_slice() else {
        panic!("{heard:?}");
    };
    assert_eq!(to.address(), node(3, 3).address());
    let dials = |action: &LinkOrder| matches!(action, LinkOrder::Dial { .. });
    assert!(!bench.actions().iter().any(dials));
}
