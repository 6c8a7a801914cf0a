//! What a bucket of the keyed store is, as everybody who opens it has to say it; and in which of its ranges a
//! key lies. Values only. Spec: sharding 10.10, 10.11, 10.19 a; reliability B-62.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use super::bucket::BucketName;
use super::level::{Level, LevelError};
use super::table::{RANGES_MAX, RangeId, RangeLevels, RangeLevelsError};
use crate::ddata::state::key::Key;
use crate::ident::Role;
use crate::sharding::state::fields::{FieldDifference, FieldDifferences};

/// The longest name of a merge function, in bytes.
pub const MERGE_NAME_BYTES_MAX: usize = 64;

/// Bytes that settings take in a message beside their texts, generously.
const FIXED_BYTES: usize = 24;

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
    /// Whether others stand in for owners that are away: a get may miss a put then whatever R and W are.
    pub is_sloppy: bool,
    /// Owners are stores of members with this role; of all members if `None`.
    pub role: Option<Role>,
}

/// A bucket, as far as all nodes must agree on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketFields {
    /// Its name.
    pub name: BucketName,
    /// How it is opened.
    pub settings: BucketSettings,
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
            is_sloppy,
            role,
        } = self;
        let kept = if *is_durable { "durable" } else { "in memory" };
        write!(
            f,
            "{copies} copies, R {read_least}, W {write_least}, {ranges} ranges, {kept}"
        )?;
        if *is_sloppy {
            f.write_str(", sloppy")?;
        }
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
            is_sloppy: false,
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
        let (reads, writes) = (self.count(self.read_least)?, self.count(self.write_least)?);
        Ok(RangeLevels::new(self.copies, reads, writes)?)
    }

    /// Whether every get at the least level meets every put at the least level.
    #[must_use]
    pub fn is_strict(&self) -> bool {
        !self.is_sloppy && self.check().is_ok_and(RangeLevels::is_strict)
    }

    /// How many of the copies a level is: at most all, which are a u8.
    fn count(&self, level: Level) -> Result<u8, LevelError> {
        let count = level.of(usize::from(self.copies))?;
        Ok(u8::try_from(count).unwrap_or(u8::MAX))
    }

    /// At most so many bytes in a message.
    pub(crate) fn bytes_max(&self) -> usize {
        let merge = self.merge.as_ref().map_or(0, |name| name.len());
        let role = self.role.as_ref().map_or(0, |role| role.as_str().len());
        FIXED_BYTES + merge + role
    }

    /// What differs: mine first. Levels that are as many of the copies do not, whatever their names.
    #[must_use]
    pub fn differences(&self, theirs: &Self) -> Vec<FieldDifference> {
        let Self {
            copies,
            read_least,
            write_least,
            ranges,
            merge,
            is_durable,
            is_sloppy,
            role,
        } = self;
        let mut found = Vec::new();
        if *copies != theirs.copies {
            let (ours, theirs) = (*copies, theirs.copies);
            found.push(FieldDifference::Copies { ours, theirs });
        }
        // What no copies can meet is as good as none.
        let count = |settings: &Self, level| settings.count(level).unwrap_or_default();
        let (ours, other) = (count(self, *read_least), count(theirs, theirs.read_least));
        if ours != other {
            found.push(FieldDifference::LeastReads { ours, theirs: other });
        }
        let (ours, other) = (count(self, *write_least), count(theirs, theirs.write_least));
        if ours != other {
            found.push(FieldDifference::LeastWrites { ours, theirs: other });
        }
        if *ranges != theirs.ranges {
            let (ours, theirs) = (*ranges, theirs.ranges);
            found.push(FieldDifference::Ranges { ours, theirs });
        }
        if *merge != theirs.merge {
            let (ours, theirs) = (merge.clone(), theirs.merge.clone());
            found.push(FieldDifference::Merge { ours, theirs });
        }
        if *is_durable != theirs.is_durable {
            let (ours, theirs) = (*is_durable, theirs.is_durable);
            found.push(FieldDifference::Durable { ours, theirs });
        }
        if *is_sloppy != theirs.is_sloppy {
            let (ours, theirs) = (*is_sloppy, theirs.is_sloppy);
            found.push(FieldDifference::SloppyQuorum { ours, theirs });
        }
        if *role != theirs.role {
            let (ours, theirs) = (role.clone(), theirs.role.clone());
            found.push(FieldDifference::Role { ours, theirs });
        }
        found
    }

    /// What differs between these settings and others; `None` if nothing does.
    pub(crate) fn differs_from(&self, theirs: &Self) -> Option<FieldDifferences> {
        FieldDifferences::of(self.differences(theirs))
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
