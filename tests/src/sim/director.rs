//! Brings a plan about: first faults and a workload, then a quiet phase in which everything comes to rest:
//! all live nodes agree on one table, every ask is answered, nothing is buffered. Spec: reliability 1c.

use super::LeaseKeeper;
use super::chance::{Chance, Purpose};
use super::conflicts::Conflict;
use super::engine::Sim;
use super::faults::FaultKind;
use super::liars::Liar;
use super::network::Weather;
use super::plan::{Mix, Plan, SECOND};
use super::script::all_up;
use super::store::StoreFault;

/// How long the quiet phase may take: detection (about 1.5 s), the stable period (1.5 s), removal, margin
/// (1 s), restarts through the seed process (up to 2 s a try), hand-offs (up to 10 s).
const REST_MAX: u64 = 60 * SECOND;
/// A run with fewer faults than this goes on for `PATIENCE` at most, so that no seed is wasted.
const FAULTS_MIN: u64 = 3;
const PATIENCE: u64 = 30 * SECOND;
/// How often the planner looks at the world.
const LOOK: u64 = 50_000;

/// What ends or goes on later in a fault that takes time.
#[derive(Clone, Debug)]
enum Later {
    Heal,
    Partition(Vec<Vec<usize>>),
    Cut(usize, usize),
    Open(usize, usize),
    Clear,
    RepairDisk(usize),
    RepairLeaseKeeper,
    Crash(usize),
    Blackout,
}

const fn micros(micros: u64) -> core::time::Duration {
    core::time::Duration::from_micros(micros)
}

/// A run in progress.
struct Director<'a> {
    sim: &'a mut Sim,
    plan: &'a Plan,
    chance: Chance,
    mix: Mix,
    /// When each address gets a new process.
    restart_at: Vec<Option<u64>>,
    /// What is still to come of faults that take time, by when.
    later: std::collections::BTreeMap<(u64, u64), Later>,
    laters: u64,
    /// When the present cut is over.
    cut_until: u64,
    next_fault: u64,
    next_message: u64,
    conflict: Conflict,
    liar: Liar,
}

