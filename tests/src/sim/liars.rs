//! F-30: one member lies about every number that it says, until an operator has it downed. It is an ordinary
//! simulated process: what its node says it says, and between that it tells others messages of every kind
//! that [`crate::liar`] draws. Drawn from a stream of its own, so that the other faults of a seed stay what
//! they are.
//!
//! While it is in, nobody else ends, the memory of the others is bounded (I-91, I-100), and I-40 and I-41
//! hold among them. What the liar itself hosts is its own: entities that run on it, and the places that it
//! gives as the coordinator. What it says costs the others time, so that the other invariants hold again
//! [`QUIET`] after its removal, and from then on.

use core::fmt::{self, Write as _};
use std::sync::Arc;

use quorate_core::ident::UniqueAddress;
use quorate_core::input::{Command, DownTarget, MembershipCommand, SendTarget};
use quorate_core::message::{Message, PathMsg, ShardingMsg, SingletonMsg};
use quorate_core::sharding::extractor::ShardExtractor;
use quorate_core::sharding::fields::KindFields;
use quorate_core::sharding::ids::{EntityId, Payload};
use quorate_core::sharding::{coordinator_log, remembered_logs};
use quorate_core::singleton::state::SingletonId;
use quorate_core::view::MembershipPhase;

use super::chance::{Chance, Purpose};
use super::engine::Sim;
use super::faults::FaultKind;
use super::history::{Life, MessageRecord, ProcessId, Whereabouts};
use super::network::{LinkState, Weather};
use super::plan::{Plan, SECOND};
use super::process::Open;
use super::script::all_up;
use super::work::{ENTITIES, KIND, SHARDS};
use crate::liar::{Heard, Kind, Known, lie};

/// Seeds of a thousand that have a liar beside other faults.
const PER_MILLE: u64 = 250;
/// How long it lies: every kind of message some twenty times.
const LIES_FOR: (u64, u64) = (10 * SECOND, 40 * SECOND);
/// Lies between two looks of the planner, at most.
const LIES_PER_LOOK: u64 = 6;
/// An operator downs it, and ends its process within this time: until then it goes on.
const ENDS_WITHIN: u64 = 3 * SECOND;
/// A new process starts at its address within this time after its removal.
const BACK_WITHIN: u64 = 20 * SECOND;
/// From so long after its removal everything holds again.
const QUIET: u64 = 60 * SECOND;
/// How often the others are weighed.
const WEIGH_EVERY: u64 = 5 * SECOND;
/// What another member may grow by in that time, in characters of its printed state, where a byte of a
/// payload takes up to five: what its queues and its data hold at most (`ddata.bytes_max` is
/// [`DATA_BYTES_MAX`] here), and as much again.
const GROWTH_MAX: u64 = 16 << 20;
/// What replicated data may take in a run with a liar, so that it is met.
pub(super) const DATA_BYTES_MAX: usize = 1 << 20;
/// Effects of one input, at most: what a node says to everybody about everything that it has, a few times
/// over.
pub(super) const EFFECTS_MAX: u64 = 20_000;

/// The invariants that hold among the others while it is in, beside what a machine checks of itself. Of the
/// rest what is broken is counted until it has been gone for [`QUIET`]: they speak of states, places and
/// messages that the liar is trusted with.
const HOLD: [&str; 5] = ["I-40", "I-41", "I-44", "I-91", "I-100"];

/// The liar of a run, for those who look.
#[derive(Clone, Debug, Default)]
pub(crate) struct Liars {
    /// Who lies, or has lied.
    pub(crate) process: Option<ProcessId>,
    heard: Heard,
    messages: u64,
    /// It has been gone for long enough.
    is_over: bool,
    /// What each other process weighed when it began.
    weights: Vec<(ProcessId, u64)>,
    /// Messages about data that each process had rejected when the last of it was gone.
    pub(crate) rejected: Vec<u64>,
    pub(crate) told: u64,
    pub(crate) excused: u64,
    pub(crate) heaviest: u64,
}

impl Liars {
    /// Whether somebody lies, or has until lately.
    pub(crate) const fn is_on(&self) -> bool {
        self.process.is_some() && !self.is_over
    }

    /// Whether a broken invariant is the liar's work, and one that may be.
    pub(crate) fn excuses(&mut self, invariant: &str, process: ProcessId) -> bool {
        let may_be = invariant.starts_with("I-") && !HOLD.contains(&invariant);
        let excused = self.is_on() && (self.process == Some(process) || may_be);
        self.excused += u64::from(excused);
        excused
    }

