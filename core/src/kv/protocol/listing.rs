//! What nodes say to each other about which keys there are. Types only. Spec: sharding 5.6.

use crate::journal::state::StoreId;
use crate::kv::state::configuration::Configuration;
use crate::kv::state::exchange::KvRefusal;
use crate::kv::state::listed::{KeysWanted, ListedPart};
use crate::kv::state::table::RangeId;

/// A question to an owner of a range: which keys does it hold?
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListAsk {
    /// Which store is meant.
    pub store: StoreId,
    /// The range.
    pub range: RangeId,
    /// Its owners, as far as who asks knows.
    pub configuration: Configuration,
    /// The asking node's number of the listing; the answer carries it.
    pub listing: u64,
    /// Which keys.
    pub wanted: KeysWanted,
}

/// An owner's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListAnswer {
    /// Which store answers.
    pub store: StoreId,
    /// The asking node's number of the listing.
    pub listing: u64,
    /// Of which range.
    pub range: RangeId,
    /// The epoch under which it was asked.
    pub epoch: u64,
    /// What is answered.
    pub said: OwnerListed,
}

impl ListAnswer {
    pub(super) fn bytes(&self) -> usize {
        match &self.said {
            OwnerListed::Part(part) => part.bytes(),
            OwnerListed::Refused(_) => 0,
        }
    }
}

/// What an owner says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnerListed {
    /// It holds these.
    Part(ListedPart),
    /// It may not say.
    Refused(KvRefusal),
}
