//! Paths: named parts of an application of which the cluster runs a number of instances. Spec: sharding 5.

pub mod state;