    /// The liar hears the numbers of every other message that it says or is told.
    pub(crate) fn hear(&mut self, from: ProcessId, to: ProcessId, message: &Message) {
        if self.is_on() && [Some(from), Some(to)].contains(&self.process) {
            self.messages += 1;
            if self.messages.is_multiple_of(2) {
                self.heard.hear(message);
            }
        }
    }
}

/// When the liar of a run does what.
#[derive(Debug)]
pub(super) struct Liar {
    chance: Chance,
    stage: Stage,
    /// Nobody but the liar makes others end.
    is_alone: bool,
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    /// This seed has none, or it is over.
    Over,
    /// From this time on, as soon as the cluster is calm.
    Due(u64),
    /// It lies until then, and was weighed last then.
    Lies { until: u64, weighed: u64 },
    /// It was declared Down, and ends then.
    Downed { end: u64 },
    /// It has ended, and is removed within the time given.
    Ended { by: u64 },
    /// It is removed, somebody else starts at its address, and everything holds again.
    Removed { back: u64, quiet: u64 },
}

/// Counts what is printed.
struct Weight(u64);

impl fmt::Write for Weight {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0 += text.len() as u64;
        Ok(())
    }
}

impl Liar {
    pub(super) fn draw(seed: u64, plan: &Plan) -> Self {
        let mut chance = Chance::new(seed, Purpose::Lies);
        let is_alone = plan.faults.iter().all(|kind| !kind.is_mixed());
        let wanted = chance.per_mille(PER_MILLE) || is_alone;
        let at = chance.between(2 * SECOND, plan.chaos_seconds.saturating_mul(SECOND / 2));
        let may_happen = plan.faults.contains(&FaultKind::Liar) && plan.nodes >= 2;
        let stage = if wanted && may_happen {
            Stage::Due(at)
        } else {
            Stage::Over
        };
        Self {
            chance,
            stage,
            is_alone,
        }
    }

