//! What QUIC needs of a runtime beyond clock and spawn: quinn's own hooks into it, and names. Decides
//! nothing.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use quorate_driver::spi::Runtime;
use quorate_tokio::spi::TokioRuntime;

/// A runtime that QUIC runs on.
pub trait QuicRuntime: Runtime {
    /// Quinn's view of it; what quinn spawns runs here.
    fn quinn(&self) -> Arc<dyn quinn::Runtime>;

    /// The addresses behind a `host:port`.
    ///
    /// # Errors
    /// Whatever the system says, a name that nobody knows for instance.
    fn resolve(address: String) -> impl Future<Output = io::Result<Vec<SocketAddr>>> + Send;
}

/// Quinn's own hooks, except that what it spawns runs where the node's other tasks do: quinn knows global
/// executors only, and those are the users'.
#[derive(Debug)]
struct QuinnHooks<R, Q> {
    runtime: R,
    rest: Q,
}

impl<R: Runtime + fmt::Debug, Q: quinn::Runtime> quinn::Runtime for QuinnHooks<R, Q> {
    fn new_timer(&self, at: Instant) -> Pin<Box<dyn quinn::AsyncTimer>> {
        self.rest.new_timer(at)
    }

    fn spawn(&self, task: Pin<Box<dyn Future<Output = ()> + Send>>) {
        self.runtime.spawn(task);
    }

    fn wrap_udp_socket(&self, socket: std::net::UdpSocket) -> io::Result<Arc<dyn quinn::AsyncUdpSocket>> {
        self.rest.wrap_udp_socket(socket)
    }

    fn now(&self) -> Instant {
        self.rest.now()
    }
}

impl QuicRuntime for TokioRuntime {
    fn quinn(&self) -> Arc<dyn quinn::Runtime> {
        Arc::new(QuinnHooks {
            runtime: self.clone(),
            rest: quinn::TokioRuntime,
        })
    }

    async fn resolve(address: String) -> io::Result<Vec<SocketAddr>> {
        Ok(tokio::net::lookup_host(address).await?.collect())
    }
}

#[cfg(feature = "smol")]
impl QuicRuntime for quorate_smol::spi::SmolRuntime {
    fn quinn(&self) -> Arc<dyn quinn::Runtime> {
        Arc::new(QuinnHooks {
            runtime: self.clone(),
            rest: quinn::SmolRuntime,
        })
    }

    async fn resolve(address: String) -> io::Result<Vec<SocketAddr>> {
        smol::net::resolve(address).await
    }
}

type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Limits on time, without naming the runtime. Cheap to clone.
#[derive(Clone)]
pub(crate) struct QuinnTimer(Arc<dyn Fn(Duration) -> Sleep + Send + Sync>);

impl QuinnTimer {
    pub(crate) fn of(runtime: impl Runtime) -> Self {
        Self(Arc::new(move |limit| {
            Box::pin(runtime.sleep_until(runtime.now().mono + limit))
        }))
    }

    /// The future's value, if it comes in time.
    pub(crate) async fn within<T>(&self, limit: Duration, future: impl Future<Output = T>) -> io::Result<T> {
        tokio::select! {
            biased;
            value = future => Ok(value),
            () = (self.0)(limit) => Err(io::ErrorKind::TimedOut.into()),
        }
    }
}

impl fmt::Debug for QuinnTimer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Timer").finish()
    }
}
