//! How much room values take: the length of what they are written as. Never keeps anything. Spec: reliability
//! 3b.

use alloc::vec::Vec;

use super::crdt::{
    DataDelta, DataOp, DataValue, GSetOp, LwwMapOp, LwwRegisterOp, OrMapOp, OrMultiMapOp, OrSetOp,
    PnCounterMapOp,
};
use super::state::{DataEnvelope, Pruning};
use crate::ident::UniqueAddress;
use crate::wire::{encode_data, encode_delta};

/// What an operation adds to a value beside its elements, at most: lengths, a dot, and this node's name once.
const AROUND_ELEMENT_BYTES: usize = 320;

/// The length of an encoded value with all that travels beside it. Costs an encoding.
pub(super) fn envelope_len(envelope: &DataEnvelope) -> usize {
    envelope.data.as_ref().map_or(0, |data| data_len(data)) + around_len(envelope)
}

/// What markers and delta versions take: they name nodes, and a peer may name many that never were.
pub(super) fn around_len(envelope: &DataEnvelope) -> usize {
    let marked = |(node, marker): (&UniqueAddress, &Pruning)| {
        let beside = match marker {
            Pruning::Initialized { owner, seen } => {
                node_len(owner) + seen.iter().map(node_len).sum::<usize>()
            }
            Pruning::Performed { .. } => 0,
        };
        node_len(node) + beside + 16
    };
    let markers: usize = envelope.pruning.iter().map(marked).sum();
    markers + envelope.deltas.keys().map(version_len).sum::<usize>()
}

/// What the delta version of one node takes.
pub(super) fn version_len(node: &UniqueAddress) -> usize {
    node_len(node) + 8
}

fn node_len(node: &UniqueAddress) -> usize {
    node.address().host().len() + 11
}

/// The length of an encoded value. Costs an encoding.
pub(super) fn data_len(data: &DataValue) -> usize {
    let mut out = Vec::new();
    // What cannot be written is as large as nothing that may be held.
    encode_data(data, &mut out).map_or(usize::MAX / 4, |()| out.len())
}

/// The length of an encoded delta.
pub(super) fn delta_len(delta: &DataDelta) -> usize {
    let mut out = Vec::new();
    encode_delta(delta, &mut out).map_or(usize::MAX / 4, |()| out.len())
}

/// At least what an operation adds to the length of an encoded value.
pub(super) fn op_len(op: &DataOp) -> usize {
    let elements = match op {
        DataOp::GCounter(_) | DataOp::PnCounter(_) | DataOp::Flag(_) => 0,
        DataOp::GSet(GSetOp::Add(element)) | DataOp::OrSet(OrSetOp::Add(element)) => element.len(),
        DataOp::OrSet(OrSetOp::Change { add, .. }) => {
            let each = add.iter().map(|element| element.len() + AROUND_ELEMENT_BYTES);
            each.sum()
        }
        DataOp::OrSet(OrSetOp::Remove(_) | OrSetOp::Clear)
        | DataOp::OrMap(OrMapOp::Remove(_) | OrMapOp::Clear)
        | DataOp::OrMultiMap(
            OrMultiMapOp::RemoveBinding { .. } | OrMultiMapOp::Remove(_) | OrMultiMapOp::Clear,
        )
        | DataOp::PnCounterMap(PnCounterMapOp::Remove(_) | PnCounterMapOp::Clear)
        | DataOp::LwwMap(LwwMapOp::Remove(_) | LwwMapOp::Clear) => 0,
        DataOp::LwwRegister(LwwRegisterOp::Set { value, .. }) => value.len(),
        DataOp::LwwMap(LwwMapOp::Put { key, value, .. }) => key.len() + value.len(),
        DataOp::PnCounterMap(
            PnCounterMapOp::Increment { key, .. } | PnCounterMapOp::Decrement { key, .. },
        ) => key.len(),
        DataOp::OrMultiMap(OrMultiMapOp::AddBinding { key, value }) => key.len() + value.len(),
        DataOp::OrMultiMap(OrMultiMapOp::ReplaceBinding { key, new, .. }) => key.len() + new.len(),
        DataOp::OrMultiMap(OrMultiMapOp::Put { key, values }) => {
            let each = values
                .iter()
                .map(|value| key.len() + value.len() + AROUND_ELEMENT_BYTES);
            each.sum()
        }
        DataOp::OrMap(OrMapOp::Update { key, op }) => key.len() + op_len(op),
        DataOp::OrMap(OrMapOp::Put { key, value }) => key.len() + data_len(value),
        // What a user's type makes of it, only the type knows; the value is measured when it nears its limit.
        DataOp::Custom(op) => op.len(),
    };
    elements + AROUND_ELEMENT_BYTES
}
