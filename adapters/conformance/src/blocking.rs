//! Handlers that do what they must not: hold the threads of the users' executor, all of them, for longer than
//! a failure detector forgives. The nodes go on, say who it was, and a node whose executor does nothing for
//! too long leaves. For test files of their own: whatever shares their executor stands still with them. Spec:
//! `ARCHITECTURE.md`.

use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use quorate_core::config::Config;
use quorate_core::effect::HaltReason;
use quorate_core::membership::member::Status;
use quorate_driver::spi::Adapter;
use quorate_driver::{
    Cluster, ClusterEvent, Entity, EntityContext, Kind, Region, Security, Termination, events::ShutdownEvent,
    shutdown::ShutdownCause,
};

use super::support::{all_up, cluster_with, eventually, suspected, within};

/// How long threads are held: the fast timings find a node unreachable after a good second.
const HELD: Duration = Duration::from_secs(4);

/// Entities that block at once: more than there are threads on any machine that runs these tests.
const BLOCKERS: usize = 64;

/// Until when threads are held: for so long from the first time on that somebody asks.
#[derive(Clone)]
struct BlockingHold(Arc<OnceLock<Instant>>, Duration);

impl BlockingHold {
    fn of(time: Duration) -> Self {
        Self(Arc::default(), time)
    }

    fn let_go(&self) -> Instant {
        *self.0.get_or_init(|| Instant::now() + self.1)
    }
}

/// Holds its thread until it was told to let go, whoever else has held it meanwhile.
struct BlockingEntity {
    hold: BlockingHold,
}

impl Entity for BlockingEntity {
    type Message = ();
    type Reply = ();

    async fn handle(&mut self, _: &EntityContext, (): ()) {
        thread::sleep(self.hold.let_go().saturating_duration_since(Instant::now()));
    }
}

async fn blockers(node: &Cluster, hold: &BlockingHold) -> Region<(), ()> {
    let kind = Kind::new("blocker").shards(16);
    let hold = hold.clone();
    let make = move |_| BlockingEntity { hold: hold.clone() };
    let region = node.entities(kind).start(make).await;
    region.expect("the kind is registered")
}

fn patient(config: &mut Config) {
    // What the others think of a node is what this is about, not what the node thinks of its executor.
    config.executor.stall_timeout = None;
}

/// Every thread of the executor is held by a handler for four seconds: nobody is found unreachable, the nodes
/// answer meanwhile, and who held the threads is counted. Afterwards everything goes on.
pub async fn handlers_that_block_their_threads_harm_no_node<A: Adapter>(security: &Security) {
    let nodes = cluster_with::<A>(3, security, patient).await;
    let mut watching: Vec<_> = nodes.iter().map(Cluster::events).collect();
    let hold = BlockingHold::of(HELD);
    let mut regions = Vec::new();
    for node in &nodes {
        regions.push(blockers(node, &hold).await);
    }
    for (number, region) in (0..BLOCKERS).zip(regions.iter().cycle()) {
        let blocker = region.entity(number.to_string());
        blocker.tell(&()).await.expect("it is taken");
    }
    let let_go = hold.let_go();
    while Instant::now() + HELD / 2 < let_go {
        let asked = Instant::now();
        nodes[0].stats().await.expect("the node runs");
        let silent = asked.elapsed();
        assert!(silent < HELD / 2, "the node was silent for {silent:?}");
        // Not the executor's sleep: nothing may come of that now.
        thread::sleep(Duration::from_millis(100));
    }
    thread::sleep(let_go.saturating_duration_since(Instant::now()));
    for (node, events) in nodes.iter().zip(&mut watching) {
        assert_eq!(suspected::<A>(events).await, 0, "{}", node.address());
        all_up::<A>(node, 3).await;
    }
    let mut held = 0;
    for node in &nodes {
        held += node.stats().await.expect("the node runs").host.threads_held;
    }
    assert!(held > 0, "nobody noticed who held the threads");
    eventually::<A>("entities answer again", async || {
        regions[0].entity("0").ask(()).await.is_ok()
    })
    .await;
    eventually::<A>("the nodes are ready again", async || {
        nodes.iter().all(Cluster::is_ready)
    })
    .await;
}

fn impatient(config: &mut Config) {
    config.executor.stall_timeout = Some(Duration::from_secs(2));
}

/// An executor that does nothing is no place for shards: its node is not ready and leaves, while it can still
/// say so.
pub async fn a_node_whose_executor_stands_still_leaves<A: Adapter>(security: &Security) {
    let nodes = cluster_with::<A>(1, security, impatient).await;
    let node = &nodes[0];
    assert!(node.is_ready());
    let mut events = node.events();
    let hold = BlockingHold::of(3 * HELD);
    let region = blockers(node, &hold).await;
    for number in 0..BLOCKERS {
        let blocker = region.entity(number.to_string());
        blocker.tell(&()).await.expect("it is taken");
    }
    // On this thread, whatever becomes of the executor.
    let let_go = hold.let_go();
    let begun = Instant::now();
    let mut was_ready = true;
    while node.view().self_status() == Status::Up && Instant::now() < let_go {
        was_ready &= node.is_ready();
        thread::sleep(Duration::from_millis(20));
    }
    assert!(!was_ready, "a node whose executor stands still is not ready");
    assert!(
        Instant::now() < let_go,
        "it has not left after {:?}",
        begun.elapsed()
    );
    let left = within::<A, _>("the node has left", node.terminated()).await;
    assert_eq!(left, Termination::Halted(HaltReason::Left));
    let cause = within::<A, _>("it says why it ended", async {
        loop {
            if let ClusterEvent::Shutdown(ShutdownEvent::Begun { cause }) =
                events.next().await.expect("it was said")
            {
                return cause;
            }
        }
    });
    assert_eq!(cause.await, ShutdownCause::ExecutorStalled);
}
