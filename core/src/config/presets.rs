//! The documented defaults and the timing profile for one machine.

use alloc::string::String;
use alloc::vec::Vec;

use super::{
    Config, DdataConfig, DowningConfig, ExecutorConfig, FailureDetectorConfig, JournalConfig, KvConfig,
    Limits, LoadConfig, MembershipConfig, PathsConfig, ShardingConfig, ShutdownConfig, SingletonConfig,
};
use crate::ident::{ClusterName, DEFAULT_DATA_CENTER};
use crate::membership::state::app_version::AppVersion;

impl Config {
    /// The documented defaults: made for a local network, with a fail-over of about 20 s for a cluster of
    /// three.
    #[must_use]
    pub fn lan(cluster: ClusterName) -> Self {
        Self {
            cluster,
            roles: Vec::new(),
            data_center: String::from(DEFAULT_DATA_CENTER),
            app_version: AppVersion::default(),
            membership: MembershipConfig::default(),
            failure_detector: FailureDetectorConfig::default(),
            downing: DowningConfig::default(),
            sharding: ShardingConfig::default(),
            singleton: SingletonConfig::default(),
            journal: JournalConfig::default(),
            shutdown: ShutdownConfig::default(),
            executor: ExecutorConfig::default(),
            load: LoadConfig::default(),
            paths: PathsConfig::default(),
            kv: KvConfig::default(),
            ddata: DdataConfig::default(),
            limits: Limits::default(),
        }
    }

    /// Timings for demonstrations and tests on one machine: about a tenth of the defaults, a fail-over of a
    /// few seconds. Far too nervous for a real network.
    #[must_use]
    pub fn fast(cluster: ClusterName) -> Self {
        Self {
            membership: MembershipConfig::fast(),
            failure_detector: FailureDetectorConfig::fast(),
            downing: DowningConfig::fast(),
            sharding: ShardingConfig::fast(),
            singleton: SingletonConfig::fast(),
            journal: JournalConfig::fast(),
            shutdown: ShutdownConfig::fast(),
            executor: ExecutorConfig::fast(),
            load: LoadConfig::fast(),
            paths: PathsConfig::fast(),
            kv: KvConfig::fast(),
            ddata: DdataConfig::fast(),
            ..Self::lan(cluster)
        }
    }
}
