//! Heartbeats as QUIC datagrams, and over the stream to a node that takes none. Spec: `docs/WIRE.md` 3.6.

use std::io;
use std::time::Duration;

use quorate_driver::{Cluster, ClusterBuilder};
use quorate_quinn::Address;
use quorate_quinn::spi::Adapter;
use quorate_quinn::spi::{QuicLinks, TokioRuntime};
use quorate_quinn::{Quinn, Security, security::DevCa, stats::LinkStats};

/// A node whose connections take no datagrams.
#[derive(Clone, Copy, Debug)]
struct WithoutDatagrams;

impl Adapter for WithoutDatagrams {
    type Runtime = TokioRuntime;
    type Transport = QuicLinks;

    fn runtime() -> io::Result<TokioRuntime> {
        Quinn::runtime()
    }

    fn transport(runtime: &TokioRuntime, security: &Security) -> io::Result<QuicLinks> {
        let mtls = security.certificates().cloned().unwrap();
        Ok(QuicLinks::without_datagrams(
            runtime.clone(),
            mtls,
            security.max_link_age(),
            security.handshake_limits(),
        ))
    }
}

async fn node<A: Adapter>(authority: &DevCa, seed: Option<&Address>) -> Cluster {
    let builder = ClusterBuilder::on::<A>("datagrams")
        .bind("127.0.0.1:0")
        .security(Security::mtls(authority.mtls().unwrap()))
        .fast_profile()
        .config(|config| config.failure_detector.acceptable_heartbeat_pause = Duration::from_secs(3));
    let node = builder.start().await.unwrap();
    node.join([seed.unwrap_or_else(|| node.address().address())])
        .await
        .unwrap();
    within(node.up()).await.unwrap();
    node
}

async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), future)
        .await
        .unwrap()
}

/// What a node has counted once it has sent enough heartbeats and answers on links that are open, however
/// long those took.
async fn after_heartbeats(node: &Cluster) -> LinkStats {
    within(async {
        loop {
            let stats = node.stats().await.unwrap();
            if stats.links.heartbeats_in_datagrams + stats.links.heartbeats_over_stream >= 30 {
                assert_eq!(stats.core.detector.unreachable_verdicts, 0);
                return stats.links;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heartbeats_travel_as_datagrams() {
    let authority = DevCa::new("tests.cluster.internal").unwrap();
    let one = node::<Quinn>(&authority, None).await;
    let other = node::<Quinn>(&authority, Some(one.address().address())).await;
    for node in [&one, &other] {
        let stats = after_heartbeats(node).await;
        // Those before the link was open waited for its stream.
        assert!(stats.heartbeats_in_datagrams >= 30, "{stats:?}");
        assert_eq!(stats.heartbeats_over_stream, 0, "{stats:?}");
        assert_eq!(
            (stats.frames_skipped, stats.links_closed_for_violation),
            (0, 0),
            "{stats:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_takes_no_datagrams_gets_its_heartbeats_over_the_stream() {
    let authority = DevCa::new("tests.cluster.internal").unwrap();
    let takes = node::<Quinn>(&authority, None).await;
    let does_not = node::<WithoutDatagrams>(&authority, Some(takes.address().address())).await;
    let stats = after_heartbeats(&takes).await;
    assert!(stats.heartbeats_over_stream >= 30, "{stats:?}");
    assert_eq!(stats.heartbeats_in_datagrams, 0, "{stats:?}");
    let stats = after_heartbeats(&does_not).await;
    assert!(stats.heartbeats_in_datagrams >= 30, "{stats:?}");
    assert_eq!(stats.heartbeats_over_stream, 0, "{stats:?}");
}
