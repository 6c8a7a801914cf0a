//! What becomes of an entity that fails: how it can fail, and who says what becomes of it. What follows from
//! that the core decides. Spec: sharding 1.3 (entity supervision).

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use quorate_core::supervision::Directive;
use quorate_core::supervision::RestartSettings;

/// How an entity failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum EntityFailure<'a> {
    /// Its code panicked; the panic's text, if it has one.
    Panic(&'a str),
    /// Its handler gave up with this error ([`EntityContext::fail`](crate::EntityContext::fail)).
    /// `downcast_ref` tells which it is.
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

type Decide = dyn Fn(&EntityFailure<'_>) -> Directive + Send + Sync;

/// What happens to entities of a kind that fail ([`Kind::supervision`](crate::Kind::supervision)). By default
/// they are restarted: at once after the first failure, then after a pause of 200 ms, doubled by each further
/// one up to 10 s, and one that fails the eleventh time within a minute ends. Mirrors `SupervisorStrategy`
/// and `BackoffSupervisor` of Akka.
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
    pub(crate) restarts: RestartSettings,
}

impl Default for Supervision {
    fn default() -> Self {
        Self::always(Directive::Restart)
    }
}

impl Supervision {
    /// Decides the same for every failure.
    #[must_use]
    pub fn always(directive: Directive) -> Self {
        Self {
            decide: Arc::new(move |_| directive),
            restarts: RestartSettings::default(),
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

    /// How often an entity is restarted: one that fails once more within this time ends (default 10 within 60
    /// s; zero: it ends at its first failure). After so long without a failure counting starts again.
    #[must_use]
    pub const fn restarts(mut self, max: u32, within: Duration) -> Self {
        self.restarts.restarts_max = max;
        self.restarts.within = within;
        self
    }

    /// The pause before the second restart in a row, and the longest there is (default 200 ms and 10 s); each
    /// further one is twice as long. The first restart is at once. Messages wait meanwhile, within the bounds
    /// of the mailbox.
    #[must_use]
    pub const fn backoff(mut self, min: Duration, max: Duration) -> Self {
        self.restarts.backoff_min = min;
        self.restarts.backoff_max = max;
        self
    }

    pub(crate) fn decision(&self, failure: &EntityFailure<'_>) -> Directive {
        (self.decide)(failure)
    }
}

impl fmt::Debug for Supervision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Supervision")
            .field("restarts", &self.restarts)
            .finish_non_exhaustive()
    }
}
