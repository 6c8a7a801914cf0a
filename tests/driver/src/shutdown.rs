//! How nodes end: one in phases with its application's tasks, a whole cluster in good order. Spec: membership
//! 2.9, 2.12, sharding 10.12, `docs/shutdown.md`.

use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use quorate_core::config::Config;
use quorate_core::effect::{CommandError, HaltReason, MembershipCommandError};
use quorate_core::event::Event;
use quorate_core::membership::member::Status;
use quorate_driver::spi::{Adapter, Runtime};
use quorate_driver::{
    Cluster, ClusterError, ClusterEvent, Entity, EntityContext, Events, Kind, Security, ShutdownPhase,
    Termination,
    events::ShutdownEvent,
    shutdown::{SHUTDOWN_TASKS_MAX, ShutdownCause, ShutdownError, TaskFailure},
};

use quorate_conformance::billing::{InstanceJournal, billing, count, is_here};
use quorate_conformance::moves::is_move;
use quorate_conformance::support::{
    all_up, cluster, cluster_with, eventually, first, living_on, node, notebooks, read, runtime, sleep,
    until, within,
};

const NODES: usize = 5;

/// What began or moved anywhere since the events were asked for, as a node has told it. Waits for its end.
async fn begun<A: Adapter>(mut events: Events) -> Vec<Event> {
    let mut begun = Vec::new();
    within::<A, _>("the node ends", async {
        while let Some(event) = events.next().await {
            let ClusterEvent::Event(event) = event else {
                continue;
            };
            if is_move(&event) {
                begun.push(event);
            }
        }
    })
    .await;
    begun
}

fn leave_all<A: Adapter>(nodes: &[Cluster]) {
    for node in nodes {
        let node = node.clone();
        runtime::<A>().spawn(async move {
            let _ = node.leave().await;
        });
    }
}

/// Whoever prepares hears when all are ready; then all leave at once, and nothing moves and nothing begins
/// anywhere.
pub async fn m_220_five_nodes_prepare_and_stop_together_without_a_hand_over<A: Adapter>(security: &Security) {
    let outside: Cluster = node::<A>(security).start().await.expect("the node starts");
    let not_a_member = CommandError::Membership(MembershipCommandError::NotAMember);
    assert_eq!(
        outside.prepare_for_shutdown().await,
        Err(ClusterError::Refused(not_a_member))
    );
    outside.stop().await;

    let (nodes, journal) = (cluster::<A>(NODES, security).await, InstanceJournal::default());
    let (mut regions, mut handles) = (Vec::new(), Vec::new());
    for node in &nodes {
        regions.push(notebooks(node).await);
        handles.push(billing(node, &journal).await);
    }
    for node in &nodes {
        living_on::<A>(&regions[0], node.address()).await;
    }
    is_here::<A>(&handles[0]).await;
    count::<A>(&handles[3]).await;

    let prepared = within::<A, _>("all are ready", nodes[2].prepare_for_shutdown()).await;
    assert_eq!(prepared, Ok(()));
    let statuses = nodes[2].members();
    assert!(
        statuses
            .iter()
            .all(|member| member.status == Status::ReadyForShutdown),
        "{statuses:?}"
    );
    for node in &nodes {
        until::<A>(node, "everybody knows", |view| view.is_ready_for_shutdown()).await;
    }
    let told: Vec<Events> = nodes.iter().map(Cluster::events).collect();
    leave_all::<A>(&nodes);
    for (node, events) in nodes.iter().zip(told) {
        assert_eq!(begun::<A>(events).await, [], "{}", node.address());
        let ended = node.terminated().await;
        assert!(ended.is_graceful(), "{ended:?}");
        assert_eq!(node.prepare_for_shutdown().await, Err(ClusterError::Stopped));
    }
    assert_eq!(journal.instances().len(), 1);
}

/// What ran, in its order.
#[derive(Clone, Debug, Default)]
struct Diary(Arc<Mutex<Vec<String>>>);

impl Diary {
    fn note(&self, what: impl ToString) {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lines.push(what.to_string());
    }

    fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn has(&self, what: &str) -> bool {
        self.lines().iter().any(|line| line == what)
    }
}

/// Every phase has a task that notes when it begins and, a moment later, when it ends.
fn tasks_in_all_phases<A: Adapter>(node: &Cluster, diary: &Diary) {
    for phase in ShutdownPhase::ALL {
        let diary = diary.clone();
        let task = move || async move {
            diary.note(format_args!("{phase} begins"));
            sleep::<A>(Duration::from_millis(5)).await;
            diary.note(format_args!("{phase} ends"));
        };
        node.on_shutdown(phase, task).expect("nothing has begun");
    }
}

/// The events of a node's end, until its last.
async fn told<A: Adapter>(mut events: Events) -> Vec<ShutdownEvent> {
    let mut told = Vec::new();
    within::<A, _>("the node ends", async {
        while let Some(event) = events.next().await {
            if let ClusterEvent::Shutdown(event) = event {
                told.push(event);
            }
        }
    })
    .await;
    told
}

fn begun_phases(told: &[ShutdownEvent]) -> Vec<ShutdownPhase> {
    let begun = told.iter().filter_map(|event| {
        if let ShutdownEvent::PhaseBegun { phase } = event {
            return Some(*phase);
        }
        None
    });
    begun.collect()
}

fn in_order() -> Vec<String> {
    let lines = ShutdownPhase::ALL.into_iter();
    lines
        .flat_map(|phase| [format!("{phase} begins"), format!("{phase} ends")])
        .collect()
}

/// Takes its time to stop.
struct Slow<A>(PhantomData<fn() -> A>);

impl<A: Adapter> Entity for Slow<A> {
    type Message = ();
    type Reply = ();

    async fn handle(&mut self, _: &EntityContext, (): ()) {}

    async fn on_stop(&mut self, _: &EntityContext) {
        sleep::<A>(Duration::from_millis(300)).await;
    }
}

/// Entities that take their time to stop, on all nodes.
async fn slow_ones<A: Adapter>(nodes: &[Cluster]) {
    for node in nodes {
        let region = node
            .entities(Kind::new("slow").shards(16))
            .start(|_| Slow::<A>(PhantomData));
        let region = region.await.expect("the kind is registered");
        for number in 0..32 {
            let entity = region.entity(format!("n-{number}"));
            entity.ask(()).await.expect("it is answered");
        }
    }
}

/// A node leaves: the phases follow each other, none begins before the tasks of the one before have ended,
/// entities are handed over after `before-cluster-shutdown`, the node has ended before `before-process-end`,
/// and whoever waits hears after the last.
pub async fn the_phases_of_a_node_that_leaves_follow_each_other<A: Adapter>(security: &Security) {
    let (nodes, diary) = (cluster::<A>(2, security).await, Diary::default());
    let mut regions = Vec::new();
    for node in &nodes {
        regions.push(notebooks(node).await);
    }
    slow_ones::<A>(&nodes).await;
    let leaver = &nodes[0];
    let id = living_on::<A>(&regions[1], leaver.address()).await;
    tasks_in_all_phases::<A>(leaver, &diary);
    let (home, region) = (Diary::default(), regions[1].clone());
    let (asks, of) = (home.clone(), id.clone());
    let last_look = move || async move { asks.note(read::<A>(&region, &of).await.0) };
    let added = leaver.on_shutdown_named(ShutdownPhase::BeforeClusterShutdown, "last look", last_look);
    assert_eq!(added, Ok(()));
    // Where the node's own work stands: the shards are gone, the singleton is not.
    let handles = [
        billing(leaver, &InstanceJournal::default()).await,
        billing(&nodes[1], &InstanceJournal::default()).await,
    ];
    is_here::<A>(&handles[0]).await;
    let (notes, runs) = (home.clone(), leaver.clone());
    let counts = move || async move {
        let kinds = runs.sharding_state().await.expect("the node runs");
        let shards: usize = kinds.iter().map(|kind| kind.region.hosted.len()).sum();
        let singletons = runs.stats().await.expect("the node runs").host.singletons;
        notes.note(format_args!("{shards} shards, {singletons} singletons"));
    };
    leaver
        .on_shutdown(ShutdownPhase::ClusterLeave, counts)
        .expect("nothing has begun");
    let (statuses, weak) = (home.clone(), nodes[1].clone());
    let me = leaver.address().clone();
    let look = move || async move {
        until::<A>(&weak, "it is gone", |view| view.member(&me).is_none()).await;
        statuses.note("gone");
    };
    leaver
        .on_shutdown(ShutdownPhase::BeforeProcessEnd, look)
        .expect("nothing has begun");
    let events = leaver.events();
    let left = within::<A, _>("the node has left", leaver.shutdown()).await;
    assert_eq!(left, Termination::Halted(HaltReason::Left));
    assert_eq!(diary.lines(), in_order());
    let address = leaver.address().to_string();
    assert_eq!(home.lines(), [&address, "0 shards, 1 singletons", "gone"]);
    let told = told::<A>(events).await;
    let cause = ShutdownCause::Asked;
    assert_eq!(told.first(), Some(&ShutdownEvent::Begun { cause }));
    assert_eq!(
        (begun_phases(&told).as_slice(), told.len()),
        (&ShutdownPhase::ALL[..], 13)
    );
    assert_ne!(read::<A>(&regions[1], &id).await.0, leaver.address().to_string());
    // Again, it is the same end.
    assert_eq!(leaver.leave().await, Ok(left));
    assert_eq!(diary.lines().len(), 24);
    let late = leaver.on_shutdown(ShutdownPhase::ProcessEnd, || async {});
    let phase = ShutdownPhase::ProcessEnd;
    assert_eq!(late, Err(ShutdownError::TooLate { phase }));
}

