//! Exactly one instance of something in the whole cluster, on the oldest member of a role. So far only the rules of the hand-over
//! are here, as a pure function; no node runs a singleton yet. Spec: sharding 1.10.

pub mod handover;
