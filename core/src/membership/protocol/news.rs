//! What nodes say about states beside the whole state: which one they hold, what is new in it, that they have
//! seen it. Types only. Spec: membership 2.5, 2.6, `docs/WIRE.md` 5.3.

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::ident::UniqueAddress;
use crate::membership::state::gossip::Gossip;
use crate::membership::state::member_set::MemberSet;

/// The name of a state, of everything in it but who has seen it: a digest of its one written form. Two states
/// with one name are the same. A clock is no such name: two states can have equal clocks and differ (ADR 2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct StateDigest(pub u128);

/// Which state the sender holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GossipStatus {
    /// The uid of the receiver's incarnation. Its address is that of the link: a status is what members that
    /// agree say each round, and is read without taking anything from the heap.
    pub to_uid: u64,
    /// The state's name.
    pub state: StateDigest,
    /// Digest of the set of nodes that have seen it.
    pub seen_digest: u64,
    /// Whether it is said because the receiver's state is not known here: a receiver that does not know this
    /// one either sends its whole state.
    pub is_answer: bool,
}

/// The state the sender holds, as what differs from one that the receiver may know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GossipDelta {
    /// The receiver.
    pub to: UniqueAddress,
    /// Whether it is said at once because it is new: then the leader hears who has seen it, and the sender
    /// does not.
    pub is_push: bool,
    /// The state from which the steps lead.
    pub base: StateDigest,
    /// The state to which they lead.
    pub result: StateDigest,
    /// Who has seen it, as positions among its members.
    pub seen: MemberSet,
    /// How its written form differs.
    pub steps: StateSteps,
}

/// Steps from the written form of one state to that of another. Those that did not travel as bytes may have
/// the other state with them, and need not be gone.
#[derive(Clone, Debug, Default)]
pub struct StateSteps {
    bytes: Arc<Vec<u8>>,
    leads_to: Option<Arc<Gossip>>,
}

impl StateSteps {
    /// Steps as they are written.
    #[must_use]
    pub fn new(bytes: Vec<u8>) -> Self {
        Self {
            bytes: Arc::new(bytes),
            leads_to: None,
        }
    }

    pub(crate) fn to_state(bytes: Arc<Vec<u8>>, state: &Arc<Gossip>) -> Self {
        Self {
            bytes,
            leads_to: Some(Arc::clone(state)),
        }
    }

    /// As they are written.
    #[must_use]
    pub const fn bytes(&self) -> &Arc<Vec<u8>> {
        &self.bytes
    }

    /// The state to which they lead, where it came with them.
    pub(crate) const fn leads_to(&self) -> Option<&Arc<Gossip>> {
        self.leads_to.as_ref()
    }
}

impl PartialEq for StateSteps {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

impl Eq for StateSteps {}

/// A node has seen a state; said to the leader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GossipSeen {
    /// The receiver.
    pub to: UniqueAddress,
    /// The state's name.
    pub state: StateDigest,
}
