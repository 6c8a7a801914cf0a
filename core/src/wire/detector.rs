//! Bodies of the failure detector's messages. Spec: membership 5, `docs/WIRE.md` 4.
#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use alloc::vec::Vec;

use crate::bytes::{Reader, WireError, put_node};
use crate::detector::protocol::{Heartbeat, Msg};
use crate::message::Tag;

pub(super) fn put(msg: &Msg, out: &mut Vec<u8>) -> Result<(), WireError> {
    match msg {
        Msg::Heartbeat(body) | Msg::HeartbeatRsp(body) => put_heartbeat(body, out),
    }
}

pub(super) fn read(tag: Tag, reader: &mut Reader<'_>) -> Result<Msg, WireError> {
    Ok(match tag {
        Msg::HEARTBEAT => Msg::Heartbeat(read_heartbeat(reader)?),
        Msg::HEARTBEAT_RSP => Msg::HeartbeatRsp(read_heartbeat(reader)?),
        Tag { kind, .. } => return Err(WireError::UnknownKind { kind }),
    })
}

fn put_heartbeat(body: &Heartbeat, out: &mut Vec<u8>) -> Result<(), WireError> {
    out.extend_from_slice(&body.sequence.to_le_bytes());
    out.extend_from_slice(&body.sent_at_micros.to_le_bytes());
    put_node(out, &body.to)
}

fn read_heartbeat(reader: &mut Reader<'_>) -> Result<Heartbeat, WireError> {
    let (sequence, sent_at_micros) = (reader.u64()?, reader.u64()?);
    Ok(Heartbeat {
        to: reader.node()?,
        sequence,
        sent_at_micros,
    })
}
