//! What a caller wants of a key, and what comes of it. Values only. Spec: sharding 5.6, 10.7, 10.19.

use alloc::sync::Arc;

use super::call::{Ballot, CallId};
use super::clock::VersionClock;
use super::entry::KvEntry;
use super::exchange::KvChange;
use super::level::{Level, LevelError};
use super::logged::{LogChange, LogDenial, LogRecord};
use super::siblings::PutError;

/// What a call is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallGoal {
    /// To read a key.
    Get {
        /// R.
        level: Level,
    },
    /// To write it.
    Write {
        /// What is written.
        change: KvChange,
        /// What it overwrites: the clock of the get before, or none.
        context: VersionClock,
        /// W.
        level: Level,
    },
    /// To write it if it holds this version.
    Conditional {
        /// The version; `None`: the key has no value.
        expected: Option<CallId>,
        /// What is written.
        change: KvChange,
    },
    /// To end a turn that somebody left open.
    Resolve,
    /// To take over or write the log of a durable entity.
    Log {
        /// What is done.
        change: LogChange,
        /// How the last call about it left it; `None`: nobody knows, or nobody knows what became of one.
        hold: Option<LogHold>,
    },
}

/// What a call came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallAnswer {
    /// What the key holds: siblings, or what was decided.
    Found(KvEntry),
    /// It is written: on as many owners as were asked for. The clock is that of the key at the owner that
    /// made the version.
    Written(VersionClock),
    /// The conditional put took effect. Its version is the call's name.
    Decided(CallId),
    /// It had no effect, and will have none: the key holds this version; `None`: no value.
    Conflict {
        /// Which.
        present: Option<CallId>,
    },
    /// No turn is open any more.
    Resolved,
    /// The log is what was wanted, or will never be made so by this call.
    Logged {
        /// As it is, if it was taken over; `None`: as it was, with what was written.
        log: Result<Option<Arc<LogRecord>>, LogDenial>,
        /// For the next call of who has it.
        hold: LogHold,
    },
}

/// A turn in which who has a log goes on, while its range has the same owners.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogHold {
    /// The last step in it.
    pub ballot: Ballot,
    /// The range's epoch.
    pub epoch: u64,
}

/// Why a call failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// Too few owners have answered. A write may still take effect; where it was acknowledged, it stays.
    #[error("no answer in time, {acknowledged} have acknowledged it")]
    Timeout {
        /// So many owners have it.
        acknowledged: usize,
    },
    /// Of a put: the key is written by conditional puts.
    #[error("the key is written by conditional puts")]
    Conditional,
    /// Of a conditional put: the key has a value that was put without a condition.
    #[error("the key is written without conditions")]
    Ordinary,
    /// Of a conditional put: the key holds the log of a durable entity.
    #[error("the key holds the log of a durable entity")]
    Log,
    /// The level is none of the bucket's.
    #[error(transparent)]
    Level(#[from] LevelError),
    /// What is put is too much.
    #[error(transparent)]
    Put(#[from] PutError),
    /// The value would live no time, or too long.
    #[error("a value lives 1 to {} ms", super::exchange::TTL_MS_MAX)]
    Ttl,
    /// No owner that answers has seen what the context claims was seen. Nothing was written.
    #[error("the context is none that a get gave")]
    Context,
    /// No owner can make a version now. Nothing was written.
    #[error("no owner can take it now")]
    NoOwner,
}
