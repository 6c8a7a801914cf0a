//! Entities that keep what they did, in a cluster whose nodes come and go: nothing that was answered is lost,
//! nothing counts twice, and a store that only one node reads is not taken for one that all read. Spec:
//! sharding 10.7.

use std::future::IntoFuture;
use std::time::Duration;

use crate::kv::{RANGES, whole};
use quorate_core::config::Config;
use quorate_driver::durable::{Decision, DurabilityError, DurableFailure, EventSourced, Recovery, Versioned};
use quorate_driver::kv::Level;
use quorate_driver::spi::Adapter;
use quorate_driver::{
    AskError, Cluster, ClusterError, EntityContext, Kind, Region, Security,
    store::{MemoryStore, SharedMemoryStore},
};
use serde::{Deserialize, Serialize};

use quorate_conformance::support::{LOOK_AGAIN, all_up, first, joined_as, node, sleep, within};

/// Entities, and commands to each before and after each thing that happens to the nodes.
const COUNTERS: u64 = 12;
const COMMANDS: u64 = 5;

#[derive(Serialize, Deserialize)]
enum Command {
    /// Counts once for each number, however often it is sent.
    Count {
        number: u64,
    },
    Read,
}

/// How many commands have counted, the newest number, and how many events the present incarnation was
/// recovered from.
type Answer = (u64, u64, u64);

#[derive(Serialize, Deserialize)]
struct Counted {
    number: u64,
}

impl Versioned for Counted {}

#[derive(Default, Serialize, Deserialize)]
struct Tally {
    count: u64,
    newest: u64,
}

impl Versioned for Tally {}

struct Counter {
    recovered: u64,
}

impl EventSourced for Counter {
    type Command = Command;
    type Reply = Answer;
    type Event = Counted;
    type State = Tally;

    async fn handle(&mut self, _: &EntityContext, tally: &Tally, command: Command) -> Decision<Self> {
        let recovered = self.recovered;
        let answer = move |tally: &Tally| (tally.count, tally.newest, recovered);
        match command {
            Command::Count { number } if number > tally.newest => {
                Decision::persist(Counted { number }).then_reply(answer)
            }
            Command::Count { .. } | Command::Read => Decision::reply(answer(tally)),
        }
    }

    fn apply(tally: &mut Tally, event: Counted) {
        tally.count += 1;
        tally.newest = event.number;
    }

    async fn on_recovered(&mut self, _: &EntityContext, _: &Tally, recovery: &Recovery) {
        self.recovered = recovery.last;
    }
}

async fn host(node: &Cluster, kind: Kind<Command, Answer>) -> Result<Region<Command, Answer>, ClusterError> {
    node.entities(kind.shards(16))
        .start_event_sourced(|_| Counter { recovered: 0 })
        .await
}

/// Asks until there is an answer: a number counts once however often it is sent.
async fn ask<A: Adapter>(region: &Region<Command, Answer>, counter: u64, number: u64) -> Answer {
    let counter = region.entity(format!("c/{counter}"));
    within::<A, _>("an answer", async {
        loop {
            let asked = counter.ask(&Command::Count { number });
            match asked.timeout(Duration::from_secs(2)).await {
                Ok(answer) => return answer,
                Err(AskError::Failed(_)) => sleep::<A>(LOOK_AGAIN).await,
                Err(AskError::NotDurable(DurableFailure::Fenced | DurableFailure::FencedUnknown)) => {}
                Err(error) => panic!("{error}"),
            }
        }
    })
    .await
}

