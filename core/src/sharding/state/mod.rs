//! The values of sharding that other rooms read: names, terms, settings of strategies, and why an ask failed.
//! Spec: sharding 1, 10.

pub(crate) mod allocation;
pub mod chain;
pub mod errors;
pub mod extractor;
pub mod fields;
pub mod ids;
pub(crate) mod kept;
pub(crate) mod passivation;
pub(crate) mod placement;
pub mod remember;
pub mod wish;
