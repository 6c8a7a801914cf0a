//! An adapter in one type: which runtime (executor and clock) and which transport (links over a network) a [`crate::Cluster`] uses.
//! Decides nothing about the protocol. Spec: `ARCHITECTURE.md`.

use std::io;

use crate::runtime::Runtime;
use crate::security::Security;
use crate::transport::Transport;

/// Ties a runtime and a transport together, so that users name neither: an adapter exports
/// `type Cluster = quorate_driver::Cluster<ItsAdapter>`.
pub trait Adapter: Sized + Send + Sync + 'static {
    /// The executor.
    type Runtime: Runtime;
    /// The network.
    type Transport: Transport;

    /// The runtime the caller is in.
    ///
    /// # Errors
    /// The caller is in none.
    fn runtime() -> io::Result<Self::Runtime>;

    /// A transport with the chosen security, whose tasks run on `runtime`.
    ///
    /// # Errors
    /// The transport does not offer that security.
    fn transport(runtime: &Self::Runtime, security: &Security) -> io::Result<Self::Transport>;
}
