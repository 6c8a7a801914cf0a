//! The values of sharding that other rooms read: names, terms, and why an ask failed. Spec: sharding 1, 10.

pub mod errors;
pub mod fields;
pub mod ids;
