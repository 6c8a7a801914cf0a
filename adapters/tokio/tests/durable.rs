//! Durable keys over real sockets beside a store that stalls, and values at their limit.

use crate::common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use common::within;
use quorate_tokio::data::{DataWriteError, Read, Write};
use quorate_tokio::store::{Outcome, Space, StoreIdentity, StoreOrder};
use quorate_tokio::{
    Cluster, Security,
    store::{MemoryStore, Store, StoreFault},
};
use quorate_tokio::{
    Config,
    data::{Pattern, WriteError},
};

/// How long a commit takes on a disk that stalls.
const STALL: Duration = Duration::from_secs(5);

/// A store whose next commits take [`STALL`], so many of them.
#[derive(Debug)]
struct Stalling {
    inner: MemoryStore,
    stalls: Arc<AtomicU64>,
}

impl Store for Stalling {
    fn open(&mut self) -> Result<StoreIdentity, StoreFault> {
        self.inner.open()
    }

    fn commit(&mut self, orders: &[(Space, &StoreOrder)]) -> Result<Vec<Outcome>, StoreFault> {
        let less = |left: u64| left.checked_sub(1);
        if self
            .stalls
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, less)
            .is_ok()
        {
            std::thread::sleep(STALL);
        }
        self.inner.commit(orders)
    }
}

async fn node(seed: Option<&Cluster>, stalls: &Arc<AtomicU64>, change: fn(&mut Config)) -> Cluster {
    let store = Stalling {
        inner: MemoryStore::new(),
        stalls: Arc::clone(stalls),
    };
    let node = quorate_tokio::builder("durable")
        .bind("127.0.0.1:0")
        .security(Security::insecure_plaintext())
        .fast_profile()
        .store(store)
        .config(move |config| {
            config.ddata.durable_keys = vec![Pattern::parse("durable*").unwrap()];
            change(config);
        })
        .start()
        .await
        .unwrap();
    let seed = seed.map_or_else(|| node.address(), Cluster::address);
    node.join([seed.address()]).await.unwrap();
    within(node.up()).await.unwrap();
    node
}

/// Tests share the machine: forgive the pauses that this causes, but none as long as a stall.
fn forgiving(config: &mut Config) {
    config.failure_detector.acceptable_heartbeat_pause = Duration::from_secs(3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn i_83_a_store_that_stalls_for_five_seconds_makes_nobody_late_or_unreachable() {
    let (stalls, none) = (Arc::<AtomicU64>::default(), Arc::default());
    let first = node(None, &stalls, forgiving).await;
    let others = [
        node(Some(&first), &none, forgiving).await,
        node(Some(&first), &none, forgiving).await,
    ];
    within(async {
        while first.data().replicas().await != Ok(3) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    stalls.store(2, Ordering::SeqCst);
    let began = Instant::now();
    // What depends on the store waits for it, and so long that the wait outlasts the stalls.
    let durable = first.data().counter("durable");
    let writing = {
        let durable = durable.clone();
        tokio::spawn(async move {
            for _ in 0..3 {
                let write = durable.increment(1, Write::Local);
                write.timeout(Duration::from_secs(50)).await.unwrap();
            }
        })
    };
    // What does not goes on, on the node itself and on the others.
    let plain = first.data().counter("plain");
    let (mut written, mut longest) = (0_u64, Duration::ZERO);
    while !writing.is_finished() {
        let asked = Instant::now();
        within(plain.increment(1, Write::All)).await.unwrap();
        longest = longest.max(asked.elapsed());
        written += 1;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    writing.await.unwrap();
    assert!(
        began.elapsed() >= 2 * STALL,
        "it did stall: {:?}",
        began.elapsed()
    );
    assert!(
        longest < STALL,
        "something else waited for the store: {longest:?}"
    );
    assert_eq!(within(durable.read(Read::All)).await, Ok(3));
    assert_eq!(within(plain.read(Read::Majority)).await, Ok(u128::from(written)));
    for node in [&first, &others[0], &others[1]] {
        let stats = node.stats().await.unwrap();
        assert!(stats.core.detector.heartbeats_answered > 0);
        assert_eq!(stats.core.detector.heartbeats_late, 0, "{}", node.address());
        assert_eq!(stats.core.detector.unreachable_verdicts, 0, "{}", node.address());
    }
}

fn small(config: &mut Config) {
    config.ddata.value_bytes_max = 4 << 10;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_value_at_its_limit_is_written_and_one_byte_more_is_refused_by_type() {
    let none = Arc::default();
    let node = node(None, &none, small).await;
    let too_large = Err(DataWriteError::Failed(WriteError::TooLarge {
        bytes_max: 4 << 10,
    }));
    let text = |bytes| "x".repeat(bytes);
    // A store is loaded before anything is served.
    within(async {
        while node.data().replicas().await.unwrap() == 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    // What stands around the text depends on the node's name: look for the limit where it must be.
    let register = node.data().register::<String>("note");
    let mut most = (4 << 10) - 200;
    within(register.set(text(most), Write::Local)).await.unwrap();
    while within(register.set(text(most + 1), Write::Local)).await.is_ok() {
        most += 1;
        assert!(most < 4 << 10, "there is a limit");
    }
    // The value stayed what it was; a new key has the same limit, and says so.
    assert_eq!(within(register.read(Read::Local)).await, Ok(Some(text(most))));
    let other = node.data().register::<String>("other");
    let refused = within(other.set(text(most + 1), Write::Local)).await;
    assert_eq!(refused, too_large);
    assert!(!refused.unwrap_err().may_have_been_handled());
    assert!(
        within(other.read(Read::Local)).await.is_err(),
        "nothing was written"
    );
    within(other.set(text(most), Write::Local)).await.unwrap();
    assert_eq!(within(other.read(Read::Local)).await, Ok(Some(text(most))));
    assert_eq!(
        within(register.set(text(most + 1), Write::Majority)).await,
        too_large
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_write_of_a_node_that_is_up_waits_for_its_store_to_be_read() {
    let stalls = Arc::new(AtomicU64::new(1));
    let node = node(None, &stalls, forgiving).await;
    let kept = node.data().counter("durable-first");
    assert_eq!(
        within(kept.increment(1, Write::Majority).timeout(4 * STALL)).await,
        Ok(())
    );
    assert_eq!(within(kept.read(Read::Local)).await, Ok(1));
    assert_eq!(stalls.load(Ordering::SeqCst), 0, "the store stalled before that");
}
