//! The gossip state. Spec: membership 1.4.

/// The state every node holds and gossips.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gossip {}
