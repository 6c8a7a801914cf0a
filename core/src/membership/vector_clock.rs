//! Vector clock keyed by incarnation. Spec: membership 1.6.

use alloc::vec::Vec;

use crate::ident::UniqueAddress;

/// Counters per incarnation, sorted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VectorClock {
    entries: Vec<(UniqueAddress, u64)>,
}
