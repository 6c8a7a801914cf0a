//! What a node that finds no way in says about each seed, and what the seeds say about it; what is said of a
//! restart. A program of its own, because it reads its own log.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::sync::OnceLock;
use std::time::Duration;

use common::log::Log;
use common::{cluster, node, node_of, until, within};
use quorate_core::ident::{Address, ClusterName, UniqueAddress};
use quorate_core::wire::handshake::{Hello, LinkKind, encode_hello};
use quorate_tokio::{Cluster, ClusterEvent, Events, Security, security::DevCa};
use quorate_tokio::{
    Config, Event, Status,
    events::MembershipEvent,
    membership::{JoinFailure, SeedCause, SeedFailure},
};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

/// What this program says, in all its tests.
fn log() -> &'static Log {
    static LOG: OnceLock<Log> = OnceLock::new();
    LOG.get_or_init(Log::of_the_process)
}

async fn failures(events: &mut Events) -> Vec<SeedFailure> {
    within(async {
        loop {
            let event = events.next().await.unwrap();
            if let ClusterEvent::Event(Event::Membership(MembershipEvent::JoinFailed {
                reason: JoinFailure::NoSeedAnswered { seeds, .. },
            })) = event
            {
                return seeds;
            }
        }
    })
    .await
}

async fn alone(node: &Cluster) {
    node.join([node.address().address()]).await.unwrap();
    until(node, |view| view.self_status() == Status::Up).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_finds_no_way_in_says_why_for_each_seed() {
    let log = log();
    let authority = DevCa::new("tests.cluster.internal").unwrap();
    let encrypted = node()
        .security(Security::mtls(authority.mtls().unwrap()))
        .start()
        .await
        .unwrap();
    let other = node_of("others").start().await.unwrap();
    let idle = node().start().await.unwrap();
    alone(&encrypted).await;
    alone(&other).await;
    let nobody = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .unwrap()
        .local_addr()
        .unwrap();
    let seeds = [
        nobody.to_string(),
        "nobody.invalid:2551".to_owned(),
        encrypted.address().address().to_string(),
        other.address().address().to_string(),
        idle.address().address().to_string(),
    ];
    let patient = |config: &mut Config| config.membership.seed_node_timeout = Duration::from_secs(2);
    let joiner = node().config(patient).seeds(&seeds).start().await.unwrap();
    let mut events = joiner.events();
    let found = failures(&mut events).await;
    let named: Vec<String> = found.iter().map(|failure| failure.seed.to_string()).collect();
    assert_eq!(named, seeds);
    let causes: Vec<&SeedCause> = found.iter().map(|failure| &failure.cause).collect();
    let [
        SeedCause::Refused,
        SeedCause::Unresolvable,
        SeedCause::Security(tls),
        SeedCause::OtherCluster,
        SeedCause::InNoCluster,
    ] = causes[..]
    else {
        panic!("{causes:?}");
    };
    assert!(tls.contains("TLS"), "{tls}");
    // Both sides of the plaintext dial say so.
    let port = |node: &Cluster| node.address().address().to_string();
    log.said(&[
        "WARN",
        "link_refused",
        &port(&encrypted),
        "it asks for TLS, and this node speaks plaintext",
    ])
    .await;
    log.said(&[
        "WARN",
        "handshake_refused",
        "it speaks plaintext, and this node asks for TLS",
    ])
    .await;
    log.said(&[
        "WARN",
        "join_failed",
        &seeds[0],
        "connection refused",
        "another cluster",
    ])
    .await;
}

/// A peer that has not heard of it dials the old incarnation.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn that_a_node_was_restarted_is_no_warning() {
    let log = log();
    let node = cluster(1).await.remove(0);
    let address = node.address().address();
    let hello = Hello {
        versions: (1, 1),
        cluster: ClusterName::new("tests").unwrap(),
        from: UniqueAddress::new(Address::new("127.0.0.1", 9).unwrap(), 77),
        to: address.clone(),
        expected_uid: Some(node.address().uid() ^ 1),
        link: LinkKind::Control,
        epoch: 1,
        features: 0,
        auth_method: 0,
        nonce: [1; 16],
    };
    let mut bytes = Vec::new();
    encode_hello(&hello, &mut bytes).unwrap();
    let mut link = TcpStream::connect((address.host(), address.port()))
        .await
        .unwrap();
    link.write_all(&bytes).await.unwrap();
    log.said(&["INFO", "handshake_refused", "another incarnation"])
        .await;
    assert_eq!(log.find(&["WARN", "another incarnation"]), None);
}
