//! Peers that flood: each is a thread with one link at a time, and says as much as the node takes. Nothing is
//! read but the handshake's answer.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use quorate_core::config::Limits;
use quorate_core::ident::{Address, ClusterName, UniqueAddress};
use quorate_core::message::{
    DetectorMsg, EntityEnvelope, GossipStatus, Heartbeat, MembershipMsg, Message, ShardingMsg, StateDigest,
};
use quorate_core::sharding::ids::{EntityId, KindId, ShardId};
use quorate_core::wire::encode_message;
use quorate_core::wire::handshake::{
    HandshakeDecoded, Hello, HelloAnswer, LinkKind, decode_answer, encode_hello,
};

use crate::{CLUSTER, KIND, SHARDS};

/// How long a thread is stuck in one write at most, so that it sees the end.
const WRITE_TIMEOUT: Duration = Duration::from_millis(200);

/// Bytes of the body that an unfinished frame announces: the most that the gossip lane allows.
const ANNOUNCED: u32 = 4 << 20;

/// What a peer says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flood {
    /// Frames that can be read: heartbeats, gossip statuses, messages to entities.
    Valid,
    /// Frames that cannot: checksums, lengths, bombs, ends that never come.
    Invalid,
}

/// The first words on a link, without a key.
pub(crate) fn hello(to: &Address, from: UniqueAddress, link: LinkKind, epoch: u32) -> Option<Vec<u8>> {
    let hello = Hello {
        versions: (1, 1),
        cluster: ClusterName::new(CLUSTER).ok()?,
        from,
        to: to.clone(),
        expected_uid: None,
        link,
        epoch,
        features: 0,
        auth_method: 0,
        nonce: [1; 16],
    };
    let mut bytes = Vec::new();
    encode_hello(&hello, &mut bytes).ok()?;
    Some(bytes)
}

fn heartbeat(to: &UniqueAddress, epoch: u32) -> Vec<u8> {
    let heartbeat = Message::Detector(DetectorMsg::Heartbeat(Heartbeat::new(to, 1)));
    let mut frame = Vec::new();
    let encoded = encode_message(&heartbeat, epoch, &Limits::default(), &mut frame);
    encoded.expect("invariant: a legal message");
    frame
}

/// The header of a frame on the gossip lane, made of another frame's.
fn gossip_header(frame: &[u8]) -> Vec<u8> {
    let mut header = frame.to_vec();
    header.truncate(20);
    header[3] = 1;
    header[4..6].copy_from_slice(&12_u16.to_le_bytes());
    header
}

/// How the largest legal frame begins.
pub(crate) fn announcement(to: &UniqueAddress, epoch: u32) -> Vec<u8> {
    let mut header = gossip_header(&heartbeat(to, epoch));
    header[8..12].copy_from_slice(&ANNOUNCED.to_le_bytes());
    header
}

/// What was said.
#[derive(Debug, Default)]
pub(crate) struct Said {
    pub(crate) bytes: AtomicU64,
    pub(crate) links: AtomicU64,
}

pub(crate) struct Attack {
    pub(crate) to: UniqueAddress,
    pub(crate) flood: Flood,
    pub(crate) over: Arc<AtomicBool>,
    pub(crate) said: Arc<Said>,
}

