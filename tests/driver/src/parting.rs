//! What the entities of a kind handle last, whatever tells them to stop.

use std::sync::{Arc, Mutex, PoisonError};

use quorate_driver::spi::Adapter;
use quorate_driver::{Cluster, Entity, EntityContext, Kind, Region, Security};
use serde::{Deserialize, Serialize};

use quorate_conformance::support::{cluster, eventually, within};

#[derive(Serialize, Deserialize)]
enum Order {
    Begin,
    Passivate,
    /// The same with a last message of its own.
    PassivateWith,
    StopItself,
    /// Fails once, and is made anew.
    Panic,
    /// Sent by nobody: the kind's stop message is `Close(1)`.
    Close(u32),
}

/// Writes down, beside its name, how it ends.
struct Case {
    log: Arc<Mutex<Vec<String>>>,
}

impl Case {
    fn note(&self, context: &EntityContext, what: &str) {
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        log.push(format!("{} {what}", context.id_text()));
    }
}

impl Entity for Case {
    type Message = Order;
    type Reply = ();

    async fn handle(&mut self, context: &EntityContext, order: Order) {
        match order {
            Order::Begin => {}
            Order::Passivate => context.passivate(),
            Order::PassivateWith => {
                let asked = context.passivate_with::<Self>(&Order::Close(2));
                asked.expect("it is an entity of this kind");
            }
            Order::StopItself => context.stop(),
            Order::Panic => panic!("as it was told to"),
            Order::Close(how) => self.note(context, &format!("closes by {how}")),
        }
    }

    async fn on_stop(&mut self, context: &EntityContext) {
        self.note(context, "stops");
    }
}

async fn boxes<A: Adapter>(node: &Cluster, log: &Arc<Mutex<Vec<String>>>) -> Region<Order, ()> {
    let log = Arc::clone(log);
    let kind = Kind::new("box").shards(8).stop_message(Order::Close(1));
    let made = node.entities(kind).start(move |_| Case {
        log: Arc::clone(&log),
    });
    within::<A, _>("the cluster decides", made)
        .await
        .expect("the kind is registered")
}

/// An entity of a kind with a stop message handles it last when it is passivated, when its region is shut
/// down and when its node leaves; its own last message takes that one's place, and one that stops itself gets
/// neither.
pub async fn entities_handle_the_stop_message_of_their_kind_last<A: Adapter>(security: &Security) {
    let nodes = cluster::<A>(2, security).await;
    let log = Arc::new(Mutex::new(Vec::new()));
    let regions = [
        boxes::<A>(&nodes[0], &log).await,
        boxes::<A>(&nodes[1], &log).await,
    ];
    let read = |id: &str| {
        let log = log.lock().unwrap_or_else(PoisonError::into_inner);
        let of_it = log.iter().filter_map(|line| line.strip_prefix(id));
        of_it.map(|line| line.trim().to_owned()).collect::<Vec<String>>()
    };
    let ask = async |id: &str, order: &Order| {
        let asked = regions[1].entity(id).ask(order);
        within::<A, _>("an answer", asked.into_future()).await
    };
    for (id, order, expected) in [
        ("asks", Order::Passivate, &["closes by 1", "stops"][..]),
        ("has-its-own", Order::PassivateWith, &["closes by 2", "stops"]),
        ("ends", Order::StopItself, &["stops"]),
    ] {
        eventually::<A>("it runs", async || ask(id, &Order::Begin).await.is_ok()).await;
        ask(id, &order).await.expect("it is answered");
        eventually::<A>("it has stopped", async || {
            read(id).last().is_some_and(|end| end == "stops")
        })
        .await;
        assert_eq!(read(id), expected, "{id}");
    }
    // Some on each node; one of them was made anew.
    let ids: Vec<String> = (0..16).map(|number| format!("moves-{number}.")).collect();
    for id in &ids {
        eventually::<A>("it runs", async || ask(id, &Order::Begin).await.is_ok()).await;
    }
    assert!(ask(&ids[3], &Order::Panic).await.is_err());
    ask(&ids[3], &Order::Begin).await.expect("it is there again");
    let ended = || ids.iter().filter(|id| !read(id).is_empty()).count();
    within::<A, _>("the region is shut down", regions[0].shutdown())
        .await
        .expect("the node runs");
    let first = ended();
    assert!((1..ids.len()).contains(&first), "{first} were on the first node");
    for node in nodes.into_iter().rev() {
        within::<A, _>("the node leaves", node.leave())
            .await
            .expect("it runs");
    }
    for id in &ids {
        assert_eq!(read(id), ["closes by 1", "stops"], "{id}");
    }
}