    /// Whether there is none, or it has been gone for long enough.
    pub(super) const fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Over)
    }

    /// Goes on with the lies if it is time.
    pub(super) fn go_on(&mut self, sim: &mut Sim) {
        match self.stage {
            Stage::Over => {}
            Stage::Due(at) => {
                let calm = sim.network.is_whole() && sim.network.weather == Weather::FINE && all_up(sim);
                if sim.now >= at && calm {
                    self.begin(sim);
                }
            }
            Stage::Lies { until, weighed } => {
                self.tell(sim);
                if sim.now >= weighed + WEIGH_EVERY {
                    weigh(sim);
                    self.stage = Stage::Lies {
                        until,
                        weighed: sim.now,
                    };
                }
                if sim.now >= until || !sim.liar_runs() {
                    self.down(sim);
                }
            }
            Stage::Downed { end } => {
                self.tell(sim);
                if sim.now >= end || !sim.liar_runs() {
                    if let Some(liar) = sim.liars.process.filter(|_| sim.liar_runs()) {
                        sim.kill(liar);
                    }
                    self.stage = Stage::Ended { by: sim.now + QUIET };
                }
            }
            Stage::Ended { by } => self.wait_for_removal(sim, by),
            Stage::Removed { back, quiet } => {
                let index = sim.liar_index();
                if sim.now >= back && sim.running_at(index).is_none() {
                    sim.start(index);
                }
                if sim.now >= quiet {
                    weigh(sim);
                    sim.forget_lies();
                    self.stage = Stage::Over;
                }
            }
        }
        if self.is_alone && !self.is_over() {
            sim.nobody_else_ends();
        }
    }

    fn begin(&mut self, sim: &mut Sim) {
        let running: Vec<ProcessId> = (0..sim.last_at.len())
            .filter_map(|index| sim.running_at(index))
            .collect();
        let Some(&liar) = running.get(self.chance.index(running.len())) else {
            return;
        };
        sim.faults.add(FaultKind::Liar);
        sim.fact(liar, format_args!("begins to lie"));
        sim.liars.process = Some(liar);
        sim.history.liar = Some(liar);
        let others = running.into_iter().filter(|process| *process != liar);
        sim.liars.weights = others.map(|process| (process, sim.weight(process))).collect();
        let until = sim.now + self.chance.between(LIES_FOR.0, LIES_FOR.1);
        self.stage = Stage::Lies {
            until,
            weighed: sim.now,
        };
    }

    /// A few lies to anybody.
    fn tell(&mut self, sim: &mut Sim) {
        let Some(liar) = sim.liars.process.filter(|_| sim.liar_runs()) else {
            return;
        };
        let known = sim.known_to(liar);
        let kinds = Kind::all();
        for _ in 0..self.chance.below(LIES_PER_LOOK) {
            let targets: Vec<ProcessId> = (0..sim.last_at.len())
                .filter_map(|index| sim.running_at(index))
                .filter(|process| *process != liar)
                .collect();
            let (kind, to) = (self.chance.index(kinds.len()), self.chance.index(targets.len()));
            let (Some(kind), Some(to)) = (kinds.get(kind), targets.get(to)) else {
                return;
            };
            let node = sim.processes[*to as usize].me.clone();
            let message = lie(*kind, &node, &known, &sim.liars.heard, &mut self.chance);
            sim.tell_lie(liar, *to, message);
            if sim.violation.is_some() {
                return;
            }
        }
    }

    /// An operator has it downed.
    fn down(&mut self, sim: &mut Sim) {
        let liar = sim.liar_node();
        let others: Vec<ProcessId> = (0..sim.last_at.len())
            .filter_map(|index| sim.running_at(index))
            .filter(|process| Some(*process) != sim.liars.process)
            .collect();
        let Some(&by) = others.get(self.chance.index(others.len())) else {
            return;
        };
        sim.fact(by, format_args!("is told to have the liar downed"));
        let command = Command::Membership(MembershipCommand::Down(DownTarget::Node(liar)));
        sim.command(by, Open::Command("down"), command);
        let end = sim.now + self.chance.below(ENDS_WITHIN);
        self.stage = Stage::Downed { end };
    }

    fn wait_for_removal(&mut self, sim: &mut Sim, by: u64) {
        let liar = sim.liar_node();
        let mut running = sim.running().into_iter().map(|index| sim.view(index));
        if running.all(|view| !view.members().iter().any(|member| member.node == liar)) {
            sim.note(format_args!("the liar is removed"));
            self.stage = Stage::Removed {
                back: sim.now + self.chance.below(BACK_WITHIN),
                quiet: sim.now + QUIET,
            };
        } else if sim.now >= by {
            let what = sim.report("the liar is a member a minute after its end");
            sim.violated("I-100", sim.honest(), what);
        }
    }
}

/// What the others have grown by.
fn weigh(sim: &mut Sim) {
    for (process, before) in sim.liars.weights.clone() {
        if !sim.processes[process as usize].runs() {
            continue;
        }
        let growth = sim.weight(process).saturating_sub(before);
        sim.liars.heaviest = sim.liars.heaviest.max(growth);
        if growth > GROWTH_MAX {
            return sim.violated("I-91", process, format!("grew by {growth} through a liar"));
        }
    }
}

impl Sim {
    fn liar_node(&self) -> UniqueAddress {
        let liar = self.liars.process.unwrap_or(0);
        self.processes[liar as usize].me.clone()
    }

    fn liar_index(&self) -> usize {
        let liar = self.liars.process.unwrap_or(0);
        self.processes[liar as usize].index
    }

    fn liar_runs(&self) -> bool {
        self.liars
            .process
            .is_some_and(|liar| self.processes[liar as usize].runs())
    }

    /// Somebody else, to have a violation at.
    fn honest(&self) -> ProcessId {
        self.liars.weights.first().map_or(0, |(process, _)| *process)
    }

    /// How much a node holds, as what it prints of itself.
    fn weight(&self, process: ProcessId) -> u64 {
        let mut weight = Weight(0);
        let written = write!(weight, "{:?}", self.processes[process as usize].node);
        written.map_or(u64::MAX, |()| weight.0)
    }

    /// What one input made a node say and do is bounded, whoever said it.
    pub(crate) fn count_effects(&mut self, process: ProcessId, effects: u64) {
        if self.liars.is_on() && effects > EFFECTS_MAX {
            self.violated("I-91", process, format!("{effects} effects of one input"));
        }
    }

    /// Lies end nobody: not by a panic, not by a removal.
    fn nobody_else_ends(&mut self) {
        for (process, _) in self.liars.weights.clone() {
            let life = self.processes[process as usize].life;
            if life != Life::Running {
                return self.violated("I-100", process, format!("a liar had it end: {life:?}"));
            }
        }
    }

