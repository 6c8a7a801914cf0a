//! A value of any type, and what all types can do: be changed, be merged, be settled. Never knows keys, peers or bytes.
//! Spec: sharding 1.13, 10.6, 10.8, 10.21.

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;

use super::minting::is_nobody;
use super::op::Op;
use super::{
    Custom, CustomError, Delta, Flag, GCounter, GSet, LwwMap, LwwRegister, Minting, OpError, OrMap,
    OrMultiMap, OrSet, PnCounter, PnCounterMap,
};
use crate::ident::UniqueAddress;

/// The types that a map can hold. No maps: nothing on the wire is nested without a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ValueType {
    /// [`GCounter`].
    GCounter,
    /// [`PnCounter`].
    PnCounter,
    /// [`GSet`].
    GSet,
    /// [`OrSet`].
    OrSet,
    /// [`LwwRegister`].
    LwwRegister,
    /// [`Flag`].
    Flag,
}

impl ValueType {
    /// Every type a map can hold.
    pub const ALL: [Self; 6] = [
        Self::GCounter,
        Self::PnCounter,
        Self::GSet,
        Self::OrSet,
        Self::LwwRegister,
        Self::Flag,
    ];
}

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DataType {
    /// [`GCounter`].
    GCounter,
    /// [`PnCounter`].
    PnCounter,
    /// [`GSet`].
    GSet,
    /// [`OrSet`].
    OrSet,
    /// [`OrMap`] of values of one type.
    OrMap(ValueType),
    /// [`OrMultiMap`].
    OrMultiMap,
    /// [`PnCounterMap`].
    PnCounterMap,
    /// [`LwwRegister`].
    LwwRegister,
    /// [`LwwMap`].
    LwwMap,
    /// [`Flag`].
    Flag,
    /// A user's own type; which one, its name says.
    Custom,
}

impl From<ValueType> for DataType {
    fn from(value: ValueType) -> Self {
        match value {
            ValueType::GCounter => Self::GCounter,
            ValueType::PnCounter => Self::PnCounter,
            ValueType::GSet => Self::GSet,
            ValueType::OrSet => Self::OrSet,
            ValueType::LwwRegister => Self::LwwRegister,
            ValueType::Flag => Self::Flag,
        }
    }
}

/// A value of any type. Equal values are written in equal bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Data {
    /// A counter that only grows.
    GCounter(GCounter),
    /// A counter that goes up and down.
    PnCounter(PnCounter),
    /// A set that only grows.
    GSet(GSet),
    /// A set with removal.
    OrSet(OrSet),
    /// A map of values that are merged.
    OrMap(OrMap),
    /// A map of sets.
    OrMultiMap(OrMultiMap),
    /// A map of counters.
    PnCounterMap(PnCounterMap),
    /// A register whose last write wins.
    LwwRegister(LwwRegister),
    /// A map of such registers.
    LwwMap(LwwMap),
    /// A flag that is only switched on.
    Flag(Flag),
    /// A user's own type.
    Custom(Custom),
}

/// What an operation did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Applied {
    /// Nothing: the value already was as the operation wants it.
    Unchanged,
    /// It changed the value, and this is what replicas need to hear.
    Delta(Delta),
    /// It changed the value, and replicas need the whole of it: a user's type without a delta.
    Whole,
}

impl Applied {
    /// The delta, if there is one.
    #[must_use]
    pub fn into_delta(self) -> Option<Delta> {
        match self {
            Self::Unchanged | Self::Whole => None,
            Self::Delta(delta) => Some(delta),
        }
    }

    pub(super) fn of(delta: Option<Delta>) -> Self {
        delta.map_or(Self::Unchanged, Self::Delta)
    }
}

/// What a merge did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Merged {
    /// Whether the value is another one now.
    pub changed: bool,
}

