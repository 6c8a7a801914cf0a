//! Who is in the cluster, in which status, and whether everybody knows. Spec: membership 1, 2, 8.

pub mod app_version;
pub mod clock_pruning;
pub mod convergence;
pub mod events;
pub mod gossip;
pub mod leader;
pub mod member;
pub mod member_set;
pub mod merge;
pub mod reachability;
pub mod targets;
pub mod vector_clock;

mod exit;
mod incarnations;
mod join;
mod leader_actions;
pub(crate) mod machine;
mod spread;

#[cfg(test)]
mod tests;