/// Three nodes share a store. One dies, one leaves, a new one comes: every command counts exactly once,
/// whoever is asked.
pub async fn durable_entities_outlive_their_nodes_and_count_every_command_once<A: Adapter>(
    security: &Security,
) {
    let logs = SharedMemoryStore::new();
    let quick = |config: &mut Config| config.downing.stable_after = Some(Duration::from_secs(1));
    let builder = || node::<A>(security).config(quick).store(logs.node());
    let mut nodes = vec![first::<A>(builder()).await];
    let seed = nodes[0].address().address().clone();
    for _ in 0..2 {
        nodes.push(joined_as::<A>(builder(), &seed).await);
    }
    let mut regions = Vec::new();
    for node in &nodes {
        all_up::<A>(node, 3).await;
        regions.push(host(node, Kind::new("counter")).await.expect("it is registered"));
    }
    let mut last = 0;
    let mut count = async |region: &Region<Command, Answer>| {
        for number in last + 1..=last + COMMANDS {
            for counter in 0..COUNTERS {
                let (count, newest, _) = ask::<A>(region, counter, number).await;
                assert_eq!((count, newest), (number, number), "counter {counter}");
            }
        }
        last += COMMANDS;
        last
    };
    count(&regions[0]).await;
    count(&regions[1]).await;
    nodes[2].stop().await;
    count(&regions[0]).await;
    let newcomer = joined_as::<A>(builder(), &seed).await;
    let region = host(&newcomer, Kind::new("counter")).await;
    count(&region.expect("it is registered")).await;
    nodes[1].leave().await.expect("it may leave");
    let last = count(&regions[0]).await;
    let mut recovered = 0;
    for counter in 0..COUNTERS {
        let (count, _, events) = ask::<A>(&regions[0], counter, 0).await;
        assert_eq!(count, last);
        recovered += u64::from(events > 0);
    }
    assert!(recovered > 0, "some of them have moved");
}

/// The logs are in a bucket, in the memory of three of four nodes. One node after the other dies, each after
/// every range has three copies again: every command counts exactly once, whoever is asked. A bucket that is
/// not open, or not every read of which meets every write, keeps no logs.
pub async fn durable_entities_move_with_their_logs_in_a_bucket<A: Adapter>(security: &Security) {
    let quick = |config: &mut Config| config.downing.stable_after = Some(Duration::from_secs(1));
    let builder = || node::<A>(security).config(quick);
    let kind = |bucket| Kind::new("counter").backed_by_bucket(bucket);
    let opened = async |node: &Cluster| {
        let bucket = node.kv::<String>("logs").ranges(RANGES).memory().open();
        within::<A, _>("the bucket is open", bucket)
            .await
            .expect("all say the same of it");
        host(node, kind("logs")).await.expect("it is registered")
    };
    let mut nodes = vec![first::<A>(builder()).await];
    let refused = |error| Err(ClusterError::Durability(error));
    let unknown = host(&nodes[0], kind("logs")).await.map(drop);
    assert_eq!(unknown, refused(DurabilityError::BucketNotOpen));
    let loose = nodes[0].kv::<String>("loose").reads(Level::One).memory();
    loose.open().await.expect("nobody says anything else");
    let loose = host(&nodes[0], kind("loose")).await.map(drop);
    assert_eq!(loose, refused(DurabilityError::BucketNotStrict));
    nodes[0].stop().await;

    nodes = vec![first::<A>(builder()).await];
    for _ in 0..3 {
        let seed = nodes[0].address().address().clone();
        nodes.push(joined_as::<A>(builder(), &seed).await);
    }
    let mut regions = Vec::new();
    for node in &nodes {
        all_up::<A>(node, 4).await;
        regions.push(opened(node).await);
    }
    whole::<A>(&nodes).await;
    let mut last = 0;
    for _ in 0..3 {
        for number in last + 1..=last + COMMANDS {
            for counter in 0..COUNTERS {
                let (count, newest, _) = ask::<A>(&regions[0], counter, number).await;
                assert_eq!((count, newest), (number, number), "counter {counter}");
            }
        }
        last += COMMANDS;
        drop(regions.remove(0));
        nodes.remove(0).stop().await;
        let seed = nodes[0].address().address().clone();
        whole::<A>(&nodes).await;
        nodes.push(joined_as::<A>(builder(), &seed).await);
        regions.push(opened(&nodes[3]).await);
        whole::<A>(&nodes).await;
    }
    let mut recovered = 0;
    for counter in 0..COUNTERS {
        let (count, newest, events) = ask::<A>(&regions[3], counter, 0).await;
        assert_eq!((count, newest), (last, last), "counter {counter}");
        recovered += u64::from(events > 0);
    }
    assert!(recovered > 0, "some of them have moved");
    for node in nodes {
        node.stop().await;
    }
}

