//! What is known of the load of nodes, and what follows from it: values and pure functions, over any type of
//! node and of unit. Spec: sharding 5.5, 10.20, 10.22.

pub mod capacity;
pub mod chord;
pub mod ewma;
pub(crate) mod mover;
pub mod moves;
pub mod sample;
pub mod share;
pub mod weights;