/// Why values were not merged. The value is as it was.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MergeError {
    /// The other value has another type.
    #[error("a {found:?} cannot be merged into a {held:?}")]
    TypeMismatch {
        /// The type held.
        held: DataType,
        /// The type that came.
        found: DataType,
    },
    /// Both are users' types, of different names.
    #[error("a {found:?} cannot be merged into a {held:?}")]
    CustomMismatch {
        /// The name of the type held.
        held: String,
        /// The name of the type that came.
        found: String,
    },
    /// The cloud of unseen dots would exceed [`CLOUD_MAX`](super::CLOUD_MAX): refuse deltas of this sender until its full
    /// state came.
    #[error("too many ranges of unseen dots")]
    CloudFull,
    /// The merged value would name more than [`NODES_MAX`](super::NODES_MAX) nodes.
    #[error("too many nodes")]
    TooManyNodes,
    /// The user's own type refused.
    #[error(transparent)]
    Custom(#[from] CustomError),
}

/// A stamp of the future.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a stamp {ahead_ms} ms in the future")]
pub struct FutureStamp {
    /// How far it is ahead of this node's clock.
    pub ahead_ms: i64,
}

/// Refuses a stamp that is further ahead than clocks may differ: it would win over every honest write until then.
pub(super) fn check_stamp(newest: Option<i64>, now_ms: i64, skew_ms_max: i64) -> Result<(), FutureStamp> {
    let ahead_ms = newest.map_or(0, |stamp| stamp.saturating_sub(now_ms));
    if ahead_ms > skew_ms_max {
        return Err(FutureStamp { ahead_ms });
    }
    Ok(())
}

impl Data {
    /// An empty value of this type. A user's type has no empty value without its definition: for [`DataType::Custom`] use
    /// [`Custom::new`]; here it is `None`.
    #[must_use]
    pub fn empty(data_type: DataType) -> Option<Self> {
        Some(match data_type {
            DataType::GCounter => Self::GCounter(GCounter::new()),
            DataType::PnCounter => Self::PnCounter(PnCounter::new()),
            DataType::GSet => Self::GSet(GSet::new()),
            DataType::OrSet => Self::OrSet(OrSet::new()),
            DataType::OrMap(values) => Self::OrMap(OrMap::new(values)),
            DataType::OrMultiMap => Self::OrMultiMap(OrMultiMap::new()),
            DataType::PnCounterMap => Self::PnCounterMap(PnCounterMap::new()),
            DataType::LwwRegister => Self::LwwRegister(LwwRegister::new()),
            DataType::LwwMap => Self::LwwMap(LwwMap::new()),
            DataType::Flag => Self::Flag(Flag::new()),
            DataType::Custom => return None,
        })
    }

    /// An empty value that a map can hold.
    pub(super) fn of_value(value: ValueType) -> Self {
        match value {
            ValueType::GCounter => Self::GCounter(GCounter::new()),
            ValueType::PnCounter => Self::PnCounter(PnCounter::new()),
            ValueType::GSet => Self::GSet(GSet::new()),
            ValueType::OrSet => Self::OrSet(OrSet::new()),
            ValueType::LwwRegister => Self::LwwRegister(LwwRegister::new()),
            ValueType::Flag => Self::Flag(Flag::new()),
        }
    }

    /// Applies an operation of this node. Cost: the change, not the value; [`Op::OrMap`] also copies the value of its key.
    ///
    /// # Errors
    /// [`OpError`]; the value is as it was.
    pub fn apply(&mut self, op: &Op, minting: &mut Minting) -> Result<Applied, OpError> {
        let found = self.data_type();
        let delta = match (self, op) {
            (Self::GCounter(held), Op::GCounter(op)) => held.apply(op, minting.me()).map(Delta::GCounter),
            (Self::PnCounter(held), Op::PnCounter(op)) => held.apply(op, minting.me()).map(Delta::PnCounter),
            (Self::GSet(held), Op::GSet(op)) => held.apply(op)?.map(Delta::GSet),
            (Self::OrSet(held), Op::OrSet(op)) => held.apply(op, minting)?.map(Delta::OrSet),
            (Self::OrMap(held), Op::OrMap(op)) => held.apply(op, minting)?.map(Delta::OrMap),
            (Self::OrMultiMap(held), Op::OrMultiMap(op)) => held.apply(op, minting)?.map(Delta::OrMultiMap),
            (Self::PnCounterMap(held), Op::PnCounterMap(op)) => {
                held.apply(op, minting)?.map(Delta::PnCounterMap)
            }
            (Self::LwwRegister(held), Op::LwwRegister(op)) => held.apply(op, minting).map(Delta::LwwRegister),
            (Self::LwwMap(held), Op::LwwMap(op)) => held.apply(op, minting)?.map(Delta::LwwMap),
            (Self::Flag(held), Op::Flag(op)) => held.apply(op).map(Delta::Flag),
            (Self::Custom(held), Op::Custom(op)) => {
                return Ok(match held.apply(op, minting)? {
                    (_, Some(delta)) => Applied::Delta(Delta::Custom(delta)),
                    (true, None) => Applied::Whole,
                    (false, None) => Applied::Unchanged,
                });
            }
            (
                Self::GCounter(_)
                | Self::PnCounter(_)
                | Self::GSet(_)
                | Self::OrSet(_)
                | Self::OrMap(_)
                | Self::OrMultiMap(_)
                | Self::PnCounterMap(_)
                | Self::LwwRegister(_)
                | Self::LwwMap(_)
                | Self::Flag(_)
                | Self::Custom(_),
                _,
            ) => {
                let operation = op.type_name();
                return Err(OpError::WrongType { found, operation });
            }
        };
        Ok(Applied::of(delta))
    }