impl Sim {
    /// Runs a random plan drawn from this simulator's seed, up to its end or the first violation.
    pub fn run_plan(&mut self, plan: &Plan) {
        let mut chance = Chance::new(self.seed, Purpose::Faults);
        let mix = Mix::draw(self.seed, &mut chance, plan);
        self.note(format_args!("{mix:?}"));
        self.configure_for(plan, &mix);
        self.last_at.resize(plan.nodes, None);
        let mut director = Director {
            restart_at: vec![None; plan.nodes],
            later: std::collections::BTreeMap::new(),
            laters: 0,
            cut_until: 0,
            next_fault: 0,
            next_message: 0,
            conflict: Conflict::draw(self.seed, plan),
            liar: Liar::draw(self.seed, plan),
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
        let wanted = if self.mix.kinds.is_empty() { 0 } else { FAULTS_MIN };
        while self.sim.violation.is_none() {
            let enough = self.sim.faults.total() >= wanted || self.sim.now >= end + PATIENCE;
            if self.sim.now >= end && enough && self.liar.is_over() {
                break;
            }
            self.pass(LOOK);
            self.sim.look_at_work(self.plan.nodes);
            self.go_on();
            self.conflict.go_on(self.sim);
            self.liar.go_on(self.sim);
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
        self.later.clear();
        self.sim.repair_stores(self.plan.nodes);
        self.sim.lease_keeper = LeaseKeeper::default();
        self.sim.lives.leases.repair();
        self.sim.durables.repair();
        self.sim.calm_down();
        if self.sim.is_shutting_down() {
            self.sim.blackout(self.plan.nodes);
        }
        self.conflict.finish(self.sim);
        // Disks that were slow still have to do what they were asked for.
        let disks_done = self.sim.now.max(self.sim.stores_busy_until());
        let limit = disks_done + REST_MAX;
        let mut at_least = self.plan.total_seconds * SECOND;
        if disks_done > self.sim.now {
            at_least = at_least.max(disks_done + 10 * SECOND);
        }
        if self.sim.liars.process.is_some() {
            // A liar that came late is waited for, and the rest is as long as otherwise.
            let rest = self.plan.total_seconds.saturating_sub(self.plan.chaos_seconds);
            at_least = at_least.max(self.sim.now + rest.min(20) * SECOND);
        }
        // Replicated data is to be equal so many rounds after the last write, so that it is written to until
        // it is looked at.
        let idle = if self.sim.has_data { 0 } else { 10 * SECOND };
        let last_message = at_least.saturating_sub(idle);
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
            // What waits for a singleton waits until it runs, which is looked at afterwards.
            let waits_long = self.sim.singletons.enabled || self.sim.paths.enabled;
            let quiet = waits_long || self.sim.is_quiet();
            if settled && self.sim.now >= at_least && quiet {
                break;
            }
        }
        if self.sim.violation.is_some() {
            return;
        }
        if settled && self.sim.durables.enabled {
            self.sim.bring_back(self.plan.nodes);
            settled = self.sim.violation.is_none();
        }
        if settled && self.sim.singletons.enabled {
            self.sim.rest_of_singletons();
        } else if settled && self.sim.paths.enabled {
            self.sim.rest_of_paths();
        } else if settled && self.sim.is_quiet() {
            self.sim.check_at_rest();
            if self.sim.violation.is_none() {
                self.sim.rest_of_remembered();
            }
            if self.sim.violation.is_none() {
                self.sim.rest_of_shards();
            }
            if self.sim.violation.is_none() {
                self.sim.rest_of_watches();
            }
            if self.sim.violation.is_none() && self.sim.durables.enabled {
                self.sim.rest_of_durables(self.plan.nodes);
            }
            if self.sim.has_data && self.sim.violation.is_none() {
                self.sim.rest_of_data();
            }
            if self.sim.keyed.enabled && self.sim.violation.is_none() {
                self.sim.rest_of_keyed();
            }
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
        while self.sim.has_work() && self.next_message <= until && self.sim.violation.is_none() {
            self.sim.advance(self.next_message.max(self.sim.now));
            self.sim.random_work(self.plan.nodes);
            let mean = SECOND / self.mix.messages_per_second;
            self.next_message += self.sim.until_next_message(mean);
        }
        self.sim.advance(until);
    }

    /// Goes on with faults that take time.
    fn go_on(&mut self) {
        while let Some(entry) = self.later.first_entry() {
            if entry.key().0 > self.sim.now {
                break;
            }
            match entry.remove() {
                Later::Heal => self.sim.heal(),
                Later::Partition(groups) => self.sim.partition_into(&groups),
                Later::Cut(one, other) => self.sim.cut_pair(one, other),
                Later::Open(one, other) => {
                    self.sim.open(one, other);
                    self.sim.open(other, one);
                }
                Later::Clear => self.sim.weather(Weather::FINE),
                Later::RepairDisk(index) => self.sim.store_fault(index, StoreFault::None),
                Later::RepairLeaseKeeper => self.sim.lease_keeper = LeaseKeeper::default(),
                Later::Crash(index) => self.sim.crash(index),
                Later::Blackout => self.sim.blackout(self.plan.nodes),
            }
        }
        self.settle_partition();
    }

    fn later(&mut self, after: u64, what: Later) {
        self.laters += 1;
        self.later.insert((self.sim.now + after, self.laters), what);
    }

    /// A partition is over once its cut has healed and the cluster has settled again.
    fn settle_partition(&mut self) {
        let sim = &mut *self.sim;
        if sim.assumptions.unsettled_partition && sim.network.is_whole() && all_up(sim) {
            sim.assumptions.unsettled_partition = false;
        }
    }

    /// Starts again what has ended, but only into a whole network: a first seed alone forms a second cluster.
    fn supervise(&mut self) {
        self.sim.host_again();
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

    /// After the last fault everybody who is due comes back, even in a seed without restarts.
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
        let groups = self.chance.groups(self.plan.nodes);
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
            FaultKind::Leave => self.sim.leave(index),
            FaultKind::Reset if index != other => self.sim.reset(index, other),
            FaultKind::Prepare if self.sim.prepare_for_shutdown(index) => {
                self.later(length / 4, Later::Crash(other));
                self.later(length, Later::Blackout);
            }
            FaultKind::Reset | FaultKind::Conflict | FaultKind::Liar | FaultKind::Prepare => {}
            FaultKind::Pause => self.sim.pause(index, micros(length * 3 / 4)),
            FaultKind::Slow => self
                .sim
                .slow_down(index, micros(10_000 + strength * 4_900), micros(length)),
            FaultKind::WallClock => {
                let unit = self.plan.profile.wall_clock_unit();
                self.sim.jump_wall_clock(index, strength * unit);
            }
            FaultKind::Tick => {
                let longest = self.plan.profile.longest_jump();
                self.sim.jump_ahead(index, micros(longest * strength / 100));
            }
            FaultKind::Blackout => self.sim.blackout(self.plan.nodes),
            FaultKind::SlowDisk => {
                let slower = StoreFault::Slow(strength * SECOND / 20);
                self.disk_fault(kind, index, slower, length);
            }
            FaultKind::FullDisk => self.disk_fault(kind, index, StoreFault::Full, length),
            FaultKind::FailedSync => self.disk_fault(kind, index, StoreFault::FailsOnce, length),
            FaultKind::Down => self.sim.down_from_outside(index, other),
            FaultKind::LeaveTwo => self.sim.leave_two(index, other),
            FaultKind::Remove => self.sim.remove_from_outside(index, other, self.plan.nodes),
            FaultKind::Retire => self.sim.retire_singleton(index, other, length),
            FaultKind::LeaseKeeper => {
                self.sim.trouble_lease_keeper(strength, self.plan.nodes, index);
                self.later(length, Later::RepairLeaseKeeper);
            }
            FaultKind::Loss => self.storm(kind, length, |weather| weather.loss_per_mille = strength * 3),
            FaultKind::Delay => self.storm(kind, length, |weather| {
                weather.latency_max = strength * 4_000;
            }),
            FaultKind::Reorder => {
                self.storm(kind, length, |weather| weather.reorder_per_mille = strength * 3)
            }
            FaultKind::Duplicate => {
                self.storm(kind, length, |weather| weather.duplicate_per_mille = strength * 3);
            }
            FaultKind::Partition
            | FaultKind::OneWay
            | FaultKind::Partial
            | FaultKind::Flap
            | FaultKind::Clog
            | FaultKind::Burst => self.cut(kind, (index, other), length, strength, &groups),
        }
    }

    /// Faults of the ways between nodes; one at a time.
    fn cut(
        &mut self,
        kind: FaultKind,
        (index, other): (usize, usize),
        length: u64,
        strength: u64,
        groups: &[Vec<usize>],
    ) {
        let clear = self.sim.network.weather == Weather::FINE;
        let free = self.sim.now >= self.cut_until && self.sim.network.is_whole();
        if !free || (self.mix.orderly && !clear) || (index == other && kind != FaultKind::Partition) {
            return;
        }
        let mut over = length;
        match kind {
            FaultKind::Partition => self.sim.partition_into(groups),
            FaultKind::OneWay => self.sim.cut(index, other),
            FaultKind::Burst => {
                over = 50_000 + strength * 9_000;
                self.sim.burst(index, other);
            }
            FaultKind::Partial if strength.is_multiple_of(2) => self.sim.cut_pair(index, other),
            FaultKind::Partial => self.cut_around(index, groups),
            FaultKind::Flap => {
                let period = 300_000 + strength * 40_000;
                self.sim.partition_into(groups);
                let mut at = period;
                while at + period < length {
                    self.later(at, Later::Heal);
                    self.later(at + period / 2, Later::Partition(groups.to_vec()));
                    at += period;
                }
            }
            FaultKind::Clog => self.clog(length),
            FaultKind::Crash
            | FaultKind::Restart
            | FaultKind::Loss
            | FaultKind::Delay
            | FaultKind::Leave
            | FaultKind::Reset
            | FaultKind::Pause
            | FaultKind::Slow
            | FaultKind::WallClock
            | FaultKind::Tick
            | FaultKind::Reorder
            | FaultKind::Duplicate
            | FaultKind::Blackout
            | FaultKind::SlowDisk
            | FaultKind::FullDisk
            | FaultKind::FailedSync
            | FaultKind::Conflict
            | FaultKind::Down
            | FaultKind::LeaveTwo
            | FaultKind::Prepare
            | FaultKind::LeaseKeeper
            | FaultKind::Retire
            | FaultKind::Liar
            | FaultKind::Remove => return,
        }
        if kind != FaultKind::Partition {
            self.sim.faults.add(kind);
        }
        self.cut_until = self.sim.now + over;
        self.later(over, Later::Heal);
    }

    /// A partition in which one node still reaches both sides.
    fn cut_around(&mut self, bridge: usize, groups: &[Vec<usize>]) {
        for (at, group) in groups.iter().enumerate() {
            for rest in &groups[at + 1..] {
                for (&one, &other) in group
                    .iter()
                    .flat_map(|one| rest.iter().map(move |other| (one, other)))
                {
                    if one != bridge && other != bridge {
                        self.sim.cut_pair(one, other);
                    }
                }
            }
        }
    }

    /// Links are cut one by one, and opened one by one in another order.
    fn clog(&mut self, length: u64) {
        let nodes = self.plan.nodes;
        let mut pairs: Vec<(usize, usize)> = (0..nodes)
            .flat_map(|one| (one + 1..nodes).map(move |other| (one, other)))
            .collect();
        self.chance.shuffle(&mut pairs);
        pairs.truncate(nodes);
        let step = length / (2 * pairs.len().max(1) as u64 + 1);
        let mut at = 0;
        for (one, other) in pairs.clone() {
            self.later(at, Later::Cut(one, other));
            at += step;
        }
        self.chance.shuffle(&mut pairs);
        for (one, other) in pairs {
            self.later(at, Later::Open(one, other));
            at += step;
        }
    }

    fn disk_fault(&mut self, kind: FaultKind, index: usize, fault: StoreFault, length: u64) {
        self.sim.faults.add(kind);
        self.sim.note(format_args!("{fault:?} at {index}"));
        self.sim.store_fault(index, fault);
        self.later(length, Later::RepairDisk(index));
    }

    fn storm(&mut self, kind: FaultKind, length: u64, change: impl Fn(&mut Weather)) {
        if self.mix.orderly && !self.sim.network.is_whole() {
            return;
        }
        let mut weather = self.sim.network.weather;
        change(&mut weather);
        self.sim.faults.add(kind);
        self.sim.weather(weather);
        self.later(length, Later::Clear);
    }
}
