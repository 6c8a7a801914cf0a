//! Homes are found again in the redb files of five nodes that were all killed.

#![allow(
    clippy::unwrap_used,
    dead_code,
    reason = "a test fails by panicking, and uses a part of what tests share"
)]

mod common;

use quorate_conformance::homes_are_found_again_on;
use quorate_store_postgres::{Postgres, Tls};
use quorate_store_redb::Redb;
use quorate_tokio::core::StoreMode;
use quorate_tokio::{Cluster, Kind, Security, Store, Tokio, remove_coordinator_state};

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
    homes_are_removed_from(|| Redb::open(&path).map_err(|error| error.to_string())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stored_homes_are_removed_from_a_database_whose_node_is_not_there() {
    let Ok(server) = std::env::var("QUORATE_POSTGRES") else {
        return println!("skipped: QUORATE_POSTGRES does not name a PostgreSQL server");
    };
    let schema = format!("quorate_removed_homes_{}", std::process::id());
    let store = || Postgres::new(&server, "node-1", Tls::off()).and_then(|store| store.schema(&schema));
    homes_are_removed_from(|| store().map_err(|error| error.to_string())).await;
}

/// While a node uses its store nothing is removed and the node goes on; afterwards the homes go, and the node can start.
async fn homes_are_removed_from<S: Store>(store: impl Fn() -> Result<S, String>) {
    let security = Security::insecure_plaintext();
    let start = async || {
        let node = Cluster::builder("removal")
            .bind("127.0.0.1:0")
            .security(security.clone())
            .fast_profile()
            .config(|config| config.journal.voters = 1)
            .store(store().unwrap())
            .start()
            .await
            .unwrap();
        node.join([node.address().address()]).await.unwrap();
        node.up().await.unwrap();
        let kind = Kind::<u8, u8>::new("cart").store_mode(StoreMode::Events);
        let region = node.register_fn(kind, |_, n| async move { n }).await.unwrap();
        assert_eq!(region.entity("ada").ask(&7).await, Ok(7));
        (node, region)
    };
    // A store blocks.
    let remove = async || {
        let store = store();
        let removing = tokio::task::spawn_blocking(move || {
            let mut store = store?;
            let removed = remove_coordinator_state(&mut store, &["cart", "other"]);
            removed.map_err(|error| error.to_string())
        });
        removing.await.unwrap()
    };
    let (node, region) = start().await;
    assert!(remove().await.is_err(), "a node lives");
    for id in ["bob", "cleo", "dan", "eve"] {
        assert_eq!(
            region.entity(id).ask(&8).await,
            Ok(8),
            "shards get homes, the store is still the node's"
        );
    }
    node.stop().await;
    assert_eq!(remove().await, Ok(vec!["cart".to_owned()]));
    start().await.0.stop().await;
}
