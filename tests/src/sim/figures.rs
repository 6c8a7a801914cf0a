//! Figures of large clusters with the documented timings: how long until a join, a crash or a cold start is
//! known to everybody, and what it costs. Nothing is checked on the way; nodes, codec and network are the
//! simulator's ordinary ones. Spec: `docs/benchmarks.md`.

use core::time::Duration;
use std::sync::Arc;

use quorate_core::agreement::Settings;
use quorate_core::config::Config;
use quorate_core::ident::{ClusterName, UniqueAddress};
use quorate_core::input::{Command, Input, MembershipCommand};
use quorate_core::membership::gossip::{Gossip, GossipParts};
use quorate_core::membership::member::{Member, Status, UpNumber};
use quorate_core::membership::member_set::MemberSet;
use quorate_core::membership::reachability::Reachability;
use quorate_core::membership::vector_clock::VectorClock;
use quorate_core::message::{InitJoinAck, MembershipMsg, Message, Welcome};
use quorate_core::ordered::OrderedSet;

use super::engine::Sim;
use super::process::Open;
use super::trace::Show;
use crate::invariants::Cause;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scenario {
    /// One node joins a converged cluster.
    Join,
    /// One node of a converged cluster crashes; nobody downs it.
    Crash,
    /// All nodes but the first start at once and join through it.
    ColdStart,
    /// Nothing happens for ten seconds.
    Rest,
}

impl Scenario {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Join, Self::Crash, Self::ColdStart, Self::Rest];

    /// Its name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Join => "join",
            Self::Crash => "crash",
            Self::ColdStart => "cold-start",
            Self::Rest => "rest",
        }
    }

    /// What a bare simulation of Akka's algorithm takes (performance B1), in seconds: until known everywhere
    /// and until Up everywhere; of a crash, from the first report on.
    #[must_use]
    pub const fn reference(self, nodes: usize) -> Option<(Option<f64>, Option<f64>)> {
        match (self, nodes) {
            (Self::Join, 10) => Some((Some(1.7), Some(6.0))),
            (Self::Join, 100) => Some((Some(3.7), Some(10.4))),
            (Self::Join, 1_000) => Some((Some(5.1), Some(14.1))),
            (Self::Crash, 10) => Some((Some(0.6), None)),
            (Self::Crash, 100) => Some((Some(2.5), None)),
            (Self::Crash, 1_000) => Some((Some(4.1), None)),
            (Self::ColdStart, 10) => Some((None, Some(2.5))),
            (Self::ColdStart, 100) => Some((None, Some(3.4))),
            (Self::ColdStart, 1_000) => Some((None, Some(15.2))),
            _ => None,
        }
    }
}

/// What was measured, in virtual seconds; `None` where it did not happen within ten minutes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    /// Until the first node knew (of a crash: found the node unreachable).
    pub first: Option<f64>,
    /// Until all nodes knew.
    pub known: Option<f64>,
    /// Until all nodes saw all members Up; not for a crash.
    pub up: Option<f64>,
    /// Messages per node meanwhile, heartbeats included.
    pub messages_per_node: f64,
    /// Bytes per node meanwhile, heartbeats included.
    pub bytes_per_node: f64,
    /// Of these, bytes of heartbeats and their answers.
    pub heartbeat_bytes_per_node: f64,
}

const LIMIT: u64 = 600_000_000;
/// How long a cluster that was formed lives before anything is measured: every round of everything has begun.
const SETTLED_AFTER: u64 = 5_000_000;
/// How long nothing happens.
pub(super) const REST_SECONDS: u64 = 10;

/// What nodes have sent, with the headers of frames.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Traffic {
    messages: u64,
    bytes: u64,
    heartbeat_bytes: u64,
}

impl Traffic {
    pub(crate) const fn add(&mut self, message: &Message, bytes: usize) {
        self.messages += 1;
        self.bytes += bytes as u64;
        if matches!(message, Message::Detector(_)) {
            self.heartbeat_bytes += bytes as u64;
        }
    }
}

