//! What users reach of shards, leases and replicated data beside their messages, over real sockets: which
//! entities run, shards that stop by command, what a downed node gives back, and all values below a name.

use crate::common;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{Counter, all_up, cluster, node, within};
use quorate_tokio::data::{CounterKind, DataReadError, KeyChange, ValueChange, Write};
use quorate_tokio::{
    Cluster, ClusterError, Entity, EntityContext, Kind, Region,
    lease::{LeaseKeeper, MemoryLeases},
};
use quorate_tokio::{
    CommandError, Config, EntityId, UniqueAddress,
    sharding::{EntityPage, EntityPosition, RememberStore, ShardId, ShardingCommandError, StoppedShards},
};

const SHARDS: u32 = 12;
const TIMEOUT: Duration = Duration::from_secs(10);

fn counter(node: &Cluster) -> impl Fn(EntityContext) -> Counter + Send + Sync + 'static {
    let node = node.address().to_string();
    move |_| Counter {
        node: node.clone(),
        sum: 0,
    }
}

/// A kind on all of these nodes.
async fn hosted(
    nodes: &[Cluster],
    kind: fn() -> Kind<u64, (String, u64)>,
) -> Vec<Region<u64, (String, u64)>> {
    let mut regions = Vec::new();
    for node in nodes {
        regions.push(within(node.entities(kind()).start(counter(node))).await.unwrap());
    }
    regions
}

fn carts() -> Kind<u64, (String, u64)> {
    Kind::new("cart").shards(SHARDS)
}

