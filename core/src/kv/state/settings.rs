//! What a bucket of the keyed store is, as everybody who opens it has to say it; and in which of its ranges a
//! key lies. Values only. Spec: sharding 10.10, 10.11, 10.19 a; reliability B-62.

use alloc::sync::Arc;
use core::fmt;

use super::level::{Level, LevelError};
use super::table::{RANGES_MAX, RangeId, RangeLevels, RangeLevelsError};
use crate::ddata::state::key::Key;
use crate::ident::Role;

/// The longest name of a merge function, in bytes.
pub const MERGE_NAME_BYTES_MAX: usize = 64;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketSettings {
    /// N: how many copies there are of each value.
    pub copies: u8,
    /// The least R: gets below it guarantee nothing, and write nothing back.
    pub read_least: Level,
    /// The least W: puts below it guarantee nothing.
    pub write_least: Level,
    /// Parts in which its keys are moved.
    pub ranges: u16,
    /// The function that makes one value of siblings where a get was called; `None`: the caller sees them.
    pub merge: Option<Arc<str>>,
    /// Whether owners keep it in their stores, or in memory.
    pub is_durable: bool,
    /// Owners are stores of members with this role; of all members if `None`.
    pub role: Option<Role>,
}

/// Settings that no bucket can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BucketSettingsError {
    /// N.
    #[error(transparent)]
    Copies(#[from] RangeLevelsError),
    /// The least R or W.
    #[error(transparent)]
    Level(#[from] LevelError),
    /// No ranges, or too many.
    #[error("a bucket has 1 to {RANGES_MAX} ranges, not {found}")]
    Ranges {
        /// How many.
        found: u16,
    },
    /// The name of the merge function is empty or too long.
    #[error("the name of a merge function has 1 to {MERGE_NAME_BYTES_MAX} bytes")]
    MergeName,
}

impl fmt::Display for BucketSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            copies,
            read_least,
            write_least,
            ranges,
            merge,
            is_durable,
            role,
        } = self;
        let kept = if *is_durable { "durable" } else { "in memory" };
        write!(
            f,
            "{copies} copies, R {read_least}, W {write_least}, {ranges} ranges, {kept}"
        )?;
        if let Some(merge) = merge {
            write!(f, ", merged by {merge}")?;
        }
        role.as_ref().map_or(Ok(()), |role| write!(f, ", role {role}"))
    }
}

impl Default for BucketSettings {
    fn default() -> Self {
        Self {
            copies: 3,
            read_least: Level::Quorum,
            write_least: Level::Quorum,
            ranges: 256,
            merge: None,
            is_durable: true,
            role: None,
        }
    }
}

impl BucketSettings {
    /// The numbers that the least levels are.
    ///
    /// # Errors
    /// [`BucketSettingsError`] says what no bucket can have.
    pub fn check(&self) -> Result<RangeLevels, BucketSettingsError> {
        RangeLevels::new(self.copies, 1, 1)?;
        if !(1..=RANGES_MAX).contains(&self.ranges) {
            return Err(BucketSettingsError::Ranges { found: self.ranges });
        }
        let is_name = |name: &Arc<str>| (1..=MERGE_NAME_BYTES_MAX).contains(&name.len());
        if !self.merge.as_ref().is_none_or(is_name) {
            return Err(BucketSettingsError::MergeName);
        }
        // At most the copies, which are a u8.
        let of = |level: Level| {
            let count = level.of(usize::from(self.copies))?;
            Ok::<_, LevelError>(u8::try_from(count).unwrap_or(u8::MAX))
        };
        let (reads, writes) = (of(self.read_least)?, of(self.write_least)?);
        Ok(RangeLevels::new(self.copies, reads, writes)?)
    }

    /// The range of a key, the same on every node: ranges are equal arcs of the ring of the keys' hashes.
    #[must_use]
    pub fn range_of(&self, key: &Key) -> RangeId {
        range_of(key, self.ranges)
    }
}

/// See [`BucketSettings::range_of`].
#[must_use]
pub fn range_of(key: &Key, ranges: u16) -> RangeId {
    let scaled = u128::from(key.hash()) * u128::from(ranges);
    // Below the number of ranges, which is a u16.
    RangeId(u16::try_from(scaled >> 64).unwrap_or_default())
}
