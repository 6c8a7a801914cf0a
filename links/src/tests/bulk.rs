//! The link for bulk data: when it is dialed, to whom, what waits for it, and that it holds nothing else up.
//! Spec: sharding 10.24, `docs/WIRE.md` 3.3.

use alloc::vec::Vec;

use quorate_core::input::{DropReason, LinkEvent, SendTarget};
use quorate_core::message::{Lane, Message};
use quorate_core::time::Instant;
use quorate_core::wire::handshake::{FEATURE_BULK, HandshakeDecoded, LinkKind, decode_hello};

use super::{Bench, Heard, aborts, dropped, entity, frame, heartbeat, peer};
use crate::order::{LinkId, LinkInput, LinkOrder};
use crate::outbound::UnsentFrame;
use crate::recipient::LinkRecipient;

/// Sends a message over the bulk lane, whatever its own lane is.
fn send_bulk(bench: &mut Bench, message: Message) {
    let (links, to) = (&mut bench.links, SendTarget::Node(peer()));
    let view = bench.node.view();
    let frame = UnsentFrame {
        lane: Lane::Bulk,
        to,
        message,
        is_offer: false,
    };
    links.outbound.take(&mut links.base, view, frame);
    bench.drive_node();
}

/// Dials and handshakes of a link, as a peer with these features; says what the link was for.
fn open(bench: &mut Bench, link: LinkId, features: u64) -> LinkKind {
    bench.link(LinkInput::Dialed(link));
    let (_, bytes) = bench.writes().pop().expect("a hello");
    let HandshakeDecoded::Done { value: hello, .. } = decode_hello(&bytes) else {
        panic!("no hello");
    };
    assert_eq!(hello.features & FEATURE_BULK, FEATURE_BULK);
    bench.consent_with(link, &peer(), features);
    hello.link
}

/// A node with an open control link and an open bulk link, on which the first message has been written.
fn opened() -> (Bench, LinkId, LinkId) {
    let mut bench = Bench::new();
    send_bulk(&mut bench, entity(10));
    let control = bench.dial();
    assert_eq!(open(&mut bench, control, FEATURE_BULK), LinkKind::Control);
    let bulk = bench.dial();
    assert_eq!(open(&mut bench, bulk, FEATURE_BULK), LinkKind::Bulk);
    let written = bench.writes();
    assert_eq!(written.len(), 1);
    assert_eq!(written[0].0, bulk);
    (bench, control, bulk)
}

fn downs(heard: &[Heard]) -> usize {
    let is_down = |heard: &&Heard| matches!(heard, Heard::Link(LinkEvent::Down { .. }));
    heard.iter().filter(is_down).count()
}

/// A frame as it would stand on this lane.
pub(super) fn frame_on(lane: Lane, epoch: u32) -> Vec<u8> {
    let mut bytes = frame(&entity(100), epoch);
    bytes[3] = lane.to_wire();
    let mut crc = !0_u32;
    let (head, body) = (&bytes[..16], &bytes[20..]);
    for byte in head.iter().chain(body) {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0xEDB8_8320 & (crc & 1).wrapping_neg());
        }
    }
    bytes[16..20].copy_from_slice(&(!crc).to_le_bytes());
    bytes
}

#[test]
fn a_bulk_link_is_dialed_when_there_is_something_for_it() {
    let (mut bench, _, bulk) = opened();
    let links = bench.links.outbound.links();
    assert_eq!(links.iter().filter(|link| link.is_open).count(), 2);
    // Nothing for a minute: its place is for others. The control link of this stranger goes as well.
    bench.link(LinkInput::Written(bulk, Vec::new()));
    for _ in 0..13 {
        bench.pass(10_000);
    }
    assert!(bench.links.outbound.links().iter().all(|link| !link.is_open));
    assert_eq!(downs(&bench.heard()), 0);
}

#[test]
fn who_does_not_accept_bulk_links_is_dialed_none_and_the_message_comes_back() {
    let mut bench = Bench::new();
    send_bulk(&mut bench, entity(10));
    let control = bench.dial();
    assert_eq!(open(&mut bench, control, 0), LinkKind::Control);
    assert!(
        bench
            .actions()
            .iter()
            .all(|action| !matches!(action, LinkOrder::Dial { .. }))
    );
    assert_eq!(dropped(&bench.heard(), DropReason::Unreachable), 1);
    send_bulk(&mut bench, entity(10));
    assert_eq!(dropped(&bench.heard(), DropReason::Unreachable), 1);
}

