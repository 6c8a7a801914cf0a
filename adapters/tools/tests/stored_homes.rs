//! Homes are found again in the redb files of five nodes that were all killed.

#![allow(
    clippy::unwrap_used,
    dead_code,
    reason = "a test fails by panicking, and uses a part of what tests share"
)]

use std::io::Write as _;
use std::time::Duration;

use quorate_core::event::{Event, ShardingEvent};
use quorate_core::owner::Requester;
use quorate_core::store::{Change, StoreAnswer, StoreOrder};
use quorate_store_postgres::{Postgres, Tls};
use quorate_store_redb::Redb;
use quorate_tokio::durable::{Change as Kept, DurableState, Versioned};
use quorate_tokio::{
    Cluster, ClusterEvent, EntityContext, Kind, Security,
    store::{Store, remove_coordinator_state, remove_remembered_entities},
};
use quorate_tokio::{
    data::Pattern,
    sharding::{RememberStore, StoreMode},
};

#[tokio::test(flavor = "multi_thread")]
async fn stored_homes_are_removed_from_a_file_that_no_node_uses() {
    let folder = quorate_programs::Directory::new("removed-homes");
    let path = format!("{}/node.redb", folder.path());
    homes_are_removed_from(|| Redb::open(&path).map_err(|error| error.to_string())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stored_homes_are_removed_from_a_database_whose_node_is_not_there() {
    let Ok(server) = std::env::var("QUORATE_POSTGRES") else {
        let _ = writeln!(
            std::io::stderr(),
            "skipped: QUORATE_POSTGRES does not name a PostgreSQL server"
        );
        return;
    };
    let schema = format!("quorate_removed_homes_{}", std::process::id());
    let store = || Postgres::new(&server, "node-1", Tls::off()).and_then(|store| store.schema(&schema));
    homes_are_removed_from(|| store().map_err(|error| error.to_string())).await;
}

/// While a node uses its store nothing is removed and the node goes on; afterwards the homes go, and the node
/// can start.
async fn homes_are_removed_from<S: Store>(store: impl Fn() -> Result<S, String>) {
    let security = Security::insecure_plaintext();
    let start = async || {
        let node = quorate_tokio::builder("removal")
            .bind("127.0.0.1:0")
            .security(security.clone())
            .fast_profile()
            .config(|config| config.journal.voters = 1)
            .store(store().unwrap())
            .start()
            .await
            .unwrap();
        node.join([node.address().address()]).await.unwrap();
        node.up().await.unwrap();
        let kind = Kind::<u8, u8>::new("cart").store_mode(StoreMode::Events);
        let region = node
            .entities(kind)
            .start_fn(|_, n| async move { n })
            .await
            .unwrap();
        assert_eq!(region.entity("ada").ask(7).await, Ok(7));
        (node, region)
    };
    // A store blocks.
    let remove = async || {
        let store = store();
        let removing = tokio::task::spawn_blocking(move || {
            let mut store = store?;
            let removed = remove_coordinator_state(&mut store, &["cart", "other"]);
            removed.map_err(|error| error.to_string())
        });
        removing.await.unwrap()
    };
    let (node, region) = start().await;
    assert!(remove().await.is_err(), "a node lives");
    for id in ["bob", "cleo", "dan", "eve"] {
        assert_eq!(
            region.entity(id).ask(8).await,
            Ok(8),
            "shards get homes, the store is still the node's"
        );
    }
    node.stop().await;
    assert_eq!(remove().await, Ok(vec!["cart".to_owned()]));
    start().await.0.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_ids_are_named_and_removed_from_a_file() {
    let folder = quorate_programs::Directory::new("removed-ids");
    let path = format!("{}/node.redb", folder.path());
    damaged_ids_are_removed_from(|| Redb::open(&path).map_err(|error| error.to_string())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_ids_are_named_and_removed_from_a_database() {
    let Ok(server) = std::env::var("QUORATE_POSTGRES") else {
        let _ = writeln!(
            std::io::stderr(),
            "skipped: QUORATE_POSTGRES does not name a PostgreSQL server"
        );
        return;
    };
    let schema = format!("quorate_removed_ids_{}", std::process::id());
    let store = || Postgres::new(&server, "node-1", Tls::off()).and_then(|store| store.schema(&schema));
    damaged_ids_are_removed_from(|| store().map_err(|error| error.to_string())).await;
}

/// Where the record of an entry begins that has one: behind version and tag, the accepted token, position,
/// origin, number, count and length (`docs/WIRE.md` 4.10, 4.14).
const RECORD: usize = 1 + 1 + 16 + 8 + 16 + 8 + 2 + 4;

/// Has the logs of the shards of kind `alarm` hold something else than ids; how many records that were.
fn damage(store: &mut impl Store) -> usize {
    let space = Requester::Journal.space();
    store.open_unused().unwrap();
    let order = StoreOrder::Range {
        from: [2].as_slice().into(),
        to: Some([3].as_slice().into()),
        bytes_max: 1 << 20,
    };
    let found = store.commit(&[(space, &order)]).unwrap().remove(0);
    let Ok(StoreAnswer::Items { items, .. }) = found else {
        panic!("{found:?}")
    };
    let name = b"/sharding/alarm/shard/";
    let mut batch = Vec::new();
    for (key, value) in items {
        if value.len() > RECORD && key.windows(name.len()).any(|part| part == name) {
            let mut value = value.to_vec();
            value[RECORD..].fill(0xEE);
            let value = value.into();
            batch.push(Change::Put { key, value });
        }
    }
    let records = batch.len();
    let order = StoreOrder::Write { batch };
    store.commit(&[(space, &order)]).unwrap().remove(0).unwrap();
    records
}

/// Adds up what it is told, and keeps the sum in the same store.
struct Purse;

impl DurableState for Purse {
    type Command = u64;
    type Reply = u64;
    type State = Sum;

    async fn handle(&mut self, _: &EntityContext, Sum(sum): &Sum, more: u64) -> Kept<Self> {
        Kept::to(Sum(sum + more)).reply(sum + more)
    }
}

#[derive(Default, serde::Serialize, serde::Deserialize)]
struct Sum(u64);

impl Versioned for Sum {}

/// What two purses hold when so much has come to each: the store keeps one before the logs of shards, the
/// other behind them.
async fn in_purses(node: &Cluster, more: u64) -> [u64; 2] {
    let kind = Kind::new("purse").shards(1);
    let purses = node.entities(kind).start_durable_state(|_| Purse).await.unwrap();
    let mut held = [0; 2];
    for (held, id) in held
        .iter_mut()
        .zip(["ada", "ada, whose name is as long as the name of a log"])
    {
        *held = purses.entity(id).ask(more).await.unwrap();
    }
    held
}

/// A remembered entity runs by itself until its shard's log holds something else: that is named, and nobody
/// runs. Who lives there is removed while no node lives, and afterwards the kind serves and remembers again.
/// What entities have stored is not touched.
async fn damaged_ids_are_removed_from<S: Store>(store: impl Fn() -> Result<S, String>) {
    let start = async || {
        let node = quorate_tokio::builder("removal")
            .bind("127.0.0.1:0")
            .security(Security::insecure_plaintext())
            .fast_profile()
            .config(|config| {
                config.journal.voters = 1;
                // The next life is at another port.
                config.sharding.home_return_timeout = Duration::from_millis(100);
            })
            .store(store().unwrap())
            .start()
            .await
            .unwrap();
        let events = node.events();
        node.join([node.address().address()]).await.unwrap();
        node.up().await.unwrap();
        let kind = Kind::<u8, u8>::new("alarm").shards(1);
        let kind = kind
            .store_mode(StoreMode::Events)
            .remember_entities(RememberStore::Events);
        let region = node
            .entities(kind)
            .start_fn(|_, n| async move { n })
            .await
            .unwrap();
        (node, region, events)
    };
    let runs_by_itself = async |node: &Cluster| {
        tokio::time::timeout(quorate_programs::DEADLINE, async {
            while node.stats().await.unwrap().host.entities == 0 {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        })
        .await
        .expect("it runs without a message");
    };
    // A store blocks.
    let remove = async || {
        let store = store();
        let removing = tokio::task::spawn_blocking(move || {
            let removed = remove_remembered_entities(&mut store?, &["alarm", "other"]);
            removed.map_err(|error| error.to_string())
        });
        removing.await.unwrap()
    };
    let (node, region, _) = start().await;
    assert_eq!(region.entity("ada").ask(7).await, Ok(7));
    assert_eq!(in_purses(&node, 5).await, [5, 5]);
    assert!(remove().await.is_err(), "a node lives");
    node.stop().await;
    let (node, ..) = start().await;
    runs_by_itself(&node).await;
    node.stop().await;

    let opened = store();
    let damaging = tokio::task::spawn_blocking(move || damage(&mut opened.unwrap()));
    assert!(damaging.await.unwrap() > 0);
    let (node, _region, mut events) = start().await;
    let named = async {
        loop {
            let event = events.next().await.expect("the node runs");
            if let ClusterEvent::Event(Event::Sharding { event, .. }) = event
                && matches!(event, ShardingEvent::RememberedDamaged { .. })
            {
                return;
            }
        }
    };
    tokio::time::timeout(quorate_programs::DEADLINE, named)
        .await
        .expect("the damage is named");
    assert_eq!(node.stats().await.unwrap().host.entities, 0);
    node.stop().await;

    assert_eq!(remove().await, Ok(vec!["alarm".to_owned()]));
    let (node, region, _) = start().await;
    assert_eq!(
        region
            .entity("ada")
            .ask(9)
            .timeout(quorate_programs::DEADLINE)
            .await,
        Ok(9)
    );
    node.stop().await;
    let (node, ..) = start().await;
    runs_by_itself(&node).await;
    assert_eq!(in_purses(&node, 2).await, [7, 7], "what is stored stays");
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ids_remembered_in_replicated_data_are_removed_from_a_file() {
    let folder = quorate_programs::Directory::new("removed-data-ids");
    let path = format!("{}/node.redb", folder.path());
    let store = || Redb::open(&path).map_err(|error| error.to_string());
    remembered_data_is_removed_from(store, &[&path]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ids_remembered_in_replicated_data_are_removed_from_a_database_over_tls() {
    let (server, ca) = match (
        std::env::var("QUORATE_POSTGRES"),
        std::env::var("QUORATE_POSTGRES_CA"),
    ) {
        (Ok(server), Ok(ca)) => (format!("{server} sslmode=require"), ca),
        _ => {
            return quorate_programs::skipped(
                "QUORATE_POSTGRES names no PostgreSQL server, or QUORATE_POSTGRES_CA no authority",
            );
        }
    };
    let name = format!("node-{}", std::process::id());
    let tls = || Tls::trusting(&std::fs::read(&ca).unwrap());
    let store = || Postgres::new(&server, &name, tls()?);
    let store = || store().map_err(|error| error.to_string());
    let program = ["--postgres", &server, "--ca", &ca, &name];
    remembered_data_is_removed_from(store, &program).await;
    // The server is reached with encryption only.
    let without = remove_homes(&["--remembered", "--postgres", &server, &name, "alarm"]).await;
    assert!(without.is_err(), "{without:?}");
}

/// What the program prints; or its complaint.
async fn remove_homes(arguments: &[&str]) -> Result<String, String> {
    let arguments: Vec<String> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
    let run = move || {
        let program = std::process::Command::new(env!("CARGO_BIN_EXE_remove_homes"));
        let mut program = program;
        program.args(arguments).output().unwrap()
    };
    let output = tokio::task::spawn_blocking(run).await.unwrap();
    if output.status.success() {
        Ok(String::from_utf8(output.stdout).unwrap())
    } else {
        Err(String::from_utf8(output.stderr).unwrap())
    }
}

/// Entities that are remembered in durable replicated data run by themselves, until that is removed of their
/// kind while no node lives. Those of another kind run on, and the kind remembers again.
async fn remembered_data_is_removed_from<S: Store>(store: impl Fn() -> Result<S, String>, place: &[&str]) {
    let start = async || {
        let node = quorate_tokio::builder("removal")
            .bind("127.0.0.1:0")
            .security(Security::insecure_plaintext())
            .fast_profile()
            .config(|config| config.ddata.durable_keys = vec![Pattern::parse("shard-*").unwrap()])
            .store(store().unwrap())
            .start()
            .await
            .unwrap();
        node.join([node.address().address()]).await.unwrap();
        node.up().await.unwrap();
        let mut regions = Vec::new();
        for name in ["alarm", "alarm-2"] {
            let kind = Kind::<u8, u8>::new(name).remember_entities(RememberStore::Data);
            regions.push(
                node.entities(kind)
                    .start_fn(|_, n| async move { n })
                    .await
                    .unwrap(),
            );
        }
        (node, regions)
    };
    let run = async |node: &Cluster, count: u64| {
        tokio::time::timeout(quorate_programs::DEADLINE, async {
            while node.stats().await.unwrap().host.entities != count {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        })
        .await
        .expect("as many run");
    };
    let program = |kind: &'static str| [&["--remembered"][..], place, &[kind]].concat();
    let (node, regions) = start().await;
    for id in 0..20 {
        for region in &regions {
            let ask = region
                .entity(id.to_string())
                .ask(7)
                .timeout(quorate_programs::DEADLINE);
            assert_eq!(ask.await, Ok(7));
        }
    }
    assert!(remove_homes(&program("alarm")).await.is_err(), "a node lives");
    node.stop().await;
    let (node, _) = start().await;
    run(&node, 40).await;
    node.stop().await;
    assert_eq!(
        remove_homes(&program("alarm")).await,
        Ok("removed: [\"alarm\"]\n".to_owned())
    );
    assert_eq!(
        remove_homes(&program("alarm")).await,
        Ok("removed: []\n".to_owned())
    );
    let (node, regions) = start().await;
    run(&node, 20).await;
    let ask = regions[0]
        .entity("anew")
        .ask(9)
        .timeout(quorate_programs::DEADLINE);
    assert_eq!(ask.await, Ok(9));
    run(&node, 21).await;
    node.stop().await;
    let (node, _) = start().await;
    run(&node, 21).await;
    node.stop().await;
}
