//! What runs in the processes that the tests start: a node, or two, that says on standard output what happens
//! to it, a line each. Ends the process with the code that `Termination::exit_code` gives.

use std::io::Write;
use std::time::Duration;

use async_channel::Receiver;
use quorate_core::config::Config;
use quorate_core::ident::Address;
use quorate_driver::spi::{Adapter, Runtime};
use quorate_driver::{
    Cluster, ClusterBuilder, ClusterEvent, Security, ShutdownPhase, Termination, events::ShutdownEvent,
};

use crate::billing::{InstanceJournal, billing};
use crate::moves::is_move;
use crate::support::{
    LOOK_AGAIN, all_up, first, joined_as, living_on, node, notebooks, runtime, sleep, until,
};

/// Far beyond what a test waits for.
const FOREVER: Duration = Duration::from_secs(3_600);

/// Limits of phases that hang, and of the whole.
const BRIEF: Duration = Duration::from_millis(400);

/// How long a member may be stopped and is none the less one.
const STOPPED_MAX: Duration = Duration::from_secs(300);

/// What a survey is given, and far more than it may take then.
const SURVEY: Duration = Duration::from_secs(3);
const LATE: Duration = Duration::from_secs(20);

/// Entities whose places are said: enough for some on every node.
const EXPLAINED: usize = 24;

/// Members of a cluster of processes.
pub(super) const FIVE: usize = 5;

fn say(line: impl std::fmt::Display) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}");
    let _ = out.flush();
}

/// Does what the test wants, and ends the process.
pub async fn run_child<A: Adapter>(script: &str, security: &Security) {
    // What the test program prints itself has no end of line.
    say("");
    let (script, argument) = script.split_once(' ').unwrap_or((script, ""));
    let builder = node::<A>(security);
    let termination = match script {
        "orderly" => alone::<A>(builder, |_| {}).await,
        "hangs" => {
            let patient = |config: &mut Config| config.shutdown.service_stop_timeout = FOREVER;
            hangs::<A>(builder.config(patient)).await
        }
        "limited" => {
            let limited = |config: &mut Config| {
                config.shutdown.service_stop_timeout = FOREVER;
                config.shutdown.after_signal_timeout = BRIEF;
            };
            hangs::<A>(builder.config(limited)).await
        }
        "given-up" => {
            let brief = |config: &mut Config| config.shutdown.service_stop_timeout = BRIEF;
            hangs::<A>(builder.config(brief)).await
        }
        "lingers" => {
            alone::<A>(builder, |_| {}).await;
            say("lingers");
            std::future::pending().await
        }
        "downed" => downed::<A>(builder, security).await,
        "member" => member::<A>(builder, argument).await,
        "surveyed" => surveyed::<A>(builder, argument).await,
        other => panic!("no such script: {other}"),
    };
    say(format_args!("ended {termination:?}"));
    std::process::exit(i32::from(termination.exit_code()));
}

/// Says what happens to the node's phases. What is returned is closed when all is said.
fn narrate<A: Adapter>(node: &Cluster) -> Receiver<()> {
    let mut events = node.events();
    let (all_said, said) = async_channel::bounded(1);
    runtime::<A>().spawn(async move {
        while let Some(event) = events.next().await {
            let ClusterEvent::Shutdown(event) = event else {
                continue;
            };
            if let ShutdownEvent::PhaseBegun { phase } = &event {
                say(format_args!("phase {phase}"));
            } else if let ShutdownEvent::TaskFailed { phase, task, failure } = &event {
                say(format_args!("failed {phase} {task} {failure:?}"));
            } else {
                say(event);
            }
        }
        all_said.close();
    });
    said
}

fn tasks_in_all_phases(node: &Cluster) {
    for phase in ShutdownPhase::ALL {
        let task = move || async move { say(format_args!("task {phase}")) };
        node.on_shutdown(phase, task).expect("nothing has begun");
    }
}

async fn until_signal(node: &Cluster) -> Termination {
    let mut running = Box::pin(node.run_until_signal());
    // From its first look on it listens: before that a signal would end the process.
    let ended = futures_lite::future::poll_once(running.as_mut()).await;
    say("ready");
    let ended = match ended {
        Some(ended) => ended,
        None => running.await,
    };
    ended.expect("there are signals")
}

/// The same, and lets everything be said, unless the process is to end at once.
async fn until_all_is_said(node: &Cluster, said: &Receiver<()>) -> Termination {
    let termination = until_signal(node).await;
    if !matches!(termination, Termination::Signalled(_)) {
        // Nothing is ever sent: the error says that it is closed.
        let _ = said.recv().await;
    }
    termination
}

/// A cluster of one with a task in every phase.
async fn alone<A: Adapter>(builder: ClusterBuilder<Security>, prepare: impl FnOnce(&Cluster)) -> Termination {
    let node = first::<A>(builder).await;
    node.on_up(|| async { say("on_up") }).expect("there is room");
    node.on_removed(|| async { say("on_removed") })
        .expect("there is room");
    let said = narrate::<A>(&node);
    tasks_in_all_phases(&node);
    prepare(&node);
    until_all_is_said(&node, &said).await
}

