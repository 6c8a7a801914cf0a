//! Who has to go when members fall silent: strategies as pure functions, and the machine that waits for stability and
//! acts. Marks nobody unreachable itself. Spec: membership 3, 8.7.

pub mod auto_down;
pub mod decision;
pub mod down_all;
pub mod keep_majority;
pub mod keep_oldest;
pub mod lease_majority;
pub(crate) mod resolver;
pub mod static_quorum;
pub mod strategy;
#[cfg(test)]
pub(crate) mod table;
pub mod view;
