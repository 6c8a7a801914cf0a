//! QUIC on smol. Decides nothing.

use std::io;

use quorate_driver::{Adapter, Security};
use quorate_smol::{Smol, SmolRuntime};

use crate::links::QuicLinks;

/// Smol and QUIC: what fills in the driver's types.
#[derive(Clone, Copy, Debug)]
pub struct QuinnSmol;

/// A running node on smol and QUIC. See [`quorate_driver::Cluster`].
pub type SmolCluster = quorate_driver::Cluster<QuinnSmol>;

impl Adapter for QuinnSmol {
    type Runtime = SmolRuntime;
    type Transport = QuicLinks<SmolRuntime>;

    fn runtime() -> io::Result<SmolRuntime> {
        Smol::runtime()
    }

    fn transport(runtime: &SmolRuntime, security: &Security) -> io::Result<QuicLinks<SmolRuntime>> {
        crate::links(runtime.clone(), security)
    }
}
