//! What a replicated type is, and the list of all: a type is one row here and one [`ReplicatedData`] in a
//! file of its own. From the rows come [`DataValue`](super::DataValue), [`DataDelta`](super::DataDelta),
//! [`DataOp`](super::DataOp), [`DataType`](super::DataType) and the choices between their variants. Never a
//! virtual call: a choice is a `match`. Spec: sharding 1.13.

use core::fmt::Debug;

use super::context::CausalContext;
use super::dotted::DottedValue;
use super::{Applied, MergeError, Minting, OpError};
use crate::ident::UniqueAddress;
use crate::ordered::OrderedSet;

/// A type of value. Names of nodes include [nobody](super::nobody)'s.
pub(super) trait ReplicatedData: Sized {
    /// Its operations.
    type Op;
    /// What they change.
    type Delta: ReplicatedDelta;

    /// Applies an operation of this node.
    fn apply(&mut self, op: &Self::Op, minting: &mut Minting) -> Result<Applied<Self::Delta>, OpError>;

    /// Joins a whole value of the same [`DataType`](super::DataType); whether anything changed.
    fn merge(&mut self, other: &Self) -> Result<bool, MergeError>;

    /// Joins a delta of the same [`DataType`](super::DataType); whether anything changed.
    fn merge_delta(&mut self, delta: &Self::Delta) -> Result<bool, MergeError>;

    /// Moves what a node contributed to nobody's part.
    fn settle(&mut self, _removed: &UniqueAddress) -> Result<(), OpError> {
        Ok(())
    }

    /// Adds the nodes that it mentions.
    fn nodes(&self, _all: &mut OrderedSet<UniqueAddress>) {}

    /// Whether it mentions a node.
    fn mentions(&self, _node: &UniqueAddress) -> bool {
        false
    }

    /// The greatest stamp in it.
    fn newest_stamp(&self) -> Option<i64> {
        None
    }

    /// The dots it has seen, if it has dots.
    fn context(&self) -> Option<&CausalContext> {
        None
    }

    /// Whether deltas are to be joined in the order of their sender and without gaps.
    fn needs_causal_delivery(&self) -> bool {
        self.context().is_some()
    }

    /// How many changes it is, if it is a delta itself.
    fn size(&self) -> usize {
        1
    }
}

/// What operations changed in a value of one type.
pub(super) trait ReplicatedDelta {
    /// How many changes it holds; at least 1.
    fn size(&self) -> usize;

    /// Appends the next delta of the same sender and the same [`DataType`](super::DataType).
    fn join(&mut self, later: &Self) -> Result<(), MergeError>;

    /// The greatest stamp in it.
    fn newest_stamp(&self) -> Option<i64> {
        None
    }

    /// The dots it has seen, if it has dots.
    fn context(&self) -> Option<&CausalContext> {
        None
    }
}

/// A value that is its own delta: the part that changed.
impl<T: ReplicatedData<Delta = T>> ReplicatedDelta for T {
    fn size(&self) -> usize {
        ReplicatedData::size(self)
    }

    fn join(&mut self, later: &Self) -> Result<(), MergeError> {
        self.merge(later).map(drop)
    }

    fn newest_stamp(&self) -> Option<i64> {
        ReplicatedData::newest_stamp(self)
    }
}

/// A value under a key of a map.
impl<T: ReplicatedData + Clone + Debug + PartialEq> DottedValue for T {
    fn join(&mut self, other: &Self) -> bool {
        self.merge(other).unwrap_or(false)
    }

    fn mentions(&self, node: &UniqueAddress) -> bool {
        ReplicatedData::mentions(self, node)
    }

    fn nodes(&self, all: &mut OrderedSet<UniqueAddress>) {
        ReplicatedData::nodes(self, all);
    }

    fn settle(&mut self, removed: &UniqueAddress) -> Result<(), OpError> {
        ReplicatedData::settle(self, removed)
    }

    fn newest_stamp(&self) -> Option<i64> {
        ReplicatedData::newest_stamp(self)
    }
}

