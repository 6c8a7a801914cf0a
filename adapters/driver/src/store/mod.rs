//! The node's store: what a machine of the core asked for becomes durable here (`quorate_core::store`). A
//! [`Store`] is asked by a thread of its own, never by the loop. Decides nothing about what is stored. Spec:
//! sharding 10.7, 10.10; reliability I-80 to I-84.

mod access;
mod clerk;
mod memory;
mod removal;
mod shared_memory;

use std::fmt::Debug;
use std::io;

pub(crate) use access::StoreAccess;
pub(crate) use clerk::Stores;
pub use memory::{MemoryStore, new_store_id};
pub use removal::{RemovalError, lower_terms, remove_coordinator_state, remove_remembered_entities};
pub use shared_memory::SharedMemoryStore;

pub use quorate_core::effect::JournalCommandError;
pub use quorate_core::journal::state::{WriterEnd, WriterError};
pub use quorate_core::store::{
    Bytes, Change, LogName, LogState, Outcome, OwnedLog, Record, Sequence, Snapshot, Space, StoreAnswer,
    StoreError, StoreIdentity, StoreOrder, StoreReport, StoreRequest, layout, limits, rules,
};

/// Keeps what must survive the process. Given to a node with [`crate::ClusterBuilder::store`].
///
/// A store **blocks**: embedded engines and the system's fsync do, so that an async trait would only hide a
/// thread, and a client that is async is waited for on this very thread with an executor of its own. The node
/// gives its store one thread and hands it everything that waits as one group, so that many orders share one
/// fsync or one transaction.
///
/// What the orders mean is `quorate_core::store::rules`; an engine with transactions over an ordered map
/// calls `rules::obey` for each order and commits. The tests in `conformance` (feature `conformance`,
/// `store_conformance!`) say what else a store must do.
pub trait Store: Debug + Send + 'static {
    /// Opens the store and verifies it, or does so again after it failed. Counts one more life durably before
    /// it returns. Called before anything else, and after each [`StoreFault::Unavailable`] and
    /// [`StoreFault::Failed`].
    ///
    /// # Errors
    /// It cannot be opened now. It is tried again, less and less often.
    fn open(&mut self) -> Result<StoreIdentity, StoreFault>;

    /// As [`open`](Self::open), for a tool instead of a node: refuses while a node uses the store, and does
    /// nothing to that node. (Default: `open`, which suits a store that one process has at a time, as a
    /// locked file.)
    ///
    /// # Errors
    /// A node uses it, or it cannot be opened.
    fn open_unused(&mut self) -> Result<StoreIdentity, StoreFault> {
        self.open()
    }

    /// Does the orders, in order, and returns once **all of it is durable**: one outcome for each. An order
    /// that is refused or beyond a limit has its error as outcome, changes nothing and does not keep the
    /// others from being done.
    ///
    /// # Errors
    /// Nothing of the group counts as done: see [`StoreFault`].
    fn commit(&mut self, orders: &[(Space, &StoreOrder)]) -> Result<Vec<Outcome>, StoreFault>;

    /// Who finds here what was appended to a log (default: this node alone). Durable entities move between
    /// nodes and their logs with them, so their kinds want [`StoreScope::Shared`]. Asked once, before the
    /// store is opened.
    fn scope(&self) -> StoreScope {
        StoreScope::NodeLocal
    }
}

/// Which nodes can read a store's logs. See [`Store::scope`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreScope {
    /// The node that appended it: a file, for instance.
    NodeLocal,
    /// Every node of the cluster: a database, for instance. A log follows its token from node to node; keys
    /// are each node's own all the same.
    Shared,
}

/// Why a store could not do a group of orders.
#[derive(Debug, thiserror::Error)]
pub enum StoreFault {
    /// There is no room. Nothing of the group is there, the store stays open, and what is in it can be read.
    #[error("no room: {0}")]
    Full(io::Error),
    /// It cannot be asked. Nothing of the group is there.
    #[error("unavailable: {0}")]
    Unavailable(io::Error),
    /// It failed while the group was being made durable. Each order of it is there whole or not at all, and
    /// nobody knows.
    #[error("failed: {0}")]
    Failed(io::Error),
}
