//! A singleton whose lease is lost while it runs: its instance is killed at once, and nobody runs one without
//! the lease. Over real sockets, with an etcd that is killed. Spec: sharding 1.10, 10.7; reliability I-26.

use crate::common;

use std::io;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use common::{Etcd, ask, at};
use quorate_driver::lease::LeaseKeeper;
use quorate_driver::{Config, Token, UniqueAddress};
use quorate_lease_etcd::EtcdLeases;
use quorate_tokio::{Cluster, Entity, EntityContext, Security, Singleton};
use serde_json::json;

const TIME_TO_LIVE: Duration = Duration::from_secs(4);
const LIMIT: Duration = Duration::from_secs(40);

/// What happened, to all instances of a test.
#[derive(Debug, Default)]
struct Journal {
    running: Vec<Token>,
    began: Vec<Token>,
    ended_at: Option<Instant>,
}

type Shared = Arc<Mutex<Journal>>;

struct Billing(Token, Shared);

impl Billing {
    fn new(token: Token, journal: &Shared) -> Self {
        let mut entries = journal.lock().unwrap();
        assert_eq!(entries.running, [], "one at a time");
        assert!(entries.began.iter().all(|before| *before < token), "tokens grow");
        entries.running.push(token);
        entries.began.push(token);
        drop(entries);
        Self(token, Arc::clone(journal))
    }
}

impl Drop for Billing {
    fn drop(&mut self) {
        let mut entries = self.1.lock().unwrap();
        entries.running.retain(|token| *token != self.0);
        entries.ended_at = Some(Instant::now());
    }
}

impl Entity for Billing {
    type Message = bool;
    type Reply = (u64, u64);

    /// `true`: never answers.
    async fn handle(&mut self, _: &EntityContext, waits: bool) -> (u64, u64) {
        if waits {
            std::future::pending::<()>().await;
        }
        (self.0.term, self.0.count)
    }
}

/// etcd, and when it was asked for what it granted or renewed last.
#[derive(Debug)]
struct Watched(EtcdLeases, Mutex<Option<Instant>>);

impl LeaseKeeper for Watched {
    fn acquire(&self, name: &str, owner: &UniqueAddress, time_to_live: Duration) -> io::Result<Option<u64>> {
        let asked_at = Instant::now();
        let outcome = self.0.acquire(name, owner, time_to_live);
        if matches!(outcome, Ok(Some(_))) {
            *self.1.lock().unwrap() = Some(asked_at);
        }
        outcome
    }

    fn renew(&self, name: &str, owner: &UniqueAddress, token: u64) -> io::Result<bool> {
        let asked_at = Instant::now();
        let outcome = self.0.renew(name, owner, token);
        if matches!(outcome, Ok(true)) {
            *self.1.lock().unwrap() = Some(asked_at);
        }
        outcome
    }

    fn release(&self, name: &str, owner: &UniqueAddress) -> io::Result<()> {
        self.0.release(name, owner)
    }
}