/// The same with a task that hangs and one that panics.
async fn hangs<A: Adapter>(builder: ClusterBuilder<Security>) -> Termination {
    let prepare = |node: &Cluster| {
        let hangs = || async {
            say("it hangs");
            std::future::pending().await
        };
        let added = node.on_shutdown_named(ShutdownPhase::ServiceStop, "hangs", hangs);
        added.expect("nothing has begun");
        let panics = || async { panic!("as it was told to") };
        let added = node.on_shutdown_named(ShutdownPhase::ServiceStop, "panics", panics);
        added.expect("nothing has begun");
    };
    alone::<A>(builder, prepare).await
}

/// Two nodes in one process; the second is downed by the first.
async fn downed<A: Adapter>(builder: ClusterBuilder<Security>, security: &Security) -> Termination {
    let other = first::<A>(node::<A>(security)).await;
    let node = joined_as::<A>(builder, other.address().address()).await;
    all_up::<A>(&other, 2).await;
    let said = narrate::<A>(&node);
    tasks_in_all_phases(&node);
    node.on_removed(|| async { say("on_removed") })
        .expect("there is room");
    other.down(node.address()).await.expect("it is a member");
    let termination = until_all_is_said(&node, &said).await;
    other.stop().await;
    termination
}

async fn first_or_joined<A: Adapter>(builder: ClusterBuilder<Security>, seed: &str) -> Cluster {
    let node = match seed {
        "" => first::<A>(builder).await,
        seed => {
            let seed: Address = seed.parse().expect("the parent has read it");
            joined_as::<A>(builder, &seed).await
        }
    };
    say(format_args!("address {}", node.address().address()));
    node
}

/// One of five; it says what hosts a kind and where some entities are whenever that is something else, until
/// it is killed.
async fn surveyed<A: Adapter>(builder: ClusterBuilder<Security>, seed: &str) -> Termination {
    // Who is stopped is a member for longer than a test waits: it is asked, and says nothing.
    let builder = builder.config(|config| config.failure_detector.acceptable_heartbeat_pause = STOPPED_MAX);
    let node = first_or_joined::<A>(builder, seed).await;
    all_up::<A>(&node, FIVE).await;
    let region = notebooks(&node).await;
    let entities: Vec<_> = (0..EXPLAINED)
        .map(|number| region.entity(format!("explained-{number}")))
        .collect();
    let mut shown = String::new();
    loop {
        let begun = runtime::<A>().now().mono;
        let survey = region.stats().timeout(SURVEY).await.expect("the node runs");
        let took = runtime::<A>().now().mono.since(begun);
        if took > LATE {
            say(format_args!("late {took:?}"));
        }
        let silent: Vec<String> = survey
            .silent
            .iter()
            .map(|node| node.address().to_string())
            .collect();
        let found = survey.regions.values().flatten().count();
        let mut line = format!(
            "survey {found} regions, silent [{}]; explained",
            silent.join(", ")
        );
        for entity in &entities {
            // Whoever speaks to an entity first has its shard given a home; from then on everybody says the
            // same.
            entity.tell(&Vec::new()).await.expect("the node runs");
            let why = entity.explain().timeout(SURVEY).await.expect("the node runs");
            let coordinator = why.coordinator.map(|node| node.address().to_string());
            match why.placement {
                Some(placement) => line += &format!(" {placement:?}"),
                // Whoever is asked about one says nothing of the others either.
                None => {
                    line += &format!(" {} says nothing", coordinator.unwrap_or_default());
                    break;
                }
            }
        }
        if line != shown {
            say(&line);
            shown = line;
        }
        sleep::<A>(LOOK_AGAIN).await;
    }
}

/// One of five; the one that was started first prepares the cluster, once there is something to hand over
/// everywhere.
async fn member<A: Adapter>(builder: ClusterBuilder<Security>, seed: &str) -> Termination {
    let node = first_or_joined::<A>(builder, seed).await;
    all_up::<A>(&node, FIVE).await;
    let journal = InstanceJournal::default();
    let (region, _billing) = (notebooks(&node).await, billing(&node, &journal).await);
    if seed.is_empty() {
        for member in node.members() {
            living_on::<A>(&region, &member.node).await;
        }
        say("something lives everywhere");
        node.prepare_for_shutdown().await.expect("it is a member");
    }
    until::<A>(&node, "all are ready", |view| view.is_ready_for_shutdown()).await;
    watch_moves::<A>(&node);
    until_signal(&node).await
}

fn watch_moves<A: Adapter>(node: &Cluster) {
    let mut events = node.events();
    runtime::<A>().spawn(async move {
        while let Some(event) = events.next().await {
            let ClusterEvent::Event(event) = event else {
                continue;
            };
            if is_move(&event) {
                say(format_args!("moved {event}"));
            }
        }
    });
}
