//! The life of an entity between two messages and over its failures: answers that are given later, timers,
//! the time without a message, and what becomes of one that panics or gives up.

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_lite::future::zip;
use quorate_core::sharding::errors::AskFailure;
use quorate_driver::spi::Adapter;
use quorate_driver::{
    AskError, Cluster, Directive, Entity, EntityContext, EntityFailure, EntityRef, Kind, Region,
    ReplyLaterError, ReplyTo, Security, Supervision, TimerError,
};
use serde::{Deserialize, Serialize};

use quorate_conformance::support::{cluster, eventually, within};

#[derive(Clone, Debug, Serialize, Deserialize)]
enum Order {
    /// How much has been added to this incarnation.
    Get,
    Add(u32),
    Panic,
    /// Gives up with an error, of this name.
    Fail(String),
    /// Is answered when `Release` comes.
    Hold,
    Release(u32),
    /// Drops what is held.
    Drop,
    /// Adds by a timer: once after so many milliseconds, or every so many.
    AddLater(u64, u32),
    AddEvery(u64, u32),
    Cancel,
    /// Adds whenever so many milliseconds pass without a message.
    WhenIdle(u64),
    /// What is refused of timers and answers.
    Misuse,
}

#[derive(Debug)]
struct GaveUp(String);

impl fmt::Display for GaveUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for GaveUp {}

struct Counter {
    sum: u32,
    held: Vec<ReplyTo<u32>>,
}

impl Entity for Counter {
    type Message = Order;
    type Reply = u32;

    async fn handle(&mut self, context: &EntityContext, order: Order) -> u32 {
        let millis = Duration::from_millis;
        match order {
            Order::Get => {}
            Order::Add(number) => self.sum += number,
            Order::Panic => panic!("as it was told to"),
            Order::Fail(name) => return context.fail(GaveUp(name)).await,
            Order::Hold => {
                let reply = context.reply_later::<Self>().expect("somebody asks");
                assert!(reply.time_left() > Duration::ZERO);
                self.held.push(reply);
                assert!(matches!(
                    context.reply_later::<Self>(),
                    Err(ReplyLaterError::NotAsked)
                ));
            }
            Order::Release(number) => {
                for (reply, more) in self.held.drain(..).zip(0..) {
                    reply.send(&(number + more));
                }
            }
            Order::Drop => self.held.clear(),
            Order::AddLater(after, number) => {
                let started = context.start_timer::<Self>("add", millis(after), Order::Add(number));
                started.expect("there are few");
            }
            Order::AddEvery(interval, number) => {
                let message = Order::Add(number);
                let started = context.start_timer_every::<Self>("add", millis(interval), message);
                started.expect("there are few");
            }
            Order::Cancel => assert!(context.cancel_timer("add") && !context.is_timer_active("add")),
            Order::WhenIdle(after) => context.set_receive_timeout(Some(millis(after))),
            Order::Misuse => {
                let short = context.start_timer_every::<Self>("add", Duration::ZERO, Order::Get);
                assert_eq!(short, Err(TimerError::TooShort));
                let other = context.start_timer::<Other>("add", Duration::ZERO, ());
                assert!(matches!(other, Err(TimerError::OtherTypes(_))));
                assert!(matches!(
                    context.reply_later::<Other>(),
                    Err(ReplyLaterError::OtherTypes(_))
                ));
                for number in 0..quorate_driver::sharding::TIMERS_MAX {
                    let started = context.start_timer::<Self>(number.to_string(), millis(60_000), Order::Get);
                    assert_eq!(started, Ok(()));
                }
                let many = context.start_timer::<Self>("add", millis(1), Order::Get);
                assert_eq!(many, Err(TimerError::TooMany));
            }
        }
        self.sum
    }

    async fn on_receive_timeout(&mut self, _: &EntityContext) {
        self.sum += 1;
    }
}

struct Other;

impl Entity for Other {
    type Message = ();
    type Reply = ();

    async fn handle(&mut self, _: &EntityContext, (): ()) {}
}

/// A kind whose incarnations are counted.
async fn counters(node: &Cluster, supervision: Supervision) -> (Region<Order, u32>, Arc<AtomicU32>) {
    let made = Arc::new(AtomicU32::new(0));
    let incarnations = Arc::clone(&made);
    let kind = Kind::new("counter").shards(1).supervision(supervision);
    let region = node.entities(kind).start(move |_| {
        incarnations.fetch_add(1, Ordering::SeqCst);
        Counter {
            sum: 0,
            held: Vec::new(),
        }
    });
    (region.await.expect("it is registered"), made)
}

type Answer = Result<u32, AskError>;

