//! Singletons over real links: handed over, taken over, refused, stopped; the proxies' buffers and the errors
//! of asks; tokens and leases. Spec: sharding 1.10, 1.11, 6.7, 10.7.

use std::sync::Arc;
use std::time::Duration;

use quorate_core::config::Config;
use quorate_core::effect::{CommandError, SingletonCommandError, StopOutcome};
use quorate_core::ident::{Address, UniqueAddress};
use quorate_core::sharding::errors::AskFailure;
use quorate_core::token::Token;
use quorate_driver::spi::Adapter;
use quorate_driver::{
    AskError, Cluster, ClusterBuilder, ClusterError, LookupError, Security, TellError, Termination,
    lease::{LeaseKeeper, MemoryLeases},
    store::MemoryStore,
};

use quorate_conformance::billing::{
    BillingOrder, InstanceHappened, InstanceJournal, Receipt, billing, count, is_here, make,
};
use quorate_conformance::support::{
    all_up, cluster, eventually, first, joined, joined_as, node, sleep, within,
};

/// Longer than anything that a test waits for.
const LONG: Duration = Duration::from_secs(50);

/// Shorter than anything that a test lets happen.
const SHORT: Duration = Duration::from_millis(300);

const fn refused<T>(error: SingletonCommandError) -> Result<T, ClusterError> {
    Err(ClusterError::Refused(CommandError::Singleton(error)))
}

/// The oldest leaves: its instance handles what it has and stops, then the next oldest begins, with a higher
/// token. Whoever asks meanwhile is answered, or hears whether its message may have been handled.
pub async fn s_151_a_singleton_is_handed_over_when_its_node_leaves<A: Adapter>(security: &Security) {
    let (nodes, journal) = (cluster::<A>(3, security).await, InstanceJournal::default());
    let mut handles = Vec::new();
    for node in &nodes {
        handles.push(billing(node, &journal).await);
    }
    is_here::<A>(&handles[0]).await;
    for (counted, handle) in (1..).zip(&handles) {
        let (node, _, all) = count::<A>(handle).await;
        assert_eq!((node, all), (nodes[0].address().to_string(), counted));
    }
    let left = within::<A, _>("the node has left", nodes[0].leave()).await;
    assert!(left.is_ok_and(|left| left.is_graceful()));
    let (node, _, all) = count::<A>(&handles[2]).await;
    assert_eq!(
        (node, all),
        (nodes[1].address().to_string(), 1),
        "nothing is carried over"
    );
    is_here::<A>(&handles[1]).await;
    let instances = journal.instances();
    let places: Vec<&UniqueAddress> = instances.iter().map(|(node, _)| node).collect();
    assert_eq!(places, [nodes[0].address(), nodes[1].address()]);
    let stopped = InstanceHappened::Stopped(instances[0].1);
    assert!(journal.entries().contains(&stopped), "it was let finish");
    let ended = AskError::Failed(AskFailure::NodeStoppedUnsent);
    assert_eq!(
        handles[0].ask(&BillingOrder::Count).await,
        Err(ended),
        "its node has ended"
    );
}

/// The oldest dies without a word: once it is removed, and the margin is over, the next oldest begins. A node
/// that is downed kills its own at once.
pub async fn s_152_a_singleton_is_taken_over_when_its_node_dies<A: Adapter>(security: &Security) {
    let (nodes, journal) = (cluster::<A>(4, security).await, InstanceJournal::default());
    let mut handles = Vec::new();
    for node in &nodes {
        handles.push(billing(node, &journal).await);
    }
    is_here::<A>(&handles[0]).await;
    count::<A>(&handles[3]).await;
    assert_eq!(nodes[0].stop().await, Termination::Stopped);
    let (node, _, _) = count::<A>(&handles[3]).await;
    assert_eq!(node, nodes[1].address().to_string());
    // S-154.
    let downed = nodes[2].down(nodes[1].address()).await;
    downed.expect("it is a member");
    within::<A, _>("it hears of it", nodes[1].terminated()).await;
    let (node, _, _) = count::<A>(&handles[3]).await;
    assert_eq!(node, nodes[2].address().to_string());
    assert_eq!(journal.instances().len(), 3);
}

