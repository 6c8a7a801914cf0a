//! An adapter in one type: which runtime (executor and clock) and which transport (links over a network) a
//! [`crate::Cluster`] uses. Decides nothing about the protocol. Spec: `ARCHITECTURE.md`.

use std::io;

use crate::runtime::Runtime;
use crate::security::Security;
use crate::transport::Transport;

/// Ties a runtime and a transport together, so that users name neither: an adapter's crate exports a function
/// that starts to describe a node, with a function of its own that starts it, so that the node's loop and
/// links are compiled once, with that crate:
///
/// ```
/// # use quorate_driver::{ClusterBuilder, Security, spi};
/// # fn example<ItsAdapter: spi::Adapter>(name: &str) -> ClusterBuilder {
/// ClusterBuilder::started_by(spi::start_on::<ItsAdapter>, name.to_owned())
/// # }
/// ```
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
