//! What runs in the background of a node for its users: on their executor, by their clock. Decides nothing.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use quorate_core::time::{Instant, Now};

use crate::runtime::Runtime;
use crate::sync::Task;

/// Waits for a time, on whatever runtime the caller runs.
pub(crate) type Sleep = Arc<dyn Fn(Duration) -> Task + Send + Sync>;

/// The users' executor without its type.
#[derive(Clone)]
pub(crate) struct Background {
    now: Arc<dyn Fn() -> Now + Send + Sync>,
    spawn: Arc<dyn Fn(Task) + Send + Sync>,
    sleep: Arc<dyn Fn(Instant) -> Task + Send + Sync>,
}

impl Background {
    pub(crate) fn new<R: Runtime>(runtime: R) -> Self {
        let (clock, executor) = (runtime.clone(), runtime.clone());
        Self {
            now: Arc::new(move || clock.now()),
            spawn: Arc::new(move |task| executor.spawn(task)),
            sleep: Arc::new(move |at| Box::pin(runtime.sleep_until(at))),
        }
    }

    /// One that drops what it is given: of a node that is not there.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn none() -> Self {
        Self {
            now: Arc::new(Now::default),
            spawn: Arc::new(drop),
            sleep: Arc::new(|_| Box::pin(std::future::pending())),
        }
    }

    /// One by which no time passes: what it is given, and until when somebody waits, the test sees.
    #[cfg(test)]
    pub(crate) fn scripted(
        spawn: impl Fn(Task) + Send + Sync + 'static,
        sleep: impl Fn(Instant) + Send + Sync + 'static,
    ) -> Self {
        Self {
            spawn: Arc::new(spawn),
            sleep: Arc::new(move |at| {
                sleep(at);
                Box::pin(std::future::pending())
            }),
            ..Self::none()
        }
    }

    pub(crate) fn now(&self) -> Instant {
        (self.now)().mono
    }

    /// The wall clock, in milliseconds since 1970.
    pub(crate) fn unix_ms(&self) -> u64 {
        (self.now)().unix_ms
    }

    /// Runs a task to its end, detached.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        (self.spawn)(Box::pin(task));
    }

    /// Completes at `at`; never without a time.
    pub(crate) async fn sleep_until(&self, at: Option<Instant>) {
        match at {
            Some(at) => (self.sleep)(at).await,
            None => std::future::pending().await,
        }
    }

    /// Waits for a while, as durable entities do.
    pub(crate) fn sleeper(&self) -> Sleep {
        let own = self.clone();
        Arc::new(move |time: Duration| (own.sleep)(own.now() + time))
    }
}

impl fmt::Debug for Background {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Background")
    }
}
