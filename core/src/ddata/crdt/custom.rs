//! Users' own types: what they must answer, and how a node knows them by name. They work on canonical bytes,
//! so that the core can copy, compare and digest their values without knowing them. Never called with bytes
//! they have not accepted. Spec: sharding 1.13.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use super::minting::nobody;
use super::replicated::{ReplicatedData, ReplicatedDelta};
use super::{Applied, Element, MergeError, Minting, OpError};
use crate::ident::UniqueAddress;
use crate::ordered::OrderedSet;

/// Longest name of a user's type, in bytes; the length of a role's name.
pub const CUSTOM_NAME_BYTES_MAX: usize = 64;
/// Most types that one node registers. They are written in its code; more than this is a loop gone wrong.
pub const CUSTOM_TYPES_MAX: usize = 256;

/// Why a user's type refused. What it says is for logs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CustomError(pub String);

/// What an operation on a user's type did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CustomChange {
    /// The new state.
    pub state: Vec<u8>,
    /// What changed, for types with deltas; without one, replicas hear of the change as a whole state.
    pub delta: Option<Vec<u8>>,
}

/// A user's own replicated type, on canonical bytes: equal values must be equal bytes. `merge` must be
/// commutative, associative and idempotent, and everything must be a pure function of its arguments: the core
/// replays it.
///
/// A type without deltas implements the required methods only.
pub trait CustomType: fmt::Debug + Send + Sync {
    /// The name under which all nodes know the type; 1 to [`CUSTOM_NAME_BYTES_MAX`] bytes.
    fn name(&self) -> &str;

    /// The value before the first operation.
    fn initial(&self) -> Vec<u8>;

    /// Accepts bytes from a peer as a state, or refuses them. Everything else is only called with accepted
    /// bytes.
    ///
    /// # Errors
    /// They are no state, or not the canonical form of one.
    fn check(&self, state: &[u8]) -> Result<(), CustomError>;

    /// Applies an operation; what its bytes mean is between the type and its callers.
    ///
    /// # Errors
    /// The operation is refused; the value stays as it is.
    fn apply(&self, state: &[u8], op: &[u8], minting: &mut Minting) -> Result<CustomChange, CustomError>;

    /// Joins two states.
    ///
    /// # Errors
    /// They cannot be joined; the value stays as it is.
    fn merge(&self, left: &[u8], right: &[u8]) -> Result<Vec<u8>, CustomError>;

    /// Accepts bytes from a peer as a delta, or refuses them. By default a delta is a state.
    ///
    /// # Errors
    /// They are no delta.
    fn check_delta(&self, delta: &[u8]) -> Result<(), CustomError> {
        self.check(delta)
    }

    /// Joins a delta into a state. By default a delta is a state.
    ///
    /// # Errors
    /// They cannot be joined; the value stays as it is.
    fn merge_delta(&self, state: &[u8], delta: &[u8]) -> Result<Vec<u8>, CustomError> {
        self.merge(state, delta)
    }

    /// Joins two deltas of one sender, the earlier one first. By default a delta is a state.
    ///
    /// # Errors
    /// They cannot be joined; replicas then get the whole state.
    fn join_deltas(&self, earlier: &[u8], later: &[u8]) -> Result<Vec<u8>, CustomError> {
        self.merge(earlier, later)
    }

    /// How many changes a delta holds, for the limit on what is joined. 1 by default.
    fn delta_size(&self, _delta: &[u8]) -> usize {
        1
    }

    /// Whether a delta may only be joined after all earlier ones of its sender. `false` by default.
    fn needs_causal_delivery(&self) -> bool {
        false
    }

    /// The nodes that a state mentions and that must be pruned when they are removed. None by default.
    fn nodes(&self, _state: &[u8]) -> Vec<UniqueAddress> {
        Vec::new()
    }

    /// Moves what `removed` contributed to what stands under the name `into`, which is nobody's. Every
    /// replica does so on its own, so that it must come to the same wherever the same is known. By default
    /// there is nothing to move.
    ///
    /// # Errors
    /// It cannot be moved; the value stays as it is.
    fn settle(
        &self,
        state: &[u8],
        _removed: &UniqueAddress,
        _into: &UniqueAddress,
    ) -> Result<Vec<u8>, CustomError> {
        Ok(state.to_vec())
    }
}

/// Why a user's type was not registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// A name that is empty or longer than [`CUSTOM_NAME_BYTES_MAX`].
    #[error("the type's name has {bytes} bytes, 1 to {CUSTOM_NAME_BYTES_MAX} are allowed")]
    BadName {
        /// Its length.
        bytes: usize,
    },
    /// The name is taken.
    #[error("another type already has this name")]
    Duplicate,
    /// More than [`CUSTOM_TYPES_MAX`].
    #[error("{CUSTOM_TYPES_MAX} types are already registered, the most allowed")]
    TooMany,
}

/// The users' types that a node knows, by name. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct CustomTypes(Vec<Arc<dyn CustomType>>);

