//! Two hosts whose handlers hold every thread that their programs have, in real time: each node has an
//! executor with two threads of its own, as in a process of its own. Spec: issue 12 point 13,
//! `docs/downing.md`.

use crate::common;

use std::thread;
use std::time::{Duration, Instant};

use common::log::Log;
use common::{LIMIT, node};
use quorate_tokio::{Cluster, ClusterEvent, Entity, EntityContext, Events, Kind, Region, Termination};
use quorate_tokio::{
    Config, Event, HaltReason, Status, events::MembershipEvent, membership::MembershipChange,
};
use tokio::runtime::Runtime;

/// How long handlers hold their threads: far beyond the failure detector's patience, and beyond what follows.
const HELD: Duration = Duration::from_secs(20);
const STALL_TIMEOUT: Duration = Duration::from_secs(3);
/// Entities that block at once, for two executors with two threads each.
const BLOCKERS: usize = 64;
/// What is asked of the healthy host meanwhile, at least.
const ASKS_MIN: u32 = 50;

/// A program: an executor and its node.
struct Program {
    runtime: Runtime,
    node: Cluster,
}

impl Program {
    fn start(role: &str, seed: Option<&Self>) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let node = runtime.block_on(async {
            let builder = node()
                .role(role)
                .config(|config: &mut Config| config.executor.stall_timeout = Some(STALL_TIMEOUT));
            let seeds = seed.map(|seed| seed.node.address().address().clone());
            let node = builder.seeds(seeds.iter()).start().await.unwrap();
            if seeds.is_none() {
                node.join([node.address().address()]).await.unwrap();
            }
            node.up().await.unwrap();
            node
        });
        Self { runtime, node }
    }

    /// The changes that its node has seen.
    fn changes(&self, events: &mut Events) -> Vec<MembershipChange> {
        self.runtime.block_on(async {
            let mut changes = Vec::new();
            while let Ok(Some(event)) = tokio::time::timeout(Duration::from_millis(100), events.next()).await
            {
                if let ClusterEvent::Event(Event::Membership(MembershipEvent::Changed { change, .. })) = event
                {
                    changes.push(change);
                }
            }
            changes
        })
    }
}

struct Blocker {
    let_go: Instant,
}

impl Entity for Blocker {
    type Message = ();
    type Reply = ();

    async fn handle(&mut self, _: &EntityContext, (): ()) {
        thread::sleep(self.let_go.saturating_duration_since(Instant::now()));
    }
}

struct Greeter;

impl Entity for Greeter {
    type Message = ();
    type Reply = ();

    async fn handle(&mut self, _: &EntityContext, (): ()) {}
}

fn blockers() -> Kind<(), ()> {
    Kind::new("blocker").shards(16).role("freezes")
}

fn greeters() -> Kind<(), ()> {
    Kind::new("greeter").shards(16).role("healthy")
}

/// On this thread, whatever becomes of the executors.
fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < LIMIT, "not within the limit: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn two_frozen_hosts_say_so_and_leave_and_the_healthy_one_and_the_proxy_live_on() {
    let log = Log::of_the_process();
    let healthy = Program::start("healthy", None);
    let proxy = Program::start("proxy", Some(&healthy));
    let frozen = [
        Program::start("freezes", Some(&healthy)),
        Program::start("freezes", Some(&healthy)),
    ];
    let all = [&healthy, &proxy, &frozen[0], &frozen[1]];
    for program in all {
        eventually("all are up", || {
            let view = program.node.view();
            view.members().len() == 4 && view.members().iter().all(|member| member.status == Status::Up)
        });
    }
    let let_go = Instant::now() + HELD;
    for host in &frozen {
        let region = host.node.entities(blockers()).start(move |_| Blocker { let_go });
        host.runtime.block_on(region).unwrap();
    }
    let greeting = healthy.node.entities(greeters()).start(|_| Greeter);
    healthy.runtime.block_on(greeting).unwrap();
    let (blocked, greeted): (Region<(), ()>, Region<(), ()>) = proxy.runtime.block_on(async {
        let blocked = proxy.node.entities(blockers()).proxy().await.unwrap();
        (blocked, proxy.node.entities(greeters()).proxy().await.unwrap())
    });
    let mut watching = [healthy.node.events(), proxy.node.events()];

    proxy.runtime.block_on(async {
        for number in 0..BLOCKERS {
            blocked.entity(number.to_string()).tell(&()).await.unwrap();
        }
    });
    for host in &frozen {
        eventually("a frozen host is not ready", || !host.node.is_ready());
    }
    let (mut asked, mut is_frozen) = (0, true);
    let is_member = |host: &Program| {
        let view = healthy.node.view();
        view.member(host.node.address()).is_some()
    };
    // Often enough, however soon they have left.
    while is_frozen || asked <= ASKS_MIN {
        is_frozen = frozen.iter().any(is_member);
        assert!(
            !is_frozen || Instant::now() < let_go,
            "they have not left while they were frozen"
        );
        let answer = greeted.entity(asked.to_string()).ask(()).into_future();
        proxy.runtime.block_on(answer).unwrap();
        asked += 1;
        assert!(healthy.node.is_ready() && proxy.node.is_ready());
        thread::sleep(Duration::from_millis(20));
    }
    for host in &frozen {
        let left = host.runtime.block_on(host.node.terminated());
        assert_eq!(left, Termination::Halted(HaltReason::Left));
        for event in ["executor_stalled", "leaving_stalled"] {
            let me = format!("me={}", host.node.address());
            log.line(&[&format!("event=\"{event}\""), &me]);
        }
    }
    for (program, events) in [&healthy, &proxy].into_iter().zip(&mut watching) {
        assert_eq!(program.node.view().self_status(), Status::Up);
        for change in program.changes(events) {
            let is_doubt = matches!(
                change,
                MembershipChange::Unreachable(_) | MembershipChange::Downed(_)
            );
            assert!(!is_doubt, "{change:?}");
        }
        assert_eq!(program.node.members().len(), 2);
    }
}
