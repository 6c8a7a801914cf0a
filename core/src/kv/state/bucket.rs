//! The names of buckets. Values only.

use alloc::sync::Arc;
use core::fmt;

/// Bytes of a bucket's name at most: every message about it carries it.
pub const BUCKET_NAME_BYTES_MAX: usize = 64;

/// The name of a bucket of the keyed store: 1 to [`BUCKET_NAME_BYTES_MAX`] bytes of UTF-8. Cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BucketName(Arc<str>);

/// A bucket's name that is empty or too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the name of a bucket has 1 to {BUCKET_NAME_BYTES_MAX} bytes")]
pub struct BadBucketName;

impl BucketName {
    /// A bucket of this name.
    ///
    /// # Errors
    /// [`BadBucketName`] if it is empty or longer than [`BUCKET_NAME_BYTES_MAX`].
    pub fn new(name: &str) -> Result<Self, BadBucketName> {
        if (1..=BUCKET_NAME_BYTES_MAX).contains(&name.len()) {
            Ok(Self(Arc::from(name)))
        } else {
            Err(BadBucketName)
        }
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for BucketName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for BucketName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
