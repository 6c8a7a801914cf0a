//! Nodes of several protocol versions in one cluster. The next version's node is a real node whose bytes are
//! changed on their way out into what such a node would write on a link of version 1: a wider range of
//! versions, features and fields that nobody knows yet, frames of unknown kinds between the known ones. Spec:
//! `docs/WIRE.md` 6.

use crate::common;

use std::io;
use std::time::Duration;

use common::{LIMIT, within};
use quorate_core::message::DetectorMsg;
use quorate_core::wire::handshake::{FEATURES, HandshakeDecoded, decode_hello, encode_hello};
use quorate_core::wire::{FLAG_EXTENDED, HEADER_BYTES};
use quorate_driver::spi::{Accepted, Adapter, LinkKind, LinkWriter, Listener, Transport};
use quorate_driver::{Address, Config, Status};
use quorate_driver::{Cluster, ClusterBuilder, Security};
use quorate_tokio::spi::{Tcp, TcpPort};
use quorate_tokio::spi::{TokioReadHalf, TokioRuntime, TokioSockets, TokioWriteHalf};

/// What a node says about itself that is of another version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Version {
    range: (u8, u8),
    /// Features, fields and kinds that version 1 does not know.
    has_news: bool,
}

const PREVIOUS: Version = Version {
    range: (0, 1),
    has_news: false,
};
const NEXT: Version = Version {
    range: (1, 2),
    has_news: true,
};
const FAR: Version = Version {
    range: (2, 3),
    has_news: true,
};

/// A kind and a feature bit that nobody has given out.
const UNKNOWN_KIND: u16 = 0x00FE;
const UNKNOWN_FEATURE: u64 = 1 << 40;
/// Extension fields: one tag, four bytes.
const EXTENSION: [u8; 8] = [0x77, 0x77, 4, 0, b'n', b'e', b'w', b's'];

/// TCP links of a node of another version. `V` picks it.
#[derive(Clone, Copy, Debug)]
struct Links<const V: usize>;

const VERSIONS: [Version; 3] = [PREVIOUS, NEXT, FAR];

struct Port<const V: usize>(TcpPort<TokioSockets>);

struct Writer<const V: usize>(TcpLinkWriter);

type TcpLinkReader = quorate_tokio::spi::TcpLinkReader<TokioReadHalf>;
type TcpLinkWriter = quorate_tokio::spi::TcpLinkWriter<TokioWriteHalf>;

impl<const V: usize> Transport for Links<V> {
    type Listener = Port<V>;
    type Reader = TcpLinkReader;
    type Writer = Writer<V>;

    async fn bind(&self, address: &str) -> io::Result<Port<V>> {
        Ok(Port(Tcp(TokioSockets).bind(address).await?))
    }

    async fn dial(&self, to: &Address, kind: LinkKind) -> io::Result<(TcpLinkReader, Writer<V>)> {
        let (reader, writer) = Tcp(TokioSockets).dial(to, kind).await?;
        Ok((reader, Writer(writer)))
    }
}

impl<const V: usize> Listener for Port<V> {
    type Reader = TcpLinkReader;
    type Writer = Writer<V>;

    fn local_address(&self) -> io::Result<std::net::SocketAddr> {
        self.0.local_address()
    }

    async fn accept(&mut self) -> io::Result<Accepted<TcpLinkReader, Writer<V>>> {
        let Accepted {
            remote,
            reader,
            writer,
        } = self.0.accept().await?;
        Ok(Accepted {
            remote,
            reader,
            writer: Writer(writer),
        })
    }
}

impl<const V: usize> LinkWriter for Writer<V> {
    async fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(&translated(VERSIONS[V], bytes)).await
    }

    async fn close(&mut self) -> io::Result<()> {
        self.0.close().await
    }
}

fn translated(version: Version, bytes: &[u8]) -> Vec<u8> {
    if bytes.starts_with(b"Qrh1") {
        return match decode_hello(bytes) {
            HandshakeDecoded::Done {
                value: mut hello,
                consumed,
            } => {
                assert_eq!(consumed, bytes.len(), "a hello comes alone");
                hello.versions = version.range;
                if version.has_news {
                    hello.features |= UNKNOWN_FEATURE;
                } else {
                    // What this version knows came later.
                    hello.features &= !FEATURES;
                }
                let mut out = Vec::new();
                encode_hello(&hello, &mut out).unwrap();
                extended_handshake(version, out)
            }
            // An answer: its version is what both speak.
            HandshakeDecoded::NeedMore(_) | HandshakeDecoded::Bad(_) => {
                extended_handshake(version, bytes.to_vec())
            }
        };
    }
    if !version.has_news {
        return bytes.to_vec();
    }
    let (mut rest, mut out) = (bytes, Vec::new());
    while !rest.is_empty() {
        let len = u32::from_le_bytes(rest[8..12].try_into().unwrap()) as usize;
        let (frame, tail) = rest.split_at(HEADER_BYTES + len);
        rest = tail;
        let is = u16::from_le_bytes([frame[4], frame[5]]);
        out.extend(with_extension(frame));
        if is == DetectorMsg::HEARTBEAT.kind {
            out.extend(of_unknown_kind(frame));
        }
    }
    out
}

