//! What is said about ranges that takes more bytes than a statement: the table, and what a newcomer gets.
//! Types only. Spec: sharding 10.19 b.

use alloc::vec::Vec;

use crate::ident::UniqueAddress;
use crate::journal::state::StoreId;
use crate::kv::state::configuration::Configuration;
use crate::kv::state::part::RangePart;
use crate::kv::state::table::{RangeId, TableChange};
use crate::store::Bytes;
use crate::token::Token;

/// What takes more bytes than a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RangeContent {
    /// The coordinator to a member that looks.
    Table {
        /// Of this coordinator.
        term: Token,
        /// Where the stores are.
        stores: Vec<StoreAt>,
        /// Who owns what.
        table: TableChange,
    },
    /// A newcomer to an owner: what it holds.
    Pull {
        /// Which store is meant.
        store: StoreId,
        /// Of which range.
        range: RangeId,
        /// The configuration, which it adopts first.
        configuration: Configuration,
        /// Behind this key; `None`: from the first one on.
        after: Option<Bytes>,
    },
    /// An owner to the newcomer: this.
    Part {
        /// Which store.
        store: StoreId,
        /// Of which range.
        range: RangeId,
        /// Its epoch now.
        epoch: u64,
        /// As in the question.
        after: Option<Bytes>,
        /// The part.
        part: RangePart,
    },
}

/// Where a store is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreAt {
    /// Which store.
    pub store: StoreId,
    /// Whose.
    pub node: UniqueAddress,
}
