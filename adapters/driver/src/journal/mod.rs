//! The logs of entities and of queues, each written by one owner at a time, which takes it over with a token
//! before it reads anything. A journal does each thing once and says what became of it; what follows from
//! that its owner decides. Page: `docs/durable.md`. Spec: sharding 10.7, 10.10, 10.15.
//!
//! | part | decides |
//! |---|---|
//! | `keeper` | who keeps the logs of a kind: the node's store, a majority of the nodes' stores, or a bucket |
//! | `atomic`, `quorum`, `bucket` | in which order a log is taken over and written: the token first; each append with token and expected sequence |
//! | `name` | how a log is called |

mod atomic;
mod bucket;
mod keeper;
mod name;
mod quorum;

use std::future::Future;

pub(crate) use quorate_core::durable::RECOVERY_PAGE_BYTES;
use quorate_core::store::{Bytes, LogState, Record, Sequence, Snapshot, StoreError};

pub(crate) use keeper::{Keeper, KeptJournal};
pub(crate) use name::log_name;
#[cfg(test)]
pub(crate) use quorum::QuorumJournal;

/// What an append is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AppendPurpose {
    /// What somebody wants to be kept.
    Keep,
    /// What makes the log shorter once it is there: a full log has some room for it.
    Upkeep,
}

/// A log that one entity reads and writes. What is written is fenced: once another has opened it, everything
/// here is refused.
pub(crate) trait Journal: Send + 'static {
    /// Takes the log over: from when this completes nobody with a lower token appends, and what is read is
    /// the log. May be called again, after whatever it said.
    fn open(&mut self) -> impl Future<Output = Result<LogState, StoreError>> + Send;

    /// Records from this one on: at least one if there is one.
    fn read(&mut self, from: Sequence) -> impl Future<Output = Result<Vec<Record>, StoreError>> + Send;

    /// The newest snapshot.
    fn read_snapshot(&mut self) -> impl Future<Output = Result<Option<Snapshot>, StoreError>> + Send;

    /// Adds records behind `expected`; its exact repetition succeeds and changes nothing.
    fn append(
        &mut self,
        expected: Sequence,
        records: Vec<Bytes>,
        purpose: AppendPurpose,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Keeps what the records up to `through` amount to.
    fn keep(
        &mut self,
        through: Sequence,
        state: Bytes,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Forgets the records up to and with `through`.
    fn delete(&mut self, through: Sequence) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Whether it can be full while its store is not: then a snapshot makes room.
    fn has_an_end(&self) -> bool {
        false
    }
}
