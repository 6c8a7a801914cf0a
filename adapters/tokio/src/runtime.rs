//! Tokio's clock and spawn. Decides nothing.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use quorate_driver::spi::Clock;
use quorate_driver::spi::Runtime;
use quorate_driver::spi::{Instant, Now};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

/// The tokio runtime a node was started in.
#[derive(Clone, Debug)]
pub struct TokioRuntime {
    handle: Handle,
    clock: Clock,
    /// The thread that drives it, if it is a node's own. Nothing is ever sent: letting go of it ends the
    /// thread.
    _thread: Option<Arc<oneshot::Sender<Infallible>>>,
}

/// How long tasks may go on after their node is gone: they say good-bye to their peers.
const LINGER: Duration = Duration::from_secs(3);

/// Between two looks whether they are done.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// A node's own runtime, until nobody holds it any more and its tasks have ended.
async fn drive(held: oneshot::Receiver<Infallible>) {
    // The error says that the last holder has let go.
    let _ = held.await;
    let tasks = Handle::current().metrics();
    let limit = tokio::time::Instant::now() + LINGER;
    while tasks.num_alive_tasks() > 0 && tokio::time::Instant::now() < limit {
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

impl TokioRuntime {
    /// The runtime the caller is in. Its monotonic clock starts here.
    ///
    /// # Errors
    /// The caller is not in a tokio runtime.
    pub fn current() -> io::Result<Self> {
        Ok(Self {
            handle: Handle::try_current().map_err(io::Error::other)?,
            clock: Clock::start(),
            _thread: None,
        })
    }
}

impl Runtime for TokioRuntime {
    fn now(&self) -> Now {
        self.clock.now()
    }

    fn mono(&self) -> Instant {
        self.clock.mono()
    }

    fn sleep_until(&self, at: Instant) -> impl Future<Output = ()> + Send + 'static {
        // A deadline beyond what the clock can hold is one that never comes: tokio caps it at about thirty
        // years.
        let until = self.clock.system(at);
        async move {
            match until {
                Some(until) => tokio::time::sleep_until(until.into()).await,
                None => std::future::pending().await,
            }
        }
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.handle.spawn(task);
    }

    fn dedicated(&self) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let handle = runtime.handle().clone();
        let (hold, held) = oneshot::channel();
        let name = "quorate-node".to_owned();
        std::thread::Builder::new()
            .name(name)
            .spawn(move || runtime.block_on(drive(held)))?;
        Ok(Self {
            handle,
            clock: self.clock,
            _thread: Some(Arc::new(hold)),
        })
    }
}
