//! The first bytes on a link: who dials whom, for which cluster, in which versions. Codes them and checks them; sends
//! nothing and remembers nothing. Only the dialer sends frames afterwards. Spec: `docs/WIRE.md` 3, reliability 3a.
#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use alloc::vec::Vec;

use super::bytes::{Reader, put_address, put_node, put_text};
use super::frame::{VERSION_MAX, VERSION_MIN};
use super::{WireError, extension};
use crate::ident::{Address, ClusterName, UniqueAddress};

/// How every handshake message begins. The layout behind it never changes; what may change is negotiated in it.
pub const HANDSHAKE_MAGIC: [u8; 4] = *b"Qrh1";
/// Bytes before a handshake message's body: magic, kind, a zero, length, checksum.
pub const HANDSHAKE_HEADER_BYTES: usize = 12;
/// Longest body of a handshake message: the names at their longest take 400 bytes, the rest is room for extensions.
pub const HANDSHAKE_BODY_BYTES_MAX: usize = 1024;
/// Longest proof: an HMAC-SHA-512.
pub const PROOF_BYTES_MAX: usize = 64;
/// No authentication: whoever can connect is believed.
pub const AUTH_NONE: u8 = 0;
/// Feature bit, reserved: the sender understands delta gossip.
pub const FEATURE_DELTA_GOSSIP: u64 = 1;
/// Feature bit, reserved: the sender understands eager push.
pub const FEATURE_EAGER_PUSH: u64 = 1 << 1;
/// The features this build offers.
pub const FEATURES: u64 = 0;

const KIND_HELLO: u8 = 1;
const KIND_ACK: u8 = 2;
const KIND_REJECT: u8 = 3;
const CHECKED_HEADER_BYTES: usize = 8;

/// What a link is for. Each side dials both to a peer and writes only on those it dialed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LinkKind {
    /// Lanes Control, Gossip and Reply. Never paused.
    Control,
    /// Lane User. Paused when the receiver has no room.
    User,
}

/// The dialer's first message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Oldest and newest frame version the dialer speaks.
    pub versions: (u8, u8),
    /// The dialer's cluster.
    pub cluster: ClusterName,
    /// The dialer.
    pub from: UniqueAddress,
    /// The address the dialer means to reach.
    pub to: Address,
    /// The incarnation it means to reach, if it knows one.
    pub expected_uid: Option<u64>,
    /// What the link is for.
    pub link: LinkKind,
    /// Counts the dialer's links to this address; every frame on the link carries it.
    pub epoch: u32,
    /// What the dialer understands.
    pub features: u64,
    /// How the dialer proves who it is; [`AUTH_NONE`] for not at all.
    pub auth_method: u8,
    /// Fresh random bytes.
    pub nonce: [u8; 16],
}

/// The acceptor's consent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HelloAck {
    /// The frame version of this link.
    pub version: u8,
    /// The acceptor.
    pub from: UniqueAddress,
    /// What both sides understand.
    pub features: u64,
    /// The method in force.
    pub auth_method: u8,
    /// Fresh random bytes.
    pub nonce: [u8; 16],
    /// The acceptor's proof, at most [`PROOF_BYTES_MAX`] bytes; empty without authentication.
    pub proof: Vec<u8>,
}

/// The acceptor's refusal; it closes the link behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HelloReject {
    /// Why.
    pub reason: RejectReason,
    /// Oldest and newest frame version the acceptor speaks.
    pub versions: (u8, u8),
}

