//! A region that its user shuts down while the node stays: its entities stop in good order and go on
//! elsewhere, and nothing that was sent to them meanwhile is lost.

mod watches;

use std::future::{self, IntoFuture};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use quorate_core::effect::RegionShutdown;
use quorate_core::sharding::errors::AskFailure;
use quorate_driver::spi::Adapter;
use quorate_driver::{AskError, Cluster, Entity, EntityContext, Kind, Region, Security};
use serde::{Deserialize, Serialize};

use quorate_conformance::support::{both, cluster, eventually, within};

pub use watches::{
    a_watch_ends_with_its_entity_and_with_no_move_or_sleep, a_watch_ends_with_the_node_that_is_removed,
};

/// Entities, on sixteen shards.
const ENTITIES: u32 = 30;

/// Long enough for anything; nothing of good order depends on it.
const LONG: Duration = Duration::from_secs(60);

/// How long is waited for something that does not come.
const SHORT: Duration = Duration::from_millis(300);

#[derive(Serialize, Deserialize)]
enum Order {
    /// Where do you live?
    Where,
    /// Never be done with this.
    Hang,
}

/// What all entities of one test share.
#[derive(Clone, Default)]
struct Notes {
    /// The nodes of those that have stopped in good order.
    stopped: Arc<Mutex<Vec<String>>>,
    hanging: Arc<AtomicU32>,
}

impl Notes {
    fn stopped_on(&self, node: &str) -> usize {
        let stopped = self.stopped.lock().unwrap_or_else(PoisonError::into_inner);
        stopped.iter().filter(|on| *on == node).count()
    }
}

struct Lodger {
    node: String,
    notes: Notes,
}

impl Entity for Lodger {
    type Message = Order;
    type Reply = String;

    async fn handle(&mut self, _: &EntityContext, order: Order) -> String {
        match order {
            Order::Where => self.node.clone(),
            Order::Hang => {
                self.notes.hanging.fetch_add(1, Ordering::SeqCst);
                future::pending().await
            }
        }
    }

    async fn on_stop(&mut self, _: &EntityContext) {
        let mut stopped = self.notes.stopped.lock().unwrap_or_else(PoisonError::into_inner);
        stopped.push(self.node.clone());
    }
}

type Lodgers = Region<Order, String>;

async fn lodgers<A: Adapter>(node: &Cluster, notes: &Notes) -> Lodgers {
    let (me, notes) = (node.address().to_string(), notes.clone());
    let make = move |_: EntityContext| Lodger {
        node: me.clone(),
        notes: notes.clone(),
    };
    let kind = Kind::new("lodger").shards(16);
    within::<A, _>("the kind is registered", node.entities(kind).start(make))
        .await
        .expect("the kind is registered")
}

/// Where an entity lives. Asked once, with all the time that it may need: nothing is lost in good order.
async fn lives<A: Adapter>(region: &Lodgers, id: u32) -> String {
    let entity = region.entity(format!("lodger-{id}"));
    let answer = entity.ask(&Order::Where).timeout(LONG);
    within::<A, _>("an answer", answer.into_future())
        .await
        .expect("no ask fails")
}

/// Asks of all entities while a region is shut down are answered, each of its entities stops in good order,
/// and afterwards the node reaches them as a proxy does. The last region has nobody to hand over to, and says
/// so.
pub async fn a_region_is_shut_down_on_a_node_that_stays<A: Adapter>(security: &Security) {
    let (nodes, notes) = (cluster::<A>(2, security).await, Notes::default());
    let (here, there) = (
        lodgers::<A>(&nodes[0], &notes).await,
        lodgers::<A>(&nodes[1], &notes).await,
    );
    let names = [nodes[0].address().to_string(), nodes[1].address().to_string()];
    let on_here = async || {
        let mut count = 0;
        for id in 0..ENTITIES {
            count += usize::from(lives::<A>(&there, id).await == names[0]);
        }
        count
    };
    eventually::<A>("both nodes host some", async || {
        (1..ENTITIES as usize).contains(&on_here().await)
    })
    .await;
    // What moved meanwhile, for the balance, has stopped in good order too.
    let (lived, moved) = (on_here().await, notes.stopped_on(&names[0]));
    let shut_down = async {
        let end = within::<A, _>("the region is shut down", here.shutdown()).await;
        assert_eq!(end, Ok(RegionShutdown::HandedOver));
        assert_eq!(notes.stopped_on(&names[0]), moved + lived);
    };
    let asked = async {
        for id in 0..ENTITIES {
            lives::<A>(&there, id).await;
            lives::<A>(&here, id).await;
        }
    };
    both(shut_down, asked).await;
    for id in 0..ENTITIES {
        assert_eq!(lives::<A>(&here, id).await, names[1], "forwarded");
    }
    assert_eq!(
        here.shutdown().await,
        Ok(RegionShutdown::HandedOver),
        "asked again"
    );

    let last = within::<A, _>("the last region is shut down", there.shutdown()).await;
    assert!(
        matches!(last, Ok(RegionShutdown::WithoutHome { shards: 1.. })),
        "{last:?}"
    );
    let waits = here.entity("lodger-0").ask(&Order::Where).timeout(SHORT).await;
    assert_eq!(waits, Err(AskError::Failed(AskFailure::NobodyHosts)));
    let here = lodgers::<A>(&nodes[0], &notes).await;
    for id in 0..ENTITIES {
        assert_eq!(lives::<A>(&there, id).await, names[0], "hosted again");
    }
    assert_eq!(nodes[0].view().members().len(), 2, "they stay members");
    assert!(here.shutdown().await.is_ok());
}

/// An entity whose handler is never done is killed when the time is over, and its shard goes on elsewhere.
pub async fn a_region_whose_entity_does_not_stop_is_shut_down_in_time<A: Adapter>(security: &Security) {
    let (nodes, notes) = (cluster::<A>(2, security).await, Notes::default());
    let (here, there) = (
        lodgers::<A>(&nodes[0], &notes).await,
        lodgers::<A>(&nodes[1], &notes).await,
    );
    let name = nodes[0].address().to_string();
    let mut id = 0;
    while lives::<A>(&there, id).await != name {
        id = (id + 1) % ENTITIES;
    }
    let entity = here.entity(format!("lodger-{id}"));
    entity.tell(&Order::Hang).await.expect("the node runs");
    eventually::<A>("it hangs", async || notes.hanging.load(Ordering::SeqCst) == 1).await;
    let end = within::<A, _>("the region is shut down", here.shutdown().timeout(SHORT)).await;
    assert_eq!(end, Ok(RegionShutdown::Killed));
    assert_ne!(lives::<A>(&here, id).await, name);
    let left = within::<A, _>("the node has left", nodes[0].leave()).await;
    assert!(
        left.is_ok_and(|left| left.is_graceful()),
        "there is nothing left to stop"
    );
}
