//! Files that went back in time, are in use, are no stores, or were damaged. Spec: reliability F-04, I-84.

use crate::common;

use std::fs;
use std::path::Path;

use quorate_driver::store::{Bytes, Change, Space, StoreAnswer, StoreOrder};
use quorate_driver::store::{Store, new_store_id};
use quorate_store_redb::Redb;

const SPACE: Space = Space(2);

fn put(store: &mut Redb, value: &str) {
    let change = Change::Put {
        key: b"key".as_slice().into(),
        value: value.as_bytes().into(),
    };
    let order = StoreOrder::Write { batch: vec![change] };
    let done = store.commit(&[(SPACE, &order)]).unwrap();
    assert_eq!(done, [Ok(StoreAnswer::Written)]);
}

fn get(store: &mut Redb) -> Option<Bytes> {
    let order = StoreOrder::Read {
        key: b"key".as_slice().into(),
    };
    match store.commit(&[(SPACE, &order)]).unwrap().remove(0) {
        Ok(StoreAnswer::Value(value)) => value,
        other => panic!("{other:?}"),
    }
}

fn open(path: &Path) -> (Redb, u128, u64) {
    let mut store = Redb::open(path).unwrap();
    let identity = store.open().unwrap();
    (store, identity.id, identity.boot)
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn i_84_a_file_that_went_back_in_time_is_put_aside_and_counts_as_data_loss() {
    let folder = common::directory();
    let (path, backup) = (folder.join("node.redb"), folder.join("backup"));
    let (mut store, id, boot) = open(&path);
    put(&mut store, "old");
    drop(store);
    fs::copy(&path, &backup).unwrap();
    let (mut store, same, second) = open(&path);
    assert_eq!((same, second), (id, boot + 1));
    put(&mut store, "new");
    drop(store);

    fs::copy(&backup, &path).unwrap();
    let (mut store, other, first) = open(&path);
    assert_ne!(other, id, "a newcomer, not old truth");
    assert_eq!(first, 1);
    assert_eq!(get(&mut store), None);
    assert_eq!(
        names(&folder),
        ["backup", "node.redb", "node.redb.boot", "node.redb.rolled-back-2"]
    );
    put(&mut store, "after");
    drop(store);
    let (mut store, same, second) = open(&path);
    assert_eq!((same, second), (other, 2));
    assert_eq!(get(&mut store).as_deref(), Some(b"after".as_slice()));
}

#[test]
fn i_84_a_file_that_is_gone_comes_back_as_another_store() {
    let path = common::directory().join("node.redb");
    let (store, id, _) = open(&path);
    drop(store);
    fs::remove_file(&path).unwrap();
    let (_, other, boot) = open(&path);
    assert_ne!(other, id);
    assert_eq!(boot, 1);
}

#[test]
fn i_84_a_counter_on_another_disk_notices_a_whole_disk_that_went_back() {
    let (disk, other_disk) = (common::directory(), common::directory());
    let (path, counter) = (disk.join("node.redb"), other_disk.join("boot"));
    let open = || {
        let mut store = Redb::open_with_counter(&path, &counter).unwrap();
        let identity = store.open().unwrap();
        (store, identity)
    };
    drop(open());
    let snapshot = fs::read(&path).unwrap();
    let (_, before) = open();
    fs::remove_dir_all(&disk).unwrap();
    fs::create_dir_all(&disk).unwrap();
    fs::write(&path, snapshot).unwrap();
    let (_, after) = open();
    assert_ne!(after.id, before.id);
}

#[test]
fn a_life_that_was_not_noted_beside_the_file_is_no_loss() {
    let path = common::directory().join("node.redb");
    let counter = path.with_extension("redb.boot");
    let (store, id, _) = open(&path);
    drop(store);
    let earlier = fs::read(&counter).unwrap();
    let (mut store, _, boot) = open(&path);
    put(&mut store, "kept");
    drop(store);
    // The process died between the store's own count and the file beside it.
    fs::write(&counter, earlier).unwrap();
    let (mut store, same, next) = open(&path);
    assert_eq!((same, next), (id, boot + 1));
    assert!(get(&mut store).is_some());
}

#[test]
fn a_file_is_opened_once_at_a_time() {
    let path = common::directory().join("node.redb");
    let (store, ..) = open(&path);
    let second = Redb::open(&path).unwrap_err();
    assert!(second.to_string().contains("in use"), "{second}");
    drop(store);
    open(&path);
}

#[test]
fn what_is_no_store_is_an_error_and_stays_as_it_is() {
    let folder = common::directory();
    fs::create_dir_all(&folder).unwrap();
    let path = folder.join("node.redb");
    fs::write(&path, vec![b'x'; 100_000]).unwrap();
    assert!(Redb::open(&path).is_err());
    assert_eq!(fs::read(&path).unwrap(), vec![b'x'; 100_000]);
    let (store, ..) = open(&folder.join("other.redb"));
    drop(store);
    fs::write(folder.join("other.redb.boot"), "something else").unwrap();
    assert!(Redb::open(folder.join("other.redb")).is_err());
}

#[test]
fn a_store_that_was_used_is_never_taken_for_one_that_was_just_begun() {
    let path = common::directory().join("node.redb");
    let (mut store, ..) = open(&path);
    put(&mut store, "kept");
    drop(store);
    let mut bytes = fs::read(&path).unwrap();
    bytes[..9].fill(0);
    fs::write(&path, &bytes).unwrap();
    assert!(Redb::open(&path).is_err(), "damage, not an empty store");
    assert_eq!(
        fs::read(&path).unwrap().len(),
        bytes.len(),
        "and nothing was thrown away"
    );
}

#[test]
fn ids_of_stores_are_drawn() {
    assert_ne!(new_store_id().unwrap(), new_store_id().unwrap());
}
