//! Time as a value: the host's monotonic clock in microseconds, and the wall clock where a value needs it.
//! Never reads a clock. Arithmetic saturates, so no peer or host value can overflow it. Spec:
//! `ARCHITECTURE.md`.

use core::fmt;
use core::ops::{Add, Sub};
use core::time::Duration;

/// A point of the host's monotonic clock, in microseconds since an origin the host chose. Saturates at both
/// ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// The host's origin.
    pub const ZERO: Self = Self(0);
    /// Later than every deadline that can be reached.
    pub const MAX: Self = Self(u64::MAX);

    /// A point `micros` microseconds after the origin.
    #[must_use]
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// A point `millis` milliseconds after the origin, saturating.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000))
    }

    /// Microseconds since the origin.
    #[must_use]
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// Whole milliseconds since the origin.
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000
    }

    /// How long after `earlier` this is; zero if it is not after it.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, rhs: Duration) -> Self {
        Self(self.0.saturating_add(micros(rhs)))
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;

    fn sub(self, rhs: Duration) -> Self {
        Self(self.0.saturating_sub(micros(rhs)))
    }
}

impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:06}s", self.0 / 1_000_000, self.0 % 1_000_000)
    }
}

/// Both clocks at the moment of an input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// The monotonic clock: every protocol decision uses this one. Must never go backwards.
    pub mono: Instant,
    /// Milliseconds since the Unix epoch. Only ever a value carried to users (never decides membership).
    pub unix_ms: u64,
}

/// Microseconds of a duration, saturating at `u64::MAX`.
pub(crate) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates_at_both_ends() {
        assert_eq!(Instant::MAX + Duration::from_secs(1), Instant::MAX);
        assert_eq!(Instant::ZERO - Duration::from_secs(1), Instant::ZERO);
        assert_eq!(Instant::ZERO.since(Instant::from_millis(5)), Duration::ZERO);
        assert_eq!(
            Instant::from_millis(5).since(Instant::ZERO),
            Duration::from_millis(5)
        );
        assert_eq!(Instant::ZERO + Duration::MAX, Instant::MAX);
    }
}
