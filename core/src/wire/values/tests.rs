//! What readers of values and deltas refuse: every other written form, and every claim beyond a limit.
#![allow(clippy::indexing_slicing, clippy::expect_used, clippy::panic)]

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::*;
use crate::ddata::crdt::{DataOp, GSetOp, Minting, OrSetOp, VERSION_MAX};
use crate::ident::{Address, UniqueAddress};

fn n(name: &str) -> UniqueAddress {
    UniqueAddress::new(Address::new(name, 7355).expect("a legal name"), 1)
}

fn read(bytes: &[u8]) -> Result<DataValue, WireError> {
    decode_data(bytes, &DataLimits::default(), &CustomTypes::new())
}

/// A set with removal of two elements, written: type, table of one node, its version, no range, two entries.
fn written() -> Vec<u8> {
    let mut set = DataValue::empty(DataType::OrSet).expect("a built-in type");
    let minting = &mut Minting::new(n("a"));
    for text in [b"x", b"y"] {
        set.apply(&DataOp::OrSet(OrSetOp::Add(Arc::from(&text[..]))), minting)
            .expect("a legal operation");
    }
    let mut out = Vec::new();
    encode_data(&set, &mut out).expect("it can be written");
    out
}

fn changed(from_end: usize, bytes: &[u8]) -> Result<DataValue, WireError> {
    let mut all = written();
    let at = all.len() - from_end;
    all[at..at + bytes.len()].copy_from_slice(bytes);
    read(&all)
}

#[test]
fn one_written_form_and_nothing_behind_it() {
    let all = written();
    assert!(read(&all).is_ok());
    for len in 0..all.len() {
        assert_eq!(read(&all[..len]), Err(WireError::Incomplete), "{len} bytes");
    }
    let longer = [&all[..], &[0]].concat();
    assert_eq!(read(&longer), Err(WireError::TrailingBytes));
}

#[test]
fn entries_rise_and_their_dots_lie_within_the_context() {
    // The last entry: length, one byte, one dot, its node and its version.
    assert_eq!(
        changed(13, b"x"),
        Err(WireError::NonCanonical { what: "elements" })
    );
    let what = "dot beyond its context";
    assert_eq!(changed(8, &[3]), Err(WireError::Malformed { what }));
    assert_eq!(changed(8, &[0]), Err(WireError::Malformed { what }));
    assert_eq!(changed(10, &[1]), Err(WireError::DanglingIndex { what: "dot" }));
    let what = "element without dots";
    assert_eq!(changed(12, &[0]), Err(WireError::NonCanonical { what }));
}

#[test]
fn a_range_touches_nothing_below_it_and_a_node_was_seen() {
    let node = [0_u8, 1, 1, b'a', 1, 0, 1, 0, 0, 0, 0, 0, 0, 0];
    let set = |upto: u64, ranges: &[(u64, u64)]| {
        let mut all = Vec::from([ORSET, 1, 0]);
        all.extend_from_slice(&node[2..]);
        all.extend_from_slice(&upto.to_le_bytes());
        all.extend_from_slice(&u32::try_from(ranges.len()).expect("few").to_le_bytes());
        for (from, to) in ranges {
            all.extend_from_slice(&[0, 0]);
            all.extend_from_slice(&from.to_le_bytes());
            all.extend_from_slice(&to.to_le_bytes());
        }
        all.extend_from_slice(&0_u32.to_le_bytes());
        read(&all)
    };
    assert!(set(3, &[(5, 5), (7, 9)]).is_ok());
    let refused = Err(WireError::NonCanonical { what: "ranges" });
    for ranges in [
        &[(4, 5)][..],
        &[(5, 4)],
        &[(0, 9)],
        &[(5, 6), (7, 9)],
        &[(7, 9), (5, 5)],
        &[(5, VERSION_MAX + 1)],
    ] {
        assert_eq!(set(3, ranges), refused, "{ranges:?}");
    }
    assert_eq!(
        set(VERSION_MAX + 1, &[]),
        Err(WireError::Malformed { what: "version" })
    );
    assert_eq!(set(0, &[]), Err(WireError::NonCanonical { what: "nodes" }));
}

#[test]
fn a_value_at_its_limits_is_read_and_one_above_is_not() {
    let mut set = DataValue::empty(DataType::GSet).expect("a built-in type");
    for text in [b"x", b"y"] {
        let add = DataOp::GSet(GSetOp::Add(Arc::from(&text[..])));
        set.apply(&add, &mut Minting::new(n("a")))
            .expect("a legal operation");
    }
    let mut all = Vec::new();
    encode_data(&set, &mut all).expect("it can be written");
    let limits = |bytes_max: usize, elements_max: u32| DataLimits {
        bytes_max,
        elements_max,
        ..DataLimits::default()
    };
    let read = |limits: DataLimits| decode_data(&all, &limits, &CustomTypes::new()).map(|_| ());
    assert_eq!(read(limits(all.len(), 2)), Ok(()));
    assert!(matches!(
        read(limits(all.len() - 1, 2)),
        Err(WireError::TooLarge { .. })
    ));
    let what = "elements";
    assert_eq!(read(limits(all.len(), 1)), Err(WireError::LimitExceeded { what }));
}
