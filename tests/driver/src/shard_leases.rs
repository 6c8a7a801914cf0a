//! Shards that need a lease: nothing runs without it, a lost one stops everything at once, and one that is
//! not needed is given back. Spec: sharding 1.4, 1.16, 6.6.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use quorate_core::config::Config;
use quorate_core::effect::{CommandError, ShardingCommandError};
use quorate_core::ident::{Address, UniqueAddress};
use quorate_core::sharding::fields::FieldDifference;
use quorate_driver::spi::Adapter;
use quorate_driver::{
    ClusterError, Entity, EntityContext, Kind, Region, Security,
    lease::{LeaseKeeper, MemoryLeases},
};

use quorate_conformance::support::{cluster_of, eventually, first, node, within};

/// The lease of the kind's only shard.
const LEASE: &str = "conformance-shard-vault-0";

/// Longer than anything that a test waits for.
const LONG: Duration = Duration::from_secs(300);

/// What happened to the entity.
#[derive(Debug, Default)]
struct Seen {
    starts: AtomicU32,
    stops: AtomicU32,
    /// Incarnations that are no more, however they ended.
    ends: AtomicU32,
}

struct Vault(Arc<Seen>, u32);

impl Entity for Vault {
    type Message = u8;
    type Reply = u32;

    async fn handle(&mut self, _: &EntityContext, _: u8) -> u32 {
        self.1
    }

    async fn on_stop(&mut self, _: &EntityContext) {
        self.0.stops.fetch_add(1, Ordering::SeqCst);
    }
}

impl Drop for Vault {
    fn drop(&mut self) {
        self.0.ends.fetch_add(1, Ordering::SeqCst);
    }
}

fn vault() -> Kind<u8, u32> {
    Kind::new("vault").shards(1).lease()
}

/// How often the entity has started, if it answers soon.
async fn asked(region: &Region<u8, u32>) -> Option<u32> {
    let entity = region.entity("one");
    entity.ask(0).timeout(Duration::from_millis(500)).await.ok()
}

/// A shard waits for its lease, stops at once when somebody else has it, begins again when it is free, and
/// gives it back when its node leaves.
pub async fn s_144_s_145_a_shard_runs_while_its_node_has_the_lease<A: Adapter>(security: &Security) {
    let keeper = Arc::new(MemoryLeases::new());
    let stranger = UniqueAddress::new(Address::new("elsewhere", 1).expect("a legal host"), 1);
    let takes = || keeper.acquire(LEASE, &stranger, LONG).expect("it can be asked");
    let gives_back = || keeper.release(LEASE, &stranger).expect("it can be asked");
    assert!(takes().is_some());
    let change = |config: &mut Config| {
        config.sharding.lease_retry_interval = Duration::from_millis(100);
        config.sharding.lease_time_to_live = Duration::from_secs(5);
    };
    let leases: Arc<dyn LeaseKeeper> = Arc::<MemoryLeases>::clone(&keeper);
    let one = first::<A>(node::<A>(security).leases(leases).config(change)).await;
    let seen = Arc::<Seen>::default();
    let make = {
        let seen = Arc::clone(&seen);
        move |_: EntityContext| {
            let starts = seen.starts.fetch_add(1, Ordering::SeqCst) + 1;
            Vault(Arc::clone(&seen), starts)
        }
    };
    let region = within::<A, _>("the kind", one.entities(vault()).start(make))
        .await
        .expect("a keeper is there");
    assert_eq!(
        within::<A, _>("an ask", asked(&region)).await,
        None,
        "somebody else has the lease"
    );
    assert_eq!(seen.starts.load(Ordering::SeqCst), 0);
    gives_back();
    eventually::<A>("the shard runs", async || asked(&region).await.is_some()).await;

    // The keeper gives it to somebody else: the next renewal is refused.
    let before = seen.starts.load(Ordering::SeqCst);
    eventually::<A>("the lease is somebody else's", async || {
        keeper.release(LEASE, one.address()).expect("it can be asked");
        takes().is_some()
    })
    .await;
    // An answer that does not come in time would say it of a slow machine, too.
    eventually::<A>("the shard stops", async || {
        seen.ends.load(Ordering::SeqCst) >= before
    })
    .await;
    assert_eq!(
        seen.stops.load(Ordering::SeqCst),
        0,
        "nothing of it was told to stop"
    );
    assert_eq!(within::<A, _>("an ask", asked(&region)).await, None);
    gives_back();
    eventually::<A>("the shard runs again", async || {
        asked(&region).await.is_some_and(|starts| starts > before)
    })
    .await;

    let left = within::<A, _>("the end", one.leave()).await;
    assert!(left.is_ok_and(|left| left.is_graceful()));
    eventually::<A>("the lease is free", async || takes().is_some()).await;

    let bare = first::<A>(node::<A>(security)).await;
    let refused = bare
        .entities(vault())
        .start(|_: EntityContext| Vault(Arc::default(), 0))
        .await;
    let no_keeper = CommandError::Sharding(ShardingCommandError::NoLeaseKeeper);
    assert_eq!(refused.map(drop), Err(ClusterError::Refused(no_keeper)));
    bare.stop().await;
}

/// A node that would run shards without the leases that they need elsewhere is refused, with the field, and
/// runs nothing; one that hosts nothing needs none, and with the lease it is taken in.
pub async fn a_kind_has_leases_on_all_its_hosts_or_on_none<A: Adapter>(security: &Security) {
    let keeper: Arc<dyn LeaseKeeper> = Arc::new(MemoryLeases::new());
    let nodes = cluster_of::<A>(3, || node::<A>(security).leases(Arc::clone(&keeper))).await;
    let make = |_: EntityContext| Vault(Arc::default(), 7);
    let without = || Kind::<u8, u32>::new("vault").shards(1);
    let register =
        async |at: usize, kind| within::<A, _>("the kind", nodes[at].entities(kind).start(make)).await;
    let first = register(0, vault()).await.expect("it is the first");
    let refused = register(1, without()).await.map(drop);
    let Err(ClusterError::Refused(CommandError::Sharding(ShardingCommandError::KindDiffers { difference }))) =
        refused
    else {
        panic!("{refused:?}");
    };
    let (ours, theirs) = (false, true);
    assert_eq!(difference.fields(), [FieldDifference::Lease { ours, theirs }]);
    let said = "lease is off here and on in the cluster";
    assert_eq!(difference.to_string(), said);
    let proxy = within::<A, _>("a proxy", nodes[2].entities(without()).proxy()).await;
    let proxy = proxy.expect("a proxy needs no lease");
    let second = register(1, vault()).await.expect("it has the lease now");
    for region in [&first, &proxy, &second] {
        eventually::<A>("an answer", async || asked(region).await == Some(7)).await;
    }
}