async fn until<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(begun.elapsed() < LIMIT, "waited for {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Two nodes that may host it, with a lease, and what asks it.
async fn pair(keeper: &Arc<Watched>, journal: &Shared) -> ([Cluster; 2], Singleton<bool, (u64, u64)>) {
    let start = async |seed: Option<&Cluster>| {
        let leases: Arc<dyn LeaseKeeper> = Arc::<Watched>::clone(keeper);
        let change = |config: &mut Config| {
            config.singleton.lease_time_to_live = TIME_TO_LIVE;
            config.failure_detector.acceptable_heartbeat_pause = Duration::from_secs(5);
        };
        let security = Security::insecure_plaintext();
        let builder = quorate_tokio::builder("orders")
            .bind("127.0.0.1:0")
            .security(security);
        let cluster = builder
            .fast_profile()
            .config(change)
            .leases(leases)
            .start()
            .await
            .unwrap();
        let seed = seed.unwrap_or(&cluster).address().address().clone();
        cluster.join([&seed]).await.unwrap();
        cluster.up().await.unwrap();
        cluster
    };
    let one = start(None).await;
    let other = start(Some(&one)).await;
    let register = async |cluster: &Cluster| {
        let journal = Arc::clone(journal);
        let make = move |token| Billing::new(token, &journal);
        cluster.singleton("billing").lease().start(make).await.unwrap()
    };
    let billing = register(&one).await;
    register(&other).await;
    ([one, other], billing)
}

async fn answer(billing: &Singleton<bool, (u64, u64)>) -> Token {
    let begun = Instant::now();
    loop {
        if let Ok((term, count)) = billing.ask(false).timeout(Duration::from_secs(1)).await {
            return Token::new(term, count);
        }
        assert!(begun.elapsed() < LIMIT, "nobody answers");
    }
}

/// etcd goes, by `fail`, while an instance is at work; it comes back by `mend`.
async fn lose(timeout: Duration, fail: impl Fn(&mut Etcd), mend: impl Fn(&mut Etcd)) {
    let Some(mut etcd) = Etcd::start() else {
        return;
    };
    let leases = at(&etcd.endpoint()).timeout(timeout);
    let (keeper, journal) = (Arc::new(Watched(leases, Mutex::default())), Shared::default());
    let (nodes, billing) = pair(&keeper, &journal).await;
    let first = answer(&billing).await;
    // At work when the time comes: it is not waited for.
    let busy = tokio::spawn(async move { billing.ask(true).timeout(LIMIT).await.is_err() });
    fail(&mut etcd);
    let ended_at = until("its end", || {
        let entries = journal.lock().unwrap();
        entries.ended_at.filter(|_| entries.running.is_empty())
    })
    .await;
    let lost_at = keeper.1.lock().unwrap().unwrap() + TIME_TO_LIVE;
    assert!(ended_at > lost_at - TIME_TO_LIVE / 2, "it was not given up early");
    let late = ended_at.saturating_duration_since(lost_at);
    println!(
        "the instance ended {:.1} ms after its lease",
        late.as_secs_f64() * 1_000.0
    );
    // A tick, on a machine that has time for it; one that waits for whom it serves, or for etcd, ends ten
    // times later.
    assert!(late < TIME_TO_LIVE / 2, "{late:?}");
    assert!(busy.await.unwrap(), "whom it did not answer is told so");
    // Nobody has the lease, and so nobody runs it.
    tokio::time::sleep(2 * TIME_TO_LIVE).await;
    assert_eq!(journal.lock().unwrap().began, [first]);
    mend(&mut etcd);
    let billing = nodes[1].singleton_ref::<bool, (u64, u64)>("billing").unwrap();
    assert!(answer(&billing).await > first);
    for node in nodes {
        node.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn i_26_an_instance_ends_with_its_lease_when_etcd_dies_and_comes_back_with_it() {
    lose(Duration::from_millis(500), Etcd::kill, Etcd::run).await;
}

/// The keeper has no answer yet when the lease is over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn i_26_an_instance_ends_with_its_lease_when_etcd_stands_still() {
    let [stop, go_on] = ["-STOP", "-CONT"].map(|signal| move |etcd: &mut Etcd| etcd.signal(signal));
    lose(4 * TIME_TO_LIVE, stop, go_on).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_whose_lease_was_taken_by_hand_ends_with_the_next_renewal() {
    let Some(etcd) = Etcd::start() else {
        return;
    };
    let (keeper, journal) = (
        Arc::new(Watched(at(&etcd.endpoint()), Mutex::default())),
        Shared::default(),
    );
    let (nodes, billing) = pair(&keeper, &journal).await;
    let first = answer(&billing).await;
    let all = json!({ "key": "cQ==", "range_end": "cg==" });
    let deleted = ask(&etcd.endpoint(), "/v3/kv/deleterange", &all);
    let deleted_at = Instant::now();
    assert_eq!(deleted.get("deleted"), Some(&json!("1")), "{deleted}");
    let ended_at = until("its end", || journal.lock().unwrap().ended_at).await;
    // A renewal is due after a quarter. Without it, it would end when the lease does, after three quarters at
    // least.
    assert!(ended_at.duration_since(deleted_at) < TIME_TO_LIVE * 5 / 8);
    assert!(
        answer(&billing).await > first,
        "the lease is free: the next one begins"
    );
    for node in nodes {
        node.stop().await;
    }
}
