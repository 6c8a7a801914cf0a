//! Every flipped bit and every truncation of every golden frame, sent to a live node: none of them reaches
//! the protocol, each is counted, and the node goes on. Spec: reliability 3c (B-15, B-16).

use crate::common;

use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use common::{node, within};
use quorate_core::ddata::protocol::DdataBody;
use quorate_core::ident::{Address, ClusterName, Roles, UniqueAddress};
use quorate_core::membership::app_version::AppVersion;
use quorate_core::message::{DdataMsg, Join, MembershipMsg, Message};
use quorate_core::wire::encode_message;
use quorate_core::wire::handshake::{HandshakeDecoded, Hello, LinkKind, decode_answer, encode_hello};
use quorate_tokio::Config;
use quorate_tokio::{Cluster, config::LinkLimits};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

/// The epoch in all golden frames.
const EPOCH: u32 = 7;

/// The largest number of wrong checksums that a link may be set to survive.
const CHECKSUM_FAILURES_MAX: u32 = 1_000;

/// Where the lane's number stands in a header.
const LANE: usize = 3;

/// The bytes of a header behind which nothing can be found any more when one of them is wrong: magic,
/// version, lane, flags, length.
const fn is_structure(byte: usize) -> bool {
    matches!(byte, 0..=3 | 6..=11)
}

/// On which link a frame travels.
fn link_of(frame: &[u8]) -> LinkKind {
    match frame[LANE] {
        0..=2 => LinkKind::Control,
        3 => LinkKind::User,
        4 => LinkKind::Bulk,
        lane => panic!("lane {lane}"),
    }
}

/// Frames of one kind of link with their names; hellos are no frames.
fn golden(of: LinkKind) -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../core/tests/golden");
    let mut frames = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let text = fs::read_to_string(&path).unwrap();
        let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
        if !name.starts_with("hello") {
            frames.push((name, digits.chunks(2).map(byte).collect::<Vec<u8>>()));
        }
    }
    // Replicated data is unstable and has no golden frame.
    let body = DdataBody::WriteAck { operation: 7 };
    let ack = DdataMsg {
        to_uid: 5,
        body,
        weight: 0,
    };
    let mut bytes = Vec::new();
    encode_message(&Message::Ddata(ack), EPOCH, &Default::default(), &mut bytes).unwrap();
    frames.push(("write_ack".into(), bytes));
    frames.retain(|(_, frame)| link_of(frame) == of);
    let least = if of == LinkKind::Control { 20 } else { 1 };
    assert!(frames.len() >= least, "{of:?}: {}", frames.len());
    frames
}

/// Somebody new, at an address where nobody listens.
fn somebody() -> UniqueAddress {
    static UID: AtomicU64 = AtomicU64::new(1_000);
    let uid = UID.fetch_add(1, Ordering::Relaxed);
    let port = u16::try_from(uid % 60_000).unwrap();
    UniqueAddress::new(Address::new("127.0.0.1", port).unwrap(), uid)
}

/// A link of somebody new, from somewhere new: a source whose strangers break the protocol again and again is
/// refused for a while.
async fn link(target: &Cluster) -> TcpStream {
    link_as(target, &somebody(), LinkKind::Control).await
}

async fn link_as(target: &Cluster, from: &UniqueAddress, link: LinkKind) -> TcpStream {
    let to = target.address().address();
    let [.., third, fourth] = from.uid().to_be_bytes();
    let socket = TcpSocket::new_v4().unwrap();
    let source = Ipv4Addr::new(127, 1, third, fourth);
    socket.bind((source, 0).into()).unwrap();
    let hello = Hello {
        versions: (1, 1),
        cluster: ClusterName::new("tests").unwrap(),
        from: from.clone(),
        to: to.clone(),
        expected_uid: None,
        link,
        epoch: EPOCH,
        features: 0,
        auth_method: 0,
        nonce: [1; 16],
    };
    let mut bytes = Vec::new();
    encode_hello(&hello, &mut bytes).unwrap();
    let mut stream = socket
        .connect((Ipv4Addr::LOCALHOST, to.port()).into())
        .await
        .unwrap();
    stream.write_all(&bytes).await.unwrap();
    let (mut heard, mut buffer) = (Vec::new(), [0; 256]);
    while matches!(decode_answer(&heard), HandshakeDecoded::NeedMore(_)) {
        let len = stream.read(&mut buffer).await.unwrap();
        assert_ne!(len, 0);
        heard.extend_from_slice(&buffer[..len]);
    }
    stream
}

