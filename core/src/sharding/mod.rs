//! Where each entity lives. Spec: sharding 1.1-1.4, 10.

pub mod errors;
pub mod ids;
