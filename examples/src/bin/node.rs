//! One node of a cluster, to be run by hand in several terminals. Prints one line per event and leaves
//! gracefully when the system asks it to end.
#![forbid(unsafe_code)]

use std::fmt::Display;
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;

use lexopt::prelude::*;
use quorate_core::membership::events::diff;
use quorate_tokio::{Address, Event, View, events::MembershipEvent, membership::MembershipChange};
use quorate_tokio::{Cluster, ClusterEvent, Events, Security};
use tokio::signal::unix::{Signal, SignalKind, signal};

const HELP: &str = "\
Runs one node of a cluster and prints what it sees, one line per event:
joining, up, unreachable, reachable, leaving, exiting, down, removed or leader, then the address.

Usage: node [OPTIONS]

Options:
      --bind HOST:PORT  where to listen (default 127.0.0.1:2551; port 0 lets the system choose)
      --seed HOST:PORT  a node to join through; may be repeated. Give the same seeds in the same
                        order to every node: the first of them forms the cluster if no other
                        answers (default: the node's own address, a cluster of one)
      --role ROLE       a role of this node; may be repeated
      --cluster NAME    the cluster's name (default quorate)
      --fast            timings for one machine: a lost node is noticed within seconds
  -h, --help            print this

SIGUSR1 makes the node say on standard output why the cluster has not converged: who keeps the leader
from acting, who finds whom unreachable, what each member waits for.
Ctrl-C or SIGTERM makes the node leave, a second one ends it at once. Links are neither
authenticated nor encrypted: use it on loopback or on a network you trust. RUST_LOG=debug says
more on standard error.
";

#[derive(Debug)]
struct Options {
    bind: String,
    seeds: Vec<Address>,
    roles: Vec<String>,
    cluster: String,
    fast: bool,
}

fn main() -> ExitCode {
    let options = match parse() {
        Ok(Some(options)) => options,
        Ok(None) => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Err(error) => return fail(format_args!("{error}; try --help")),
    };
    quorate_demo::log::at_least("warn");
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    match runtime {
        Ok(runtime) => runtime.block_on(run(options)),
        Err(error) => fail(error),
    }
}

fn parse() -> Result<Option<Options>, lexopt::Error> {
    let mut options = Options {
        bind: "127.0.0.1:2551".to_owned(),
        seeds: Vec::new(),
        roles: Vec::new(),
        cluster: "quorate".to_owned(),
        fast: false,
    };
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Short('h') | Long("help") => return Ok(None),
            Long("bind") => options.bind = parser.value()?.string()?,
            Long("seed") => options.seeds.push(parser.value()?.parse()?),
            Long("role") => options.roles.push(parser.value()?.string()?),
            Long("cluster") => options.cluster = parser.value()?.string()?,
            Long("fast") => options.fast = true,
            Short(_) | Long(_) | Value(_) => return Err(argument.unexpected()),
        }
    }
    Ok(Some(options))
}

async fn run(options: Options) -> ExitCode {
    let mut builder = quorate_tokio::builder(options.cluster).bind(options.bind);
    if options.fast {
        builder = builder.fast_profile();
    }
    for role in options.roles {
        builder = builder.role(role);
    }
    let cluster = match builder.security(Security::insecure_plaintext()).start().await {
        Ok(cluster) => cluster,
        Err(error) => return fail(error),
    };
    // Before the first line is printed: until then the signal would end the process.
    let asked = match signal(SignalKind::user_defined1()) {
        Ok(asked) => asked,
        Err(error) => return fail(error),
    };
    // Listening to events before joining: nothing is missed.
    let printing = tokio::spawn(print_events(
        cluster.events(),
        View::idle(cluster.address().clone()),
    ));
    let joined = if options.seeds.is_empty() {
        cluster.form().await
    } else {
        cluster.join(&options.seeds).await
    };
    if let Err(error) = joined {
        return fail(error);
    }
    let explaining = tokio::spawn(explain_on_signal(asked, cluster.clone()));
    let terminated = cluster.run_until_signal().await;
    explaining.abort();
    let termination = match terminated {
        Ok(termination) => termination,
        Err(error) => return fail(error),
    };
    // The stream ends with the node; what it still holds is printed first.
    let _ = printing.await;
    if !termination.is_graceful() {
        eprintln!("node: ended without leaving: {termination:?}");
    }
    ExitCode::from(termination)
}

/// Prints an explanation for every SIGUSR1.
async fn explain_on_signal(mut asked: Signal, cluster: Cluster) {
    while asked.recv().await.is_some() {
        let Ok(explanation) = cluster.explain().await else {
            return;
        };
        let mut out = std::io::stdout().lock();
        let _ = writeln!(out, "{explanation}");
        let _ = out.flush();
    }
}

async fn print_events(mut events: Events, idle: View) {
    let mut last = Arc::new(idle);
    while let Some(event) = events.next().await {
        match event {
            ClusterEvent::Event(Event::Membership(MembershipEvent::Changed { change, view })) => {
                print(&change);
                last = view;
            }
            // What happened meanwhile is the difference between the pictures.
            ClusterEvent::Snapshot(view) | ClusterEvent::Resync(view) => {
                diff(last.gossip(), view.gossip(), view.me())
                    .iter()
                    .for_each(print);
                last = view;
            }
            // The last one is what a later version tells.
            ClusterEvent::Event(_) | ClusterEvent::Terminated(_) | ClusterEvent::Shutdown(_) | _ => {}
        }
    }
}

fn print(change: &MembershipChange) {
    let (word, node) = match change {
        MembershipChange::Joined(member) => ("joining", &member.node),
        MembershipChange::WeaklyUp(member) => ("weakly-up", &member.node),
        MembershipChange::Up(member) => ("up", &member.node),
        MembershipChange::Unreachable(member) => ("unreachable", &member.node),
        MembershipChange::Reachable(member) => ("reachable", &member.node),
        MembershipChange::Left(member) => ("leaving", &member.node),
        MembershipChange::Exited(member) => ("exiting", &member.node),
        MembershipChange::Downed(member) => ("down", &member.node),
        MembershipChange::Removed { member, .. } => ("removed", &member.node),
        MembershipChange::LeaderChanged(Some(leader)) => ("leader", leader),
        MembershipChange::LeaderChanged(_)
        | MembershipChange::TombstonesChanged
        | MembershipChange::PreparingForShutdown(_)
        | MembershipChange::ReadyForShutdown(_)
        | MembershipChange::RoleLeaderChanged { .. }
        | MembershipChange::SeenChanged { .. }
        | MembershipChange::ReachabilityChanged => return,
        // What a later version tells.
        _ => return,
    };
    let mut out = std::io::stdout().lock();
    // Nobody may be listening; the node goes on.
    let _ = writeln!(out, "{word} {}", node.address());
    let _ = out.flush();
}

fn fail(error: impl Display) -> ExitCode {
    eprintln!(
        "node: {}",
        error.to_string().lines().collect::<Vec<_>>().join(" ")
    );
    ExitCode::from(2)
}