/// What is said before anybody hosts it waits at the proxy, and is handled in its order when somebody does.
pub async fn s_171_messages_wait_at_a_proxy_until_there_is_an_instance<A: Adapter>(security: &Security) {
    let (nodes, journal) = (cluster::<A>(2, security).await, InstanceJournal::default());
    let proxy = nodes[1]
        .singleton("billing")
        .proxy::<BillingOrder, Receipt>()
        .await;
    let proxy = proxy.expect("it is registered");
    for _ in 0..9 {
        proxy.tell(&BillingOrder::Count).await.expect("it is taken");
    }
    let later = async {
        let asked = proxy.ask(&BillingOrder::Count).timeout(LONG).await;
        asked.expect("it is answered").expect("it counted")
    };
    let start = async {
        eventually::<A>("all of them wait", async || {
            let state = proxy.state().await.expect("the node runs");
            state.waiting == 10
        })
        .await;
        billing(&nodes[0], &journal).await
    };
    let ((node, _, counted), _) = futures_lite::future::zip(later, start).await;
    assert_eq!((node, counted), (nodes[0].address().to_string(), 10));
    let state = proxy.state().await.expect("the node runs");
    assert_eq!((state.phase, state.running, state.waiting), (None, None, 0));
    let (there, token) = state.target.expect("it is known");
    assert_eq!(there, *nodes[0].address());
    assert_eq!(journal.instances(), [(there, token)]);
}

/// Every error of an ask says whether the message may have been handled, and is the right one.
pub async fn asks_of_a_singleton_say_what_became_of_them<A: Adapter>(security: &Security) {
    let (nodes, journal) = (cluster::<A>(2, security).await, InstanceJournal::default());
    let proxy = nodes[1]
        .singleton("billing")
        .proxy::<BillingOrder, Receipt>()
        .await;
    let proxy = proxy.expect("it is registered");
    let ask = async |order: BillingOrder, timeout| {
        let asked = proxy.ask(&order).timeout(timeout).await;
        asked.map_err(|error| (error, error.may_have_been_handled()))
    };
    let failed = |failure, handled| Err((AskError::Failed(failure), handled));
    let waited = ask(BillingOrder::Count, SHORT).await;
    assert_eq!(
        waited,
        failed(AskFailure::TimeoutBuffered, false),
        "nobody hosts it yet"
    );
    let unknown = nodes[1]
        .singleton("nowhere")
        .role("nobody")
        .proxy::<BillingOrder, Receipt>();
    let unknown = unknown.await.expect("it is registered");
    let asked = unknown.ask(&BillingOrder::Count).timeout(SHORT).await;
    assert_eq!(asked, Err(AskError::Failed(AskFailure::NobodyHosts)));

    let host = billing(&nodes[0], &journal).await;
    count::<A>(&proxy).await;
    let too_large = BillingOrder::Carry(vec![7; 5 << 20]);
    assert_eq!(
        ask(too_large.clone(), LONG).await,
        failed(AskFailure::TooLarge, false)
    );
    assert_eq!(proxy.tell(&too_large).await, Err(TellError::TooLarge));
    assert_eq!(ask(BillingOrder::AskYourself, LONG).await, Ok(Err(true)));
    assert_eq!(
        ask(BillingOrder::Panic, LONG).await,
        failed(AskFailure::EntityStopped, true),
        "it was at it"
    );
    let (_, _, counted) = count::<A>(&proxy).await;
    assert_eq!(counted, 1, "by the next one, which begins after a rest");
    assert_eq!(
        ask(BillingOrder::Wait, SHORT).await,
        failed(AskFailure::TimeoutSent, true)
    );
    let behind = async { ask(BillingOrder::Count, LONG).await };
    let stop = async {
        sleep::<A>(SHORT).await;
        host.stop().timeout(SHORT).await
    };
    let (behind, stopped) = futures_lite::future::zip(behind, stop).await;
    assert_eq!(stopped, Ok(StopOutcome::Killed), "it waited for ever");
    // Refused where it waited, or, if it came after the end, not taken by anybody: the machine says which.
    assert!(matches!(behind, Err((_, false))), "behind it: {behind:?}");
    assert_eq!(journal.instances().len(), 2);
}

