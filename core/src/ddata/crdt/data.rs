//! A value of any type, and what all types can do: be changed, be merged, be settled. Never knows keys, peers
//! or bytes. Spec: sharding 1.13, 10.6, 10.8, 10.21.

use alloc::string::String;
use alloc::vec::Vec;

use super::minting::is_nobody;
use super::op::DataOp;
use super::replicated::ReplicatedData;
use super::{
    Custom, CustomError, DataDelta, Flag, GCounter, GSet, LwwMap, LwwRegister, Minting, OpError, OrMap,
    OrMultiMap, OrSet, PnCounter, PnCounterMap,
};
use crate::ident::UniqueAddress;
use crate::ordered::OrderedSet;

macro_rules! value_types {
    ($($name:ident)+) => {
        /// The types that a map can hold. No maps: nothing on the wire is nested without a bound.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum ValueType {
            $(
                #[doc = concat!("[`", stringify!($name), "`].")]
                $name,
            )+
        }

        impl ValueType {
            /// Every type a map can hold.
            pub const ALL: [Self; [$(stringify!($name)),+].len()] = [$(Self::$name),+];
        }

        impl From<ValueType> for DataType {
            fn from(value: ValueType) -> Self {
                match value {
                    $(ValueType::$name => Self::$name,)+
                }
            }
        }

        impl DataValue {
            /// An empty value that a map can hold.
            pub(super) fn of_value(value: ValueType) -> Self {
                match value {
                    $(ValueType::$name => Self::$name($name::new()),)+
                }
            }
        }
    };
}

value_types!(GCounter PnCounter GSet OrSet LwwRegister Flag);

macro_rules! data {
    (
        ()
        $($(#[$docs:meta])* $name:ident $(($of:ident: $is:ident))?, $op:ident, $delta:ident, $empty:expr;)+
    ) => {
        /// The type of a value.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum DataType {
            $($(#[$docs])* $name $(($is))?,)+
        }

        /// A value of any type. Equal values are written in equal bytes.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum DataValue {
            $($(#[$docs])* $name($name),)+
        }

        impl DataValue {
            /// An empty value of this type. A user's type has no empty value without its definition: for
            /// [`DataType::Custom`] use [`Custom::new`]; here it is `None`.
            #[must_use]
            pub fn empty(data_type: DataType) -> Option<Self> {
                match data_type {
                    $(DataType::$name $(($of))? => $empty.map(Self::$name),)+
                }
            }

            /// Applies an operation of this node. Cost: the change, not the value; [`DataOp::OrMap`] also
            /// copies the value of its key.
            ///
            /// # Errors
            /// [`OpError`]; the value is as it was.
            pub fn apply(&mut self, op: &DataOp, minting: &mut Minting) -> Result<Applied, OpError> {
                let found = self.data_type();
                match (self, op) {
                    $((Self::$name(held), DataOp::$name(op)) => {
                        Ok(held.apply(op, minting)?.map(DataDelta::$name))
                    })+
                    ($(Self::$name(_))|+, _) => {
                        let operation = op.type_name();
                        Err(OpError::WrongType { found, operation })
                    }
                }
            }

            /// The type of the value.
            #[must_use]
            pub const fn data_type(&self) -> DataType {
                match self {
                    $(Self::$name($name { $($of,)? .. }) => DataType::$name $((*$of))?,)+
                }
            }
        }
    };
}

types!(data);

/// What an operation did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Applied<D = DataDelta> {
    /// Nothing: the value already was as the operation wants it.
    Unchanged,
    /// It changed the value, and this is what replicas need to hear.
    Delta(D),
    /// It changed the value, and replicas need the whole of it: a user's type without a delta.
    Whole,
}

impl<D> Applied<D> {
    /// The delta, if there is one.
    #[must_use]
    pub fn into_delta(self) -> Option<D> {
        match self {
            Self::Unchanged | Self::Whole => None,
            Self::Delta(delta) => Some(delta),
        }
    }

    pub(super) fn of(delta: Option<D>) -> Self {
        delta.map_or(Self::Unchanged, Self::Delta)
    }

    fn map<E>(self, of: impl FnOnce(D) -> E) -> Applied<E> {
        match self {
            Self::Unchanged => Applied::Unchanged,
            Self::Delta(delta) => Applied::Delta(of(delta)),
            Self::Whole => Applied::Whole,
        }
    }
}

/// What a merge did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MergeOutcome {
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
    /// The cloud of unseen dots would exceed [`CLOUD_MAX`](super::CLOUD_MAX): refuse deltas of this sender
    /// until its full state came.
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
#[error("the time stamp is {ahead_ms} ms in the future")]
pub struct FutureStamp {
    /// How far it is ahead of this node's clock.
    pub ahead_ms: i64,
}

/// Refuses a stamp that is further ahead than clocks may differ: it would win over every honest write until
/// then.
pub(super) fn check_stamp(newest: Option<i64>, now_ms: i64, skew_ms_max: i64) -> Result<(), FutureStamp> {
    let ahead_ms = newest.map_or(0, |stamp| stamp.saturating_sub(now_ms));
    if ahead_ms > skew_ms_max {
        return Err(FutureStamp { ahead_ms });
    }
    Ok(())
}

impl DataValue {
    /// Joins another replica's whole value. Cost: one walk of both.
    ///
    /// # Errors
    /// [`MergeError`]; the value is as it was.
    pub fn merge(&mut self, other: &Self) -> Result<MergeOutcome, MergeError> {
        let (held, found) = (self.data_type(), other.data_type());
        let changed = by_pair! {
            (self, Self: other) if held == found, mine, theirs => mine.merge(theirs)?,
            else return Err(MergeError::TypeMismatch { held, found })
        };
        Ok(MergeOutcome { changed })
    }

    /// Joins a delta. Cost: the delta, not the value; the delta of a clear also walks the value.
    ///
    /// # Errors
    /// [`MergeError`]; the value is as it was.
    pub fn merge_delta(&mut self, delta: &DataDelta) -> Result<MergeOutcome, MergeError> {
        let (held, found) = (self.data_type(), delta.data_type());
        let changed = by_pair! {
            (self, DataDelta: delta) if held == found, mine, theirs => mine.merge_delta(theirs)?,
            else return Err(MergeError::TypeMismatch { held, found })
        };
        Ok(MergeOutcome { changed })
    }

    /// Moves what `removed` contributed to [nobody](super::nobody), once nobody can come with more of it. The
    /// value stays what it was and no longer mentions `removed`. Replicas that know the same of the node come
    /// to the same, each on its own. Cost: one walk.
    ///
    /// # Errors
    /// [`OpError`]: the value was forged, or a user's type refused. What could be moved was.
    pub fn settle(&mut self, removed: &UniqueAddress) -> Result<(), OpError> {
        if is_nobody(removed) {
            return Ok(());
        }
        by_type!(self, held => ReplicatedData::settle(held, removed))
    }

    /// The nodes that this value mentions, in order, without [nobody](super::nobody).
    #[must_use]
    pub fn nodes(&self) -> Vec<UniqueAddress> {
        let mut all = OrderedSet::new();
        by_type!(self, held => ReplicatedData::nodes(held, &mut all));
        all.into_iter().filter(|node| !is_nobody(node)).collect()
    }

    /// Whether this value mentions the node.
    #[must_use]
    pub fn mentions(&self, node: &UniqueAddress) -> bool {
        by_type!(self, held => ReplicatedData::mentions(held, node))
    }
}
