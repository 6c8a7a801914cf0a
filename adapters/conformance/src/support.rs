//! What the tests share: nodes with the fast timings, and waiting for facts with a limit instead of sleeping
//! and hoping.

use std::future::Future;
use std::time::Duration;

use quorate_core::config::Config;
use quorate_core::event::{Event, MembershipEvent};
use quorate_core::ident::{Address, UniqueAddress};
use quorate_core::membership::events::MembershipChange;
use quorate_core::membership::member::Status;
use quorate_core::view::View;
use quorate_driver::spi::{Adapter, Runtime};
use quorate_driver::{
    AskError, Cluster, ClusterBuilder, ClusterEvent, Entity, EntityContext, Events, Kind, Region, Security,
    StartError,
    store::{Store, StoreScope},
};

/// Far beyond what any step takes, even on a machine that is busy with other tests.
const LIMIT: Duration = Duration::from_secs(60);

/// Between two looks at something that announces itself to nobody.
pub const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// The adapter's runtime.
pub fn runtime<A: Adapter>() -> A::Runtime {
    A::runtime().expect("the test runs in the adapter's runtime")
}

/// A transport without a node.
pub fn transport<A: Adapter>(security: &Security) -> A::Transport {
    A::transport(&runtime::<A>(), security).expect("the transport offers this security")
}

/// Waits by the adapter's clock.
pub async fn sleep<A: Adapter>(duration: Duration) {
    let runtime = runtime::<A>();
    runtime.sleep_until(runtime.now().mono + duration).await;
}

/// The future's value, which has to come within the limit.
pub async fn within<A: Adapter, T>(what: &str, future: impl Future<Output = T>) -> T {
    match race(future, sleep::<A>(LIMIT)).await {
        FirstReady::Left(value) => value,
        FirstReady::Right(()) => panic!("not within {LIMIT:?}: {what}"),
    }
}

/// Looks until it is so.
pub async fn eventually<A: Adapter>(what: &str, mut look: impl AsyncFnMut() -> bool) {
    within::<A, _>(what, async {
        while !look().await {
            sleep::<A>(LOOK_AGAIN).await;
        }
    })
    .await;
}

/// A node of the tests' cluster, on a free port, with the fast timings.
pub fn node<A: Adapter>(security: &Security) -> ClusterBuilder<Security> {
    ClusterBuilder::on::<A>("conformance")
        .bind("127.0.0.1:0")
        .security(security.clone())
        .fast_profile()
        .config(|config: &mut Config| {
            // Tests share the machine: forgive the pauses that this causes.
            config.failure_detector.acceptable_heartbeat_pause = Duration::from_secs(3);
        })
}

/// The same node with a store. One that no other node reads votes about logs, as one of so many.
pub fn keeping(
    builder: ClusterBuilder<Security>,
    store: impl Store,
    voters: usize,
) -> ClusterBuilder<Security> {
    let voters = match store.scope() {
        StoreScope::NodeLocal => voters,
        StoreScope::Shared => 0,
    };
    let voting = move |config: &mut Config| config.journal.voters = voters;
    builder.store(store).config(voting)
}

/// A cluster of one, Up.
pub async fn first<A: Adapter>(builder: ClusterBuilder<Security>) -> Cluster {
    let node = builder.start().await.expect("the first node starts");
    node.join([node.address().address()])
        .await
        .expect("it joins itself");
    within::<A, _>("the first node is up", node.up())
        .await
        .expect("it is up");
    node
}

/// One more node, Up.
pub async fn joined<A: Adapter>(seed: &Address, security: &Security) -> Cluster {
    joined_as::<A>(node::<A>(security), seed).await
}

/// One more node, described by its builder, Up.
pub async fn joined_as<A: Adapter>(builder: ClusterBuilder<Security>, seed: &Address) -> Cluster {
    let node = builder.seeds([seed]).start().await.expect("the node starts");
    if let Err(error) = within::<A, _>("a node that joins is up", node.up()).await {
        panic!("{error}: {:?}", node.terminated().await);
    }
    node
}

/// Starts a node at an address that another one has just left: a port may be free only a moment later.
pub async fn start_at<A: Adapter>(address: &Address, seed: &Address, security: &Security) -> Cluster {
    within::<A, _>("the port is free again", async {
        loop {
            match node::<A>(security).bind(address).seeds([seed]).start().await {
                Ok(node) => return node,
                Err(StartError::Bind { .. }) => sleep::<A>(LOOK_AGAIN).await,
                Err(error) => panic!("{error}"),
            }
        }
    })
    .await
}

/// So many nodes of one cluster, all Up.
pub async fn cluster<A: Adapter>(count: usize, security: &Security) -> Vec<Cluster> {
    cluster_with::<A>(count, security, |_| {}).await
}

