//! Who is in the cluster, in which status, and whether everybody knows. Spec: membership 1, 2, 8.

pub mod protocol;
pub(crate) mod state;
pub mod targets;

pub(crate) mod admission;
mod claims;
mod doubts;
mod exit;
mod incarnations;
mod join;
mod joining;
mod leader_actions;
pub(crate) mod machine;
mod news;
mod paths;
mod seeds;
mod spread;
mod strangers;
mod told;

#[cfg(test)]
mod tests;

pub use state::{
    app_version, convergence, events, gossip, leader, member, member_set, merge, reachability, vector_clock,
};

/// What the machine may touch outside itself.
pub(crate) type Cx<'a> = crate::cx::Cx<'a, crate::cx::OfMembership>;
