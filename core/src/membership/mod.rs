//! Who is in the cluster, in which status, and whether everybody knows. Spec: membership 1, 2, 8.

pub mod app_version;
pub mod gossip;
pub mod member;
pub mod reachability;
pub mod vector_clock;