impl CustomTypes {
    /// No type.
    #[must_use]
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Makes a type known.
    ///
    /// # Errors
    /// [`RegisterError`] says what is wrong with it.
    pub fn register(&mut self, kind: Arc<dyn CustomType>) -> Result<(), RegisterError> {
        let bytes = kind.name().len();
        if bytes == 0 || bytes > CUSTOM_NAME_BYTES_MAX {
            return Err(RegisterError::BadName { bytes });
        }
        if self.0.len() >= CUSTOM_TYPES_MAX {
            return Err(RegisterError::TooMany);
        }
        match self.find(kind.name()) {
            Ok(_) => Err(RegisterError::Duplicate),
            Err(at) => {
                self.0.insert(at, kind);
                Ok(())
            }
        }
    }

    fn find(&self, name: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|known| known.name().cmp(name))
    }

    /// The names of all, in their order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|known| known.name())
    }

    /// The type of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Arc<dyn CustomType>> {
        self.find(name).ok().map(|at| &self.0[at])
    }
}

/// A value of a user's type.
#[derive(Clone, Debug)]
pub struct Custom {
    pub(crate) kind: Arc<dyn CustomType>,
    pub(crate) state: Element,
}

/// A delta of a user's type.
#[derive(Clone, Debug)]
pub struct CustomDelta {
    pub(crate) kind: Arc<dyn CustomType>,
    pub(crate) delta: Element,
}

impl Custom {
    /// A value before its first operation.
    #[must_use]
    pub fn new(kind: Arc<dyn CustomType>) -> Self {
        let state = kind.initial().into();
        Self { kind, state }
    }

    /// The name of its type.
    #[must_use]
    pub fn name(&self) -> &str {
        self.kind.name()
    }

    /// Its canonical bytes.
    #[must_use]
    pub fn state(&self) -> &[u8] {
        &self.state
    }

    /// Takes a new state; whether it differs.
    fn take(&mut self, state: Vec<u8>) -> bool {
        let changed = *self.state != *state;
        if changed {
            self.state = state.into();
        }
        changed
    }

    fn check_name(&self, kind: &Arc<dyn CustomType>) -> Result<(), MergeError> {
        if self.name() == kind.name() {
            return Ok(());
        }
        Err(MergeError::CustomMismatch {
            held: self.name().into(),
            found: kind.name().into(),
        })
    }
}

impl ReplicatedData for Custom {
    type Op = Element;
    type Delta = CustomDelta;

    fn apply(&mut self, op: &Element, minting: &mut Minting) -> Result<Applied<CustomDelta>, OpError> {
        let change = self.kind.apply(&self.state, op, minting)?;
        let changed = self.take(change.state);
        Ok(match change.delta {
            Some(delta) => Applied::Delta(CustomDelta {
                kind: Arc::clone(&self.kind),
                delta: delta.into(),
            }),
            None if changed => Applied::Whole,
            None => Applied::Unchanged,
        })
    }

    fn merge(&mut self, other: &Self) -> Result<bool, MergeError> {
        self.check_name(&other.kind)?;
        let merged = self.kind.merge(&self.state, &other.state)?;
        Ok(self.take(merged))
    }

    fn merge_delta(&mut self, delta: &CustomDelta) -> Result<bool, MergeError> {
        self.check_name(&delta.kind)?;
        let merged = self.kind.merge_delta(&self.state, &delta.delta)?;
        Ok(self.take(merged))
    }

    fn settle(&mut self, removed: &UniqueAddress) -> Result<(), OpError> {
        let settled = self.kind.settle(&self.state, removed, &nobody())?;
        self.take(settled);
        Ok(())
    }

    fn nodes(&self, all: &mut OrderedSet<UniqueAddress>) {
        all.extend(self.kind.nodes(&self.state));
    }

    fn mentions(&self, node: &UniqueAddress) -> bool {
        self.kind.nodes(&self.state).contains(node)
    }

    fn needs_causal_delivery(&self) -> bool {
        self.kind.needs_causal_delivery()
    }
}

impl CustomDelta {
    /// The name of its type.
    #[must_use]
    pub fn name(&self) -> &str {
        self.kind.name()
    }
}

impl ReplicatedDelta for CustomDelta {
    fn size(&self) -> usize {
        self.kind.delta_size(&self.delta).max(1)
    }

    fn join(&mut self, later: &Self) -> Result<(), MergeError> {
        if self.name() != later.name() {
            return Err(MergeError::CustomMismatch {
                held: self.name().into(),
                found: later.name().into(),
            });
        }
        self.delta = self.kind.join_deltas(&self.delta, &later.delta)?.into();
        Ok(())
    }
}

impl PartialEq for Custom {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name() && self.state == other.state
    }
}

impl Eq for Custom {}

impl PartialEq for CustomDelta {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name() && self.delta == other.delta
    }
}

impl Eq for CustomDelta {}
