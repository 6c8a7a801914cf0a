//! Handshake messages as bytes. Their layout never changes: what may change is negotiated in it. Spec:
//! `docs/WIRE.md` 3.
#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use alloc::vec::Vec;

use super::{
    HANDSHAKE_BODY_BYTES_MAX, HANDSHAKE_HEADER_BYTES, HANDSHAKE_MAGIC, Hello, HelloAck, HelloAnswer,
    HelloReject, LinkKind, PROOF_BYTES_MAX, RejectReason,
};
use crate::bytes::BodyReader;
use crate::ddata::crdt::CustomTypes;
use crate::ident::{Address, ClusterName, UniqueAddress};
use crate::wire::declare::{
    FieldSink, FieldSource, Form, Maybe, by_hand, choice, codes, read_whole, record, text_as, written,
};
use crate::wire::{WireError, extension};

const KIND_HELLO: u8 = 1;
const KIND_ACK: u8 = 2;
const KIND_REJECT: u8 = 3;
const CHECKED_HEADER_BYTES: usize = 8;

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
    encode(KIND_HELLO, |body| Hello::put(hello, "hello", body), out)
}

/// Appends what an acceptor says.
///
/// # Errors
/// [`WireError::Unencodable`] if `versions` is no range.
pub fn encode_answer(answer: &HelloAnswer, out: &mut Vec<u8>) -> Result<(), WireError> {
    match answer {
        HelloAnswer::Ack(ack) => encode(
            KIND_ACK,
            |body| HelloAck::put(ack, "ack", body).and_then(|()| u8::put(&0, "proof", body)),
            out,
        ),
        HelloAnswer::Reject(reject) => {
            encode(KIND_REJECT, |body| HelloReject::put(reject, "reject", body), out)
        }
    }
}

/// Looks for a [`Hello`] at the start of `buffer`.
#[must_use]
pub fn decode_hello(buffer: &[u8]) -> HandshakeDecoded<Hello> {
    decode(buffer, |kind, body| match kind {
        KIND_HELLO => read(body, |_, reader| extension::check(reader.rest())),
        _ => Err(WireError::Malformed {
            what: "handshake kind",
        }),
    })
}

/// Looks for what an acceptor says at the start of `buffer`.
#[must_use]
pub fn decode_answer(buffer: &[u8]) -> HandshakeDecoded<HelloAnswer> {
    decode(buffer, |kind, body| match kind {
        KIND_ACK => {
            let ack = read(body, |_, reader| {
                skip_proof(reader).and_then(|()| extension::check(reader.rest()))
            });
            ack.map(HelloAnswer::Ack)
        }
        KIND_REJECT => {
            let reject = read(body, |reject: &HelloReject, reader| {
                match reject.reason.is_known() {
                    true => extension::check(reader.rest()),
                    false => Ok(()),
                }
            });
            reject.map(HelloAnswer::Reject)
        }
        _ => Err(WireError::Malformed {
            what: "handshake kind",
        }),
    })
}

