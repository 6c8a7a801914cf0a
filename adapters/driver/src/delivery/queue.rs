//! What a durable producer, a work queue or a durable mailbox keeps: a log with every message that it took
//! and every confirmation, owned by whoever opened it last. What is confirmed is deleted; what nobody
//! confirms for long is written again behind the rest, so that the log stays as short as what it is about:
//! `length` says when. Never sends. Spec: sharding 1.14, 10.7, 10.10.

use std::sync::Arc;
use std::time::Duration;

use async_channel::Receiver;
use quorate_core::delivery::ProducerSettings;
use quorate_core::ordered::OrderedMap;
use quorate_core::sharding::ids::{EntityId, Payload};
use quorate_core::store::{Bytes as Record, StoreError};
use serde::{Deserialize, Serialize};

use super::ProducerError;
use super::length::{BATCH_MAX, Length, bytes_of};
use super::orders::{ProducerInbox, TaskReport};
use crate::background::Background;
use crate::codec;
use crate::codec::Bytes;
use crate::journal::{AppendPurpose, Journal, Keeper, KeptJournal, log_name};
use crate::shared::Shared;
use crate::sync::{Either, race};

/// Openings that are waited for, of some seconds each, before whoever wants the queue hears that its store
/// cannot be had: the largest log of slow disks is read and written back in that time.
const OPENINGS_MAX: u32 = 20;

/// Steps in which a log is made shorter at once: each writes a sixteenth of it anew at most, so a log is gone
/// through twice.
const STEPS_MAX: u32 = 32;

/// The pause before a store that had no answer is asked the same again.
const PAUSE: Duration = Duration::from_millis(200);

/// In front of every record: what form it has. On disks, so a new form gets a new number.
const VERSION: u8 = 1;

/// One record.
#[derive(Serialize, Deserialize)]
pub(crate) enum Entry {
    Sent {
        seq: u64,
        entity: Vec<u8>,
        payload: Bytes,
    },
    Confirmed {
        seq: u64,
    },
}

impl Entry {
    pub(super) fn record(&self) -> Option<Record> {
        codec::encode_after(&[VERSION], self).map(Record::from)
    }

    /// What it takes of a batch, about.
    fn bytes(&self) -> usize {
        match self {
            Self::Sent { entity, payload, .. } => bytes_of(entity.len(), payload.0.len()),
            Self::Confirmed { .. } => bytes_of(0, 0),
        }
    }

    pub(super) fn read(record: &[u8]) -> Option<Self> {
        codec::decode(record.strip_prefix(&[VERSION])?)
    }
}

struct Kept {
    entity: Vec<u8>,
    payload: Payload,
}

/// See the module.
pub(crate) struct DurableQueue {
    journal: KeptJournal,
    length: Length,
    unconfirmed: OrderedMap<u64, Kept>,
    /// Whether a store that is full is waited for.
    waits_for_room: bool,
}

impl DurableQueue {
    /// Takes the queue of this name over, and reads it.
    pub(crate) async fn open(shared: &Arc<Shared>, name: &str) -> Result<Self, ProducerError> {
        // A producer stays where it was started, so a store of this node alone will do where no other is to
        // be had.
        let keeper = Keeper::of(shared, false).or_else(|error| match Keeper::of(shared, true) {
            Ok(keeper) => Ok(keeper),
            Err(_) => Err(error),
        });
        let (keeper, _) = keeper?;
        Self::open_with(shared, &keeper, &format!("producer/{name}")).await
    }

    /// The same of another use than a producer's, which has a name of its own, by a given keeper.
    pub(crate) async fn open_with(
        shared: &Arc<Shared>,
        keeper: &Keeper,
        name: &str,
    ) -> Result<Self, ProducerError> {
        // No kind has an empty name.
        let log = log_name("", &EntityId::new(name.as_bytes())).ok_or(ProducerError::Name)?;
        let sleep = shared.background.sleeper();
        let journal = keeper.journal(shared, &sleep, log, None);
        let mut journal = journal.ok_or(ProducerError::Name)?;
        let mut opened = journal.open().await;
        for _ in 1..OPENINGS_MAX {
            if opened.is_ok() || !journal.is_opening() {
                break;
            }
            opened = journal.open().await;
        }
        let state = opened?;
        let mut queue = Self {
            journal,
            length: Length::new(shared.queue_bounds, state.first),
            unconfirmed: OrderedMap::new(),
            waits_for_room: false,
        };
        while queue.length.last() < state.last {
            let records = queue.journal.read(queue.length.last() + 1).await?;
            let first = records.first().map(|record| record.sequence);
            if first != Some(queue.length.last() + 1) {
                return Err(ProducerError::Unreadable);
            }
            for record in records {
                let entry = Entry::read(&record.bytes).ok_or(ProducerError::Unreadable)?;
                queue.learn(vec![entry], record.bytes.len());
            }
        }
        // It may have been left nearly full.
        queue.shorten(&shared.background).await?;
        Ok(queue)
    }

    /// Entries that were appended as one.
    fn learn(&mut self, entries: Vec<Entry>, bytes: usize) {
        let first = self.length.appended(entries.len() as u64, bytes);
        for (at, entry) in (first..).zip(entries) {
            match entry {
                Entry::Sent { seq, entity, payload } => {
                    let payload = payload.0;
                    self.length.lies(seq, at, bytes_of(entity.len(), payload.len()));
                    self.unconfirmed.insert(seq, Kept { entity, payload });
                }
                Entry::Confirmed { seq } => {
                    self.length.is_needless(seq);
                    self.unconfirmed.remove(&seq);
                }
            }
        }
    }