/// Runs a scenario with so many nodes (besides the one that joins).
#[must_use]
pub fn measure(scenario: Scenario, nodes: usize, seed: u64) -> Figures {
    let name = ClusterName::new("sim").expect("invariant: a short name is legal");
    let mut config = Config::lan(name);
    config.downing.strategy = quorate_core::config::DowningStrategy::Off;
    let mut sim = Sim::with_config(seed, config, Show::Nothing);
    sim.is_bare = true;
    sim.has_workload = false;
    sim.last_at.resize(nodes, None);
    match scenario {
        Scenario::Join => {
            form(&mut sim, nodes);
            let contact = sim.process_chance.index(nodes);
            sim.last_at.resize(nodes + 1, None);
            let begin = Begin::now(&sim);
            sim.start_with_seeds(nodes, &[contact]);
            let joiner = sim.incarnation(nodes).expect("it was just started");
            let first = begin.until(&mut sim, |sim| (0..nodes).any(|index| knows(sim, index, &joiner)));
            let known = begin.until(&mut sim, |sim| (0..nodes).all(|index| knows(sim, index, &joiner)));
            let up = begin.until(&mut sim, |sim| {
                (0..=nodes).all(|index| is_up(sim, index, &joiner))
            });
            begin.costs(
                &sim,
                nodes + 1,
                Figures {
                    first,
                    known,
                    up,
                    ..Figures::default()
                },
            )
        }
        Scenario::Crash => {
            form(&mut sim, nodes);
            let victim = sim.process_chance.index(nodes);
            let gone = sim.incarnation(victim).expect("it runs");
            let begin = Begin::now(&sim);
            sim.crash(victim);
            let others: Vec<usize> = (0..nodes).filter(|index| *index != victim).collect();
            let missed = |sim: &Sim, index: usize| !sim.view(index).is_reachable(&gone);
            let first = begin.until(&mut sim, |sim| others.iter().any(|index| missed(sim, *index)));
            let known = begin.until(&mut sim, |sim| others.iter().all(|index| missed(sim, *index)));
            begin.costs(
                &sim,
                nodes,
                Figures {
                    first,
                    known,
                    ..Figures::default()
                },
            )
        }
        Scenario::Rest => {
            form(&mut sim, nodes);
            let begin = Begin::now(&sim);
            sim.advance(sim.now + REST_SECONDS * 1_000_000);
            begin.costs(&sim, nodes, Figures::default())
        }
        Scenario::ColdStart => {
            // As in Akka's figures, the first node is there already; the seed process is not what is
            // measured.
            sim.start_with_seeds(0, &[0]);
            sim.advance(sim.now + 1_000_000);
            let begin = Begin::now(&sim);
            for index in 1..nodes {
                sim.start_with_seeds(index, &[0]);
            }
            let known = begin.until(&mut sim, |sim| {
                (0..nodes).all(|index| sim.view(index).members().len() == nodes)
            });
            let up = begin.until(&mut sim, |sim| {
                (0..nodes).all(|index| all_are_up(sim, index, nodes))
            });
            begin.costs(
                &sim,
                nodes,
                Figures {
                    known,
                    up,
                    ..Figures::default()
                },
            )
        }
    }
}

struct Begin {
    at: u64,
    traffic: Traffic,
}

impl Begin {
    const fn now(sim: &Sim) -> Self {
        Self {
            at: sim.now,
            traffic: sim.traffic,
        }
    }

    fn until(&self, sim: &mut Sim, holds: impl Fn(&Sim) -> bool) -> Option<f64> {
        // Looked at every 10 ms: looking at all nodes after every step would cost more than the steps.
        while sim.now < self.at + LIMIT {
            if holds(sim) {
                return Some((sim.now - self.at) as f64 / 1e6);
            }
            sim.advance(sim.now + 10_000);
        }
        None
    }

