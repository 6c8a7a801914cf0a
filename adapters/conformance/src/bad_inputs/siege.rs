//! Strangers who come as far as they get: without a word, with half a frame, with links of every kind, with
//! nonsense. None of it costs a member anything. Spec: reliability 3b, 3c (B-52), F-29.

use std::time::{Duration, Instant};

use quorate_core::message::MembershipMsg;
use quorate_core::wire::handshake::{HelloAnswer, LinkKind as HelloLink};
use quorate_driver::spi::{Adapter, LinkWriter};
use quorate_driver::{Cluster, Security};

use super::craft::{GOSSIP, USER, frame};
use super::{Attacker, RowSpeaker, rest, rows, say, stats};
use crate::strangers::{HANDSHAKE_LIMIT, LinkStranger, goes_on, impatient};
use crate::support::{
    FirstReady, cluster, eventually, first, living_on, node, notebooks, race, read, sleep, suspected, within,
};

/// Handshakes that may be under way at once.
const PENDING_MAX: usize = 32;

/// Half of the longest gossip frame.
const HALF_FRAME_BYTES: usize = 2 << 20;

/// B-52: idle and half-done handshakes of one source, as many as there are places and more all the time:
/// nodes come and go meanwhile. For transports on which every link is a connection of its own.
pub async fn half_done_handshakes_up_to_the_budget_keep_no_honest_node_out<A: Adapter>(security: &Security) {
    let target = first::<A>(node::<A>(security).link_limits(|limits| {
        limits.pending_handshakes_max = PENDING_MAX;
        limits.pending_handshakes_per_source_max = PENDING_MAX;
    }));
    let target = target.await;
    let to = target.address().address();
    let mut events = target.events();
    let stranger = LinkStranger::new::<A>(&Security::insecure_plaintext()).await;
    let besieging = async {
        let mut held = Vec::new();
        loop {
            for begin in [&b""[..], b"Q", b"Qrn1 and half", b"\x16\x03\x01"] {
                if let Ok((reader, mut writer)) = stranger.try_dial(to).await {
                    say(&mut writer, begin).await;
                    held.push((reader, writer));
                }
            }
            let pending = stats(&target).await.links.handshakes_pending;
            assert!(pending <= PENDING_MAX as u64, "{pending}");
            // The oldest hang up: there are only so many sockets.
            held.drain(..held.len().saturating_sub(4 * PENDING_MAX));
            sleep::<A>(Duration::from_millis(20)).await;
        }
    };
    let honest = async {
        eventually::<A>("all places are taken", async || {
            stats(&target).await.links.refused_too_many > 0
        })
        .await;
        for _ in 0..2 {
            goes_on::<A>(&target, security).await;
        }
    };
    let ended: FirstReady<(), ()> = race(honest, besieging).await;
    assert!(matches!(ended, FirstReady::Left(())));
    assert_eq!(suspected::<A>(&mut events).await, 0);
}

/// Half of the longest frame from each of some strangers: nothing of it is kept, and members' messages have
/// all their room.
pub async fn half_a_frame_of_a_stranger_draws_nothing_from_the_members_bytes<A: Adapter>(
    security: &Security,
) {
    let nodes = cluster::<A>(2, security).await;
    let (here, there) = (notebooks(&nodes[0]).await, notebooks(&nodes[1]).await);
    let id = living_on::<A>(&there, nodes[0].address()).await;
    let before = stats(&nodes[0]).await.links;
    let mut attacker = Attacker::new::<A>(nodes[0].address(), security).await;
    let mut held = Vec::new();
    for _ in 0..4 {
        let mut scene = attacker.somebody(RowSpeaker::Stranger);
        let mut halves = attacker.open::<A>(&mut scene, false).await;
        let whole = frame(
            GOSSIP,
            MembershipMsg::GOSSIP.kind,
            scene.epoch,
            &vec![0; 2 * HALF_FRAME_BYTES - 1_024],
        );
        let half = whole.get(..HALF_FRAME_BYTES).expect("it has more");
        for part in half.chunks(64 << 10) {
            say(&mut halves.1, part).await;
        }
        held.push(halves);
    }
    eventually::<A>("it is read and thrown away", async || {
        let now = stats(&nodes[0]).await.links;
        now.bytes_received >= before.bytes_received + 4 * (HALF_FRAME_BYTES as u64) - (1 << 20)
    })
    .await;
    let now = stats(&nodes[0]).await.links;
    assert!(
        now.inbound_bytes_held <= before.inbound_bytes_held + (64 << 10),
        "{} of {} bytes",
        now.inbound_bytes_held - before.inbound_bytes_held,
        4 * HALF_FRAME_BYTES
    );
    there
        .entity(&id)
        .tell(&vec![7; 100_000])
        .await
        .expect("it is taken");
    eventually::<A>("what was told is read", async || {
        read::<A>(&here, &id).await.1.len() == 100_000
    })
    .await;
}

