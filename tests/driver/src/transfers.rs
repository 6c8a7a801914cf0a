//! Messages that durable entities deliver until they are confirmed: kept with the events, sent again after a
//! restart, known by their number when they come twice. Spec: sharding 1.15, S-247, S-248.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use quorate_driver::durable::{
    AtLeastOnceSettings, Confirmed, Decision, DeliveryId, EventSourced, Overdue, Persist, Received,
    Retention, Versioned,
};
use quorate_driver::spi::Adapter;
use quorate_driver::{
    Cluster, EntityContext, Kind, Region, Security,
    store::{SharedMemoryStore, Store},
};
use serde::{Deserialize, Serialize};

use quorate_conformance::support::{LOOK_AGAIN, eventually, first, keeping, node, sleep};

/// What vaults refuse: whoever sent it has it back.
const UNWANTED: u64 = 13;
/// Messages of one command.
const PARTS: u64 = 3;

#[derive(Serialize, Deserialize)]
enum Order {
    /// Gives so much to a vault, in several parts.
    Give {
        vault: String,
        amount: u64,
    },
    Look,
    /// Leaves memory.
    Leave,
}

/// What it has given, what came back, and how many messages are not confirmed.
type Purse = (u64, u64, usize);

#[derive(Serialize, Deserialize)]
enum Spent {
    Given { amount: u64, parts: u64 },
    Arrived,
    Refused { amount: u64 },
}

impl Versioned for Spent {}

#[derive(Default, Serialize, Deserialize)]
struct Spending {
    given: u64,
    back: u64,
    open: usize,
}

impl Versioned for Spending {}

struct Giver(Noticed);

/// What the givers of a node have noticed.
#[derive(Clone, Default)]
struct Noticed {
    /// Messages that they were warned of.
    warned: Arc<AtomicU64>,
    /// Their incarnations.
    made: Arc<AtomicU64>,
}

impl EventSourced for Giver {
    type Command = Order;
    type Reply = Purse;
    type Event = Spent;
    type State = Spending;

    async fn handle(&mut self, context: &EntityContext, spending: &Spending, order: Order) -> Decision<Self> {
        let purse = |spending: &Spending| (spending.given, spending.back, spending.open);
        let (vault, amount) = match order {
            Order::Give { vault, amount } => (vault, amount),
            Order::Look => return Decision::reply(purse(spending)),
            Order::Leave => return Decision::reply(purse(spending)).and_passivate(),
        };
        let vault = match context.region::<Gift, Thanks>("vault") {
            Ok(vaults) => vaults.entity(vault),
            Err(error) => return context.fail(error).await,
        };
        let mut given = Decision::persist(Spent::Given { amount, parts: PARTS });
        for _ in 0..PARTS {
            given = given.deliver(&vault, move |id| Gift::Give { id, amount });
        }
        given.then_reply(purse)
    }

    fn apply(spending: &mut Spending, event: Spent) {
        match event {
            Spent::Given { amount, parts } => {
                spending.given += amount * parts;
                spending.open += parts as usize;
            }
            Spent::Arrived => spending.open -= 1,
            Spent::Refused { amount } => {
                spending.open -= 1;
                spending.back += amount;
            }
        }
    }

    fn retention(&self) -> Retention {
        Retention::snapshot_every(4).delete_covered_events()
    }

    fn redelivery(&self) -> AtLeastOnceSettings {
        AtLeastOnceSettings {
            redeliver_interval: Duration::from_millis(60),
            warn_after: 3,
            ..AtLeastOnceSettings::default()
        }
    }

    async fn on_confirmed(&mut self, _: &EntityContext, _: &Spending, confirmed: Confirmed) -> Persist<Self> {
        Decision::persist(match confirmed.reply() {
            Some(Thanks::Refused { amount }) => Spent::Refused { amount },
            Some(Thanks::Taken | Thanks::Holds(..)) | None => Spent::Arrived,
        })
    }

    fn on_overdue(&mut self, _: &EntityContext, _: &Spending, messages: &[Overdue]) {
        assert!(messages.iter().all(|message| message.attempts == 3));
        self.0.warned.fetch_add(messages.len() as u64, Ordering::SeqCst);
    }
}

#[derive(Serialize, Deserialize)]
enum Gift {
    Give { id: DeliveryId, amount: u64 },
    Look,
}

