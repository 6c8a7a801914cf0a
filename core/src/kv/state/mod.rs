//! What the keyed store consists of: who owns a range, what a key holds, and how many owners have to answer.
//! Values only; no machine is known here. Spec: sharding 5.6, 10.19.

pub mod bucket;
pub mod call;
pub mod clock;
pub mod configuration;
pub mod entry;
pub mod exchange;
pub mod level;
pub mod listed;
pub mod logged;
pub mod node;
pub mod outcome;
pub mod part;
pub mod pruning;
pub mod settings;
pub mod siblings;
pub mod table;
#[cfg(test)]
mod tests;
mod written;
