//! Facts about a value that the replicator asks for before it accepts or sends it. Never changes anything. Spec: sharding
//! 1.12, reliability I-68.

use super::context::Context;
use super::data::{FutureStamp, check_stamp};
use super::{Data, DataType, Delta, Op};
use crate::ident::UniqueAddress;

impl Data {
    /// The type of the value.
    #[must_use]
    pub const fn data_type(&self) -> DataType {
        match self {
            Self::GCounter(_) => DataType::GCounter,
            Self::PnCounter(_) => DataType::PnCounter,
            Self::GSet(_) => DataType::GSet,
            Self::OrSet(_) => DataType::OrSet,
            Self::OrMap(held) => DataType::OrMap(held.value_type()),
            Self::OrMultiMap(_) => DataType::OrMultiMap,
            Self::PnCounterMap(_) => DataType::PnCounterMap,
            Self::LwwRegister(_) => DataType::LwwRegister,
            Self::LwwMap(_) => DataType::LwwMap,
            Self::Flag(_) => DataType::Flag,
            Self::Custom(_) => DataType::Custom,
        }
    }

    /// Whether deltas are to be joined in the order of their sender and without gaps. Sets with removal and maps stay
    /// correct across a gap, but what they have not seen then waits in their bounded cloud.
    #[must_use]
    pub fn needs_causal_delivery(&self) -> bool {
        match self {
            Self::GCounter(_) | Self::PnCounter(_) | Self::GSet(_) | Self::LwwRegister(_) | Self::Flag(_) => {
                false
            }
            Self::OrSet(_)
            | Self::OrMap(_)
            | Self::OrMultiMap(_)
            | Self::PnCounterMap(_)
            | Self::LwwMap(_) => true,
            Self::Custom(held) => held.kind.needs_causal_delivery(),
        }
    }

    /// The greatest last-writer-wins stamp in the value.
    #[must_use]
    pub fn newest_stamp(&self) -> Option<i64> {
        match self {
            Self::LwwRegister(held) => held.get().map(|held| held.stamp),
            Self::LwwMap(held) => held.0.newest_stamp(),
            Self::OrMap(held) => held.map.newest_stamp(),
            Self::GCounter(_)
            | Self::PnCounter(_)
            | Self::GSet(_)
            | Self::OrSet(_)
            | Self::OrMultiMap(_)
            | Self::PnCounterMap(_)
            | Self::Flag(_)
            | Self::Custom(_) => None,
        }
    }

    /// Refuses a value from a peer with a stamp more than `skew_ms_max` ahead of this node's clock.
    ///
    /// # Errors
    /// [`FutureStamp`] says by how much. A stamp that the first writer wins with cannot be judged.
    pub fn check_stamps(&self, now_ms: i64, skew_ms_max: i64) -> Result<(), FutureStamp> {
        check_stamp(self.newest_stamp(), now_ms, skew_ms_max)
    }

    /// The highest version of a dot of `node` that the value has seen. A peer's value may claim more of this node than
    /// [`Minting::minted`](super::Minting::minted): it is forged then, or of a life of which nothing else is left.
    #[must_use]
    pub fn highest_version_of(&self, node: &UniqueAddress) -> u64 {
        self.context().map_or(0, |context| context.highest(node))
    }

    /// The highest version that the value has seen of each node.
    pub(crate) fn highest_versions(&self) -> impl Iterator<Item = (&UniqueAddress, u64)> {
        self.context().into_iter().flat_map(Context::highest_of_all)
    }

    /// What a value with dots has seen.
    fn context(&self) -> Option<&Context> {
        match self {
            Self::OrSet(held) => Some(&held.0.context),
            Self::OrMap(held) => Some(&held.map.context),
            Self::OrMultiMap(held) => Some(&held.0.context),
            Self::PnCounterMap(held) => Some(&held.0.context),
            Self::LwwMap(held) => Some(&held.0.context),
            Self::GCounter(_)
            | Self::PnCounter(_)
            | Self::GSet(_)
            | Self::LwwRegister(_)
            | Self::Flag(_)
            | Self::Custom(_) => None,
        }
    }

    /// How many ranges of dots wait above gaps; 0 once everything has been seen.
    #[must_use]
    pub fn cloud(&self) -> usize {
        self.context().map_or(0, Context::cloud)
    }
}

impl Delta {
    /// The highest version of a dot of `node` that the change has seen.
    #[must_use]
    pub(crate) fn highest_version_of(&self, node: &UniqueAddress) -> u64 {
        self.context().map_or(0, |context| context.highest(node))
    }

    /// The highest version that the change has seen of each node.
    pub(crate) fn highest_versions(&self) -> impl Iterator<Item = (&UniqueAddress, u64)> {
        self.context().into_iter().flat_map(Context::highest_of_all)
    }

    fn context(&self) -> Option<&Context> {
        match self {
            Self::OrSet(delta) => Some(&delta.0.part.context),
            Self::OrMap(delta) => Some(&delta.map.part.context),
            Self::OrMultiMap(delta) => Some(&delta.0.part.context),
            Self::PnCounterMap(delta) => Some(&delta.0.part.context),
            Self::LwwMap(delta) => Some(&delta.0.part.context),
            Self::GCounter(_)
            | Self::PnCounter(_)
            | Self::GSet(_)
            | Self::LwwRegister(_)
            | Self::Flag(_)
            | Self::Custom(_) => None,
        }
    }
}

impl Op {
    /// The type of value that the operation belongs to; of a map's values, what an update or put says.
    #[must_use]
    pub const fn is_for(&self, data_type: DataType) -> bool {
        match self {
            Self::GCounter(_) => matches!(data_type, DataType::GCounter),
            Self::PnCounter(_) => matches!(data_type, DataType::PnCounter),
            Self::GSet(_) => matches!(data_type, DataType::GSet),
            Self::OrSet(_) => matches!(data_type, DataType::OrSet),
            Self::OrMap(_) => matches!(data_type, DataType::OrMap(_)),
            Self::OrMultiMap(_) => matches!(data_type, DataType::OrMultiMap),
            Self::PnCounterMap(_) => matches!(data_type, DataType::PnCounterMap),
            Self::LwwRegister(_) => matches!(data_type, DataType::LwwRegister),
            Self::LwwMap(_) => matches!(data_type, DataType::LwwMap),
            Self::Flag(_) => matches!(data_type, DataType::Flag),
            Self::Custom(_) => matches!(data_type, DataType::Custom),
        }
    }
}
