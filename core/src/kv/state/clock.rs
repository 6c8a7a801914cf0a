//! Who mints versions, and which versions are known: dots and clocks. Values only. Spec: sharding 10.19 c.
//!
//! A dot is given by one actor and counts what that actor gave. The count is the actor's own and no key's, so
//! it goes on when a key was reaped. Whoever lost or dropped what it held is another actor from then on, so
//! no dot is ever given twice.

use alloc::vec::Vec;

use crate::bytes::{BodyReader, WireError};
use crate::journal::state::{NUMBER_MAX, StoreId};

/// The most actors of a clock: nine copies, each of them replaced or restarted a score of times since the
/// last pruning.
pub const ACTORS_MAX: usize = 256;

/// Bytes of an entry of a clock.
const ENTRY_BYTES: usize = 48;

/// Who gives dots: a store, in one of its lives, since it became an owner of the range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Actor {
    /// The store.
    pub store: StoreId,
    /// How often it had been opened: counted durably before it does anything.
    pub boot: u64,
    /// The epoch since which it owns the range: a newcomer drops what it held, and counts anew.
    pub since: u64,
}

/// One version of a key: the how manieth that its actor gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VersionDot {
    /// Who gave it.
    pub actor: Actor,
    /// From 1.
    pub count: u64,
}

/// What is known of one actor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockEntry {
    /// Which.
    pub actor: Actor,
    /// Every dot up to this one is known.
    pub count: u64,
    /// When that was given, in milliseconds since the Unix epoch. Nothing but pruning looks at it.
    pub at_ms: u64,
}

/// Which versions of a key are known: those that are held, and those that were overwritten.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VersionClock {
    /// By actor.
    entries: Vec<ClockEntry>,
}

impl VersionClock {
    /// Of somebody who has seen nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self { entries: Vec::new() }
    }

    /// What is known of each actor, in the order of the actors.
    #[must_use]
    pub fn entries(&self) -> &[ClockEntry] {
        &self.entries
    }

    /// Whether nothing is known.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Up to which dot of an actor all are known; 0 if none is.
    #[must_use]
    pub fn count_of(&self, actor: Actor) -> u64 {
        self.find(actor).map_or(0, |at| self.entries[at].count)
    }

    /// Whether a version is known.
    #[must_use]
    pub fn covers(&self, dot: VersionDot) -> bool {
        dot.count <= self.count_of(dot.actor)
    }

    /// Whether all that another one knows is known.
    #[must_use]
    pub fn dominates(&self, other: &Self) -> bool {
        let is_known = |entry: &ClockEntry| entry.count <= self.count_of(entry.actor);
        other.entries.iter().all(is_known)
    }

    /// Knows one more version, and all of its actor before it.
    pub fn add(&mut self, dot: VersionDot, at_ms: u64) {
        self.raise(ClockEntry {
            actor: dot.actor,
            count: dot.count,
            at_ms,
        });
    }

    /// Knows what another one knows, too.
    pub fn merge(&mut self, other: &Self) {
        other.entries.iter().for_each(|entry| self.raise(*entry));
    }

    /// Forgets actors.
    pub(super) fn retain(&mut self, stays: impl Fn(Actor) -> bool) {
        self.entries.retain(|entry| stays(entry.actor));
    }

    fn raise(&mut self, entry: ClockEntry) {
        match self.find(entry.actor) {
            Ok(at) if self.entries[at].count < entry.count => self.entries[at] = entry,
            Ok(_) => {}
            Err(at) => {
                self.entries.reserve_exact(1);
                self.entries.insert(at, entry);
            }
        }
    }

    fn find(&self, actor: Actor) -> Result<usize, usize> {
        self.entries.binary_search_by(|entry| entry.actor.cmp(&actor))
    }

    /// Appends its bytes, the same wherever it is equal.
    pub(super) fn put(&self, out: &mut Vec<u8>) -> Result<(), WireError> {
        put_count(out, self.entries.len(), ACTORS_MAX, "actors")?;
        for entry in &self.entries {
            put_dot(out, entry.actor, entry.count);
            out.extend_from_slice(&entry.at_ms.to_le_bytes());
        }
        Ok(())
    }

    pub(super) fn take(from: &mut BodyReader<'_>) -> Result<Self, WireError> {
        let count = take_count(from, ACTORS_MAX, "actors")?;
        let mut column = BodyReader::new(from.take(count * ENTRY_BYTES)?);
        let mut entries = Vec::with_capacity(count);
        for _ in 0..count {
            let VersionDot { actor, count } = take_dot(&mut column)?;
            let at_ms = column.u64()?;
            entries.push(ClockEntry { actor, count, at_ms });
        }
        if !entries.is_sorted_by(|a, b| a.actor < b.actor) {
            return Err(WireError::NonCanonical { what: "clock" });
        }
        Ok(Self { entries })
    }

    /// Bytes of its entries.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.entries.len() * ENTRY_BYTES
    }

    /// As bytes, for who has to hand it back with the next put.
    ///
    /// # Errors
    /// It names more than [`ACTORS_MAX`] actors.
    pub fn encode(&self) -> Result<Vec<u8>, WireError> {
        let mut out = Vec::with_capacity(2 + self.bytes());
        self.put(&mut out)?;
        Ok(out)
    }

    /// From [`Self::encode`]'s bytes.
    ///
    /// # Errors
    /// They are none that it writes.
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let mut reader = BodyReader::new(bytes);
        let clock = Self::take(&mut reader)?;
        reader.finish()?;
        Ok(clock)
    }
}

pub(super) fn put_count(
    out: &mut Vec<u8>,
    count: usize,
    max: usize,
    what: &'static str,
) -> Result<(), WireError> {
    let short = u16::try_from(count).ok().filter(|_| count <= max);
    let short = short.ok_or(WireError::LimitExceeded { what })?;
    out.extend_from_slice(&short.to_le_bytes());
    Ok(())
}

pub(super) fn take_count(
    from: &mut BodyReader<'_>,
    max: usize,
    what: &'static str,
) -> Result<usize, WireError> {
    let count = usize::from(from.u16()?);
    if count > max {
        return Err(WireError::LimitExceeded { what });
    }
    Ok(count)
}

pub(super) fn put_dot(out: &mut Vec<u8>, actor: Actor, count: u64) {
    out.extend_from_slice(&actor.store.0.to_le_bytes());
    for number in [actor.boot, actor.since, count] {
        out.extend_from_slice(&number.to_le_bytes());
    }
}

pub(super) fn take_dot(from: &mut BodyReader<'_>) -> Result<VersionDot, WireError> {
    let actor = Actor {
        store: StoreId(u128::from_le_bytes(from.array()?)),
        boot: from.u64()?,
        since: from.u64()?,
    };
    let count = from.u64()?;
    if count == 0 || count > NUMBER_MAX || actor.since > NUMBER_MAX {
        return Err(WireError::Malformed { what: "dot" });
    }
    Ok(VersionDot { actor, count })
}
