//! What a machine asks of the node's store, and what it is told: an ordered map of keys that are this node's
//! own, and append logs that belong to whoever holds the token. The core asks; keeping is the host's. Never
//! does I/O and never waits. Spec: sharding 10.7, 10.10; reliability I-80 to I-84.
//!
//! A host answers every request exactly once, with its id, and **only when what was asked for is durable**.
//! It may put many requests into one commit; those of one owner take effect in the order in which they were
//! asked. It never does I/O on the loop that answers heartbeats. What each order means is [`rules`]: a host
//! that has an ordered map needs nothing more.

mod error;
pub mod layout;
pub mod limits;
pub mod memory;
pub mod rules;
#[cfg(test)]
mod tests;

use alloc::sync::Arc;
use alloc::vec::Vec;

pub use error::StoreError;

use crate::token::Token;

/// Bytes that a store keeps or gives back. Cheap to clone.
pub type Bytes = Arc<[u8]>;

/// A log's name, 1 to [`limits::LOG_NAME_BYTES_MAX`] bytes. All that speak of the same log name it the same.
pub type LogName = Arc<str>;

/// The place of a record in its log. The first record has 1; 0 stands before it.
pub type Sequence = u64;

/// An owner's part of a store: keys and logs of two spaces never meet. See
/// [`crate::owner::Requester::space`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Space(pub u16);

/// A log, and the token of who appends to it: its owner if the log was opened with that token last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnedLog<'a> {
    /// Whose part of the store.
    pub space: Space,
    /// The log's name.
    pub log: &'a str,
    /// The owner's token.
    pub token: Token,
}

/// A request to the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreRequest {
    /// The owner's name for it; the answer carries it. Not used again while it is open.
    pub id: u64,
    /// What is wanted.
    pub order: StoreOrder,
}

/// The host's answer to a [`StoreRequest`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreReport {
    /// Which request.
    pub id: u64,
    /// What became of it.
    pub outcome: Outcome,
}

impl StoreRequest {
    /// The answer of a host that has no store.
    #[must_use]
    pub const fn without_a_store(&self) -> StoreReport {
        StoreReport {
            id: self.id,
            outcome: Err(StoreError::NoStore),
        }
    }
}

/// What became of an order.
pub type Outcome = Result<StoreAnswer, StoreError>;

/// One thing for the store to do. Each is atomic: all of it is durable, or nothing of it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreOrder {
    /// Which store this is, and how often it was opened. Answered with [`StoreAnswer::Identity`].
    Identify,
    /// A key's value. Answered with [`StoreAnswer::Value`].
    Read {
        /// The key.
        key: Bytes,
    },
    /// Keys and values in ascending order of their bytes. Answered with [`StoreAnswer::Items`]: at least one
    /// if there is one, then as many as fit.
    Range {
        /// The first key.
        from: Bytes,
        /// Where to stop: before this key; at the end of the space if `None`.
        to: Option<Bytes>,
        /// Keys and values together, clamped to [`limits::ANSWER_BYTES_MAX`].
        bytes_max: usize,
    },
    /// All of these changes, in order. Answered with [`StoreAnswer::Written`].
    Write {
        /// At most [`limits::CHANGES_PER_BATCH_MAX`].
        batch: Vec<Change>,
    },
    /// Makes the token the log's own, before anything of the log is read: from then on every lower one is
    /// refused. Refused itself with [`StoreError::Fenced`] unless it is above the token that the log holds.
    /// Answered with [`StoreAnswer::Opened`].
    Open {
        /// The log; it comes to be by this.
        log: LogName,
        /// The owner's token.
        token: Token,
        /// Tells two that took the same token apart: the uid of the incarnation that opens. Only the same one
        /// may repeat an opening whose outcome it does not know.
        opener: u64,
    },
    /// Adds records behind `expected`. Refused unless the log holds exactly this token and ends there; its
    /// exact repetition succeeds and changes nothing. Answered with [`StoreAnswer::Appended`].
    Append {
        /// The log.
        log: LogName,
        /// The token it was opened with.
        token: Token,
        /// The last record, as far as the owner knows.
        expected: Sequence,
        /// 1 to [`limits::CHANGES_PER_BATCH_MAX`].
        records: Vec<Bytes>,
    },
    /// Records in order, from this one or the first that is still there. Answered with
    /// [`StoreAnswer::Records`]: at least one if there is one, then as many as fit.
    ReadLog {
        /// The log.
        log: LogName,
        /// The first record wanted.
        from: Sequence,
        /// Of all records together, clamped to [`limits::ANSWER_BYTES_MAX`].
        bytes_max: usize,
    },
    /// Keeps what the records up to `through` amount to, in place of an earlier snapshot. The records stay
    /// until [`StoreOrder::DeleteRange`]. Refused unless the log holds exactly this token, and if `through`
    /// is behind the log's end or before the snapshot that is there. Answered with [`StoreAnswer::Kept`].
    Snapshot {
        /// The log.
        log: LogName,
        /// The token it was opened with.
        token: Token,
        /// The last record that it covers.
        through: Sequence,
        /// The state.
        state: Bytes,
    },
    /// The newest snapshot. Answered with [`StoreAnswer::Snapshot`].
    ReadSnapshot {
        /// The log.
        log: LogName,
    },
    /// Forgets the records up to and with `through`; the numbers go on behind the log's end. Refused unless
    /// the log holds exactly this token. Answered with [`StoreAnswer::Deleted`].
    DeleteRange {
        /// The log.
        log: LogName,
        /// The token it was opened with.
        token: Token,
        /// The last record to forget; one behind the log's end means all.
        through: Sequence,
    },
}

