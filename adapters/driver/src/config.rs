//! The parts of [`Config`] by name, the limits of links, and the settings that all members have to agree on.
//! Each is a field of its section: its docs give unit, range and default, and `docs/configuration.md` lists
//! them.

pub use quorate_core::agreement::{
    Differences, JoinChecker, JoinCheckers, Setting, SettingDifference, SettingError, Settings,
};
pub use quorate_core::config::{
    CapacitySelector, Config, ConfigError, CustomStrategy, DdataConfig, DetectorImplementation,
    DownAllWhenUnstable, DowningConfig, DowningStrategy, ExecutorConfig, FailureDetectorConfig,
    JournalConfig, KvConfig, LeaseMajorityConfig, Limits, LoadConfig, LoadSpread, MembershipConfig,
    PathsConfig, ShardingConfig, ShutdownConfig, SingletonConfig, ValidConfig,
};
pub use quorate_links::{Bounds, LinkLimits, ValidLinkLimits};

pub use crate::builder::{BIND_DEFAULT, SecurityNotChosen};
