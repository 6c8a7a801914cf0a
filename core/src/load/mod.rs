//! How loaded the nodes are: what a host measures of its own, smoothed, and what others say of theirs. Moves
//! nothing: whoever places things reads it. Spec: sharding 5.5, 10.20.

pub mod state;
