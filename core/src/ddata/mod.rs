//! Distributed data: values that every node holds and changes, and that converge. Spec: sharding 1.12, 1.13, 10.6, 10.8,
//! 10.21.

pub mod crdt;
