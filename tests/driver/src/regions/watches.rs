//! Watches over real links: exactly one end, of the right kind, and none for a move or a passivation.

use std::fmt;
use std::future::IntoFuture;
use std::time::Duration;

use quorate_core::effect::RegionShutdown;
use quorate_core::ident::UniqueAddress;
use quorate_core::sharding::protocol::watch::TerminationReason;
use quorate_driver::spi::Adapter;
use quorate_driver::{
    Cluster, ClusterError, Directive, Entity, EntityContext, Kind, Region, Security, Supervision, Watch,
};
use serde::{Deserialize, Serialize};

use quorate_conformance::support::{cluster, eventually, within};

/// Long enough for anything.
const LONG: Duration = Duration::from_secs(60);

#[derive(Serialize, Deserialize)]
enum Order {
    /// Where do you live?
    Where,
    Stop,
    Fail,
    /// Leave memory.
    Sleep,
}

struct Guest(String);

#[derive(Debug)]
struct Ill;

impl fmt::Display for Ill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ill")
    }
}

impl std::error::Error for Ill {}

impl Entity for Guest {
    type Message = Order;
    type Reply = String;

    async fn handle(&mut self, context: &EntityContext, order: Order) -> String {
        match order {
            Order::Where => {}
            Order::Stop => context.stop(),
            Order::Fail => return context.fail(Ill).await,
            Order::Sleep => context.passivate(),
        }
        self.0.clone()
    }
}

type Guests = Region<Order, String>;

async fn guests<A: Adapter>(node: &Cluster) -> Guests {
    let me = node.address().to_string();
    let make = move |_: EntityContext| Guest(me.clone());
    let kind = Kind::new("guest").shards(16);
    let kind = kind.supervision(Supervision::always(Directive::Stop));
    within::<A, _>("the kind is registered", node.entities(kind).start(make))
        .await
        .expect("the kind is registered")
}

async fn lives<A: Adapter>(region: &Guests, id: &str) -> String {
    let answer = region.entity(id).ask(&Order::Where).timeout(LONG);
    within::<A, _>("an answer", answer.into_future())
        .await
        .expect("no ask fails")
}

async fn tell(region: &Guests, id: &str, order: Order) {
    region.entity(id).tell(&order).await.expect("the node runs");
}

async fn confirmed(node: &Cluster) -> u64 {
    let stats = node.stats().await.expect("the node runs");
    stats.core.sharding.watches_confirmed
}

/// Watches an entity that runs, and waits until its home knows.
async fn watch<A: Adapter>(node: &Cluster, region: &Guests, id: &str) -> Watch {
    lives::<A>(region, id).await;
    let before = confirmed(node).await;
    let watch = region.entity(id).watch();
    eventually::<A>("the home knows", async || confirmed(node).await > before).await;
    watch
}

async fn end<A: Adapter>(watch: Watch) -> TerminationReason {
    let ended = within::<A, _>("the watch ends", watch).await;
    ended.expect("the node runs").why
}

/// An entity that lives on this node, of those with these names.
async fn on<A: Adapter>(region: &Guests, node: &UniqueAddress, name: &str) -> String {
    let node = node.to_string();
    within::<A, _>("an entity on the node", async {
        loop {
            for number in 0..64 {
                let id = format!("{name}-{number}");
                if lives::<A>(region, &id).await == node {
                    return id;
                }
            }
        }
    })
    .await
}

/// An entity that stops, one that fails, one that sleeps and one that moves before it stops: each watch hears
/// of its own end, and of nothing else.
pub async fn a_watch_ends_with_its_entity_and_with_no_move_or_sleep<A: Adapter>(security: &Security) {
    let nodes = cluster::<A>(2, security).await;
    let (here, there) = (guests::<A>(&nodes[0]).await, guests::<A>(&nodes[1]).await);
    let node = &nodes[0];
    let never = here.entity("never began").watch();
    assert_eq!(end::<A>(never).await, TerminationReason::NotRunning);
    for round in 0..8 {
        let id = format!("stops-{round}");
        let first = watch::<A>(node, &here, &id).await;
        let second = watch::<A>(node, &here, &id).await;
        drop(watch::<A>(node, &here, &id).await);
        tell(&there, &id, Order::Stop).await;
        assert_eq!(end::<A>(first).await, TerminationReason::Stopped);
        assert_eq!(end::<A>(second).await, TerminationReason::Stopped);
        let late = here.entity(&id).watch();
        assert_eq!(end::<A>(late).await, TerminationReason::NotRunning, "gone before");

        let id = format!("fails-{round}");
        let failing = watch::<A>(node, &here, &id).await;
        tell(&there, &id, Order::Fail).await;
        assert_eq!(end::<A>(failing).await, TerminationReason::Failed);

        let id = format!("sleeps-{round}");
        let sleeping = watch::<A>(node, &here, &id).await;
        tell(&there, &id, Order::Sleep).await;
        lives::<A>(&there, &id).await;
        tell(&there, &id, Order::Stop).await;
        assert_eq!(end::<A>(sleeping).await, TerminationReason::Stopped);
    }
    let id = on::<A>(&here, nodes[1].address(), "moves").await;
    let before = confirmed(node).await;
    let moving = watch::<A>(node, &here, &id).await;
    let moved = within::<A, _>("the region is shut down", there.shutdown()).await;
    assert_eq!(moved, Ok(RegionShutdown::HandedOver));
    eventually::<A>("the new home knows", async || confirmed(node).await >= before + 2).await;
    assert_eq!(lives::<A>(&there, &id).await, nodes[0].address().to_string());
    tell(&there, &id, Order::Stop).await;
    assert_eq!(end::<A>(moving).await, TerminationReason::Stopped);
}

/// A node that ends without a word: its entities and itself are no more once it has been removed, also for
/// who asks later. The end of the node that watches is an error.
pub async fn a_watch_ends_with_the_node_that_is_removed<A: Adapter>(security: &Security) {
    let mut nodes = cluster::<A>(3, security).await;
    let mut regions = Vec::new();
    for node in &nodes {
        regions.push(guests::<A>(node).await);
    }
    let gone = nodes.pop().expect("there are three");
    let who = gone.address().clone();
    let id = on::<A>(&regions[0], &who, "ends").await;
    let entity = watch::<A>(&nodes[0], &regions[0], &id).await;
    let node = nodes[0].watch(&who);
    within::<A, _>("the node has ended", gone.stop()).await;
    assert_eq!(end::<A>(node).await, TerminationReason::NodeRemoved);
    assert_eq!(end::<A>(entity).await, TerminationReason::NodeRemoved);
    assert_eq!(
        end::<A>(nodes[0].watch(&who)).await,
        TerminationReason::NodeRemoved,
        "gone before"
    );
    let own = nodes[0].watch(nodes[1].address());
    within::<A, _>("the node has ended", nodes[0].stop()).await;
    assert_eq!(
        within::<A, _>("the watch ends", own).await,
        Err(ClusterError::Stopped)
    );
}
