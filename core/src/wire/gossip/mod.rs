//! Bodies that carry a gossip state or its version. The state is a few tables and columns, validated in one
//! pass and compressed as a whole where that pays. Spec: membership 1.4, 5, `docs/WIRE.md` 5.
#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

mod check;
mod delta;
mod room;
mod write;

pub(crate) use delta::{digest, open, state_bytes, steps_between};
pub(crate) use room::has_room;

use alloc::sync::Arc;

use super::declare::{FieldSink, FieldSource, by_hand, record};
use super::deflate::inflate;
use crate::bytes::{BodyReader, WireError};
use crate::ident::UniqueAddress;
use crate::membership::state::packed::PackedGossip;
use crate::membership::state::packed::sections::Sections;
use crate::message::{GossipBody, GossipEnvelope, Welcome};

const PLAIN: u8 = 0;
const DEFLATED: u8 = 1;

record! { Welcome as "welcome" { to: UniqueAddress, gossip: GossipBody } }
record! { GossipEnvelope as "gossip" { to: UniqueAddress, gossip: GossipBody } }

by_hand! {
    GossipBody: GossipBody, "state", 2, |gossip, _, out| put_state(gossip, out), |reader, _| read_state(reader);
}

fn put_state(gossip: &GossipBody, out: &mut FieldSink<'_>) -> Result<(), WireError> {
    let FieldSink {
        bytes,
        limits,
        packer,
    } = out;
    packer.state.clear();
    match gossip {
        GossipBody::Held(gossip) => write::put_state(gossip, limits, &mut packer.state)?,
        // It has one written form, and these are its bytes.
        GossipBody::Packed(packed) => packer.state.extend_from_slice(packed.as_bytes()),
    }
    let len = u32::try_from(packer.state.len()).map_err(|_| WireError::Unencodable { what: "state" })?;
    if let Some(packed) = packer.pack(limits) {
        bytes.push(DEFLATED);
        bytes.extend_from_slice(&len.to_le_bytes());
        bytes.extend_from_slice(packed);
    } else {
        bytes.push(PLAIN);
        bytes.extend_from_slice(&packer.state);
    }
    Ok(())
}

/// Checks the state and leaves it in its columns.
fn read_state(reader: &mut FieldSource<'_>) -> Result<GossipBody, WireError> {
    let limits = reader.limits;
    let state = match reader.u8()? {
        PLAIN => reader.rest().to_vec(),
        DEFLATED => {
            let claimed = usize::try_from(reader.u32()?).unwrap_or(usize::MAX);
            inflate(reader.rest(), claimed, limits)?
        }
        _ => return Err(WireError::Malformed { what: "state form" }),
    };
    reader.rest = BodyReader::new(&[]);
    let sections = Sections::cut(&state, |counts| check::check_counts(counts, limits))?;
    sections.check()?;
    Ok(GossipBody::Packed(Arc::new(PackedGossip::from_checked(state))))
}
