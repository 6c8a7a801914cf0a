//! Entities that leave memory and come back: nothing that was sent to them is lost, doubled or out of order.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use quorate_core::sharding::passivation::{LimitSettings, PassivationSettings, Replacement};
use quorate_driver::spi::Adapter;
use quorate_driver::{Cluster, Entity, EntityContext, Kind, Region, Security};
use serde::{Deserialize, Serialize};

use quorate_conformance::support::{both, cluster, eventually, within};

/// Messages to the entity that is passivated again and again, from each of two nodes.
const MESSAGES: u32 = 1_000;

/// After so many of them it wants to be passivated. Fewer than a mailbox takes, so that none is refused.
const LIVES: u32 = 25;

/// What an incarnation did, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Done {
    Started,
    /// A message: from which node, and which.
    Handled(u32, u32),
    Closed,
    Stopped,
}

#[derive(Serialize, Deserialize)]
enum Order {
    Note(u32, u32),
    Close,
}

/// Writes down what it does where all its incarnations can.
struct Clerk {
    log: Arc<Mutex<Vec<Done>>>,
    handled: u32,
}

impl Clerk {
    fn note(&self, done: Done) {
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        log.push(done);
    }
}

impl Entity for Clerk {
    type Message = Order;
    type Reply = ();

    async fn on_start(&mut self, _: &EntityContext) {
        self.note(Done::Started);
    }

    async fn handle(&mut self, context: &EntityContext, order: Order) {
        match order {
            Order::Note(from, number) => {
                self.note(Done::Handled(from, number));
                self.handled += 1;
                if self.handled == LIVES {
                    let asked = context.passivate_with::<Self>(&Order::Close);
                    asked.expect("it is an entity of this kind");
                }
            }
            Order::Close => self.note(Done::Closed),
        }
    }

    async fn on_stop(&mut self, _: &EntityContext) {
        self.note(Done::Stopped);
    }
}

/// An entity that wants to be passivated while two nodes speak to it: everything is handled once and in order
/// per node, each incarnation ends with its last message, and no two live at once.
pub async fn a_passivated_entity_gets_its_last_message_and_its_next_incarnation_the_rest<A: Adapter>(
    security: &Security,
) {
    let nodes = cluster::<A>(2, security).await;
    let log = Arc::new(Mutex::new(Vec::new()));
    let mut regions = Vec::new();
    for node in &nodes {
        let log = Arc::clone(&log);
        let make = move |_: EntityContext| Clerk {
            log: Arc::clone(&log),
            handled: 0,
        };
        let kind = Kind::new("clerk")
            .shards(4)
            .passivation(PassivationSettings::off());
        regions.push(
            node.entities(kind)
                .start(make)
                .await
                .expect("the kind is registered"),
        );
    }
    let speak = async |from: u32| {
        let region: &Region<Order, ()> = &regions[from as usize];
        let clerk = region.entity("ada");
        for number in 0..MESSAGES {
            // One that is waited for now and then, so that a mailbox of a thousand is never full.
            if number % 100 == 99 {
                within::<A, _>("an answer", clerk.ask(Order::Note(from, number)).into_future())
                    .await
                    .expect("it is answered");
            } else {
                clerk.tell(&Order::Note(from, number)).await.expect("it is taken");
            }
        }
    };
    both(speak(0), speak(1)).await;
    let read = || log.lock().unwrap_or_else(PoisonError::into_inner).clone();
    eventually::<A>("the last incarnation has stopped", async || {
        let log = read();
        // The last one asks only if it had enough to do.
        log.last() == Some(&Done::Stopped)
            || handled(&log, 0).len() + handled(&log, 1).len() == 2 * MESSAGES as usize
    })
    .await;
    let log = read();
    for from in 0..2 {
        let expected: Vec<u32> = (0..MESSAGES).collect();
        assert_eq!(handled(&log, from), expected, "from node {from}");
    }
    let lives: Vec<&[Done]> = log.split_inclusive(|done| *done == Done::Stopped).collect();
    assert!(lives.len() > 2, "it was passivated: {}", lives.len());
    for life in &lives[..lives.len() - 1] {
        assert_eq!(life.first(), Some(&Done::Started));
        assert_eq!(life[life.len() - 2..], [Done::Closed, Done::Stopped]);
        assert_eq!(life.iter().filter(|done| **done == Done::Started).count(), 1);
        assert!(life.len() >= 3 + LIVES as usize, "{life:?}");
    }
}

fn handled(log: &[Done], node: u32) -> Vec<u32> {
    let of_node = |done: &Done| match done {
        Done::Handled(from, number) if *from == node => Some(*number),
        Done::Handled(..) | Done::Started | Done::Closed | Done::Stopped => None,
    };
    log.iter().filter_map(of_node).collect()
}

/// Counts what it is asked.
struct Counter(u32);

impl Entity for Counter {
    type Message = ();
    type Reply = u32;

    async fn handle(&mut self, _: &EntityContext, (): ()) -> u32 {
        self.0 += 1;
        self.0
    }
}

async fn counters(node: &Cluster, name: &str, passivation: PassivationSettings) -> Region<(), u32> {
    let kind = Kind::new(name).shards(2).passivation(passivation);
    let region = node.entities(kind).start(|_| Counter(0)).await;
    region.expect("the kind is registered")
}

/// By time and by number; and the number may be changed while the node runs.
pub async fn entities_that_nobody_needs_are_taken_out_of_memory<A: Adapter>(security: &Security) {
    let nodes = cluster::<A>(1, security).await;
    let node = &nodes[0];
    let running = async || node.stats().await.expect("the node runs").host.entities;
    let ask = async |region: &Region<(), u32>, id: &str| {
        let answer = within::<A, _>("an answer", region.entity(id).ask(()).into_future());
        answer.await.expect("it is answered")
    };
    let idle = PassivationSettings::idle(Duration::from_millis(200)).expect("it is legal");
    let idlers = counters(node, "idler", idle).await;
    assert_eq!((ask(&idlers, "a").await, ask(&idlers, "b").await), (1, 1));
    eventually::<A>("both are gone", async || running().await == 0).await;
    assert_eq!(ask(&idlers, "a").await, 1, "another incarnation");
    eventually::<A>("it is gone as well", async || running().await == 0).await;

    let forty = NonZeroUsize::new(40).expect("a number above zero");
    let limit = LimitSettings::plain(forty, Replacement::LeastRecentlyUsed);
    let crowd = counters(node, "crowd", PassivationSettings::limit(limit)).await;
    for number in 0..200 {
        assert_eq!(ask(&crowd, &number.to_string()).await, 1);
    }
    eventually::<A>("forty are left", async || running().await == 40).await;
    crowd.set_entity_limit(10).await.expect("it has a limit");
    eventually::<A>("ten are left", async || running().await == 10).await;
    assert!(idlers.set_entity_limit(10).await.is_err(), "it has none");
    let stats = node.stats().await.expect("the node runs").core.sharding;
    assert!(stats.entities_passivated >= 3 + 190, "{stats:?}");
}
