//! Clusters in one process over real sockets: formation, messages between nodes, graceful leave, a crash, a
//! restart.

use crate::common;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use common::{Counter, all_up, change, cluster, join, node, until, within};
use quorate_tokio::{
    AskError, Cluster, ClusterError, ClusterEvent, Entity, EntityContext, Kind, Region, StartError,
    Termination,
};
use quorate_tokio::{AskFailure, HaltReason, Status, membership::MembershipChange};

type Counters = Region<u64, (String, u64)>;

async fn counters(node: &Cluster) -> Counters {
    let name = node.address().to_string();
    let make = move |_: EntityContext| Counter {
        node: name.clone(),
        sum: 0,
    };
    node.entities(Kind::new("counter").shards(32))
        .start(make)
        .await
        .unwrap()
}

/// Asks until there is an answer: shards move while nodes come and go.
async fn add(region: &Counters, id: usize, add: u64) -> (String, u64) {
    within(async {
        loop {
            match region
                .entity(format!("c-{id}"))
                .ask(add)
                .timeout(Duration::from_secs(2))
                .await
            {
                Ok(answer) => return answer,
                Err(AskError::Failed(_)) => {}
                Err(error) => panic!("{error}"),
            }
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_nodes_form_a_cluster_and_answer_for_each_other() {
    let nodes = cluster(3).await;
    let mut regions = Vec::new();
    for node in &nodes {
        regions.push(counters(node).await);
    }
    let mut hosts: BTreeMap<String, usize> = BTreeMap::new();
    for id in 0..100 {
        let (host, sum) = add(&regions[0], id, 1).await;
        assert_eq!(sum, 1, "c-{id}");
        *hosts.entry(host).or_default() += 1;
    }
    assert_eq!(hosts.len(), 3, "{hosts:?}");
    // Told from one node, asked from another: the same entity.
    for id in 0..100 {
        regions[1].entity(format!("c-{id}")).tell(&10).await.unwrap();
    }
    for id in 0..100 {
        within(async {
            while add(&regions[2], id, 0).await.1 != 11 {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }
    let stats = nodes[0].stats().await.unwrap();
    assert_eq!(
        (stats.links.handshakes_refused, stats.core.node.rejected_wire),
        (0, 0),
        "{stats:?}"
    );
    assert!(stats.host.entities > 0);
    let (mut hosted, mut coordinators) = (0, 0);
    for node in &nodes {
        let kind = node.sharding_state().await.unwrap().remove(0);
        assert_eq!(kind.name, "counter");
        hosted += kind.region.hosted.len();
        coordinators += usize::from(kind.coordinator.is_some());
    }
    assert!(hosted > 0 && coordinators == 1, "{hosted} {coordinators}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leaving_node_hands_over_and_ends_gracefully() {
    let nodes = cluster(3).await;
    let mut regions = Vec::new();
    for node in &nodes {
        regions.push(counters(node).await);
    }
    for id in 0..50 {
        add(&regions[1], id, 1).await;
    }
    // The oldest: its coordinator goes with it.
    let left = within(nodes[0].leave()).await.unwrap();
    assert_eq!(left, Termination::Halted(HaltReason::Left));
    assert!(left.is_graceful());
    assert_eq!(within(nodes[0].leave()).await, Ok(left));
    all_up(&nodes[1], 2).await;
    let gone = nodes[0].address().to_string();
    for id in 0..50 {
        let (host, _) = add(&regions[1], id, 1).await;
        assert_ne!(host, gone);
    }
    let refused = regions[0].entity("c-1").ask(1).await;
    assert!(refused.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_dies_is_removed_and_its_entities_live_elsewhere() {
    let nodes = cluster(2).await;
    let mut regions = Vec::new();
    for node in &nodes {
        regions.push(counters(node).await);
    }
    // The third lives in a runtime of its own, so that it can die without a word.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let seed = nodes[0].address().address().clone();
    let (victim, _alive) = runtime
        .spawn(async move {
            let victim = node().seeds([seed]).start().await.unwrap();
            within(victim.up()).await.unwrap();
            let region = counters(&victim).await;
            (victim, region)
        })
        .await
        .unwrap();
    for node in &nodes {
        all_up(node, 3).await;
    }
    let dead = victim.address().clone();
    // Until the rebalance has given it something to lose.
    within(async {
        let mut id = 0;
        while add(&regions[0], id, 1).await.0 != dead.to_string() {
            id = (id + 1) % 50;
        }
    })
    .await;
    let mut events = nodes[0].events();
    runtime.shutdown_background();
    drop(victim);
    change(
        &mut events,
        |c| matches!(c, MembershipChange::Unreachable(m) if m.node == dead),
    )
    .await;
    change(
        &mut events,
        |c| matches!(c, MembershipChange::Removed { member, .. } if member.node == dead),
    )
    .await;
    for id in 0..50 {
        assert_ne!(add(&regions[1], id, 1).await.0, dead.to_string());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_restarts_on_its_port_with_a_new_uid() {
    let nodes = cluster(2).await;
    let third = join(&nodes[0]).await;
    let (old, address) = (third.address().clone(), third.address().address().clone());
    assert_eq!(within(third.stop()).await, Termination::Stopped);
    assert!(matches!(within(third.up()).await, Err(ClusterError::Stopped)));
    let again = node().bind(&address).seeds([nodes[0].address().address()]);
    let again = again.start().await.unwrap();
    assert_eq!(again.address().address(), &address);
    assert_ne!(again.address().uid(), old.uid());
    within(again.up()).await.unwrap();
    let me = again.address().clone();
    for node in &nodes {
        until(node, |view| {
            view.member(&old).is_none() && view.member(&me).is_some_and(|m| m.status == Status::Up)
        })
        .await;
    }
}

#[tokio::test]
async fn a_cluster_of_one_answers_leaves_and_frees_its_port() {
    let node = cluster(1).await.remove(0);
    let region = counters(&node).await;
    assert_eq!(add(&region, 1, 5).await, (node.address().to_string(), 5));
    let address = node.address().address().clone();
    let mut events = node.events();
    assert!(matches!(events.next().await, Some(ClusterEvent::Snapshot(view)) if view.members().len() == 1));
    assert_eq!(
        within(node.leave()).await,
        Ok(Termination::Halted(HaltReason::Left))
    );
    within(async {
        while let Some(event) = events.next().await {
            if let ClusterEvent::Terminated(how) = event {
                assert!(how.is_graceful());
            }
        }
    })
    .await;
    tokio::net::TcpListener::bind((address.host(), address.port()))
        .await
        .unwrap();
    let stopped = region.entity("c-1").ask(1).await.unwrap_err();
    assert_eq!(stopped, AskError::Failed(AskFailure::NodeStoppedUnsent));
    assert_eq!(node.stats().await, Err(ClusterError::Stopped));
}

#[tokio::test]
async fn dropping_the_last_handle_stops_the_node() {
    let node = cluster(1).await.remove(0);
    let mut events = node.events();
    drop(node.clone());
    assert!(matches!(events.next().await, Some(ClusterEvent::Snapshot(_))));
    drop(node);
    within(async { while events.next().await.is_some() {} }).await;
}

#[tokio::test]
async fn a_node_forms_a_cluster_of_its_own_once_and_shows_its_version() {
    let node = node().app_version("2.1").start().await.expect("it starts");
    node.form().await.expect("it has not joined");
    within(node.up()).await.expect("alone it is up");
    let members = node.members();
    assert_eq!(members.len(), 1);
    assert_eq!(members[0].app_version.as_str(), "2.1");
    assert!(matches!(node.form().await, Err(ClusterError::Refused(_))), "once");
}

#[tokio::test]
async fn a_port_in_use_and_bad_names_are_typed_errors() {
    let taken = cluster(1).await.remove(0);
    let second = node().bind(taken.address().address()).start().await;
    assert!(matches!(second, Err(StartError::Bind { .. })), "{second:?}");
    let portless = node().bind("127.0.0.1").start().await.expect_err("no port");
    let said = portless.to_string();
    assert_eq!(
        said,
        "cannot listen at 127.0.0.1: write `host:port`, with port 0 for one that is free"
    );
    assert!(matches!(
        node().role("dc-x").start().await,
        Err(StartError::Name { what: "role", .. })
    ));
    assert!(matches!(
        node().app_version("1.x").start().await,
        Err(StartError::AppVersion { .. })
    ));
    assert!(matches!(
        node().seeds(["nowhere"]).start().await,
        Err(StartError::Name { what: "seed", .. })
    ));
    assert!(matches!(
        node().bind("0.0.0.0:0").start().await,
        Err(StartError::UnspecifiedAddress { .. })
    ));
    assert!(matches!(
        node()
            .config(|c| c.membership.min_nr_of_members = 0)
            .start()
            .await,
        Err(StartError::Config(_))
    ));
    let joined = taken.join([taken.address().address()]).await;
    assert!(matches!(joined, Err(ClusterError::Refused(_))), "{joined:?}");
}

/// Panics, answers late, or answers.
struct Moody;

impl Entity for Moody {
    type Message = String;
    type Reply = String;

    async fn handle(&mut self, _: &EntityContext, message: String) -> String {
        match message.as_str() {
            "panic" => panic!("as the test wants"),
            "sleep" => std::future::pending().await,
            _ => message,
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_that_panics_or_hangs_harms_only_its_own_asks() {
    let node = cluster(1).await.remove(0);
    let region = node
        .entities(Kind::<String, String>::new("moody").shards(4))
        .start(|_| Moody)
        .await
        .unwrap();
    let ask = |id: &str, what: &str| region.entity(id).ask(what.to_owned());
    assert_eq!(within(ask("a", "hello").into_future()).await.unwrap(), "hello");
    let panicked = within(ask("a", "panic").into_future()).await.unwrap_err();
    assert_eq!(panicked, AskError::Failed(AskFailure::EntityStopped));
    assert!(panicked.may_have_been_handled());
    assert_eq!(within(ask("a", "again").into_future()).await.unwrap(), "again");
    let late = within(
        ask("b", "sleep")
            .timeout(Duration::from_millis(300))
            .into_future(),
    )
    .await
    .unwrap_err();
    assert_eq!(late, AskError::Failed(AskFailure::TimeoutSent));
    assert_eq!(
        within(ask("a", "still here").into_future()).await.unwrap(),
        "still here"
    );
    let termination = within(node.leave()).await.unwrap();
    assert!(termination.is_graceful(), "{termination:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_that_cannot_be_read_are_told_apart_from_answers() {
    let nodes = cluster(3).await;
    nodes[0]
        .entities(Kind::<u64, u64>::new("typed").shards(4))
        .start_fn(|_, n| async move { n + 1 })
        .await
        .unwrap();
    // The same kind with other types: a program that was changed on some nodes only.
    let wrong = Kind::<Vec<u8>, u64>::new("typed").shards(4);
    let wrong = nodes[1].entities(wrong).proxy().await.unwrap();
    let undecodable = within(wrong.entity("x").ask(vec![9, 9, 9]).into_future()).await;
    assert_eq!(undecodable, Err(AskError::Undecodable));
    let other = Kind::<u64, String>::new("typed").shards(4);
    let other = nodes[2].entities(other).proxy().await.unwrap();
    let decode = within(other.entity("x").ask(1).into_future()).await;
    assert_eq!(decode, Err(AskError::Decode));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_asks_in_flight_are_all_answered_exactly_once() {
    let nodes = cluster(2).await;
    let mut regions = Vec::new();
    for node in &nodes {
        regions.push(counters(node).await);
    }
    add(&regions[0], 0, 0).await;
    let region = Arc::new(regions[0].clone());
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..64_usize {
        let region = Arc::clone(&region);
        tasks.spawn(async move {
            for round in 0..100_usize {
                add(&region, task * 100 + round, 1).await;
            }
        });
    }
    within(async { while tasks.join_next().await.is_some() {} }).await;
    let stats = nodes[0].stats().await.unwrap().core;
    assert!(stats.sharding.asks_opened >= 6_400, "{stats:?}");
    assert_eq!(
        stats.sharding.asks_opened,
        stats.sharding.asks_answered + stats.sharding.asks_failed,
        "{stats:?}"
    );
}