#[derive(Serialize, Deserialize)]
enum Thanks {
    Taken,
    Refused {
        amount: u64,
    },
    /// The sum, how many gifts, and how many came again.
    Holds(u64, u64, u64),
}

#[derive(Serialize, Deserialize)]
struct Taken {
    id: DeliveryId,
    amount: u64,
}

impl Versioned for Taken {}

#[derive(Default, Serialize, Deserialize)]
struct Hoard {
    sum: u64,
    gifts: u64,
    received: Received,
}

impl Versioned for Hoard {}

struct Vault {
    again: u64,
    /// It takes nothing before this is open.
    door: Arc<AtomicU64>,
    wait: Arc<dyn Fn() -> Waiting + Send + Sync>,
}

type Waiting = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

impl EventSourced for Vault {
    type Command = Gift;
    type Reply = Thanks;
    type Event = Taken;
    type State = Hoard;

    async fn handle(&mut self, _: &EntityContext, hoard: &Hoard, gift: Gift) -> Decision<Self> {
        match gift {
            Gift::Look => Decision::reply(Thanks::Holds(hoard.sum, hoard.gifts, self.again)),
            Gift::Give { amount, .. } if amount == UNWANTED => Decision::reply(Thanks::Refused { amount }),
            Gift::Give { id, .. } if !hoard.received.is_new(&id) => {
                self.again += 1;
                Decision::reply(Thanks::Taken)
            }
            Gift::Give { id, amount } => {
                while self.door.load(Ordering::SeqCst) == 0 {
                    (self.wait)().await;
                }
                Decision::persist(Taken { id, amount }).reply(Thanks::Taken)
            }
        }
    }

    fn apply(hoard: &mut Hoard, event: Taken) {
        hoard.received.note(&event.id);
        hoard.sum += event.amount;
        hoard.gifts += 1;
    }
}

fn vaults() -> Kind<Gift, Thanks> {
    Kind::new("vault").shards(8)
}

/// Registers purses.
async fn with_purses(node: &Cluster) -> (Region<Order, Purse>, Noticed) {
    let noticed = Noticed::default();
    let counted = noticed.clone();
    let make = move |_: EntityContext| {
        counted.made.fetch_add(1, Ordering::SeqCst);
        Giver(counted.clone())
    };
    let purses = node
        .entities(Kind::new("purse").shards(8))
        .start_event_sourced(make)
        .await;
    (purses.expect("it is registered"), noticed)
}

async fn look(purses: &Region<Order, Purse>, who: &str) -> Purse {
    purses.entity(who).ask(&Order::Look).await.expect("it answers")
}

/// A purse gives to a vault that nobody hosts, and its node ends; on another one it goes on by itself once it
/// runs. The vault does not answer for long, so that everything comes to it more than once, and has each gift
/// once. What it refuses comes back.
pub async fn s_248_a_durable_entity_delivers_what_nobody_has_confirmed_after_a_restart<A: Adapter>(
    security: &Security,
) {
    let logs = SharedMemoryStore::new();
    what_nobody_has_confirmed_is_delivered_on::<A, _>(security, |_| logs.node()).await;
}

