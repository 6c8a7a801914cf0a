//! Async-std's clock, spawn and signals. Decides nothing.

use std::future::Future;
use std::io;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_signal::{Signal, Signals};
use async_std::stream::StreamExt;
use quorate_driver::Runtime;
use quorate_driver::core::{Instant, Now};

/// The global executor of [`async_std::task::spawn`] and a clock.
#[derive(Clone, Copy, Debug)]
pub struct AsyncStdRuntime {
    origin: std::time::Instant,
}

impl AsyncStdRuntime {
    /// A runtime whose monotonic clock starts here.
    #[must_use]
    pub fn new() -> Self {
        Self {
            origin: std::time::Instant::now(),
        }
    }
}

impl Default for AsyncStdRuntime {
    fn default() -> Self {
        Self::new()
    }
}

impl Runtime for AsyncStdRuntime {
    fn now(&self) -> Now {
        let micros = |duration: Duration| u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Now {
            mono: Instant::from_micros(micros(self.origin.elapsed())),
            unix_ms: micros(wall) / 1_000,
        }
    }

    fn sleep_until(&self, at: Instant) -> impl Future<Output = ()> + Send + 'static {
        // A deadline beyond what the clock can hold is one that never comes.
        let until = self.origin.checked_add(Duration::from_micros(at.as_micros()));
        async move {
            match until {
                Some(until) => {
                    async_std::task::sleep(until.saturating_duration_since(std::time::Instant::now())).await;
                }
                None => std::future::pending().await,
            }
        }
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        // The executor's threads catch what a task panics with, and run the others.
        drop(async_std::task::spawn(task));
    }
}

/// Completes at the next SIGTERM or SIGINT; elsewhere than on Unix at the next Ctrl-C.
pub(crate) async fn shutdown_signal() -> io::Result<()> {
    #[cfg(unix)]
    let mut signals = Signals::new([Signal::Term, Signal::Int])?;
    #[cfg(not(unix))]
    let mut signals = Signals::new([Signal::Int])?;
    match signals.next().await {
        Some(signal) => signal.map(|_| ()),
        None => std::future::pending().await,
    }
}
