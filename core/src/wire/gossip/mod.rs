//! Bodies that carry a gossip state or its version. The state is a few tables and columns, validated in one pass and
//! compressed as a whole where that pays. Spec: membership 1.4, 5, `docs/WIRE.md` 5.
#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

mod check;
mod room;
mod status;
mod write;

pub(crate) use room::has_room;
pub(super) use status::{put_status, read_status};

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::deflate::{Packer, inflate};
use crate::bytes::WireError;
use crate::bytes::{Reader, put_node};
use crate::config::Limits;
use crate::ident::UniqueAddress;
use crate::membership::state::packed::PackedGossip;
use crate::membership::state::packed::sections::Sections;
use crate::message::GossipBody;

const PLAIN: u8 = 0;
const DEFLATED: u8 = 1;

/// Writes a state, and whom it is for.
pub(super) fn put_addressed(
    to: &UniqueAddress,
    gossip: &GossipBody,
    limits: &Limits,
    packer: &mut Packer,
    out: &mut Vec<u8>,
) -> Result<(), WireError> {
    put_node(out, to)?;
    packer.state.clear();
    match gossip {
        GossipBody::Held(gossip) => write::put_state(gossip, limits, &mut packer.state)?,
        // It has one written form, and these are its bytes.
        GossipBody::Packed(packed) => packer.state.extend_from_slice(packed.as_bytes()),
    }
    let len = u32::try_from(packer.state.len()).map_err(|_| WireError::Unencodable { what: "state" })?;
    if let Some(packed) = packer.pack(limits) {
        out.push(DEFLATED);
        out.extend_from_slice(&len.to_le_bytes());
        out.extend_from_slice(packed);
    } else {
        out.push(PLAIN);
        out.extend_from_slice(&packer.state);
    }
    Ok(())
}

/// Reads a state and whom it is for. Checks the state and leaves it in its columns.
pub(super) fn read_addressed(
    reader: &mut Reader<'_>,
    limits: &Limits,
) -> Result<(UniqueAddress, GossipBody), WireError> {
    let to = reader.node()?;
    let state = match reader.u8()? {
        PLAIN => reader.rest().to_vec(),
        DEFLATED => {
            let claimed = usize::try_from(reader.u32()?).unwrap_or(usize::MAX);
            inflate(reader.rest(), claimed, limits)?
        }
        _ => return Err(WireError::Malformed { what: "state form" }),
    };
    *reader = Reader::new(&[]);
    let sections = Sections::cut(&state, |counts| check::check_counts(counts, limits))?;
    sections.check()?;
    let packed = PackedGossip::from_checked(state);
    Ok((to, GossipBody::Packed(Arc::new(packed))))
}
