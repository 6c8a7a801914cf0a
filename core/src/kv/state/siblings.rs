//! The versions of a key of which none overwrote another, and how they meet those of another replica. Pure;
//! the rule of every put and every merge of ordinary versions is here and nowhere else. Spec: sharding 5.6,
//! 10.19 c, d; reliability I-72, I-73, I-75.
//!
//! One clock stands for all of them: a version that it covers and that is not there was overwritten. So the
//! whole set travels, never a single version. A version ends at the same dot everywhere, deleted or expired:
//! of the two contents that one dot can have, the tombstone wins.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::clock::{VersionClock, VersionDot, put_count, put_dot, take_count, take_dot};
use super::configuration::OWNERS_MAX;
use super::logged::LogRecord;
use crate::bytes::{BodyReader, WireError};
use crate::store::{Bytes, limits};

/// The most siblings that a put may leave.
pub const SIBLINGS_MAX: usize = 64;

/// The most that replicas may hold: as many as all of them together may have left while they were apart.
pub const SIBLINGS_MERGED_MAX: usize = SIBLINGS_MAX * OWNERS_MAX;

/// The most bytes of the values that a put may leave: those of all owners together fit into what a store
/// keeps as one.
pub const VALUES_BYTES_MAX: usize = limits::VALUE_BYTES_MAX / (OWNERS_MAX + 1);

/// What a version costs beside its value, and an entry of the clock: a dot and a time.
const VERSION_BYTES: usize = 56;

/// How a log is written among contents.
const LOG: u8 = 3;

/// What a version says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VersionContent {
    /// A value.
    Value {
        /// The bytes.
        bytes: Bytes,
        /// When it ends, in milliseconds since the Unix epoch; `None`: never.
        expires_ms: Option<u64>,
    },
    /// It was deleted, or it expired.
    Tombstone,
    /// The log of a durable entity: only a decision makes one, and it is no value to those who read the key.
    Log(Arc<LogRecord>),
}

impl VersionContent {
    /// The bytes of a value.
    #[must_use]
    pub const fn value(&self) -> Option<&Bytes> {
        match self {
            Self::Value { bytes, .. } => Some(bytes),
            Self::Tombstone | Self::Log(_) => None,
        }
    }

    /// The log.
    #[must_use]
    pub const fn log(&self) -> Option<&Arc<LogRecord>> {
        match self {
            Self::Log(log) => Some(log),
            Self::Value { .. } | Self::Tombstone => None,
        }
    }

    /// Since when it has been past its end, if it is.
    pub(super) fn expired_ms(&self, now_ms: u64) -> Option<u64> {
        match self {
            Self::Value { expires_ms, .. } => expires_ms.filter(|end| *end <= now_ms),
            Self::Tombstone | Self::Log(_) => None,
        }
    }

    pub(super) fn put(&self, out: &mut Vec<u8>) {
        let (kind, end, bytes): (u8, _, &[u8]) = match self {
            Self::Tombstone => (0, None, &[]),
            Self::Log(log) => {
                out.push(LOG);
                return log.put(out);
            }
            Self::Value { bytes, expires_ms } => (1 + u8::from(expires_ms.is_some()), *expires_ms, bytes),
        };
        out.push(kind);
        if let Some(end) = end {
            out.extend_from_slice(&end.to_le_bytes());
        }
        if kind > 0 {
            // What is longer than four bytes can say is refused where it is put.
            let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
            out.extend_from_slice(&len.to_le_bytes());
            out.extend_from_slice(bytes);
        }
    }

    pub(super) fn take(from: &mut BodyReader<'_>) -> Result<Self, WireError> {
        let kind = from.u8()?;
        let expires_ms = match kind {
            0 => return Ok(Self::Tombstone),
            1 => None,
            2 => Some(from.u64()?),
            LOG => return LogRecord::take(from).map(|log| Self::Log(Arc::new(log))),
            _ => return Err(WireError::Malformed { what: "version" }),
        };
        let len = from.u32()? as usize;
        if len > VALUES_BYTES_MAX {
            return Err(WireError::TooLarge {
                bytes: len as u64,
                max: VALUES_BYTES_MAX as u64,
            });
        }
        let bytes = Arc::from(from.take(len)?);
        Ok(Self::Value { bytes, expires_ms })
    }
}

/// One version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// Which.
    pub dot: VersionDot,
    /// When it was made, and of one that expired: when it did. Milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// What it says.
    pub content: VersionContent,
}

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Siblings {
    clock: VersionClock,
    /// By dot.
    versions: Vec<Version>,
}

/// Why a put is refused, whatever else is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PutError {
    /// The versions that it does not overwrite are too many.
    #[error("a key has at most {SIBLINGS_MAX} siblings: read it and put with the context")]
    Siblings,
    /// Its value, with those that it does not overwrite, is too large.
    #[error("the values of a key have at most {VALUES_BYTES_MAX} bytes")]
    Bytes,
    /// Its clock would name too many actors.
    #[error("a clock names at most {} actors", super::clock::ACTORS_MAX)]
    Actors,
    /// An owner holds as much as it may (`kv.store_bytes_max`). What is deleted makes room once it is
    /// forgotten.
    #[error("an owner of the key holds as much as it may")]
    Full,
}

