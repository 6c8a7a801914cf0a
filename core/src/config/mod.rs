//! Configuration: every key with unit, range, default and the setting of Akka it mirrors, checked once when
//! it is built. Nothing else in the core checks a setting. Spec: membership 4, sharding 4.1, reliability 3b.

mod agreement;
mod ddata;
mod detector;
mod downing;
mod executor;
mod journal;
mod kind;
mod kv;
mod limits;
mod load;
mod membership;
mod paths;
mod presets;
pub mod ranges;
mod sharding;
mod shutdown;
mod singleton;
#[cfg(test)]
mod tests;
mod validate;

pub use ddata::DdataConfig;
pub use detector::{DetectorImplementation, FailureDetectorConfig};
pub use downing::{CustomStrategy, DownAllWhenUnstable, DowningConfig, DowningStrategy, LeaseMajorityConfig};
pub use executor::ExecutorConfig;
pub use journal::JournalConfig;
pub use kind::KindConfig;
pub use kv::KvConfig;
pub use limits::Limits;
pub use load::{CapacitySelector, LoadConfig, LoadSpread, NEIGHBORS_MAX};
pub use membership::MembershipConfig;
pub use paths::PathsConfig;
pub use sharding::ShardingConfig;
pub use shutdown::ShutdownConfig;
pub use singleton::SingletonConfig;
pub use validate::{ConfigError, ValidConfig};

use alloc::string::String;
use alloc::vec::Vec;

use crate::ident::{ClusterName, Role};
use crate::membership::state::app_version::AppVersion;

/// Settings of one node. Start from a preset ([`Config::lan`], [`Config::fast`]), change fields, then
/// [`Config::validate`]. Durations are at least a microsecond and at most 400 days, where a field does not
/// say otherwise.
#[derive(Clone, Debug)]
pub struct Config {
    /// The name all nodes of the cluster share; links between different names are refused.
    pub cluster: ClusterName,
    /// Roles of this node (default none; at most 31, none may start with `dc-`). Mirrors `roles`.
    pub roles: Vec<Role>,
    /// Data center of this node (default `default`). Mirrors `multi-data-center.self-data-center`.
    pub data_center: String,
    /// Version of the application, announced to the others (default 0.0.0). Mirrors `app-version`.
    pub app_version: AppVersion,
    /// Membership.
    pub membership: MembershipConfig,
    /// Failure detection.
    pub failure_detector: FailureDetectorConfig,
    /// What is done about unreachable members.
    pub downing: DowningConfig,
    /// Sharding.
    pub sharding: ShardingConfig,
    /// Singletons.
    pub singleton: SingletonConfig,
    /// Settings of named paths with N instances.
    pub paths: PathsConfig,
    /// Quorum logs.
    pub journal: JournalConfig,
    /// How long the phases of a shutdown may take.
    pub shutdown: ShutdownConfig,
    /// The executor that runs the application's handlers.
    pub executor: ExecutorConfig,
    /// How loaded nodes are.
    pub load: LoadConfig,
    /// The keyed store.
    pub kv: KvConfig,
    /// Replicated data.
    pub ddata: DdataConfig,
    /// Limits on what peers and callers may send.
    pub limits: Limits,
}
