//! Where dots and time stamps come from: one counter per node incarnation for all keys, so that no dot is
//! ever used twice, and a clock that never falls. Never reads a clock and never knows a key. Spec: sharding
//! 1.13, reliability I-68.

use super::OpError;
use crate::ident::{Address, UniqueAddress};

/// Highest version of a dot. Eight bytes hold more; the highest bit stays free so that a range's end can be
/// counted past.
pub const VERSION_MAX: u64 = (1 << 63) - 1;

/// Versions of a member's dots up to here are believed of everybody: what it has not minted it goes above,
/// and half of all versions are left to it then.
pub(crate) const CLAIM_MAX: u64 = VERSION_MAX / 2;

/// How far beyond what a member has minted, or has said itself, it is believed of others in the last half of
/// all versions: more than it mints between two words to the same node, and so little that a liar who raises
/// it by this with each message needs 4 * 10^12 of them.
const CLAIM_STEP: u64 = 1 << 20;

/// The highest version that is believed of others about a member that has come so far.
pub(crate) const fn claim_max(said: u64) -> u64 {
    let from = if said > CLAIM_MAX { said } else { CLAIM_MAX };
    from.saturating_add(CLAIM_STEP)
}

/// A host that resolves nowhere.
const NOBODY_HOST: &str = "-";
const NOBODY_PORT: u16 = 1;

/// More dots than one operation can mint: one per element, and no value has that many.
const OPERATION_DOTS_MAX: u64 = 1 << 32;

/// Under whose name stands what removed nodes contributed once they are settled
/// ([`DataValue::settle`](super::DataValue::settle)). No node listens at this address.
#[must_use]
pub fn nobody() -> UniqueAddress {
    nobody_of(0)
}

/// The first of nobody's names under which so many more versions have room. One is enough, unless a member
/// claimed versions near the end of all, of itself or of nobody: what was claimed once is then left behind,
/// and is no bound for those who are removed later.
pub(super) fn nobody_with_room(versions: u64, highest: impl Fn(&UniqueAddress) -> u64) -> UniqueAddress {
    let room = |nobody: &UniqueAddress| VERSION_MAX.saturating_sub(highest(nobody));
    let mut names = (0..=u64::MAX).map(nobody_of);
    names
        .find(|nobody| versions <= room(nobody))
        .unwrap_or_else(nobody)
}

fn nobody_of(number: u64) -> UniqueAddress {
    let address = Address::new(NOBODY_HOST, NOBODY_PORT).expect("invariant: the name is legal");
    UniqueAddress::new(address, number)
}

pub(super) fn is_nobody(node: &UniqueAddress) -> bool {
    node.address().port() == NOBODY_PORT && node.address().host() == NOBODY_HOST
}

/// The one source of dots and stamps of a node incarnation. The replicator keeps one for all its keys and
/// hands it to every [`DataValue::apply`](super::DataValue::apply): a counter per key would use a dot again
/// after the key was removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Minting {
    me: UniqueAddress,
    minted: u64,
    now_ms: i64,
}

impl Minting {
    /// The source of an incarnation that has minted nothing yet, at time 0.
    #[must_use]
    pub const fn new(me: UniqueAddress) -> Self {
        Self::resume(me, 0)
    }

    /// The source of an incarnation that has minted the versions up to `minted`.
    #[must_use]
    pub const fn resume(me: UniqueAddress, minted: u64) -> Self {
        Self {
            me,
            minted,
            now_ms: i64::MIN,
        }
    }

    /// Sets the wall clock, in milliseconds since 1970. A clock that jumps back is ignored until it has
    /// caught up, so that the stamps of this node only grow.
    pub fn set_now(&mut self, now_ms: i64) {
        self.now_ms = self.now_ms.max(now_ms);
    }

    /// The incarnation that mints.
    #[must_use]
    pub const fn me(&self) -> &UniqueAddress {
        &self.me
    }

    /// How many versions have been minted; also the highest one.
    #[must_use]
    pub const fn minted(&self) -> u64 {
        self.minted
    }

    /// The time that stamps are made from, in milliseconds since 1970; 0 if it was never set.
    #[must_use]
    pub const fn now_ms(&self) -> i64 {
        if self.now_ms == i64::MIN { 0 } else { self.now_ms }
    }

    /// Somebody says that versions up to this one were minted: what is minted from here on is above them.
    /// Whether it can be.
    pub(crate) const fn skip_to(&mut self, claimed: u64) -> bool {
        if claimed > claim_max(self.minted) {
            return false;
        }
        if claimed > self.minted {
            self.minted = claimed;
        }
        true
    }

    /// Whether an operation may mint for a value whose highest version of this node is `known`. A value that
    /// names more than were minted was forged, and what is minted there would count as removed.
    pub(super) const fn check(&self, known: u64) -> Result<(), OpError> {
        if known > self.minted || self.minted >= VERSION_MAX - OPERATION_DOTS_MAX {
            return Err(OpError::DotsExhausted);
        }
        Ok(())
    }

    /// A version that was never minted before; checked once per operation.
    pub(super) const fn next(&mut self) -> u64 {
        self.minted += 1;
        self.minted
    }
}
