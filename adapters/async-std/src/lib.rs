//! Quorate clusters on async-std: links are TCP connections, time and tasks are async-std's.
//!
//! **For programs that cannot leave async-std yet.** Its maintainers have discontinued it and point to smol
//! (RUSTSEC-2025-0052), so this crate is frozen with it, stays out of the graph of every other Quorate crate,
//! and is not built by default. New programs take `quorate-smol`, whose API is the same.
//!
//! A node of a cluster in one program: it forms a cluster of one, hosts an entity kind and asks an entity.
//!
//! ```no_run
//! use quorate_async_std::{Entity, EntityContext, Kind, Security};
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
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! async_std::task::block_on(async {
//!     let cluster = quorate_async_std::builder("example")
//!         .bind("127.0.0.1:0")
//!         .security(Security::insecure_plaintext())
//!         .fast_profile() // the timings for one machine; leave it out on a network
//!         .start()
//!         .await?;
//!     cluster.form().await?;
//!     cluster.up().await?;
//!
//!     let greeters = cluster.entities(Kind::new("greeter")).start(|_| Greeter { greeted: 0 }).await?;
//!     let answer = greeters.entity("ada").ask("Grace".to_owned()).await?;
//!     assert_eq!(answer, "ada greets Grace, number 1");
//!
//!     cluster.leave().await?;
//!     Ok(())
//! })
//! # }
//! ```
//!
//! A handler that blocks its thread (files, long computations) belongs into
//! `async_std::task::spawn_blocking`. Nodes on other runtimes that speak TCP (`quorate-tokio`,
//! `quorate-smol`) are members of the same cluster.
//!
//! `cluster.run_until_signal().await` runs until the process is asked to end, and then shuts the node down in
//! phases. Add tasks of your own to them with
//! `cluster.on_shutdown(ShutdownPhase::ServiceStop, || async { .. })` (`docs/shutdown.md`).
//!
//! | feature | adds |
//! |---|---|
//! | `psk` | `Security::psk`: one key for all nodes, and links that are sessions of Noise |
//! | `tls` | `Security::mtls`: TLS 1.3 with certificates on both sides |
//! | `dev-certs` | a certificate authority that lives as long as the program, for demonstrations and tests |
#![forbid(unsafe_code)]

mod runtime;
mod tcp;

use std::io;

use quorate_driver::spi::{Adapter, Secured, Tcp};
pub use quorate_driver::*;
use spi::{AsyncStdRuntime, AsyncStdSockets};

/// What authors of adapters and hosts need: that of the driver, and what this adapter puts in.
pub mod spi {
    pub use quorate_driver::spi::*;

    pub use crate::runtime::AsyncStdRuntime;
    pub use crate::tcp::{AsyncStdReadHalf, AsyncStdSockets, AsyncStdWriteHalf};
}

/// Async-std and TCP: what fills in the driver's types.
#[derive(Clone, Copy, Debug)]
pub struct AsyncStd;

/// Builds a node of the cluster with this name: 1 to 64 bytes of `A-Z a-z 0-9 . _ : -`, the same on every
/// node.
pub fn builder(name: impl Into<String>) -> ClusterBuilder {
    ClusterBuilder::started_by(start, name.into())
}

/// Without a parameter: the node's loop and links are compiled with this crate, not with every program.
fn start(builder: ClusterBuilder<Security>) -> spi::Starting {
    spi::start_on::<AsyncStd>(builder)
}

impl Adapter for AsyncStd {
    type Runtime = AsyncStdRuntime;
    type Transport = Secured<Tcp<AsyncStdSockets>>;

    fn runtime() -> io::Result<AsyncStdRuntime> {
        Ok(AsyncStdRuntime::new())
    }

    fn transport(_: &Self::Runtime, security: &Security) -> io::Result<Secured<Tcp<AsyncStdSockets>>> {
        Ok(Secured::new(Tcp(AsyncStdSockets), security))
    }
}

/// The README's examples compile.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
