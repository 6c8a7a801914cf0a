//! What an owner says of the keys that it holds, and the page that a caller gets of a range. Values only.
//! Spec: sharding 5.6.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::level::Level;
use super::part::PartError;
use super::table::RangeId;
use crate::ddata::state::key::Key;

/// Keys of a page of a range at most.
pub const LISTED_KEYS_MAX: u16 = 1_024;

/// Bytes of the keys that an owner names at once: a frame of this size is on its way in a few milliseconds.
pub const LISTED_BYTES_MAX: usize = 64 << 10;

/// Which keys of a range are asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeysWanted {
    /// Those that begin so.
    pub prefix: Arc<str>,
    /// Behind this one; `None`: from the first one on.
    pub after: Option<Key>,
    /// So many at most, 1 to [`LISTED_KEYS_MAX`] (clamped).
    pub keys_max: u16,
}

/// A page that a caller wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageWanted {
    /// Of which range.
    pub range: RangeId,
    /// Which keys of it.
    pub keys: KeysWanted,
    /// R.
    pub level: Level,
}

/// What an owner holds of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedKey {
    /// The key.
    pub key: Key,
    /// What stands for all that is held of it: owners that say the same hold the same.
    pub digest: u64,
    /// Whether it has a value there, and not only what is left of one.
    pub is_alive: bool,
    /// Whether it is written by conditional puts.
    pub is_decided: bool,
}

/// Some keys that an owner holds, ascending.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListedPart {
    /// Those that were asked for, those without a value too.
    pub keys: Vec<ListedKey>,
    /// Whether it holds none behind them.
    pub is_last: bool,
}

/// A page of a range.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyPage {
    /// Keys that have a value, ascending.
    pub keys: Vec<Key>,
    /// Behind which key to go on; `None`: the range has no more.
    pub next: Option<Key>,
}

impl KeysWanted {
    /// How many of them are named at once.
    #[must_use]
    pub fn count(&self) -> usize {
        usize::from(self.keys_max.clamp(1, LISTED_KEYS_MAX))
    }
}

impl ListedPart {
    /// Bytes of its keys. Linear.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.keys.iter().map(|listed| listed.key.as_str().len()).sum()
    }

    /// Whether an honest owner may have sent it.
    ///
    /// # Errors
    /// [`PartError`] says why not.
    pub fn check(&self, wanted: &KeysWanted) -> Result<(), PartError> {
        if self.keys.is_empty() && !self.is_last {
            return Err(PartError::Empty);
        }
        if self.keys.len() > wanted.count() {
            return Err(PartError::TooLarge);
        }
        let mut last = wanted.after.as_ref();
        for ListedKey { key, .. } in &self.keys {
            if last.is_some_and(|last| last >= key) || !key.as_str().starts_with(&*wanted.prefix) {
                return Err(PartError::Order);
            }
            last = Some(key);
        }
        Ok(())
    }
}
