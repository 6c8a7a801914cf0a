//! The settings behind a question to join and behind its answer. A list that is too long or not legal is
//! refused before it is believed. Never compares. Spec: membership 2.2, `docs/WIRE.md` 4.8.

use alloc::vec::Vec;

use super::declare::{Form, List, Rises, Rising, Text, by_hand, record};
use crate::agreement::{KEY_BYTES_MAX, SETTINGS_MAX, Setting, SettingError, Settings, VALUE_BYTES_MAX};
use crate::bytes::WireError;

record! {
    Setting as "setting" { key: Text<KEY_BYTES_MAX, 1>, must_exist: bool, value: Text<VALUE_BYTES_MAX> }
}

type All = Rising<List<u8, Setting, SETTINGS_MAX>>;

by_hand! {
    Settings: Settings, "settings", 1, |settings, what, out| All::put(&settings.0, what, out), |reader, what| {
        Settings::new(<All as Form<Vec<Setting>>>::read(reader, what)?).map_err(|error| match error {
            SettingError::TooMany { .. } | SettingError::TooLong { .. } | SettingError::ValueTooLong { .. } => {
                WireError::LimitExceeded { what }
            }
            SettingError::BadKey { .. } | SettingError::Reserved { .. } | SettingError::Duplicate { .. } => {
                WireError::Malformed { what }
            }
        })
    };
}

impl Rises for Setting {
    fn is_below(&self, next: &Self) -> bool {
        self.key < next.key
    }
}