/// Another member has a node leave: its phases run all the same, and nothing of it is handed over before they
/// say so.
pub async fn a_node_that_is_made_to_leave_runs_its_phases<A: Adapter>(security: &Security) {
    let (nodes, diary) = (cluster::<A>(2, security).await, Diary::default());
    let regions = [notebooks(&nodes[0]).await, notebooks(&nodes[1]).await];
    let id = living_on::<A>(&regions[0], nodes[1].address()).await;
    tasks_in_all_phases::<A>(&nodes[1], &diary);
    let (still, region, of) = (diary.clone(), regions[0].clone(), id.clone());
    let asks = move || async move {
        let home = read::<A>(&region, &of).await.0;
        still.note(home);
    };
    let added = nodes[1].on_shutdown(ShutdownPhase::ServiceRequestsDone, asks);
    assert_eq!(added, Ok(()));
    let events = nodes[1].events();
    nodes[0]
        .leave_member(nodes[1].address().address())
        .await
        .expect("it is a member");
    let left = within::<A, _>("it has left", nodes[1].terminated()).await;
    assert_eq!(left, Termination::Halted(HaltReason::Left));
    let mut lines = diary.lines();
    assert!(diary.has(&nodes[1].address().to_string()), "{lines:?}");
    lines.retain(|line| line.contains(' '));
    assert_eq!(lines, in_order());
    let cause = ShutdownCause::MadeToLeave;
    assert_eq!(
        told::<A>(events).await.first(),
        Some(&ShutdownEvent::Begun { cause })
    );
}

