//! What a durable producer keeps: a log with every message that it took and every confirmation, owned by whoever opened it last. What
//! is confirmed is deleted; what nobody confirms for long is written again behind the rest, so that the log stays as short as what it
//! is about. Never sends. Spec: sharding 1.14, 10.7, 10.10.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_channel::Receiver;
use quorate_core::delivery::ProducerSettings;
use quorate_core::sharding::ids::{EntityId, Payload};
use quorate_core::store::{Bytes as Record, Sequence, StoreError};
use serde::{Deserialize, Serialize};

use super::ProducerError;
use super::orders::{Inbox, Said};
use super::parcel::Bytes;
use crate::background::Background;
use crate::codec;
use crate::durable::limits::{COMMAND_BYTES_MAX, EVENT_BYTES_MAX};
use crate::durable::{Journal, Keeper, KeptJournal, log_name};
use crate::shared::Shared;
use crate::sync::{Either, race};

/// Largest message that is kept: a record, less what is written beside it (an id of a kibibyte, numbers).
pub(crate) const MESSAGE_BYTES_MAX: usize = EVENT_BYTES_MAX - 2_048;

/// Entries that are written together: as much as one order of a store may have is a quarter of this many of the largest.
const BATCH_MAX: usize = 256;

/// So many records more than messages are unconfirmed, and the log is made shorter.
const NEEDLESS_MAX: u64 = 1_000;

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

    pub(super) fn read(record: &[u8]) -> Option<Self> {
        codec::decode(record.strip_prefix(&[VERSION])?)
    }
}

struct Kept {
    at: Sequence,
    entity: Vec<u8>,
    payload: Payload,
}

/// See the module.
pub(crate) struct Queue {
    journal: KeptJournal,
    first: Sequence,
    last: Sequence,
    unconfirmed: BTreeMap<u64, Kept>,
}

impl Queue {
    /// Takes the queue of this name over, and reads it.
    pub(crate) async fn open(shared: &Arc<Shared>, name: &str) -> Result<Self, ProducerError> {
        // A producer stays where it was started, so a store of this node alone will do where no other is to be had.
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
        let state = journal.open().await?;
        let mut queue = Self {
            journal,
            first: state.first,
            last: state.last,
            unconfirmed: BTreeMap::new(),
        };
        let mut next = state.first;
        while next <= state.last {
            let records = queue.journal.read(next).await?;
            let Some(newest) = records.last().map(|record| record.sequence) else {
                return Err(ProducerError::Unreadable);
            };
            for record in records {
                let entry = Entry::read(&record.bytes).ok_or(ProducerError::Unreadable)?;
                queue.learn(record.sequence, entry);
            }
            next = newest + 1;
        }
        Ok(queue)
    }

    fn learn(&mut self, at: Sequence, entry: Entry) {
        match entry {
            Entry::Sent { seq, entity, payload } => {
                let payload = payload.0;
                let kept = Kept { at, entity, payload };
                self.unconfirmed.insert(seq, kept);
            }
            Entry::Confirmed { seq } => {
                self.unconfirmed.remove(&seq);
            }
        }
    }

    /// What nobody has confirmed, and who writes from now on.
    pub(crate) fn split(self) -> (Vec<(u64, EntityId, Payload)>, Self) {
        let kept = self.unconfirmed.iter();
        let kept = kept.map(|(seq, kept)| (*seq, EntityId::new(&kept.entity), kept.payload.clone()));
        (kept.collect(), self)
    }

