//! Entities that write down what they begin with, and asks of all kinds that are open when something is done
//! to a node.

use std::future::Future;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_lite::future::zip;
use quorate_core::effect::HaltReason;
use quorate_core::membership::member::Status;
use quorate_core::sharding::errors::AskFailure;
use quorate_driver::spi::Adapter;
use quorate_driver::{AskError, Cluster, Entity, EntityContext, Kind, Region, Termination};

use super::{Fate, hears};
use quorate_conformance::support::{LOOK_AGAIN, eventually, sleep, within};

/// Longer than anything that a test waits for.
const LONG: Duration = Duration::from_secs(50);

/// How long a clerk takes its time: all of its orders take it for longer than a node needs, even on a busy
/// machine, to hear that it is Down.
const REST: Duration = Duration::from_millis(50);

/// Orders for a clerk that takes its time over each.
pub(super) const ORDERS: usize = 300;

/// What a clerk is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(super) enum Order {
    /// Say where you are.
    Where,
    /// Say nothing for ever.
    Wait,
    /// Take your time.
    Rest,
}

/// Which clerk has begun with what.
pub(super) type Begun = Arc<Mutex<Vec<(String, Order)>>>;

/// Writes down what it begins with.
pub(super) struct Clerk<A> {
    begun: Begun,
    adapter: PhantomData<fn() -> A>,
}

impl<A> Clerk<A> {
    pub(super) fn new(begun: &Begun) -> Self {
        Self {
            begun: Arc::clone(begun),
            adapter: PhantomData,
        }
    }

    fn note(&self, id: impl ToString, order: Order) {
        let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        begun.push((id.to_string(), order));
    }
}

impl<A: Adapter> Entity for Clerk<A> {
    type Message = Order;
    type Reply = String;

    async fn handle(&mut self, context: &EntityContext, order: Order) -> String {
        self.note(context.id_text(), order);
        match order {
            Order::Where => {}
            Order::Wait => std::future::pending().await,
            Order::Rest => sleep::<A>(REST).await,
        }
        context.node().to_string()
    }
}

pub(super) type Clerks = Region<Order, String>;

/// Clerks on every node, and what all of them have begun with.
pub(super) struct Office {
    pub(super) regions: Vec<Clerks>,
    /// Two on each node.
    pub(super) ids: Vec<[String; 2]>,
    pub(super) begun: Begun,
}

impl Office {
    pub(super) async fn of<A: Adapter>(nodes: &[Cluster]) -> Self {
        let begun = Begun::default();
        let mut regions: Vec<Clerks> = Vec::new();
        for node in nodes {
            let begun = Arc::clone(&begun);
            let make = move |_| Clerk::<A>::new(&begun);
            let region = node.entities(Kind::new("clerk").shards(16)).start(make).await;
            regions.push(region.expect("the kind is registered"));
        }
        let mut ids = Vec::new();
        for node in nodes {
            let node = node.address().to_string();
            ids.push(two_on::<A>(&regions[0], &node).await);
        }
        Self { regions, ids, begun }
    }

    /// Asks from one node for the first clerk on another one.
    pub(super) async fn ask(&self, from: usize, on: usize, order: Order) -> Result<String, AskError> {
        let entity = self.regions[from].entity(&self.ids[on][0]);
        entity.ask(order).timeout(LONG).await
    }

    /// Everything that was sent from one node to another before has come: the second clerk there answers.
    async fn has_come(&self, from: usize, on: usize) {
        let entity = self.regions[from].entity(&self.ids[on][1]);
        let answer = entity.ask(Order::Where).timeout(LONG).await;
        answer.expect("it is answered");
    }

    /// How often the first clerk on this node has begun with such an order.
    pub(super) fn begun(&self, on: usize, order: Order) -> usize {
        let begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        let same = |it: &&(String, Order)| it.0 == self.ids[on][0] && it.1 == order;
        begun.iter().filter(same).count()
    }
}

/// How many orders were begun over which a clerk takes its time.
pub(super) fn rests(begun: &Begun) -> usize {
    let begun = begun.lock().unwrap_or_else(PoisonError::into_inner);
    begun.iter().filter(|(_, order)| *order == Order::Rest).count()
}

/// Has a node downed on which somebody is busy. From when it knows of it nothing more is begun, but for what
/// was about to be: at most this many, for ever.
pub(super) async fn down_the_busy<A: Adapter>(by: &Cluster, victim: &Cluster, begun: &Begun) -> usize {
    let mut own = victim.events();
    eventually::<A>("it is busy", async || rests(begun) > 0).await;
    by.down(victim.address()).await.expect("it is a member");
    hears::<A>(&mut own, victim.address(), Fate::Is(Status::Down)).await;
    let before = rests(begun);
    assert!(before + 5 < ORDERS, "most of it waits: {before}");
    let ended = within::<A, _>("it ends", victim.terminated()).await;
    assert_eq!(ended, Termination::Halted(HaltReason::Downed));
    before + 1
}

async fn two_on<A: Adapter>(region: &Clerks, node: &str) -> [String; 2] {
    within::<A, _>("two clerks on every node", async {
        loop {
            let mut found = Vec::new();
            for number in 0..64 {
                let id = number.to_string();
                let asked = region.entity(&id).ask(Order::Where).await;
                if asked.is_ok_and(|it| it == node) {
                    found.push(id);
                }
                if let [one, other] = found.as_slice() {
                    return [one.clone(), other.clone()];
                }
            }
            sleep::<A>(LOOK_AGAIN).await;
        }
    })
    .await
}

/// Does it while asks of all kinds are open: each hears whether its message may have been handled.
pub(super) async fn asks_at<A: Adapter>(office: &Office, victim: usize, deed: impl Future<Output = ()>) {
    let other = (victim + 1) % office.regions.len();
    // Of another node for a clerk on the victim, and of the victim for a clerk there: both are at it.
    let under_way = zip(
        office.ask(other, victim, Order::Wait),
        office.ask(victim, other, Order::Wait),
    );
    let then = async {
        eventually::<A>("both have begun", async || {
            office.begun(victim, Order::Wait) == 1 && office.begun(other, Order::Wait) == 1
        })
        .await;
        let seen = office.begun(victim, Order::Where);
        // Behind that one in the clerk's mailbox, of both.
        let waiting = zip(
            office.ask(other, victim, Order::Where),
            office.ask(victim, victim, Order::Where),
        );
        let deed = async {
            office.has_come(other, victim).await;
            office.has_come(victim, victim).await;
            assert_eq!(office.begun(victim, Order::Where), seen, "they wait");
            deed.await;
        };
        zip(waiting, deed).await.0
    };
    let all = zip(under_way, then);
    let ((held, elsewhere), (behind, own)) = within::<A, _>("every ask ends", all).await;
    let failed = |failure| Err(AskError::Failed(failure));
    // The victim still says so, or the others find out by themselves and cannot know how far it was.
    let lost = failed(AskFailure::PeerLost);
    let is_one_of = |answer, said| answer == lost || answer == failed(said);
    assert!(is_one_of(held.clone(), AskFailure::EntityStopped), "{held:?}");
    assert!(
        is_one_of(behind.clone(), AskFailure::EntityStoppedUnhandled),
        "{behind:?}"
    );
    assert_eq!(own, failed(AskFailure::EntityStoppedUnhandled));
    assert_eq!(elsewhere, failed(AskFailure::NodeStopped));
    assert_eq!(office.begun(victim, Order::Wait), 1);
}
