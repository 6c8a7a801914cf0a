//! Where shards live, after all nodes were killed. Spec: sharding 10.16.

use std::collections::BTreeMap;
use std::future::IntoFuture;
use std::time::Duration;

use quorate_core::config::Config;
use quorate_core::ident::Address;
use quorate_core::sharding::fields::StoreMode;
use quorate_driver::spi::Adapter;
use quorate_driver::{
    Cluster, EntityContext, Kind, Region, Security, StartError,
    store::{MemoryStore, Store},
};

use quorate_conformance::support::{LOOK_AGAIN, all_up, node, sleep, within};

const NODES: usize = 5;
const ENTITIES: usize = 40;

/// Five nodes are killed and started again, in another order, at the addresses that they had: each entity
/// answers from where it did, in both modes in which that is stored.
pub async fn homes_are_found_again_after_all_nodes_were_killed<A: Adapter>(security: &Security) {
    for mode in [StoreMode::DistributedData, StoreMode::Events] {
        let stores = [(); NODES].map(|()| MemoryStore::new());
        homes_are_found_again_on::<A, _>(security, mode, |index| stores[index].clone()).await;
    }
}

/// The same with the stores that `open` makes, anew for each life of each of five nodes.
pub async fn homes_are_found_again_on<A: Adapter, S: Store>(
    security: &Security,
    mode: StoreMode,
    open: impl Fn(usize) -> S,
) {
    let mut addresses: Vec<Option<Address>> = vec![None; NODES];
    let mut homes: BTreeMap<usize, String> = BTreeMap::new();
    for order in [[0, 1, 2, 3, 4], [3, 1, 4, 0, 2]] {
        let mut nodes = Vec::new();
        let mut regions = Vec::new();
        let mut seed = None;
        for index in order {
            let node = started::<A, _>(security, || open(index), addresses[index].as_ref()).await;
            let here = node.address().address().clone();
            let seed = seed.get_or_insert_with(|| here.clone()).clone();
            node.join([&seed]).await.expect("it joins");
            addresses[index] = Some(here);
            regions.push(host::<A>(&node, mode).await);
            nodes.push(node);
        }
        for node in &nodes {
            all_up::<A>(node, NODES).await;
        }
        // Asked for in another order, shards would get other homes.
        for entity in (0..ENTITIES).rev() {
            let from = &regions[(entity + order[0]) % NODES];
            let home = answer::<A>(from, entity).await;
            let before = homes.entry(entity).or_insert_with(|| home.clone());
            assert_eq!(*before, home, "entity {entity}, {mode}");
        }
        let spread: std::collections::BTreeSet<&String> = homes.values().collect();
        assert_eq!(spread.len(), NODES, "all host something");
        for node in nodes {
            node.stop().await;
        }
    }
}

/// A node at the address that it had: the port may be free only a moment later.
async fn started<A: Adapter, S: Store>(
    security: &Security,
    open: impl Fn() -> S,
    at: Option<&Address>,
) -> Cluster {
    let config = |config: &mut Config| {
        config.journal.voters = 3;
        config.sharding.rebalance_interval = Duration::from_secs(3_600);
        config.sharding.home_return_timeout = Duration::from_secs(3_600);
    };
    within::<A, _>("the port is free again", async {
        loop {
            let builder = node::<A>(security).config(config);
            let builder = match at {
                Some(address) => builder.bind(address),
                None => builder,
            };
            match builder.store(open()).start().await {
                Ok(node) => return node,
                Err(StartError::Bind { .. }) => sleep::<A>(LOOK_AGAIN).await,
                Err(error) => panic!("{error}"),
            }
        }
    })
    .await
}

async fn host<A: Adapter>(node: &Cluster, mode: StoreMode) -> Region<(), String> {
    let me = node.address().address().to_string();
    let kind = Kind::<(), String>::new("cart").shards(64).store_mode(mode);
    let handle = move |_: EntityContext, (): ()| {
        let me = me.clone();
        async move { me }
    };
    within::<A, _>("the kind is registered", node.entities(kind).start_fn(handle))
        .await
        .expect("it is registered")
}

async fn answer<A: Adapter>(region: &Region<(), String>, entity: usize) -> String {
    within::<A, _>("an answer", async {
        loop {
            let entity = region.entity(entity.to_string());
            if let Ok(home) = entity.ask(()).into_future().await {
                return home;
            }
            sleep::<A>(LOOK_AGAIN).await;
        }
    })
    .await
}