/// The same, with a changed configuration.
pub async fn cluster_with<A: Adapter>(
    count: usize,
    security: &Security,
    change: fn(&mut Config),
) -> Vec<Cluster> {
    cluster_of::<A>(count, || node::<A>(security).config(change)).await
}

/// The same of nodes that are described so.
pub async fn cluster_of<A: Adapter>(
    count: usize,
    described: impl Fn() -> ClusterBuilder<Security>,
) -> Vec<Cluster> {
    let mut nodes = vec![first::<A>(described()).await];
    while nodes.len() < count {
        let seed = nodes.first().map(|node| node.address().address().clone());
        let seed = seed.expect("invariant: there is a first");
        nodes.push(joined_as::<A>(described(), &seed).await);
    }
    for node in &nodes {
        all_up::<A>(node, count).await;
    }
    nodes
}

/// Waits until the picture of a node is as wanted.
pub async fn until<A: Adapter>(node: &Cluster, what: &str, wanted: impl Fn(&View) -> bool) {
    let mut events = node.events();
    within::<A, _>(what, async {
        while !wanted(&node.view()) {
            assert!(events.next().await.is_some(), "the node ended: {:?}", node.view());
        }
    })
    .await;
}

/// Waits until so many members are Up in the picture of a node, and no others are in it.
pub async fn all_up<A: Adapter>(node: &Cluster, count: usize) {
    until::<A>(node, "all nodes are up", |view| {
        view.members().len() == count && view.members().iter().all(|member| member.status == Status::Up)
    })
    .await;
}

/// How often a member was found unreachable, in the events so far.
pub async fn suspected<A: Adapter>(events: &mut Events) -> usize {
    let mut count = 0;
    loop {
        match race(events.next(), sleep::<A>(Duration::from_millis(100))).await {
            FirstReady::Left(Some(ClusterEvent::Event(Event::Membership(MembershipEvent::Changed {
                change,
                ..
            })))) => {
                count += usize::from(matches!(change, MembershipChange::Unreachable(_)));
            }
            FirstReady::Left(Some(_)) => {}
            FirstReady::Left(None) | FirstReady::Right(()) => return count,
        }
    }
}

/// Notes what it is told, and says where it lives and how it was told.
#[derive(Debug)]
pub struct Notebook {
    node: UniqueAddress,
    pages: Vec<u32>,
}

/// The kind of [`Notebook`], as a node reaches it.
pub type Notebooks = Region<Vec<u32>, (String, Vec<u32>)>;

impl Entity for Notebook {
    type Message = Vec<u32>;
    type Reply = (String, Vec<u32>);

    async fn handle(&mut self, _: &EntityContext, pages: Vec<u32>) -> (String, Vec<u32>) {
        self.pages.extend(pages);
        (self.node.to_string(), self.pages.clone())
    }
}

/// Registers the kind on a node.
pub async fn notebooks(node: &Cluster) -> Notebooks {
    let me = node.address().clone();
    let make = move |_: EntityContext| Notebook {
        node: me.clone(),
        pages: Vec::new(),
    };
    let kind = Kind::new("notebook").shards(16);
    node.entities(kind)
        .start(make)
        .await
        .expect("the kind is registered")
}

/// Where an entity lives and what it was told. Asks again while shards move.
pub async fn read<A: Adapter>(region: &Notebooks, id: &str) -> (String, Vec<u32>) {
    within::<A, _>("an answer", async {
        loop {
            match region
                .entity(id)
                .ask(Vec::new())
                .timeout(Duration::from_secs(2))
                .await
            {
                Ok(answer) => return answer,
                Err(AskError::Failed(_)) => sleep::<A>(LOOK_AGAIN).await,
                Err(error) => panic!("{error}"),
            }
        }
    })
    .await
}

/// An entity that lives on this node. Looks among many: shards spread over all nodes in time.
pub async fn living_on<A: Adapter>(region: &Notebooks, node: &UniqueAddress) -> String {
    let node = node.to_string();
    within::<A, _>("an entity on every node", async {
        loop {
            for number in 0..64 {
                let id = format!("n-{number}");
                if read::<A>(region, &id).await.0 == node {
                    return id;
                }
            }
        }
    })
    .await
}

/// Which of two futures was ready first.
pub enum FirstReady<A, B> {
    /// The left one.
    Left(A),
    /// The right one.
    Right(B),
}

/// The first of two futures that is ready; the left one if both are.
pub async fn race<A, B>(left: impl Future<Output = A>, right: impl Future<Output = B>) -> FirstReady<A, B> {
    let left = async { FirstReady::Left(left.await) };
    futures_lite::future::or(left, async { FirstReady::Right(right.await) }).await
}

/// Both, whichever ends first.
pub async fn both<T, U>(one: impl Future<Output = T>, other: impl Future<Output = U>) -> (T, U) {
    futures_lite::future::zip(one, other).await
}