fn extended_handshake(version: Version, mut message: Vec<u8>) -> Vec<u8> {
    if version.has_news {
        message.extend(EXTENSION);
        let len = u16::try_from(message.len() - 12).unwrap();
        message[6..8].copy_from_slice(&len.to_le_bytes());
        let sum = checksum(&[&message[..8], &message[12..]]);
        message[8..12].copy_from_slice(&sum);
    }
    message
}

fn with_extension(frame: &[u8]) -> Vec<u8> {
    let (head, body) = frame.split_at(HEADER_BYTES);
    let mut out = head.to_vec();
    let flags = u16::from_le_bytes([head[6], head[7]]) | FLAG_EXTENDED;
    out[6..8].copy_from_slice(&flags.to_le_bytes());
    out.extend(u16::try_from(EXTENSION.len()).unwrap().to_le_bytes());
    out.extend(EXTENSION);
    out.extend(body);
    mended(out)
}

fn of_unknown_kind(frame: &[u8]) -> Vec<u8> {
    let mut out = frame[..HEADER_BYTES].to_vec();
    out[4..6].copy_from_slice(&UNKNOWN_KIND.to_le_bytes());
    out.extend(b"what a later version says");
    mended(out)
}

fn mended(mut frame: Vec<u8>) -> Vec<u8> {
    let len = u32::try_from(frame.len() - HEADER_BYTES).unwrap();
    frame[8..12].copy_from_slice(&len.to_le_bytes());
    let sum = checksum(&[&frame[..16], &frame[HEADER_BYTES..]]);
    frame[16..20].copy_from_slice(&sum);
    frame
}

fn checksum(parts: &[&[u8]]) -> [u8; 4] {
    let mut hasher = crc32fast::Hasher::new();
    parts.iter().for_each(|part| hasher.update(part));
    hasher.finalize().to_le_bytes()
}

macro_rules! adapter {
    ($name:ident, $version:literal) => {
        #[derive(Debug)]
        struct $name;

        impl Adapter for $name {
            type Runtime = TokioRuntime;
            type Transport = Links<$version>;

            fn runtime() -> io::Result<TokioRuntime> {
                TokioRuntime::current()
            }

            fn transport(_: &TokioRuntime, _: &Security) -> io::Result<Links<$version>> {
                Ok(Links)
            }
        }
    };
}

adapter!(OfThePrevious, 0);
adapter!(OfTheNext, 1);
adapter!(OfAFar, 2);

async fn started<A: Adapter>(seed: Option<&Address>) -> Cluster {
    let node = ClusterBuilder::on::<A>("tests")
        .bind("127.0.0.1:0")
        .security(Security::insecure_plaintext())
        .fast_profile()
        .config(|config: &mut Config| {
            config.failure_detector.acceptable_heartbeat_pause = Duration::from_millis(2_000);
        });
    let node = node.start().await.unwrap();
    let own = node.address().address().clone();
    node.join([seed.unwrap_or(&own)]).await.unwrap();
    node
}

async fn all_up(node: &Cluster, count: usize) {
    let mut events = node.events();
    within(async {
        loop {
            let view = node.view();
            if view.members_in(Status::Up).count() == count {
                return;
            }
            assert!(events.next().await.is_some(), "the node ended: {view:?}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_of_the_previous_this_and_the_next_version_form_one_cluster() {
    let first = started::<quorate_tokio::Tokio>(None).await;
    let seed = first.address().address().clone();
    let previous = started::<OfThePrevious>(Some(&seed)).await;
    let next = started::<OfTheNext>(Some(&seed)).await;
    let other = started::<OfTheNext>(Some(&seed)).await;
    all_up(&first, 4).await;
    all_up(&previous, 4).await;
    all_up(&next, 4).await;
    all_up(&other, 4).await;
    // Unknown kinds are counted and dropped; the links that brought them stay.
    within(async {
        while first.stats().await.unwrap().core.node.rejected_wire < 5 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    let stats = first.stats().await.unwrap();
    assert_eq!(
        (
            stats.links.links_closed_for_violation,
            stats.links.handshakes_refused,
            stats.core.node.links_lost
        ),
        (0, 0, 0),
        "{stats:?}"
    );
    assert_eq!(first.view().unreachable(), []);
    let left = tokio::time::timeout(LIMIT, next.leave()).await.unwrap().unwrap();
    assert!(left.is_graceful());
    all_up(&previous, 3).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_without_a_version_in_common_is_refused_with_that_reason() {
    let first = started::<quorate_tokio::Tokio>(None).await;
    all_up(&first, 1).await;
    let far = started::<OfAFar>(Some(first.address().address())).await;
    within(async {
        while first.stats().await.unwrap().links.refused_version == 0
            || far.stats().await.unwrap().links.dials_refused == 0
        {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    assert_eq!(first.view().members().len(), 1);
    assert_eq!(far.view().members().len(), 0);
}
