//! Homes are found again in the redb files of five nodes that were all killed.

#![allow(
    clippy::unwrap_used,
    dead_code,
    reason = "a test fails by panicking, and uses a part of what tests share"
)]

mod common;

use quorate_conformance::homes_are_found_again_on;
use quorate_store_redb::Redb;
use quorate_tokio::core::StoreMode;
use quorate_tokio::{Security, Tokio};

#[tokio::test(flavor = "multi_thread")]
async fn homes_are_found_again_in_redb_files() {
    let folder = common::Directory::new("stored-homes");
    let security = Security::insecure_plaintext();
    for mode in [StoreMode::DistributedData, StoreMode::Events] {
        let open =
            |index: usize| Redb::open(format!("{}/{mode}-{index}.redb", folder.path())).expect("a file");
        homes_are_found_again_on::<Tokio, _>(&security, mode, open).await;
    }
}
