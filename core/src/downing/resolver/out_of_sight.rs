//! Since when the others may have missed this side. They decide a stable period after that, and whoever wins
//! the lease gives it back in time: after that it says nothing any more. Values only. Spec: membership 3.6,
//! 8.5.

use core::time::Duration;

use crate::time::Instant;

/// See the module.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OutOfSight {
    /// Members are missing here since then without interruption, or this process stood still before they
    /// were.
    since: Option<Instant>,
    own_pause: OwnPause,
}

/// Whether this process stood still, and others may have gone on without it. `since` is the last moment it is
/// known to have run.
#[derive(Clone, Copy, Debug, Default)]
enum OwnPause {
    #[default]
    None,
    /// Nobody who was reached after it has counted this process in.
    Unanswered { since: Instant },
    /// Somebody has. Both may have stood still: who is missed here before `until` may have been lost
    /// meanwhile.
    Answered { since: Instant, until: Instant },
}

impl OutOfSight {
    /// Whether full members are missing now.
    pub(super) fn on_view(&mut self, now: Instant, is_anybody_lost: bool) {
        self.since = is_anybody_lost.then(|| self.since_at(now));
    }

    /// This process stood still from `since` until now.
    pub(super) fn on_paused(&mut self, since: Instant) {
        self.own_pause = OwnPause::Unanswered {
            since: self.since_at(since),
        };
    }

    /// Somebody who was reached since then counts this process in; the pause counts until then.
    pub(super) const fn on_still_member(&mut self, until: Instant) {
        match self.own_pause {
            OwnPause::None | OwnPause::Answered { .. } => {}
            OwnPause::Unanswered { since } => self.own_pause = OwnPause::Answered { since, until },
        }
    }

    /// For how long the others may have missed this side; zero while nobody is missing here.
    pub(super) fn for_how_long(&self, now: Instant) -> Duration {
        self.since.map_or(Duration::ZERO, |since| now.since(since))
    }

    /// If somebody is missed here from that moment on.
    fn since_at(&self, at: Instant) -> Instant {
        let paused = match self.own_pause {
            OwnPause::Unanswered { since } => Some(since),
            OwnPause::Answered { since, until } if at < until => Some(since),
            OwnPause::None | OwnPause::Answered { .. } => None,
        };
        self.since.or(paused).unwrap_or(at)
    }
}
