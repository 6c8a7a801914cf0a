//! How long an entity waits for a store that is in trouble. Counts the pauses it asks for; reads no clock.

use core::time::Duration;

/// The first pause after the store could not do what it was asked; doubled each time. As long as the store's
/// own thread waits before it opens the store again.
const PAUSE_MIN: Duration = Duration::from_millis(50);

/// The longest pause: an entity goes on within seconds of its store.
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// For so long commands wait for a store that is in trouble; then they are answered that nothing was done.
/// Below half of the default time of an ask, so that the asker hears why.
const PATIENCE: Duration = Duration::from_secs(2);

/// How long an entity has been kept waiting.
#[derive(Clone, Debug)]
pub(super) struct StoreTrouble {
    pause: Duration,
    waited: Duration,
}

impl Default for StoreTrouble {
    fn default() -> Self {
        Self {
            pause: PAUSE_MIN,
            waited: Duration::ZERO,
        }
    }
}

impl StoreTrouble {
    /// Whether commands have waited long enough.
    pub(super) fn is_long(&self) -> bool {
        self.waited >= PATIENCE
    }

    /// For how long it waits now: a little longer than the last time.
    pub(super) fn pause(&mut self) -> Duration {
        let pause = self.pause;
        self.waited = self.waited.saturating_add(pause);
        self.pause = (pause * 2).min(PAUSE_MAX);
        pause
    }
}
