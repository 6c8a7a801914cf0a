//! Which settings all members have to agree on, as a list of keys and values. What may differ is left out on
//! purpose; the reasons stand in `docs/configuration.md`. Never compares. Spec: membership 2.2, 8.10.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::{Config, ConfigError, DdataConfig, DowningConfig, DowningStrategy, JournalConfig};
use crate::agreement::{OWN_SETTINGS_MAX, STRATEGY, Setting, SettingError, Settings, shortened};
use crate::ident::Role;

/// What a message takes beside the list.
const BESIDE_BYTES: usize = 16;

/// A setting of this crate. Compared where both nodes have it: a version that does not know it is not refused
/// for that, and a strategy's own only between nodes of that strategy.
fn ours(key: &str, value: String) -> Setting {
    Setting::new(key, shortened(value)).if_known()
}

fn role(role: Option<&Role>) -> String {
    role.map_or(String::new(), |role| role.as_str().to_string())
}

impl Config {
    /// All of them, the application's included.
    pub(super) fn shared_settings(&self) -> Result<Settings, ConfigError> {
        let refused = |key, legal| {
            move |error: SettingError| ConfigError {
                key,
                value: error.to_string(),
                legal,
            }
        };
        let own = self.downing.strategy.own_settings();
        let checked = self.membership.join_checkers.settings();
        let of_application = own.len() + checked.clone().count();
        let legal = "keys of 1 to 64 and values of at most 128 bytes, each key once, at most 32 of them, 3,584 bytes in all";
        if of_application > OWN_SETTINGS_MAX {
            let (count, max) = (of_application, OWN_SETTINGS_MAX);
            return Err(refused("membership.join_checkers", legal)(
                SettingError::TooMany { count, max },
            ));
        }
        Settings::new(own.clone()).map_err(refused("downing.strategy", legal))?;
        let all = self.downing.settings().into_iter().chain(own);
        let all = all.chain(self.ddata.settings()).chain(self.journal.settings());
        let all = all.chain(checked.cloned());
        let settings = Settings::new(all).map_err(refused("membership.join_checkers", legal))?;
        let (bytes, max) = (settings.bytes(), self.limits.control_frame_bytes_max);
        if bytes + BESIDE_BYTES > max {
            return Err(refused(
                "limits.control_frame_bytes_max",
                "what the settings that must agree take, and 16 bytes",
            )(SettingError::TooLong { bytes, max }));
        }
        Ok(settings)
    }
}

impl DowningConfig {
    /// Two of them could let both sides of a partition survive.
    fn settings(&self) -> Vec<Setting> {
        let mut all = self.strategy.settings();
        if self.strategy != DowningStrategy::Off {
            let share = self.down_all_when_indirectly_connected;
            let share = share.map_or("none".to_string(), |share| share.to_string());
            all.push(ours("downing.rule", self.rule.to_string()));
            all.push(ours("downing.down_all_when_indirectly_connected", share));
        }
        all
    }
}

impl DowningStrategy {
    /// Its name, and everything of it by which two sides could decide differently.
    fn settings(&self) -> Vec<Setting> {
        let name = Setting::new(STRATEGY, shortened(self.name().to_string()));
        let counted = |by: &Option<Role>| ours("downing.strategy.role", role(by.as_ref()));
        let mut all = alloc::vec![name];
        match self {
            Self::Off | Self::DownAll | Self::AutoDown | Self::Custom(_) => {}
            Self::KeepMajority { role } => all.push(counted(role)),
            Self::StaticQuorum { quorum, role } => {
                all.push(ours("downing.strategy.quorum", quorum.to_string()));
                all.push(counted(role));
            }
            Self::KeepOldest { down_if_alone, role } => {
                let down_if_alone = down_if_alone.to_string();
                all.push(ours("downing.strategy.down_if_alone", down_if_alone));
                all.push(counted(role));
            }
            Self::LeaseMajority(lease) => {
                let name = lease.lease_name.clone().unwrap_or_default();
                let release_after = alloc::format!("{:?}", lease.release_after);
                all.push(counted(&lease.role));
                all.push(ours("downing.strategy.lease_name", name));
                all.push(ours("downing.strategy.release_after", release_after));
            }
        }
        all
    }

    /// What a strategy of the application says that all have to agree on, below the strategy's key.
    fn own_settings(&self) -> Vec<Setting> {
        match self {
            Self::Custom(custom) => {
                let below = |setting: Setting| setting.below(STRATEGY);
                custom.0.settings().into_iter().map(below).collect()
            }
            Self::Off
            | Self::KeepMajority { .. }
            | Self::StaticQuorum { .. }
            | Self::KeepOldest { .. }
            | Self::DownAll
            | Self::LeaseMajority(_)
            | Self::AutoDown => Vec::new(),
        }
    }
}

impl DdataConfig {
    /// Nodes that differ would write to other replicas, forget what others believe stored, or refuse each
    /// other's values.
    fn settings(&self) -> Vec<Setting> {
        let mut durable: Vec<String> = self.durable_keys.iter().map(ToString::to_string).collect();
        durable.sort();
        durable.dedup();
        let types: Vec<&str> = self.custom_types.names().collect();
        alloc::vec![
            ours("ddata.role", role(self.role.as_ref())),
            ours("ddata.durable_keys", durable.join(", ")),
            ours("ddata.custom_types", types.join(", ")),
        ]
    }
}

impl JournalConfig {
    /// Stores of another number would be chosen by one node and refused by the next. A node that keeps no
    /// logs so agrees with all.
    fn settings(&self) -> Option<Setting> {
        (self.voters > 0).then(|| ours("journal.voters", self.voters.to_string()))
    }
}