    /// Joins another replica's whole value. Cost: one walk of both.
    ///
    /// # Errors
    /// [`MergeError`]; the value is as it was.
    pub fn merge(&mut self, other: &Self) -> Result<Merged, MergeError> {
        let held = self.data_type();
        let changed = match (self, other) {
            (Self::GCounter(mine), Self::GCounter(theirs)) => mine.merge(theirs),
            (Self::PnCounter(mine), Self::PnCounter(theirs)) => mine.merge(theirs),
            (Self::GSet(mine), Self::GSet(theirs)) => mine.merge(theirs),
            (Self::OrSet(mine), Self::OrSet(theirs)) => mine.merge(theirs)?,
            (Self::OrMap(mine), Self::OrMap(theirs)) => mine.merge(theirs)?,
            (Self::OrMultiMap(mine), Self::OrMultiMap(theirs)) => mine.merge(theirs)?,
            (Self::PnCounterMap(mine), Self::PnCounterMap(theirs)) => mine.merge(theirs)?,
            (Self::LwwRegister(mine), Self::LwwRegister(theirs)) => mine.merge(theirs),
            (Self::LwwMap(mine), Self::LwwMap(theirs)) => mine.merge(theirs)?,
            (Self::Flag(mine), Self::Flag(theirs)) => mine.merge(*theirs),
            (Self::Custom(mine), Self::Custom(theirs)) => mine.merge(theirs)?,
            (
                Self::GCounter(_)
                | Self::PnCounter(_)
                | Self::GSet(_)
                | Self::OrSet(_)
                | Self::OrMap(_)
                | Self::OrMultiMap(_)
                | Self::PnCounterMap(_)
                | Self::LwwRegister(_)
                | Self::LwwMap(_)
                | Self::Flag(_)
                | Self::Custom(_),
                _,
            ) => {
                let found = other.data_type();
                return Err(MergeError::TypeMismatch { held, found });
            }
        };
        Ok(Merged { changed })
    }

