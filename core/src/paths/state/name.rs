//! Names of paths, and their ids on the wire. Spec: sharding 5.1, 10.5.

use alloc::sync::Arc;
use core::fmt;
use core::hash::Hasher;

use siphasher::sip::SipHasher13;

/// Keys of the hash that names paths; published, because every node must agree.
const HASH_KEYS: (u64, u64) = (0x5175_6f72_6174_6531, 0x5061_7468_4e61_6d65);

/// Most segments of a path.
pub const PATH_SEGMENTS_MAX: usize = 8;
/// Longest path, in bytes, slashes included.
pub const PATH_BYTES_MAX: usize = 128;

/// The published hash of a name or a key.
pub(super) fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = SipHasher13::new_with_keys(HASH_KEYS.0, HASH_KEYS.1);
    hasher.write(bytes);
    hasher.finish()
}

/// What is wrong with a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PathNameError {
    /// Longer than [`PATH_BYTES_MAX`].
    #[error("a path has at most {PATH_BYTES_MAX} bytes")]
    TooLong,
    /// More segments than [`PATH_SEGMENTS_MAX`].
    #[error("a path has at most {PATH_SEGMENTS_MAX} segments")]
    TooManySegments,
    /// No segment, an empty one, or a character other than letters, digits, `_` and `-` of ASCII.
    #[error("a segment of a path is one or more ASCII letters, digits, '_' or '-'")]
    BadSegment,
}

/// A path: one to eight segments separated by slashes, at most 128 bytes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PathName(Arc<str>);

impl PathName {
    /// A path of this name.
    ///
    /// # Errors
    /// [`PathNameError`] for a name that is no path.
    pub fn new(name: &str) -> Result<Self, PathNameError> {
        check_path(name)?;
        Ok(Self(Arc::from(name)))
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Its id on the wire.
    #[must_use]
    pub fn id(&self) -> PathId {
        PathId::of(&self.0)
    }

    /// Whether one of them is the other one, or above it: `a` and `a/b`, but not `a` and `ab`.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        let (short, long) = if self.0.len() <= other.0.len() {
            (&self.0, &other.0)
        } else {
            (&other.0, &self.0)
        };
        let rest = long.strip_prefix(&**short);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

impl fmt::Debug for PathName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for PathName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Checks a path's name without keeping it.
pub(crate) fn check_path(name: &str) -> Result<(), PathNameError> {
    if name.len() > PATH_BYTES_MAX {
        return Err(PathNameError::TooLong);
    }
    if name.split('/').count() > PATH_SEGMENTS_MAX {
        return Err(PathNameError::TooManySegments);
    }
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if name
        .split('/')
        .all(|segment| !segment.is_empty() && segment.bytes().all(legal))
    {
        Ok(())
    } else {
        Err(PathNameError::BadSegment)
    }
}

/// A path on the wire: the hash of its name. Two paths with one id are refused at registration.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PathId(u64);

impl PathId {
    /// The id of a path's name.
    #[must_use]
    pub fn of(name: &str) -> Self {
        Self(hash(name.as_bytes()))
    }

    /// From the wire.
    #[must_use]
    pub const fn from_raw(raw: u64) -> Self {
        Self(raw)
    }

    /// To the wire.
    #[must_use]
    pub const fn raw(self) -> u64 {
        self.0
    }
}

impl fmt::Debug for PathId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_one_to_eight_segments_and_at_most_128_bytes() {
        for good in ["a", "a/b/c", "A-1/b_2", "1/2/3/4/5/6/7/8"] {
            assert_eq!(PathName::new(good).map(|name| name.0), Ok(Arc::from(good)));
        }
        for bad in ["", "/", "a/", "/a", "a//b", "a b", "ä", "a.b"] {
            assert_eq!(PathName::new(bad), Err(PathNameError::BadSegment), "{bad:?}");
        }
        assert_eq!(
            PathName::new("1/2/3/4/5/6/7/8/9"),
            Err(PathNameError::TooManySegments)
        );
        assert!(PathName::new(&"a".repeat(128)).is_ok());
        assert_eq!(PathName::new(&"a".repeat(129)), Err(PathNameError::TooLong));
    }

    #[test]
    fn s_308_a_path_overlaps_itself_and_what_is_below_it() {
        let name = |name: &str| PathName::new(name).unwrap();
        for (a, b, overlap) in [
            ("a", "a/b", true),
            ("a/b", "a", true),
            ("a", "a", true),
            ("a", "ab", false),
            ("a/b", "a/c", false),
            ("a/b", "a/bc/d", false),
        ] {
            assert_eq!(name(a).overlaps(&name(b)), overlap, "{a} {b}");
        }
    }
}
