//! What becomes of an entity that fails: the choices there are, who makes them, and how often one is made anew. Decides; does nothing.
//! Spec: sharding 1.3 (entity supervision).

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use quorate_core::time::Instant;

/// How an entity failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum EntityFailure<'a> {
    /// Its code panicked; the panic's text, if it has one.
    Panic(&'a str),
    /// Its handler gave up with this error ([`EntityContext::fail`](crate::EntityContext::fail)). `downcast_ref` tells which it is.
    Error(&'a (dyn Error + Send + Sync + 'static)),
}

impl fmt::Display for EntityFailure<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Panic(text) => write!(f, "panic: {text}"),
            Self::Error(error) => write!(f, "error: {error}"),
        }
    }
}

/// What becomes of an entity that failed over a message. Whoever asked hears
/// [`EntityStopped`](crate::core::AskFailure::EntityStopped) in every case: the message may have been handled in part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Directive {
    /// It goes on with the next message and keeps its state. After a panic, or an error while it starts, its state cannot be
    /// trusted: it is made anew then ([`Self::Restart`]).
    Resume,
    /// It is made anew, after a pause if it failed before; its timers are gone, and what waits for it is handled by the new one, in order.
    Restart,
    /// It ends. What waits for it is not handled: those asks fail with
    /// [`EntityStoppedUnhandled`](crate::core::AskFailure::EntityStoppedUnhandled). The next message makes a new one.
    Stop,
    /// It ends, and so does every entity of its shard on the spot, because what went wrong concerns them all. Their next messages
    /// make new ones. For the instance of a singleton the same as [`Self::Stop`].
    Escalate,
}

type Decide = dyn Fn(&EntityFailure<'_>) -> Directive + Send + Sync;

/// What becomes of the entities of a kind when they fail ([`Kind::supervision`](crate::Kind::supervision)). By default they are made
/// anew: at once after the first failure, then after a pause of 200 ms, doubled by each further one up to 10 s, and one that
/// fails the eleventh time within a minute ends. Mirrors `SupervisorStrategy` and `BackoffSupervisor` of the reference.
///
/// ```
/// use std::time::Duration;
/// use quorate_driver::{Directive, EntityFailure, Supervision};
///
/// let supervision = Supervision::default()
///     .backoff(Duration::from_millis(50), Duration::from_secs(2))
///     .restarts(5, Duration::from_secs(60))
///     .decide(|failure| match failure {
///         EntityFailure::Error(error) if error.is::<std::num::ParseIntError>() => Directive::Resume,
///         _ => Directive::Restart,
///     });
/// ```
#[derive(Clone)]
pub struct Supervision {
    decide: Arc<Decide>,
    restarts_max: u32,
    within: Duration,
    backoff_min: Duration,
    backoff_max: Duration,
}

impl Default for Supervision {
    fn default() -> Self {
        Self::always(Directive::Restart)
    }
}

impl Supervision {
    /// The same for every failure.
    #[must_use]
    pub fn always(directive: Directive) -> Self {
        Self {
            decide: Arc::new(move |_| directive),
            restarts_max: 10,
            within: Duration::from_secs(60),
            backoff_min: Duration::from_millis(200),
            backoff_max: Duration::from_secs(10),
        }
    }

    /// Decides by the failure. Called on the entity's task; if it panics, the entity ends.
    #[must_use]
    pub fn decide(
        mut self,
        decide: impl Fn(&EntityFailure<'_>) -> Directive + Send + Sync + 'static,
    ) -> Self {
        self.decide = Arc::new(decide);
        self
    }

    /// How often an entity is made anew: one that fails once more within this time ends (default 10 within 60 s; zero: it ends at
    /// its first failure). After so long without a failure counting begins anew.
    #[must_use]
    pub const fn restarts(mut self, max: u32, within: Duration) -> Self {
        self.restarts_max = max;
        self.within = within;
        self
    }

    /// The pause before the second restart in a row, and the longest there is (default 200 ms and 10 s); each further one is
    /// twice as long. The first restart is at once. Messages wait meanwhile, within the bounds of the mailbox.
    #[must_use]
    pub const fn backoff(mut self, min: Duration, max: Duration) -> Self {
        self.backoff_min = min;
        self.backoff_max = max;
        self
    }

    pub(crate) fn decision(&self, failure: &EntityFailure<'_>) -> Directive {
        (self.decide)(failure)
    }
}

impl fmt::Debug for Supervision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Supervision")
            .field("restarts_max", &self.restarts_max)
            .field("within", &self.within)
            .field("backoff_min", &self.backoff_min)
            .field("backoff_max", &self.backoff_max)
            .finish_non_exhaustive()
    }
}

/// How often an entity was made anew lately.
#[derive(Debug, Default)]
pub(crate) struct Restarts {
    count: u32,
    last: Option<Instant>,
}

impl Restarts {
    /// One more failure after which it is to be made anew: after which pause; `None` if it is one too many.
    pub(crate) fn next(&mut self, supervision: &Supervision, now: Instant) -> Option<Duration> {
        if self
            .last
            .is_some_and(|last| now.since(last) >= supervision.within)
        {
            self.count = 0;
        }
        self.last = Some(now);
        if self.count >= supervision.restarts_max {
            return None;
        }
        self.count += 1;
        let doublings = self.count.checked_sub(2);
        Some(doublings.map_or(Duration::ZERO, |doublings| {
            let factor = 1_u32.checked_shl(doublings).unwrap_or(u32::MAX);
            supervision
                .backoff_min
                .saturating_mul(factor)
                .min(supervision.backoff_max)
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest_and_one_failure_too_many_is_the_last() {
        let supervision = Supervision::default().restarts(40, Duration::from_secs(60));
        let mut restarts = Restarts::default();
        let mut now = Instant::ZERO;
        let mut pauses = Vec::new();
        for _ in 0..41 {
            now = now + Duration::from_secs(1);
            pauses.push(restarts.next(&supervision, now).map(|pause| pause.as_millis()));
        }
        let first = [0, 200, 400, 800, 1_600, 3_200, 6_400, 10_000, 10_000].map(Some);
        assert_eq!(pauses[..9], first);
        assert_eq!((pauses[39], pauses[40]), (Some(10_000), None));
        // A calm minute, and all is forgotten.
        now = now + Duration::from_secs(60);
        assert_eq!(restarts.next(&supervision, now), Some(Duration::ZERO));
    }

    #[test]
    fn without_restarts_the_first_failure_is_the_last() {
        let supervision = Supervision::default().restarts(0, Duration::from_secs(60));
        assert_eq!(Restarts::default().next(&supervision, Instant::ZERO), None);
    }
}
