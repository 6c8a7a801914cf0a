//! The words of distributed data: keys, how many replicas an operation needs, and what replicas hold and
//! exchange. Values only; no machine is known here. Spec: sharding 1.12, 2.3.

pub mod consistency;
mod envelope;
pub mod key;

pub use envelope::{DataEnvelope, Digest, Pruning};
