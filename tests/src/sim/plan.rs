//! A random run from a seed: which faults, how often, and when. Every seed draws its own mix (swarm), many of them with
//! some faults turned off. First faults and a workload, then a quiet phase in which everything must come to rest: all live
//! nodes agree on one table, every ask is answered, nothing is buffered. Spec: reliability 1c.

use super::chance::{Chance, Purpose};
use super::engine::Sim;
use super::faults::FaultKind;
use super::network::Weather;
use super::script::all_up;

/// Microseconds of a second.
const SECOND: u64 = 1_000_000;
/// The quiet phase may take this long before it counts as a liveness violation: detection (about 1.5 s), the stable
/// period (1.5 s), removal, margin (1 s), restarts through the seed process (up to 2 s a try), hand-offs (up to 10 s).
const REST_MAX: u64 = 60 * SECOND;
/// How often the planner looks at the world.
const LOOK: u64 = 50_000;

/// What a run is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Nodes at the start.
    pub nodes: usize,
    /// The kinds of faults that may happen.
    pub faults: Vec<FaultKind>,
    /// How long faults happen.
    pub chaos_seconds: u64,
    /// How long the run lasts at least.
    pub total_seconds: u64,
}

impl Plan {
    /// The ordinary run: two minutes, the first 80 seconds with faults.
    #[must_use]
    pub fn new(nodes: usize, faults: &[FaultKind]) -> Self {
        Self {
            nodes,
            faults: faults.to_vec(),
            chaos_seconds: 80,
            total_seconds: 120,
        }
    }
}

/// How one seed mixes the faults.
#[derive(Clone, Debug)]
struct Mix {
    kinds: Vec<FaultKind>,
    /// Only shapes in which single ownership must hold: partitions of a settled cluster, alone.
    orderly: bool,
    /// Mean time between two faults, in microseconds.
    pause: u64,
    /// Messages of the workload per second.
    messages_per_second: u64,
    /// Time after which a supervisor restarts what has ended, in microseconds.
    restart_after: (u64, u64),
}

/// A run in progress.
struct Director<'a> {
    sim: &'a mut Sim,
    plan: &'a Plan,
    chance: Chance,
    mix: Mix,
    /// When each address gets a new process.
    restart_at: Vec<Option<u64>>,
    /// When the present partition heals and the present weather passes.
    heal_at: Option<u64>,
    clear_at: Option<u64>,
    next_fault: u64,
    next_message: u64,
}

impl Sim {
    /// Runs a random plan drawn from this simulator's seed, up to its end or the first violation.
    pub fn run_plan(&mut self, plan: &Plan) {
        let mut chance = Chance::new(self.seed, Purpose::Faults);
        let mix = Mix::draw(&mut chance, plan);
        self.note(format_args!("{mix:?}"));
        self.last_at.resize(plan.nodes, None);
        let mut director = Director {
            restart_at: vec![None; plan.nodes],
            heal_at: None,
            clear_at: None,
            next_fault: 0,
            next_message: 0,
            sim: self,
            plan,
            chance,
            mix,
        };
        director.form();
        director.disturb();
        director.rest();
    }
}

impl Mix {
    fn draw(chance: &mut Chance, plan: &Plan) -> Self {
        // Every number is drawn, whatever is allowed, so that two fault lists differ only in what they leave out.
        let mut kinds: Vec<FaultKind> = Vec::new();
        for kind in FaultKind::ALL {
            let wanted = chance.per_mille(550);
            if wanted && plan.faults.contains(&kind) {
                kinds.push(kind);
            }
        }
        let fallback = chance.index(plan.faults.len());
        if kinds.is_empty() {
            kinds.extend(plan.faults.get(fallback).copied());
        }
        Self {
            kinds,
            orderly: chance.per_mille(500),
            pause: chance.between(2 * SECOND, 9 * SECOND),
            messages_per_second: chance.between(5, 40),
            restart_after: (SECOND / 5, chance.between(SECOND, 8 * SECOND)),
        }
    }
}

