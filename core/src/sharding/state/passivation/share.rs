//! Numbers of the strategies that are checked when they are made: shares of a whole and factors; and what was
//! wrong with one.

use core::cmp::Ordering;

use super::SEGMENTS_MAX;

/// Why passivation settings were refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PassivationError {
    /// A share is no number from 0 to 1.
    #[error("{what} must be a number from 0 to 1")]
    NoShare {
        /// Of what.
        what: &'static str,
    },
    /// A factor is no finite number above 0, or is too large.
    #[error("{what} must be above 0 and at most {max}")]
    NoFactor {
        /// Which.
        what: &'static str,
        /// The largest.
        max: u32,
    },
    /// A duration is zero.
    #[error("{what} must be above zero")]
    Zero {
        /// Which.
        what: &'static str,
    },
    /// The segments of a segmented recency list are none, too many, or more than the whole.
    #[error("there are 1 to {SEGMENTS_MAX} segments, and together they are at most the whole")]
    BadSegments,
    /// The least share of the window is above the largest, or the first is outside of both.
    #[error("the window's first share must lie between the least and the largest")]
    BadRange,
}

/// A part of a whole: a number from 0 to 1.
#[derive(Clone, Copy, Debug)]
pub struct Share(pub(super) f64);

impl Share {
    /// Nothing.
    pub const NONE: Self = Self(0.0);
    /// The whole.
    pub const WHOLE: Self = Self(1.0);

    /// A share, if it is one.
    #[must_use]
    pub const fn new(share: f64) -> Option<Self> {
        if share >= 0.0 && share <= 1.0 {
            // `+ 0.0` makes the negative zero the usual one.
            Some(Self(share + 0.0))
        } else {
            None
        }
    }

    pub(super) fn checked(what: &'static str, share: f64) -> Result<Self, PassivationError> {
        Self::new(share).ok_or(PassivationError::NoShare { what })
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> f64 {
        self.0
    }

    /// So much of a number, without what is less than one.
    #[must_use]
    pub fn of(self, whole: usize) -> usize {
        // Never above `whole`, so the cast loses nothing.
        (libm::trunc(self.0 * whole as f64) as usize).min(whole)
    }
}

impl PartialEq for Share {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Share {}

impl PartialOrd for Share {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Share {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// A finite number above 0.
#[derive(Clone, Copy, Debug)]
pub struct Factor(pub(super) f64);

impl Factor {
    /// Largest factor that is accepted: a hundred times more than what is useful.
    const MAX: u32 = 1_000;

    pub(super) fn checked(what: &'static str, factor: f64) -> Result<Self, PassivationError> {
        if factor > 0.0 && factor <= f64::from(Self::MAX) {
            Ok(Self(factor))
        } else {
            let max = Self::MAX;
            Err(PassivationError::NoFactor { what, max })
        }
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> f64 {
        self.0
    }
}

impl PartialEq for Factor {
    fn eq(&self, other: &Self) -> bool {
        self.0.total_cmp(&other.0) == Ordering::Equal
    }
}

impl Eq for Factor {}