/// Hands all types to the macro `$then`, behind its arguments. A row: the type, which also names the
/// variants; its operations; its deltas; an empty value, if there is one without a definition. In
/// parentheses, where a type is for values of several types, the field of value and delta that says for
/// which.
macro_rules! types {
    ($then:ident $($arguments:tt)*) => {
        $then! {
            ($($arguments)*)
            /// A counter that only grows.
            GCounter, GCounterOp, GCounter, Some(GCounter::new());
            /// A counter that goes up and down.
            PnCounter, PnCounterOp, PnCounter, Some(PnCounter::new());
            /// A set that only grows.
            GSet, GSetOp, GSet, Some(GSet::new());
            /// A set with removal.
            OrSet, OrSetOp, OrSetDelta, Some(OrSet::new());
            /// A map of values that are merged, all of one type.
            OrMap(values: ValueType), OrMapOp, OrMapDelta, Some(OrMap::new(values));
            /// A map of sets.
            OrMultiMap, OrMultiMapOp, OrMultiMapDelta, Some(OrMultiMap::new());
            /// A map of counters.
            PnCounterMap, PnCounterMapOp, PnCounterMapDelta, Some(PnCounterMap::new());
            /// A register whose last write wins.
            LwwRegister, LwwRegisterOp, LwwRegister, Some(LwwRegister::new());
            /// A map of such registers.
            LwwMap, LwwMapOp, LwwMapDelta, Some(LwwMap::new());
            /// A flag that is only switched on.
            Flag, FlagOp, Flag, Some(Flag::new());
            /// A user's own type; which one, its name says.
            Custom, Element, CustomDelta, None;
        }
    };
}

/// Does the same to whatever variant of `Self` it is: `by_type!(self, held => held.size())`.
macro_rules! by_type {
    (
        (($value:expr, $held:ident => $then:expr))
        $($(#[$docs:meta])* $name:ident $(($of:ident: $is:ident))?, $op:ident, $delta:ident, $empty:expr;)+
    ) => {
        match $value {
            $(Self::$name($held) => $then,)+
        }
    };
    ($value:expr, $held:ident => $then:expr) => {
        types! { by_type ($value, $held => $then) }
    };
}

/// Does the same to a variant of `Self` and the same variant of another enum, or refuses if they differ or
/// may not meet:
/// `by_pair!((self, Delta: delta) if may_meet, held, other => held.merge(other), else refuse())`.
macro_rules! by_pair {
    (
        ((
            $value:expr, $other:ident: $beside:expr, $may:expr, $held:ident, $theirs:ident => $then:expr, $refuse:expr
        ))
        $($(#[$docs:meta])* $name:ident $(($of:ident: $is:ident))?, $op:ident, $delta:ident, $empty:expr;)+
    ) => {
        match ($value, $beside) {
            $((Self::$name($held), $other::$name($theirs)) if $may => $then,)+
            ($(Self::$name(_))|+, _) => $refuse,
        }
    };
    (
        ($value:expr, $other:ident: $beside:expr) if $may:expr,
        $held:ident, $theirs:ident => $then:expr, else $refuse:expr
    ) => {
        types! { by_pair ($value, $other: $beside, $may, $held, $theirs => $then, $refuse) }
    };
}

/// A type made of dots behind one field: only its operations are its own, a function `change`. The last
/// argument, where values may have stamps, names the function of [`Dotted`](super::dotted::Dotted) that finds
/// them.
macro_rules! of_dots {
    ($name:ident, $op:ident, $delta:ident, $dots:tt $(, $stamp:ident)?) => {
        impl super::replicated::ReplicatedData for $name {
            type Op = $op;
            type Delta = $delta;

            fn apply(&mut self, op: &$op, minting: &mut Minting) -> Result<super::Applied<$delta>, OpError> {
                self.change(op, minting).map(super::Applied::of)
            }

            fn merge(&mut self, other: &Self) -> Result<bool, MergeError> {
                self.$dots.merge(&other.$dots)
            }

            fn merge_delta(&mut self, delta: &$delta) -> Result<bool, MergeError> {
                self.$dots.merge_delta(&delta.$dots)
            }

            fn settle(&mut self, removed: &crate::ident::UniqueAddress) -> Result<(), OpError> {
                self.$dots.settle(removed)
            }

            fn nodes(&self, all: &mut crate::ordered::OrderedSet<crate::ident::UniqueAddress>) {
                self.$dots.nodes(all);
            }

            fn mentions(&self, node: &crate::ident::UniqueAddress) -> bool {
                self.$dots.mentions(node)
            }

            $(fn newest_stamp(&self) -> Option<i64> {
                self.$dots.$stamp()
            })?

            fn context(&self) -> Option<&super::context::CausalContext> {
                Some(&self.$dots.context)
            }
        }

        impl super::replicated::ReplicatedDelta for $delta {
            fn size(&self) -> usize {
                self.$dots.size()
            }

            fn join(&mut self, later: &Self) -> Result<(), MergeError> {
                self.$dots.join(&later.$dots)
            }

            $(fn newest_stamp(&self) -> Option<i64> {
                self.$dots.part.$stamp()
            })?

            fn context(&self) -> Option<&super::context::CausalContext> {
                Some(&self.$dots.part.context)
            }
        }
    };
}
