//! What owners of a range are asked about a key, and what they answer. Values only: what else a message needs
//! is its own. Spec: sharding 2.5, 10.7, 10.19.

use alloc::vec::Vec;

use super::call::{Ballot, RequestId};
use super::clock::{ACTORS_MAX, Actor, VersionClock, VersionDot};
use super::configuration::Configuration;
use super::entry::{AcceptedDecision, KvEntry, Unchanged};
use super::logged::LogWrite;
use super::siblings::{PutError, SIBLINGS_MERGED_MAX, VALUES_BYTES_MAX, VersionContent};
use crate::store::Bytes;

/// The longest life that a value can be given: ten years. Past its limit no clock is trusted.
pub const TTL_MS_MAX: u64 = 10 * 366 * 86_400_000;

/// One question to one owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KvAsk {
    /// What it holds. Answered with [`KvAnswer::Held`].
    Get,
    /// A new version. Answered with [`KvAnswer::Minted`].
    Mint(Mint),
    /// To take in what others hold. Answered with [`KvAnswer::Done`].
    Merge(KvEntry),
    /// To promise a turn, and what it holds. Answered with [`KvAnswer::Held`].
    Promise(Ballot),
    /// To accept what a turn decides. Answered with [`KvAnswer::Done`].
    Accept(AcceptedDecision),
    /// To go on within a turn: to write to the log that was accepted in the step before. Answered with
    /// [`KvAnswer::Done`].
    Extend {
        /// The step.
        ballot: Ballot,
        /// What is written.
        write: LogWrite,
    },
    /// A step of an entry's end, if it holds exactly what this digest stands for. Answered with
    /// [`KvAnswer::Done`].
    Settle {
        /// [`KvEntry::digest`].
        digest: u64,
        /// Which.
        step: SettleStep,
    },
}

/// A version to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mint {
    /// Who asks: it is made once.
    pub request: RequestId,
    /// Calls of the same origin below this number are over, and send nothing any more.
    pub open_from: u64,
    /// Who is to make it; nobody else remembers whether it was made.
    pub actor: Actor,
    /// What it overwrites.
    pub context: VersionClock,
    /// Whether owners that were asked have seen all of that.
    pub is_proven: bool,
    /// What it says.
    pub change: KvChange,
}

/// What becomes of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KvChange {
    /// It has this value.
    Put {
        /// The value.
        bytes: Bytes,
        /// After so many milliseconds it has ended; `None`: never.
        ttl_ms: Option<u64>,
    },
    /// It has none.
    Delete,
}

/// The steps of an entry's end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettleStep {
    /// Nothing yet: whether all are alike.
    Compare,
    /// All are alike, and nothing of it is alive: it is forgotten.
    Reap,
    /// All are alike: these actors are forgotten.
    Prune(Vec<Actor>),
}

/// An owner's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KvAnswer {
    /// What it holds.
    Held(KvEntry),
    /// It was made, now or before.
    Minted {
        /// Which version it is.
        dot: VersionDot,
        /// All that the owner holds.
        entry: KvEntry,
    },
    /// It is done.
    Done,
    /// It is not.
    Refused(KvRefusal),
}

/// Why an owner refuses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KvRefusal {
    /// The range has other owners now: these.
    #[error("the range is at epoch {}", .0.epoch)]
    OtherConfiguration(Configuration),
    /// This store does not own the range.
    #[error("the store does not own the range")]
    NoOwner,
    /// It was away for so long that it has to be told first what it missed.
    #[error("the store has not caught up")]
    Behind,
    /// The version is to be made by an actor that is no more: by this one it can be.
    #[error("another actor")]
    OtherActor(Actor),
    /// The call is over.
    #[error("the call is over")]
    Over,
    /// Too many calls of one node are open: later.
    #[error("too many calls are open")]
    Busy,
    /// A dot, an epoch or a turn that nobody can have given.
    #[error("too far ahead")]
    TooFarAhead,
    /// A turn is open.
    #[error("a turn is open")]
    Blocked(Ballot),
    /// The key is written by conditional puts.
    #[error("the key is written by conditional puts")]
    Conditional,
    /// Too much of it.
    #[error(transparent)]
    Put(#[from] PutError),
    /// A life of no time, or too long.
    #[error("a value lives 1 to {TTL_MS_MAX} ms")]
    Ttl,
    /// The owner does not hold the same, or it is too early.
    #[error("not alike")]
    NotAlike,
    /// The store keeps no such hint: it has no room for it, or it is too old.
    #[error("the store keeps no such hint")]
    NoHint,
}

/// What is held once what others hold is taken in.
///
/// # Errors
/// Something of it is refused.
pub fn merged(held: &KvEntry, theirs: &KvEntry) -> Result<KvEntry, KvRefusal> {
    let mut merged = held.clone();
    merged.merge(theirs)?;
    if merged.siblings.versions().len() > SIBLINGS_MERGED_MAX {
        return Err(PutError::Siblings.into());
    }
    if merged.siblings.clock().entries().len() > ACTORS_MAX {
        return Err(PutError::Actors.into());
    }
    Ok(merged)
}

impl KvAsk {
    /// About how many bytes of users it carries.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match self {
            Self::Get | Self::Promise(_) | Self::Settle { .. } => 0,
            Self::Mint(mint) => mint.context.bytes() + mint.change.bytes(),
            Self::Merge(entry) => entry.bytes(),
            Self::Accept(accepted) => accepted.bytes(),
            Self::Extend { write, .. } => write.bytes(),
        }
    }
}

impl KvAnswer {
    /// About how many bytes of users it carries.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match self {
            Self::Held(entry) | Self::Minted { entry, .. } => entry.bytes(),
            Self::Done | Self::Refused(_) => 0,
        }
    }
}

impl KvChange {
    fn bytes(&self) -> usize {
        match self {
            Self::Put { bytes, .. } => bytes.len(),
            Self::Delete => 0,
        }
    }

    /// What a version says by it that is made now.
    ///
    /// # Errors
    /// It is too large, or lives too long.
    pub fn content(&self, now_ms: u64) -> Result<VersionContent, KvRefusal> {
        let Self::Put { bytes, ttl_ms } = self else {
            return Ok(VersionContent::Tombstone);
        };
        if bytes.len() > VALUES_BYTES_MAX {
            return Err(PutError::Bytes.into());
        }
        if ttl_ms.is_some_and(|ttl_ms| !(1..=TTL_MS_MAX).contains(&ttl_ms)) {
            return Err(KvRefusal::Ttl);
        }
        Ok(VersionContent::Value {
            bytes: Bytes::clone(bytes),
            expires_ms: ttl_ms.map(|ttl_ms| now_ms.saturating_add(ttl_ms)),
        })
    }
}

impl From<Unchanged> for KvRefusal {
    fn from(unchanged: Unchanged) -> Self {
        match unchanged {
            Unchanged::Blocked { held } => Self::Blocked(held),
            Unchanged::Conditional => Self::Conditional,
            Unchanged::TooFarAhead => Self::TooFarAhead,
            Unchanged::NotAlike => Self::NotAlike,
        }
    }
}
