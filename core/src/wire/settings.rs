//! The settings behind a question to join and behind its answer: count, then key, flags, value of each, by rising key. A list that
//! is too long or not legal is refused before it is believed. Never compares. Spec: membership 2.2, `docs/WIRE.md` 4.8.
#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use alloc::vec::Vec;

use crate::agreement::{KEY_BYTES_MAX, SETTINGS_MAX, Setting, SettingError, Settings, VALUE_BYTES_MAX};
use crate::bytes::WireError;
use crate::bytes::{Reader, put_text};

/// Flag: the other node must have it.
const MUST_EXIST: u8 = 1;

pub(super) fn put(settings: &Settings, out: &mut Vec<u8>) -> Result<(), WireError> {
    let count = u8::try_from(settings.len()).map_err(|_| WireError::LimitExceeded { what: "settings" })?;
    out.push(count);
    for setting in settings.iter() {
        put_text(out, setting.key(), "setting")?;
        out.push(if setting.must_exist() { MUST_EXIST } else { 0 });
        put_text(out, setting.value(), "setting")?;
    }
    Ok(())
}

pub(super) fn read(reader: &mut Reader<'_>) -> Result<Settings, WireError> {
    let count = usize::from(reader.u8()?);
    if count > SETTINGS_MAX {
        return Err(WireError::LimitExceeded { what: "settings" });
    }
    let mut settings: Vec<Setting> = Vec::with_capacity(count);
    for _ in 0..count {
        let setting = read_setting(reader)?;
        if settings.last().is_some_and(|last| last.key() >= setting.key()) {
            return Err(WireError::NonCanonical { what: "settings" });
        }
        settings.push(setting);
    }
    Settings::new(settings).map_err(|error| match error {
        SettingError::TooMany { .. } | SettingError::TooLong { .. } | SettingError::ValueTooLong { .. } => {
            WireError::LimitExceeded { what: "settings" }
        }
        SettingError::BadKey { .. } | SettingError::Reserved { .. } | SettingError::Duplicate { .. } => {
            WireError::Malformed { what: "setting" }
        }
    })
}

fn read_setting(reader: &mut Reader<'_>) -> Result<Setting, WireError> {
    let within = |text: &str, max| match text.len() <= max {
        true => Ok(()),
        false => Err(WireError::LimitExceeded { what: "setting" }),
    };
    let key = reader.text("setting")?;
    within(key, KEY_BYTES_MAX)?;
    let flags = reader.u8()?;
    let value = reader.text("setting")?;
    within(value, VALUE_BYTES_MAX)?;
    let setting = Setting::new(key, value);
    match flags {
        MUST_EXIST => Ok(setting),
        0 => Ok(setting.if_known()),
        _ => Err(WireError::Malformed { what: "setting" }),
    }
}