impl Siblings {
    /// Those of a key that nobody has put.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            clock: VersionClock::new(),
            versions: Vec::new(),
        }
    }

    /// What was seen of the key: the context of a put that overwrites all of them.
    #[must_use]
    pub const fn clock(&self) -> &VersionClock {
        &self.clock
    }

    /// All of them, in the order of their dots.
    #[must_use]
    pub fn versions(&self) -> &[Version] {
        &self.versions
    }

    /// The values among them.
    pub fn values(&self) -> impl Iterator<Item = &Bytes> {
        self.versions.iter().filter_map(|version| version.content.value())
    }

    /// About how many bytes they take.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let values = self.values().map(|bytes| bytes.len()).sum::<usize>();
        let entries = self.clock.entries().len() + self.versions.len();
        values + entries * VERSION_BYTES
    }

    /// Whether nothing was ever put, as far as is known.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.clock.is_empty()
    }

    /// Whether no value is among them.
    #[must_use]
    pub fn is_dead(&self) -> bool {
        self.values().next().is_none()
    }

    /// One more version, which overwrites those that its context covers.
    ///
    /// # Errors
    /// [`PutError`] says why not; nothing changed then.
    pub fn put(&mut self, version: Version, context: &VersionClock) -> Result<(), PutError> {
        let mut after = self.clone();
        after.versions.retain(|held| !context.covers(held.dot));
        after.clock.merge(context);
        after.clock.add(version.dot, version.at_ms);
        let at = after.versions.partition_point(|held| held.dot < version.dot);
        after.versions.reserve_exact(1);
        after.versions.insert(at, version);
        if after.versions.len() > SIBLINGS_MAX {
            return Err(PutError::Siblings);
        }
        if after.values().map(|bytes| bytes.len()).sum::<usize>() > VALUES_BYTES_MAX {
            return Err(PutError::Bytes);
        }
        if after.clock.entries().len() > super::clock::ACTORS_MAX {
            return Err(PutError::Actors);
        }
        *self = after;
        Ok(())
    }

    /// Those that are there after two replicas have met; whether this one changed.
    pub fn join(&mut self, other: &Self) -> bool {
        if self.dominates(other) {
            return false;
        }
        let mut versions = Vec::with_capacity(self.versions.len() + other.versions.len());
        for held in core::mem::take(&mut self.versions) {
            match other.version(held.dot) {
                Some(same) => versions.push(later_of(held, same)),
                None if !other.clock.covers(held.dot) => versions.push(held),
                None => {}
            }
        }
        let is_new = |version: &&Version| !self.clock.covers(version.dot);
        versions.extend(other.versions.iter().filter(is_new).cloned());
        versions.sort_unstable_by_key(|version| version.dot);
        // Most keys have one version and stay for long.
        versions.shrink_to_fit();
        self.versions = versions;
        self.clock.merge(&other.clock);
        true
    }

    /// Whether meeting the other one would change nothing: all of it is held or was overwritten.
    #[must_use]
    pub fn dominates(&self, other: &Self) -> bool {
        self.clock.dominates(&other.clock)
            && self.versions.iter().all(|held| match other.version(held.dot) {
                Some(same) => held.content == same.content || held.content == VersionContent::Tombstone,
                None => !other.clock.covers(held.dot),
            })
    }

    /// Makes tombstones of what has expired; whether anything has.
    pub fn expire(&mut self, now_ms: u64) -> bool {
        let mut changed = false;
        for version in &mut self.versions {
            if let Some(at_ms) = version.content.expired_ms(now_ms) {
                (version.at_ms, version.content) = (at_ms, VersionContent::Tombstone);
                changed = true;
            }
        }
        changed
    }

    /// Whether all of them have been tombstones for this long.
    #[must_use]
    pub fn are_dead_for(&self, grace_ms: u64, now_ms: u64) -> bool {
        let is_over = |version: &Version| version.at_ms.saturating_add(grace_ms) <= now_ms;
        self.is_dead() && self.versions.iter().all(is_over)
    }

    /// Forgets actors that gave none of them.
    pub(super) fn forget(&mut self, is_over: impl Fn(super::clock::Actor) -> bool) {
        let Self { clock, versions } = self;
        clock.retain(|actor| !is_over(actor) || versions.iter().any(|version| version.dot.actor == actor));
    }

    fn version(&self, dot: VersionDot) -> Option<&Version> {
        let at = self.versions.binary_search_by(|version| version.dot.cmp(&dot));
        at.ok().map(|at| &self.versions[at])
    }

    pub(super) fn put_bytes(&self, out: &mut Vec<u8>) -> Result<(), WireError> {
        self.clock.put(out)?;
        put_count(out, self.versions.len(), SIBLINGS_MERGED_MAX, "siblings")?;
        for version in &self.versions {
            put_dot(out, version.dot.actor, version.dot.count);
            out.extend_from_slice(&version.at_ms.to_le_bytes());
            version.content.put(out);
        }
        Ok(())
    }

    pub(super) fn take_bytes(from: &mut BodyReader<'_>) -> Result<Self, WireError> {
        let clock = VersionClock::take(from)?;
        let count = take_count(from, SIBLINGS_MERGED_MAX, "siblings")?;
        let mut versions: Vec<Version> = Vec::new();
        for _ in 0..count {
            let version = Version {
                dot: take_dot(from)?,
                at_ms: from.u64()?,
                content: VersionContent::take(from)?,
            };
            if version.content.log().is_some() {
                return Err(WireError::Malformed { what: "siblings" });
            }
            if versions.last().is_some_and(|before| before.dot >= version.dot) {
                return Err(WireError::NonCanonical { what: "siblings" });
            }
            if !clock.covers(version.dot) {
                return Err(WireError::Malformed { what: "siblings" });
            }
            versions.push(version);
        }
        versions.shrink_to_fit();
        Ok(Self { clock, versions })
    }
}

/// Of two contents of one dot: what has ended stays so.
fn later_of(held: Version, other: &Version) -> Version {
    if held.content == VersionContent::Tombstone {
        held
    } else {
        other.clone()
    }
}
