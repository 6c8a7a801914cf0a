//! Smol's clock and spawn. Decides nothing.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use quorate_driver::spi::Clock;
use quorate_driver::spi::Runtime;
use quorate_driver::spi::{Instant, Now};
use smol::channel::{Receiver, Sender};
use smol::{Executor, Timer};

/// The global executor of [`smol::spawn`], or a node's own, and a clock.
#[derive(Clone, Debug)]
pub struct SmolRuntime {
    clock: Clock,
    own: Option<Arc<SmolExecutor>>,
}

/// An executor with a thread of its own, which ends when nobody holds this any more: nothing is ever sent.
#[derive(Debug)]
struct SmolExecutor {
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
            Timer::after(LOOK_AGAIN).await;
        }
    };
    executor.run(until_done).await;
}

impl SmolRuntime {
    /// A runtime whose monotonic clock starts here.
    #[must_use]
    pub fn new() -> Self {
        Self {
            clock: Clock::start(),
            own: None,
        }
    }
}

impl Default for SmolRuntime {
    fn default() -> Self {
        Self::new()
    }
}

impl Runtime for SmolRuntime {
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
            until.map_or_else(Timer::never, Timer::at).await;
        }
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        // The executor's threads catch what a task panics with, and run the others.
        match &self.own {
            Some(own) => own.executor.spawn(task).detach(),
            None => smol::spawn(task).detach(),
        }
    }

    fn dedicated(&self) -> io::Result<Self> {
        let executor = Arc::new(Executor::new());
        let (hold, held) = smol::channel::bounded(1);
        let driven = Arc::clone(&executor);
        let name = "quorate-node".to_owned();
        std::thread::Builder::new()
            .name(name)
            .spawn(move || smol::block_on(drive(driven, held)))?;
        Ok(Self {
            clock: self.clock,
            own: Some(Arc::new(SmolExecutor {
                executor,
                _hold: hold,
            })),
        })
    }
}
