//! All that a replica holds of a key, and what may change it: siblings that anybody adds to, or one value
//! that is decided by turns. Pure. Spec: sharding 10.7, 10.16, 10.19; reliability I-72, I-74.
//!
//! A turn begins with promises and ends with what was accepted. While one is open nobody knows whether the
//! key will hold a decided value, so ordinary versions are refused; the turn, or a later one, decides either
//! for a value or for [`KeyDecision::Ordinary`]. Behind a value siblings stay, and nobody is shown them or
//! compares them: what one replica accepted may not be what is decided in the end.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::hash::Hasher;

use siphasher::sip::SipHasher13;

use super::call::{Ballot, CallId};
use super::clock::Actor;
use super::logged::LogWrite;
use super::siblings::{Siblings, VersionContent};
use crate::bytes::{BodyReader, WireError};
use crate::ddata::state::key::Key;

/// How far a turn may be above the one that a replica knows, in rounds.
pub const ROUNDS_AHEAD_MAX: u64 = 1 << 42;

/// What a decision costs beside its value: its turn, its name, its times.
const DECISION_BYTES: usize = 72;

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KvEntry {
    /// The ordinary versions.
    pub siblings: Siblings,
    /// What was promised and decided; `None` if nobody ever began a turn, as for most keys.
    pub register: Option<Box<Register>>,
}

/// What one replica knows of the turns about a key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Register {
    /// The highest turn that it has seen. It never takes anything of a lower one.
    pub promise: Ballot,
    /// What it accepted last.
    pub accepted: Option<AcceptedDecision>,
}

/// A decision, as a replica accepted it. More than half of them make it so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcceptedDecision {
    /// In which turn.
    pub ballot: Ballot,
    /// What it is, unchanged by who writes it back in a later turn.
    pub decision: KeyDecision,
}

/// What a key holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyDecision {
    /// Ordinary versions, or nothing.
    Ordinary {
        /// When that was decided, in milliseconds since the Unix epoch.
        at_ms: u64,
    },
    /// One value.
    Value(DecidedVersion),
}

/// A value that was decided, or its deletion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecidedVersion {
    /// The call that put it: the name of this version.
    pub version: CallId,
    /// What it replaced: the version that was there when it was decided, if any.
    pub before: Option<CallId>,
    /// When, and of one that expired: when it did. Milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// What it says.
    pub content: VersionContent,
}

/// Why a replica does not change an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unchanged {
    /// A turn is open, so that nobody knows what the key holds; or a later one has begun.
    #[error("a turn is open")]
    Blocked {
        /// Which.
        held: Ballot,
    },
    /// The key holds a decided value.
    #[error("it is written by conditional puts")]
    Conditional,
    /// The turn is too far above the one that is known.
    #[error("too far ahead")]
    TooFarAhead,
    /// What is to be written goes on from what is not held.
    #[error("not alike")]
    NotAlike,
}

impl KvEntry {
    /// An entry of ordinary versions.
    #[must_use]
    pub const fn of(siblings: Siblings) -> Self {
        Self {
            siblings,
            register: None,
        }
    }

