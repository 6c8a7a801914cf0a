//! A keyed store with N copies: keys lie in ranges, and each range has explicit owners, which are stores and
//! not nodes. Values without I/O so far, which a machine will drive. Spec: sharding 5.6, 10.19.

pub mod merkle;
pub mod moving;
pub mod ranges;
pub mod replica;
pub mod requests;
pub mod state;
