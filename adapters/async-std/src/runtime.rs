//! Async-std's clock and spawn. Decides nothing.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use async_channel::{Receiver, Sender};
use async_executor::Executor;
use quorate_driver::spi::Clock;
use quorate_driver::spi::Runtime;
use quorate_driver::spi::{Instant, Now};

/// The global executor of [`async_std::task::spawn`], or a node's own, and a clock.
#[derive(Clone, Debug)]
pub struct AsyncStdRuntime {
    clock: Clock,
    own: Option<Arc<AsyncStdExecutor>>,
}

/// An executor with a thread of its own, which ends when nobody holds this any more: nothing is ever sent.
#[derive(Debug)]
struct AsyncStdExecutor {
    executor: Arc<Executor<'static>>,
    _hold: Sender<Infallible>,
}

/// How long tasks may go on after their node is gone: they say good-bye to their peers.
const LINGER: Duration = Duration::from_secs(3);

/// Between two looks whether they are done.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// A node's own executor, until nobody holds it any more and its tasks have ended. A task that panics is
/// gone, the others go on.
async fn drive(executor: Arc<Executor<'static>>, held: Receiver<Infallible>) {
    let until_done = async {
        // The error says that the last holder has let go.
        let _ = held.recv().await;
        let limit = std::time::Instant::now() + LINGER;
        while !executor.is_empty() && std::time::Instant::now() < limit {
            async_std::task::sleep(LOOK_AGAIN).await;
        }
    };
    executor.run(until_done).await;
}

impl AsyncStdRuntime {
    /// A runtime whose monotonic clock starts here.
    #[must_use]
    pub fn new() -> Self {
        Self {
            clock: Clock::start(),
            own: None,
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
        self.clock.now()
    }

    fn mono(&self) -> Instant {
        self.clock.mono()
    }

    fn sleep_until(&self, at: Instant) -> impl Future<Output = ()> + Send + 'static {
        // A deadline beyond what the clock can hold is one that never comes.
        let until = self.clock.system(at);
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
        match &self.own {
            Some(own) => own.executor.spawn(task).detach(),
            None => drop(async_std::task::spawn(task)),
        }
    }

    fn dedicated(&self) -> io::Result<Self> {
        let executor = Arc::new(Executor::new());
        let (hold, held) = async_channel::bounded(1);
        let driven = Arc::clone(&executor);
        let name = "quorate-node".to_owned();
        let thread = std::thread::Builder::new().name(name);
        thread.spawn(move || async_std::task::block_on(drive(driven, held)))?;
        Ok(Self {
            clock: self.clock,
            own: Some(Arc::new(AsyncStdExecutor {
                executor,
                _hold: hold,
            })),
        })
    }
}
