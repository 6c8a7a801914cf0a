//! Tests of the types: what each does (`cases`), the laws of a join on random histories (`laws`), limits and
//! what forged values may not do (`hostile`), users' own types (`custom`).

mod cases;
mod custom;
mod hostile;
mod laws;

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::*;
use crate::ident::{Address, UniqueAddress};
use crate::wire::{DataLimits, decode_data, decode_delta, encode_data, encode_delta};

pub(super) fn node(name: &str) -> UniqueAddress {
    UniqueAddress::new(Address::new(name, 7355).expect("a legal name"), 1)
}

pub(super) fn element(text: &str) -> Element {
    Arc::from(text.as_bytes())
}

pub(super) fn bytes(data: &DataValue) -> Vec<u8> {
    let mut out = Vec::new();
    encode_data(data, &mut out).expect("a value can be written");
    let again =
        decode_data(&out, &DataLimits::default(), &CustomTypes::new()).expect("what is written is read");
    assert_eq!(again, *data, "what is read is what was written");
    out
}

/// The delta as the other side reads it.
pub(super) fn sent(delta: &DataDelta) -> DataDelta {
    let mut out = Vec::new();
    encode_delta(delta, &mut out).expect("a delta can be written");
    let again =
        decode_delta(&out, &DataLimits::default(), &CustomTypes::new()).expect("what is written is read");
    assert_eq!(again, *delta, "what is read is what was written");
    again
}

pub(super) fn merged(left: &DataValue, right: &DataValue) -> DataValue {
    let mut left = left.clone();
    left.merge(right).expect("the same type");
    left
}

/// A replica of one value.
#[derive(Clone, Debug)]
pub(super) struct Replica {
    pub(super) data: DataValue,
    pub(super) minting: Minting,
    pub(super) deltas: Vec<DataDelta>,
}

impl Replica {
    pub(super) fn new(name: &str, data_type: DataType) -> Self {
        Self {
            data: DataValue::empty(data_type).expect("a built-in type"),
            minting: Minting::new(node(name)),
            deltas: Vec::new(),
        }
    }

    /// Applies an operation and keeps its delta.
    pub(super) fn op(&mut self, op: DataOp) -> Applied {
        let applied = self
            .data
            .apply(&op, &mut self.minting)
            .expect("a legal operation");
        if let Applied::Delta(delta) = &applied {
            self.deltas.push(sent(delta));
        }
        applied
    }

    pub(super) fn full(&mut self, from: &Self) {
        self.data.merge(&from.data).expect("the same type");
    }

    /// Joins the n-th delta of another, from 1.
    pub(super) fn delta(&mut self, from: &Self, number: usize) {
        self.data
            .merge_delta(&from.deltas[number - 1])
            .expect("the same type");
    }

    pub(super) fn set(&self) -> Vec<&str> {
        let DataValue::OrSet(set) = &self.data else {
            panic!("a set");
        };
        set.iter()
            .map(|element| core::str::from_utf8(element).expect("text"))
            .collect()
    }
}

pub(super) fn add(text: &str) -> DataOp {
    DataOp::OrSet(OrSetOp::Add(element(text)))
}

pub(super) fn remove(text: &str) -> DataOp {
    DataOp::OrSet(OrSetOp::Remove(element(text)))
}

pub(super) fn update(key: &str, value: &str) -> DataOp {
    DataOp::OrMap(OrMapOp::Update {
        key: element(key),
        op: Box::new(DataOp::GSet(GSetOp::Add(element(value)))),
    })
}