/// Whoever gets a link and asks for nothing is gone within the handshake's limit, on links of every kind.
pub async fn strangers_who_ask_for_nothing_are_closed_within_the_handshakes_limit<A: Adapter>(
    security: &Security,
) {
    let target = impatient::<A>(security).await;
    let mut attacker = Attacker::new::<A>(target.address(), security).await;
    let mut open = Vec::new();
    for kind in HelloLink::ALL {
        let mut scene = attacker.somebody(RowSpeaker::Stranger);
        let begun = Instant::now();
        let ((reader, mut writer), answer) = attacker.greet_on::<A>(&mut scene, kind).await;
        assert!(matches!(answer, HelloAnswer::Ack(_)), "{kind:?}: {answer:?}");
        // Not a word that a member may say makes it stay.
        say(&mut writer, &rows::probe(&scene, kind == HelloLink::User)).await;
        open.push((kind, begun, reader, writer));
    }
    for (kind, begun, reader, _writer) in &mut open {
        within::<A, _>("the node hangs up", rest(reader)).await;
        let took = begun.elapsed();
        // It is the only limit that such a link has: without it, it would stay for good.
        assert!(took < 20 * HANDSHAKE_LIMIT, "{kind:?}: {took:?}");
    }
    let links = stats(&target).await.links;
    let closed = links.strangers_closed_unasked + links.links_closed_for_violation;
    assert_eq!(closed, open.len() as u64, "{links:?}");
    eventually::<A>("nothing is left of them", async || {
        stats(&target).await.links.stranger_links == 0
    })
    .await;
    goes_on::<A>(&target, security).await;
}

/// Three strangers of one source break the protocol: the next one of there is refused for a while, whatever
/// it calls itself. Where a member is behind the same address, everybody is judged by what he does himself.
pub async fn violations_of_strangers_count_for_their_source<A: Adapter>(security: &Security) {
    let alone = first::<A>(node::<A>(security)).await;
    let closed = violate::<A>(&alone, security, 3).await;
    assert_eq!(closed, 3);
    let mut attacker = Attacker::new::<A>(alone.address(), security).await;
    attacker.uid = 9_000;
    let before = stats(&alone).await.links.refused_unruly;
    let dialed = attacker.stranger.try_dial(alone.address().address()).await;
    if let Ok((mut reader, mut writer)) = dialed {
        say(&mut writer, b"Qrh1").await;
        within::<A, _>("the node hangs up", rest(&mut reader)).await;
    }
    eventually::<A>("it is refused for where it comes from", async || {
        stats(&alone).await.links.refused_unruly > before
    })
    .await;

    let nodes = cluster::<A>(2, security).await;
    assert_eq!(violate::<A>(&nodes[0], security, 6).await, 6);
    assert_eq!(stats(&nodes[0]).await.links.refused_unruly, 0);
    goes_on::<A>(&nodes[0], security).await;
}

/// So many strangers, each of whom breaks the protocol. How many links that closed.
async fn violate<A: Adapter>(target: &Cluster, security: &Security, count: u64) -> u64 {
    let mut attacker = Attacker::new::<A>(target.address(), security).await;
    let before = stats(target).await.links.links_closed_for_violation;
    for _ in 0..count {
        let mut scene = attacker.somebody(RowSpeaker::Stranger);
        let (mut reader, mut writer) = attacker.open::<A>(&mut scene, false).await;
        // No honest peer of any version says what belongs on another link.
        let lost = frame(USER, MembershipMsg::LEAVE.kind, scene.epoch, b"whatever");
        say(&mut writer, &lost).await;
        within::<A, _>("the node hangs up", rest(&mut reader)).await;
        let _ = writer.close().await;
    }
    stats(target).await.links.links_closed_for_violation - before
}
