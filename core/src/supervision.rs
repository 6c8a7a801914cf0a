//! What becomes of an entity that fails: restarted after a pause, ended, and its shard with it. Values
//! without a machine: a host has one [`RestartHistory`] for each entity that failed. Never reads a clock: it
//! is told the time. Spec: sharding 1.3 (entity supervision).

use core::time::Duration;

use crate::time::Instant;

/// What becomes of an entity that failed over a message. The asker gets
/// [`EntityStopped`](crate::sharding::errors::AskFailure::EntityStopped) in every case: the message may have
/// been handled in part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Directive {
    /// It goes on with the next message and keeps its state. After a panic, or an error while it starts, its
    /// state cannot be trusted: it is restarted then ([`Self::Restart`]).
    Resume,
    /// It is restarted, after a pause if it failed before; its timers are gone, and what waits for it is
    /// handled by the new one, in order.
    Restart,
    /// It ends. What waits for it is not handled: those asks fail with
    /// [`EntityStoppedUnhandled`](crate::sharding::errors::AskFailure::EntityStoppedUnhandled). The next
    /// message makes a new one.
    Stop,
    /// It ends, and so does every entity of its shard on the spot, because what went wrong concerns them all.
    /// Their next messages make new ones. For the instance of a singleton the same as [`Self::Stop`].
    Escalate,
}

/// How often an entity is restarted, and after which pauses. Mirrors `BackoffSupervisor` of Akka.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestartSettings {
    /// One that fails once more within [`Self::within`] ends: 10 by default; 0: it ends at its first failure.
    pub restarts_max: u32,
    /// After so long without a failure counting starts again: a minute by default.
    pub within: Duration,
    /// The pause before the second restart in a row, doubled by each further one: 200 ms by default. The
    /// first is at once.
    pub backoff_min: Duration,
    /// The longest pause: 10 s by default.
    pub backoff_max: Duration,
}

impl Default for RestartSettings {
    fn default() -> Self {
        Self {
            restarts_max: 10,
            within: Duration::from_secs(60),
            backoff_min: Duration::from_millis(200),
            backoff_max: Duration::from_secs(10),
        }
    }
}

/// What a host does with an entity that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SupervisionVerdict {
    /// It goes on as it is.
    GoOn,
    /// It is restarted after so long. Messages wait meanwhile.
    Restart {
        /// The pause.
        after: Duration,
    },
    /// It ends.
    Stop,
    /// It ends: it has failed too often. The next message makes a new one.
    GiveUp,
    /// It ends, and [`HostReport::Escalated`](crate::input::HostReport::Escalated) is said of it.
    Escalate,
}

/// How often an entity was restarted lately.
#[derive(Clone, Debug, Default)]
pub struct RestartHistory {
    count: u32,
    last: Option<Instant>,
}

impl RestartHistory {
    /// One more failure, for which this was decided. `has_state`: its handler gave up, and its state is what
    /// the handler made of it; otherwise it may be anything.
    pub fn on_failure(
        &mut self,
        settings: &RestartSettings,
        directive: Directive,
        has_state: bool,
        now: Instant,
    ) -> SupervisionVerdict {
        match directive {
            Directive::Resume if has_state => SupervisionVerdict::GoOn,
            Directive::Resume | Directive::Restart => self.next(settings, now),
            Directive::Stop => SupervisionVerdict::Stop,
            Directive::Escalate => SupervisionVerdict::Escalate,
        }
    }

    fn next(&mut self, settings: &RestartSettings, now: Instant) -> SupervisionVerdict {
        if self.last.is_some_and(|last| now.since(last) >= settings.within) {
            self.count = 0;
        }
        self.last = Some(now);
        if self.count >= settings.restarts_max {
            return SupervisionVerdict::GiveUp;
        }
        self.count += 1;
        let after = self.count.checked_sub(2).map_or(Duration::ZERO, |doublings| {
            let factor = 1_u32.checked_shl(doublings).unwrap_or(u32::MAX);
            settings
                .backoff_min
                .saturating_mul(factor)
                .min(settings.backoff_max)
        });
        SupervisionVerdict::Restart { after }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    fn fail(restarts: &mut RestartHistory, settings: &RestartSettings, now: Instant) -> Option<u128> {
        match restarts.on_failure(settings, Directive::Restart, true, now) {
            SupervisionVerdict::Restart { after } => Some(after.as_millis()),
            SupervisionVerdict::GiveUp => None,
            verdict
            @ (SupervisionVerdict::GoOn | SupervisionVerdict::Stop | SupervisionVerdict::Escalate) => {
                panic!("{verdict:?}")
            }
        }
    }

    #[test]
    fn pauses_double_up_to_the_longest_and_one_failure_too_many_is_the_last() {
        let settings = RestartSettings {
            restarts_max: 40,
            ..RestartSettings::default()
        };
        let mut restarts = RestartHistory::default();
        let mut now = Instant::ZERO;
        let mut pauses = Vec::new();
        for _ in 0..41 {
            now = now + Duration::from_secs(1);
            pauses.push(fail(&mut restarts, &settings, now));
        }
        let first = [0, 200, 400, 800, 1_600, 3_200, 6_400, 10_000, 10_000].map(Some);
        assert_eq!(pauses[..9], first);
        assert_eq!((pauses[39], pauses[40]), (Some(10_000), None));
        // A calm minute, and all is forgotten.
        now = now + Duration::from_secs(60);
        assert_eq!(fail(&mut restarts, &settings, now), Some(0));
    }

    #[test]
    fn without_restarts_the_first_failure_is_the_last() {
        let settings = RestartSettings {
            restarts_max: 0,
            ..RestartSettings::default()
        };
        assert_eq!(
            fail(&mut RestartHistory::default(), &settings, Instant::ZERO),
            None
        );
    }

    #[test]
    fn it_goes_on_only_with_a_state_that_can_be_trusted_and_who_goes_on_has_not_failed() {
        let mut restarts = RestartHistory::default();
        let settings = RestartSettings {
            restarts_max: 1,
            ..RestartSettings::default()
        };
        let mut on =
            |directive, has_state| restarts.on_failure(&settings, directive, has_state, Instant::ZERO);
        for _ in 0..3 {
            assert_eq!(on(Directive::Resume, true), SupervisionVerdict::GoOn);
            assert_eq!(on(Directive::Stop, true), SupervisionVerdict::Stop);
            assert_eq!(on(Directive::Escalate, false), SupervisionVerdict::Escalate);
        }
        let after = Duration::ZERO;
        assert_eq!(
            on(Directive::Resume, false),
            SupervisionVerdict::Restart { after }
        );
        assert_eq!(on(Directive::Resume, false), SupervisionVerdict::GiveUp);
    }
}
