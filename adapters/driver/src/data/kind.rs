//! What a type of replicated values is to its users. States it; decides nothing. Spec: sharding 1.13.

pub(super) use quorate_core::ddata::crdt::DataValue as CoreData;

use crate::error::DataReadError;

/// What a replicated value is to its users. The kinds of this crate cover the core's types, and
/// [`super::OwnKind`] those of your own.
pub trait DataKind {
    /// What [`super::Replicated::read`] gives.
    type Value;

    /// The value before its first change.
    fn empty() -> CoreData;

    /// What a value of the core is to users.
    ///
    /// # Errors
    /// [`DataReadError::WrongType`] if it is of another type, [`DataReadError::Decode`] if an element cannot
    /// be read.
    fn value(data: &CoreData) -> Result<Self::Value, DataReadError>;
}