#[test]
fn what_waits_for_a_peer_that_cannot_be_reached_comes_back() {
    let mut bench = Bench::new();
    send_bulk(&mut bench, entity(10));
    for _ in 0..3 {
        let control = bench.dial();
        bench.fail_dial(control);
        bench.pass(200);
    }
    let heard = bench.heard();
    assert_eq!(dropped(&heard, DropReason::Unreachable), 1);
}

#[test]
fn a_full_bulk_queue_gives_the_newest_back_and_sheds_nothing() {
    let mut bench = Bench::limited(|_, limits| {
        limits.bulk_queue_messages_max = 4;
        limits.bulk_queue_bytes_max = 100;
    });
    send_bulk(&mut bench, entity(10));
    let control = bench.dial();
    open(&mut bench, control, FEATURE_BULK);
    for _ in 0..4 {
        send_bulk(&mut bench, entity(10));
    }
    assert_eq!(dropped(&bench.heard(), DropReason::QueueFull), 1);
    assert_eq!(bench.links.outbound.queued(peer().address(), Lane::Bulk), 4);

    let mut bench = Bench::limited(|_, limits| limits.bulk_queue_bytes_max = 100);
    for bytes in [60, 40, 1] {
        send_bulk(&mut bench, entity(bytes));
    }
    assert_eq!(dropped(&bench.heard(), DropReason::QueueFull), 1);
    assert_eq!(bench.links.outbound.queued(peer().address(), Lane::Bulk), 2);
}

#[test]
fn a_peer_that_does_not_read_bulk_data_stops_neither_heartbeats_nor_entities() {
    let (mut bench, control, bulk) = opened();
    // The first write has not ended and never will.
    for _ in 0..5_000 {
        send_bulk(&mut bench, entity(100_000));
    }
    assert!(dropped(&bench.heard(), DropReason::QueueFull) > 4_000);
    bench.send(&peer(), heartbeat(peer()));
    bench.send(&peer(), entity(10));
    let actions = bench.actions();
    let wrote = |action: &&LinkOrder| matches!(action, LinkOrder::Write { link, .. } if *link == control);
    assert_eq!(actions.iter().filter(wrote).count(), 1);
    let dials = actions
        .iter()
        .filter(|action| matches!(action, LinkOrder::Dial { kind, .. } if *kind == LinkKind::User));
    assert_eq!(dials.count(), 1);
    assert!(!aborts(&actions, bulk));
    let (links, now) = (&mut bench.links, Instant::ZERO);
    let slows = links.outbound.slows_senders(&links.base.limits, now);
    assert!(!slows, "senders to entities do not wait for bulk data");
}

#[test]
fn a_lost_bulk_link_says_nothing_about_the_asks_on_their_way() {
    let (mut bench, control, bulk) = opened();
    bench.heard();
    bench.link(LinkInput::Closed(bulk));
    assert_eq!(downs(&bench.heard()), 0);
    bench.link(LinkInput::Closed(control));
    assert_eq!(downs(&bench.heard()), 1);
}

#[test]
fn bulk_links_are_read_while_user_links_are_paused() {
    let mut bench = Bench::new();
    let (user, bulk) = (
        bench.accepted(LinkKind::User, 1),
        bench.accepted(LinkKind::Bulk, 2),
    );
    bench.node.capacity = false;
    bench.receive(user, &frame_on(Lane::User, 1));
    bench.receive(bulk, &frame_on(Lane::Bulk, 2));
    bench.read_users(64);
    let lanes: Vec<Lane> = bench
        .heard()
        .into_iter()
        .filter_map(|heard| match heard {
            Heard::Frame(_, lane) => Some(lane),
            Heard::Link(_) => None,
        })
        .collect();
    assert_eq!(lanes, [Lane::Bulk]);
}

#[test]
fn each_lane_has_its_link_and_a_frame_on_another_ends_it() {
    for (kind, lane) in [
        (LinkKind::Bulk, Lane::User),
        (LinkKind::Bulk, Lane::Control),
        (LinkKind::User, Lane::Bulk),
        (LinkKind::Control, Lane::Bulk),
    ] {
        let mut bench = Bench::new();
        let link = bench.accepted(kind, 1);
        bench.receive(link, &frame_on(lane, 1));
        bench.read_users(64);
        assert!(aborts(&bench.actions(), link), "{kind:?} {lane:?}");
    }
    assert_eq!(LinkKind::of(Lane::Reply), LinkKind::Control);
}
