//! What all members have to agree on: settings as keys and values, how two lists of them are compared, and
//! the differences in words. Values only. Never asks anybody and decides nothing about a join; a list from a
//! peer is checked like one's own, when it is made. Spec: membership 2.2, M-184 to M-195.

use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt::{self, Debug, Formatter};
use core::hash::Hasher;

use siphasher::sip::SipHasher13;

use crate::ident::is_name;

mod checkers;
mod difference;

pub use checkers::{JoinChecker, JoinCheckers};
pub use difference::{Differences, SettingDifference};

/// Longest key in bytes: a section and a name, as in `docs/configuration.md`.
pub const KEY_BYTES_MAX: usize = 64;
/// Longest value in bytes: what a person compares at a glance; longer ones of this crate's own are cut, with
/// a hash.
pub const VALUE_BYTES_MAX: usize = 128;
/// Most settings that the application adds, by checkers and by a strategy of its own.
pub const OWN_SETTINGS_MAX: usize = 32;
/// Most settings of one list: those of the application, and as many for this crate's in this and later
/// versions.
pub const SETTINGS_MAX: usize = 64;
/// Bytes of a whole list as it is sent. With its frame it has to fit 4 KiB, the most that anybody reads of a
/// stranger, which each of the two still is to the other.
pub const LIST_BYTES_MAX: usize = 3_584;

/// What an entry takes beside its key and its value: two lengths and its flags.
const ENTRY_BYTES: usize = 3;

/// First parts of keys that this crate keeps for its own settings.
pub const RESERVED: [&str; 9] = [
    "cluster",
    "ddata",
    "downing",
    "executor",
    "failure_detector",
    "limits",
    "membership",
    "quorate",
    "sharding",
];

/// The downing strategy's name. What lies below it belongs to that strategy, and says nothing about another
/// one.
pub const STRATEGY: &str = "downing.strategy";

/// Why a setting, or a list of them, was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SettingError {
    /// A key that is empty, too long, or has a byte outside `[A-Za-z0-9._:-]`.
    #[error("the key `{}` must be 1 to {KEY_BYTES_MAX} bytes of A-Z a-z 0-9 . _ : -", .key.escape_debug())]
    BadKey {
        /// The key.
        key: String,
    },
    /// A key of the application in a section that this crate keeps for itself.
    #[error("the key `{key}` is in the section `{section}`, which is reserved for Quorate")]
    Reserved {
        /// The key.
        key: String,
        /// The section.
        section: &'static str,
    },
    /// Two settings of the same key.
    #[error("the key `{key}` is given twice")]
    Duplicate {
        /// The key.
        key: String,
    },
    /// A value that is too long.
    #[error("the value of `{key}` has {bytes} bytes, at most {VALUE_BYTES_MAX} are allowed")]
    ValueTooLong {
        /// The key.
        key: String,
        /// The value's bytes.
        bytes: usize,
    },
    /// More settings than a list may have.
    #[error("{count} settings, at most {max} are allowed")]
    TooMany {
        /// How many.
        count: usize,
        /// How many there may be.
        max: usize,
    },
    /// All settings together are too long to be sent to somebody who is no member yet.
    #[error("the settings that must agree take {bytes} bytes, at most {max} are allowed")]
    TooLong {
        /// How many bytes.
        bytes: usize,
        /// How many there may be.
        max: usize,
    },
}

/// A setting that all members have to agree on.
#[derive(Clone, PartialEq, Eq)]
pub struct Setting {
    pub(crate) key: String,
    pub(crate) value: String,
    pub(crate) must_exist: bool,
}

impl Setting {
    /// A setting that every node must have, with this value unless its checker says otherwise. The value is
    /// shown to operators and sent to nodes that want to join: see [`Setting::secret`]. Checked when the
    /// configuration is.
    pub fn new(key: impl Into<String>, value: impl ToString) -> Self {
        Self {
            key: key.into(),
            value: value.to_string(),
            must_exist: true,
        }
    }

    /// A setting whose value nobody is shown: what is compared, sent and logged is `#` and a hash of 32 bits,
    /// enough to notice that two values differ (all but once in four billion times) and too little to tell
    /// the value from a guess.
    pub fn secret(key: impl Into<String>, value: impl AsRef<[u8]>) -> Self {
        let key = key.into();
        let mut hasher = SipHasher13::new_with_keys(0x7175_6f72_6174_6531, 0x7365_7474_696e_6773);
        hasher.write(key.as_bytes());
        hasher.write_u8(0xff);
        hasher.write(value.as_ref());
        let hash = hasher.finish() >> 32;
        Self::new(key, alloc::format!("#{hash:08x}"))
    }

    /// The same setting, compared only with nodes that have it too: for one that is introduced node by node.
    #[must_use]
    pub fn if_known(mut self) -> Self {
        self.must_exist = false;
        self
    }

    /// The same setting in a section.
    pub(crate) fn below(mut self, section: &str) -> Self {
        self.key = alloc::format!("{section}.{}", self.key);
        self
    }

    /// The key.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The value, or what stands for it.
    #[must_use]
    pub fn value(&self) -> &str {
        &self.value
    }

    /// Whether the other node must have it.
    #[must_use]
    pub const fn must_exist(&self) -> bool {
        self.must_exist
    }

