//! Reliable delivery: in order, nothing left out, whatever breaks. What counts is what the entities saw: they
//! write it down before they confirm it. Spec: sharding 1.14.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use quorate_core::config::Config;
use quorate_driver::delivery::{Consumer, ConsumerSettings, Delivery, Producer, ToEntitiesSettings};
use quorate_driver::spi::{Adapter, Runtime};
use quorate_driver::{
    Cluster, ClusterError, EntityContext, Kind, Region, Security, delivery::WorkQueue,
    store::SharedMemoryStore,
};

use quorate_conformance::support::{
    cluster_with, eventually, first, joined, joined_as, node, runtime, within,
};

type Clerks<M> = Region<Delivery<M>, ()>;

/// What entities saw, by entity and producer, in order.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Numbers>>);

type Numbers = BTreeMap<(String, String), Vec<u64>>;

impl Seen {
    fn note(&self, entity: &str, producer: &str, number: u64) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let pair = (entity.to_owned(), producer.to_owned());
        seen.entry(pair).or_default().push(number);
    }

    fn of(&self, entity: &str, producer: &str) -> Vec<u64> {
        let seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let pair = (entity.to_owned(), producer.to_owned());
        seen.get(&pair).cloned().unwrap_or_default()
    }
}

/// Writes down what it is sent, and confirms it.
struct Clerk {
    seen: Seen,
}

impl Consumer for Clerk {
    type Message = u64;

    async fn handle(&mut self, context: &EntityContext, delivery: Delivery<u64>) {
        self.seen
            .note(&context.id_text(), delivery.producer(), *delivery.message());
        delivery.confirm();
    }
}

async fn clerks(node: &Cluster, seen: &Seen) -> Clerks<u64> {
    let seen = seen.clone();
    let make = move |_: EntityContext| Clerk { seen: seen.clone() };
    let kind = Kind::new("clerk").shards(16);
    node.entities(kind)
        .start_consumer(make)
        .await
        .expect("it is registered")
}

/// Settings under which what is lost is found out within moments.
fn quick() -> ToEntitiesSettings {
    ToEntitiesSettings {
        resend_idle: Duration::from_millis(1_000),
        ..ToEntitiesSettings::default()
    }
}

/// Settings under which nothing is sent again as to a new entity because this machine is slow.
fn patient() -> ToEntitiesSettings {
    ToEntitiesSettings {
        resend_idle: Duration::from_secs(60),
        ..ToEntitiesSettings::default()
    }
}

fn entity(number: usize) -> String {
    format!("c-{number}")
}

/// Sends numbers `from..to` to each of many entities.
async fn send_all<A: Adapter>(producer: &Producer<u64>, entities: usize, from: u64, to: u64) {
    within::<A, _>("everything is taken", async {
        for number in from..to {
            for at in 0..entities {
                drop(producer.send(entity(at), &number).await.expect("it is taken"));
            }
        }
    })
    .await;
}

/// How often a number came again, and that otherwise all came in order.
fn repetitions(seen: &[u64], count: u64) -> usize {
    let mut next = 0;
    let mut again = 0;
    for number in seen {
        if *number == next {
            next += 1;
        } else {
            assert!(*number < next, "{number} came before {next}: {seen:?}");
            again += 1;
        }
    }
    assert_eq!(next, count, "lost: {seen:?}");
    again
}

