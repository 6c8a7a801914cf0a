//! What a quorum log consists of: entries, snapshots, the stores that keep it. Values only. Spec: sharding
//! 10.7.

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::store::{Bytes, Record, Sequence, Snapshot};
use crate::token::Token;

/// No log has so many owners or entries: a number above it is nonsense, and would leave none for anybody
/// else.
pub const NUMBER_MAX: u64 = u64::MAX >> 16;

/// The most stores that may vote about logs: each append waits for more than half of them, and nine bear the
/// loss of four.
pub const VOTERS_MAX: usize = 9;

/// A store, by the number that was drawn when it was made. A store that lost what it held has another one,
/// and does not vote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StoreId(pub u128);

/// The place of an entry in its log. The first one has 1; 0 stands before it. Users never see it: see
/// [`Sequence`].
pub type Position = u64;

/// What is kept and acknowledged as one: the records of one append, or none where an owner opened the log.
///
/// One append is one entry, never several: of a batch that only a few replicas took, an opener would else
/// find the end without the beginning, behind the `Opened` of somebody who saw neither.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntry {
    /// Its place.
    pub position: Position,
    /// The token of who appended it first. Who writes it back does not change this.
    pub origin: Token,
    /// The number of its first record; the next record's, if it has none.
    pub first: Sequence,
    /// The records.
    pub records: Vec<Bytes>,
}

/// What an entry costs beside its records: its fields, its key and their seal.
pub const ENTRY_BYTES: usize = 96;

/// What a record costs beside its bytes.
pub const RECORD_BYTES: usize = 8;

impl LogEntry {
    /// The bytes that it counts in every budget. Linear in its records.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let records = self
            .records
            .iter()
            .map(|record| record.len().saturating_add(RECORD_BYTES));
        records.fold(ENTRY_BYTES, usize::saturating_add)
    }

    /// The number of the next record behind it.
    #[must_use]
    pub fn next(&self) -> Sequence {
        self.first.saturating_add(self.records.len() as u64)
    }
}

/// Which snapshot, and in how many parts it lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotHead {
    /// The last entry that it covers.
    pub through: Position,
    /// The last record that it covers.
    pub covers: Sequence,
    /// Who kept it.
    pub token: Token,
    /// The parts of its state. None: what it covers is forgotten, and nothing stands for it.
    pub parts: u32,
}

/// What a replica has promised of a log, and which snapshot of it it holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReplicaHead {
    pub(crate) promise: Token,
    pub(crate) opener: u64,
    pub(crate) snapshot: Option<SnapshotHead>,
}

/// A place in what a replica holds of a log: first come the parts of the snapshot, then the entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogPlace {
    /// This part of the snapshot.
    Part(u32),
    /// This entry, or the first behind it.
    Entry(Position),
}

impl LogPlace {
    /// Where everything begins.
    pub const START: Self = Self::Part(0);

    /// The place behind this one.
    #[must_use]
    pub const fn next(self) -> Self {
        match self {
            Self::Part(index) => Self::Part(index.saturating_add(1)),
            Self::Entry(position) => Self::Entry(position.saturating_add(1)),
        }
    }
}

/// What lies at a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogItem {
    /// A part of the snapshot.
    Part {
        /// Which, from 0.
        index: u32,
        /// The bytes.
        bytes: Bytes,
    },
    /// An entry.
    Entry {
        /// The highest token with which the replica accepted it.
        accepted: Token,
        /// The entry.
        entry: LogEntry,
    },
}

impl LogItem {
    /// Where it lies.
    #[must_use]
    pub const fn place(&self) -> LogPlace {
        match self {
            Self::Part { index, .. } => LogPlace::Part(*index),
            Self::Entry { entry, .. } => LogPlace::Entry(entry.position),
        }
    }
}

/// The stores that vote about every log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Voters {
    /// All of them, ascending. Once settled, they are never changed.
    pub stores: Arc<[StoreId]>,
    /// Whether every one of them has durably agreed to this.
    pub is_settled: bool,
}

impl Voters {
    /// Whether stores can be voters: ascending, none twice, one to [`VOTERS_MAX`].
    #[must_use]
    pub fn are_possible(stores: &[StoreId]) -> bool {
        let ascending = stores.windows(2).all(|pair| pair.first() < pair.last());
        (1..=VOTERS_MAX).contains(&stores.len()) && ascending
    }
}

/// Why a writer has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WriterEnd {
    /// Somebody else has the log.
    #[error("refused: the log is owned with token {held}")]
    Fenced {
        /// The token that owns it.
        held: Token,
    },
    /// What a majority holds cannot have been written by owners of one log.
    #[error("the records that a majority holds are no log")]
    Damaged,
}

/// Which token whoever opens a log wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenClaim {
    /// One of a term of its own, above every term that was ever taken: for whoever gives tokens away himself.
    Term,
    /// The same, and above this term too, which somebody has promised elsewhere.
    TermAbove(u64),
    /// One above every token that was ever taken, and below every term that will be.
    Count,
    /// One within a placement ([`Token::opened`]): refused by a later placement, the opening has failed.
    Placed(Token),
}

impl TokenClaim {
    /// The token to try first.
    #[must_use]
    pub(super) const fn first(self) -> Token {
        match self {
            Self::Term | Self::Count => Token::new(1, 1),
            Self::TermAbove(term) if term < NUMBER_MAX => Token::new(term + 1, 1),
            Self::TermAbove(_) => Token::new(NUMBER_MAX, 1),
            Self::Placed(placement) => placement.opened(),
        }
    }

    /// The token to try after `held` was named; `None` if there is none.
    #[must_use]
    pub(super) fn above(self, held: Token) -> Option<Token> {
        match self {
            Self::Term => (held.term < NUMBER_MAX).then(|| Token::new(held.term + 1, 1)),
            Self::TermAbove(term) => Self::Term.above(Token::new(held.term.max(term), 0)),
            // Counts that are used up go on in the next term.
            Self::Count if held.count < NUMBER_MAX => Some(held.next()),
            Self::Count => Self::Term.above(held),
            Self::Placed(placement) => placement.reopened(held),
        }
    }
}

/// What was found when a log was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenedLog {
    /// The owner's token.
    pub token: Token,
    /// The newest snapshot.
    pub snapshot: Option<Snapshot>,
    /// The records behind it, without a gap, each with the token of who appended it.
    pub records: Vec<Record>,
    /// The last record there ever was.
    pub last: Sequence,
}

/// Why a writer does not do what it is told. Nothing was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WriterError {
    /// It is not open yet, or has ended.
    #[error("the log is not open")]
    NotOpen,
    /// What was told before is not acknowledged yet.
    #[error("an earlier append is not acknowledged yet")]
    InFlight,
    /// The log does not end there.
    #[error("the log ends at {last}")]
    SequenceConflict {
        /// The log's last record.
        last: Sequence,
    },
    /// Nothing to append, too many records, or too many bytes.
    #[error("the append or snapshot exceeds a limit, or has no record")]
    TooLarge,
    /// The log is as large as it may be: a snapshot has to be kept first.
    #[error("the log has reached its size limit; keep a snapshot first")]
    Full,
}
