//! Quorate clusters over QUIC, on tokio (or smol: feature `smol`): one connection per peer and direction, one
//! stream per link, TLS 1.3 with certificates on both sides.
//!
//! A stream that waits for a lost packet holds up no other: heartbeats pass while user messages are resent.
//! QUIC is never unencrypted, so a node needs certificates; here a throw-away authority makes one (feature
//! `dev-certs`):
//!
//! ```no_run
//! # #[cfg(feature = "dev-certs")]
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use quorate_quinn::{Entity, EntityContext, Kind, Security, security::DevCa};
//!
//! struct Greeter {
//!     greeted: u64,
//! }
//!
//! impl Entity for Greeter {
//!     type Message = String;
//!     type Reply = String;
//!
//!     async fn handle(&mut self, context: &EntityContext, who: String) -> String {
//!         self.greeted += 1;
//!         format!("{} greets {who}, number {}", context.id_text(), self.greeted)
//!     }
//! }
//!
//! # tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?.block_on(async {
//! let authority = DevCa::new("example.cluster.internal")?;
//! let cluster = quorate_quinn::builder("example")
//!     .bind("127.0.0.1:0")
//!     .security(Security::mtls(authority.mtls()?))
//!     .fast_profile() // the timings for one machine; leave it out on a network
//!     .start()
//!     .await?;
//! cluster.form().await?;
//! cluster.up().await?;
//!
//! let greeters = cluster.entities(Kind::new("greeter")).start(|_| Greeter { greeted: 0 }).await?;
//! let answer = greeters.entity("ada").ask("Grace".to_owned()).await?;
//! assert_eq!(answer, "ada greets Grace, number 1");
//!
//! cluster.leave().await?;
//! # Ok(())
//! # })
//! # }
//! # #[cfg(not(feature = "dev-certs"))]
//! # fn main() {}
//! ```
//!
//! With certificates of your own: `Mtls::new("orders.cluster.internal", Credentials::from_pem_files(..)?)`.
//!
//! All nodes of a cluster speak QUIC, or all speak TCP. Heartbeats travel as QUIC datagrams, or on the
//! control link's stream to a peer that takes none. 0-RTT and resumption are off: every connection proves its
//! certificates anew. The port is UDP, and it is free a moment *after*
//! [`Cluster::terminated`](quorate_driver::Cluster::terminated).
//!
//! `cluster.run_until_signal().await` runs until the process is asked to end, and then shuts the node down in
//! phases. Add tasks of your own to them with
//! `cluster.on_shutdown(ShutdownPhase::ServiceStop, || async { .. })` (`docs/shutdown.md`).
//!
//! | feature | adds |
//! |---|---|
//! | `smol` | `QuinnSmol` and `smol_builder`: the same on smol's global executor; tokio is linked, but not started |
//! | `dev-certs` | a certificate authority that lives as long as the program, for demonstrations and tests |
#![forbid(unsafe_code)]

mod datagrams;
mod door;
mod link;
mod links;
mod port;
mod runtime;
#[cfg(feature = "smol")]
mod smol_adapter;

use std::io;

use quorate_driver::spi::Adapter;
pub use quorate_driver::*;
#[cfg(feature = "smol")]
pub use smol_adapter::{QuinnSmol, smol_builder};
use spi::{QuicLinks, QuicRuntime, TokioRuntime};

/// What authors of adapters and hosts need: that of the driver, and what this adapter puts in.
pub mod spi {
    pub use quorate_driver::spi::*;

    pub use crate::link::{QuicReader, QuicWriter};
    pub use crate::links::QuicLinks;
    pub use crate::port::QuicPort;
    pub use crate::runtime::QuicRuntime;
    pub use quorate_tokio::spi::TokioRuntime;
}

/// Tokio and QUIC: what fills in the driver's types.
#[derive(Clone, Copy, Debug)]
pub struct Quinn;

/// Builds a node of the cluster with this name: 1 to 64 bytes of `A-Z a-z 0-9 . _ : -`, the same on every
/// node.
pub fn builder(name: impl Into<String>) -> ClusterBuilder {
    ClusterBuilder::started_by(start, name.into())
}

/// Without a parameter: the node's loop and links are compiled with this crate, not with every program.
fn start(builder: ClusterBuilder<Security>) -> spi::Starting {
    spi::start_on::<Quinn>(builder)
}

impl Adapter for Quinn {
    type Runtime = TokioRuntime;
    type Transport = QuicLinks;

    fn runtime() -> io::Result<TokioRuntime> {
        TokioRuntime::current()
    }

    fn transport(runtime: &TokioRuntime, security: &Security) -> io::Result<QuicLinks> {
        links(runtime.clone(), security)
    }
}

fn links<R: QuicRuntime>(runtime: R, security: &Security) -> io::Result<QuicLinks<R>> {
    let mtls = security.certificates().cloned();
    let (age, limits) = (security.max_link_age(), security.handshake_limits());
    let links = mtls.map(|mtls| QuicLinks::new(runtime, mtls, age, limits));
    links.ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::Unsupported,
            "QUIC is always encrypted: use `Security::mtls`",
        )
    })
}

/// The README's examples compile.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
