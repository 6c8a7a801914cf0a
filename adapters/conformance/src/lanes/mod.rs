//! Lanes do not wait for each other: user links that stand still hold up neither heartbeats nor replicated
//! data, and what hangs on both comes to its end. Spec: sharding 10.2, 10.3, I-95; reliability 3c.

mod waiting;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use quorate_driver::data::{Read, Write};
use quorate_driver::spi::Adapter;
use quorate_driver::{Cluster, EntityContext, Kind, Region, Security};

use super::support::{cluster, eventually, suspected, within};

pub use waiting::a_full_buffer_has_callers_wait_and_loses_nothing;

/// Bytes of a message: few of them fill the mailboxes of a node, which hold 64 MiB.
const MESSAGE_BYTES: usize = 1 << 20;

/// Messages that do not fit into the mailboxes, by less than what waits for a link before the newest is
/// refused.
const HELD_BACK: usize = 72;

/// Messages that come on top of them at once, more than may wait for a link: the sender has to wait.
const BEHIND: usize = 40;

/// Entities that they are for.
const ENTITIES: usize = 4;

/// How long a majority write may take while user links stand still, on a machine that is busy with other
/// tests.
const WRITE_MAX: Duration = Duration::from_secs(3);

/// The counter that each handled message has increased.
fn handled(node: &Cluster) -> quorate_driver::data::Counter {
    node.data().counter("handled")
}

/// Entities on this node that finish nothing while `closed` has a sender; then each message costs a majority
/// write. Counts those that failed. An empty message costs nothing.
async fn clerks(
    node: &Cluster,
    closed: async_channel::Receiver<()>,
    failed: Arc<AtomicUsize>,
) -> Region<String, ()> {
    let counter = Arc::new(handled(node));
    let handle = move |_: EntityContext, text: String| {
        let (counter, closed, failed) = (Arc::clone(&counter), closed.clone(), Arc::clone(&failed));
        async move {
            if text.is_empty() {
                return;
            }
            // Closed for as long as somebody could say something.
            let _ended = closed.recv().await;
            let written = counter.increment(1, Write::Majority).await;
            failed.fetch_add(usize::from(written.is_err()), Ordering::Relaxed);
        }
    };
    let region = node.entities(kind()).start_fn(handle).await;
    region.expect("the kind is registered")
}

fn kind() -> Kind<String, ()> {
    Kind::new("clerk").shards(4)
}

async fn paused(node: &Cluster) -> u64 {
    let stats = node.stats().await.expect("the node runs");
    stats.links.user_reads_paused
}

/// Every mailbox of a node is full, and each of its handlers waits for a majority write, whose messages and
/// answers are for the very nodes whose user links stand still. Meanwhile others write as well, and nobody is
/// found unreachable. At the end every message is handled: what did not fit made its sender wait.
pub async fn full_mailboxes_whose_handlers_await_majority_writes_go_on<A: Adapter>(security: &Security) {
    let nodes = cluster::<A>(2, security).await;
    let [sender, host] = &nodes[..] else {
        panic!("there are two");
    };
    let (open, closed) = async_channel::bounded(1);
    let failed = Arc::new(AtomicUsize::new(0));
    // Only one node hosts them: no shard moves while its mailboxes are full.
    let _local = clerks(host, closed, Arc::clone(&failed)).await;
    let region = sender
        .entities(kind())
        .proxy()
        .await
        .expect("the kind is registered");
    let mut events = sender.events();
    let text = "x".repeat(MESSAGE_BYTES);
    let tell = async |count: usize| {
        for number in 0..count {
            let entity = region.entity(format!("clerk-{}", number % ENTITIES));
            entity.tell(&text).await.expect("it is taken");
        }
    };
    // What is said before a shard's home is known waits in the sender's region: that is not what this is
    // about.
    for number in 0..ENTITIES {
        let entity = region.entity(format!("clerk-{number}"));
        within::<A, _>("an answer", entity.ask(String::new()).into_future())
            .await
            .expect("it lives there");
    }
    tell(HELD_BACK).await;
    eventually::<A>("the mailboxes are full", async || paused(host).await > 0).await;
    for node in &nodes {
        let begun = Instant::now();
        let beside = node.data().counter("beside").increment(1, Write::Majority).await;
        beside.expect("both have it");
        assert!(begun.elapsed() < WRITE_MAX, "a write took {:?}", begun.elapsed());
    }
    let before = handled(sender).read(Read::Local).await;
    assert_eq!(before.unwrap_or(0), 0, "nothing was handled yet");

    drop(open);
    tell(BEHIND).await;
    let all = (HELD_BACK + BEHIND) as u128;
    eventually::<A>("every message is handled", async || {
        handled(sender)
            .read(Read::Local)
            .await
            .is_ok_and(|seen| seen == all)
    })
    .await;
    assert_eq!(failed.load(Ordering::Relaxed), 0);
    assert_eq!(suspected::<A>(&mut events).await, 0);
    for node in &nodes {
        let stats = within::<A, _>("counters", node.stats())
            .await
            .expect("the node runs");
        assert_eq!(stats.links.dropped_queue_full, 0, "{stats:?}");
        assert_eq!(stats.host.mailbox_refused, 0, "{stats:?}");
    }
}
