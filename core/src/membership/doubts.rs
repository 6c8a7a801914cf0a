//! How much of what others claim of a member's entry, and of the counter of the table of paths, is believed,
//! and with whom a word is due. Values only.
//! Spec: membership 8.9.

use core::time::Duration;

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

/// How long after a refusal the counter of the table of paths may be raised by all that time allows, and not
/// by one jump: several rounds of gossip. So a node catches up with others whom a liar led further.
const CATCHING_UP: Duration = Duration::from_secs(60);

/// Members to whom this node speaks in a round beside the usual one, because it and others differ about the
/// entry of one of the two. Who finds no room is doubted again by the next state.
const UNSETTLED_MAX: usize = 16;

/// What is remembered of claims.
#[derive(Clone, Debug, Default)]
pub(super) struct EntryClaims {
    /// By how much my entry may still be raised, and until when that has grown.
    allowance: (u64, Instant),
    of_paths: PathsAllowance,
    /// Those about whose entry it is open who is right, and those who say too much of mine: a word with them
    /// settles it.
    pub(super) unsettled: OrderedSet<UniqueAddress>,
}

/// By how much the counter of the table of paths may still be raised, and when a raise was refused last.
#[derive(Clone, Debug)]
struct PathsAllowance {
    left: (u64, Instant),
    refused: Option<Instant>,
}

impl Default for PathsAllowance {
    fn default() -> Self {
        Self {
            left: (CLOCK_JUMP_MAX, Instant::default()),
            refused: None,
        }
    }
}

impl EntryClaims {
    /// Whether my entry may be raised by so much, which is then used up.
    pub(super) fn may_jump(&mut self, now: Instant, by: u64) -> bool {
        take(&mut self.allowance, now, by, CLOCK_JUMP_MAX)
    }

    /// Whether the counter of the table of paths may be raised by so much. There is nobody whose word settles
    /// it: who was refused is believed once so much time has passed.
    pub(super) fn may_raise_paths(&mut self, now: Instant, by: u64) -> bool {
        let PathsAllowance { left, refused } = &mut self.of_paths;
        let is_catching_up = refused.is_some_and(|at| now.since(at) <= CATCHING_UP);
        let most = if is_catching_up { u64::MAX } else { CLOCK_JUMP_MAX };
        let may = take(left, now, by, most);
        if !may {
            *refused = Some(now);
        }
        may
    }

    pub(super) fn doubt(&mut self, node: &UniqueAddress) {
        if self.unsettled.len() < UNSETTLED_MAX {
            self.unsettled.insert(node.clone());
        }
    }
}

/// Whether so much is left, which is then used up. Grows with time up to `most`.
fn take((left, counted): &mut (u64, Instant), now: Instant, by: u64, most: u64) -> bool {
    let earned = micros(now.since(*counted)).saturating_mul(CLOCK_JUMP_PER_SECOND) / 1_000_000;
    if earned > 0 {
        *left = left.saturating_add(earned).min(most);
        *counted = now;
    }
    let may = by <= *left;
    if may {
        *left -= by;
    }
    may
}
