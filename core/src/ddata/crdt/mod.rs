//! Conflict-free replicated data types: values that replicas change on their own and that become equal once
//! all have heard of all changes, in whatever order. Never reads a clock, never sends, never knows who else
//! holds a value. Spec: sharding 1.13, 10.6, 10.8, 10.21; reliability I-60, I-61, I-64 to I-68.
//!
//! An operation ([`DataOp`]) changes a value ([`DataValue`]) and yields a [`DataDelta`]. Merging whole values
//! and joining deltas lead to the same value. Sets with removal and all maps share one construction,
//! `dotted`: every change is a dot, a value remembers which dots it has seen, and a dot that is seen but no
//! longer there was removed.

#[macro_use]
mod replicated;

mod context;
mod counters;
mod custom;
mod data;
mod delta;
mod dotted;
mod facts;
mod few;
mod gset;
mod lww_map;
mod lww_register;
mod minting;
mod op;
mod or_map;
mod or_multi_map;
mod or_set;
mod pn_counter_map;
#[cfg(test)]
mod tests;

pub use context::{CLOUD_MAX, NODES_MAX};
pub use counters::{GCounter, PnCounter, Tally};
pub use custom::{
    CUSTOM_NAME_BYTES_MAX, CUSTOM_TYPES_MAX, Custom, CustomChange, CustomDelta, CustomError, CustomType,
    CustomTypes, RegisterError,
};
pub use data::{Applied, DataType, DataValue, FutureStamp, MergeError, MergeOutcome, ValueType};
pub use delta::DataDelta;
pub use gset::{Flag, GSet};
pub use lww_map::{LwwMap, LwwMapDelta};
pub use lww_register::{LwwRegister, LwwWrite};
pub use minting::{Minting, VERSION_MAX, nobody};
pub use op::{
    DataOp, ELEMENT_BYTES_MAX, Element, FlagOp, GCounterOp, GSetOp, LwwClock, LwwMapOp, LwwRegisterOp,
    OpError, OrMapOp, OrMultiMapOp, OrSetOp, PnCounterMapOp, PnCounterOp,
};
pub use or_map::{OrMap, OrMapDelta};
pub use or_multi_map::{Binding, OrMultiMap, OrMultiMapDelta};
pub use or_set::{OrSet, OrSetDelta};
pub use pn_counter_map::{PnCounterMap, PnCounterMapDelta};
// What the codec in `wire` takes apart and puts together.
pub(crate) use context::{CausalContext, Dot, NodeIndex, SeenVersions, VersionRange};
pub(crate) use counters::Tallies;
pub(crate) use dotted::{Dotted, DottedDelta, DottedEntry, DottedValue};
pub(crate) use few::Few;
pub(crate) use minting::{CLAIM_MAX, claim_max};