    fn check(&self) -> Result<(), SettingError> {
        let key = || self.key.clone();
        if self.key.len() > KEY_BYTES_MAX || !is_name(&self.key) {
            return Err(SettingError::BadKey { key: key() });
        }
        let bytes = self.value.len();
        if bytes > VALUE_BYTES_MAX {
            return Err(SettingError::ValueTooLong { key: key(), bytes });
        }
        Ok(())
    }

    /// Refuses a setting of the application that could be taken for one of this crate.
    fn check_section(&self) -> Result<(), SettingError> {
        let section = self.key.split('.').next().unwrap_or_default();
        match RESERVED.iter().find(|reserved| **reserved == section) {
            Some(section) => Err(SettingError::Reserved {
                key: self.key.clone(),
                section,
            }),
            None => Ok(()),
        }
    }
}

impl Debug for Setting {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let unless_known = if self.must_exist { "" } else { " (if known)" };
        write!(f, "{} = {:?}{unless_known}", self.key, self.value)
    }
}

/// Cuts a value that may be longer than a setting's to one that is not: its beginning, and a hash of the
/// whole.
pub(crate) fn shortened(value: String) -> String {
    if value.len() <= VALUE_BYTES_MAX {
        return value;
    }
    const MARK: usize = " ... #0123456789abcdef".len();
    let mut hasher = SipHasher13::new_with_keys(1, 2);
    hasher.write(value.as_bytes());
    let end = (0..=VALUE_BYTES_MAX - MARK)
        .rev()
        .find(|at| value.is_char_boundary(*at));
    let begin = end.and_then(|end| value.get(..end)).unwrap_or_default();
    alloc::format!("{begin} ... #{:016x}", hasher.finish())
}

/// A checked list of settings, by key. Cheap to clone.
#[derive(Clone, PartialEq, Eq)]
pub struct Settings(pub(crate) Arc<[Setting]>);

impl Default for Settings {
    fn default() -> Self {
        Self(Arc::from([]))
    }
}

impl Debug for Settings {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl Settings {
    /// Checks settings and puts them in order.
    ///
    /// # Errors
    /// [`SettingError`] for the first limit that is broken.
    pub fn new(settings: impl IntoIterator<Item = Setting>) -> Result<Self, SettingError> {
        let mut all: Vec<Setting> = settings.into_iter().take(SETTINGS_MAX + 1).collect();
        check_count(all.len(), SETTINGS_MAX)?;
        for setting in &all {
            setting.check()?;
        }
        all.sort_by(|a, b| a.key.cmp(&b.key));
        if let Some(twice) = all.windows(2).find(|pair| pair[0].key == pair[1].key) {
            return Err(SettingError::Duplicate {
                key: twice[0].key.clone(),
            });
        }
        let settings = Self(all.into());
        let (bytes, max) = (settings.bytes(), LIST_BYTES_MAX);
        if bytes > max {
            return Err(SettingError::TooLong { bytes, max });
        }
        Ok(settings)
    }

    /// Every setting, by key.
    pub fn iter(&self) -> impl Iterator<Item = &Setting> {
        self.0.iter()
    }

    /// The setting of this key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Setting> {
        let at = self.0.binary_search_by(|setting| setting.key.as_str().cmp(key));
        self.0.get(at.ok()?)
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Bytes of the list as it is sent.
    pub(crate) fn bytes(&self) -> usize {
        let entries = self.iter().map(|s| ENTRY_BYTES + s.key.len() + s.value.len());
        1 + entries.sum::<usize>()
    }

    /// Those that the other side named as well or must have: all that it needs to compare, and no more.
    pub(crate) fn for_reader_of(&self, others: &Self) -> Self {
        let shown = self
            .iter()
            .filter(|s| s.must_exist || others.get(&s.key).is_some());
        Self(shown.cloned().collect())
    }

    /// Where this node and another one do not agree, seen from here: by key, each once.
    pub(crate) fn differences(&self, other: &Self, checkers: &JoinCheckers) -> Differences {
        let same_strategy = match (self.get(STRATEGY), other.get(STRATEGY)) {
            (Some(own), Some(other)) => own.value == other.value,
            (None, _) | (_, None) => true,
        };
        let compared = |key: &str| same_strategy || !is_of_strategy(key);
        let mut found = Vec::new();
        for own in self.iter().filter(|own| compared(&own.key)) {
            let theirs = other.get(&own.key);
            let agrees = match theirs {
                Some(theirs) => checkers.agree(&own.key, &own.value, &theirs.value),
                None => !own.must_exist,
            };
            if !agrees {
                found.push(SettingDifference {
                    key: own.key.clone(),
                    own: Some(own.value.clone()),
                    other: theirs.map(|theirs| theirs.value.clone()),
                });
            }
        }
        let unknown = |theirs: &&Setting| theirs.must_exist && self.get(&theirs.key).is_none();
        let unknown = other
            .iter()
            .filter(unknown)
            .filter(|theirs| compared(&theirs.key));
        found.extend(unknown.map(|theirs| SettingDifference {
            key: theirs.key.clone(),
            own: None,
            other: Some(theirs.value.clone()),
        }));
        found.sort_by(|a, b| a.key.cmp(&b.key));
        found.into()
    }
}

/// Whether a key says something about the downing strategy beside its name.
fn is_of_strategy(key: &str) -> bool {
    key.strip_prefix(STRATEGY)
        .is_some_and(|below| below.starts_with('.'))
}

const fn check_count(count: usize, max: usize) -> Result<(), SettingError> {
    if count > max {
        return Err(SettingError::TooMany { count, max });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
