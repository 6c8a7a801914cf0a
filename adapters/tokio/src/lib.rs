//! Quorate clusters on tokio: links are TCP connections, time and tasks are tokio's.
//!
//! A node of a cluster in one program: it forms a cluster of one, hosts an entity kind and asks an entity.
//!
//! ```
//! use quorate_tokio::{Entity, EntityContext, Kind, Security};
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
//! # tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?.block_on(async {
//! let cluster = quorate_tokio::builder("example")
//!     .bind("127.0.0.1:0")
//!     .security(Security::insecure_plaintext())
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
//! ```
//!
//! Handlers run as tokio tasks. Move work that blocks its thread (files, long computations) to
//! `tokio::task::spawn_blocking`.
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
use spi::{TokioRuntime, TokioSockets};

/// What authors of adapters and hosts need: that of the driver, and what this adapter puts in.
pub mod spi {
    pub use quorate_driver::spi::*;

    pub use crate::runtime::TokioRuntime;
    pub use crate::tcp::{TokioReadHalf, TokioSockets, TokioWriteHalf};
}

/// Tokio and TCP: what fills in the driver's types.
#[derive(Clone, Copy, Debug)]
pub struct Tokio;

/// Builds a node of the cluster with this name: 1 to 64 bytes of `A-Z a-z 0-9 . _ : -`, the same on every
/// node.
pub fn builder(name: impl Into<String>) -> ClusterBuilder {
    ClusterBuilder::started_by(start, name.into())
}

/// Without a parameter: the node's loop and links are compiled with this crate, not with every program.
fn start(builder: ClusterBuilder<Security>) -> spi::Starting {
    spi::start_on::<Tokio>(builder)
}

impl Adapter for Tokio {
    type Runtime = TokioRuntime;
    type Transport = Secured<Tcp<TokioSockets>>;

    fn runtime() -> io::Result<TokioRuntime> {
        TokioRuntime::current()
    }

    fn transport(_: &Self::Runtime, security: &Security) -> io::Result<Secured<Tcp<TokioSockets>>> {
        Ok(Secured::new(Tcp(TokioSockets), security))
    }
}

/// The chapter about entities compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/entities.md")]
struct EntitiesChapter;

/// The chapter about durable entities compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/durable.md")]
struct DurableEntities;

/// The chapter about downing compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/downing.md")]
struct DowningChapter;

/// The chapter about daemons compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/daemons.md")]
struct DaemonsChapter;

/// The chapter about reliable delivery compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/delivery.md")]
struct ReliableDelivery;

/// The chapter about replicated data compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/ddata.md")]
struct DdataChapter;

/// The chapter about the keyed store compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/kv.md")]
struct KvChapter;

/// The chapter about singletons compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/singletons.md")]
struct SingletonsChapter;

/// The chapter about paths compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/paths.md")]
struct PathsChapter;

/// The chapter about shutdown compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/shutdown.md")]
struct ShutdownChapter;

/// The README's example is compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// The examples of the own README compile.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct OwnReadme;
