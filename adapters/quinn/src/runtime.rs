//! What QUIC needs of a runtime beyond clock and spawn: quinn's own hooks into it, and names. Decides nothing.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use quorate_driver::Runtime;
use quorate_tokio::TokioRuntime;

/// A runtime that QUIC runs on.
pub trait QuicRuntime: Runtime {
    /// Quinn's view of it.
    fn quinn() -> Arc<dyn quinn::Runtime>;

    /// The addresses behind a `host:port`.
    ///
    /// # Errors
    /// Whatever the system says, a name that nobody knows for instance.
    fn resolve(address: String) -> impl Future<Output = io::Result<Vec<SocketAddr>>> + Send;
}

impl QuicRuntime for TokioRuntime {
    fn quinn() -> Arc<dyn quinn::Runtime> {
        Arc::new(quinn::TokioRuntime)
    }

    async fn resolve(address: String) -> io::Result<Vec<SocketAddr>> {
        Ok(tokio::net::lookup_host(address).await?.collect())
    }
}

#[cfg(feature = "smol")]
impl QuicRuntime for quorate_smol::SmolRuntime {
    fn quinn() -> Arc<dyn quinn::Runtime> {
        Arc::new(quinn::SmolRuntime)
    }

    async fn resolve(address: String) -> io::Result<Vec<SocketAddr>> {
        smol::net::resolve(address).await
    }
}

type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Limits on time, without naming the runtime. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Timer(Arc<dyn Fn(Duration) -> Sleep + Send + Sync>);

impl Timer {
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

impl fmt::Debug for Timer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Timer").finish()
    }
}