/// Why a link was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RejectReason {
    /// No frame version in common.
    #[error("no protocol version in common")]
    Version,
    /// Another cluster lives here.
    #[error("another cluster's name")]
    WrongCluster,
    /// Another address lives here.
    #[error("another address than the one dialed")]
    WrongAddress,
    /// Another incarnation lives here.
    #[error("another incarnation, {found:016x}")]
    WrongIncarnation {
        /// The acceptor's uid.
        found: u64,
    },
    /// The dialer's incarnation is quarantined.
    #[error("this incarnation is quarantined")]
    Quarantined,
    /// No room for another link.
    #[error("too many links")]
    TooManyLinks,
    /// The two sides authenticate differently.
    #[error("another authentication method")]
    AuthMethod,
    /// The proof is wrong.
    #[error("not authenticated")]
    Unauthenticated,
    /// The dialer says it is the acceptor.
    #[error("the dialer has the acceptor's own address and uid")]
    DuplicateUid,
    /// The acceptor is about to stop.
    #[error("shutting down")]
    ShuttingDown,
    /// A reason of a later version.
    #[error("unknown reason {code}")]
    Other {
        /// Its number.
        code: u8,
    },
}

/// The answer to a [`Hello`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HelloAnswer {
    /// Go ahead.
    Ack(HelloAck),
    /// Go away.
    Reject(HelloReject),
}

/// What the start of a buffer holds during the handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HandshakeDecoded<T> {
    /// Not complete; come back with at least so many bytes in total.
    NeedMore(usize),
    /// A message.
    Done {
        /// The message.
        value: T,
        /// Bytes of the buffer it took.
        consumed: usize,
    },
    /// Nothing that belongs here: close.
    Bad(WireError),
}

/// Appends a [`Hello`].
///
/// # Errors
/// [`WireError::Unencodable`] if `versions` is no range.
pub fn encode_hello(hello: &Hello, out: &mut Vec<u8>) -> Result<(), WireError> {
    let start = begin(out, KIND_HELLO);
    let written = put_hello(hello, out).and_then(|()| finish(out, start));
    undo_on_error(written, out, start)
}

/// Appends the answer to a [`Hello`].
///
/// # Errors
/// [`WireError::Unencodable`] if the proof is too long or `versions` is no range.
pub fn encode_answer(answer: &HelloAnswer, out: &mut Vec<u8>) -> Result<(), WireError> {
    let (kind, start) = match answer {
        HelloAnswer::Ack(_) => (KIND_ACK, out.len()),
        HelloAnswer::Reject(_) => (KIND_REJECT, out.len()),
    };
    begin(out, kind);
    let written = match answer {
        HelloAnswer::Ack(ack) => put_ack(ack, out),
        HelloAnswer::Reject(reject) => put_reject(*reject, out),
    };
    let written = written.and_then(|()| finish(out, start));
    undo_on_error(written, out, start)
}

/// Looks for a [`Hello`] at the start of `buffer`.
#[must_use]
pub fn decode_hello(buffer: &[u8]) -> HandshakeDecoded<Hello> {
    decode(buffer, |kind, body| match kind {
        KIND_HELLO => read_hello(body),
        _ => Err(WireError::Malformed {
            what: "handshake kind",
        }),
    })
}

/// Looks for the answer to a [`Hello`] at the start of `buffer`.
#[must_use]
pub fn decode_answer(buffer: &[u8]) -> HandshakeDecoded<HelloAnswer> {
    decode(buffer, |kind, body| match kind {
        KIND_ACK => read_ack(body).map(HelloAnswer::Ack),
        KIND_REJECT => read_reject(body).map(HelloAnswer::Reject),
        _ => Err(WireError::Malformed {
            what: "handshake kind",
        }),
    })
}

/// What the accepting side brings to the decision.
#[derive(Clone, Debug)]
pub struct Acceptor<'a> {
    /// This node.
    pub me: &'a UniqueAddress,
    /// This node's cluster.
    pub cluster: &'a ClusterName,
    /// What this node understands, normally [`FEATURES`].
    pub features: u64,
    /// The only method this node accepts.
    pub auth_method: u8,
    /// Whether the dialer's incarnation is quarantined here.
    pub quarantined: bool,
    /// Fresh random bytes for the answer.
    pub nonce: [u8; 16],
}

