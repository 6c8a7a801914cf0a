//! What every Quorate adapter shares: the traits of a runtime and a transport, the synchronous pump between
//! core and sockets, the one loop, and the user's API. Names no runtime.
//!
//! Users take an adapter (`quorate-tokio`), which exports all of this and a `builder` that starts nodes on
//! it. Who writes an adapter implements the traits of [`spi`]: a runtime, a transport, and what ties them
//! together.
//!
//! | part | decides |
//! |---|---|
//! | [`Cluster`], [`ClusterBuilder`], [`Region`], [`Singleton`], [`Events`] | nothing: they ask the loop |
//! | pump | nothing: it connects the node, its links (`quorate-links`) and its entities; no I/O, no clock |
//! | loop | nothing: it moves bytes and time, in a fixed order |
//! | [`Secured`](spi::Secured) | nothing: it puts a stream transport inside Noise (feature `psk`) or mutual TLS (feature `tls`) if [`Security`] says so |
#![cfg_attr(
    test,
    expect(
        clippy::wildcard_enum_match_arm,
        reason = "a test that wants one arm fails on every other"
    )
)]
#![forbid(unsafe_code)]

mod adapter;
mod allocating;
mod asking;
mod authentication;
mod background;
mod builder;
mod clock;
mod cluster;
mod codec;
mod commands;
pub mod config;
mod counters;
mod daemons;
pub mod data;
pub mod delivery;
pub mod downing;
pub mod durable;
mod entity;
mod error;
pub mod events;
mod extract;
mod full;
mod journal;
mod kind;
mod kind_config;
mod kinds;
pub mod kv;
pub mod lease;
mod listeners;
mod load;
mod log_limit;
mod mailbox;
pub mod membership;
mod notices;
#[cfg(any(feature = "psk", feature = "tls"))]
mod opening;
mod path_builder;
pub mod paths;
#[cfg(test)]
#[cfg(any(feature = "psk", feature = "tls"))]
mod pipes;
mod places;
mod proved;
#[cfg(feature = "psk")]
mod psk;
mod pump;
mod queue_bounds;
mod region;
mod request;
mod run;
mod runtime;
mod secured;
pub mod security;
pub mod sharding;
mod shared;
mod shortcut;
pub mod shutdown;
mod signals;
pub mod singleton;
mod singleton_builder;
pub mod stats;
pub mod store;
mod subscriptions;
mod supervision;
mod sync;
mod tcp;
#[cfg(any(test, feature = "testing"))]
#[doc(hidden)]
pub mod testing;
#[cfg(feature = "tls")]
mod tls;
mod transport;
mod watch;

pub use builder::ClusterBuilder;
pub use cluster::{Cluster, DaemonsBuilder, EntitiesBuilder};
pub use daemons::{DAEMONS_MAX, Daemon, DaemonContext, Daemons, DaemonsState};
pub use entity::{Entity, EntityContext, ReplyTo, Stateful};
pub use error::{
    AskError, ClusterError, DaemonsError, LookupError, OtherTypes, PassivateError, PathError,
    ReplyLaterError, StartError, TellError, Termination, TimerError,
};
pub use events::{ClusterEvent, Events};
pub use kind::Kind;
pub use path_builder::InstancesBuilder;
pub use paths::Path;
pub use quorate_core::config::Config;
pub use quorate_core::effect::{CommandError, HaltReason};
pub use quorate_core::event::Event;
pub use quorate_core::ident::{Address, UniqueAddress};
pub use quorate_core::membership::member::{Member, Status};
pub use quorate_core::ordered;
pub use quorate_core::sharding::errors::AskFailure;
pub use quorate_core::sharding::ids::EntityId;
pub use quorate_core::sharding::protocol::watch::TerminationReason;
pub use quorate_core::shutdown::ShutdownPhase;
pub use quorate_core::token::Token;
pub use quorate_core::view::View;
pub use region::{Ask, EntityRef, Region};
pub use request::{Request, TIMEOUT_DEFAULT};
pub use security::Security;
pub use singleton::Singleton;
pub use singleton_builder::SingletonBuilder;
pub use supervision::{Directive, EntityFailure, Supervision};
pub use watch::{Terminated, Watch};

/// What authors of adapters need, and nobody else: runtimes, transports, links, and how a node is started on
/// them.
pub mod spi {
    pub use quorate_core::message::Lane;
    pub use quorate_core::time::{Instant, Now};
    pub use quorate_links::{Crowd, Pending, Source};

    pub use crate::adapter::Adapter;
    pub use crate::builder::{Entry, Starting, start_on};
    pub use crate::clock::Clock;
    pub use crate::runtime::Runtime;
    pub use crate::secured::{Secured, SecuredListener, SecuredReader, SecuredWriter};
    pub use crate::tcp::{
        Connected, ReadHalf, Sockets, Tcp, TcpLinkReader, TcpLinkWriter, TcpPort, WriteHalf,
    };
    pub use crate::transport::{
        Accepted, Datagrams, DirectWriter, HandshakeStats, LinkKind, LinkRead, LinkReader, LinkWriter,
        Listener, Transport, Unproved,
    };
}