/// Somebody new who is a member, and its control link: what others say on links of users and of bulk data is
/// not read.
async fn member(target: &Cluster) -> (UniqueAddress, TcpStream) {
    let me = somebody();
    let mut stream = link_as(target, &me, LinkKind::Control).await;
    let join = Message::Membership(MembershipMsg::Join(Join {
        to: target.address().clone(),
        roles: Roles::default(),
        app_version: AppVersion::default(),
    }));
    let mut bytes = Vec::new();
    encode_message(&join, EPOCH, &Default::default(), &mut bytes).unwrap();
    stream.write_all(&bytes).await.unwrap();
    within(async {
        while target.view().member(&me).is_none() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
    (me, stream)
}

/// Says something on a link of its own, ends it, and waits until the node has ended it too.
async fn say_and_end(target: &Cluster, said: &[u8]) {
    end(link(target).await, said).await;
}

async fn end(mut stream: TcpStream, said: &[u8]) {
    let _ = stream.write_all(said).await;
    let _ = stream.shutdown().await;
    while let Ok(1..) = stream.read(&mut [0; 256]).await {}
}

async fn target() -> Cluster {
    let change = |limits: &mut LinkLimits| {
        limits.checksum_failures_max = CHECKSUM_FAILURES_MAX;
        limits.handshake_timeout = Duration::from_secs(60);
    };
    let target = node().link_limits(change).start().await.unwrap();
    target.join([target.address().address()]).await.unwrap();
    target.up().await.unwrap();
    target
}

/// Nothing reached the protocol, and the node is what it was.
async fn is_unharmed(target: &Cluster) {
    let stats = target.stats().await.unwrap();
    assert_eq!(stats.core.node.frames_received, 0, "{stats:?}");
    assert_eq!(target.members().len(), 1);
    target.leave().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b_15_every_flipped_bit_of_every_golden_frame_is_refused_by_a_live_node() {
    let target = target().await;
    let mut skipped = 0;
    for (name, frame) in golden(LinkKind::Control) {
        let mut together = Vec::new();
        for bit in 0..frame.len() * 8 {
            let mut flipped = frame.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            if is_structure(bit / 8) {
                say_and_end(&target, &flipped).await;
            } else {
                together.push(flipped);
            }
        }
        skipped += together.len() as u64;
        for some in together.chunks(CHECKSUM_FAILURES_MAX as usize - 1) {
            say_and_end(&target, &some.concat()).await;
        }
        let stats = target.stats().await.unwrap();
        assert!(stats.links.frames_skipped >= skipped, "{name}: {stats:?}");
        assert_eq!(stats.links.links_closed_for_checksums, 0, "{name}");
        assert_eq!(stats.core.node.frames_received, 0, "{name}: {stats:?}");
    }
    is_unharmed(&target).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b_16_every_truncation_of_every_golden_frame_is_refused_by_a_live_node() {
    let target = target().await;
    for (_, frame) in golden(LinkKind::Control) {
        for len in 1..frame.len() {
            say_and_end(&target, &frame[..len]).await;
        }
    }
    within(async {
        while target.stats().await.unwrap().links.links_open > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    is_unharmed(&target).await;
}

/// A node that decides nothing about members that are not there.
async fn patient() -> Cluster {
    let change = |config: &mut Config| {
        config.downing.stable_after = Some(Duration::from_secs(3_600));
        config.failure_detector.acceptable_heartbeat_pause = Duration::from_secs(300);
    };
    let survives = |limits: &mut LinkLimits| limits.checksum_failures_max = CHECKSUM_FAILURES_MAX;
    let target = node().config(change).link_limits(survives).start().await.unwrap();
    target.join([target.address().address()]).await.unwrap();
    target.up().await.unwrap();
    target
}

/// The same on links that only members have: flipped bits behind which the next frame is found, all of every
/// frame; those of the header, which end a link, of one frame each, by members that are quarantined for it;
/// every truncation.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b_15_b_16_damaged_frames_on_a_members_user_and_bulk_links_are_refused() {
    let target = patient().await;
    for kind in [LinkKind::User, LinkKind::Bulk] {
        let (me, _control) = member(&target).await;
        let mut skipped = 0;
        let before = target.stats().await.unwrap();
        for (name, frame) in golden(kind) {
            let body = (0..frame.len() * 8).filter(|bit| !is_structure(bit / 8));
            let flipped: Vec<Vec<u8>> = body
                .map(|bit| {
                    let mut flipped = frame.clone();
                    flipped[bit / 8] ^= 1 << (bit % 8);
                    flipped
                })
                .collect();
            skipped += flipped.len() as u64;
            for some in flipped.chunks(CHECKSUM_FAILURES_MAX as usize - 1) {
                end(link_as(&target, &me, kind).await, &some.concat()).await;
            }
            for len in 1..frame.len() {
                end(link_as(&target, &me, kind).await, &frame[..len]).await;
            }
            let stats = target.stats().await.unwrap();
            let now = stats.links.frames_skipped - before.links.frames_skipped;
            assert_eq!(now, skipped, "{kind:?} {name}: {stats:?}");
            assert_eq!(
                stats.core.node.frames_received, before.core.node.frames_received,
                "{name}: {stats:?}"
            );
        }
        let (_, frame) = golden(kind).remove(0);
        for bit in (0..frame.len().min(12) * 8).filter(|bit| is_structure(bit / 8)) {
            let (me, control) = member(&target).await;
            let mut flipped = frame.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            end(link_as(&target, &me, kind).await, &flipped).await;
            drop(control);
        }
    }
    let stats = target.stats().await.unwrap();
    assert_eq!(
        stats.core.node.rejected_wire, 0,
        "no damaged frame was decoded: {stats:?}"
    );
    target.stop().await;
}