    /// About how many bytes it takes. Linear in its versions.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let decided = self.accepted().map_or(0, AcceptedDecision::bytes);
        self.siblings.bytes() + decided
    }

    /// Whether nothing is known of the key.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.siblings.is_empty() && self.register.is_none()
    }

    /// Whether the key has a value.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        match self.accepted().map(|accepted| &accepted.decision) {
            Some(KeyDecision::Value(decided)) => decided.content.value().is_some(),
            Some(KeyDecision::Ordinary { .. }) | None => self.siblings.values().next().is_some(),
        }
    }

    /// What was accepted last.
    #[must_use]
    pub fn accepted(&self) -> Option<&AcceptedDecision> {
        self.register.as_ref()?.accepted.as_ref()
    }

    /// The highest turn that was promised.
    #[must_use]
    pub fn promise(&self) -> Ballot {
        self.register
            .as_ref()
            .map_or(Ballot::NONE, |register| register.promise)
    }

    /// The turn that was promised and has not ended.
    #[must_use]
    pub fn open_turn(&self) -> Option<Ballot> {
        let register = self.register.as_ref()?;
        let accepted = register.accepted.as_ref();
        let is_open = accepted.is_none_or(|accepted| accepted.ballot != register.promise);
        is_open.then_some(register.promise)
    }

    /// Whether ordinary versions may come.
    ///
    /// # Errors
    /// [`Unchanged`] says why not.
    pub fn admits_versions(&self) -> Result<(), Unchanged> {
        let Some(register) = &self.register else {
            return Ok(());
        };
        match &register.accepted {
            Some(accepted) if accepted.is_value() => Err(Unchanged::Conditional),
            Some(accepted) if accepted.ballot == register.promise => Ok(()),
            Some(_) | None => Err(Unchanged::Blocked {
                held: register.promise,
            }),
        }
    }

    /// Promises a turn.
    ///
    /// # Errors
    /// A later one was promised, or this one is too far ahead.
    pub fn promise_to(&mut self, ballot: Ballot) -> Result<(), Unchanged> {
        let held = self.promise();
        if ballot < held {
            return Err(Unchanged::Blocked { held });
        }
        if ballot.round > held.round.saturating_add(ROUNDS_AHEAD_MAX) {
            return Err(Unchanged::TooFarAhead);
        }
        self.register.get_or_insert_default().promise = ballot;
        Ok(())
    }

    /// Accepts what a turn decides.
    ///
    /// # Errors
    /// As for [`Self::promise_to`].
    pub fn accept(&mut self, accepted: &AcceptedDecision) -> Result<(), Unchanged> {
        self.promise_to(accepted.ballot)?;
        self.register.get_or_insert_default().accepted = Some(accepted.clone());
        Ok(())
    }

    /// Goes on within a turn: what was accepted in the step before, with this written to it.
    ///
    /// # Errors
    /// A later turn was promised, or what was accepted in the step before is not held, or no log to which
    /// that can be written.
    pub fn extend(&mut self, ballot: Ballot, write: &LogWrite) -> Result<(), Unchanged> {
        let held = self.promise();
        if ballot < held {
            return Err(Unchanged::Blocked { held });
        }
        let accepted = self
            .register
            .as_ref()
            .and_then(|register| register.accepted.as_ref());
        let accepted = accepted.ok_or(Unchanged::NotAlike)?;
        if accepted.ballot == ballot {
            return Ok(());
        }
        let KeyDecision::Value(decided) = &accepted.decision else {
            return Err(Unchanged::NotAlike);
        };
        let log = decided.content.log().ok_or(Unchanged::NotAlike)?;
        if accepted.ballot.stepped() != Some(ballot) {
            return Err(Unchanged::NotAlike);
        }
        let log = write.applied(log).map_err(|_| Unchanged::NotAlike)?;
        let decided = DecidedVersion {
            content: VersionContent::Log(Arc::new(log)),
            ..decided.clone()
        };
        let decision = KeyDecision::Value(decided);
        self.accept(&AcceptedDecision { ballot, decision })
    }

    /// Takes in what another replica holds; whether that changed anything. What was accepted elsewhere is
    /// accepted here by the same rule: of a turn below the promise nothing is taken, because who was given
    /// the promise relies on it.
    ///
    /// # Errors
    /// Something of it is refused; what came before it is kept.
    pub fn merge(&mut self, other: &Self) -> Result<bool, Unchanged> {
        let mut changed = false;
        if let Some(theirs) = other.accepted()
            && self.accepted().is_none_or(|own| theirs.supersedes(own))
        {
            self.accept(theirs)?;
            changed = true;
        }
        let is_decided = other.accepted().is_some_and(AcceptedDecision::is_value);
        if is_decided || self.siblings.dominates(&other.siblings) {
            return Ok(changed);
        }
        self.admits_versions()?;
        Ok(self.siblings.join(&other.siblings) || changed)
    }

    /// Takes in what another replica holds, with its promise, as one that is to own the range: what was
    /// accepted is taken even below a promise, because only those who own it alone can be relied on.
    pub fn take_over(&mut self, other: &Self) {
        if let Some(theirs) = &other.register {
            let own = self.register.get_or_insert_default();
            own.promise = own.promise.max(theirs.promise);
            if let Some(accepted) = &theirs.accepted
                && own.accepted.as_ref().is_none_or(|own| accepted.supersedes(own))
            {
                own.accepted = Some(accepted.clone());
            }
        }
        self.siblings.join(&other.siblings);
    }

    /// Whether all that another replica holds is held here, or was overwritten.
    #[must_use]
    pub fn holds(&self, other: &Self) -> bool {
        let has_accepted =
            |theirs: &AcceptedDecision| self.accepted().is_some_and(|own| !theirs.supersedes(own));
        other.accepted().is_none_or(has_accepted) && self.siblings.dominates(&other.siblings)
    }

    /// Makes tombstones of what has expired; whether anything has.
    pub fn expire(&mut self, now_ms: u64) -> bool {
        let accepted = self
            .register
            .as_mut()
            .and_then(|register| register.accepted.as_mut());
        let decision = accepted.map(|accepted| &mut accepted.decision);
        let has_ended = decision.is_some_and(|decision| decision.expire(now_ms));
        self.siblings.expire(now_ms) || has_ended
    }

    /// Whether it holds nothing but what has been over for this long.
    #[must_use]
    pub fn is_dead_for(&self, grace_ms: u64, now_ms: u64) -> bool {
        let is_over = |at_ms: u64| at_ms.saturating_add(grace_ms) <= now_ms;
        let is_register_over = self.register.as_ref().is_none_or(|register| {
            register.accepted.as_ref().is_some_and(|accepted| {
                accepted.ballot == register.promise
                    && match &accepted.decision {
                        KeyDecision::Ordinary { at_ms } => is_over(*at_ms),
                        KeyDecision::Value(decided) => {
                            decided.content == VersionContent::Tombstone && is_over(decided.at_ms)
                        }
                    }
            })
        });
        let is_decided = self.accepted().is_some_and(AcceptedDecision::is_value);
        is_register_over && (is_decided || self.siblings.are_dead_for(grace_ms, now_ms))
    }

    /// Forgets actors that gave none of its versions.
    pub fn forget(&mut self, is_over: impl Fn(Actor) -> bool) {
        self.siblings.forget(is_over);
    }

    /// What replicas compare: equal if they hold the same of this key, whatever they have promised.
    #[must_use]
    pub fn digest(&self, key: &Key) -> u64 {
        let mut hasher = SipHasher13::new_with_keys(0x6b76, 1);
        hasher.write(key.as_str().as_bytes());
        hasher.write_u8(0);
        let mut bytes = Vec::new();
        let accepted = self.accepted();
        if !accepted.is_some_and(AcceptedDecision::is_value) {
            // What cannot be written is larger than what is ever taken in.
            let _ = self.siblings.put_bytes(&mut bytes);
        }
        if let Some(accepted) = accepted {
            accepted.put(&mut bytes);
        }
        hasher.write(&bytes);
        hasher.finish()
    }

    /// Its bytes: one form for the store and for other replicas, the same wherever it is equal.
    ///
    /// # Errors
    /// It is larger than anything that is taken in.
    pub fn encode(&self) -> Result<Vec<u8>, WireError> {
        let mut out = Vec::new();
        self.put_held(&mut out)?;
        if let Some(register) = &self.register {
            register.promise.put(&mut out);
        }
        Ok(out)
    }

    fn put_held(&self, out: &mut Vec<u8>) -> Result<(), WireError> {
        self.siblings.put_bytes(out)?;
        match (&self.register, self.accepted()) {
            (None, _) => out.push(0),
            (Some(_), None) => out.push(1),
            (Some(_), Some(accepted)) => {
                out.push(2);
                accepted.put(out);
            }
        }
        Ok(())
    }

    /// From [`Self::encode`]'s bytes.
    ///
    /// # Errors
    /// They are none that it writes.
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let mut reader = BodyReader::new(bytes);
        let siblings = Siblings::take_bytes(&mut reader)?;
        let accepted = match reader.u8()? {
            0 => {
                reader.finish()?;
                return Ok(Self::of(siblings));
            }
            1 => None,
            2 => Some(AcceptedDecision::take(&mut reader)?),
            _ => return Err(WireError::Malformed { what: "entry" }),
        };
        let promise = Ballot::take(&mut reader)?;
        reader.finish()?;
        let is_legal = accepted
            .as_ref()
            .is_none_or(|accepted| accepted.ballot <= promise);
        if !is_legal {
            return Err(WireError::Malformed { what: "entry" });
        }
        let register = Some(Box::new(Register { promise, accepted }));
        Ok(Self { siblings, register })
    }
}