/// Names and settings that cannot be are refused, each with an error of its own, and leave what there was.
pub async fn settings_of_a_singleton_that_cannot_be_are_refused<A: Adapter>(security: &Security) {
    let (node, journal) = (
        first::<A>(node::<A>(security).role("worker")).await,
        InstanceJournal::default(),
    );
    let start = async |name: &str, role: &str| {
        let builder = node.singleton(name);
        let builder = if role.is_empty() {
            builder
        } else {
            builder.role(role)
        };
        builder.start(make(&journal)).await.map(drop)
    };
    for name in ["", &"x".repeat(256)] {
        assert_eq!(start(name, "").await, refused(SingletonCommandError::BadName));
    }
    assert_eq!(
        start("other", "boss").await,
        refused(SingletonCommandError::RoleMissing)
    );
    assert!(matches!(
        start("other", "no role").await,
        Err(ClusterError::Name { .. })
    ));
    let leased = node.singleton("other").lease().start(make(&journal)).await;
    assert_eq!(leased.map(drop), refused(SingletonCommandError::NoLeaseKeeper));
    let other = node.singleton_ref::<BillingOrder, Receipt>("other");
    assert!(
        matches!(other, Err(LookupError::NotRegistered { .. })),
        "{other:?}"
    );

    let billing = node.singleton("billing").role("worker");
    billing
        .clone()
        .start(make(&journal))
        .await
        .expect("it is started");
    let differs = start("billing", "").await.expect_err("its role differs");
    let said = "role is none here and worker in the cluster";
    assert!(differs.to_string().ends_with(said), "{differs}");
    let other_types =
        |error: &ClusterError| matches!(error, ClusterError::Lookup(LookupError::OtherTypes { .. }));
    let proxy = billing.clone().proxy::<u64, u64>().await;
    assert!(proxy.is_err_and(|error| other_types(&error)));
    billing.clone().start(make(&journal)).await.expect("as it is");
    let handle = node
        .singleton_ref::<BillingOrder, Receipt>("billing")
        .expect("it is there");
    count::<A>(&handle).await;
    assert_eq!(journal.instances().len(), 1);
    let stats = node.stats().await.expect("the node runs");
    assert_eq!(stats.host.singletons, 1);
}

/// Whether an ask failed, and says that its message was not handled.
fn is_unhandled<T>(asked: &Result<T, AskError>) -> bool {
    asked.as_ref().is_err_and(|error| !error.may_have_been_handled())
}

/// A node that stays hosts it no more: the instance is let finish, nobody else begins, and the node may host
/// it again.
pub async fn a_singleton_is_stopped_on_a_node_that_stays<A: Adapter>(security: &Security) {
    let (nodes, journal) = (cluster::<A>(2, security).await, InstanceJournal::default());
    let (here, there) = (
        billing(&nodes[0], &journal).await,
        billing(&nodes[1], &journal).await,
    );
    let first = count::<A>(&there).await;
    assert_eq!(here.stop().timeout(LONG).await, Ok(StopOutcome::Stopped));
    let instances = journal.instances();
    let (_, token) = instances.first().expect("one began");
    let ended = [InstanceHappened::Stopped(*token), InstanceHappened::Ended(*token)];
    assert!(journal.entries().ends_with(&ended), "{:?}", journal.entries());
    assert_eq!(
        here.stop().timeout(LONG).await,
        refused(SingletonCommandError::NotHosted)
    );
    assert_eq!(here.token().await, Ok(None));
    // It waits in the proxy, or is refused by the node that the proxy still takes for the instance's: in
    // neither case is it handled.
    let asked = there.ask(&BillingOrder::Count).timeout(SHORT).await;
    assert!(is_unhandled(&asked), "{asked:?}");
    let again = billing(&nodes[0], &journal).await;
    let second = count::<A>(&there).await;
    assert!(second.1 > first.1, "{second:?} after {first:?}");
    assert_eq!(again.is_running_here().await, Ok(true));
    // One that its user stopped on the way keeps nobody waiting.
    assert_eq!(there.stop().timeout(LONG).await, Ok(StopOutcome::NothingRan));
    let left = within::<A, _>("the node has left", nodes[0].leave()).await;
    assert!(left.is_ok_and(|left| left.is_graceful()));
    let there = billing(&nodes[1], &journal).await;
    let (node, _, _) = count::<A>(&there).await;
    assert_eq!(node, nodes[1].address().to_string());
    journal.instances();
}

/// The first node of a cluster, at this address, with a store.
fn with_store<A: Adapter>(security: &Security, store: &MemoryStore) -> ClusterBuilder<Security> {
    node::<A>(security).store(store.clone())
}

