//! What can be done to a value, as data: no closures, so that the core stays deterministic. Never changes
//! anything itself. Spec: sharding 1.13.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::{CustomError, DataType, DataValue};

/// An element of a set, a key of a map, or a user's value: bytes that the driver has serialised. Compared
/// byte by byte.
pub type Element = Arc<[u8]>;

/// Longest element of a set and longest key of a map, in bytes. Two bytes hold the length, and what is longer
/// is no key.
pub const ELEMENT_BYTES_MAX: usize = u16::MAX as usize;

/// How a last-writer-wins stamp is made from the clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LwwClock {
    /// `max(now, previous + 1)`: the last write wins.
    #[default]
    Forward,
    /// `min(-now, previous - 1)`: the first write wins.
    Reverse,
}

impl LwwClock {
    /// The stamp of a write now, over a value with the stamp `previous` (0 if there is none).
    #[must_use]
    pub fn stamp(self, now_ms: i64, previous: i64) -> i64 {
        match self {
            Self::Forward => now_ms.max(previous.saturating_add(1)),
            Self::Reverse => now_ms.saturating_neg().min(previous.saturating_sub(1)),
        }
    }
}

/// Operations on a [`GCounter`](super::GCounter).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GCounterOp {
    /// Adds this much; there is no negative amount.
    Increment(u64),
}

/// Operations on a [`PnCounter`](super::PnCounter).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PnCounterOp {
    /// Adds this much.
    Increment(u64),
    /// Takes this much away.
    Decrement(u64),
}

/// Operations on a [`GSet`](super::GSet).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GSetOp {
    /// Adds an element, for good.
    Add(Element),
}

/// Operations on an [`OrSet`](super::OrSet).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OrSetOp {
    /// Adds an element; wins over a removal that has not seen it.
    Add(Element),
    /// Removes what was seen of an element.
    Remove(Element),
    /// Several at once, as one change: removals first.
    Change {
        /// Elements to add.
        add: Vec<Element>,
        /// Elements to remove.
        remove: Vec<Element>,
    },
    /// Removes everything that was seen.
    Clear,
}

/// Operations on a [`Flag`](super::Flag).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FlagOp {
    /// Switches it on, for good.
    SwitchOn,
}

/// Operations on a [`LwwRegister`](super::LwwRegister).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LwwRegisterOp {
    /// Writes a value.
    Set {
        /// The value.
        value: Element,
        /// Whether the last or the first write wins. All writers of a key must agree.
        clock: LwwClock,
    },
}

/// Operations on a [`LwwMap`](super::LwwMap).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LwwMapOp {
    /// Writes the value of a key.
    Put {
        /// The key.
        key: Element,
        /// The value.
        value: Element,
        /// Whether the last or the first write wins. All writers of a key must agree.
        clock: LwwClock,
    },
    /// Removes what was seen under a key.
    Remove(Element),
    /// Removes everything that was seen.
    Clear,
}

/// Operations on a [`PnCounterMap`](super::PnCounterMap).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PnCounterMapOp {
    /// Adds to the counter of a key.
    Increment {
        /// The key.
        key: Element,
        /// How much.
        by: u64,
    },
    /// Takes away from the counter of a key.
    Decrement {
        /// The key.
        key: Element,
        /// How much.
        by: u64,
    },
    /// Removes what was seen of a counter.
    Remove(Element),
    /// Removes everything that was seen.
    Clear,
}

/// Operations on an [`OrMultiMap`](super::OrMultiMap).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OrMultiMapOp {
    /// Adds a value under a key.
    AddBinding {
        /// The key.
        key: Element,
        /// The value.
        value: Element,
    },
    /// Removes what was seen of a value under a key; a key without values is gone.
    RemoveBinding {
        /// The key.
        key: Element,
        /// The value.
        value: Element,
    },
    /// Removes one value and adds another; nothing if both are the same.
    ReplaceBinding {
        /// The key.
        key: Element,
        /// The value to remove, if it is there.
        old: Element,
        /// The value to add.
        new: Element,
    },
    /// Makes these the values of a key: what was seen and is not among them is removed.
    Put {
        /// The key.
        key: Element,
        /// Its values; none removes the key.
        values: Vec<Element>,
    },
    /// Removes what was seen under a key.
    Remove(Element),
    /// Removes everything that was seen.
    Clear,
}

/// Operations on an [`OrMap`](super::OrMap).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OrMapOp {
    /// Changes the value of a key, an empty one if there is none.
    Update {
        /// The key.
        key: Element,
        /// What to do to the value; of the map's value type.
        op: Box<DataOp>,
    },
    /// Replaces the value of a key. Refused over an existing set with removal, whose removals it would undo.
    Put {
        /// The key.
        key: Element,
        /// The value; of the map's value type.
        value: Box<DataValue>,
    },
    /// Removes what was seen under a key.
    Remove(Element),
    /// Removes everything that was seen.
    Clear,
}

macro_rules! op {
    (
        ()
        $($(#[$docs:meta])* $name:ident $(($of:ident: $is:ident))?, $op:ident, $delta:ident, $empty:expr;)+
    ) => {
        /// One operation on one value, by type.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum DataOp {
            $(
                #[doc = concat!("On a [`", stringify!($name), "`](super::", stringify!($name), ").")]
                $name($op),
            )+
        }

        impl DataOp {
            /// The type it belongs to, as [`DataType`] calls it.
            pub(super) const fn type_name(&self) -> &'static str {
                match self {
                    $(Self::$name(_) => stringify!($name),)+
                }
            }

            /// The type of value that the operation belongs to; of a map's values, what an update or put
            /// says.
            #[must_use]
            pub const fn is_for(&self, data_type: DataType) -> bool {
                match self {
                    $(Self::$name(_) => matches!(data_type, DataType::$name { .. }),)+
                }
            }
        }
    };
}

types!(op);

/// Why an operation was refused. The value is as it was.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpError {
    /// The operation belongs to another type.
    #[error("the value is of type {found:?}, but the operation is for type {operation}")]
    WrongType {
        /// The type of the value.
        found: DataType,
        /// The type that the operation belongs to; of maps without that of their values.
        operation: &'static str,
    },
    /// A value of another type than the map's.
    #[error("the map holds {expected:?}, not {found:?}")]
    WrongValueType {
        /// What the map holds.
        expected: DataType,
        /// What was to be put.
        found: DataType,
    },
    /// A put over an existing set with removal; remove the key first, or update the set.
    #[error("a set with removal cannot be replaced by a put")]
    PutOverSet,
    /// An element or key above [`ELEMENT_BYTES_MAX`].
    #[error("the element has {bytes} bytes, at most {ELEMENT_BYTES_MAX} are allowed")]
    ElementTooLong {
        /// Its length.
        bytes: usize,
    },
    /// The value names dots of this node that it never minted: somebody forged it.
    #[error("the value names dots of this node that were never minted")]
    DotsExhausted,
    /// The user's own type refused.
    #[error(transparent)]
    Custom(#[from] CustomError),
}

/// Refuses an element that is too long to be written.
pub(super) fn check_element(element: &Element) -> Result<(), OpError> {
    if element.len() > ELEMENT_BYTES_MAX {
        return Err(OpError::ElementTooLong { bytes: element.len() });
    }
    Ok(())
}
