//! Bytes: the only room that knows a serialised form. Limits first, then version, then decode, then validate.
//! Spec: membership 5, reliability 3b, 3c; `docs/WIRE.md` is normative.

mod bucket;
mod codec;
mod ddata;
mod declare;
mod deflate;
mod detector;
mod entity;
mod extension;
mod frame;
mod gossip;
pub mod handshake;
mod journal;
pub mod kind;
mod kv;
mod load;
mod membership;
mod paths;
mod registry;
mod settings;
mod sharding;
mod singleton;
mod stop;
mod stored;
mod survey;
#[cfg(test)]
mod tests;
mod values;
mod watch;

pub use crate::bytes::{Reaction, WireError};
pub use crate::membership::state::packed::{COUNTER_MAX, MemberFacts, PackedGossip};
pub use codec::{Encoder, decode_message, decode_message_with, encode_message};
pub(crate) use ddata::{decode_stored, encode_stored};
pub use frame::{
    DecodedFrame, FLAG_EXTENDED, Frame, HEADER_BYTES, MAGIC, VERSION_MAX, VERSION_MIN, body_bytes_max,
    decode_frame, frame_kind,
};
pub(crate) use gossip::{digest, has_room, open, state_bytes, steps_between};
pub(crate) use stored::StoredForm;
pub use values::{DataLimits, decode_data, decode_delta, encode_data, encode_delta};
