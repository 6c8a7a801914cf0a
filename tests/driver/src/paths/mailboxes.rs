//! Durable mailboxes over real links: what a sender was told is kept is handled in order although its slot
//! moves and the old host dies meanwhile. Spec: sharding 5.4; seed document 004.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use quorate_core::config::Config;
use quorate_core::ident::UniqueAddress;
use quorate_driver::delivery::Mail;
use quorate_driver::durable::DurabilityError;
use quorate_driver::paths::{HandoffOptions, PathSettingsError};
use quorate_driver::spi::Adapter;
use quorate_driver::store::{MemoryStore, SharedMemoryStore};
use quorate_driver::{Cluster, ClusterError, Entity, EntityContext, Path, PathError, Security};

use super::counting::{hosts, settled};
use quorate_conformance::support::{all_up, eventually, first, joined_as, node, sleep};

const PATH: &str = "mail";
/// Numbers of one sender that are sent at least.
const SENT_MIN: u64 = 60;

/// Who sends, and a number that grows.
type Letter = (usize, u64);

/// What was handled on all nodes, in this order.
#[derive(Clone, Debug, Default)]
struct Handled(Arc<Mutex<Vec<(Letter, bool)>>>);

impl Handled {
    fn all(&self) -> Vec<(Letter, bool)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

struct Desk(Handled);

impl Entity for Desk {
    type Message = Mail<Letter>;
    type Reply = ();

    async fn handle(&mut self, _: &EntityContext, mail: Mail<Letter>) {
        let mut handled = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        handled.push((mail.message, mail.is_repeated));
    }
}

async fn host(
    node: &Cluster,
    options: HandoffOptions,
    handled: &Handled,
) -> Result<Path<Letter, ()>, ClusterError> {
    let handled = handled.clone();
    let builder = node.instances(PATH).handoff(options);
    builder.start_mailbox(move |_| Desk(handled.clone())).await
}

/// Two senders ask without a pause while the slot moves in good order, and again to a third node while the
/// old host dies: everything that was kept is handled, in the order of its sender, and what was handled twice
/// was the last one and is marked.
pub async fn what_a_mailbox_has_kept_is_handled_in_order_although_its_host_dies_in_a_move<A: Adapter>(
    security: &Security,
) {
    let logs = SharedMemoryStore::new();
    let quick = |config: &mut Config| config.downing.stable_after = Some(Duration::from_secs(1));
    let builder = || node::<A>(security).config(quick).store(logs.node());
    let mut nodes = vec![first::<A>(builder()).await];
    let seed = nodes[0].address().address().clone();
    for _ in 0..3 {
        nodes.push(joined_as::<A>(builder(), &seed).await);
    }
    let (handled, mut paths) = (Handled::default(), Vec::new());
    for node in &nodes {
        all_up::<A>(node, 4).await;
        let path = host(node, HandoffOptions::DURABLE, &handled).await;
        paths.push(path.expect("the leader takes it"));
    }
    let all: Vec<&Cluster> = nodes.iter().collect();
    let old = settled::<A>(&all, PATH, 1).await.remove(0);
    let is = |node: &&Cluster, address: &UniqueAddress| node.address() == address;
    // Two that stay send; the other two host, and one of them dies.
    let mut others = nodes.iter().filter(|node| !is(node, &old));
    let (second, stayers) = (
        others.next().expect("there are others"),
        others.collect::<Vec<_>>(),
    );
    let is_over = AtomicBool::new(false);
    let send = async |sender: usize| {
        let path = stayers[sender].path::<Letter, ()>(PATH).expect("a name");
        let mut kept = Vec::new();
        for number in 0.. {
            if number >= SENT_MIN && is_over.load(Ordering::Relaxed) {
                break;
            }
            let asked = path.ask((sender, number)).timeout(Duration::from_secs(1));
            match asked.await {
                Ok(()) => kept.push((sender, number)),
                Err(_) => sleep::<A>(Duration::from_millis(20)).await,
            }
        }
        kept
    };
    let there = async |to: &UniqueAddress| {
        let path = stayers[0].path::<Letter, ()>(PATH).expect("a name");
        eventually::<A>("it is planned", async || path.move_slot(0, to).await.is_ok()).await;
    };
    let moving = async {
        sleep::<A>(Duration::from_millis(50)).await;
        there(second.address()).await;
        eventually::<A>("it is there", async || {
            let hosts = hosts(stayers[0], PATH).await;
            hosts.as_deref() == Some(std::slice::from_ref(second.address()))
        })
        .await;
        let told = handled.all().len();
        eventually::<A>("it goes on there", async || handled.all().len() > told + 5).await;
        there(stayers[1].address()).await;
        second.stop().await;
        all_up::<A>(stayers[0], 3).await;
        settled::<A>(&stayers, PATH, 1).await;
        let told = handled.all().len();
        eventually::<A>("it goes on elsewhere", async || handled.all().len() > told + 5).await;
        is_over.store(true, Ordering::Relaxed);
    };
    let sending = futures_lite::future::zip(send(0), send(1));
    let ((mut kept, others), ()) = futures_lite::future::zip(sending, moving).await;
    kept.extend(others);
    let kept: BTreeSet<Letter> = kept.into_iter().collect();
    assert!(kept.len() as u64 >= SENT_MIN, "{}", kept.len());
    eventually::<A>("what was kept is handled", async || {
        let done: BTreeSet<Letter> = handled.all().iter().map(|(letter, _)| *letter).collect();
        kept.is_subset(&done)
    })
    .await;
    let (mut newest, mut seen, mut before) = (BTreeMap::new(), BTreeSet::new(), None);
    for (letter, is_repeated) in handled.all() {
        if !seen.insert(letter) {
            assert!(is_repeated && before == Some(letter), "{letter:?}, {is_repeated}");
        } else if kept.contains(&letter) {
            let newest = newest.insert(letter.0, letter.1);
            assert!(newest < Some(letter.1), "{letter:?} after {newest:?}");
        }
        before = Some(letter);
    }
}

/// Options under which two instances could run, and nodes whose store no other node reads, are refused.
pub async fn a_mailbox_is_refused_where_it_could_not_keep_its_word<A: Adapter>(security: &Security) {
    let handled = Handled::default();
    let node_of = async |store: Option<MemoryStore>| {
        let builder = node::<A>(security);
        first::<A>(match store {
            Some(store) => builder.store(store),
            None => builder,
        })
        .await
    };
    let bare = node_of(None).await;
    for options in [
        HandoffOptions::ORDERED,
        HandoffOptions::LOSSY,
        HandoffOptions::STATEFUL,
        HandoffOptions {
            new_host: quorate_driver::paths::NewHost::Serves,
            ..HandoffOptions::DURABLE
        },
    ] {
        let refused = host(&bare, options, &handled).await.map(drop);
        let wrong = PathSettingsError::MailboxNotDurable;
        assert_eq!(refused, Err(ClusterError::Path(PathError::Settings(wrong))));
    }
    let durable = HandoffOptions::DURABLE;
    let refused = host(&bare, durable, &handled).await.map(drop);
    assert_eq!(refused, Err(ClusterError::Durability(DurabilityError::NoStore)));
    let lonely = node_of(Some(MemoryStore::new())).await;
    let refused = host(&lonely, durable, &handled).await.map(drop);
    assert_eq!(
        refused,
        Err(ClusterError::Durability(DurabilityError::NodeLocalStore))
    );
}
