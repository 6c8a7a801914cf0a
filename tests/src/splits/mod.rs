//! Whole splits in the simulator: real nodes, the real protocol, and random plans of several events under
//! every strategy and rule. What is left at rest is classified: one side, two sides, nobody. Within the safe
//! assumptions two sides are a violation; outside they are counted. Spec: membership 3, reliability I-19,
//! I-21 to I-26.

pub mod cascade;
pub mod detect;
pub mod plan;
mod play;
pub mod safe;
pub mod sick;
mod tally;

pub use play::{Outcome, STABLE_AFTER, Setting, play};
pub use tally::{Report, Sick, Tally, run};

use quorate_core::config::{DowningStrategy, LeaseMajorityConfig};
use std::time::Duration;

/// The strategies that are compared.
pub const STRATEGIES: [&str; 5] = [
    "static-quorum",
    "keep-majority",
    "keep-oldest",
    "lease-majority",
    "down-all",
];

/// A strategy by name, for so many nodes, its times scaled like all others.
#[must_use]
pub fn strategy(name: &str, nodes: usize) -> DowningStrategy {
    match name {
        "static-quorum" => DowningStrategy::StaticQuorum {
            quorum: nodes / 2 + 1,
            role: None,
        },
        "keep-oldest" => DowningStrategy::KeepOldest {
            down_if_alone: true,
            role: None,
        },
        "lease-majority" => DowningStrategy::LeaseMajority(LeaseMajorityConfig {
            acquire_lease_delay_for_minority: Duration::from_millis(200),
            release_after: Duration::from_secs(4),
            time_to_live: Duration::from_secs(12),
            operation_timeout: Duration::from_millis(500),
            ..LeaseMajorityConfig::default()
        }),
        "down-all" => DowningStrategy::DownAll,
        "auto-down" => DowningStrategy::AutoDown,
        _ => DowningStrategy::KeepMajority { role: None },
    }
}
