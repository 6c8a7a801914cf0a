//! What the coordinator of ranges is told, and what it asks for. Types only.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use crate::journal::state::StoreId;
pub use crate::kv::protocol::ranges::{RangeCommand, RangeCommandError, RangeEvent, UndoReason};
use crate::kv::state::configuration::Configuration;
use crate::kv::state::table::{RangeId, RangeLevels, TableChange};
use crate::planner::NodeStanding;
use crate::token::Token;

/// What the coordinator of a bucket has to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeSettings {
    /// How many ranges (1 to [`RANGES_MAX`](crate::kv::state::table::RANGES_MAX)).
    pub ranges: u16,
    /// Copies, and the least levels.
    pub levels: RangeLevels,
    /// The term of this coordinator: no other one has it.
    pub term: Token,
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
