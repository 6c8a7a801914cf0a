//! What the tests over real sockets share: nodes with the fast timings, and waiting for facts with a deadline
//! instead of sleeping and hoping.
#![allow(dead_code, reason = "each test file uses a part")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

pub(crate) mod log;

use std::time::Duration;

use quorate_tokio::{Cluster, ClusterBuilder, ClusterEvent, Entity, EntityContext, Events, Security};
use quorate_tokio::{Config, Event, Status, View, events::MembershipEvent, membership::MembershipChange};

/// Far beyond what any step takes; a test that needs it has failed.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// A node on a port that the system chooses.
pub(crate) fn node() -> ClusterBuilder<Security> {
    node_of("tests")
}

pub(crate) fn node_of(cluster: &str) -> ClusterBuilder<Security> {
    // Several tests share two cores: forgive the pauses that this causes.
    quorate_tokio::builder(cluster)
        .bind("127.0.0.1:0")
        .security(Security::insecure_plaintext())
        .fast_profile()
        .config(|config: &mut Config| {
            config.failure_detector.acceptable_heartbeat_pause = Duration::from_millis(2_000);
        })
}

/// A cluster of so many nodes, all Up in everybody's view; the first is the oldest.
pub(crate) async fn cluster(count: usize) -> Vec<Cluster> {
    let first = node().start().await.unwrap();
    first.join([first.address().address()]).await.unwrap();
    first.up().await.unwrap();
    let mut nodes = vec![first];
    for _ in 1..count {
        nodes.push(join(&nodes[0]).await);
    }
    for node in &nodes {
        all_up(node, count).await;
    }
    nodes
}

/// One more node, Up.
pub(crate) async fn join(seed: &Cluster) -> Cluster {
    let node = node().seeds([seed.address().address()]).start().await.unwrap();
    within(node.up()).await.unwrap();
    node
}

pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(LIMIT, future)
        .await
        .expect("within the limit")
}

/// Waits until the picture of a node is as wanted.
pub(crate) async fn until(node: &Cluster, wanted: impl Fn(&View) -> bool) {
    let mut events = node.events();
    within(async {
        while !wanted(&node.view()) {
            assert!(events.next().await.is_some(), "the node ended: {:?}", node.view());
        }
    })
    .await;
}

pub(crate) async fn all_up(node: &Cluster, count: usize) {
    until(node, |view| {
        view.members().len() == count && view.members().iter().all(|member| member.status == Status::Up)
    })
    .await;
}

/// Waits for a change of the membership.
pub(crate) async fn change(events: &mut Events, wanted: impl Fn(&MembershipChange) -> bool) {
    within(async {
        loop {
            match events.next().await {
                Some(ClusterEvent::Event(Event::Membership(MembershipEvent::Changed { change, .. })))
                    if wanted(&change) =>
                {
                    return;
                }
                Some(_) => {}
                None => panic!("the node ended"),
            }
        }
    })
    .await;
}

/// Adds up what it is told and says where it lives.
pub(crate) struct Counter {
    pub(crate) node: String,
    pub(crate) sum: u64,
}

impl Entity for Counter {
    type Message = u64;
    type Reply = (String, u64);

    async fn handle(&mut self, _: &EntityContext, add: u64) -> (String, u64) {
        self.sum += add;
        (self.node.clone(), self.sum)
    }
}