/// Two producers send to a dozen entities while a node joins and shards move to it, and while one leaves:
/// every message arrives once and in order.
pub async fn deliveries_keep_their_order_and_number_while_shards_move<A: Adapter>(security: &Security) {
    const ENTITIES: usize = 12;
    const MESSAGES: u64 = 120;
    let seen = Seen::default();
    let mut nodes = cluster_with::<A>(2, security, |_| {}).await;
    let mut producers = Vec::new();
    for (number, node) in nodes.iter().enumerate() {
        let region = clerks(node, &seen).await;
        let producer = region.producer(format!("p-{number}"));
        producers.push(producer.settings(patient()).start().await.expect("it starts"));
    }
    for producer in &producers {
        send_all::<A>(producer, ENTITIES, 0, MESSAGES / 3).await;
    }
    let seed = nodes[0].address().address().clone();
    let newcomer = joined::<A>(&seed, security).await;
    let region = clerks(&newcomer, &seen).await;
    // Messages flow until shards have moved.
    let mut sent = MESSAGES / 3;
    eventually::<A>("shards have moved", async || {
        for producer in &producers {
            send_all::<A>(producer, ENTITIES, sent, sent + 1).await;
        }
        sent += 1;
        let survey = region
            .stats()
            .timeout(Duration::from_secs(5))
            .await
            .expect("an answer");
        let hosts = survey.regions.values().flatten();
        hosts.filter(|counts| !counts.shards.is_empty()).count() == 3
    })
    .await;
    nodes.push(newcomer);
    let leave = async {
        let _ = nodes[2].leave().await.expect("it leaves");
    };
    let until = sent + MESSAGES;
    let sending = async {
        for producer in &producers {
            send_all::<A>(producer, ENTITIES, sent, until).await;
        }
    };
    quorate_conformance::support::both(leave, sending).await;
    for (number, producer) in producers.iter().enumerate() {
        within::<A, _>("everything is confirmed", producer.flushed())
            .await
            .expect("it runs");
        for at in 0..ENTITIES {
            let came = seen.of(&entity(at), &format!("p-{number}"));
            assert_eq!(repetitions(&came, until), 0, "{came:?}");
        }
    }
    let host = nodes[0].stats().await.expect("it runs").host;
    assert_eq!(host.deliveries_confirmed, until * ENTITIES as u64);
}

/// A node dies with messages on their way and unconfirmed: all arrive, in order; only what nobody had
/// confirmed may come again.
pub async fn what_a_dead_node_has_not_confirmed_is_delivered_to_the_next_incarnation<A: Adapter>(
    security: &Security,
) {
    const ENTITIES: usize = 12;
    let seen = Seen::default();
    let quickly = |config: &mut Config| config.downing.stable_after = Some(Duration::from_secs(1));
    let nodes = cluster_with::<A>(3, security, quickly).await;
    let mut regions = Vec::new();
    for node in &nodes {
        regions.push(clerks(node, &seen).await);
    }
    let builder = regions[0].producer("p").settings(quick());
    let producer = builder.start().await.expect("it starts");
    send_all::<A>(&producer, ENTITIES, 0, 40).await;
    nodes[2].stop().await;
    send_all::<A>(&producer, ENTITIES, 40, 140).await;
    within::<A, _>("everything is confirmed", producer.flushed())
        .await
        .expect("it runs");
    for at in 0..ENTITIES {
        let _ = repetitions(&seen.of(&entity(at), "p"), 140);
    }
}

/// Confirms nothing until it is allowed to.
struct Hesitant {
    seen: Seen,
    may_confirm: Arc<std::sync::atomic::AtomicBool>,
}

impl Consumer for Hesitant {
    type Message = u64;

    async fn handle(&mut self, context: &EntityContext, delivery: Delivery<u64>) {
        if self.may_confirm.load(Ordering::SeqCst) {
            self.seen
                .note(&context.id_text(), delivery.producer(), *delivery.message());
            delivery.confirm();
        }
    }
}