impl Acceptor<'_> {
    /// Decides about a [`Hello`]. The proof of an answer is left empty; whoever authenticates fills it in.
    ///
    /// # Errors
    /// The refusal to send back.
    pub fn answer(&self, hello: &Hello) -> Result<HelloAck, HelloReject> {
        let refuse = |reason| {
            Err(HelloReject {
                reason,
                versions: (VERSION_MIN, VERSION_MAX),
            })
        };
        let version = VERSION_MAX.min(hello.versions.1);
        if version < VERSION_MIN.max(hello.versions.0) {
            return refuse(RejectReason::Version);
        }
        if hello.cluster != *self.cluster {
            return refuse(RejectReason::WrongCluster);
        }
        if hello.to != *self.me.address() {
            return refuse(RejectReason::WrongAddress);
        }
        if hello.from == *self.me {
            return refuse(RejectReason::DuplicateUid);
        }
        if hello.expected_uid.is_some_and(|uid| uid != self.me.uid()) {
            return refuse(RejectReason::WrongIncarnation { found: self.me.uid() });
        }
        if self.quarantined {
            return refuse(RejectReason::Quarantined);
        }
        if hello.auth_method != self.auth_method {
            return refuse(RejectReason::AuthMethod);
        }
        Ok(HelloAck {
            version,
            from: self.me.clone(),
            features: self.features & hello.features,
            auth_method: self.auth_method,
            nonce: self.nonce,
            proof: Vec::new(),
        })
    }
}

/// Checks, at the dialer, that a consent answers `hello`; proofs are the authenticator's business.
///
/// # Errors
/// What does not fit, in the terms of a refusal.
pub fn check_ack(hello: &Hello, ack: &HelloAck) -> Result<(), RejectReason> {
    if !(hello.versions.0..=hello.versions.1).contains(&ack.version) {
        return Err(RejectReason::Version);
    }
    if *ack.from.address() != hello.to {
        return Err(RejectReason::WrongAddress);
    }
    if ack.from == hello.from {
        return Err(RejectReason::DuplicateUid);
    }
    if hello.expected_uid.is_some_and(|uid| uid != ack.from.uid()) {
        return Err(RejectReason::WrongIncarnation {
            found: ack.from.uid(),
        });
    }
    if ack.auth_method != hello.auth_method || ack.features & !hello.features != 0 {
        return Err(RejectReason::AuthMethod);
    }
    Ok(())
}

fn begin(out: &mut Vec<u8>, kind: u8) -> usize {
    let start = out.len();
    out.extend_from_slice(&HANDSHAKE_MAGIC);
    out.extend_from_slice(&[kind, 0, 0, 0, 0, 0, 0, 0]);
    start
}

fn finish(out: &mut [u8], start: usize) -> Result<(), WireError> {
    let unencodable = WireError::Unencodable { what: "handshake" };
    let message = out.get_mut(start..).unwrap_or_default();
    let Some((head, body)) = message.split_first_chunk_mut::<HANDSHAKE_HEADER_BYTES>() else {
        return Err(unencodable);
    };
    let len = u16::try_from(body.len()).map_err(|_| unencodable.clone())?;
    if body.len() > HANDSHAKE_BODY_BYTES_MAX {
        return Err(unencodable);
    }
    let [_, _, _, _, _, _, len_low, len_high, ..] = head;
    [*len_low, *len_high] = len.to_le_bytes();
    let sum = checksum(head, body);
    if let Some(place) = head.last_chunk_mut::<4>() {
        *place = sum.to_le_bytes();
    }
    Ok(())
}

fn undo_on_error(written: Result<(), WireError>, out: &mut Vec<u8>, start: usize) -> Result<(), WireError> {
    if written.is_err() {
        out.truncate(start);
    }
    written
}

fn checksum(head: &[u8], body: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(head.get(..CHECKED_HEADER_BYTES).unwrap_or(head));
    hasher.update(body);
    hasher.finalize()
}

