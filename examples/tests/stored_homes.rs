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
use quorate_tokio::{Cluster, Kind, Security, Tokio, remove_coordinator_state};

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

#[tokio::test(flavor = "multi_thread")]
async fn stored_homes_are_removed_from_a_file_that_no_node_uses() {
    let folder = common::Directory::new("removed-homes");
    let path = format!("{}/node.redb", folder.path());
    let security = Security::insecure_plaintext();
    let start = async || {
        let node = Cluster::builder("removal")
            .bind("127.0.0.1:0")
            .security(security.clone())
            .fast_profile()
            .config(|config| config.journal.voters = 1)
            .store(Redb::open(&path).unwrap())
            .start()
            .await
            .unwrap();
        node.join([node.address().address()]).await.unwrap();
        node.up().await.unwrap();
        let kind = Kind::<u8, u8>::new("cart").store_mode(StoreMode::Events);
        let region = node.register_fn(kind, |_, n| async move { n }).await.unwrap();
        assert_eq!(region.entity("ada").ask(&7).await, Ok(7));
        node
    };
    let remove = || {
        let mut store = Redb::open(&path).map_err(|error| error.to_string())?;
        remove_coordinator_state(&mut store, &["cart", "other"]).map_err(|error| error.to_string())
    };
    let node = start().await;
    assert!(remove().is_err(), "a node lives");
    node.stop().await;
    assert_eq!(remove(), Ok(vec!["cart".to_owned()]));
    start().await.stop().await;
}
