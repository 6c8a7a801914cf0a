//! Messages to frames and back: picks the codec of the machine that speaks. Never decides whether a message
//! is wanted. Spec: membership 5, `docs/WIRE.md` 4.
#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use alloc::vec::Vec;

use crc32fast::Hasher;

use super::declare::{FieldSink, FieldSource};
use super::deflate::Packer;
use super::frame::{begin_frame, finish_frame};
use super::{WireError, ddata, detector, journal, kind, kv, load, membership, paths, sharding, singleton};
use crate::bytes::BodyReader;
use crate::config::Limits;
use crate::ddata::crdt::CustomTypes;
use crate::message::{
    DdataMsg, DetectorMsg, JournalMsg, KvMsg, Lane, LoadMsg, Message, PathMsg, ShardingMsg, SingletonMsg,
};

/// Appends one whole frame. Hosts that send gossip keep an [`Encoder`] instead: it reuses its compressor.
///
/// # Errors
/// [`WireError::TooLarge`] if the body exceeds its lane's limit, [`WireError::Unencodable`] or
/// [`WireError::LimitExceeded`] if a part does not fit its field. `out` is unchanged then.
pub fn encode_message(
    message: &Message,
    epoch: u32,
    limits: &Limits,
    out: &mut Vec<u8>,
) -> Result<(), WireError> {
    Encoder::new().encode(message, epoch, limits, out)
}

/// Writes frames, and keeps the buffers and the compressor that large gossip states need (about 300 KiB from
/// the first such state on).
#[derive(Debug, Default)]
pub struct Encoder {
    packer: Packer,
    hasher: Hasher,
}

impl Encoder {
    /// An encoder that holds no memory yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends one whole frame. The same message gives the same bytes, whatever was encoded before.
    ///
    /// # Errors
    /// As [`encode_message`]; `out` is unchanged then.
    pub fn encode(
        &mut self,
        message: &Message,
        epoch: u32,
        limits: &Limits,
        out: &mut Vec<u8>,
    ) -> Result<(), WireError> {
        let start = out.len();
        begin_frame(out);
        let written = self.put_body(message, limits, out).and_then(|()| {
            let frame = out.get_mut(start..).unwrap_or_default();
            finish_frame(frame, message.tag(), epoch, limits, &mut self.hasher)
        });
        if written.is_err() {
            out.truncate(start);
        }
        written
    }

    fn put_body(&mut self, message: &Message, limits: &Limits, bytes: &mut Vec<u8>) -> Result<(), WireError> {
        // What stands around a payload takes less than this: one growth at most.
        bytes.reserve(message.payload_bytes().saturating_add(320));
        let packer = &mut self.packer;
        let out = &mut FieldSink {
            bytes,
            limits,
            packer,
        };
        match message {
            Message::Membership(msg) => membership::put(msg, out),
            Message::Detector(msg) => detector::put(msg, out),
            Message::Sharding(msg) => sharding::put(msg, out),
            Message::Ddata(msg) => ddata::put(msg, out),
            Message::Singleton(msg) => singleton::put(msg, out),
            Message::Journal(msg) => journal::put(msg, out),
            Message::Load(msg) => load::put(msg, out),
            Message::Path(msg) => paths::put(msg, out),
            Message::Kv(msg) => kv::put(msg, out),
        }
    }
}

/// Reads the body of a frame. Checks counts against `limits` and against the bytes there are before it
/// allocates.
///
/// # Errors
/// [`WireError::UnknownKind`] for a kind of a later version, otherwise what is wrong with the body.
pub fn decode_message(kind: u16, lane: Lane, body: &[u8], limits: &Limits) -> Result<Message, WireError> {
    decode_message_with(kind, lane, body, limits, &CustomTypes::new())
}

/// As [`decode_message`], where the user's own types of replicated data are known.
///
/// # Errors
/// As [`decode_message`].
pub fn decode_message_with(
    kind: u16,
    lane: Lane,
    body: &[u8],
    limits: &Limits,
    types: &CustomTypes,
) -> Result<Message, WireError> {
    let tag = kind::tag_of(kind).ok_or(WireError::UnknownKind { kind })?;
    if lane != tag.lane {
        return Err(WireError::Malformed { what: "lane" });
    }
    let rest = BodyReader::new(body);
    let reader = &mut FieldSource { rest, limits, types };
    let message = if ShardingMsg::TAGS.contains(&tag) {
        Message::Sharding(sharding::read(tag, reader)?)
    } else if DdataMsg::TAGS.contains(&tag) {
        Message::Ddata(ddata::read(reader)?)
    } else if SingletonMsg::TAGS.contains(&tag) {
        Message::Singleton(singleton::read(tag, reader)?)
    } else if JournalMsg::TAGS.contains(&tag) {
        journal::read(tag, reader)?.into()
    } else if LoadMsg::TAGS.contains(&tag) {
        Message::Load(load::read(tag, reader)?)
    } else if PathMsg::TAGS.contains(&tag) {
        Message::Path(paths::read(tag, reader)?)
    } else if KvMsg::TAGS.contains(&tag) {
        Message::Kv(kv::read(tag, reader)?)
    } else if DetectorMsg::TAGS.contains(&tag) {
        Message::Detector(detector::read(tag, reader)?)
    } else {
        Message::Membership(membership::read(tag, reader)?)
    };
    reader.finish()?;
    Ok(message)
}
