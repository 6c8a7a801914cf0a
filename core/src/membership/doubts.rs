//! How much of what others claim of a member's entry is believed, and with whom a word is due. Values only.
//! Spec: membership 8.9.

use crate::ident::UniqueAddress;
use crate::ordered::OrderedSet;
use crate::time::{Instant, micros};

/// By how much another member's entry may be above the one held here and still be news of which this node has
/// not heard: far more changes than a member makes while nobody here hears of them. What is further, that
/// member itself is asked about.
pub(crate) const CLOCK_JUMP_MAX: u64 = 1 << 16;

/// By how much claims of others may raise a member's own entry within a second, all together. At that pace
/// the end of the range, 2^48, is 136 years away, whatever is said.
const CLOCK_JUMP_PER_SECOND: u64 = CLOCK_JUMP_MAX;

/// Members to whom this node speaks in a round beside the usual one, because it and others differ about the
/// entry of one of the two. Who finds no room is doubted again by the next state.
const UNSETTLED_MAX: usize = 16;

/// What is remembered of claims.
#[derive(Clone, Debug, Default)]
pub(super) struct EntryClaims {
    /// By how much my entry may still be raised, and until when that has grown.
    allowance: (u64, Instant),
    /// Those about whose entry it is open who is right, and those who say too much of mine: a word with them
    /// settles it.
    pub(super) unsettled: OrderedSet<UniqueAddress>,
}

impl EntryClaims {
    /// Whether my entry may be raised by so much, which is then used up.
    pub(super) fn may_jump(&mut self, now: Instant, by: u64) -> bool {
        let (left, counted) = self.allowance;
        let earned = micros(now.since(counted)).saturating_mul(CLOCK_JUMP_PER_SECOND) / 1_000_000;
        if earned > 0 {
            self.allowance = (left.saturating_add(earned).min(CLOCK_JUMP_MAX), now);
        }
        let may = by <= self.allowance.0;
        if may {
            self.allowance.0 -= by;
        }
        may
    }

    pub(super) fn doubt(&mut self, node: &UniqueAddress) {
        if self.unsettled.len() < UNSETTLED_MAX {
            self.unsettled.insert(node.clone());
        }
    }
}
