//! A state inside a message, in one of its two forms. Answers what a receiver asks of a state before it opens
//! it; decides nothing about it. Spec: membership 2.5, performance B2.

use alloc::sync::Arc;

use crate::ident::UniqueAddress;
use crate::membership::state::gossip::Gossip;
use crate::membership::state::packed::{MemberFacts, PackedGossip};
use crate::membership::state::relation::{self, StateForm as _};
use crate::membership::state::vector_clock::ClockOrder;

/// The state inside a message: as its sender holds it, or as it came over the wire, checked and still in its
/// columns. Most states that arrive are equal to the receiver's own or older, and those are never opened.
#[derive(Clone, Debug)]
pub enum GossipBody {
    /// As a node holds it.
    Held(Arc<Gossip>),
    /// As it was read.
    Packed(Arc<PackedGossip>),
}

impl GossipBody {
    /// The state; parts that are equal to parts of `base` are shared with it.
    #[must_use]
    pub fn open(&self, base: &Gossip) -> Gossip {
        match self {
            Self::Held(gossip) => Gossip::clone(gossip),
            Self::Packed(packed) => packed.open(base),
        }
    }

    /// What the state says about `node`; `None` if it is no member.
    #[must_use]
    pub fn about(&self, node: &UniqueAddress) -> Option<MemberFacts> {
        match self {
            Self::Held(gossip) => gossip.contains(node).then(|| MemberFacts {
                seen: gossip.has_seen(node),
                counter: gossip.version().get(node),
            }),
            Self::Packed(packed) => packed.about(node),
        }
    }

    /// How the state's clock relates to that of `held`, if receiving the state can change nothing in `held`:
    /// it is the same state, seen by nobody else, or an older one. `None` if it has to be opened. Linear;
    /// allocates nothing.
    #[must_use]
    pub fn without_news(&self, held: &Gossip) -> Option<ClockOrder> {
        match self {
            Self::Held(gossip) => relation::without_news(&**gossip, held),
            Self::Packed(packed) => relation::without_news(&packed.sections(), held),
        }
    }
}

impl GossipBody {
    /// Whether the state's clock and that of `held` have entries that are further apart than `by`. Linear;
    /// allocates nothing.
    pub(crate) fn is_far_from(&self, held: &Gossip, by: u64) -> bool {
        match self {
            Self::Held(gossip) => relation::is_far_from(&**gossip, held, by),
            Self::Packed(packed) => relation::is_far_from(&packed.sections(), held, by),
        }
    }

    /// The counter of the state's table of paths.
    pub(crate) fn paths_counter(&self) -> u64 {
        match self {
            Self::Held(gossip) => gossip.paths_counter(),
            Self::Packed(packed) => packed.sections().paths_counter(),
        }
    }
}

impl PartialEq for GossipBody {
    /// Whether both are the same state, in whatever form.
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Held(left), Self::Held(right)) => left == right,
            (Self::Packed(left), Self::Packed(right)) => left == right,
            (Self::Held(held), Self::Packed(packed)) | (Self::Packed(packed), Self::Held(held)) => {
                packed.open(held) == **held
            }
        }
    }
}

impl From<Arc<Gossip>> for GossipBody {
    fn from(gossip: Arc<Gossip>) -> Self {
        Self::Held(gossip)
    }
}