    /// What the node of a process knows and can speak of.
    fn known_to(&self, liar: ProcessId) -> Known {
        let node = &self.processes[liar as usize].node;
        let view = node.view();
        let has_kind = node.sharding().kinds().next().is_some();
        let fields = KindFields {
            name: KIND.into(),
            role: self.lives.role(),
            shards: SHARDS,
            extractor: ShardExtractor::default().name().into(),
            keeping: None,
        };
        Known {
            me: node.me().clone(),
            roles: node.config().roles.clone(),
            gossip: Arc::clone(view.gossip()),
            kinds: if has_kind { vec![fields] } else { Vec::new() },
            entities: (0..ENTITIES)
                .map(|number| EntityId::from(format!("e{number}").as_str()))
                .collect(),
            singletons: super::singletons::KINDS
                .iter()
                .map(|kind| kind.name.into())
                .collect(),
            keys: node
                .ddata()
                .keys()
                .take(64)
                .map(|key| key.as_str().to_owned())
                .collect(),
            logs: core::iter::once(coordinator_log(KIND))
                .chain(remembered_logs(KIND).take(SHARDS as usize))
                .collect(),
            stores: node.journals().voters().unwrap_or_default().to_vec(),
        }
    }

    /// A lie goes the way of all messages, if there is one.
    fn tell_lie(&mut self, liar: ProcessId, to: ProcessId, mut message: Message) {
        let index = self.processes[to as usize].index;
        let is_up = matches!(self.network.link(liar, index).state, LinkState::Up(peer) if peer == to);
        if !is_up || self.processes[liar as usize].node.view().phase() != MembershipPhase::Member {
            return;
        }
        match &mut message {
            Message::Sharding(ShardingMsg::Entity(envelope) | ShardingMsg::HandBack(envelope)) => {
                envelope.payload = self.lying_payload(liar, &envelope.entity, envelope.payload.len());
            }
            Message::Singleton(SingletonMsg::Delivery(delivery)) => {
                let kinds = super::singletons::KINDS.iter();
                let mut named = kinds.filter(|kind| SingletonId::of(kind.name) == delivery.singleton);
                let entity = EntityId::from(named.next().map_or("lie", |kind| kind.name));
                delivery.payload = self.lying_payload(liar, &entity, delivery.payload.len());
            }
            Message::Path(PathMsg::Delivery(delivery)) => {
                let kind = super::paths::PathKind::of(delivery.path);
                let entity = EntityId::from(kind.map_or("lie", |kind| kind.name));
                let numbered = self.lying_payload(liar, &entity, 0);
                delivery.payload = self.of_path(liar, numbered.to_vec(), delivery.payload.len());
            }
            Message::Membership(_)
            | Message::Detector(_)
            | Message::Sharding(_)
            | Message::Singleton(_)
            | Message::Path(_)
            | Message::Ddata(_)
            | Message::Journal(_)
            | Message::Load(_)
            | Message::Kv(_) => {}
        }
        self.liars.told += 1;
        let target = SendTarget::Node(self.processes[to as usize].me.clone());
        self.transmit(liar, index, to, target, message);
    }

    /// A payload that the workload's entities can read.
    fn lying_payload(&mut self, liar: ProcessId, entity: &EntityId, len: usize) -> Payload {
        let at = self.history.messages.len();
        self.history.messages.push(MessageRecord {
            sender: liar,
            entity: entity.clone(),
            ask: false,
            sent_at: self.now,
            timeout: None,
            left_at: self.now,
            in_transit: 0,
            whereabouts: Whereabouts::InFlight,
            handled: 0,
            outcome: None,
        });
        let mut payload = (at as u64).to_le_bytes().to_vec();
        payload.resize(len.max(payload.len()), 0xA5);
        payload.into()
    }

    /// From now on nothing that was said in the liar's time counts.
    fn forget_lies(&mut self) {
        self.note(format_args!("nothing of the liar is left"));
        self.liars.is_over = true;
        let rejected = self.processes.iter().map(|host| host.node.stats().ddata.rejected);
        self.liars.rejected = rejected.collect();
        // What is waited for longer has been given up.
        let before = self.now.saturating_sub(10 * SECOND);
        self.history.forget_lies(before, self.now);
        let liar = self.liar_node();
        self.checks.forget_lies(&liar);
    }
}