/// Asks until there is an answer.
async fn asked(region: &Region<u64, (String, u64)>, id: &str) -> (String, u64) {
    within(async {
        loop {
            match region.entity(id).ask(1).timeout(Duration::from_secs(2)).await {
                Ok(answer) => return answer,
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    })
    .await
}

fn id_of(number: u32) -> String {
    // Long, so that they need several pages.
    format!("{number:0900}")
}

/// All pages.
async fn pages(region: &Region<u64, (String, u64)>, timeout: Duration) -> Vec<EntityPage> {
    let (mut pages, mut after) = (Vec::<EntityPage>::new(), None::<EntityPosition>);
    loop {
        let page = within(region.entities(after.take()).timeout(timeout))
            .await
            .unwrap();
        after = page.next.clone();
        pages.push(page);
        if after.is_none() {
            return pages;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s_114_s_115_entities_are_listed_by_shard_from_any_node_and_shards_that_are_silent_named() {
    let nodes = cluster(3).await;
    let regions = hosted(&nodes, carts).await;
    let mut expected = BTreeSet::new();
    let mut homes: BTreeMap<ShardId, String> = BTreeMap::new();
    for number in 0..400 {
        let id = id_of(number);
        let (home, _) = asked(&regions[number as usize % 3], &id).await;
        let shard = ShardId::of(&EntityId::from(id.as_str()), SHARDS);
        homes.insert(shard, home);
        expected.insert((shard, id.into_bytes()));
    }
    for region in &regions {
        let pages = pages(region, TIMEOUT).await;
        assert!(pages.len() > 1, "400 ids of 900 bytes are more than a page");
        let mut all = Vec::new();
        for page in pages {
            assert_eq!((page.unanswered, page.silent), (vec![], vec![]));
            for of in page.shards {
                assert_eq!(homes[&of.shard], of.node.to_string());
                let ids = of.entities.iter().map(|id| (of.shard, id.as_bytes().to_vec()));
                all.extend(ids);
            }
        }
        assert!(all.is_sorted());
        assert_eq!(all.into_iter().collect::<BTreeSet<_>>(), expected);
    }
    // One that ends without a word is silent until the others have found out.
    let gone = nodes[2].address().clone();
    nodes[2].stop().await;
    let pages = pages(&regions[1], Duration::from_millis(500)).await;
    let named: BTreeSet<ShardId> = pages.iter().flat_map(|page| page.unanswered.clone()).collect();
    let of_it = homes.iter().filter(|(_, home)| **home == gone.to_string());
    assert_eq!(named, of_it.map(|(shard, _)| *shard).collect());
    assert!(!named.is_empty());
    assert!(pages.iter().all(|page| page.silent == [gone.clone()]));
    let spoken = pages.iter().flat_map(|page| &page.shards).map(|of| of.shard);
    let others = homes.keys().copied().filter(|shard| !named.contains(shard));
    assert_eq!(spoken.collect::<BTreeSet<_>>(), others.collect());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shards_are_stopped_by_command_and_each_is_acknowledged_and_not_of_kinds_that_remember() {
    let nodes = cluster(3).await;
    let regions = hosted(&nodes, carts).await;
    for number in 0..60 {
        asked(&regions[0], &number.to_string()).await;
    }
    let all: Vec<ShardId> = (0..SHARDS).map(ShardId).collect();
    let stopped = StoppedShards {
        stopped: all.clone(),
        unconfirmed: vec![],
    };
    let said = within(
        regions[1]
            .stop_shards(all.clone())
            .timeout(Duration::from_secs(25)),
    )
    .await;
    assert_eq!(said, Ok(stopped.clone()));
    for region in &regions {
        let pages = pages(region, TIMEOUT).await;
        assert_eq!((pages.len(), pages[0].shards.len()), (1, 0), "{pages:?}");
    }
    // What has stopped already is acknowledged without a hand-off.
    let before = Instant::now();
    let said = within(regions[2].stop_shards(all).timeout(Duration::from_secs(25))).await;
    assert_eq!(said, Ok(stopped));
    assert!(
        before.elapsed() < Duration::from_secs(2),
        "{:?}",
        before.elapsed()
    );
    let (_, sum) = asked(&regions[2], "7").await;
    assert_eq!(sum, 1, "a new one");
    let remembering = || Kind::new("alarm").remember_entities(RememberStore::Data);
    let alarms = hosted(&nodes[..1], remembering).await;
    let refused = CommandError::Sharding(ShardingCommandError::RemembersEntities);
    let said = alarms[0].stop_shards([ShardId(0)]).timeout(TIMEOUT).await;
    assert_eq!(said, Err(ClusterError::Refused(refused)));
}

/// An entity or an instance that says where it runs.
struct Where(UniqueAddress);

impl Entity for Where {
    type Message = u8;
    type Reply = String;

    async fn handle(&mut self, _: &EntityContext, _: u8) -> String {
        self.0.to_string()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn i_34_i_54_what_ran_under_leases_on_a_downed_node_goes_on_elsewhere_long_before_they_expire() {
    let keeper: Arc<dyn LeaseKeeper> = Arc::new(MemoryLeases::new());
    let change = |config: &mut Config| {
        config.sharding.lease_time_to_live = Duration::from_secs(3_600);
        config.singleton.lease_time_to_live = Duration::from_secs(3_600);
        config.sharding.lease_retry_interval = Duration::from_millis(200);
        config.singleton.lease_retry_interval = Duration::from_millis(200);
    };
    let first = node()
        .leases(Arc::clone(&keeper))
        .config(change)
        .start()
        .await
        .unwrap();
    first.join([first.address().address()]).await.unwrap();
    within(first.up()).await.unwrap();
    let second = node()
        .leases(keeper)
        .config(change)
        .seeds([first.address().address()])
        .start()
        .await
        .unwrap();
    within(second.up()).await.unwrap();
    all_up(&first, 2).await;
    let ran_at = |ask: Result<String, _>| ask.map_err(|_: quorate_tokio::AskError| ());
    let (mut regions, mut books) = (Vec::new(), Vec::new());
    for node in [&first, &second] {
        let me = node.address().clone();
        let here = me.clone();
        let kind = Kind::new("vault").shards(1).lease();
        regions.push(
            within(node.entities(kind).start(move |_| Where(here.clone())))
                .await
                .unwrap(),
        );
        // The only shard begins on the first node, which hosts the kind alone so far.
        within(async { while ran_at(regions[0].entity("a").ask(0).await).is_err() {} }).await;
        let singleton = node.singleton("books").lease().start(move |_| Where(me.clone()));
        books.push(within(singleton).await.unwrap());
    }
    let before = first.address().to_string();
    within(async { while ran_at(books[1].ask(0).await) != Ok(before.clone()) {} }).await;
    let home = regions[0].entity("a").ask(0).await.unwrap();
    assert_eq!(home, before, "a shard stays where it began");
    second.down(first.address()).await.unwrap();
    within(first.terminated()).await;
    let after = second.address().to_string();
    within(async {
        while ran_at(books[1].ask(0).await) != Ok(after.clone()) {}
        while ran_at(regions[1].entity("a").ask(0).await) != Ok(after.clone()) {}
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s_224_all_values_whose_names_begin_alike_are_heard_of_and_those_that_come_later() {
    let nodes = cluster(2).await;
    for number in 0..40_u64 {
        let stock = nodes[0].data().counter(format!("stock/{number}"));
        within(stock.increment(number + 1, Write::All)).await.unwrap();
    }
    within(nodes[0].data().flag("stock/flag").switch_on(Write::All))
        .await
        .unwrap();
    within(nodes[0].data().counter("stocks").increment(1, Write::All))
        .await
        .unwrap();
    let mut changes = nodes[1].data().changes_below::<CounterKind>("stock/");
    let mut heard = BTreeMap::new();
    within(async {
        while heard.len() < 41 {
            let KeyChange { key, change } = changes.next().await.unwrap().unwrap();
            heard.insert(key, change);
        }
    })
    .await;
    assert_eq!(heard.remove("stock/flag"), Some(Err(DataReadError::WrongType)));
    let expected = (0..40).map(|number| {
        let value = ValueChange::Value(u128::from(number + 1_u64));
        (format!("stock/{number}"), Ok(value))
    });
    assert_eq!(heard, expected.collect());
    let new = nodes[0].data().counter("stock/new");
    within(new.increment(7, Write::Local)).await.unwrap();
    within(async {
        loop {
            let KeyChange { key, change } = changes.next().await.unwrap().unwrap();
            if (key.as_str(), change) == ("stock/new", Ok(ValueChange::Value(7))) {
                return;
            }
        }
    })
    .await;
    let mut refused = nodes[1].data().changes_below::<CounterKind>("k".repeat(256));
    assert_eq!(refused.next().await, Some(Err(DataReadError::BadKey)));
    assert_eq!(refused.next().await, None);
}
