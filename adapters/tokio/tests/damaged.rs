//! Every flipped bit and every truncation of every golden frame, sent to a live node: none of them reaches the protocol, each
//! is counted, and the node goes on. Spec: reliability 3c (B-15, B-16).
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use common::{node, within};
use quorate_core::ident::{Address, ClusterName, UniqueAddress};
use quorate_core::wire::handshake::{HandshakeDecoded, Hello, LinkKind, decode_answer, encode_hello};
use quorate_tokio::Cluster;
use quorate_tokio::core::Config;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

/// The epoch in all golden frames.
const EPOCH: u32 = 7;

/// The largest number of wrong checksums that a link may be set to survive.
const CHECKSUM_FAILURES_MAX: u32 = 1_000;

/// Where the lane's number stands in a header, and the last one of those that share the control link.
const LANE: usize = 3;
const REPLY: u8 = 2;

/// Frames of the control link with their names; hellos are no frames. What a stranger sends on links of other lanes is not read at
/// all (`pump/stranger_tests.rs`); that a damaged one is refused once it is read, the core's tests of golden frames show.
fn golden() -> Vec<(String, Vec<u8>)> {
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
    frames.retain(|(_, frame)| frame[LANE] <= REPLY);
    assert!(frames.len() > 20);
    frames
}

/// A link of somebody new, from somewhere new: a source whose strangers break the protocol again and again is refused for a while.
async fn link(target: &Cluster) -> TcpStream {
    static UID: AtomicU64 = AtomicU64::new(1_000);
    let to = target.address().address();
    let uid = UID.fetch_add(1, Ordering::Relaxed);
    let [.., third, fourth] = uid.to_be_bytes();
    let socket = TcpSocket::new_v4().unwrap();
    let source = Ipv4Addr::new(127, 1, third, fourth);
    socket.bind((source, 0).into()).unwrap();
    let hello = Hello {
        versions: (1, 1),
        cluster: ClusterName::new("tests").unwrap(),
        from: UniqueAddress::new(Address::new("127.0.0.1", 9).unwrap(), uid),
        to: to.clone(),
        expected_uid: None,
        link: LinkKind::Control,
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

/// Says something on a link of its own, ends it, and waits until the node has ended it too.
async fn say_and_end(target: &Cluster, said: &[u8]) {
    let mut stream = link(target).await;
    let _ = stream.write_all(said).await;
    let _ = stream.shutdown().await;
    while let Ok(1..) = stream.read(&mut [0; 256]).await {}
}

async fn target() -> Cluster {
    let change = |config: &mut Config| {
        config.limits.checksum_failures_max = CHECKSUM_FAILURES_MAX;
        config.limits.handshake_timeout = Duration::from_secs(60);
    };
    let target = node().config(change).start().await.unwrap();
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
    for (name, frame) in golden() {
        let mut together = Vec::new();
        for bit in 0..frame.len() * 8 {
            let mut flipped = frame.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            // Magic, version, lane, flags and length: what stands behind them cannot be found any more.
            if matches!(bit / 8, 0..=3 | 6..=11) {
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
    for (_, frame) in golden() {
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