    /// Joins a delta. Cost: the delta, not the value; the delta of a clear also walks the value.
    ///
    /// # Errors
    /// [`MergeError`]; the value is as it was.
    pub fn merge_delta(&mut self, delta: &Delta) -> Result<Merged, MergeError> {
        let held = self.data_type();
        let changed = match (self, delta) {
            (Self::GCounter(mine), Delta::GCounter(theirs)) => mine.merge(theirs),
            (Self::PnCounter(mine), Delta::PnCounter(theirs)) => mine.merge(theirs),
            (Self::GSet(mine), Delta::GSet(theirs)) => mine.merge(theirs),
            (Self::OrSet(mine), Delta::OrSet(theirs)) => mine.merge_delta(theirs)?,
            (Self::OrMap(mine), Delta::OrMap(theirs)) => mine.merge_delta(theirs)?,
            (Self::OrMultiMap(mine), Delta::OrMultiMap(theirs)) => mine.merge_delta(theirs)?,
            (Self::PnCounterMap(mine), Delta::PnCounterMap(theirs)) => mine.merge_delta(theirs)?,
            (Self::LwwRegister(mine), Delta::LwwRegister(theirs)) => mine.merge(theirs),
            (Self::LwwMap(mine), Delta::LwwMap(theirs)) => mine.merge_delta(theirs)?,
            (Self::Flag(mine), Delta::Flag(theirs)) => mine.merge(*theirs),
            (Self::Custom(mine), Delta::Custom(theirs)) => mine.merge_delta(theirs)?,
            (
                Self::GCounter(_)
                | Self::PnCounter(_)
                | Self::GSet(_)
                | Self::OrSet(_)
                | Self::OrMap(_)
                | Self::OrMultiMap(_)
                | Self::PnCounterMap(_)
                | Self::LwwRegister(_)
                | Self::LwwMap(_)
                | Self::Flag(_)
                | Self::Custom(_),
                _,
            ) => {
                let found = delta.data_type();
                return Err(MergeError::TypeMismatch { held, found });
            }
        };
        Ok(Merged { changed })
    }

    /// Moves what `removed` contributed to [nobody](super::nobody), once nobody can come with more of it. The value stays what
    /// it was and no longer mentions `removed`. Replicas that know the same of the node come to the same, each on its own.
    /// Cost: one walk.
    ///
    /// # Errors
    /// [`OpError`]: the value was forged, or a user's type refused. What could be moved was.
    pub fn settle(&mut self, removed: &UniqueAddress) -> Result<(), OpError> {
        if is_nobody(removed) {
            return Ok(());
        }
        match self {
            Self::GCounter(held) => held.settle(removed),
            Self::PnCounter(held) => held.settle(removed),
            Self::GSet(_) | Self::Flag(_) => {}
            Self::OrSet(held) => held.0.settle(removed)?,
            Self::OrMap(held) => held.map.settle(removed)?,
            Self::OrMultiMap(held) => held.0.settle(removed)?,
            Self::PnCounterMap(held) => held.0.settle(removed)?,
            Self::LwwRegister(held) => held.settle(removed),
            Self::LwwMap(held) => held.0.settle(removed)?,
            Self::Custom(held) => held.settle(removed)?,
        }
        Ok(())
    }

    /// The nodes that this value mentions, in order, without [nobody](super::nobody).
    #[must_use]
    pub fn nodes(&self) -> Vec<UniqueAddress> {
        let nodes: BTreeSet<UniqueAddress> = match self {
            Self::GCounter(held) => held.nodes().cloned().collect(),
            Self::PnCounter(held) => held.nodes().cloned().collect(),
            Self::GSet(_) | Self::Flag(_) => BTreeSet::new(),
            Self::OrSet(held) => held.0.nodes(),
            Self::OrMap(held) => held.map.nodes(),
            Self::OrMultiMap(held) => held.0.nodes(),
            Self::PnCounterMap(held) => held.0.nodes(),
            Self::LwwRegister(held) => held.get().map(|held| held.node.clone()).into_iter().collect(),
            Self::LwwMap(held) => held.0.nodes(),
            Self::Custom(held) => held.kind.nodes(&held.state).into_iter().collect(),
        };
        nodes.into_iter().filter(|node| !is_nobody(node)).collect()
    }

    /// Whether this value mentions the node.
    #[must_use]
    pub fn mentions(&self, node: &UniqueAddress) -> bool {
        match self {
            Self::GCounter(held) => !held.tallies().get(node).is_zero(),
            Self::PnCounter(held) => !held.tallies().get(node).is_zero(),
            Self::GSet(_) | Self::Flag(_) => false,
            Self::OrSet(held) => held.0.mentions(node),
            Self::OrMap(held) => held.map.mentions(node),
            Self::OrMultiMap(held) => held.0.mentions(node),
            Self::PnCounterMap(held) => held.0.mentions(node),
            Self::LwwRegister(held) => held.get().is_some_and(|held| held.node == *node),
            Self::LwwMap(held) => held.0.mentions(node),
            Self::Custom(held) => held.kind.nodes(&held.state).contains(node),
        }
    }
}
