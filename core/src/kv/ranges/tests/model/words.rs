//! What the model consists of: its bugs, what a store holds of a key, who says what to whom.

use alloc::vec::Vec;

use crate::journal::state::StoreId;
use crate::kv::moving::RangePart;
use crate::kv::state::configuration::Configuration;
use crate::store::Bytes;

pub(super) const KEYS: usize = 2;
/// Steps until a message that was not delivered is lost.
pub(super) const MESSAGE_LIFE: u64 = 40;
/// Steps after which a request is given up.
pub(super) const REQUEST_LIFE: u64 = 50;
/// Steps that all copies have been the same tombstone before it is reaped: more than both lives together.
pub(super) const GRACE: u64 = 95;

/// A bug that is built in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bug {
    OneSideOfJoint,
    OwnersAsNodes,
    AcknowledgementsOfBothEpochs,
    MergeBeforeRefusal,
    LeftoversKept,
    PromisesLeftBehind,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cell {
    /// 0: none.
    pub(super) version: u64,
    pub(super) is_deleted: bool,
    pub(super) token: u64,
}

impl Cell {
    pub(super) fn merge(&mut self, other: Self) {
        if other.version > self.version {
            (self.version, self.is_deleted) = (other.version, other.is_deleted);
        }
        self.token = self.token.max(other.token);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Store(StoreId),
    Broker,
    Coordinator,
}

#[derive(Clone, Debug)]
pub(super) enum Body {
    /// Merge this, if anything, and say what there is.
    Request {
        id: u64,
        key: usize,
        cell: Cell,
        configuration: Configuration,
    },
    Answer {
        id: u64,
        store: StoreId,
        epoch: u64,
        cell: Cell,
    },
    Newer {
        id: u64,
        configuration: Configuration,
    },
    Tell {
        term: u64,
        configuration: Configuration,
    },
    Adopted {
        store: StoreId,
        epoch: u64,
        merged: Vec<StoreId>,
    },
    AskFound {
        term: u64,
    },
    Found {
        term: u64,
        store: StoreId,
        held: Option<Configuration>,
    },
    Refuse {
        newcomer: StoreId,
        configuration: Configuration,
    },
    Refused {
        owner: StoreId,
        epoch: u64,
    },
    Give {
        newcomer: StoreId,
        configuration: Configuration,
        after: Option<Bytes>,
    },
    Part {
        owner: StoreId,
        epoch: u64,
        after: Option<Bytes>,
        part: RangePart,
    },
    Reap {
        key: usize,
        epoch: u64,
        version: u64,
    },
}

#[derive(Clone, Debug)]
pub(super) struct Envelope {
    pub(super) to: Place,
    pub(super) sent: u64,
    pub(super) body: Body,
}
