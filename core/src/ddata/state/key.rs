//! The names of values in the replicator, and patterns of them. Never decides who may use a name. Spec:
//! sharding 1.12.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::hash::Hasher;

use siphasher::sip::SipHasher13;

use crate::store::Bytes;

/// Keys of values in a store begin with this byte.
pub(crate) const VALUE: u8 = b'v';

/// Bytes of a key at most: a path of a few names, and 500 of them with their digests stay far below a frame.
pub const KEY_BYTES_MAX: usize = 255;

/// The name of one replicated value: 1 to [`KEY_BYTES_MAX`] bytes of UTF-8. Cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Arc<str>);

/// A key or prefix that is empty or too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a key has 1 to 255 bytes")]
pub struct BadKey;

impl Key {
    /// A key of this name.
    ///
    /// # Errors
    /// [`BadKey`] if it is empty or longer than [`KEY_BYTES_MAX`].
    pub fn new(name: &str) -> Result<Self, BadKey> {
        if name.is_empty() || name.len() > KEY_BYTES_MAX {
            return Err(BadKey);
        }
        Ok(Self(Arc::from(name)))
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Where a store holds its value, if it is durable: all values stand together, behind what else the
    /// replicator keeps. This is on disks: it never changes.
    #[must_use]
    pub fn stored(&self) -> Bytes {
        let mut bytes = Vec::with_capacity(1 + self.0.len());
        bytes.push(VALUE);
        bytes.extend_from_slice(self.0.as_bytes());
        Bytes::from(bytes)
    }

    /// The hash that says in which chunk of the digests the key travels: the same on every node and in every
    /// version.
    #[must_use]
    pub fn hash(&self) -> u64 {
        let mut hasher = SipHasher13::new_with_keys(0x0064_6461_7461, 1);
        hasher.write(self.0.as_bytes());
        hasher.finish()
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One key, or all keys that begin with a prefix.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Pattern {
    /// Exactly this key.
    Key(Key),
    /// Every key that begins so; the empty prefix means every key.
    Prefix(Arc<str>),
}

impl Pattern {
    /// Reads `name`, or `prefix*`.
    ///
    /// # Errors
    /// [`BadKey`] as for [`Key::new`]; a prefix may be empty.
    pub fn parse(text: &str) -> Result<Self, BadKey> {
        match text.strip_suffix('*') {
            Some(prefix) => Self::below(prefix),
            None => Key::new(text).map(Self::Key),
        }
    }

    /// Every key that begins so.
    ///
    /// # Errors
    /// [`BadKey`] if that is longer than [`KEY_BYTES_MAX`]; it may be empty.
    pub fn below(prefix: &str) -> Result<Self, BadKey> {
        if prefix.len() > KEY_BYTES_MAX {
            return Err(BadKey);
        }
        Ok(Self::Prefix(Arc::from(prefix)))
    }

    /// Whether the key is meant.
    #[must_use]
    pub fn matches(&self, key: &Key) -> bool {
        match self {
            Self::Key(own) => own == key,
            Self::Prefix(prefix) => key.as_str().starts_with(&**prefix),
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(key) => fmt::Display::fmt(key, f),
            Self::Prefix(prefix) => write!(f, "{prefix}*"),
        }
    }
}

impl TryFrom<String> for Key {
    type Error = BadKey;

    fn try_from(name: String) -> Result<Self, BadKey> {
        Self::new(&name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s_224_a_prefix_matches_new_keys_and_a_name_only_itself() {
        let key = |name| Key::new(name).unwrap();
        let pattern = Pattern::parse("a-*").unwrap();
        assert!(pattern.matches(&key("a-1")));
        assert!(!pattern.matches(&key("b-1")));
        assert!(Pattern::parse("*").unwrap().matches(&key("b-1")));
        let name = Pattern::parse("a-1").unwrap();
        assert!(name.matches(&key("a-1")) && !name.matches(&key("a-11")));
    }

    #[test]
    fn a_key_has_1_to_255_bytes() {
        assert_eq!(Key::new(""), Err(BadKey));
        assert!(Key::new(&"k".repeat(KEY_BYTES_MAX)).is_ok());
        assert_eq!(Key::new(&"k".repeat(KEY_BYTES_MAX + 1)), Err(BadKey));
    }
}
