//! Tokio's clock, spawn and signals. Decides nothing.

use std::future::Future;
use std::io;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use quorate_driver::Runtime;
use quorate_driver::core::{Instant, Now};
use tokio::runtime::Handle;

/// The tokio runtime a node was started in.
#[derive(Clone, Debug)]
pub struct TokioRuntime {
    handle: Handle,
    origin: tokio::time::Instant,
}

impl TokioRuntime {
    /// The runtime the caller is in. Its monotonic clock starts here.
    ///
    /// # Errors
    /// The caller is not in a tokio runtime.
    pub fn current() -> io::Result<Self> {
        Ok(Self {
            handle: Handle::try_current().map_err(io::Error::other)?,
            origin: tokio::time::Instant::now(),
        })
    }
}

impl Runtime for TokioRuntime {
    fn now(&self) -> Now {
        let micros = |duration: Duration| u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Now {
            mono: Instant::from_micros(micros(self.origin.elapsed())),
            unix_ms: micros(wall) / 1_000,
        }
    }

    fn sleep_until(&self, at: Instant) -> impl Future<Output = ()> + Send + 'static {
        // A deadline beyond what the clock can hold is one that never comes: tokio caps it at about thirty years.
        let until = self.origin.checked_add(Duration::from_micros(at.as_micros()));
        async move {
            match until {
                Some(until) => tokio::time::sleep_until(until).await,
                None => std::future::pending().await,
            }
        }
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.handle.spawn(task);
    }
}

/// Completes at the next SIGTERM or SIGINT.
#[cfg(unix)]
pub(crate) async fn shutdown_signal() -> io::Result<()> {
    use std::pin::pin;
    use std::task::Poll;
    use tokio::signal::unix::{SignalKind, signal};

    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let (mut terminated, mut interrupted) = (pin!(terminate.recv()), pin!(interrupt.recv()));
    std::future::poll_fn(|cx| {
        if terminated.as_mut().poll(cx).is_ready() || interrupted.as_mut().poll(cx).is_ready() {
            return Poll::Ready(());
        }
        Poll::Pending
    })
    .await;
    Ok(())
}

/// Completes at the next Ctrl-C.
#[cfg(not(unix))]
pub(crate) async fn shutdown_signal() -> io::Result<()> {
    tokio::signal::ctrl_c().await
}