impl AcceptedDecision {
    /// About how many bytes it takes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let content = match &self.decision {
            KeyDecision::Value(decided) => match &decided.content {
                VersionContent::Value { bytes, .. } => bytes.len(),
                VersionContent::Log(log) => log.bytes(),
                VersionContent::Tombstone => 0,
            },
            KeyDecision::Ordinary { .. } => 0,
        };
        DECISION_BYTES + content
    }

    /// Whether a value was decided, or its deletion.
    #[must_use]
    pub const fn is_value(&self) -> bool {
        matches!(self.decision, KeyDecision::Value(_))
    }

    /// The bytes of what was decided.
    ///
    /// # Errors
    /// As for [`KvEntry::encode`].
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.put(&mut out);
        out
    }

    /// From [`Self::encode`]'s bytes.
    ///
    /// # Errors
    /// They are none that it writes.
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let mut reader = BodyReader::new(bytes);
        let accepted = Self::take(&mut reader)?;
        reader.finish()?;
        Ok(accepted)
    }

    /// Whether it is of a later turn, or of the same and has ended meanwhile.
    #[must_use]
    pub fn supersedes(&self, other: &Self) -> bool {
        self.ballot > other.ballot || self.has_ended_more(other)
    }

    /// Whether its value expired while the other one's of the same turn has not yet.
    fn has_ended_more(&self, other: &Self) -> bool {
        self.ballot == other.ballot && self.has_ended() && !other.has_ended()
    }

    fn has_ended(&self) -> bool {
        match &self.decision {
            KeyDecision::Ordinary { .. } => true,
            KeyDecision::Value(decided) => decided.content == VersionContent::Tombstone,
        }
    }

    fn put(&self, out: &mut Vec<u8>) {
        self.ballot.put(out);
        match &self.decision {
            KeyDecision::Ordinary { at_ms } => {
                out.push(0);
                out.extend_from_slice(&at_ms.to_le_bytes());
            }
            KeyDecision::Value(decided) => {
                out.push(1);
                out.extend_from_slice(&decided.at_ms.to_le_bytes());
                decided.version.put(out);
                out.push(u8::from(decided.before.is_some()));
                if let Some(before) = decided.before {
                    before.put(out);
                }
                decided.content.put(out);
            }
        }
    }

    fn take(from: &mut BodyReader<'_>) -> Result<Self, WireError> {
        let ballot = Ballot::take(from)?;
        let is_value = from.bool("decision")?;
        let at_ms = from.u64()?;
        let decision = if is_value {
            KeyDecision::Value(DecidedVersion {
                version: CallId::take(from)?,
                before: if from.bool("before")? {
                    Some(CallId::take(from)?)
                } else {
                    None
                },
                at_ms,
                content: VersionContent::take(from)?,
            })
        } else {
            KeyDecision::Ordinary { at_ms }
        };
        Ok(Self { ballot, decision })
    }
}

impl KeyDecision {
    /// Makes a tombstone of a value that has expired; whether it has.
    pub fn expire(&mut self, now_ms: u64) -> bool {
        let Self::Value(decided) = self else { return false };
        let Some(at_ms) = decided.content.expired_ms(now_ms) else {
            return false;
        };
        (decided.at_ms, decided.content) = (at_ms, VersionContent::Tombstone);
        true
    }
}