/// The same with the stores that `open` makes for the nodes of three lives: each finds in its store what was
/// kept in those before.
pub async fn what_nobody_has_confirmed_is_delivered_on<A: Adapter, S: Store>(
    security: &Security,
    open: impl Fn(usize) -> S,
) {
    let builder = |life: usize| keeping(node::<A>(security), open(life), 1);
    let giving = first::<A>(builder(0)).await;
    giving.entities(vaults()).proxy().await.expect("it is registered");
    let (purses, noticed) = with_purses(&giving).await;
    let given = Order::Give {
        vault: "alpha".to_owned(),
        amount: 5,
    };
    for times in 1..=4 {
        let purse = purses.entity("ann").ask(&given).await;
        assert_eq!(purse, Ok((15 * times, 0, 3 * times as usize)));
    }
    eventually::<A>("it is said that messages are not confirmed", async || {
        noticed.warned.load(Ordering::SeqCst) >= 12
    })
    .await;
    giving.stop().await;

    let next = first::<A>(builder(1)).await;
    let door = Arc::<AtomicU64>::default();
    let opened = Arc::clone(&door);
    let make = move |_: EntityContext| Vault {
        again: 0,
        door: Arc::clone(&opened),
        wait: Arc::new(|| Box::pin(sleep::<A>(LOOK_AGAIN))),
    };
    let vaults = next.entities(vaults()).start_event_sourced(make).await;
    let vaults = vaults.expect("it is registered");
    let (purses, _) = with_purses(&next).await;
    assert_eq!(look(&purses, "ann").await, (60, 0, 12), "what was kept");
    eventually::<A>("everything was sent several times", async || {
        let stats = next.stats().await.expect("the node runs");
        stats.host.entity_messages_resent >= 40
    })
    .await;
    door.store(1, Ordering::SeqCst);
    let unwanted = Order::Give {
        vault: "alpha".to_owned(),
        amount: UNWANTED,
    };
    let purse = purses.entity("ann").ask(&unwanted).await;
    assert!(purse.is_ok_and(|(given, ..)| given == 99));
    eventually::<A>("everything is confirmed", async || {
        look(&purses, "ann").await == (99, 39, 0)
    })
    .await;
    let holds = vaults.entity("alpha").ask(&Gift::Look).await.expect("it answers");
    let Thanks::Holds(sum, gifts, again) = holds else {
        panic!("a look is answered by what there is");
    };
    assert_eq!((sum, gifts), (60, 12), "each once");
    assert!(again > 0, "some came again");
    let stats = next.stats().await.expect("the node runs");
    assert_eq!(stats.host.entity_messages_confirmed, 15);
    assert_eq!(stats.host.entity_messages_sent, 3, "of this node");
    next.stop().await;

    // Numbers go on behind those of both, out of a snapshot by now.
    let last = first::<A>(builder(2)).await;
    let (purses, _) = with_purses(&last).await;
    assert_eq!(look(&purses, "ann").await, (99, 39, 0));
    last.stop().await;
}

/// A purse gives to a vault that nobody hosts, and leaves memory: it is woken, and sends again. It leaves
/// again and its node ends: on the next one it goes on without a message, and the vault has each gift once.
pub async fn messages_that_nobody_has_confirmed_wake_their_sender<A: Adapter>(security: &Security) {
    let logs = SharedMemoryStore::new();
    what_nobody_has_confirmed_wakes_on::<A, _>(security, |_| logs.node()).await;
}

/// The same with the stores that `open` makes for the nodes of two lives: the second finds in its store what
/// was kept in the first.
pub async fn what_nobody_has_confirmed_wakes_on<A: Adapter, S: Store>(
    security: &Security,
    open: impl Fn(usize) -> S,
) {
    let builder = |life: usize| keeping(node::<A>(security), open(life), 1);
    let giving = first::<A>(builder(0)).await;
    giving.entities(vaults()).proxy().await.expect("it is registered");
    let (purses, noticed) = with_purses(&giving).await;
    let given = Order::Give {
        vault: "beta".to_owned(),
        amount: 5,
    };
    assert_eq!(purses.entity("bob").ask(&given).await, Ok((15, 0, 3)));
    assert!(purses.entity("bob").ask(&Order::Leave).await.is_ok());
    eventually::<A>("it was woken when it had left memory, and sends", async || {
        let stats = giving.stats().await.expect("the node runs");
        noticed.made.load(Ordering::SeqCst) >= 2 && stats.host.entities_woken >= 1
    })
    .await;
    assert!(purses.entity("bob").ask(&Order::Leave).await.is_ok());
    giving.stop().await;

    let next = first::<A>(builder(1)).await;
    let make = move |_: EntityContext| Vault {
        again: 0,
        door: Arc::new(AtomicU64::new(1)),
        wait: Arc::new(|| Box::pin(sleep::<A>(LOOK_AGAIN))),
    };
    let vaults = next.entities(vaults()).start_event_sourced(make).await;
    let vaults = vaults.expect("it is registered");
    let (purses, _) = with_purses(&next).await;
    eventually::<A>("everything has come without a message", async || {
        let holds = vaults.entity("beta").ask(&Gift::Look).await;
        matches!(holds, Ok(Thanks::Holds(15, 3, _)))
    })
    .await;
    eventually::<A>("everything is confirmed", async || {
        look(&purses, "bob").await == (15, 0, 0)
    })
    .await;
    next.stop().await;
}
