//! Bodies of the failure detector's messages. Spec: membership 5, `docs/WIRE.md` 4.
#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use alloc::vec::Vec;

use super::declare::{Form, record};
use crate::bytes::{Reader, WireError};
use crate::config::Limits;
use crate::detector::protocol::{Heartbeat, Msg};
use crate::ident::UniqueAddress;
use crate::message::Tag;

record! { Heartbeat as "heartbeat" { sequence: u64, sent_at_micros: u64, to: UniqueAddress } }

pub(super) fn put(msg: &Msg, limits: &Limits, out: &mut Vec<u8>) -> Result<(), WireError> {
    match msg {
        Msg::Heartbeat(body) | Msg::HeartbeatRsp(body) => Heartbeat::put(body, "", limits, out),
    }
}

pub(super) fn read(tag: Tag, reader: &mut Reader<'_>) -> Result<Msg, WireError> {
    Ok(match tag {
        Msg::HEARTBEAT => Msg::Heartbeat(Heartbeat::read(reader, "")?),
        Msg::HEARTBEAT_RSP => Msg::HeartbeatRsp(Heartbeat::read(reader, "")?),
        Tag { kind, .. } => return Err(WireError::UnknownKind { kind }),
    })
}
