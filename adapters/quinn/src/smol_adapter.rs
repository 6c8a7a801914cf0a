//! QUIC on smol. Decides nothing.

use std::io;

use quorate_driver::spi::{Adapter, Starting, start_on};
use quorate_driver::{ClusterBuilder, Security};
use quorate_smol::{Smol, spi::SmolRuntime};

use crate::links::QuicLinks;

/// Smol and QUIC: what fills in the driver's types.
#[derive(Clone, Copy, Debug)]
pub struct QuinnSmol;

/// Describes a node on smol whose links are QUIC. See [`crate::builder`].
pub fn smol_builder(name: impl Into<String>) -> ClusterBuilder {
    ClusterBuilder::started_by(start, name.into())
}

fn start(builder: ClusterBuilder<Security>) -> Starting {
    start_on::<QuinnSmol>(builder)
}

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
