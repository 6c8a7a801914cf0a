//! The values that membership keeps and sends, and pure functions of them: members, the gossip state in both
//! its forms, its merge, convergence, the leader, what changed between two states. Knows no machine. Spec:
//! membership 1, 2.

pub mod app_version;
pub(crate) mod body;
pub mod convergence;
pub mod events;
pub mod gossip;
pub mod leader;
pub mod member;
pub mod member_set;
pub mod merge;
pub(crate) mod packed;
mod parts;
pub mod reachability;
pub(crate) mod relation;
pub(crate) mod steps;
pub mod vector_clock;
