//! One node, one kind, and as many counters asked at once: each has its next command when it has answered the
//! last one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use quorate_driver::durable::{Decision, EventSourced, Retention, Versioned};
use quorate_driver::{EntityContext, store::Store};
use quorate_tokio::{Kind, Security};
use serde::{Deserialize, Serialize};

use super::{Failure, rate};

#[derive(Serialize, Deserialize)]
struct Added(u64);
impl Versioned for Added {}

#[derive(Default, Serialize, Deserialize)]
struct Sum(u64);
impl Versioned for Sum {}

struct Counter;

impl EventSourced for Counter {
    type Command = u64;
    type Reply = u64;
    type Event = Added;
    type State = Sum;

    async fn handle(&mut self, _: &EntityContext, _: &Sum, number: u64) -> Decision<Self> {
        Decision::persist(Added(number)).then_reply(|sum: &Sum| sum.0)
    }

    fn apply(sum: &mut Sum, Added(number): Added) {
        sum.0 += number;
    }

    fn retention(&self) -> Retention {
        // The bare store writes none either.
        Retention::events_only()
    }
}

/// Has the counters asked for so long.
pub(super) async fn events_per_s(store: impl Store, at_once: usize, time: Duration) -> Result<f64, Failure> {
    let cluster = quorate_tokio::builder("events")
        .bind("127.0.0.1:0")
        .security(Security::insecure_plaintext())
        .fast_profile()
        .store(store)
        .start()
        .await?;
    cluster.form().await?;
    cluster.up().await?;
    let kind = Kind::new("Counter").single_host();
    let counters = cluster.entities(kind).start_event_sourced(|_| Counter).await?;
    for counter in 0..at_once {
        // Recovered before the time begins.
        counters.entity(counter.to_string()).ask(0).await?;
    }
    let done = Arc::new(AtomicU64::new(0));
    let started = Instant::now();
    let ask = |counter: usize| {
        let (counter, done) = (counters.entity(counter.to_string()), Arc::clone(&done));
        tokio::spawn(async move {
            while started.elapsed() < time {
                counter.ask(1).await?;
                done.fetch_add(1, Ordering::Relaxed);
            }
            Ok::<_, quorate_driver::AskError>(())
        })
    };
    let clients: Vec<_> = (0..at_once).map(ask).collect();
    for client in clients {
        client.await??;
    }
    let rate = rate(done.load(Ordering::Relaxed), started);
    cluster.leave().await?;
    Ok(rate)
}
