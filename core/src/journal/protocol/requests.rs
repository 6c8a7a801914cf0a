//! What the owner of a quorum log asks of replicas and what they answer, and within which bounds. Types only.
//! Spec: sharding 10.7.

use alloc::vec::Vec;

use super::Rejection;
pub use crate::journal::state::NUMBER_MAX;
use crate::journal::state::{LogEntry, LogItem, LogPlace, Position, SnapshotHead, StoreId};
use crate::store::limits::{CHANGES_PER_BATCH_MAX, VALUE_BYTES_MAX};
use crate::store::{Bytes, LogName};
use crate::token::Token;

/// A log's name in bytes: a kind and an entity's id; with what stands beside it in a key it fits every
/// store's keys.
pub const LOG_NAME_BYTES_MAX: usize = 960;

/// Entries of one request, and records of one entry: all of them fit one commit of every store, with the
/// head.
pub const ENTRIES_MAX: usize = CHANGES_PER_BATCH_MAX - 8;

/// Bytes of the entries of one request: a value of every store, so that a single entry can have as many.
pub const REQUEST_BYTES_MAX: usize = VALUE_BYTES_MAX;

/// Bytes of a snapshot: those that every store takes for one.
pub const SNAPSHOT_BYTES_MAX: usize = VALUE_BYTES_MAX;

/// Parts of a snapshot: all of them are written in one commit.
pub const PARTS_MAX: u32 = ENTRIES_MAX as u32;

/// How far above what a replica has promised a token's term may be. Who finds it further behind leads it
/// there in steps of so many: one node's word does not take all terms there are.
pub const TERM_STEP: u64 = 1 << 16;

/// An owner, or who wants to be one, to a replica. All but a promise already given and a read make something
/// durable before they are answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaRequest {
    /// The log.
    pub log: LogName,
    /// The store that is meant.
    pub store: StoreId,
    /// Who opens: another number for every opening, so that no two share a token.
    pub opener: u64,
    /// The opener's number of the question; the answer carries it.
    pub id: u64,
    /// Whose words these are.
    pub token: Token,
    /// What is asked.
    pub ask: ReplicaAsk,
}

/// What is asked of a replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplicaAsk {
    /// Refuse every lower token from now on, and this one from anybody else; then say what you hold.
    Promise,
    /// What else do you hold, from here? Answered only to who has the promise.
    Read {
        /// The place.
        from: LogPlace,
    },
    /// Keep these under the token.
    Accept {
        /// 1 to [`ENTRIES_MAX`], at places that follow each other.
        entries: Vec<LogEntry>,
    },
    /// Keep this in place of all entries that it covers. Answered once all parts have come.
    Keep {
        /// Which snapshot.
        snapshot: SnapshotHead,
        /// The part, from 0.
        index: u32,
        /// Its bytes.
        bytes: Bytes,
    },
}

/// A replica to who asked it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaReply {
    /// The log.
    pub log: LogName,
    /// Which replica.
    pub store: StoreId,
    /// Who asked.
    pub opener: u64,
    /// What was asked.
    pub id: u64,
    /// The answer.
    pub said: ReplicaAnswer,
}

/// What a replica answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplicaAnswer {
    /// The promise holds, and this is a part of what is held.
    Page(ReplicaPage),
    /// The entries are durable here.
    Accepted,
    /// The snapshot is durable here.
    Kept,
    /// Not done: this token is promised, to somebody else if it is the same.
    Refused {
        /// The token that is promised.
        held: Token,
    },
}

/// A part of what a replica holds of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaPage {
    /// The snapshot, if there is one: its parts are the first items.
    pub snapshot: Option<SnapshotHead>,
    /// In order of their places.
    pub items: Vec<LogItem>,
    /// Where to go on reading; `None` if this is all.
    pub next: Option<LogPlace>,
}

impl ReplicaRequest {
    /// Whether it is within all bounds.
    ///
    /// # Errors
    /// [`Rejection::OutOfBounds`].
    pub fn check(&self) -> Result<(), Rejection> {
        let number = |number: u64| (1..=NUMBER_MAX).contains(&number);
        let token = |token: Token| number(token.term) && token.count <= NUMBER_MAX;
        let fits = match &self.ask {
            ReplicaAsk::Promise | ReplicaAsk::Read { .. } => true,
            ReplicaAsk::Accept { entries } => {
                let follow = entries.windows(2).all(|pair| {
                    let [one, next] = pair else { return false };
                    next.position == one.position.saturating_add(1) && next.first == one.next()
                });
                let bytes = entries.iter().map(LogEntry::bytes).fold(0, usize::saturating_add);
                (1..=ENTRIES_MAX).contains(&entries.len())
                    && follow
                    && (entries.len() == 1 || bytes <= REQUEST_BYTES_MAX)
                    && entries.iter().all(|entry| {
                        number(entry.position)
                            && number(entry.first)
                            && token(entry.origin)
                            && entry.origin <= self.token
                            && entry.records.len() <= ENTRIES_MAX
                            && entry.bytes() <= REQUEST_BYTES_MAX
                    })
            }
            ReplicaAsk::Keep {
                snapshot,
                index,
                bytes,
            } => {
                number(snapshot.through)
                    && snapshot.covers <= NUMBER_MAX
                    && snapshot.token == self.token
                    && snapshot.parts <= PARTS_MAX
                    && *index < snapshot.parts.max(1)
                    && bytes.len() <= SNAPSHOT_BYTES_MAX
            }
        };
        let named = (1..=LOG_NAME_BYTES_MAX).contains(&self.log.len());
        if named && token(self.token) && fits {
            Ok(())
        } else {
            Err(Rejection::OutOfBounds)
        }
    }

    /// The user's bytes in it.
    #[must_use]
    pub fn payload_bytes(&self) -> usize {
        match &self.ask {
            ReplicaAsk::Promise | ReplicaAsk::Read { .. } => 0,
            ReplicaAsk::Accept { entries } => {
                entries.iter().map(LogEntry::bytes).fold(0, usize::saturating_add)
            }
            ReplicaAsk::Keep { bytes, .. } => bytes.len(),
        }
    }
}

impl ReplicaReply {
    /// The user's bytes in it.
    #[must_use]
    pub fn payload_bytes(&self) -> usize {
        match &self.said {
            ReplicaAnswer::Page(page) => page
                .items
                .iter()
                .map(LogItem::bytes)
                .fold(0, usize::saturating_add),
            ReplicaAnswer::Accepted | ReplicaAnswer::Kept | ReplicaAnswer::Refused { .. } => 0,
        }
    }
}

impl LogItem {
    /// The bytes that it counts in a budget.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match self {
            Self::Part { bytes, .. } => bytes.len(),
            Self::Entry { entry, .. } => entry.bytes(),
        }
    }
}

/// The place behind the last entry that there can be.
pub const POSITION_END: Position = NUMBER_MAX + 1;