/// A durable producer's node goes before anything is confirmed. Started again elsewhere under its name it
/// sends all of it, in order, and then what is new; what is confirmed it forgets.
pub async fn s_244_a_durable_producer_sends_what_nobody_has_confirmed_after_a_restart<A: Adapter>(
    security: &Security,
) {
    let seen = Seen::default();
    let may_confirm = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let store = SharedMemoryStore::new();
    let builder = || node::<A>(security).store(store.node());
    let hosting = first::<A>(builder().role("clerks")).await;
    let seed = hosting.address().address().clone();
    let kind = || {
        Kind::<Delivery<u64>, ()>::new("hesitant")
            .shards(4)
            .role("clerks")
    };
    let (noted, allowed) = (seen.clone(), Arc::clone(&may_confirm));
    let make = move |_: EntityContext| Hesitant {
        seen: noted.clone(),
        may_confirm: Arc::clone(&allowed),
    };
    let settings = ConsumerSettings {
        resend_min: Duration::from_millis(250),
        ..ConsumerSettings::default()
    };
    let registered = hosting.entities(kind()).start_consumer_with(settings, make).await;
    registered.expect("it is registered");
    let mut producers = Vec::new();
    for life in 0..2_u64 {
        let sender = joined_as::<A>(builder(), &seed).await;
        let region = sender.entities(kind()).proxy().await.expect("it is registered");
        let producer = region.producer("ledger").settings(quick()).durable();
        let producer = producer.start().await.expect("it starts");
        for number in life * 30..(life + 1) * 30 {
            drop(producer.send("e", &number).await.expect("it is kept"));
        }
        assert_eq!(
            producer.unconfirmed().await,
            Ok(usize::try_from((life + 1) * 30).expect("few"))
        );
        if life == 0 {
            // It leaves, so that nobody has to be declared dead on a machine that is busy.
            let _ = sender.leave().await.expect("it leaves");
        } else {
            producers.push((sender, producer));
        }
    }
    may_confirm.store(true, Ordering::SeqCst);
    let (sender, producer) = &producers[0];
    within::<A, _>("everything is confirmed", producer.flushed())
        .await
        .expect("it runs");
    assert_eq!(seen.of("e", "ledger"), (0..60).collect::<Vec<_>>());
    // A second one of the name takes the queue over: the first can keep nothing more.
    let region = sender
        .region::<Delivery<u64>, ()>("hesitant")
        .expect("it is registered");
    let second = region
        .producer("ledger")
        .settings(quick())
        .durable()
        .start()
        .await;
    let second = second.expect("it starts");
    assert_eq!(
        second.unconfirmed().await,
        Ok(0),
        "what was confirmed is forgotten"
    );
    let refused = within::<A, _>("an answer", producer.send("e", &99))
        .await
        .map(drop);
    assert_eq!(refused, Err(quorate_driver::delivery::SendError::Store));
    drop(second.send("e", &60).await.expect("it is kept"));
    within::<A, _>("it is confirmed", second.flushed())
        .await
        .expect("it runs");
    assert_eq!(seen.of("e", "ledger").last(), Some(&60));
}

/// Takes jobs and writes down which, in one book for all nodes; one that holds on to what it has confirms
/// nothing from then on.
async fn labour(queue: WorkQueue<u64>, seen: Seen, name: &'static str, holds_after: usize) {
    let mut worker = queue.worker();
    let mut held = Vec::new();
    let mut count = 0;
    while let Some(job) = worker.next().await {
        seen.note(name, "jobs", *job.message());
        count += 1;
        if count > holds_after {
            held.push(job);
        } else {
            job.confirm();
        }
    }
}

