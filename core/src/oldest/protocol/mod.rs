//! What the room of age waits for and counts. It says nothing to other nodes and nothing to users. Types
//! only. Spec: sharding 10.1.

pub mod counters;

/// What it waits for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// The removal margin of a departed member is over: its work is free.
    MarginOver,
}
