//! What a gossip state is made of, where one is put together. Decides nothing.

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::ident::UniqueAddress;
use crate::membership::state::member::Member;
use crate::membership::state::member_set::MemberSet;
use crate::membership::state::reachability::Reachability;
use crate::membership::state::vector_clock::VectorClock;
use crate::ordered::OrderedSet;
use crate::paths::state::table::PathTable;

/// What [`Gossip::from_parts`](super::gossip::Gossip::from_parts) makes a state of.
#[derive(Clone, Debug, Default)]
pub struct GossipParts {
    /// Sorted by incarnation, each once.
    pub members: Vec<Member>,
    /// Who observes whom as unreachable.
    pub reachability: Reachability,
    /// The state's version.
    pub version: VectorClock,
    /// Positions in `members` of those who have seen it.
    pub seen: MemberSet,
    /// Incarnations that were removed.
    pub tombstones: OrderedSet<UniqueAddress>,
    /// See [`Gossip::paths`](super::gossip::Gossip::paths).
    pub paths: Arc<PathTable>,
}

/// The same where other states share the parts.
#[derive(Default)]
pub(crate) struct SharedGossipParts {
    pub(crate) members: Arc<Vec<Member>>,
    pub(crate) reachability: Arc<Reachability>,
    pub(crate) version: VectorClock,
    pub(crate) tombstones: Arc<OrderedSet<UniqueAddress>>,
    pub(crate) gone: Arc<OrderedSet<UniqueAddress>>,
    pub(crate) paths: Arc<PathTable>,
}