async fn ask<A: Adapter>(entity: &EntityRef<Order, u32>, order: Order) -> Answer {
    let asked = entity.ask(&order).timeout(Duration::from_secs(20));
    within::<A, _>("an answer", asked.into_future()).await
}

async fn tell(entity: &EntityRef<Order, u32>, order: Order) {
    entity.tell(&order).await.expect("the node takes it");
}

const FAILED: Answer = Err(AskError::Failed(AskFailure::EntityStopped));
const NOT_BEGUN: Answer = Err(AskError::Failed(AskFailure::EntityStoppedUnhandled));

/// An answer that is put off: other messages are handled meanwhile, it comes from another handler, and
/// whoever asked hears it if there will be none.
pub async fn an_answer_may_be_given_later<A: Adapter>(security: &Security) {
    let nodes = cluster::<A>(1, security).await;
    let (region, _) = counters(&nodes[0], Supervision::default()).await;
    let entity = region.entity("e");
    let held = entity
        .ask(&Order::Hold)
        .timeout(Duration::from_secs(20))
        .into_future();
    let release = async {
        assert_eq!(
            ask::<A>(&entity, Order::Add(2)).await,
            Ok(2),
            "it goes on meanwhile"
        );
        ask::<A>(&entity, Order::Release(40)).await
    };
    let (first, released) = zip(held, release).await;
    assert_eq!((first, released), (Ok(40), Ok(2)));
    let held = entity
        .ask(&Order::Hold)
        .timeout(Duration::from_secs(20))
        .into_future();
    let (given_up, _) = zip(held, ask::<A>(&entity, Order::Drop)).await;
    assert_eq!(given_up, FAILED);
    // A told message has no answer that could be put off; asking for one is an error, and no panic of ours.
    assert_eq!(ask::<A>(&entity, Order::Misuse).await, Ok(2));
}

/// Timers come once, again and again, and not any more; the time without a message is noticed. What a failed
/// incarnation wanted goes with it.
pub async fn an_entity_has_timers_and_notices_when_no_message_comes<A: Adapter>(security: &Security) {
    let nodes = cluster::<A>(1, security).await;
    let (region, _) = counters(&nodes[0], Supervision::default()).await;
    let sum = async |id: &str| ask::<A>(&region.entity(id), Order::Get).await;
    ask::<A>(&region.entity("once"), Order::AddLater(10, 7))
        .await
        .expect("an answer");
    eventually::<A>("the timer", async || sum("once").await == Ok(7)).await;
    ask::<A>(&region.entity("again"), Order::AddEvery(5, 1))
        .await
        .expect("an answer");
    eventually::<A>("five of them", async || {
        sum("again").await.is_ok_and(|sum| sum >= 5)
    })
    .await;
    let last = ask::<A>(&region.entity("again"), Order::Cancel).await;
    ask::<A>(&region.entity("other"), Order::AddLater(50, 1))
        .await
        .expect("an answer");
    eventually::<A>("some time", async || sum("other").await == Ok(1)).await;
    assert_eq!(sum("again").await, last);
    // Looked at seldom enough that there is time without a message.
    let idle = region.entity("idle");
    ask::<A>(&idle, Order::WhenIdle(1)).await.expect("an answer");
    eventually::<A>("nobody came", async || {
        ask::<A>(&idle, Order::Get).await.is_ok_and(|sum| sum >= 3)
    })
    .await;
    let failing = region.entity("failing");
    ask::<A>(&failing, Order::AddEvery(1, 1))
        .await
        .expect("an answer");
    assert_eq!(ask::<A>(&failing, Order::Panic).await, FAILED);
    let after = ask::<A>(&failing, Order::Get).await;
    ask::<A>(&region.entity("other"), Order::AddLater(30, 1))
        .await
        .expect("an answer");
    eventually::<A>("some time", async || sum("other").await == Ok(2)).await;
    assert_eq!(
        (after, sum("failing").await),
        (Ok(0), Ok(0)),
        "its timers went with it"
    );
    from_outside_of_its_handlers::<A>(&nodes[0]).await;
}

/// Whoever has its context may start its timers, while it waits for a message as well: then no message wakes
/// it.
async fn from_outside_of_its_handlers<A: Adapter>(node: &Cluster) {
    let contexts = Arc::new(Mutex::new(Vec::new()));
    let made = Arc::clone(&contexts);
    let kind = Kind::new("outside").shards(1);
    let region = node.entities(kind).start(move |context| {
        made.lock().expect("nobody panicked").push(context);
        Counter {
            sum: 0,
            held: Vec::new(),
        }
    });
    let region: Region<Order, u32> = region.await.expect("it is registered");
    let made = || contexts.lock().expect("nobody panicked").clone();
    assert_eq!(ask::<A>(&region.entity("e"), Order::Get).await, Ok(0));
    let other = region.entity("other");
    ask::<A>(&other, Order::AddLater(20, 1)).await.expect("an answer");
    eventually::<A>("time to go to sleep", async || {
        ask::<A>(&other, Order::Get).await == Ok(1)
    })
    .await;
    let started = made()[0].start_timer::<Counter>("panic", Duration::from_millis(1), Order::Panic);
    assert_eq!(started, Ok(()));
    eventually::<A>("the timer", async || made().len() == 3).await;
}

