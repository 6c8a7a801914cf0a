//! Daemons: each runs exactly once, whatever becomes of nodes and of their number. Each daemon writes down
//! that it runs, and that it does not any more, in one book for all nodes, which refuses a second one at
//! once. Spec: sharding 1.8.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use quorate_core::config::Config;
use quorate_driver::spi::{Adapter, Runtime};
use quorate_driver::{
    Cluster, ClusterError, Daemon, DaemonContext, Daemons, DaemonsError, DaemonsState, Security,
};

use quorate_conformance::support::{
    LOOK_AGAIN, all_up, cluster_with, eventually, joined_as, node, runtime, sleep, until, within,
};

/// Who runs: number and how many there are, by number; and what was wrong.
#[derive(Default)]
struct Page {
    running: BTreeMap<u32, (u64, u32, String)>,
    begun: usize,
    wrong: Vec<String>,
}

#[derive(Clone, Default)]
struct Book(Arc<Mutex<Page>>);

impl Book {
    fn page(&self) -> MutexGuard<'_, Page> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A daemon begins; it ends when what this gives is dropped.
    fn enter(&self, daemon: &DaemonContext) -> Entry {
        let (index, revision) = (daemon.index(), daemon.revision());
        let entry = (revision, daemon.count(), daemon.entity().node().to_string());
        let mut page = self.page();
        page.begun += 1;
        let others: Vec<_> = page
            .running
            .iter()
            .filter(|(other, (of, ..))| **other == index || *of != revision)
            .map(|(other, what)| format!("{other} {what:?}"))
            .collect();
        if !others.is_empty() {
            page.wrong.push(format!("{index} {entry:?} beside {others:?}"));
        }
        page.running.insert(index, entry);
        Entry {
            book: self.clone(),
            index,
            revision,
        }
    }

    /// Whether exactly so many run, on so many nodes at least.
    fn has(&self, count: u32, nodes: usize) -> bool {
        let page = self.page();
        let mut hosts: Vec<&String> = page.running.values().map(|(_, _, node)| node).collect();
        hosts.sort_unstable();
        hosts.dedup();
        page.running.keys().copied().eq(0..count)
            && page.running.values().all(|(_, of, _)| *of == count)
            && hosts.len() >= nodes
    }

    fn check(&self) {
        let page = self.page();
        assert!(page.wrong.is_empty(), "{:#?}", page.wrong);
    }
}

struct Entry {
    book: Book,
    index: u32,
    revision: u64,
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut page = self.book.page();
        if page
            .running
            .get(&self.index)
            .is_some_and(|(of, ..)| *of == self.revision)
        {
            page.running.remove(&self.index);
        }
    }
}

/// Runs until it is told to end, and takes a moment for that.
struct Worker<R> {
    book: Book,
    runtime: R,
}

impl<R: Runtime> Daemon for Worker<R> {
    async fn run(&mut self, daemon: &DaemonContext) {
        let _entry = self.book.enter(daemon);
        daemon.stopping().await;
        let until = self.runtime.now().mono + Duration::from_millis(50);
        self.runtime.sleep_until(until).await;
    }
}

async fn start<A: Adapter>(node: &Cluster, book: &Book) -> Daemons {
    let (book, users) = (book.clone(), runtime::<A>());
    let make = move |_| Worker {
        book: book.clone(),
        runtime: users.clone(),
    };
    let daemons = node.daemons("workers").role("hosts");
    daemons.start(4, make).await.expect("they are started")
}

/// Changes the number until it is changed: a node that sees to it may die meanwhile.
async fn rescale<A: Adapter>(daemons: &Daemons, count: u32) {
    within::<A, _>("the number is changed", async {
        loop {
            match daemons.rescale(count).await {
                Ok(state) => {
                    assert!(state.count == count && !state.is_rescaling, "{state:?}");
                    return;
                }
                Err(DaemonsError::Count) => panic!("{count} are not too many"),
                Err(_) => sleep::<A>(LOOK_AGAIN).await,
            }
        }
    })
    .await;
}

/// Four daemons on three nodes of four; the node that sees to them dies; seven; a node that runs some dies in
/// the middle of the change to three; the last but one leaves: each number runs once at every moment, and in
/// the end all of them.
pub async fn daemons_run_once_each_while_nodes_die_and_their_number_changes<A: Adapter>(security: &Security) {
    let quickly = |config: &mut Config| config.downing.stable_after = Some(Duration::from_secs(1));
    let book = Book::default();
    // Witnesses keep the majority; the daemons' nodes come and go.
    let mut witnesses = cluster_with::<A>(3, security, quickly).await;
    let seed = witnesses[0].address().address().clone();
    let mut hosts = Vec::new();
    for _ in 0..3 {
        hosts.push(joined_as::<A>(node::<A>(security).config(quickly).role("hosts"), &seed).await);
    }
    let mut handles = Vec::new();
    for host in &hosts {
        all_up::<A>(host, 6).await;
        handles.push(start::<A>(host, &book).await);
    }
    let nameless = witnesses[2].daemons("").role("hosts").proxy().await;
    assert!(matches!(nameless, Err(ClusterError::Refused(_))), "no name");
    let outside = witnesses[2].daemons("workers").role("hosts").proxy().await;
    let outside = outside.expect("it is reached from everywhere");
    eventually::<A>("four run, on several nodes", async || book.has(4, 2)).await;
    let state = within::<A, _>("an answer", outside.state())
        .await
        .expect("an answer");
    let expected = DaemonsState {
        count: 4,
        revision: 1,
        is_rescaling: false,
    };
    assert_eq!(state, expected);
    assert_eq!(outside.rescale(0).await, Err(DaemonsError::Count));

    // The oldest with the role sees to them.
    hosts.remove(0).stop().await;
    eventually::<A>("all four run elsewhere", async || book.has(4, 1)).await;
    book.check();
    rescale::<A>(&outside, 7).await;
    eventually::<A>("seven run", async || book.has(7, 2)).await;
    book.check();

    // The next one dies while it changes the number.
    let newcomer = joined_as::<A>(node::<A>(security).config(quickly).role("hosts"), &seed).await;
    let _handle = start::<A>(&newcomer, &book).await;
    let dying = hosts.remove(0);
    let change = rescale::<A>(&outside, 3);
    let death = async {
        eventually::<A>("the change has begun", async || !book.has(7, 1)).await;
        dying.stop().await;
    };
    quorate_conformance::support::both(change, death).await;
    eventually::<A>("three run", async || book.has(3, 1)).await;
    book.check();
    let _ = hosts.remove(0).leave().await.expect("it leaves");
    until::<A>(&newcomer, "it is gone", |view| view.members().len() == 4).await;
    eventually::<A>("three run on the newcomer", async || book.has(3, 1)).await;
    book.check();
    let state = within::<A, _>("an answer", outside.state())
        .await
        .expect("an answer");
    assert_eq!((state.count, state.is_rescaling), (3, false));
    assert!(book.page().begun >= 4 + 7 + 3, "{}", book.page().begun);
    witnesses.clear();
}