impl Attack {
    /// Floods on two threads, as a peer has two links, until it is over.
    pub(crate) fn start(self: Arc<Self>, peer: u64) -> Vec<thread::JoinHandle<()>> {
        [LinkKind::Control, LinkKind::User]
            .into_iter()
            .map(|kind| {
                let attack = Arc::clone(&self);
                thread::spawn(move || attack.run(peer, kind))
            })
            .collect()
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    fn run(&self, peer: u64, kind: LinkKind) {
        let mut turn = 0_u32;
        while !self.is_over() {
            turn += 1;
            // Who sends nonsense is quarantined, and comes back as somebody else.
            let uid = match self.flood {
                Flood::Valid => peer,
                Flood::Invalid => peer * 1_000_000 + u64::from(turn),
            };
            match self.open(uid, peer, kind, turn) {
                Some(stream) => self.talk(stream, kind, turn),
                None => thread::sleep(Duration::from_millis(20)),
            }
        }
    }

    fn open(&self, uid: u64, peer: u64, link: LinkKind, epoch: u32) -> Option<TcpStream> {
        let to = self.to.address();
        let port = 20_000 + u16::try_from(peer).ok()?;
        let from = UniqueAddress::new(Address::new("127.0.0.1", port).ok()?, uid);
        let bytes = hello(to, from, link, epoch)?;
        let mut stream = TcpStream::connect((to.host(), to.port())).ok()?;
        stream.set_write_timeout(Some(WRITE_TIMEOUT)).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
        stream.write_all(&bytes).ok()?;
        let (mut heard, mut buffer) = (Vec::new(), [0; 256]);
        loop {
            match decode_answer(&heard) {
                HandshakeDecoded::Done {
                    value: HelloAnswer::Ack(_),
                    ..
                } => break,
                HandshakeDecoded::NeedMore(_) => {}
                HandshakeDecoded::Done { .. } | HandshakeDecoded::Bad(_) => return None,
            }
            let len = stream.read(&mut buffer).ok().filter(|len| *len > 0)?;
            heard.extend(buffer.iter().take(len));
        }
        self.said.links.fetch_add(1, Ordering::Relaxed);
        Some(stream)
    }

    fn talk(&self, mut stream: TcpStream, kind: LinkKind, turn: u32) {
        match self.flood {
            Flood::Valid => {
                let burst = self.valid(kind, turn);
                while !self.is_over() && self.say(&mut stream, &burst) {}
            }
            Flood::Invalid => {
                let (bytes, holds) = self.invalid(turn);
                self.say(&mut stream, &bytes);
                // Some keep the link, so that what the node holds for it is held.
                let until = Instant::now() + Duration::from_secs(if holds { 1 } else { 0 });
                while !self.is_over() && Instant::now() < until {
                    thread::sleep(Duration::from_millis(50));
                }
            }
        }
    }

    /// Says all of it, if the node keeps reading.
    fn say(&self, stream: &mut TcpStream, mut bytes: &[u8]) -> bool {
        while !bytes.is_empty() && !self.is_over() {
            match stream.write(bytes) {
                Ok(0) => return false,
                Ok(len) => {
                    self.said.bytes.fetch_add(len as u64, Ordering::Relaxed);
                    bytes = bytes.get(len..).unwrap_or_default();
                }
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(_) => return false,
            }
        }
        true
    }

    /// A few hundred kilobytes of frames that a reader accepts.
    fn valid(&self, kind: LinkKind, epoch: u32) -> Vec<u8> {
        let payload = postcard::to_allocvec(&vec![7_u8; 1_024]).expect("invariant: bytes");
        let mut bytes = Vec::new();
        let mut put = |message: Message| {
            let encoded = encode_message(&message, epoch, &Limits::default(), &mut bytes);
            encoded.expect("invariant: a legal message");
        };
        for number in 0..200_u64 {
            match kind {
                LinkKind::Control => {
                    put(Message::Detector(DetectorMsg::Heartbeat(Heartbeat::new(
                        &self.to, number,
                    ))));
                    put(Message::Membership(MembershipMsg::GossipStatus(GossipStatus {
                        to_uid: self.to.uid(),
                        state: StateDigest::default(),
                        seen_digest: number,
                        is_answer: false,
                    })));
                }
                LinkKind::User => {
                    let entity = EntityId::new(format!("flooded-{number}").as_bytes());
                    put(Message::Sharding(ShardingMsg::Entity(EntityEnvelope {
                        kind: KindId::of(KIND),
                        shard: ShardId::of(&entity, SHARDS),
                        entity,
                        payload: payload.clone().into(),
                        ask: None,
                        hops: 0,
                    })));
                }
                // Never dialed by these attackers.
                LinkKind::Bulk => {}
            }
        }
        bytes
    }

    /// Something that no reader accepts, and whether its link is kept afterwards.
    fn invalid(&self, turn: u32) -> (Vec<u8>, bool) {
        let mut frame = heartbeat(&self.to, turn);
        let mut gossip_header = gossip_header(&frame);
        match turn % 6 {
            // Noise.
            0 => (vec![0x5a; 64 << 10], false),
            // Wrong checksums.
            1 => {
                frame[16] ^= 1;
                (frame.repeat(1_000), false)
            }
            // Four gigabytes.
            2 => {
                frame[8..12].copy_from_slice(&u32::MAX.to_le_bytes());
                (frame, false)
            }
            // The largest legal frame, all but its end.
            3 => {
                gossip_header[8..12].copy_from_slice(&ANNOUNCED.to_le_bytes());
                gossip_header.resize(ANNOUNCED as usize, 0);
                (gossip_header, true)
            }
            // The largest legal frame, and nothing of it.
            4 => {
                gossip_header[8..12].copy_from_slice(&ANNOUNCED.to_le_bytes());
                (gossip_header, true)
            }
            // A state that inflates for ever.
            _ => {
                let mut body = Vec::new();
                body.push(9);
                body.extend(b"127.0.0.1");
                body.extend(self.to.address().port().to_le_bytes());
                body.extend(self.to.uid().to_le_bytes());
                body.push(1);
                body.extend(ANNOUNCED.to_le_bytes());
                body.resize(64 << 10, 0);
                gossip_header[8..12].copy_from_slice(&(body.len() as u32).to_le_bytes());
                let mut sum = crc32fast::Hasher::new();
                sum.update(&gossip_header[..16]);
                sum.update(&body);
                gossip_header[16..20].copy_from_slice(&sum.finalize().to_le_bytes());
                gossip_header.extend(body);
                (gossip_header, false)
            }
        }
    }
}
