//! The clock of a runtime on an operating system: both of the system's, read in one place. Decides nothing.
//! Spec: `ARCHITECTURE.md`.

use std::time::{Duration, Instant as SystemInstant, SystemTime, UNIX_EPOCH};

use quorate_core::time::{Instant, Now};

/// A monotonic clock that counts from when it was made, and the wall clock. Copies count from the same
/// moment.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: SystemInstant,
}

impl Clock {
    /// A clock that begins now.
    #[must_use]
    pub fn start() -> Self {
        Self {
            origin: SystemInstant::now(),
        }
    }

    /// Both clocks.
    #[must_use]
    pub fn now(&self) -> Now {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Now {
            mono: self.mono(),
            unix_ms: micros(wall) / 1_000,
        }
    }

    /// The monotonic clock alone, for half the price.
    #[must_use]
    pub fn mono(&self) -> Instant {
        Instant::from_micros(micros(self.origin.elapsed()))
    }

    /// The system's instant for one of this clock; `None` for a deadline beyond what the system can hold,
    /// which never comes.
    #[must_use]
    pub fn system(&self, at: Instant) -> Option<SystemInstant> {
        self.origin.checked_add(Duration::from_micros(at.as_micros()))
    }
}

/// In 64 bits, unlike [`Duration::as_micros`]: the time is asked for with every message.
fn micros(duration: Duration) -> u64 {
    let seconds = duration.as_secs().saturating_mul(1_000_000);
    seconds.saturating_add(u64::from(duration.subsec_micros()))
}