    /// Writes until nobody has anything to write, or the store has failed.
    pub(super) async fn run(
        mut self,
        entries: Receiver<Entry>,
        inbox: &Inbox,
        background: &Background,
        settings: &ProducerSettings,
    ) {
        while let Ok(entry) = entries.recv().await {
            let mut batch = vec![entry];
            let mut bytes = 0;
            while batch.len() < BATCH_MAX && bytes < COMMAND_BYTES_MAX / 4 {
                let Ok(entry) = entries.try_recv() else { break };
                if let Entry::Sent { payload, .. } = &entry {
                    bytes += payload.0.len();
                }
                batch.push(entry);
            }
            let written = match self.write(batch, background, settings).await {
                Ok((stored, noted)) => {
                    stored.into_iter().for_each(|seq| inbox.put(Said::Stored(seq)));
                    inbox.put(Said::Noted(noted));
                    self.shorten(background, settings).await
                }
                Err(error) => Err(error),
            };
            if let Err(error) = written {
                tracing::error!(
                    target: "cluster::delivery", event = "delivery_store_failed", %error,
                    "a durable producer ends because its store does not keep its messages"
                );
                return inbox.put(Said::StoreFailed);
            }
        }
    }

    /// Appends one entry, and keeps the log short.
    pub(crate) async fn write_one(
        &mut self,
        entry: Entry,
        background: &Background,
        settings: &ProducerSettings,
    ) -> Result<(), StoreError> {
        self.write(vec![entry], background, settings).await?;
        self.shorten(background, settings).await
    }

    /// Appends entries; the numbers of the messages among them, and how many confirmations.
    async fn write(
        &mut self,
        batch: Vec<Entry>,
        background: &Background,
        settings: &ProducerSettings,
    ) -> Result<(Vec<u64>, usize), StoreError> {
        let records: Vec<Record> = batch.iter().filter_map(Entry::record).collect();
        let expected = self.last;
        // The exact repetition of an append succeeds.
        let journal = &mut self.journal;
        let mut error = StoreError::Unavailable;
        let mut is_written = false;
        for _ in 0..settings.store_attempts {
            let appending = journal.append(expected, records.clone());
            let end = background.now() + settings.store_timeout;
            match race(appending, background.sleep_until(Some(end))).await {
                Either::Left(Ok(())) => {
                    is_written = true;
                    break;
                }
                Either::Left(Err(refusal)) if refusal.is_refusal() => return Err(refusal),
                Either::Left(Err(other)) => {
                    error = other;
                    background.sleep_until(Some(end)).await;
                }
                Either::Right(()) => {}
            }
        }
        if !is_written {
            return Err(error);
        }
        let (mut stored, mut noted) = (Vec::new(), 0);
        for entry in batch {
            self.last += 1;
            match &entry {
                Entry::Sent { seq, .. } => stored.push(*seq),
                Entry::Confirmed { .. } => noted += 1,
            }
            self.learn(self.last, entry);
        }
        Ok((stored, noted))
    }

    /// Deletes what is confirmed. What was sent first and is unconfirmed holds up everything behind it, so it is written again if that
    /// is much.
    async fn shorten(
        &mut self,
        background: &Background,
        settings: &ProducerSettings,
    ) -> Result<(), StoreError> {
        let needed = self.unconfirmed.len() as u64;
        let length = (self.last + 1).saturating_sub(self.first);
        if length < needed.saturating_mul(2).saturating_add(NEEDLESS_MAX) {
            return Ok(());
        }
        let oldest = self.unconfirmed.values().map(|kept| kept.at).min();
        let mut through = oldest.map_or(self.last, |oldest| oldest - 1);
        if (through + 1).saturating_sub(self.first) < length / 2 {
            through = self.last;
            let again: Vec<(u64, Vec<u8>, Payload)> = self
                .unconfirmed
                .iter()
                .map(|(seq, kept)| (*seq, kept.entity.clone(), kept.payload.clone()))
                .collect();
            for (seq, entity, payload) in again {
                let payload = Bytes(payload);
                let entry = Entry::Sent { seq, entity, payload };
                self.write(vec![entry], background, settings).await?;
            }
        }
        // What cannot be deleted now is deleted with the next.
        if self.journal.delete(through).await.is_ok() {
            self.first = through + 1;
        }
        Ok(())
    }
}
