//! What operations changed, small enough to be sent to everybody. Joining the deltas of a node, in their order, gives what
//! merging its whole value gives. Never names a sequence number: the replicator counts. Spec: sharding 1.12, 10.6, 10.21.

use super::data::{FutureStamp, check_stamp};
use super::{
    CustomDelta, DataType, Flag, GCounter, GSet, LwwMapDelta, LwwRegister, MergeError, OrMapDelta,
    OrMultiMapDelta, OrSetDelta, PnCounter, PnCounterMapDelta,
};

/// A change of a value, by type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delta {
    /// New totals of those who counted.
    GCounter(GCounter),
    /// New totals of those who counted.
    PnCounter(PnCounter),
    /// Added elements.
    GSet(GSet),
    /// New dots, and those that are superseded.
    OrSet(OrSetDelta),
    /// New values, and the dots that are superseded.
    OrMap(OrMapDelta),
    /// New dots, and those that are superseded.
    OrMultiMap(OrMultiMapDelta),
    /// New totals, and the dots that are superseded.
    PnCounterMap(PnCounterMapDelta),
    /// The write.
    LwwRegister(LwwRegister),
    /// New writes, and the dots that are superseded.
    LwwMap(LwwMapDelta),
    /// Switched on.
    Flag(Flag),
    /// Of a user's own type.
    Custom(CustomDelta),
}

impl Delta {
    /// The type of value that it changes.
    #[must_use]
    pub const fn data_type(&self) -> DataType {
        match self {
            Self::GCounter(_) => DataType::GCounter,
            Self::PnCounter(_) => DataType::PnCounter,
            Self::GSet(_) => DataType::GSet,
            Self::OrSet(_) => DataType::OrSet,
            Self::OrMap(delta) => DataType::OrMap(delta.values),
            Self::OrMultiMap(_) => DataType::OrMultiMap,
            Self::PnCounterMap(_) => DataType::PnCounterMap,
            Self::LwwRegister(_) => DataType::LwwRegister,
            Self::LwwMap(_) => DataType::LwwMap,
            Self::Flag(_) => DataType::Flag,
            Self::Custom(_) => DataType::Custom,
        }
    }

    /// How many changes it holds, for the limit on what is joined; at least 1.
    #[must_use]
    pub fn size(&self) -> usize {
        match self {
            Self::GCounter(delta) => delta.len().max(1),
            Self::PnCounter(delta) => delta.len().max(1),
            Self::GSet(delta) => delta.len().max(1),
            Self::OrSet(delta) => delta.0.size(),
            Self::OrMap(delta) => delta.map.size(),
            Self::OrMultiMap(delta) => delta.0.size(),
            Self::PnCounterMap(delta) => delta.0.size(),
            Self::LwwRegister(_) | Self::Flag(_) => 1,
            Self::LwwMap(delta) => delta.0.size(),
            Self::Custom(delta) => delta.kind.delta_size(&delta.delta).max(1),
        }
    }

    /// Appends the next delta of the same sender, so that both travel as one.
    ///
    /// # Errors
    /// [`MergeError`] if they are of different types; the delta is as it was.
    pub fn join(&mut self, later: &Self) -> Result<(), MergeError> {
        let held = self.data_type();
        let found = later.data_type();
        match (self, later) {
            (Self::GCounter(mine), Self::GCounter(theirs)) => {
                mine.merge(theirs);
            }
            (Self::PnCounter(mine), Self::PnCounter(theirs)) => {
                mine.merge(theirs);
            }
            (Self::GSet(mine), Self::GSet(theirs)) => {
                mine.merge(theirs);
            }
            (Self::OrSet(mine), Self::OrSet(theirs)) => mine.0.join(&theirs.0)?,
            (Self::OrMap(mine), Self::OrMap(theirs)) if held == found => mine.map.join(&theirs.map)?,
            (Self::OrMultiMap(mine), Self::OrMultiMap(theirs)) => mine.0.join(&theirs.0)?,
            (Self::PnCounterMap(mine), Self::PnCounterMap(theirs)) => mine.0.join(&theirs.0)?,
            (Self::LwwRegister(mine), Self::LwwRegister(theirs)) => {
                mine.merge(theirs);
            }
            (Self::LwwMap(mine), Self::LwwMap(theirs)) => mine.0.join(&theirs.0)?,
            (Self::Flag(mine), Self::Flag(theirs)) => {
                mine.merge(*theirs);
            }
            (Self::Custom(mine), Self::Custom(theirs)) => mine.join(theirs)?,
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
            ) => return Err(MergeError::TypeMismatch { held, found }),
        }
        Ok(())
    }

    /// Refuses a delta from a peer with a stamp more than `skew_ms_max` ahead of this node's clock.
    ///
    /// # Errors
    /// [`FutureStamp`] says by how much.
    pub fn check_stamps(&self, now_ms: i64, skew_ms_max: i64) -> Result<(), FutureStamp> {
        let newest = match self {
            Self::LwwRegister(delta) => delta.get().map(|written| written.stamp),
            Self::LwwMap(delta) => delta.0.part.newest_stamp(),
            Self::OrMap(delta) => delta.map.part.newest_stamp(),
            Self::GCounter(_)
            | Self::PnCounter(_)
            | Self::GSet(_)
            | Self::OrSet(_)
            | Self::OrMultiMap(_)
            | Self::PnCounterMap(_)
            | Self::Flag(_)
            | Self::Custom(_) => None,
        };
        check_stamp(newest, now_ms, skew_ms_max)
    }
}
