//! Values and deltas of replicated data: one written form, joins that do not depend on the order however the
//! values were forged, no panic in anything that is done to them.

use quorate_core::ddata::crdt::{CustomTypes, DataDelta, DataValue};
use quorate_core::ident::{Address, UniqueAddress};
use quorate_core::wire::{DataLimits, decode_data, decode_delta, encode_data, encode_delta};

/// The first byte says what follows: 0 a value, 1 a delta, 2 a value and a delta, others two values (a `u16`
/// length between).
pub fn crdt(data: &[u8]) {
    let Some((pick, rest)) = data.split_first() else {
        return;
    };
    match pick {
        0 => {
            if let Some(value) = read(rest) {
                check_value(&value);
            }
        }
        1 => {
            if let Some(delta) = read_delta(rest) {
                check_delta(&delta, None);
            }
        }
        2 => {
            let (left, right) = split(rest);
            if let (Some(value), Some(delta)) = (read(left), read_delta(right)) {
                check_delta(&delta, Some(value));
            }
        }
        _ => {
            let (left, right) = split(rest);
            if let (Some(left), Some(right)) = (read(left), read(right)) {
                check_join(&left, &right);
            }
        }
    }
}

fn split(data: &[u8]) -> (&[u8], &[u8]) {
    let Some((len, rest)) = data.split_first_chunk::<2>() else {
        return (&[], &[]);
    };
    rest.split_at(usize::from(u16::from_le_bytes(*len)).min(rest.len()))
}

fn read(bytes: &[u8]) -> Option<DataValue> {
    let value = decode_data(bytes, &DataLimits::default(), &CustomTypes::new()).ok()?;
    assert_eq!(written(&value), bytes, "a value has one form");
    Some(value)
}

fn read_delta(bytes: &[u8]) -> Option<DataDelta> {
    let delta = decode_delta(bytes, &DataLimits::default(), &CustomTypes::new()).ok()?;
    let mut again = Vec::new();
    encode_delta(&delta, &mut again).expect("what was read can be written");
    assert_eq!(again, bytes, "a delta has one form");
    Some(delta)
}

fn written(value: &DataValue) -> Vec<u8> {
    let mut out = Vec::new();
    encode_data(value, &mut out).expect("what was read or joined can be written");
    out
}

fn me() -> UniqueAddress {
    UniqueAddress::new(Address::new("fuzz", 1).expect("a legal name"), 1)
}

fn check_value(value: &DataValue) {
    check_join(value, value);
    let nodes = value.nodes();
    for node in nodes.iter().take(3) {
        assert!(value.mentions(node), "a node that is named is mentioned");
        let mut settled = value.clone();
        if settled.settle(node).is_ok() {
            assert!(!settled.mentions(node), "what was settled is not mentioned");
            written(&settled);
        }
    }
    let _ = (
        value.check_stamps(0, 0),
        value.cloud(),
        value.highest_version_of(&me()),
    );
}

fn check_join(left: &DataValue, right: &DataValue) {
    let (mut one, mut other) = (left.clone(), right.clone());
    let (there, back) = (one.merge(right), other.merge(left));
    assert_eq!(there.is_ok(), back.is_ok(), "both ways or neither");
    if there.is_err() {
        assert_eq!((&one, &other), (left, right), "what was refused changed nothing");
        return;
    }
    assert_eq!(written(&one), written(&other), "commutative");
    for part in [left, right, &other] {
        let again = one.merge(part).expect("joined before");
        assert!(!again.changed, "contains both");
    }
}

fn check_delta(delta: &DataDelta, value: Option<DataValue>) {
    let mut joined = delta.clone();
    joined.join(delta).expect("one type");
    let Some(mut value) = value.or_else(|| DataValue::empty(delta.data_type())) else {
        return;
    };
    let before = value.clone();
    if value.merge_delta(delta).is_err() {
        assert_eq!(value, before, "what was refused changed nothing");
        return;
    }
    let again = value.merge_delta(delta).expect("joined before");
    assert!(!again.changed, "a delta that comes twice counts once");
    written(&value);
    let _ = (delta.size(), delta.check_stamps(0, 0));
}
