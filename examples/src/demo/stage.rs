//! What the demo can run on: a runtime with a transport, and how the links are protected there. Decides nothing.

use std::future::Future;
use std::io;
use std::process::ExitCode;
use std::time::Instant;

use quorate_driver::Adapter;

use super::failure::Failure;
use super::options::{NodeOptions, Options};
use super::report::Report;
use super::worker;

/// A runtime to run the demo in. Implemented by the program, so that this package needs to know no runtime but its own.
pub trait Host: 'static {
    /// The adapter of that runtime.
    type Adapter: Adapter;

    /// Runs a future to its end, within the runtime.
    ///
    /// # Errors
    /// The runtime cannot be started.
    fn block_on<T>(future: impl Future<Output = T>) -> io::Result<T>;
}

/// One transport of the demo: its name and how to run there.
#[derive(Clone, Copy, Debug)]
pub struct Stage {
    /// What `--transport` calls it.
    pub(super) name: &'static str,
    /// What people call it.
    pub(super) what: &'static str,
    /// Its links need certificates, which the demo makes for itself.
    pub(super) has_certificates: bool,
    pub(super) demo: fn(&Options, &Self, Instant) -> Result<Report, Failure>,
    pub(super) node: fn(NodeOptions) -> ExitCode,
}

impl Stage {
    /// A transport whose links are plain.
    #[must_use]
    pub const fn plain<H: Host>(name: &'static str, what: &'static str) -> Self {
        Self {
            name,
            what,
            has_certificates: false,
            demo: super::demo::<H>,
            node: worker::run::<H>,
        }
    }

    /// A transport whose links are mutual TLS, with certificates of a throw-away authority.
    #[must_use]
    pub const fn with_certificates<H: Host>(name: &'static str, what: &'static str) -> Self {
        Self {
            has_certificates: true,
            ..Self::plain::<H>(name, what)
        }
    }
}