/// Tokens grow even when all nodes end and begin again, if they have a store. Without one they begin anew,
/// until something that an instance writes to says what it holds.
pub async fn a_token_outlives_the_whole_cluster<A: Adapter>(security: &Security) {
    let (store, journal) = (MemoryStore::new(), InstanceJournal::default());
    for _ in 0..3 {
        let node = first::<A>(with_store::<A>(security, &store)).await;
        count::<A>(&billing(&node, &journal).await).await;
        within::<A, _>("the node has ended", node.stop()).await;
    }
    assert_eq!(journal.instances().len(), 3, "each with a higher token");
    let (forgetful, journal) = (first::<A>(node::<A>(security)).await, InstanceJournal::default());
    let billing = billing(&forgetful, &journal).await;
    assert_eq!(count::<A>(&billing).await.1, 1);
    assert_eq!(billing.token_refused(Token::new(9, 4)).await, Ok(()));
    assert_eq!(count::<A>(&billing).await.1, 10);
    let impossible = billing.token_refused(Token::new(u64::MAX, 1)).await;
    assert_eq!(impossible, refused(SingletonCommandError::TokenOutOfRange));
}

/// An instance runs only while its node holds the lease, which a node that leaves gives back.
pub async fn s_161_a_singleton_waits_for_its_lease_and_gives_it_back<A: Adapter>(security: &Security) {
    let (keeper, journal) = (Arc::new(MemoryLeases::new()), InstanceJournal::default());
    let lease = "conformance-singleton-billing";
    let stranger = Address::new("stranger", 1).map(|address| UniqueAddress::new(address, 1));
    let stranger = stranger.expect("it is legal");
    let kept = |owner, time| keeper.acquire(lease, owner, time).expect("it can be asked");
    assert_eq!(kept(&stranger, LONG), Some(1));
    let with_leases = || {
        let keeper: Arc<dyn LeaseKeeper> = Arc::<MemoryLeases>::clone(&keeper);
        // A lease that is not given back blocks for longer than the test waits.
        let change = |config: &mut Config| config.singleton.lease_time_to_live = 2 * LONG;
        node::<A>(security).leases(keeper).config(change)
    };
    let one = first::<A>(with_leases()).await;
    let other = joined_as::<A>(with_leases(), one.address().address()).await;
    all_up::<A>(&one, 2).await;
    let start = async |node: &Cluster| {
        let started = node.singleton("billing").lease().start(make(&journal)).await;
        started.expect("it is started")
    };
    let (here, there) = (start(&one).await, start(&other).await);
    let asked = there.ask(&BillingOrder::Count).timeout(SHORT).await;
    assert_eq!(asked, Err(AskError::Failed(AskFailure::TimeoutBuffered)));
    assert_eq!(journal.instances(), [], "somebody else has the lease");
    keeper.release(lease, &stranger).expect("it can be asked");
    count::<A>(&there).await;
    assert_eq!(here.is_running_here().await, Ok(true));
    assert_eq!(kept(&stranger, LONG), None, "this node holds it");
    let left = within::<A, _>("the node has left", one.leave()).await;
    assert!(left.is_ok_and(|left| left.is_graceful()));
    let (node, _, _) = count::<A>(&there).await;
    assert_eq!(node, other.address().to_string());
    assert_eq!(journal.instances().len(), 2);
}

/// A node without the role reaches what others host, also when it comes later.
pub async fn a_node_without_the_role_reaches_a_singleton<A: Adapter>(security: &Security) {
    let journal = InstanceJournal::default();
    // The oldest of all has no part in it.
    let front = first::<A>(node::<A>(security)).await;
    let back = joined_as::<A>(node::<A>(security).role("backend"), front.address().address()).await;
    all_up::<A>(&front, 2).await;
    let started = back
        .singleton("billing")
        .role("backend")
        .start(make(&journal))
        .await;
    started.expect("it is started");
    let late = joined::<A>(back.address().address(), security).await;
    for node in [&front, &late] {
        let proxy = node
            .singleton("billing")
            .role("backend")
            .proxy::<BillingOrder, Receipt>();
        let proxy = proxy.await.expect("it is registered");
        assert_eq!(count::<A>(&proxy).await.0, back.address().to_string());
        assert_eq!(
            proxy.stop().timeout(SHORT).await,
            refused(SingletonCommandError::NotHosted)
        );
    }
    assert_eq!(journal.instances().len(), 1);
}
