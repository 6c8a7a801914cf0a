//! Who waits for whom: the entities and singletons whose handlers wait for the answer to an ask, so that one
//! that would have to wait for itself is noticed at the ask that closes the cycle. Names only; the host adds
//! itself and looks. Of a wake-up no handler waits for the answer: a clock does, and that is how one is told
//! from a user's message. Spec: sharding 10.2; `docs/adr/0016`.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::hash::Hasher;

use siphasher::sip::SipHasher13;

use super::ids::{EntityId, HASH_KEYS, KindId};

/// Those whose handlers wait, the outermost first; nobody if the ask came from outside of all handlers. Cheap
/// to clone.
///
/// A name is a hash of 64 bits: of a billion asks whose chains are full not one is taken for a cycle by
/// chance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AskChain(
    /// No names at all: a clock, so that who is asked by handlers or by nobody has no room for it.
    Option<Arc<[u64]>>,
);

impl AskChain {
    /// Names that travel with an ask: deeper than any design that works. Past it the outermost is left out,
    /// and a cycle through it ends by its deadline.
    pub const NAMES_MAX: usize = 16;

    /// The name of an entity.
    #[must_use]
    pub fn entity(kind: KindId, id: &EntityId) -> u64 {
        let mut hasher = SipHasher13::new_with_keys(HASH_KEYS.0, HASH_KEYS.1);
        hasher.write_u64(kind.raw());
        hasher.write(id.as_bytes());
        hasher.finish()
    }

    /// The chain of these names; those beyond [`Self::NAMES_MAX`] are left out, the outermost first.
    #[must_use]
    pub fn of(names: &[u64]) -> Self {
        let names = &names[names.len().saturating_sub(Self::NAMES_MAX)..];
        Self((!names.is_empty()).then(|| Arc::from(names)))
    }

    /// A clock waits: the message is a wake-up ([`crate::wakeups`]), and its bytes are no user's.
    #[must_use]
    pub fn of_a_clock() -> Self {
        Self(Some(Arc::from([])))
    }

    /// Whether the message is a wake-up.
    #[must_use]
    pub fn is_of_a_clock(&self) -> bool {
        self.0.as_ref().is_some_and(|names| names.is_empty())
    }

    /// The chain of an ask whose handler, called `name`, asks on.
    #[must_use]
    pub fn and(&self, name: u64) -> Self {
        let names: Vec<u64> = self.names().iter().copied().chain([name]).collect();
        Self::of(&names)
    }

    /// Who waits.
    #[must_use]
    pub fn names(&self) -> &[u64] {
        self.0.as_deref().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_outermost_are_left_out_when_a_chain_is_too_long() {
        let mut chain = AskChain::default();
        assert!(chain.names().is_empty());
        for name in 0..20 {
            chain = chain.and(name);
        }
        assert_eq!(chain.names(), (4..20).collect::<Vec<u64>>());
        assert_eq!(AskChain::of(&[]), AskChain::default());
    }

    #[test]
    fn a_wake_up_is_neither_asked_by_handlers_nor_by_nobody() {
        let clock = AskChain::of_a_clock();
        assert!(clock.is_of_a_clock() && clock.names().is_empty());
        for other in [AskChain::default(), AskChain::of(&[]), clock.and(7)] {
            assert!(!other.is_of_a_clock() && other != clock);
        }
        assert_eq!(clock.and(7), AskChain::of(&[7]));
    }

    #[test]
    fn names_differ_by_kind_and_by_id() {
        let name = |kind, id: &str| AskChain::entity(KindId::from_raw(kind), &EntityId::new(id.as_bytes()));
        assert_eq!(name(1, "a"), name(1, "a"));
        assert_ne!(name(1, "a"), name(2, "a"));
        assert_ne!(name(1, "a"), name(1, "b"));
    }
}