/// A node that is downed ends at once and then runs all of its tasks, waiting for nobody else.
pub async fn a_node_that_is_downed_runs_its_tasks_without_waiting<A: Adapter>(security: &Security) {
    fn patient(config: &mut Config) {
        config.shutdown.cluster_sharding_shutdown_region_timeout = Duration::from_secs(50);
        config.shutdown.cluster_exiting_timeout = Duration::from_secs(50);
        config.shutdown.cluster_leave_timeout = Duration::from_secs(50);
    }
    let nodes = cluster_with::<A>(3, security, patient).await;
    let (region, diary) = (notebooks(&nodes[0]).await, Diary::default());
    let _others = [notebooks(&nodes[1]).await, notebooks(&nodes[2]).await];
    living_on::<A>(&region, nodes[2].address()).await;
    tasks_in_all_phases::<A>(&nodes[2], &diary);
    let removed = diary.clone();
    let added = nodes[2].on_removed(move || async move { removed.note("removed") });
    assert_eq!(added, Ok(()));
    let events = nodes[2].events();
    let begun = runtime::<A>().now().mono;
    nodes[0].down(nodes[2].address()).await.expect("it is a member");
    let ended = within::<A, _>("it has ended", nodes[2].terminated()).await;
    assert_eq!(ended, Termination::Halted(HaltReason::Downed));
    assert_eq!(ended.exit_code(), 255);
    let took = runtime::<A>().now().mono.since(begun);
    assert!(took < Duration::from_secs(40), "{took:?}");
    let mut lines = diary.lines();
    assert!(diary.has("removed"), "{lines:?}");
    lines.retain(|line| line != "removed");
    assert_eq!(lines, in_order());
    let cause = ShutdownCause::Ended(ended);
    assert_eq!(
        told::<A>(events).await.first(),
        Some(&ShutdownEvent::Begun { cause })
    );
}

/// A task that hangs is given up when its phase's limit has passed, one that panics is named too; both by
/// their names, and the others of the phase, the next phases and the departure go on.
pub async fn tasks_that_hang_or_panic_are_named_and_the_rest_goes_on<A: Adapter>(security: &Security) {
    fn brief(config: &mut Config) {
        config.shutdown.service_stop_timeout = Duration::from_millis(300);
        config.shutdown.cluster_exiting_timeout = Duration::from_millis(5_300);
    }
    let (nodes, diary) = (cluster_with::<A>(2, security, brief).await, Diary::default());
    let leaver = &nodes[1];
    let stop = ShutdownPhase::ServiceStop;
    let add = |name: &str, task: fn(Diary) -> Work| {
        let diary = diary.clone();
        let added = leaver.on_shutdown_named(stop, name, move || task(diary));
        assert_eq!(added, Ok(()));
    };
    add("hangs", |_| Box::pin(std::future::pending()));
    add("panics", |_| Box::pin(async { panic!("as it was told to") }));
    add("works", |diary| Box::pin(async move { diary.note("worked") }));
    let not_made = || -> std::future::Ready<()> { panic!("as it was told to") };
    leaver.on_shutdown(stop, not_made).expect("nothing has begun");
    let last = diary.clone();
    let task = move || async move { last.note("last") };
    leaver
        .on_shutdown(ShutdownPhase::ProcessEnd, task)
        .expect("nothing has begun");
    // Also where the node itself has something to do.
    leaver
        .on_shutdown_named(ShutdownPhase::ClusterExiting, "hangs too", std::future::pending)
        .expect("nothing has begun");
    let events = leaver.events();
    let ended = within::<A, _>("it has left", leaver.shutdown()).await;
    assert_eq!((ended.is_graceful(), ended.exit_code()), (true, 0));
    assert_eq!(diary.lines(), ["worked", "last"]);
    let told = told::<A>(events).await;
    assert_eq!(begun_phases(&told), ShutdownPhase::ALL);
    let failure = |name: &str| {
        let mut failures = told.iter().filter_map(|event| {
            if let ShutdownEvent::TaskFailed { phase, task, failure } = event
                && &**task == name
            {
                return Some((*phase, *failure));
            }
            None
        });
        (failures.next(), failures.count())
    };
    let after = |millis| TaskFailure::GivenUp {
        after: Duration::from_millis(millis),
    };
    assert_eq!(failure("hangs"), (Some((stop, after(300))), 0));
    assert_eq!(failure("panics"), (Some((stop, TaskFailure::Panicked)), 0));
    assert_eq!(failure("task 4"), (Some((stop, TaskFailure::Panicked)), 0));
    let exiting = ShutdownPhase::ClusterExiting;
    assert_eq!(failure("hangs too"), (Some((exiting, after(5_300))), 0));
    assert_eq!(failure("works"), (None, 0));
    all_up::<A>(&nodes[0], 1).await;
}

type Work = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

