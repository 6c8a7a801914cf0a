//! Values of replicated data and their deltas with versions, stamps and amounts that are not so: written by
//! hand, as another program would, and read by the codec. Spec: `docs/WIRE.md` 4.5.

use std::collections::BTreeSet;

use quorate_core::ddata::crdt::{CustomTypes, DataDelta, DataValue};
use quorate_core::ident::UniqueAddress;
use quorate_core::wire::{DataLimits, decode_data, decode_delta};

use super::Lie;
use super::numbers::{AMOUNT, DOT, STAMP};

const GCOUNTER: u8 = 1;
const PNCOUNTER: u8 = 2;
const GSET: u8 = 3;
const ORSET: u8 = 4;
const LWWREGISTER: u8 = 8;
const FLAG: u8 = 10;

/// The types, by the number of the key.
const TYPES: [u8; 6] = [GCOUNTER, PNCOUNTER, GSET, ORSET, LWWREGISTER, FLAG];

fn type_of(key: u64) -> u8 {
    TYPES[usize::try_from(key).unwrap_or(0) % TYPES.len()]
}

/// A value of the type that stands under a key.
pub(super) fn data(key: u64, lie: &mut Lie<'_>) -> DataValue {
    let mut bytes = vec![type_of(key)];
    body(&mut bytes, lie, false);
    let read = decode_data(&bytes, &DataLimits::default(), &CustomTypes::default());
    read.unwrap_or_else(|error| panic!("a value {bytes:?} is not legal: {error}"))
}

/// A change of it.
pub(super) fn delta(key: u64, lie: &mut Lie<'_>) -> DataDelta {
    let mut bytes = vec![type_of(key)];
    body(&mut bytes, lie, true);
    let read = decode_delta(&bytes, &DataLimits::default(), &CustomTypes::default());
    read.unwrap_or_else(|error| panic!("a change {bytes:?} is not legal: {error}"))
}

fn body(out: &mut Vec<u8>, lie: &mut Lie<'_>, is_delta: bool) {
    match out[0] {
        GCOUNTER => {
            let nodes = nodes(out, lie);
            (0..nodes).for_each(|_| amount(out, lie));
        }
        PNCOUNTER => {
            let nodes = nodes(out, lie);
            (0..nodes * 2).for_each(|_| amount(out, lie));
        }
        GSET => elements(out, lie, |_, _| {}),
        ORSET => {
            if is_delta {
                out.push(u8::from(lie.flag()));
            }
            let uptos = context(out, lie);
            if uptos.is_empty() {
                out.extend_from_slice(&0_u32.to_le_bytes());
            } else {
                elements(out, lie, |out, lie| dots(out, lie, &uptos));
            }
            if is_delta {
                out.extend_from_slice(&0_u32.to_le_bytes());
            }
        }
        LWWREGISTER => {
            out.push(1);
            out.extend_from_slice(&lie.number(STAMP).to_le_bytes());
            let writer = lie.node();
            put_node(out, &writer);
            let value = lie.bytes();
            out.extend_from_slice(&u32::try_from(value.len()).unwrap_or(0).to_le_bytes());
            out.extend_from_slice(&value);
        }
        _ => out.push(u8::from(lie.flag())),
    }
}

fn amount(out: &mut Vec<u8>, lie: &mut Lie<'_>) {
    let (low, high) = (lie.number(AMOUNT), lie.number(STAMP));
    let high = if lie.flag() { high } else { 0 };
    out.extend_from_slice(&low.to_le_bytes());
    out.extend_from_slice(&high.to_le_bytes());
}

fn put_node(out: &mut Vec<u8>, node: &UniqueAddress) {
    let host = node.address().host();
    out.push(u8::try_from(host.len()).unwrap_or(u8::MAX));
    out.extend_from_slice(host.as_bytes());
    out.extend_from_slice(&node.address().port().to_le_bytes());
    out.extend_from_slice(&node.uid().to_le_bytes());
}

/// A table of members.
fn nodes(out: &mut Vec<u8>, lie: &mut Lie<'_>) -> usize {
    let nodes: BTreeSet<UniqueAddress> = lie.few(Lie::node).into_iter().collect();
    out.extend_from_slice(&u16::try_from(nodes.len()).unwrap_or(0).to_le_bytes());
    nodes.iter().for_each(|node| put_node(out, node));
    nodes.len()
}

/// What was seen of each; yields up to which version.
fn context(out: &mut Vec<u8>, lie: &mut Lie<'_>) -> Vec<u64> {
    let nodes = nodes(out, lie);
    let uptos: Vec<u64> = (0..nodes).map(|_| lie.number(DOT)).collect();
    uptos
        .iter()
        .for_each(|upto| out.extend_from_slice(&upto.to_le_bytes()));
    out.extend_from_slice(&0_u32.to_le_bytes());
    uptos
}

/// One dot of somebody who was seen.
fn dots(out: &mut Vec<u8>, lie: &mut Lie<'_>, uptos: &[u64]) {
    let at = lie.chance.index(uptos.len());
    let version = lie.number(DOT).min(uptos[at]);
    out.extend_from_slice(&1_u16.to_le_bytes());
    out.extend_from_slice(&u16::try_from(at).unwrap_or(0).to_le_bytes());
    out.extend_from_slice(&version.to_le_bytes());
}

/// Elements in their order, each with what hangs on it.
fn elements(out: &mut Vec<u8>, lie: &mut Lie<'_>, hang: impl Fn(&mut Vec<u8>, &mut Lie<'_>)) {
    let count = lie.chance.below(super::LIST_MAX);
    out.extend_from_slice(&u32::try_from(count).unwrap_or(0).to_le_bytes());
    for at in 0..count {
        let element = at.to_be_bytes();
        out.extend_from_slice(&u16::try_from(element.len()).unwrap_or(0).to_le_bytes());
        out.extend_from_slice(&element);
        hang(out, lie);
    }
}
