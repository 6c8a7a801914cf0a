//! What operations changed, small enough to be sent to everybody. Joining the deltas of a node, in their
//! order, gives what merging its whole value gives. Never names a sequence number: the replicator counts.
//! Spec: sharding 1.12, 10.6, 10.21.

use super::data::{FutureStamp, check_stamp};
use super::replicated::ReplicatedDelta;
use super::{
    CustomDelta, DataType, Flag, GCounter, GSet, LwwMapDelta, LwwRegister, MergeError, OrMapDelta,
    OrMultiMapDelta, OrSetDelta, PnCounter, PnCounterMapDelta,
};

macro_rules! delta {
    (
        ()
        $($(#[$docs:meta])* $name:ident $(($of:ident: $is:ident))?, $op:ident, $delta:ident, $empty:expr;)+
    ) => {
        /// A change of a value, by type.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum DataDelta {
            $(
                #[doc = concat!("Of a [`", stringify!($name), "`](super::", stringify!($name), ").")]
                $name($delta),
            )+
        }

        impl DataDelta {
            /// The type of value that it changes.
            #[must_use]
            pub const fn data_type(&self) -> DataType {
                match self {
                    $(Self::$name($delta { $($of,)? .. }) => DataType::$name $((*$of))?,)+
                }
            }
        }
    };
}

types!(delta);

impl DataDelta {
    /// How many changes it holds, for the limit on what is joined; at least 1.
    #[must_use]
    pub fn size(&self) -> usize {
        by_type!(self, delta => ReplicatedDelta::size(delta))
    }

    /// Appends the next delta of the same sender, so that both travel as one.
    ///
    /// # Errors
    /// [`MergeError`] if they are of different types; the delta is as it was.
    pub fn join(&mut self, later: &Self) -> Result<(), MergeError> {
        let (held, found) = (self.data_type(), later.data_type());
        by_pair! {
            (self, Self: later) if held == found, mine, theirs => ReplicatedDelta::join(mine, theirs),
            else Err(MergeError::TypeMismatch { held, found })
        }
    }

    /// Refuses a delta from a peer with a stamp more than `skew_ms_max` ahead of this node's clock.
    ///
    /// # Errors
    /// [`FutureStamp`] says by how much.
    pub fn check_stamps(&self, now_ms: i64, skew_ms_max: i64) -> Result<(), FutureStamp> {
        let newest = by_type!(self, delta => ReplicatedDelta::newest_stamp(delta));
        check_stamp(newest, now_ms, skew_ms_max)
    }
}
