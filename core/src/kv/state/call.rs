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

/// A turn to decide what a key holds: whoever has seen a higher one refuses a lower one. Who has a turn may
/// decide again and again in it, in steps: no other turn is between two of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ballot {
    /// From 1.
    pub round: u64,
    /// Whose it is; no two calls have the same turn.
    pub call: CallId,
    /// Which decision of the turn, from 0.
    pub step: u32,
}

impl Ballot {
    /// Below every turn that anybody has.
    pub const NONE: Self = Self {
        round: 0,
        call: CallId { origin: 0, number: 0 },
        step: 0,
    };

    /// The lowest turn of a call that is above this one.
    #[must_use]
    pub const fn above(self, call: CallId) -> Self {
        Self {
            round: self.round.saturating_add(1),
            call,
            step: 0,
        }
    }

    /// The next decision of the same turn, if a number is left.
    #[must_use]
    pub fn stepped(self) -> Option<Self> {
        let step = self.step.checked_add(1)?;
        Some(Self { step, ..self })
    }

    pub(super) fn put(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.round.to_le_bytes());
        self.call.put(out);
        out.extend_from_slice(&self.step.to_le_bytes());
    }

    pub(super) fn take(from: &mut BodyReader<'_>) -> Result<Self, WireError> {
        let round = from.u64()?;
        if round > NUMBER_MAX {
            return Err(WireError::Malformed { what: "ballot" });
        }
        let call = CallId::take(from)?;
        let step = from.u32()?;
        Ok(Self { round, call, step })
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