/// Callbacks about a node's life are called once each: when it is Up, when it is no member any more; at once
/// if that has been.
pub async fn a_node_calls_back_when_it_is_up_and_when_it_is_removed<A: Adapter>(security: &Security) {
    let diary = Diary::default();
    let note = |what: &'static str| {
        let diary = diary.clone();
        move || async move { diary.note(what) }
    };
    let lone: Cluster = node::<A>(security).start().await.expect("the node starts");
    assert_eq!(lone.on_up(note("up")), Ok(()));
    assert_eq!(lone.on_removed(note("removed")), Ok(()));
    sleep::<A>(Duration::from_millis(50)).await;
    assert_eq!(diary.lines(), Vec::<String>::new());
    lone.join([lone.address().address()])
        .await
        .expect("it joins itself");
    within::<A, _>("it is up", lone.up()).await.expect("it is up");
    eventually::<A>("it is told", async || diary.has("up")).await;
    assert_eq!(lone.on_up(note("up already")), Ok(()));
    eventually::<A>("it is told at once", async || diary.has("up already")).await;
    // At once, without a phase, and still with a word.
    assert_eq!(lone.stop().await, Termination::Stopped);
    assert_eq!(diary.lines(), ["up", "up already", "removed"]);
    assert_eq!(lone.on_removed(note("removed already")), Ok(()));
    eventually::<A>("it is told at once", async || diary.has("removed already")).await;

    let never: Cluster = node::<A>(security).start().await.expect("the node starts");
    never.on_up(note("never")).expect("there is room");
    never.on_removed(note("ended")).expect("there is room");
    let ended = within::<A, _>("it ends", never.shutdown()).await;
    assert_eq!(ended, Termination::Halted(HaltReason::Left));
    assert_eq!(diary.lines().len(), 5);
    assert!(diary.has("ended"));
}

/// A node that is stopped at once runs no task, and one that has begun is cut short; tasks are bounded.
pub async fn a_node_that_is_stopped_runs_no_task<A: Adapter>(security: &Security) {
    let diary = Diary::default();
    let stopped = first::<A>(node::<A>(security)).await;
    tasks_in_all_phases::<A>(&stopped, &diary);
    assert_eq!(stopped.stop().await, Termination::Stopped);
    assert_eq!(diary.lines(), Vec::<String>::new());
    let phase = ShutdownPhase::ServiceStop;
    let late = stopped.on_shutdown(phase, || async {});
    assert_eq!(late, Err(ShutdownError::TooLate { phase }));

    let cut = first::<A>(node::<A>(security)).await;
    tasks_in_all_phases::<A>(&cut, &diary);
    cut.on_shutdown_named(ShutdownPhase::ServiceUnbind, "hangs", std::future::pending)
        .expect("nothing has begun");
    let (events, leaves) = (cut.events(), cut.clone());
    runtime::<A>().spawn(async move {
        let _ = leaves.shutdown().await;
    });
    eventually::<A>("it hangs", async || diary.has("service-unbind ends")).await;
    assert_eq!(within::<A, _>("it stops", cut.stop()).await, Termination::Stopped);
    assert_eq!(diary.lines().len(), 4, "{:?}", diary.lines());
    let told = told::<A>(events).await;
    let failed = ShutdownEvent::TaskFailed {
        phase: ShutdownPhase::ServiceUnbind,
        task: Arc::from("hangs"),
        failure: TaskFailure::CutShort,
    };
    assert_eq!(told.last(), Some(&failed));

    let full = first::<A>(node::<A>(security)).await;
    for _ in 0..SHUTDOWN_TASKS_MAX {
        full.on_shutdown(ShutdownPhase::ServiceStop, || async {})
            .expect("there is room");
        full.on_removed(|| async {}).expect("there is room");
    }
    let too_many = Err(ShutdownError::TooMany {
        max: SHUTDOWN_TASKS_MAX,
    });
    assert_eq!(
        full.on_shutdown(ShutdownPhase::ServiceUnbind, || async {}),
        too_many
    );
    assert_eq!(full.on_removed(|| async {}), too_many);
    let ended = within::<A, _>("it ends", full.shutdown()).await;
    assert!(ended.is_graceful(), "{ended:?}");
}