fn decode<T>(buffer: &[u8], read: impl FnOnce(u8, &[u8]) -> Result<T, WireError>) -> HandshakeDecoded<T> {
    match find(buffer) {
        Ok(Found::NeedMore(bytes)) => HandshakeDecoded::NeedMore(bytes),
        Ok(Found::Message { kind, body, consumed }) => match read(kind, body) {
            Ok(value) => HandshakeDecoded::Done { value, consumed },
            Err(error) => HandshakeDecoded::Bad(error),
        },
        Err(error) => HandshakeDecoded::Bad(error),
    }
}

enum Found<'a> {
    NeedMore(usize),
    Message {
        kind: u8,
        body: &'a [u8],
        consumed: usize,
    },
}

fn find(buffer: &[u8]) -> Result<Found<'_>, WireError> {
    if !buffer
        .iter()
        .zip(HANDSHAKE_MAGIC)
        .all(|(found, magic)| *found == magic)
    {
        return Err(WireError::BadMagic);
    }
    let Some((head, rest)) = buffer.split_first_chunk::<HANDSHAKE_HEADER_BYTES>() else {
        return Ok(Found::NeedMore(HANDSHAKE_HEADER_BYTES));
    };
    let mut reader = Reader::new(head);
    let _magic: [u8; 4] = reader.array()?;
    let (kind, zero, len) = (reader.u8()?, reader.u8()?, usize::from(reader.u16()?));
    if zero != 0 {
        return Err(WireError::Malformed { what: "handshake" });
    }
    if len > HANDSHAKE_BODY_BYTES_MAX {
        return Err(WireError::TooLarge {
            bytes: len as u64,
            max: HANDSHAKE_BODY_BYTES_MAX as u64,
        });
    }
    let consumed = HANDSHAKE_HEADER_BYTES.saturating_add(len);
    let Some(body) = rest.get(..len) else {
        return Ok(Found::NeedMore(consumed));
    };
    if checksum(head, body) != reader.u32()? {
        return Err(WireError::Checksum);
    }
    Ok(Found::Message { kind, body, consumed })
}

fn put_versions(versions: (u8, u8), out: &mut Vec<u8>) -> Result<(), WireError> {
    if versions.0 > versions.1 {
        return Err(WireError::Unencodable { what: "versions" });
    }
    out.extend_from_slice(&[versions.0, versions.1]);
    Ok(())
}

fn read_versions(reader: &mut Reader<'_>) -> Result<(u8, u8), WireError> {
    let versions = (reader.u8()?, reader.u8()?);
    if versions.0 > versions.1 {
        return Err(WireError::Malformed { what: "versions" });
    }
    Ok(versions)
}

fn put_hello(hello: &Hello, out: &mut Vec<u8>) -> Result<(), WireError> {
    put_versions(hello.versions, out)?;
    let link = match hello.link {
        LinkKind::Control => 0,
        LinkKind::User => 1,
    };
    out.extend_from_slice(&[link, hello.auth_method]);
    out.extend_from_slice(&hello.epoch.to_le_bytes());
    out.extend_from_slice(&hello.features.to_le_bytes());
    out.extend_from_slice(&hello.nonce);
    put_text(out, hello.cluster.as_str(), "cluster name")?;
    put_node(out, &hello.from)?;
    put_address(out, &hello.to)?;
    out.push(u8::from(hello.expected_uid.is_some()));
    if let Some(uid) = hello.expected_uid {
        out.extend_from_slice(&uid.to_le_bytes());
    }
    Ok(())
}

