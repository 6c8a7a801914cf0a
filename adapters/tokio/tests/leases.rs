//! Lease-majority over real sockets, with the lease in a file: who gets it goes on, who does not goes.

use crate::common;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use common::{all_up, node, within};
use quorate_tokio::{
    Address, Config, HaltReason, UniqueAddress,
    config::{DowningStrategy, LeaseMajorityConfig},
};
use quorate_tokio::{
    Cluster, StartError, Termination,
    lease::{FileLeases, LeaseKeeper},
};

const NAME: &str = "tests-sbr";

fn lease_majority(config: &mut Config) {
    config.downing.strategy = DowningStrategy::LeaseMajority(LeaseMajorityConfig {
        acquire_lease_delay_for_minority: Duration::from_millis(200),
        release_after: Duration::from_millis(500),
        time_to_live: Duration::from_secs(3),
        ..LeaseMajorityConfig::default()
    });
}

fn directory(test: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("quorate-tokio-{test}-{}", std::process::id()));
    drop(std::fs::remove_dir_all(&path));
    path
}

/// Two nodes, each with a keeper of its own as in two processes.
async fn pair(leases: &Path) -> [Cluster; 2] {
    let builder = || {
        let keeper = FileLeases::new(leases).unwrap();
        node().config(lease_majority).leases(Arc::new(keeper))
    };
    let first = builder().start().await.unwrap();
    first.join([first.address().address()]).await.unwrap();
    within(first.up()).await.unwrap();
    let second = builder()
        .seeds([first.address().address()])
        .start()
        .await
        .unwrap();
    within(second.up()).await.unwrap();
    all_up(&first, 2).await;
    [first, second]
}

fn stranger() -> UniqueAddress {
    UniqueAddress::new(Address::new("stranger", 1).unwrap(), 1)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn i_26_who_gets_the_lease_goes_on_and_gives_it_back_when_the_other_side_is_gone() {
    let leases = directory("granted");
    let [first, second] = pair(&leases).await;
    let keeper = FileLeases::new(&leases).unwrap();
    assert_eq!(second.stop().await, Termination::Stopped);
    all_up(&first, 1).await;
    // Held until the other one is removed and for a while after that; then anybody may have it, with the next
    // token.
    let mut tokens = Vec::new();
    within(async {
        while tokens.is_empty() {
            tokio::time::sleep(Duration::from_millis(50)).await;
            tokens.extend(
                keeper
                    .acquire(NAME, &stranger(), Duration::from_secs(60))
                    .unwrap(),
            );
        }
    })
    .await;
    assert_eq!(tokens, [2], "the first token was the survivor's");
    first.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_does_not_get_the_lease_goes() {
    let leases = directory("denied");
    let [first, second] = pair(&leases).await;
    let keeper = FileLeases::new(&leases).unwrap();
    let token = keeper
        .acquire(NAME, &stranger(), Duration::from_secs(600))
        .unwrap();
    assert_eq!(token, Some(1));
    second.stop().await;
    let ended = within(first.terminated()).await;
    assert_eq!(ended, Termination::Halted(HaltReason::Downed));
}

#[tokio::test]
async fn lease_majority_without_a_keeper_is_refused() {
    let started = node().config(lease_majority).start().await;
    assert!(matches!(started, Err(StartError::NoLeaseKeeper)), "{started:?}");
}