fn encode(
    kind: u8,
    put: impl FnOnce(&mut FieldSink<'_>) -> Result<(), WireError>,
    out: &mut Vec<u8>,
) -> Result<(), WireError> {
    let unencodable = WireError::Unencodable { what: "handshake" };
    let body = written(put)?;
    let len = u16::try_from(body.len()).ok();
    let len = len.filter(|len| usize::from(*len) <= HANDSHAKE_BODY_BYTES_MAX);
    let [low, high] = len.ok_or(unencodable)?.to_le_bytes();
    let [m, a, g, c] = HANDSHAKE_MAGIC;
    let head = [m, a, g, c, kind, 0, low, high];
    out.extend_from_slice(&head);
    out.extend_from_slice(&checksum(&head, &body).to_le_bytes());
    out.extend_from_slice(&body);
    Ok(())
}

/// A message, and what may be behind it.
fn read<T: Form<T>>(
    body: &[u8],
    behind: impl FnOnce(&T, &mut FieldSource<'_>) -> Result<(), WireError>,
) -> Result<T, WireError> {
    read_whole(body, &CustomTypes::new(), |reader| {
        let value = T::read(reader, "handshake")?;
        behind(&value, reader)?;
        reader.rest = BodyReader::new(&[]);
        Ok(value)
    })
}

/// What a method of a later version may have put behind a consent.
fn skip_proof(reader: &mut FieldSource<'_>) -> Result<(), WireError> {
    let len = usize::from(reader.u8()?);
    if len > PROOF_BYTES_MAX {
        return Err(WireError::LimitExceeded { what: "proof bytes" });
    }
    reader.take(len).map(drop)
}

fn checksum(head: &[u8], body: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(head.get(..CHECKED_HEADER_BYTES).unwrap_or(head));
    hasher.update(body);
    hasher.finalize()
}

fn decode<T>(buffer: &[u8], read: impl FnOnce(u8, &[u8]) -> Result<T, WireError>) -> HandshakeDecoded<T> {
    match find(buffer) {
        Ok(HandshakeFrame::NeedMore(bytes)) => HandshakeDecoded::NeedMore(bytes),
        Ok(HandshakeFrame::Message { kind, body, consumed }) => match read(kind, body) {
            Ok(value) => HandshakeDecoded::Done { value, consumed },
            Err(error) => HandshakeDecoded::Bad(error),
        },
        Err(error) => HandshakeDecoded::Bad(error),
    }
}

enum HandshakeFrame<'a> {
    NeedMore(usize),
    Message {
        kind: u8,
        body: &'a [u8],
        consumed: usize,
    },
}

fn find(buffer: &[u8]) -> Result<HandshakeFrame<'_>, WireError> {
    if !buffer
        .iter()
        .zip(HANDSHAKE_MAGIC)
        .all(|(found, magic)| *found == magic)
    {
        return Err(WireError::BadMagic);
    }
    let Some((head, rest)) = buffer.split_first_chunk::<HANDSHAKE_HEADER_BYTES>() else {
        return Ok(HandshakeFrame::NeedMore(HANDSHAKE_HEADER_BYTES));
    };
    let mut reader = BodyReader::new(head);
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
        return Ok(HandshakeFrame::NeedMore(consumed));
    };
    if checksum(head, body) != reader.u32()? {
        return Err(WireError::Checksum);
    }
    Ok(HandshakeFrame::Message { kind, body, consumed })
}

record! {
    Hello as "hello" {
        versions: ProtocolVersions,
        link: LinkKind,
        auth_method: u8,
        epoch: u32,
        features: u64,
        nonce: [u8; 16],
        cluster: ClusterName,
        from: UniqueAddress,
        to: Address,
        expected_uid: Maybe<u64>,
    }
}

/// The oldest and the newest.
struct ProtocolVersions;

by_hand! {
    ProtocolVersions: (u8, u8), "versions", 2, |versions, what, out| match versions.0 <= versions.1 {
        true => <(u8, u8) as Form<_>>::put(versions, what, out),
        false => Err(WireError::Unencodable { what }),
    }, |reader, what| match <(u8, u8) as Form<_>>::read(reader, what)? {
        (oldest, newest) if oldest > newest => Err(WireError::Malformed { what }),
        versions => Ok(versions),
    };
}

text_as! {
    ClusterName: ClusterName, "text", ClusterName::as_str, |name| ClusterName::new(name).ok();
}

codes! { LinkKind as "link" { 0 Control, 1 User, 2 Bulk } }

record! {
    HelloAck as "ack" {
        version: u8,
        auth_method: u8,
        features: u64,
        nonce: [u8; 16],
        from: UniqueAddress,
    }
}

record! { HelloReject as "reject" { versions: ProtocolVersions, reason: RejectReason } }

choice! {
    RejectReason as "reason" {
        1 Version,
        2 WrongCluster,
        3 WrongAddress,
        4 WrongIncarnation { found: u64 },
        5 Quarantined,
        6 TooManyLinks,
        7 AuthMethod,
        8 Unauthenticated,
        9 DuplicateUid,
        10 ShuttingDown,
        11 Features,
        12 WrongIdentity,
        13 NotOpening,
    } else Other
}
