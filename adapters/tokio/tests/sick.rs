//! One sick member, in Python (`tests/peer/sick.py`), among real nodes: it ends no healthy one, and the
//! cluster goes on without it. Spec: membership 8.11, reliability 3a.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use std::process::{Command, Output};
use std::time::Duration;

use quorate_tokio::membership::Status;
use quorate_tokio::{Cluster, Security};

use crate::peer::python;

const SICK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/peer/sick.py");
const NAME: &str = "sick";
const DEADLINE: Duration = Duration::from_secs(60);

async fn node(seed: Option<&Cluster>) -> Cluster {
    let builder = quorate_tokio::builder(NAME).bind("127.0.0.1:0").fast_profile();
    let cluster = builder
        .config(|config| {
            // A busy machine must not look like a sick member.
            config.failure_detector.acceptable_heartbeat_pause = Duration::from_secs(3);
            config.downing.stable_after = Some(Duration::from_secs(4));
            config.downing.down_removal_margin = Some(Duration::from_secs(6));
        })
        .security(Security::insecure_plaintext())
        .start()
        .await
        .unwrap();
    let seed = seed.unwrap_or(&cluster).address().address().clone();
    cluster.join([&seed]).await.unwrap();
    cluster.up().await.unwrap();
    cluster
}

/// Three nodes and a sick member that does this for so long.
async fn played(does: &str, to: usize, seconds: u64) -> (Vec<Cluster>, Output) {
    let first = node(None).await;
    let mut nodes = vec![node(Some(&first)).await, node(Some(&first)).await];
    nodes.insert(0, first);
    let mut sick = Command::new("python3");
    let seed = nodes[0].address().address().to_string();
    sick.args([
        "-B",
        SICK,
        "--cluster",
        NAME,
        "--members",
        "4",
        "--does",
        does,
        "--seed",
        &seed,
    ]);
    sick.args(["--to", &to.to_string(), "--for", &seconds.to_string()]);
    let output = tokio::task::spawn_blocking(move || sick.output().unwrap())
        .await
        .unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{does}: {complaint}");
    (nodes, output)
}

/// The healthy nodes alone are left in the end, none of them was ever Down, and another one may join.
async fn recovers(does: &str, nodes: &[Cluster]) {
    let are_left = || {
        nodes.iter().all(|node| {
            let members = node.members();
            members.len() == 3 && members.iter().all(|member| member.status == Status::Up)
        })
    };
    let mut events = nodes[0].events();
    let left = async {
        while !are_left() {
            let _ = tokio::time::timeout(Duration::from_millis(100), events.next()).await;
        }
    };
    let is_over = tokio::time::timeout(DEADLINE, left).await.is_ok();
    let seen: Vec<_> = nodes.iter().map(Cluster::members).collect();
    assert!(is_over, "{does}: {seen:?}");
    let late = node(Some(&nodes[1])).await;
    late.stop().await;
}

async fn spares_the_healthy(does: &str, to: usize, seconds: u64) -> (Vec<Cluster>, String) {
    let (nodes, output) = played(does, to, seconds).await;
    recovers(does, &nodes).await;
    (nodes, String::from_utf8_lossy(&output.stdout).into_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_sends_undecodable_frames_to_one_two_or_all_ends_none_of_them() {
    if python() {
        for to in 1..=3 {
            let (nodes, _) = spares_the_healthy("undecodable", to, 12).await;
            let mut refusing = 0;
            for node in &nodes {
                refusing += usize::from(node.stats().await.unwrap().links.refused_quarantined > 0);
            }
            assert_eq!(refusing, to, "they refuse it");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_claims_to_be_another_is_not_believed_while_that_one_is_heard() {
    if python() {
        let (nodes, told) = spares_the_healthy("claims", 2, 8).await;
        assert!(told.contains("believed 0\n"), "{told}");
        let mut refused = 0;
        for node in &nodes {
            refused += node.stats().await.unwrap().links.refused_unconfirmed;
        }
        assert!(refused >= 2, "{refused}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_reads_nothing_is_downed_alone() {
    if python() {
        spares_the_healthy("reads-nothing", 3, 12).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_refuses_every_link_for_good_ends_nobody() {
    if python() {
        spares_the_healthy("refuses", 3, 12).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_tells_others_that_they_were_removed_ends_nobody() {
    if python() {
        for to in [1, 3] {
            let (nodes, _) = spares_the_healthy("removed", to, 10).await;
            let mut refused = 0;
            for node in &nodes {
                refused += node.stats().await.unwrap().core.detector.refused_by_members;
            }
            assert_eq!(refused, to as u64, "each of them has taken it for possible");
        }
    }
}