/// One that panics is made anew, at once the first time, and handles what has waited; past its limit it ends,
/// and what waits with it.
pub async fn an_entity_that_panics_is_made_anew_and_loses_no_other_message<A: Adapter>(security: &Security) {
    let nodes = cluster::<A>(1, security).await;
    let supervision = Supervision::default()
        .backoff(Duration::from_millis(1), Duration::from_millis(4))
        .restarts(2, Duration::from_secs(600));
    let (region, made) = counters(&nodes[0], supervision).await;
    let entity = region.entity("e");
    tell(&entity, Order::Add(5)).await;
    for _ in 0..2 {
        tell(&entity, Order::Panic).await;
        tell(&entity, Order::Add(1)).await;
        tell(&entity, Order::Add(2)).await;
    }
    assert_eq!(
        ask::<A>(&entity, Order::Get).await,
        Ok(3),
        "what it had is gone, what waited is not"
    );
    assert_eq!(made.load(Ordering::SeqCst), 3);
    let asked = entity
        .ask(&Order::Panic)
        .timeout(Duration::from_secs(20))
        .into_future();
    let (last, _) = zip(asked, async {
        let after = ask::<A>(&entity, Order::Get).await;
        assert!(after == NOT_BEGUN || after == Ok(0), "{after:?}");
    })
    .await;
    assert_eq!(last, FAILED);
    assert_eq!(
        ask::<A>(&entity, Order::Add(1)).await,
        Ok(1),
        "the next message makes a new one"
    );
    assert_eq!(made.load(Ordering::SeqCst), 4);
    let stats = nodes[0].stats().await.expect("the node runs").host;
    assert_eq!((stats.entities_failed, stats.entities_restarted), (3, 2));
}

/// The kind decides by the error: go on as it is, begin anew, end, or take the whole shard along.
pub async fn the_kind_decides_what_becomes_of_an_entity_that_gives_up<A: Adapter>(security: &Security) {
    let nodes = cluster::<A>(1, security).await;
    let supervision = Supervision::default().decide(|failure| match failure {
        EntityFailure::Error(error) => match error.downcast_ref::<GaveUp>() {
            Some(GaveUp(name)) if name == "resume" => Directive::Resume,
            Some(GaveUp(name)) if name == "stop" => Directive::Stop,
            Some(GaveUp(name)) if name == "escalate" => Directive::Escalate,
            Some(_) | None => Directive::Restart,
        },
        EntityFailure::Panic(_) | _ => Directive::Restart,
    });
    let (region, made) = counters(&nodes[0], supervision).await;
    let (entity, neighbour) = (region.entity("e"), region.entity("n"));
    let fail = async |name: &str| ask::<A>(&entity, Order::Fail(name.to_owned())).await;
    assert_eq!(ask::<A>(&neighbour, Order::Add(9)).await, Ok(9));
    assert_eq!(ask::<A>(&entity, Order::Add(3)).await, Ok(3));
    assert_eq!(fail("resume").await, FAILED);
    assert_eq!(ask::<A>(&entity, Order::Get).await, Ok(3), "its state is kept");
    assert_eq!(fail("restart").await, FAILED);
    assert_eq!(ask::<A>(&entity, Order::Add(1)).await, Ok(1), "it is a new one");
    assert_eq!(made.load(Ordering::SeqCst), 3);
    assert_eq!(fail("stop").await, FAILED);
    assert_eq!(ask::<A>(&entity, Order::Add(1)).await, Ok(1));
    assert_eq!(
        ask::<A>(&neighbour, Order::Get).await,
        Ok(9),
        "the neighbour has not noticed"
    );
    assert_eq!(fail("escalate").await, FAILED);
    let after = ask::<A>(&neighbour, Order::Get).await;
    assert!(after == Ok(0) || after == NOT_BEGUN, "{after:?}");
    assert_eq!(
        ask::<A>(&neighbour, Order::Get).await,
        Ok(0),
        "all of the shard is new"
    );
    let counters = nodes[0].stats().await.expect("the node runs").core;
    assert_eq!(counters.sharding.shards_failed, 1);
}
