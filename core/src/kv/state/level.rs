//! How many owners have to answer. They count against N also while a range has fewer owners. Pure. Spec:
//! sharding 5.6, 10.19; S-334; reliability B-62.

use core::fmt;

use super::table::RangeLevels;

/// How many of the N copies have to have a write, or to be read, before a call counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Level {
    /// One.
    One,
    /// More than half of them.
    #[default]
    Quorum,
    /// Each.
    All,
    /// So many.
    Replicas(u16),
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::One => f.write_str("one"),
            Self::Quorum => f.write_str("quorum"),
            Self::All => f.write_str("all"),
            Self::Replicas(count) => write!(f, "{count}"),
        }
    }
}

/// A level that no N copies can meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("of {copies} copies 1 to {copies} can be asked for, not {found}")]
pub struct LevelError {
    /// How many copies there are.
    pub copies: usize,
    /// How many were asked for.
    pub found: usize,
}

/// Half of them and one more.
#[must_use]
pub const fn quorum(copies: usize) -> usize {
    copies / 2 + 1
}

impl Level {
    /// How many that are of so many copies.
    ///
    /// # Errors
    /// [`LevelError`] if that is none, or more than there are.
    pub fn of(self, copies: usize) -> Result<usize, LevelError> {
        let found = match self {
            Self::One => 1,
            Self::Quorum => quorum(copies),
            Self::All => copies,
            Self::Replicas(count) => usize::from(count),
        };
        if (1..=copies).contains(&found) {
            Ok(found)
        } else {
            Err(LevelError { copies, found })
        }
    }
}

impl RangeLevels {
    /// How many take part in a decision about a key: any two decisions, any decision and every put at the
    /// least level, and any decision and what a newcomer was given, have an owner in common.
    #[must_use]
    pub fn decisive(self) -> usize {
        quorum(self.copies()).max(self.writes()).max(self.merges())
    }

    /// Whether every get at the least level meets every put at the least level.
    #[must_use]
    pub const fn is_strict(self) -> bool {
        self.reads() + self.writes() > self.copies()
    }
}
