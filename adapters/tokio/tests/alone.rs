//! Who has the only thing to say wakes no node for it: counted are the waits of the nodes' threads, so the
//! test is a program of its own. Spec: `docs/adr/0024-who-has-one-thing-to-say-takes-the-turn.md`.
#![cfg(target_os = "linux")]

use std::fs;

use quorate_tokio::{Cluster, Entity, EntityContext, EntityRef, Kind, Region, Security, Status};

const ASKS: u64 = 1_000;

struct Echo;

impl Entity for Echo {
    type Message = u64;
    type Reply = u64;

    async fn handle(&mut self, _: &EntityContext, number: u64) -> u64 {
        number
    }
}

fn echoes() -> Kind<u64, u64> {
    Kind::new("echo").shards(1).role("host")
}

async fn node(role: &str) -> Cluster {
    let builder = quorate_tokio::builder("alone").bind("127.0.0.1:0").role(role);
    let builder = builder.fast_profile().security(Security::insecure_plaintext());
    builder.start().await.expect("a node starts")
}

/// How often the threads of this process's nodes have waited.
fn waits() -> u64 {
    let tasks = fs::read_dir("/proc/self/task").expect("it is there").flatten();
    let read =
        |task: &fs::DirEntry, file: &str| fs::read_to_string(task.path().join(file)).unwrap_or_default();
    let nodes = tasks.filter(|task| read(task, "comm").trim() == "quorate-node");
    let waits = nodes.filter_map(|task| {
        let status = read(&task, "status");
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        line?.trim().parse::<u64>().ok()
    });
    waits.sum()
}

/// How often they waited while so many asks were asked, one after the other in a task.
async fn waits_of(region: &Region<u64, u64>) -> u64 {
    async fn ask_all(entity: &EntityRef<u64, u64>) {
        for number in 0..ASKS {
            assert_eq!(entity.ask(number).await, Ok(number));
        }
    }
    let entity = region.entity("one");
    let asking = tokio::spawn(async move {
        ask_all(&entity).await;
        let before = waits();
        ask_all(&entity).await;
        waits() - before
    });
    asking.await.expect("nobody panics")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lone_ask_wakes_no_node_of_its_own_and_each_of_two_once() {
    let host = node("host").await;
    let here = host.entities(echoes()).start(|_| Echo).await.unwrap();
    host.form().await.unwrap();
    host.up().await.unwrap();
    let waited = waits_of(&here).await;
    println!("{waited} waits for {ASKS} asks of the same node");
    assert!(waited < ASKS / 4, "{waited} waits: the node was woken for asks");
    let asker = node("asker").await;
    asker.join([host.address().address()]).await.unwrap();
    asker.up().await.unwrap();
    while asker.members().iter().any(|member| member.status != Status::Up) {
        asker.events().next().await.unwrap();
    }
    let there = asker.entities(echoes()).proxy().await.unwrap();
    let waited = waits_of(&there).await;
    println!("{waited} waits for {ASKS} asks of another node");
    // Each hears of it from its socket; who asks and who answers writes by itself.
    assert!(waited < 3 * ASKS, "{waited} waits: nodes were woken to write");
}
