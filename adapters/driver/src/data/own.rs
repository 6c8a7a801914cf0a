//! Types of users' own: what a value of one is to its users. How it is changed and joined is the core's
//! trait, on bytes. Spec: sharding 1.13.

use std::marker::PhantomData;
use std::sync::Arc;

use quorate_core::ddata::crdt::{Custom, DataOp};
pub use quorate_core::ddata::crdt::{CustomChange, CustomError, CustomType, Minting, RegisterError};

use super::handle::Replicated;
use super::kind::{CoreData, DataKind};
use super::kinds::writes;
use super::level::Write;
use crate::error::{DataReadError, DataWriteError};
use crate::request::Request;

/// A replicated type of your own: [`CustomType`] says how its bytes are changed and joined, this what they
/// are to users. Make it known on every node with [`crate::ClusterBuilder::data_type`], hold values with
/// [`super::Data::own`]. An example stands in `docs/ddata.md`.
pub trait OwnType: CustomType + Default + 'static {
    /// What [`Replicated::read`] gives.
    type Value;

    /// What a state is to users; nothing if the bytes are no state, which [`CustomType::check`] refuses
    /// before.
    fn value(&self, state: &[u8]) -> Option<Self::Value>;
}

/// See [`super::Data::own`].
pub type Own<T> = Replicated<OwnKind<T>>;

/// A value of an [`OwnType`].
#[derive(Debug)]
pub struct OwnKind<T>(PhantomData<fn() -> T>);

impl<T: OwnType> DataKind for OwnKind<T> {
    type Value = T::Value;

    fn empty() -> CoreData {
        CoreData::Custom(Custom::new(Arc::new(T::default())))
    }

    fn value(data: &CoreData) -> Result<Self::Value, DataReadError> {
        let kind = T::default();
        let CoreData::Custom(held) = data else {
            return Err(DataReadError::WrongType);
        };
        if held.name() != kind.name() {
            return Err(DataReadError::WrongType);
        }
        kind.value(held.state()).ok_or(DataReadError::Decode)
    }
}

impl<T: OwnType> Own<T> {
    writes! {
        /// Applies an operation of the type; what its bytes mean is between the type and its callers.
        apply(op: &[u8]) => Some(DataOp::Custom(op.into()));
    }
}