/// Five workers on five nodes pull jobs; two stop confirming and die with jobs in hand: every job is
/// confirmed, and those two's are done by others.
pub async fn jobs_of_workers_that_die_are_done_by_others<A: Adapter>(security: &Security) {
    const JOBS: u64 = 200;
    const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];
    let quickly = |config: &mut Config| config.downing.stable_after = Some(Duration::from_secs(1));
    let seen = Seen::default();
    let mut nodes = cluster_with::<A>(6, security, quickly).await;
    let mut queues = Vec::new();
    for node in &nodes {
        let queue = node.work_queue("jobs").start::<u64>().await;
        queues.push(queue.expect("it is started"));
    }
    let nameless = nodes[0].work_queue("").start::<u64>().await;
    assert!(matches!(nameless, Err(ClusterError::Refused(_))), "no name");
    let other = nodes[0].work_queue("jobs").proxy::<String>().await;
    assert!(
        matches!(other, Err(ClusterError::Lookup(_))),
        "its jobs are numbers"
    );
    for (at, name) in NAMES.into_iter().enumerate() {
        let holds_after = if at < 2 { 5 } else { usize::MAX };
        runtime::<A>().spawn(labour(queues[at + 1].clone(), seen.clone(), name, holds_after));
    }
    let pushing = async {
        for job in 0..JOBS {
            within::<A, _>("it is taken", queues[0].push(job))
                .await
                .expect("it is taken");
        }
    };
    pushing.await;
    eventually::<A>("two hold on to theirs", async || {
        NAMES[..2].iter().all(|name| seen.of(name, "jobs").len() > 5)
    })
    .await;
    let state = within::<A, _>("an answer", queues[0].state())
        .await
        .expect("an answer");
    assert!(state.unfinished >= 2, "{state:?}");
    for _ in 0..2 {
        nodes.remove(1).stop().await;
    }
    eventually::<A>("every job is done", async || {
        queues[0].state().await.is_ok_and(|state| state.unfinished == 0)
    })
    .await;
    let all: Vec<Vec<u64>> = NAMES.iter().map(|name| seen.of(name, "jobs")).collect();
    let mut alive: Vec<u64> = all[2..].concat();
    alive.extend(&all[0][..5]);
    alive.extend(&all[1][..5]);
    alive.sort_unstable();
    assert_eq!(
        alive,
        (0..JOBS).collect::<Vec<_>>(),
        "each confirmed, and by one alone"
    );
    // Done at once, and its caller hears of it.
    let done = within::<A, _>("it is done", queues[0].run(JOBS).timeout(Duration::from_secs(30))).await;
    assert_eq!(done, Ok(()));
}

/// The node that holds a durable queue dies: its successor goes on with every job that nobody has confirmed.
pub async fn a_durable_work_queue_outlives_who_holds_it<A: Adapter>(security: &Security) {
    const JOBS: u64 = 60;
    let store = SharedMemoryStore::new();
    let seen = Seen::default();
    let quickly = |config: &mut Config| config.downing.stable_after = Some(Duration::from_secs(1));
    let builder = || node::<A>(security).config(quickly).store(store.node());
    let mut nodes = quorate_conformance::support::cluster_of::<A>(3, builder).await;
    let mut queues = Vec::new();
    for node in &nodes {
        let queue = node.work_queue("jobs").durable().start::<u64>().await;
        queues.push(queue.expect("it is started"));
    }
    for job in 0..JOBS {
        within::<A, _>("it is taken", queues[1].push(job))
            .await
            .expect("it is kept");
    }
    let mut worker = queues[1].worker();
    for _ in 0..JOBS / 3 {
        let job = within::<A, _>("a job", worker.next())
            .await
            .expect("the node runs");
        seen.note("first", "jobs", *job.message());
        job.confirm();
    }
    let in_hand = within::<A, _>("a job", worker.next())
        .await
        .expect("the node runs");
    eventually::<A>("who holds it knows what was confirmed", async || {
        let state = queues[1].state().await;
        state.is_ok_and(|state| state.unfinished as u64 == JOBS - JOBS / 3)
    })
    .await;
    nodes.remove(0).stop().await;
    eventually::<A>("another holds it", async || queues[2].state().await.is_ok()).await;
    runtime::<A>().spawn(labour(queues[2].clone(), seen.clone(), "second", usize::MAX));
    seen.note("first", "jobs", *in_hand.message());
    in_hand.confirm();
    eventually::<A>("every job is done", async || {
        queues[2].state().await.is_ok_and(|state| state.unfinished == 0)
    })
    .await;
    let (first, second) = (seen.of("first", "jobs"), seen.of("second", "jobs"));
    let mut all = [first.clone(), second.clone()].concat();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all, (0..JOBS).collect::<Vec<_>>(), "{first:?} {second:?}");
    // The job in hand may have been given away.
    assert!(
        first.len() + second.len() <= usize::try_from(JOBS).expect("few") + 1,
        "{first:?} {second:?}"
    );
}