fn read_hello(body: &[u8]) -> Result<Hello, WireError> {
    let mut reader = Reader::new(body);
    let versions = read_versions(&mut reader)?;
    let link = match reader.u8()? {
        0 => LinkKind::Control,
        1 => LinkKind::User,
        _ => return Err(WireError::Malformed { what: "link kind" }),
    };
    let auth_method = reader.u8()?;
    let (epoch, features, nonce) = (reader.u32()?, reader.u64()?, reader.array()?);
    let name = reader.text("cluster name")?;
    let cluster = ClusterName::new(name).map_err(|_| WireError::Malformed { what: "cluster name" })?;
    let (from, to) = (reader.node()?, reader.address()?);
    let expected_uid = if reader.bool("expected uid")? {
        Some(reader.u64()?)
    } else {
        None
    };
    extension::check(reader.rest())?;
    Ok(Hello {
        versions,
        cluster,
        from,
        to,
        expected_uid,
        link,
        epoch,
        features,
        auth_method,
        nonce,
    })
}

fn put_ack(ack: &HelloAck, out: &mut Vec<u8>) -> Result<(), WireError> {
    let too_long = WireError::Unencodable { what: "proof" };
    if ack.proof.len() > PROOF_BYTES_MAX {
        return Err(too_long);
    }
    out.extend_from_slice(&[ack.version, ack.auth_method]);
    out.extend_from_slice(&ack.features.to_le_bytes());
    out.extend_from_slice(&ack.nonce);
    put_node(out, &ack.from)?;
    out.push(u8::try_from(ack.proof.len()).map_err(|_| too_long)?);
    out.extend_from_slice(&ack.proof);
    Ok(())
}

fn read_ack(body: &[u8]) -> Result<HelloAck, WireError> {
    let mut reader = Reader::new(body);
    let (version, auth_method) = (reader.u8()?, reader.u8()?);
    let (features, nonce) = (reader.u64()?, reader.array()?);
    let from = reader.node()?;
    let len = usize::from(reader.u8()?);
    if len > PROOF_BYTES_MAX {
        return Err(WireError::LimitExceeded { what: "proof bytes" });
    }
    let proof = reader.take(len)?.to_vec();
    extension::check(reader.rest())?;
    Ok(HelloAck {
        version,
        from,
        features,
        auth_method,
        nonce,
        proof,
    })
}

fn put_reject(reject: HelloReject, out: &mut Vec<u8>) -> Result<(), WireError> {
    let (code, found) = match reject.reason {
        RejectReason::Version => (1, None),
        RejectReason::WrongCluster => (2, None),
        RejectReason::WrongAddress => (3, None),
        RejectReason::WrongIncarnation { found } => (4, Some(found)),
        RejectReason::Quarantined => (5, None),
        RejectReason::TooManyLinks => (6, None),
        RejectReason::AuthMethod => (7, None),
        RejectReason::Unauthenticated => (8, None),
        RejectReason::DuplicateUid => (9, None),
        RejectReason::ShuttingDown => (10, None),
        RejectReason::Other { .. } => return Err(WireError::Unencodable { what: "reason" }),
    };
    put_versions(reject.versions, out)?;
    out.push(code);
    if let Some(uid) = found {
        out.extend_from_slice(&uid.to_le_bytes());
    }
    Ok(())
}

fn read_reject(body: &[u8]) -> Result<HelloReject, WireError> {
    let mut reader = Reader::new(body);
    let versions = read_versions(&mut reader)?;
    let reason = match reader.u8()? {
        1 => RejectReason::Version,
        2 => RejectReason::WrongCluster,
        3 => RejectReason::WrongAddress,
        4 => RejectReason::WrongIncarnation { found: reader.u64()? },
        5 => RejectReason::Quarantined,
        6 => RejectReason::TooManyLinks,
        7 => RejectReason::AuthMethod,
        8 => RejectReason::Unauthenticated,
        9 => RejectReason::DuplicateUid,
        10 => RejectReason::ShuttingDown,
        code => {
            return Ok(HelloReject {
                reason: RejectReason::Other { code },
                versions,
            });
        }
    };
    extension::check(reader.rest())?;
    Ok(HelloReject { reason, versions })
}
