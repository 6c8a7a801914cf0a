//! What operators command about ranges, and what they hear of them. Types only. Spec: sharding 10.19 b.

use crate::journal::state::StoreId;
use crate::kv::state::table::RangeId;
use crate::planner::{ChangeReason, MoveError};

/// What an operator commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeCommand {
    /// One owner of a range is replaced by another, when the planner's limits allow it.
    Move {
        /// Which range.
        range: RangeId,
        /// Who owns it.
        from: StoreId,
        /// Who is to own it.
        to: StoreId,
    },
    /// The owners of a range compare what they hold.
    Repair {
        /// Which range.
        range: RangeId,
    },
    /// A store that is away will never come back with what it held: its copies are made anew at once.
    Replace {
        /// Which store.
        lost: StoreId,
    },
}

/// Why a command is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RangeCommandError {
    /// Nothing is known or decided here yet, or any more.
    #[error("the ranges have no coordinator here")]
    NotCoordinating,
    /// The range has no owners.
    #[error("the range has no owners")]
    NoRange,
    /// The move cannot be done.
    #[error(transparent)]
    Move(#[from] MoveError),
    /// As many moves wait as may.
    #[error("too many moves of ranges wait")]
    TooMany,
    /// No range names the store.
    #[error("no range names the store")]
    NoOwner,
    /// The store is there.
    #[error("the store is not away")]
    NotAway,
}

/// What operators hear.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RangeEvent {
    /// Ranges were given to owners for the first time.
    Given {
        /// How many.
        ranges: usize,
    },
    /// An owner is being replaced.
    MoveBegun {
        /// Of which range.
        range: RangeId,
        /// Who goes.
        from: StoreId,
        /// Who comes.
        to: StoreId,
        /// Why.
        reason: ChangeReason,
    },
    /// It has been replaced.
    MoveEnded {
        /// Of which range.
        range: RangeId,
    },
    /// It stays an owner.
    MoveUndone {
        /// Of which range.
        range: RangeId,
        /// Why.
        reason: UndoReason,
    },
    /// So many owners of a range are gone for good that acknowledged writes may be lost.
    CopiesLost {
        /// Which range.
        range: RangeId,
    },
    /// A commanded move cannot be done any more.
    MoveRefused {
        /// Of which range.
        range: RangeId,
        /// Why.
        error: MoveError,
    },
}

/// Why a move was undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UndoReason {
    /// The newcomer is gone, away or leaves.
    NewcomerGone,
    /// It took too long.
    TooLong,
}