impl Director<'_> {
    /// Starts all nodes within two seconds, in random order.
    fn form(&mut self) {
        let mut order: Vec<usize> = (0..self.plan.nodes).collect();
        self.chance.shuffle(&mut order);
        for index in order {
            let gap = self.chance.below(2 * SECOND / self.plan.nodes as u64);
            self.sim.start(index);
            self.sim.advance(self.sim.now + gap);
        }
        self.sim.run_until_or(20 * SECOND, &all_up);
        self.next_message = self.sim.now;
        self.next_fault = self.sim.now + self.chance.below(self.mix.pause);
    }

    /// The phase with faults.
    fn disturb(&mut self) {
        let end = self.plan.chaos_seconds * SECOND;
        while self.sim.now < end && self.sim.violation.is_none() {
            self.pass(LOOK);
            self.end_what_is_over();
            self.supervise();
            if self.sim.now >= self.next_fault {
                self.fault();
                let pause = self.chance.between(self.mix.pause / 4, self.mix.pause * 7 / 4);
                self.next_fault = self.sim.now + pause;
            }
        }
    }

    /// The quiet phase: everything heals, whoever ended comes back, and all must agree within bounded time.
    fn rest(&mut self) {
        self.sim.heal();
        self.sim.weather(Weather::FINE);
        (self.heal_at, self.clear_at) = (None, None);
        let limit = self.sim.now + REST_MAX;
        let at_least = self.plan.total_seconds * SECOND;
        let last_message = at_least.saturating_sub(10 * SECOND);
        self.revive();
        let mut settled = false;
        while self.sim.violation.is_none() && self.sim.now < limit {
            if self.sim.now < last_message {
                self.pass(LOOK);
            } else {
                self.sim.advance(self.sim.now + LOOK);
            }
            self.supervise();
            self.settle_partition();
            settled = all_up(self.sim);
            if settled && self.sim.now >= at_least && self.sim.is_quiet() {
                break;
            }
        }
        if self.sim.violation.is_some() {
            return;
        }
        if settled && self.sim.is_quiet() {
            self.sim.check_at_rest();
        } else if self.sim.assumptions.safe() {
            let what = self.sim.report("no rest after the last fault");
            self.sim.violated("liveness", 0, what);
        } else {
            self.sim.stuck = true;
        }
    }

    /// Lets time pass with the workload on.
    fn pass(&mut self, time: u64) {
        let until = self.sim.now + time;
        while self.next_message <= until && self.sim.violation.is_none() {
            self.sim.advance(self.next_message.max(self.sim.now));
            self.sim.random_message(self.plan.nodes);
            let mean = SECOND / self.mix.messages_per_second;
            self.next_message += self.sim.workload.between(1, 2 * mean);
        }
        self.sim.advance(until);
    }

    fn end_what_is_over(&mut self) {
        let over = |at: &Option<u64>, now: u64| at.is_some_and(|at| at <= now);
        if over(&self.heal_at, self.sim.now) {
            self.heal_at = None;
            self.sim.heal();
        }
        if over(&self.clear_at, self.sim.now) {
            self.clear_at = None;
            self.sim.weather(Weather::FINE);
        }
        self.settle_partition();
    }

    /// A partition is over once its cut has healed and the cluster has settled again.
    fn settle_partition(&mut self) {
        let sim = &mut *self.sim;
        if sim.assumptions.unsettled_partition && sim.network.is_whole() && all_up(sim) {
            sim.assumptions.unsettled_partition = false;
        }
    }

    /// A supervisor starts again what has ended, but only into a whole network in fine weather: a first seed that reaches
    /// nobody forms a second cluster, which is what it is documented to do.
    fn supervise(&mut self) {
        let calm = self.sim.network.is_whole() && self.sim.network.weather == Weather::FINE;
        for index in 0..self.plan.nodes {
            if self.sim.running_at(index).is_some() {
                self.restart_at[index] = None;
                continue;
            }
            let (low, high) = self.mix.restart_after;
            let wait = self.chance.between(low, high);
            let due = *self.restart_at[index].get_or_insert(self.sim.now + wait);
            if due <= self.sim.now && calm && self.plan.faults.contains(&FaultKind::Restart) {
                self.restart_at[index] = None;
                self.sim.faults.add(FaultKind::Restart);
                self.sim.start(index);
            }
        }
    }

    /// After the last fault, everybody who is due comes back even if restarts were not among the faults of this seed.
    fn revive(&mut self) {
        for at in self.restart_at.iter_mut().flatten() {
            *at = (*at).min(self.sim.now + SECOND);
        }
    }

    fn fault(&mut self) {
        if self.mix.kinds.is_empty() {
            return;
        }
        let kind = self.mix.kinds[self.chance.index(self.mix.kinds.len())];
        let index = self.chance.index(self.plan.nodes);
        let other = self.chance.index(self.plan.nodes);
        let length = self.chance.between(SECOND / 2, 12 * SECOND);
        let strength = self.chance.between(1, 100);
        let groups = self.groups();
        let busy = self.sim.assumptions.unsettled_partition;
        if self.mix.orderly && (busy || (kind == FaultKind::Partition && !all_up(self.sim))) {
            return;
        }
        match kind {
            FaultKind::Crash => self.sim.crash(index),
            FaultKind::Restart => {
                let calm = self.sim.network.is_whole() && self.sim.network.weather == Weather::FINE;
                if calm && self.sim.running_at(index).is_some() {
                    self.sim.restart(index);
                }
            }
            FaultKind::Partition if self.heal_at.is_none() => {
                let clear = self.sim.network.weather == Weather::FINE;
                if clear || !self.mix.orderly {
                    self.sim.partition_into(&groups);
                    self.heal_at = Some(self.sim.now + length);
                }
            }
            FaultKind::Partition => {}
            FaultKind::Loss => self.storm(kind, length, |weather| weather.loss_per_mille = strength * 3),
            FaultKind::Delay => self.storm(kind, length, |weather| {
                weather.latency_max = strength * 4_000;
            }),
            FaultKind::Leave => self.sim.leave(index),
            FaultKind::Reset if index != other => self.sim.reset(index, other),
            FaultKind::Reset => {}
        }
    }

    fn storm(&mut self, kind: FaultKind, length: u64, change: impl Fn(&mut Weather)) {
        if self.mix.orderly && !self.sim.network.is_whole() {
            return;
        }
        let mut weather = self.sim.network.weather;
        change(&mut weather);
        self.sim.faults.add(kind);
        self.sim.weather(weather);
        self.clear_at = Some(self.sim.now + length);
    }

    /// All nodes in two groups, or in three, or each on its own.
    fn groups(&mut self) -> Vec<Vec<usize>> {
        let mut order: Vec<usize> = (0..self.plan.nodes).collect();
        self.chance.shuffle(&mut order);
        let shape = self.chance.below(10);
        let first = 1 + self.chance.index(self.plan.nodes.saturating_sub(1));
        let second = self.chance.index(self.plan.nodes);
        let mut groups = match shape {
            0 => order.iter().map(|index| vec![*index]).collect(),
            1 | 2 => {
                let (low, high) = (first.min(second), first.max(second));
                let parts = [&order[..low], &order[low..high], &order[high..]];
                parts.iter().map(|part| part.to_vec()).collect()
            }
            _ => vec![order[..first].to_vec(), order[first..].to_vec()],
        };
        groups.retain(|group: &Vec<usize>| !group.is_empty());
        groups
    }
}