/// One change of a [`StoreOrder::Write`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The key has this value from now on.
    Put {
        /// 0 to [`limits::KEY_BYTES_MAX`] bytes.
        key: Bytes,
        /// At most [`limits::VALUE_BYTES_MAX`] bytes.
        value: Bytes,
    },
    /// The key has no value any more.
    Delete {
        /// The key.
        key: Bytes,
    },
    /// No key of this range has a value any more.
    DeleteRange {
        /// The first key.
        from: Bytes,
        /// Before this key; to the end of the space if `None`.
        to: Option<Bytes>,
    },
}

/// A store's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreAnswer {
    /// Which store this is.
    Identity(StoreIdentity),
    /// A key's value.
    Value(Option<Bytes>),
    /// A part of a range.
    Items {
        /// Keys and values, ascending.
        items: Vec<(Bytes, Bytes)>,
        /// Whether there are more behind the last of them.
        more: bool,
    },
    /// The batch is durable.
    Written,
    /// The log is the opener's.
    Opened(LogState),
    /// The records are durable.
    Appended {
        /// The log's last record.
        last: Sequence,
    },
    /// A part of a log.
    Records {
        /// In order, without gaps.
        records: Vec<Record>,
        /// Whether there are more behind the last of them.
        more: bool,
    },
    /// The snapshot is durable.
    Kept,
    /// The newest snapshot, if there is one.
    Snapshot(Option<Snapshot>),
    /// The records are gone.
    Deleted,
}

/// Which store answers, and which life of it. A store that lost what it held, or whose disk went back in
/// time, has another `id`: it comes as a newcomer, never with old truth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StoreIdentity {
    /// Drawn when it was made.
    pub id: u128,
    /// How often it was opened, durably counted before anything else is done: 1 for the first time.
    pub boot: u64,
}

/// A log as its opener finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogState {
    /// The first record that is still there; one more than `last` if none is.
    pub first: Sequence,
    /// The last record that was ever appended; 0 if none was.
    pub last: Sequence,
    /// What the newest snapshot covers, if there is one.
    pub snapshot: Option<Sequence>,
}

/// A record of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its place.
    pub sequence: Sequence,
    /// Who appended it.
    pub token: Token,
    /// What was appended.
    pub bytes: Bytes,
}

/// What a part of a log amounts to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The last record that it covers.
    pub through: Sequence,
    /// Who kept it.
    pub token: Token,
    /// The state.
    pub state: Bytes,
}

impl StoreOrder {
    /// Whether it changes nothing, so that nothing has to become durable for it.
    #[must_use]
    pub const fn is_read(&self) -> bool {
        match self {
            Self::Identify
            | Self::Read { .. }
            | Self::Range { .. }
            | Self::ReadLog { .. }
            | Self::ReadSnapshot { .. } => true,
            Self::Write { .. }
            | Self::Open { .. }
            | Self::Append { .. }
            | Self::Snapshot { .. }
            | Self::DeleteRange { .. } => false,
        }
    }

    /// The bytes that it carries, for budgets. Linear in its parts.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let to_bytes = |to: &Option<Bytes>| to.as_ref().map_or(0, |to| to.len());
        match self {
            Self::Identify => 0,
            Self::Read { key } => key.len(),
            Self::Range { from, to, .. } => from.len() + to_bytes(to),
            Self::Write { batch } => batch.iter().map(Change::bytes).sum(),
            Self::Open { log, .. }
            | Self::ReadLog { log, .. }
            | Self::ReadSnapshot { log }
            | Self::DeleteRange { log, .. } => log.len(),
            Self::Append { log, records, .. } => {
                log.len() + records.iter().map(|record| record.len()).sum::<usize>()
            }
            Self::Snapshot { log, state, .. } => log.len() + state.len(),
        }
    }
}

impl Change {
    fn bytes(&self) -> usize {
        match self {
            Self::Put { key, value } => key.len() + value.len(),
            Self::Delete { key } => key.len(),
            Self::DeleteRange { from, to } => from.len() + to.as_ref().map_or(0, |to| to.len()),
        }
    }
}
