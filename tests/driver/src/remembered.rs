//! Entities that are remembered on the stores of the nodes: after all nodes were killed each runs again
//! without a message, and once, even with another number of shards and another extractor. Spec: sharding 1.5;
//! must show "changed extractors".

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use quorate_core::config::Config;
use quorate_driver::spi::Adapter;
use quorate_driver::{
    Cluster, Entity, EntityContext, Kind, Region, Security,
    store::{MemoryStore, Store},
};
use quorate_driver::{
    data::Pattern,
    sharding::{RememberStore, ShardExtractor},
};
use serde::{Deserialize, Serialize};

use quorate_conformance::support::{LOOK_AGAIN, all_up, eventually, node, sleep, within};

const ENTITIES: usize = 12;
const NODES: usize = 3;

/// How many of each entity run in all nodes together, how many ever did at once, and how often it has begun.
#[derive(Clone, Default)]
struct Table(Arc<Mutex<BTreeMap<String, Lives>>>);

#[derive(Default)]
struct Lives {
    now: usize,
    most: usize,
    begun: usize,
}

impl Table {
    fn begins(&self, id: &str) {
        let mut table = self.0.lock().expect("nobody panicked");
        let lives = table.entry(id.to_owned()).or_default();
        lives.now += 1;
        lives.begun += 1;
        lives.most = lives.most.max(lives.now);
    }

    fn ends(&self, id: &str) {
        let mut table = self.0.lock().expect("nobody panicked");
        if let Some(lives) = table.get_mut(id) {
            lives.now -= 1;
        }
    }

    /// Who runs.
    fn running(&self) -> Vec<String> {
        let table = self.0.lock().expect("nobody panicked");
        let running = table.iter().filter(|(_, lives)| lives.now > 0);
        running.map(|(id, _)| id.clone()).collect()
    }

    fn begun(&self, id: &str) -> usize {
        let table = self.0.lock().expect("nobody panicked");
        table.get(id).map_or(0, |lives| lives.begun)
    }

    fn most(&self) -> usize {
        let table = self.0.lock().expect("nobody panicked");
        table.values().map(|lives| lives.most).max().unwrap_or(0)
    }
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
enum Order {
    GoOn,
    Stop,
    Forget,
}

/// Ends for good, or only for now, if it is told to.
struct Alarm {
    id: String,
    table: Table,
}

impl Entity for Alarm {
    type Message = Order;
    type Reply = ();

