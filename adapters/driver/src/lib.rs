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
mod counters;
mod daemons;
pub mod data;
pub mod delivery;
pub mod durable;
mod entity;
mod error;
mod events;
mod extract;
mod full;
mod journal;
mod kind;
mod kind_config;
mod kinds;
mod lease;
mod listeners;
mod log_limit;
mod mailbox;
#[cfg(any(feature = "psk", feature = "tls"))]
mod opening;
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
mod run;
mod runtime;
mod secured;
mod security;
mod shared;
mod shutdown;
mod signals;
mod singleton;
mod singleton_builder;
mod stats;
mod store;
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
mod work;

pub use allocating::{AllocationFailure, AsyncAllocationStrategy};
pub use builder::{BIND_DEFAULT, ClusterBuilder, SecurityNotChosen};
pub use clock::Clock;
pub use cluster::{Cluster, DaemonsBuilder};
pub use daemons::{DAEMONS_MAX, Daemon, DaemonContext, Daemons, DaemonsState};
pub use entity::{Entity, EntityContext, ReplyTo, TIMER_INTERVAL_MIN, TIMERS_MAX};
pub use error::{
    AskError, ClusterError, DaemonsError, OtherTypes, PassivateError, RegionError, ReplyLaterError,
    SingletonError, StartError, TellError, Termination, TimerError,
};
pub use events::{ClusterEvent, EVENTS_WAITING_MAX, Events};
pub use kind::{Kind, SHARDS_DEFAULT};
pub use lease::{FileLeases, LeaseKeeper, MemoryLeases};
pub use places::{PlaceError, ShardPlaces};
pub use proved::{PeerCertificate, PeerKey, Proved};
#[cfg(feature = "psk")]
pub use psk::{PSK_BYTES_MAX, PSK_BYTES_MIN, PSK_KEYS_MAX, Psk, PskError};
pub use pump::policy::{Joiner, Manager};
pub use quorate_core::shutdown::Phase;
pub use quorate_links::{Bounds, LinkLimits};
pub use region::{ASK_TIMEOUT_DEFAULT, Ask, AskFuture, EntityRef, Region};
pub use security::{HandshakeLimits, Method, Security};
pub use shutdown::{SHUTDOWN_TASKS_MAX, ShutdownCause, ShutdownError, ShutdownEvent, TaskFailure};
pub use signals::{ShutdownSignal, shutdown_signal};
pub use singleton::Singleton;
pub use singleton_builder::SingletonBuilder;
pub use stats::{HostStats, KindState, LinkState, LinkStats, NodeStats};
pub use store::{
    MemoryStore, RemovalError, SharedMemoryStore, Store, StoreFault, StoreScope, lower_terms, new_store_id,
    remove_coordinator_state, remove_remembered_entities,
};
pub use supervision::{Directive, EntityFailure, Supervision};
#[cfg(feature = "dev-certs")]
pub use tls::DevCa;
#[cfg(feature = "tls")]
pub use tls::{Credentials, Mtls, TlsError};
pub use watch::{Terminated, Watch};
pub use work::{JOBS_WAITING_MAX, Job, WorkError, WorkQueue, WorkQueueBuilder, WorkState, Worker};

/// What authors of adapters need, and nobody else: runtimes, transports, links, and how a node is started on
/// them.
pub mod spi {
    pub use quorate_links::{Crowd, Pending, Source};

    pub use crate::adapter::Adapter;
    pub use crate::builder::{Entry, Starting, start_on};
    pub use crate::runtime::Runtime;
    pub use crate::secured::{Secured, SecuredListener, SecuredReader, SecuredWriter};
    pub use crate::tcp::{
        Connected, ReadHalf, Sockets, Tcp, TcpLinkReader, TcpLinkWriter, TcpPort, WriteHalf,
    };
    pub use crate::transport::{
        Accepted, Datagrams, HandshakeStats, LinkKind, LinkReader, LinkWriter, Listener, Read, Transport,
        Unproved,
    };
}

/// The core's types that the API speaks of.
pub mod core {
    pub use quorate_core::agreement::{
        Differences, JoinChecker, JoinCheckers, Setting, SettingDifference, SettingError, Settings,
    };
    pub use quorate_core::config::{
        Config, ConfigError, CustomStrategy, DdataConfig, DetectorImplementation, DownAllWhenUnstable,
        DowningConfig, DowningStrategy, ExecutorConfig, FailureDetectorConfig, JournalConfig,
        LeaseMajorityConfig, MembershipConfig, ShardingConfig, ShutdownConfig, SingletonConfig, ValidConfig,
    };
    pub use quorate_core::ddata::protocol::{ReadError, WriteError};
    pub use quorate_core::ddata::state::key::{BadKey, Pattern};
    pub use quorate_core::downing::{
        decision::Decision, strategy::Strategy, view::DowningView, view::IndirectRule,
    };
    pub use quorate_core::effect::{
        CommandError, HaltReason, MembershipCommandError, RegionShutdown, ShardingCommandError,
        SingletonCommandError, StopOutcome,
    };
    pub use quorate_core::event::{
        DetectorEvent, DowningEvent, DowningReport, DowningWait, Event, JoinFailure, MembershipEvent,
        SeedCause, SeedFailure, ShardingEvent, ShutdownPhase, SingletonEvent,
    };
    pub use quorate_core::explain::{Explanation, Finding};
    pub use quorate_core::ident::{Address, ClusterName, NameError, Role, UniqueAddress};
    pub use quorate_core::membership::app_version::{AppVersion, AppVersionError};
    pub use quorate_core::membership::events::MembershipChange;
    pub use quorate_core::membership::member::{Member, Status};
    pub use quorate_core::sharding::allocation::{
        AllocationError, AllocationSettings, AllocationStrategy, CustomAllocation, HashingLimits,
        RebalanceLimits, RegionLoad, SimultaneousLimits,
    };
    pub use quorate_core::sharding::errors::AskFailure;
    pub use quorate_core::sharding::extractor::ShardExtractor;
    pub use quorate_core::sharding::fields::{FieldDifference, FieldDifferences, StoreMode};
    pub use quorate_core::sharding::ids::{EntityId, KindId, ShardId};
    pub use quorate_core::sharding::passivation::{
        ClimbingSettings, IdleSettings, LimitSettings, PassivationError, PassivationSettings, Replacement,
        Segments, Share, SketchSettings, WindowSettings,
    };
    pub use quorate_core::sharding::protocol::stop::StoppedShards;
    pub use quorate_core::sharding::protocol::survey::{
        Decided, EntityPage, EntityPosition, Explained, Placement, RegionCounts, ShardDecision,
        ShardEntities, Survey,
    };
    pub use quorate_core::sharding::protocol::watch::Termination;
    pub use quorate_core::sharding::protocol::{HomeWanted, RegionShards};
    pub use quorate_core::sharding::remember::{EntityRecovery, RememberStore};
    pub use quorate_core::sharding::wish::{Wish, WishObstacle};
    pub use quorate_core::sharding::{CoordinatorPhase, CoordinatorState, RegionState};
    pub use quorate_core::singleton::state::{Phase as SingletonPhase, SingletonId, SingletonState};
    pub use quorate_core::stats::Stats;
    pub use quorate_core::store;
    pub use quorate_core::time::{Instant, Now};
    pub use quorate_core::token::Token;
    pub use quorate_core::view::{Phase as MembershipPhase, View};
}
