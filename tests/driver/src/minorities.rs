//! What goes on while a minority of the nodes is dead and nobody has removed it. Spec: sharding 10.23.

use std::time::Duration;

use quorate_core::config::DowningStrategy;
use quorate_core::sharding::fields::StoreMode;
use quorate_core::sharding::ids::{EntityId, ShardId};
use quorate_driver::spi::Adapter;
use quorate_driver::{Cluster, EntityContext, Kind, Region, Security, store::MemoryStore};
use quorate_driver::{data::Pattern, sharding::RememberStore};

use quorate_conformance::support::{LOOK_AGAIN, cluster_of, node, sleep, until, within};

const NODES: usize = 3;
const SHARDS: u32 = 16;
/// Shards that have a home before one dies; the others are new.
const BEFORE: u32 = 6;

/// One of three nodes dies and stays a member that nobody reaches: what needs a majority has one all the
/// same. Shards that nobody has asked for yet get a home on a node that lives and answer from there, whether
/// homes are one value or events, with entities that are remembered in replicated data or in logs; and so do
/// the shards that live there already.
pub async fn s_10_23_a_new_shard_is_served_while_one_of_three_nodes_is_dead<A: Adapter>(security: &Security) {
    let ways = [
        (StoreMode::Memory, RememberStore::Data),
        (StoreMode::DistributedData, RememberStore::Data),
        (StoreMode::Events, RememberStore::Events),
    ];
    for (homes, remembered) in ways {
        let mut nodes = cluster_of::<A>(NODES, || {
            let stored = node::<A>(security).store(MemoryStore::new());
            stored.config(|config| {
                config.journal.voters = NODES;
                config.ddata.durable_keys = vec![Pattern::parse("shard-*").expect("it is short")];
                config.sharding.rebalance_interval = Duration::from_secs(3_600);
                // Whoever is dead stays a member.
                config.downing.strategy = DowningStrategy::Off;
            })
        })
        .await;
        let mut regions = Vec::new();
        for node in &nodes {
            let kind = Kind::new("cart").shards(SHARDS).store_mode(homes);
            regions.push(host::<A>(node, kind.remember_entities(remembered)).await);
        }
        let mut before = Vec::new();
        for shard in 0..BEFORE {
            let from = &regions[shard as usize % NODES];
            before.push(ask::<A>(from, shard).await);
        }
        // The youngest: the oldest decides about homes, and who is dead keeps that office until it is
        // removed.
        let dead = nodes.pop().expect("there are three");
        let is_dead = dead.address().clone();
        dead.stop().await;
        for node in &nodes {
            until::<A>(node, "the dead one is missed", |view| {
                !view.is_reachable(&is_dead)
            })
            .await;
        }
        let alive: Vec<String> = nodes.iter().map(|node| node.address().to_string()).collect();
        let mut after = Vec::new();
        for shard in BEFORE..SHARDS {
            after.push(ask::<A>(&regions[shard as usize % nodes.len()], shard).await);
        }
        assert!(
            after.iter().all(|home| alive.contains(home)),
            "{homes}: {after:?}"
        );
        for (shard, home) in (0..).zip(&before) {
            if alive.contains(home) {
                let now = ask::<A>(&regions[shard as usize % nodes.len()], shard).await;
                assert_eq!(now, *home, "{homes}: shard {shard}");
            }
        }
        let is_member = |node: &Cluster| node.view().member(&is_dead).is_some();
        assert!(nodes.iter().all(is_member), "nobody has removed it");
        for node in nodes {
            node.stop().await;
        }
    }
}

async fn host<A: Adapter>(node: &Cluster, kind: Kind<(), String>) -> Region<(), String> {
    let me = node.address().to_string();
    let handle = move |_: EntityContext, (): ()| {
        let me = me.clone();
        async move { me }
    };
    let registered = within::<A, _>("the kind is registered", node.entities(kind).start_fn(handle)).await;
    registered.expect("it is registered")
}

/// Where the first entity of a shard answers from, asked until it does.
async fn ask<A: Adapter>(region: &Region<(), String>, shard: u32) -> String {
    let ids = (0..).map(|number: u32| format!("cart-{number}"));
    let mut ids = ids.filter(|id| ShardId::of(&EntityId::from(id.as_str()), SHARDS) == ShardId(shard));
    let id = ids.next().expect("some entity is in it");
    within::<A, _>(&format!("an answer from shard {shard}"), async {
        loop {
            match region.entity(&id).ask(()).await {
                Ok(home) => return home,
                Err(_) => sleep::<A>(LOOK_AGAIN).await,
            }
        }
    })
    .await
}
