//! What the coordinator of ranges is told, what it asks for, and what it says. Types only.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use crate::journal::state::StoreId;
use crate::kv::state::configuration::Configuration;
use crate::kv::state::table::{RangeId, RangeLevels, TableChange};
use crate::planner::{ChangeReason, MoveError, NodeStanding};

/// What the coordinator of a bucket has to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeSettings {
    /// How many ranges (1 to [`RANGES_MAX`](crate::kv::state::table::RANGES_MAX)).
    pub ranges: u16,
    /// Copies, and the least levels.
    pub levels: RangeLevels,
    /// Whether what a store holds outlives its node. If not, a store that is not told of is gone.
    pub is_durable: bool,
    /// Whether voters keep the table. If not, it is found again from what stores have adopted.
    pub is_kept: bool,
    /// How long an owner that is away keeps its ranges; counts only with stores that outlive their nodes.
    pub away_max: Duration,
    /// After which time a store that owes an answer is told again.
    pub tell_again: Duration,
    /// How long a move may take before it is undone, and its newcomer is not chosen for the range again.
    pub move_timeout: Duration,
}

/// A store of a member with the bucket's role. One of a removed member counts, closed, until the margin after
/// the removal has passed: until then it may still serve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeStore {
    /// Which.
    pub store: StoreId,
    /// Whether it may be given something.
    pub standing: NodeStanding,
    /// Where it stands: [`Roles::zone`](crate::ident::Roles::zone) of its member.
    pub zone: Option<Arc<str>>,
}

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

/// What the coordinator asks for and says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RangeEffect {
    /// Have this kept; [`on_kept`](super::RangeCoordinator::on_kept) says that it is. One at a time.
    Keep(TableChange),
    /// Ask a store for all configurations that it knows of.
    Ask {
        /// Which store.
        store: StoreId,
    },
    /// Tell a store who owns ranges. It adopts what is newer to it and says so; a newcomer says with that
    /// whom it has merged.
    Tell {
        /// Which store.
        store: StoreId,
        /// The ranges.
        ranges: Vec<(RangeId, Configuration)>,
    },
    /// The owners of a range are to compare what they hold.
    Repair {
        /// Which range.
        range: RangeId,
    },
    /// A store has adopted what this coordinator has not decided: its table is none. A new one begins anew.
    Outdone,
    /// Operators hear of it.
    Notify(RangeEvent),
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
