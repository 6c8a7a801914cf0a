//! The written form of tables.

use alloc::vec;

use super::configuration::{Configuration, Owners};
use super::table::{EPOCH_MAX, RangeEntry, RangeId, RangeLevels, TableChange, replaced};
use crate::bytes::WireError;
use crate::journal::state::StoreId;

fn change() -> TableChange {
    let levels = RangeLevels::new(3, 2, 2).unwrap();
    let of = |range, epoch, owners| {
        let configuration = Configuration { epoch, owners };
        let entry = RangeEntry {
            configuration,
            levels,
        };
        (RangeId(range), entry)
    };
    let owners = [9, 2, 5].map(StoreId);
    let joint = replaced(&owners, StoreId(2), StoreId(4)).unwrap();
    TableChange {
        entries: vec![of(0, 1, Owners::Stable(owners.to_vec())), of(255, 8, joint)],
        lost: [StoreId(2)].into(),
    }
}

#[test]
fn the_bytes_are_these_for_ever() {
    let id = |id: u128| id.to_le_bytes();
    let expected = [
        &[4, 0][..],
        &[id(2), id(4), id(5), id(9)].concat(),
        &[1, 0, 0, 0, 2, 0],
        &[0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 3, 2, 2, 3, 0, 0, 0, 2, 0, 255],
        &[255, 0, 8, 0, 0, 0, 0, 0, 0, 0, 3, 2, 2, 3, 0, 0, 0, 2, 0, 1, 1, 0],
    ];
    assert_eq!(change().to_bytes().unwrap(), expected.concat());
}

#[test]
fn a_change_is_read_as_it_was_written() {
    for change in [change(), TableChange::default()] {
        assert_eq!(TableChange::from_bytes(&change.to_bytes().unwrap()), Ok(change));
    }
}

#[test]
fn every_cut_and_every_wrong_byte_is_noticed_or_still_a_table() {
    let bytes = change().to_bytes().unwrap();
    for end in 0..bytes.len() {
        assert!(TableChange::from_bytes(&bytes[..end]).is_err(), "cut at {end}");
    }
    for at in 0..bytes.len() {
        for wrong in [0, 1, 2, 0x7f, 0xff] {
            let mut bytes = bytes.clone();
            bytes[at] = wrong;
            if let Ok(read) = TableChange::from_bytes(&bytes) {
                assert!(read.to_bytes().is_ok(), "byte {at} is {wrong}");
            }
        }
    }
}

#[test]
fn what_no_range_can_have_is_not_written() {
    let mut wrong = change();
    wrong.entries.reverse();
    assert!(wrong.to_bytes().is_err(), "out of order");
    let mut wrong = change();
    wrong.entries[0].1.configuration.owners = Owners::Stable(vec![StoreId(1)]);
    assert!(wrong.to_bytes().is_err(), "fewer owners than copies");
    let mut wrong = change();
    wrong.entries[1].1.configuration.owners = Owners::Joint {
        from: [1, 2, 3].map(StoreId).to_vec(),
        to: [2, 3, 4].map(StoreId).to_vec(),
    };
    assert!(wrong.to_bytes().is_err(), "another order of owners");
    let mut far = change();
    far.entries[0].1.configuration.epoch = EPOCH_MAX + 1;
    let bytes = far.to_bytes().unwrap();
    let epoch = WireError::Malformed { what: "epoch" };
    assert_eq!(TableChange::from_bytes(&bytes), Err(epoch));
}
