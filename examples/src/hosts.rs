//! The runtimes that programs run in, each with an adapter. Decides nothing.

use std::future::Future;
use std::io;
use std::marker::PhantomData;

use quorate_driver::spi::Adapter;

/// A runtime to run a program in. A program for a runtime that is not here implements it.
pub trait Host: 'static {
    /// The adapter of that runtime.
    type Adapter: Adapter;

    /// Runs a future to its end, within the runtime.
    ///
    /// # Errors
    /// The runtime cannot be started.
    fn block_on<T>(future: impl Future<Output = T>) -> io::Result<T>;
}

/// A tokio runtime with two worker threads, for an adapter that runs on it.
#[derive(Debug)]
pub struct OnTokio<A>(PhantomData<A>);

impl<A: Adapter> Host for OnTokio<A> {
    type Adapter = A;

    fn block_on<T>(future: impl Future<Output = T>) -> io::Result<T> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()?;
        Ok(runtime.block_on(future))
    }
}

/// Smol's global executor.
#[cfg(feature = "smol")]
#[derive(Debug)]
pub struct OnSmol;

#[cfg(feature = "smol")]
impl Host for OnSmol {
    type Adapter = quorate_smol::Smol;

    fn block_on<T>(future: impl Future<Output = T>) -> io::Result<T> {
        Ok(smol::block_on(future))
    }
}
