//! Handshake messages as bytes. Their layout never changes: what may change is negotiated in it. Spec: `docs/WIRE.md` 3.
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
use crate::bytes::{Reader, put_address, put_node, put_text};
use crate::ident::ClusterName;
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
    let start = begin(out, KIND_HELLO);
    let written = put_hello(hello, out).and_then(|()| finish(out, start));
    undo_on_error(written, out, start)
}

/// Appends what an acceptor says.
///
/// # Errors
/// [`WireError::Unencodable`] if `versions` is no range.
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

/// Looks for what an acceptor says at the start of `buffer`.
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
        LinkKind::Bulk => 2,
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
        2 => LinkKind::Bulk,
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
    out.extend_from_slice(&[ack.version, ack.auth_method]);
    out.extend_from_slice(&ack.features.to_le_bytes());
    out.extend_from_slice(&ack.nonce);
    put_node(out, &ack.from)?;
    // The length of a proof.
    out.push(0);
    Ok(())
}

/// What a method of a later version may have put there.
fn skip_proof(reader: &mut Reader<'_>) -> Result<(), WireError> {
    let len = usize::from(reader.u8()?);
    if len > PROOF_BYTES_MAX {
        return Err(WireError::LimitExceeded { what: "proof bytes" });
    }
    reader.take(len).map(drop)
}

fn read_ack(body: &[u8]) -> Result<HelloAck, WireError> {
    let mut reader = Reader::new(body);
    let (version, auth_method) = (reader.u8()?, reader.u8()?);
    let (features, nonce) = (reader.u64()?, reader.array()?);
    let from = reader.node()?;
    skip_proof(&mut reader)?;
    extension::check(reader.rest())?;
    Ok(HelloAck {
        version,
        from,
        features,
        auth_method,
        nonce,
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
        RejectReason::Features => (11, None),
        RejectReason::WrongIdentity => (12, None),
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
        11 => RejectReason::Features,
        12 => RejectReason::WrongIdentity,
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