    /// What nobody has confirmed, and who writes from now on.
    pub(crate) fn split(self) -> (Vec<(u64, EntityId, Payload)>, Self) {
        let kept = self.unconfirmed.iter();
        let kept = kept.map(|(seq, kept)| (*seq, EntityId::new(&kept.entity), kept.payload.clone()));
        (kept.collect(), self)
    }

    /// The number of the next message, if it is its place in the log: above all that ever had theirs so.
    pub(super) const fn next_number(&self) -> u64 {
        self.length.last() + 1
    }

    /// The oldest message that nobody has confirmed.
    pub(super) fn oldest(&self) -> Option<(u64, Payload)> {
        let (seq, kept) = self.unconfirmed.iter().next()?;
        Some((*seq, kept.payload.clone()))
    }

    /// Whether there is room for a message of so many bytes, beside what nobody has confirmed.
    pub(crate) fn has_room(&self, payload: usize) -> bool {
        self.length.has_room(bytes_of(0, payload))
    }

    /// Writes until nobody has anything to write, or the store has failed.
    pub(super) async fn run(
        mut self,
        entries: Receiver<Entry>,
        inbox: &ProducerInbox,
        background: &Background,
        settings: &ProducerSettings,
    ) {
        self.waits_for_room = true;
        let patience = settings.store_timeout.saturating_mul(settings.store_attempts);
        let bytes_max = self.length.bounds().batch_bytes();
        let mut next = entries.recv().await.ok();
        while let Some(entry) = next.take() {
            let mut bytes = entry.bytes();
            let mut batch = vec![entry];
            while batch.len() < BATCH_MAX {
                let Ok(entry) = entries.try_recv() else { break };
                bytes = bytes.saturating_add(entry.bytes());
                if bytes > bytes_max {
                    next = Some(entry);
                    break;
                }
                batch.push(entry);
            }
            let sent = |entry: &Entry| match entry {
                Entry::Sent { seq, .. } => Some(*seq),
                Entry::Confirmed { .. } => None,
            };
            let stored: Vec<u64> = batch.iter().filter_map(sent).collect();
            let noted = batch.len() - stored.len();
            let end = background.now() + patience;
            let written = match race(self.write(batch, background), background.sleep_until(Some(end))).await {
                Either::Left(written) => written,
                Either::Right(()) => Err(StoreError::Unavailable),
            };
            if let Err(error) = written {
                tracing::error!(
                    target: "cluster::delivery", event = "delivery_store_failed", %error,
                    "a durable producer ended because its store failed to keep its messages"
                );
                return inbox.put(TaskReport::StoreFailed);
            }
            stored
                .into_iter()
                .for_each(|seq| inbox.put(TaskReport::Stored(seq)));
            inbox.put(TaskReport::Noted(noted));
            if next.is_none() {
                next = entries.recv().await.ok();
            }
        }
    }

    /// Appends entries as one, and keeps the log short. Completes when a store has said what became of it,
    /// however long that takes: a question that was dropped would be answered as if somebody else had asked
    /// it.
    ///
    /// # Errors
    /// They are surely not there, or the queue is somebody else's.
    pub(crate) async fn write(
        &mut self,
        batch: Vec<Entry>,
        background: &Background,
    ) -> Result<(), StoreError> {
        let is_sent = |entry: &Entry| matches!(entry, Entry::Sent { .. });
        let purpose = if batch.iter().any(is_sent) {
            AppendPurpose::Keep
        } else {
            AppendPurpose::Upkeep
        };
        self.append(batch, purpose, background).await?;
        self.shorten(background).await
    }

    /// Appends entries as one.
    ///
    /// # Errors
    /// They are not there, or the queue is somebody else's.
    pub(super) async fn append(
        &mut self,
        batch: Vec<Entry>,
        purpose: AppendPurpose,
        background: &Background,
    ) -> Result<(), StoreError> {
        let records: Vec<Record> = batch.iter().filter_map(Entry::record).collect();
        let bytes = records.iter().map(|record| record.len()).sum();
        let sleep = background.sleeper();
        // The exact repetition of an append succeeds.
        while let Err(error) = self
            .journal
            .append(self.length.last(), records.clone(), purpose)
            .await
        {
            match error {
                StoreError::Busy | StoreError::Unavailable | StoreError::OutcomeUnknown => sleep(PAUSE).await,
                // A disk may have room again; a log has what it has.
                StoreError::Full if self.waits_for_room && !self.journal.has_an_end() => sleep(PAUSE).await,
                StoreError::NoStore
                | StoreError::Full
                | StoreError::TooLarge
                | StoreError::Fenced { .. }
                | StoreError::SequenceConflict { .. }
                | StoreError::Corrupt => return Err(error),
                // What a later version of the core says.
                _ => return Err(error),
            }
        }
        self.learn(batch, bytes);
        Ok(())
    }

    /// Makes the log shorter, if it is long.
    pub(super) async fn shorten(&mut self, background: &Background) -> Result<(), StoreError> {
        if !self.length.is_long() {
            return Ok(());
        }
        for _ in 0..STEPS_MAX {
            let plan = self.length.plan();
            if !plan.anew.is_empty() {
                let again = plan.anew.iter().filter_map(|seq| {
                    let Kept { entity, payload } = self.unconfirmed.get(seq)?;
                    let (seq, entity) = (*seq, entity.clone());
                    let payload = Bytes(payload.clone());
                    Some(Entry::Sent { seq, entity, payload })
                });
                let again = again.collect();
                self.append(again, AppendPurpose::Upkeep, background).await?;
            }
            // What cannot be deleted now is deleted with the next.
            if self.journal.delete(plan.through).await.is_err() {
                return Ok(());
            }
            self.length.deleted(plan.through);
            if self.length.is_short() {
                return Ok(());
            }
        }
        Ok(())
    }
}
