//! Links that are renewed all the time, under load: every message is answered, none is handled twice, nobody
//! is suspected, and nobody is connected any more who could not connect anew. Spec: reliability 3a
//! (rotation).

use std::time::Duration;

use quorate_driver::spi::{Adapter, Runtime};
use quorate_driver::{
    Security,
    security::{Method, Psk},
};

use super::support::{all_up, cluster_of, living_on, node, notebooks, read, runtime, sleep, suspected};

/// How old links become: the least there is.
const LINK_AGE: Duration = Duration::from_secs(1);

/// For transports that are tested without certificates.
const KEY: &str = "a key of the conformance suite, of 48 characters";

/// Handshakes per link that the test waits for.
const HANDSHAKES: u64 = 4;

/// Links of three nodes are renewed several times while messages cross them: told ones arrive once each and
/// in order, asked ones are answered, and no member is ever unreachable.
pub async fn links_are_renewed_and_no_message_is_lost<A: Adapter>(security: &Security) {
    let security = if security.method() == Method::InsecurePlaintext {
        // Nothing to prove, nothing to renew: the same links with a key.
        Security::psk(Psk::new(KEY).expect("a key"))
    } else {
        security.clone()
    };
    let nodes = cluster_of::<A>(3, || {
        node::<A>(&security).link_limits(|limits| limits.max_link_age = LINK_AGE)
    })
    .await;
    let mut events = nodes[0].events();
    let mut regions = Vec::new();
    for node in &nodes {
        regions.push(notebooks(node).await);
    }
    let id = living_on::<A>(&regions[0], nodes[1].address()).await;
    let (_, before) = read::<A>(&regions[0], &id).await;
    let mut told = u32::try_from(before.len()).expect("few pages");
    let started = runtime::<A>().now().mono;
    loop {
        for _ in 0..50 {
            regions[0]
                .entity(&id)
                .tell(&vec![told])
                .await
                .expect("it is taken");
            told += 1;
        }
        regions[0]
            .entity(&id)
            .ask(Vec::new())
            .timeout(Duration::from_secs(10))
            .await
            .expect("every ask is answered");
        let links = nodes[0].links().await.expect("the node runs");
        let waited = runtime::<A>().now().mono.since(started);
        assert!(waited < Duration::from_secs(60), "{links:?}");
        let busy = |link: &&quorate_driver::stats::LinkState| {
            link.is_open && link.peer == *nodes[1].address().address()
        };
        if links
            .iter()
            .filter(busy)
            .all(|link| link.handshakes >= HANDSHAKES)
        {
            break;
        }
        sleep::<A>(Duration::from_millis(2)).await;
    }
    let (_, pages) = read::<A>(&regions[2], &id).await;
    let told_now = before
        .iter()
        .copied()
        .chain(u32::try_from(before.len()).expect("few")..told);
    assert!(
        pages.iter().copied().eq(told_now),
        "{} of {told} pages",
        pages.len()
    );
    for node in &nodes {
        let stats = node.stats().await.expect("the node runs").links;
        assert!(stats.links_renewed > 0, "{stats:?}");
        let gone_wrong = stats.renewals_failed + stats.renewals_cut_short + stats.links_expired;
        assert_eq!(gone_wrong, 0, "{stats:?}");
        all_up::<A>(node, 3).await;
    }
    assert_eq!(suspected::<A>(&mut events).await, 0);
}
