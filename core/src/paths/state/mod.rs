//! The values of paths that other rooms read: how many instances a path has and when that changes. Knows no
//! machine. Spec: sharding 5.2.

pub mod instances;
pub mod scale;
