//! Facts about a value that the replicator asks for before it accepts or sends it. Never changes anything.
//! Spec: sharding 1.12, reliability I-68.

use super::context::CausalContext;
use super::data::{FutureStamp, check_stamp};
use super::replicated::{ReplicatedData, ReplicatedDelta};
use super::{DataDelta, DataValue};
use crate::ident::UniqueAddress;

impl DataValue {
    /// Whether deltas are to be joined in the order of their sender and without gaps. Sets with removal and
    /// maps stay correct across a gap, but what they have not seen then waits in their bounded cloud.
    #[must_use]
    pub fn needs_causal_delivery(&self) -> bool {
        by_type!(self, held => held.needs_causal_delivery())
    }

    /// The greatest last-writer-wins stamp in the value.
    #[must_use]
    pub fn newest_stamp(&self) -> Option<i64> {
        by_type!(self, held => ReplicatedData::newest_stamp(held))
    }

    /// Refuses a value from a peer with a stamp more than `skew_ms_max` ahead of this node's clock.
    ///
    /// # Errors
    /// [`FutureStamp`] says by how much. A stamp that the first writer wins with cannot be judged.
    pub fn check_stamps(&self, now_ms: i64, skew_ms_max: i64) -> Result<(), FutureStamp> {
        check_stamp(self.newest_stamp(), now_ms, skew_ms_max)
    }

    /// The highest version of a dot of `node` that the value has seen. A peer's value may claim more of this
    /// node than [`Minting::minted`](super::Minting::minted): it is forged then, or of a life of which
    /// nothing else is left.
    #[must_use]
    pub fn highest_version_of(&self, node: &UniqueAddress) -> u64 {
        self.context().map_or(0, |context| context.highest(node))
    }

    /// The highest version that the value has seen of each node.
    pub(crate) fn highest_versions(&self) -> impl Iterator<Item = (&UniqueAddress, u64)> {
        self.context().into_iter().flat_map(CausalContext::highest_of_all)
    }

    /// What a value with dots has seen.
    fn context(&self) -> Option<&CausalContext> {
        by_type!(self, held => ReplicatedData::context(held))
    }

    /// How many ranges of dots wait above gaps; 0 once everything has been seen.
    #[must_use]
    pub fn cloud(&self) -> usize {
        self.context().map_or(0, CausalContext::cloud)
    }
}

impl DataDelta {
    /// The highest version of a dot of `node` that the change has seen.
    #[must_use]
    pub(crate) fn highest_version_of(&self, node: &UniqueAddress) -> u64 {
        self.context().map_or(0, |context| context.highest(node))
    }

    /// The highest version that the change has seen of each node.
    pub(crate) fn highest_versions(&self) -> impl Iterator<Item = (&UniqueAddress, u64)> {
        self.context().into_iter().flat_map(CausalContext::highest_of_all)
    }

    fn context(&self) -> Option<&CausalContext> {
        by_type!(self, delta => ReplicatedDelta::context(delta))
    }
}