    fn costs(&self, sim: &Sim, nodes: usize, figures: Figures) -> Figures {
        let per_node = |of: fn(&Traffic) -> u64| (of(&sim.traffic) - of(&self.traffic)) as f64 / nodes as f64;
        Figures {
            messages_per_node: per_node(|traffic| traffic.messages),
            bytes_per_node: per_node(|traffic| traffic.bytes),
            heartbeat_bytes_per_node: per_node(|traffic| traffic.heartbeat_bytes),
            ..figures
        }
    }
}

fn knows(sim: &Sim, index: usize, node: &UniqueAddress) -> bool {
    sim.view(index).member(node).is_some()
}

fn is_up(sim: &Sim, index: usize, node: &UniqueAddress) -> bool {
    let member = sim.view(index).member(node);
    member.is_some_and(|member| member.status == Status::Up)
}

pub(super) fn all_are_up(sim: &Sim, index: usize, nodes: usize) -> bool {
    let members = sim.view(index).members();
    members.len() == nodes && members.iter().all(|m| m.status == Status::Up)
}

/// A cluster in which everybody is Up and everybody knows: each node is welcomed with the same finished
/// state, over the ordinary messages, and then lives for some time.
fn form(sim: &mut Sim, nodes: usize) {
    for index in 0..nodes {
        sim.boot(index);
    }
    let state = Arc::new(finished(sim, nodes));
    for index in 0..nodes {
        let contact = (index + 1) % nodes;
        let (process, contact) = (index as u32, sim.processes[contact].me.clone());
        let me = sim.processes[index].me.clone();
        let join = Command::Membership(MembershipCommand::JoinSeeds(vec![contact.address().clone()]));
        sim.command(process, Open::Command("join"), join);
        sim.hear(
            process,
            &contact,
            Message::Membership(MembershipMsg::InitJoinAck(InitJoinAck {
                compatible: true,
                settings: Settings::default(),
            })),
        );
        let gossip = Arc::clone(&state);
        sim.hear(
            process,
            &contact,
            Message::Membership(MembershipMsg::Welcome(Welcome {
                to: me,
                gossip: gossip.into(),
            })),
        );
        // Nobody's ticks come at the same time as everybody else's.
        let gap = sim.process_chance.below(2 * 1_000_000 / nodes as u64 + 1);
        sim.advance(sim.now + gap);
    }
    sim.advance(sim.now + SETTLED_AFTER);
}

fn finished(sim: &Sim, nodes: usize) -> Gossip {
    // All are configured alike, and share what is alike, as members of a state that was read do.
    let config = sim.processes[0].node.config();
    let mut members: Vec<Member> = (0..nodes)
        .map(|index| {
            let (roles, version) = (config.node_roles().clone(), config.app_version.clone());
            let mut member = Member::joining(sim.processes[index].me.clone(), roles, version);
            member.status = Status::Up;
            member.up_number = UpNumber::new(index as u32 + 1);
            member
        })
        .collect();
    members.sort_by(|a, b| a.node.cmp(&b.node));
    let mut seen = MemberSet::new();
    for at in 0..members.len() {
        seen.insert(at);
    }
    Gossip::from_parts(GossipParts {
        members,
        reachability: Reachability::new(),
        // With an entry of a member it would have to outdate that, and everybody hears of it.
        version: VectorClock::new(),
        seen,
        tombstones: OrderedSet::new(),
        paths: Arc::default(),
    })
    .expect("invariant: members are sorted and unique")
}

impl Sim {
    /// A node gets a message that no process sent.
    pub(crate) fn hear(&mut self, process: u32, from: &UniqueAddress, message: Message) {
        self.feed(process, &Cause::Command, Input::Message { from, message });
    }
}

/// So many seconds as text.
#[must_use]
pub fn seconds(value: Option<f64>) -> String {
    value.map_or_else(
        || format!("not within {:?}", Duration::from_micros(LIMIT)),
        |value| format!("{value:.2} s"),
    )
}
