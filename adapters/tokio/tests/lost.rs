//! Asks of a node that is gone: what was certainly not sent was not handled, and says so. Spec: I-44, issue
//! 12 point 11.

use crate::common;

use std::collections::BTreeMap;
use std::time::Duration;

use common::{Counter, all_up, node, within};
use quorate_tokio::spi::LinkKind;
use quorate_tokio::{AskError, Cluster, Kind, Region};

const ASKS: u64 = 1_710;

type Answer = (String, u64);

/// Two nodes, of which only the second hosts, and the first's way to its entities.
async fn asker_and_host() -> (Cluster, Cluster, Region<u64, Answer>) {
    let asker = node().start().await.unwrap();
    let seeds = [asker.address().address()];
    asker.join(seeds).await.unwrap();
    let host = node().role("host").seeds(seeds).start().await.unwrap();
    for node in [&asker, &host] {
        all_up(node, 2).await;
    }
    let kind = || Kind::<u64, Answer>::new("counter").shards(4).role("host");
    let make = |_| Counter {
        node: String::new(),
        sum: 0,
    };
    let _region = host.entities(kind()).start(make).await.unwrap();
    let region = asker.entities(kind()).proxy().await.unwrap();
    for id in 0..16 {
        within(region.entity(format!("{id}")).ask(1).into_future())
            .await
            .unwrap();
    }
    (asker, host, region)
}

/// The host stops, and the asker has noticed: what it writes before that to a link that is still open may be
/// handled, for all it knows.
async fn stop(host: &Cluster, asker: &Cluster) {
    host.stop().await;
    let is_open = async || {
        let links = asker.links().await.unwrap();
        links
            .iter()
            .any(|link| link.is_open && link.kind == LinkKind::User)
    };
    while is_open().await {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// How asks that are begun now end, when `meanwhile` is done while they wait.
async fn ask_all(region: &Region<u64, Answer>, meanwhile: impl Future<Output = ()>) -> Vec<AskError> {
    let asks: Vec<_> = (0..ASKS)
        .map(|number| {
            let entity = region.entity(format!("{}", number % 16));
            tokio::spawn(async move { entity.ask(1).await })
        })
        .collect();
    meanwhile.await;
    let mut failures = Vec::new();
    for ask in asks {
        failures.extend(within(ask).await.unwrap().err());
    }
    failures
}

fn say(failures: &[AskError]) -> usize {
    let mut kinds = BTreeMap::new();
    for failure in failures {
        *kinds.entry(failure.to_string()).or_insert(0) += 1;
    }
    println!("of {ASKS} asks {} failed: {kinds:?}", failures.len());
    failures
        .iter()
        .filter(|failure| failure.may_have_been_handled())
        .count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn asks_of_a_node_that_is_gone_and_still_a_member_say_that_they_were_not_handled() {
    let (asker, host, region) = asker_and_host().await;
    stop(&host, &asker).await;
    let failures = ask_all(&region, async {}).await;
    assert_eq!(failures.len() as u64, ASKS);
    assert_eq!(say(&failures), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_stops_tells_its_callers_what_it_has_not_sent() {
    let (asker, host, region) = asker_and_host().await;
    stop(&host, &asker).await;
    let failures = ask_all(&region, async {
        // They are in the node, and wait for a link.
        tokio::time::sleep(Duration::from_millis(20)).await;
        asker.stop().await;
    })
    .await;
    assert_eq!(failures.len() as u64, ASKS);
    assert_eq!(say(&failures), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_is_downed_tells_its_callers_what_it_has_not_sent() {
    let (asker, host, region) = asker_and_host().await;
    stop(&host, &asker).await;
    let failures = ask_all(&region, async {
        tokio::time::sleep(Duration::from_millis(20)).await;
        asker.down(asker.address()).await.unwrap();
        asker.terminated().await;
    })
    .await;
    assert_eq!(failures.len() as u64, ASKS);
    assert_eq!(say(&failures), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn asks_that_wait_for_a_member_which_is_removed_say_that_they_were_not_handled() {
    let (asker, host, region) = asker_and_host().await;
    stop(&host, &asker).await;
    let failures = ask_all(&region, async {
        asker.remove(host.address()).await.unwrap();
        // Those asked before waited for a link; those asked after wait for a home.
        tokio::time::sleep(Duration::from_millis(300)).await;
        asker.stop().await;
    })
    .await;
    assert_eq!(failures.len() as u64, ASKS);
    assert_eq!(say(&failures), 0);
}
