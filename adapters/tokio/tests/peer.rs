//! A member written in another language from `docs/WIRE.md` alone (`tests/peer`), in a cluster of real nodes:
//! it joins, asks an entity of a kind that it does not host, and leaves in good order.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test")]

use std::io::Write;
use std::process::Command;
use std::time::Duration;

use quorate_tokio::{Cluster, ClusterEvent, Entity, EntityContext, Kind, Security};
use quorate_tokio::{Event, events::MembershipEvent, membership::MembershipChange};

const MEMBER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/peer/member.py");
const CODEC: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/peer/test_wire.py");
const NAME: &str = "peers";
/// How long its removal may take on a machine that is busy with other tests.
const DEADLINE: Duration = Duration::from_secs(60);

struct Greeter {
    greeted: u64,
}

impl Entity for Greeter {
    type Message = String;
    type Reply = String;

    async fn handle(&mut self, context: &EntityContext, who: String) -> String {
        self.greeted += 1;
        format!("{} greets {who}, number {}", context.id_text(), self.greeted)
    }
}

/// Whether there is a Python 3; says so past the capture if not.
pub(crate) fn python() -> bool {
    let found = Command::new("python3").arg("--version").output();
    let is_there = found.is_ok_and(|output| output.status.success());
    if !is_there {
        let _ = std::io::stderr().write_all(b"skipped: no python3 here\n");
    }
    is_there
}

async fn node(seed: Option<&Cluster>) -> Cluster {
    let builder = quorate_tokio::builder(NAME).bind("127.0.0.1:0").fast_profile();
    let cluster = builder
        .security(Security::insecure_plaintext())
        .start()
        .await
        .unwrap();
    let seed = seed.unwrap_or(&cluster).address().address().clone();
    cluster.join([&seed]).await.unwrap();
    cluster.up().await.unwrap();
    cluster
}

#[test]
fn the_codec_of_the_foreign_member_reads_and_writes_the_golden_vectors() {
    if python() {
        let output = Command::new("python3").args(["-B", CODEC]).output().unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_written_from_the_wires_description_joins_asks_an_entity_and_leaves() {
    if !python() {
        return;
    }
    let first = node(None).await;
    let second = node(Some(&first)).await;
    for cluster in [&first, &second] {
        cluster
            .entities(Kind::new("greeter"))
            .start(|_| Greeter { greeted: 0 })
            .await
            .unwrap();
    }
    let seeds = [&first, &second].map(|cluster| cluster.address().address().to_string());
    let mut arguments = vec!["-B", MEMBER, "--cluster", NAME, "--kind", "greeter"];
    for seed in &seeds {
        arguments.extend(["--seed", seed]);
    }
    // Several shards, so that both nodes host some of what is asked.
    for entity in ["ada", "grace", "edsger", "barbara", "ada"] {
        arguments.extend(["--ask", entity, "Python"]);
    }
    let mut events = first.events();
    let mut member = Command::new("python3");
    member.args(&arguments);
    let ended = tokio::task::spawn_blocking(move || member.output().unwrap())
        .await
        .unwrap();
    let (told, complaint) = (
        String::from_utf8_lossy(&ended.stdout),
        String::from_utf8_lossy(&ended.stderr),
    );
    assert!(ended.status.success(), "{told} {complaint}");
    assert!(told.starts_with("up ") && told.ends_with("left\n"), "{told}");
    let answers: Vec<&str> = told
        .lines()
        .filter_map(|line| line.strip_prefix("answer "))
        .collect();
    assert_eq!(
        answers,
        [
            "ada greets Python, number 1",
            "grace greets Python, number 1",
            "edsger greets Python, number 1",
            "barbara greets Python, number 1",
            "ada greets Python, number 2",
        ]
    );
    // It said goodbye: the others go on without it, and nobody has to down it.
    let gone = async {
        while let Some(event) = events.next().await {
            if let ClusterEvent::Event(Event::Membership(MembershipEvent::Changed { change, .. })) = event {
                assert!(!matches!(change, MembershipChange::Downed(_)), "{change:?}");
                if matches!(change, MembershipChange::Removed { .. }) {
                    return;
                }
            }
        }
    };
    tokio::time::timeout(DEADLINE, gone).await.expect("it is removed");
    second.leave().await.unwrap();
    first.leave().await.unwrap();
}
