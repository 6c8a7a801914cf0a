//! The names of calls: of who asks, of what it has minted, and of its turn to decide about a key. Values
//! only. Spec: sharding 10.7, 10.19 c.

use alloc::vec::Vec;

use crate::bytes::{BodyReader, WireError};
use crate::journal::state::NUMBER_MAX;

/// One call of one incarnation of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId {
    /// The uid of the incarnation.
    pub origin: u64,
    /// Which of its calls: they rise.
    pub number: u64,
}

/// One request of a call that mints. Whoever was refused tries again with the next attempt, so that what was
/// refused once stays refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId {
    /// Of which call.
    pub call: CallId,
    /// From 0.
    pub attempt: u32,
}

/// A turn to decide what a key holds: whoever has seen a higher one refuses a lower one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ballot {
    /// From 1.
    pub round: u64,
    /// Whose it is; no two calls have the same turn.
    pub call: CallId,
}

impl Ballot {
    /// Below every turn that anybody has.
    pub const NONE: Self = Self {
        round: 0,
        call: CallId { origin: 0, number: 0 },
    };

    /// The lowest turn of a call that is above this one.
    #[must_use]
    pub const fn above(self, call: CallId) -> Self {
        Self {
            round: self.round.saturating_add(1),
            call,
        }
    }

    pub(super) fn put(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.round.to_le_bytes());
        self.call.put(out);
    }

    pub(super) fn take(from: &mut BodyReader<'_>) -> Result<Self, WireError> {
        let round = from.u64()?;
        if round > NUMBER_MAX {
            return Err(WireError::Malformed { what: "ballot" });
        }
        let call = CallId::take(from)?;
        Ok(Self { round, call })
    }
}

impl CallId {
    pub(super) fn put(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.origin.to_le_bytes());
        out.extend_from_slice(&self.number.to_le_bytes());
    }

    pub(super) fn take(from: &mut BodyReader<'_>) -> Result<Self, WireError> {
        Ok(Self {
            origin: from.u64()?,
            number: from.u64()?,
        })
    }
}
