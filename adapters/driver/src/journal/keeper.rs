//! Who keeps the logs of a kind of durable entities: the node's store alone, a majority of the nodes' own
//! stores, or a bucket if the kind names one. Decides by what the store says of itself. Spec: sharding 10.7:
//! a file of one node claims nothing after a move.

use std::sync::Arc;

use quorate_core::kv::state::bucket::BucketName;
use quorate_core::store::{Bytes, LogName, LogState, Record, Sequence, Snapshot, StoreError};
use quorate_core::token::Token;

use super::atomic::AtomicJournal;
use super::bucket::BucketJournal;
use super::quorum::QuorumJournal;
use super::{AppendPurpose, Journal};
use crate::background::Sleep;
use crate::error::{ClusterError, DurabilityError};
use crate::shared::Shared;
use crate::stats::BucketState;
use crate::store::{StoreAccess, StoreScope};

/// See the module.
#[derive(Clone, Debug)]
pub(crate) enum Keeper {
    /// One store, which compares tokens as it writes.
    Store(StoreAccess),
    /// The stores that vote about logs.
    Quorum,
    /// The owners of ranges of a bucket.
    Bucket(BucketName),
}

impl Keeper {
    /// Who keeps the logs of a kind, and whether no second member may host it.
    pub(crate) fn of(shared: &Shared, has_single_host: bool) -> Result<(Self, bool), DurabilityError> {
        match &shared.store {
            Some(store) if store.scope() == StoreScope::Shared => Ok((Self::Store(store.clone()), false)),
            Some(store) if has_single_host => Ok((Self::Store(store.clone()), true)),
            Some(_) | None if shared.keeps_logs => Ok((Self::Quorum, false)),
            Some(_) => Err(DurabilityError::NodeLocalStore),
            None => Err(DurabilityError::NoStore),
        }
    }

    /// The bucket that a kind names, if every read of it meets every write.
    pub(crate) async fn of_bucket(shared: &Shared, bucket: &str) -> Result<Self, ClusterError> {
        let name = BucketName::new(bucket)?;
        let buckets = shared.buckets().await?;
        let is_it = |open: &&BucketState| open.name == name.as_str() && open.is_accepted;
        let open = buckets.iter().find(is_it).ok_or(DurabilityError::BucketNotOpen)?;
        if !open.settings.is_strict() {
            return Err(DurabilityError::BucketNotStrict.into());
        }
        Ok(Self::Bucket(name))
    }

    /// The log of this name, for an entity that was placed with this token, if that is above all earlier ones
    /// for good; `None` if the name is too long.
    pub(crate) fn journal(
        &self,
        shared: &Arc<Shared>,
        sleep: &Sleep,
        log: LogName,
        placement: Option<Token>,
    ) -> Option<KeptJournal> {
        match self {
            Self::Store(store) => {
                let journal = AtomicJournal::new(store.clone(), log, placement);
                Some(KeptJournal::Atomic(journal))
            }
            Self::Quorum => {
                let journal = QuorumJournal::new(Arc::clone(shared), Sleep::clone(sleep), log, placement);
                journal.map(KeptJournal::Quorum)
            }
            Self::Bucket(bucket) => {
                let journal = BucketJournal::new(Arc::clone(shared), bucket.clone(), &log, placement);
                journal.map(KeptJournal::Bucket)
            }
        }
    }
}

/// A log, whoever keeps it.
pub(crate) enum KeptJournal {
    Atomic(AtomicJournal),
    Quorum(QuorumJournal),
    Bucket(BucketJournal),
}

impl Journal for KeptJournal {
    async fn open(&mut self) -> Result<LogState, StoreError> {
        match self {
            Self::Atomic(journal) => journal.open().await,
            Self::Quorum(journal) => journal.open().await,
            Self::Bucket(journal) => journal.open().await,
        }
    }

    async fn read(&mut self, from: Sequence) -> Result<Vec<Record>, StoreError> {
        match self {
            Self::Atomic(journal) => journal.read(from).await,
            Self::Quorum(journal) => journal.read(from).await,
            Self::Bucket(journal) => journal.read(from).await,
        }
    }

    async fn read_snapshot(&mut self) -> Result<Option<Snapshot>, StoreError> {
        match self {
            Self::Atomic(journal) => journal.read_snapshot().await,
            Self::Quorum(journal) => journal.read_snapshot().await,
            Self::Bucket(journal) => journal.read_snapshot().await,
        }
    }

    async fn append(
        &mut self,
        expected: Sequence,
        records: Vec<Bytes>,
        purpose: AppendPurpose,
    ) -> Result<(), StoreError> {
        match self {
            Self::Atomic(journal) => journal.append(expected, records, purpose).await,
            Self::Quorum(journal) => journal.append(expected, records, purpose).await,
            Self::Bucket(journal) => journal.append(expected, records, purpose).await,
        }
    }

    async fn keep(&mut self, through: Sequence, state: Bytes) -> Result<(), StoreError> {
        match self {
            Self::Atomic(journal) => journal.keep(through, state).await,
            Self::Quorum(journal) => journal.keep(through, state).await,
            Self::Bucket(journal) => journal.keep(through, state).await,
        }
    }

    async fn delete(&mut self, through: Sequence) -> Result<(), StoreError> {
        match self {
            Self::Atomic(journal) => journal.delete(through).await,
            Self::Quorum(journal) => journal.delete(through).await,
            Self::Bucket(journal) => journal.delete(through).await,
        }
    }

    fn has_an_end(&self) -> bool {
        match self {
            Self::Atomic(journal) => journal.has_an_end(),
            Self::Quorum(journal) => journal.has_an_end(),
            Self::Bucket(journal) => journal.has_an_end(),
        }
    }
}

impl KeptJournal {
    /// Whether an opening has taken too long so far, and goes on: the next one waits for the same.
    pub(crate) const fn is_opening(&self) -> bool {
        match self {
            Self::Atomic(_) | Self::Bucket(_) => false,
            Self::Quorum(journal) => journal.is_opening(),
        }
    }
}