/// Each of three nodes has a store of its own, and these vote about logs. All are killed and started again on
/// their stores, elsewhere; a fourth node without a store hosts too. One more is killed for good: every
/// command counts exactly once, whoever is asked.
pub async fn durable_entities_are_found_on_the_stores_of_the_nodes_after_all_were_killed<A: Adapter>(
    security: &Security,
) {
    let stores = [(); 3].map(|()| MemoryStore::new());
    let quick = |config: &mut Config| {
        config.downing.stable_after = Some(Duration::from_secs(1));
        config.journal.voters = 3;
    };
    let builder = || node::<A>(security).config(quick);
    let mut last = 0;
    let mut count = async |region: &Region<Command, Answer>| {
        for number in last + 1..=last + COMMANDS {
            for counter in 0..COUNTERS {
                let (count, newest, _) = ask::<A>(region, counter, number).await;
                assert_eq!((count, newest), (number, number), "counter {counter}");
            }
        }
        last += COMMANDS;
    };
    for life in 0..3 {
        let mut nodes = vec![first::<A>(builder().store(stores[life % 3].clone())).await];
        let seed = nodes[0].address().address().clone();
        for other in 1..3 {
            let store = stores[(life + other) % 3].clone();
            nodes.push(joined_as::<A>(builder().store(store), &seed).await);
        }
        nodes.push(joined_as::<A>(builder(), &seed).await);
        let mut regions = Vec::new();
        for node in &nodes {
            all_up::<A>(node, 4).await;
            regions.push(host(node, Kind::new("counter")).await.expect("it is registered"));
        }
        count(&regions[life % 4]).await;
        count(&regions[3]).await;
        if life == 2 {
            nodes[1].stop().await;
            count(&regions[3]).await;
        }
        for node in nodes {
            node.stop().await;
        }
    }
}

/// Without a store, and with one that only this node reads, a kind is refused; one host alone may have such a
/// store, and answers nothing while there could be another.
pub async fn a_kind_of_durable_entities_needs_a_store_that_all_its_nodes_read<A: Adapter>(
    security: &Security,
) {
    let without = first::<A>(node::<A>(security)).await;
    let refused = host(&without, Kind::new("counter")).await.map(drop);
    assert_eq!(refused, Err(ClusterError::Durability(DurabilityError::NoStore)));
    without.leave().await.expect("it may leave");

    let store = MemoryStore::new();
    let builder = || node::<A>(security).store(store.clone()).role("counters");
    let only = first::<A>(builder()).await;
    let kind = || Kind::new("counter").shards(16).role("counters");
    let refused = host(&only, kind()).await.map(drop);
    assert_eq!(
        refused,
        Err(ClusterError::Durability(DurabilityError::NodeLocalStore))
    );
    let region = host(&only, kind().single_host())
        .await
        .expect("it is the only one");
    assert_eq!(ask::<A>(&region, 1, 1).await, (1, 1, 0));
    let seed = only.address().address().clone();
    // One that cannot host the kind is no danger.
    let proxy = joined_as::<A>(node::<A>(security), &seed).await;
    let far = proxy.entities(kind()).proxy().await.expect("it may be reached");
    assert_eq!(ask::<A>(&far, 1, 2).await, (2, 2, 0));
    let other = joined_as::<A>(
        node::<A>(security).store(MemoryStore::new()).role("counters"),
        &seed,
    )
    .await;
    all_up::<A>(&only, 3).await;
    // One that has not begun yet: those that run know that they are where their log is, until their shard
    // moves.
    let fresh = region.entity("fresh").ask(&Command::Read);
    let answer = within::<A, _>("an answer", fresh.into_future()).await;
    assert_eq!(answer, Err(AskError::NotDurable(DurableFailure::SeveralHosts)));
    other.leave().await.expect("it may leave");
    within::<A, _>("the only host serves again", async {
        while region.entity("fresh").ask(&Command::Read).await != Ok((0, 0, 0)) {
            sleep::<A>(LOOK_AGAIN).await;
        }
    })
    .await;
    assert_eq!(ask::<A>(&region, 1, 3).await.0, 3);
}