    async fn handle(&mut self, context: &EntityContext, order: Order) {
        match order {
            Order::GoOn => {}
            Order::Stop => context.stop(),
            Order::Forget => context.forget(),
        }
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        self.table.ends(&self.id);
    }
}

async fn host(node: &Cluster, kind: Kind<Order, ()>, table: &Table) -> Region<Order, ()> {
    let table = table.clone();
    let make = move |context: EntityContext| {
        let id = context.id_text().to_string();
        table.begins(&id);
        let table = table.clone();
        Alarm { id, table }
    };
    let registered = node.entities(kind).start(make);
    registered.await.expect("it is registered")
}

/// All nodes at once: nobody is up before all are, so that no node takes its own copy for that of a majority.
async fn start<A: Adapter, S: Store>(
    security: &Security,
    remember: RememberStore,
    open: impl Fn(usize) -> S,
) -> Vec<Cluster> {
    let remembering = move |config: &mut Config| {
        config.membership.min_nr_of_members = NODES;
        if remember == RememberStore::Events {
            config.journal.voters = NODES;
            // So that snapshots take the place of events in so short a life.
            config.sharding.snapshot_after = 2;
        } else {
            config.ddata.durable_keys = vec![Pattern::parse("shard-*").expect("it is short")];
        }
        config.sharding.updating_state_timeout = Duration::from_secs(10);
        config.sharding.entity_restart_backoff = Duration::from_secs(2);
    };
    let mut nodes: Vec<Cluster> = Vec::new();
    for index in 0..NODES {
        let mut builder = node::<A>(security).config(remembering).store(open(index));
        if let Some(first) = nodes.first() {
            builder = builder.seeds([first.address().address()]);
        }
        let node = builder.start().await.expect("the node starts");
        if nodes.is_empty() {
            node.join([node.address().address()])
                .await
                .expect("it joins itself");
        }
        nodes.push(node);
    }
    for node in &nodes {
        all_up::<A>(node, NODES).await;
    }
    nodes
}

/// Asks until there is an answer.
async fn ask<A: Adapter>(region: &Region<Order, ()>, id: &str, order: Order) {
    within::<A, _>("an answer", async {
        while region.entity(id).ask(order).await.is_err() {
            sleep::<A>(LOOK_AGAIN).await;
        }
    })
    .await;
}

/// How often it was stored who came or went.
async fn writes(nodes: &[Cluster]) -> u64 {
    let mut writes = 0;
    for node in nodes {
        let stats = node.stats().await.expect("the node runs");
        writes += stats.core.sharding.remember_writes;
    }
    writes
}

/// Three nodes, killed together again and again; in the third life with other shards.
pub async fn remembered_entities_run_again_after_all_were_killed_and_once_with_other_shards<A: Adapter>(
    security: &Security,
) {
    in_memory::<A>(security, RememberStore::Data).await;
}

/// The same where it is kept as events which entities there are.
pub async fn entities_remembered_as_events_run_again_after_all_were_killed_and_once_with_other_shards<
    A: Adapter,
>(
    security: &Security,
) {
    in_memory::<A>(security, RememberStore::Events).await;
}

async fn in_memory<A: Adapter>(security: &Security, remember: RememberStore) {
    let stores = [(); NODES].map(|()| MemoryStore::new());
    remembered_entities_run_again_on::<A, _>(security, remember, |index| stores[index].clone()).await;
}

/// The same with the stores that `open` makes, anew for each life of each of three nodes.
pub async fn remembered_entities_run_again_on<A: Adapter, S: Store>(
    security: &Security,
    remember: RememberStore,
    open: impl Fn(usize) -> S,
) {
    let mut expected: Vec<String> = (0..ENTITIES).map(|number| format!("a/{number:02}")).collect();
    for life in 0..4 {
        let nodes = start::<A, _>(security, remember, &open).await;
        let table = Table::default();
        let mut regions = Vec::new();
        for node in &nodes {
            let kind = match life {
                0 | 1 => Kind::new("alarm").shards(16),
                2 | 3 => Kind::new("alarm").shards(5).extractor(ShardExtractor::Kafka),
                _ => unreachable!("four lives"),
            };
            regions.push(host(node, kind.remember_entities(remember), &table).await);
        }
        if life == 0 {
            for (number, id) in expected.iter().enumerate() {
                ask::<A>(&regions[number % NODES], id, Order::GoOn).await;
            }
        }
        let what = format!("all that are remembered run, and nobody else, in life {life}, {remember:?}");
        eventually::<A>(&what, async || table.running() == expected).await;
        if life == 1 {
            let before = table.begun(&expected[5]);
            ask::<A>(&regions[1], &expected[5], Order::Stop).await;
            eventually::<A>(
                "one that stopped itself begins again without a message",
                async || table.begun(&expected[5]) > before,
            )
            .await;
            let gone = expected.remove(3);
            let before = writes(&nodes).await;
            ask::<A>(&regions[0], &gone, Order::Forget).await;
            eventually::<A>("one has stopped for good", async || table.running() == expected).await;
            // Whoever is killed sooner finds it again.
            eventually::<A>("it is stored that it has", async || writes(&nodes).await > before).await;
        }
        // Messages find those that run.
        for (number, id) in expected.iter().enumerate() {
            ask::<A>(&regions[number % NODES], id, Order::GoOn).await;
        }
        assert_eq!(table.running(), expected);
        assert_eq!(table.most(), 1, "none ran twice at once");
        for node in nodes {
            node.stop().await;
        }
    }
}
