//! Since when the others may have missed this side. They decide a stable period after that, and whoever wins the lease gives it
//! back in time: after that it says nothing any more. Values only. Spec: membership 3.6, 8.5.

use core::time::Duration;

use crate::time::Instant;

/// See the module.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OutOfSight {
    /// Members are missing here since then without interruption, or this process stood still before they were.
    since: Option<Instant>,
    own_pause: Option<OwnPause>,
}

/// This process stood still, and others may have gone on without it.
#[derive(Clone, Copy, Debug)]
struct OwnPause {
    /// The last moment it is known to have run.
    since: Instant,
    /// Until when it counts, once somebody counts this process in.
    until: Option<Instant>,
}

impl OutOfSight {
    /// Whether full members are missing now.
    pub(super) fn on_view(&mut self, now: Instant, is_anybody_lost: bool) {
        self.since = is_anybody_lost.then(|| self.since_at(now));
    }

    /// This process stood still from `since` until now.
    pub(super) fn on_paused(&mut self, since: Instant) {
        let since = self.since_at(since);
        self.own_pause = Some(OwnPause { since, until: None });
        self.since = self.since.map(|_| since);
    }

    /// Somebody who was reached since then counts this process in. Both may have stood still: who is missed here before
    /// `until` may have been lost meanwhile.
    pub(super) fn on_still_member(&mut self, until: Instant) {
        if let Some(own_pause) = &mut self.own_pause {
            own_pause.until.get_or_insert(until);
        }
    }

    /// For how long the others may have missed this side; zero while nobody is missing here.
    pub(super) fn for_how_long(&self, now: Instant) -> Duration {
        self.since.map_or(Duration::ZERO, |since| now.since(since))
    }

    /// If somebody is missed here from that moment on.
    fn since_at(&self, at: Instant) -> Instant {
        let is_open = |own_pause: &OwnPause| own_pause.until.is_none_or(|until| at < until);
        let unseen = self.own_pause.filter(is_open).map(|own_pause| own_pause.since);
        self.since.or(unseen).unwrap_or(at)
    }
}
