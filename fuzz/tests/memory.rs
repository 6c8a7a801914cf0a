//! What values of replicated data cost in memory and as bytes: per key and per element, and what decoding may allocate. The
//! figures stand in `docs/ddata.md`; run with `--nocapture` to print them.

use std::sync::Arc;

use quorate_core::ddata::crdt::{
    Clock, CustomTypes, Data, DataType, Element, GCounterOp, GSetOp, LwwMapOp, Minting, Op, OrMultiMapOp,
    OrSetOp, PnCounterMapOp,
};
use quorate_core::ident::{Address, UniqueAddress};
use quorate_core::wire::{DataLimits, decode_data, encode_data};
use quorate_fuzz::counting::allocated;

const ELEMENTS: u64 = 10_000;

fn node(number: u64) -> UniqueAddress {
    UniqueAddress::new(
        Address::new(&format!("node-{number:02}"), 2551).expect("a legal name"),
        number,
    )
}

fn element(number: u64) -> Element {
    Arc::from(format!("element-{number:08}").as_bytes())
}

fn operation(data_type: DataType, number: u64) -> Op {
    let (key, value, clock) = (element(number), element(0), Clock::Forward);
    match data_type {
        DataType::GSet => Op::GSet(GSetOp::Add(key)),
        DataType::OrSet => Op::OrSet(OrSetOp::Add(key)),
        DataType::OrMultiMap => Op::OrMultiMap(OrMultiMapOp::AddBinding { key, value }),
        DataType::LwwMap => Op::LwwMap(LwwMapOp::Put { key, value, clock }),
        DataType::PnCounterMap => Op::PnCounterMap(PnCounterMapOp::Increment { key, by: 1 }),
        DataType::GCounter
        | DataType::PnCounter
        | DataType::OrMap(_)
        | DataType::LwwRegister
        | DataType::Flag
        | DataType::Custom => Op::GCounter(GCounterOp::Increment(1)),
    }
}

/// A value of so many elements of 16 bytes, by ten nodes.
fn value(data_type: DataType, elements: u64) -> Data {
    let mut all = Data::empty(data_type).expect("a built-in type");
    for writer in 0..10 {
        let mut minting = Minting::new(node(writer));
        let mut part = Data::empty(data_type).expect("a built-in type");
        for number in (writer..elements).step_by(10) {
            part.apply(&operation(data_type, number), &mut minting)
                .expect("a legal operation");
        }
        all.merge(&part).expect("one type");
    }
    all
}

#[test]
fn an_element_costs_no_more_than_documented() {
    // Bytes per element: in memory (with its 16 bytes and the map's nodes), and written.
    for (data_type, memory_max, written_max) in [
        (DataType::GSet, 80, 18),
        (DataType::OrSet, 120, 30),
        (DataType::OrMultiMap, 200, 48),
        (DataType::LwwMap, 310, 85),
        (DataType::PnCounterMap, 480, 90),
    ] {
        let mut bytes = Vec::new();
        encode_data(&value(data_type, ELEMENTS), &mut bytes).expect("it can be written");
        let limits = DataLimits::default();
        let types = CustomTypes::new();
        let read = || decode_data(&bytes, &limits, &types).expect("what was written is read");
        let (held, calls, data) = allocated(read);
        drop(data);
        let elements = usize::try_from(ELEMENTS).expect("small");
        let (memory, written) = (held / elements, bytes.len() / elements);
        println!(
            "{data_type:?}: {memory} bytes in memory at the most, {written} written, {} allocations",
            calls / elements
        );
        assert!(memory <= memory_max, "{data_type:?}: {memory} bytes in memory");
        assert!(written <= written_max, "{data_type:?}: {written} bytes written");
    }
}

#[test]
fn an_empty_key_and_a_counter_of_ten_nodes_are_small() {
    let mut bytes = Vec::new();
    let mut all = Data::empty(DataType::GCounter).expect("a built-in type");
    let (memory, _, ()) = allocated(|| {
        for number in 0..10 {
            let mut minting = Minting::new(node(number));
            all.apply(&Op::GCounter(GCounterOp::Increment(1)), &mut minting)
                .expect("a legal operation");
        }
    });
    encode_data(&all, &mut bytes).expect("it can be written");
    println!(
        "value: {} bytes inline; a counter of ten nodes: {memory} more, {} written",
        size_of::<Data>(),
        bytes.len()
    );
    assert!(size_of::<Data>() <= 96 && memory <= 3_000 && bytes.len() <= 400);
}

#[test]
fn claims_without_bytes_allocate_next_to_nothing() {
    let limits = DataLimits::default();
    for claim in [
        &[1, 0xFF, 0xFF][..],
        &[3, 0xFF, 0xFF, 0, 0],
        &[4, 0x10, 0x27],
        &[4, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0],
        &[
            8, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, b'a', 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF,
        ],
    ] {
        let (bytes, _, result) = allocated(|| decode_data(claim, &limits, &CustomTypes::new()));
        assert!(result.is_err() && bytes <= 256, "{claim:?}: {bytes} bytes");
    }
}
