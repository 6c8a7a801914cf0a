//! The verbs of a scenario: what a test says to a simulated cluster, and what it expects of it. A verb that
//! does not hold panics with the seed, the time and the state of every node.

use core::time::Duration;
use std::sync::Arc;

use quorate_core::config::Config;
use quorate_core::event::JoinFailure;
use quorate_core::ident::{ClusterName, UniqueAddress};
use quorate_core::input::{Command, DownTarget, MembershipCommand};
use quorate_core::membership::member::Status;
use quorate_core::view::{MembershipPhase, View};

use super::engine::Sim;
use super::faults::{FaultCounts, FaultKind};
use super::history::{History, Life};
use super::network::Weather;
use super::process::Open;
use super::safety::Assumptions;
use super::trace::Show;
use super::violation::Violation;

/// How long [`Sim::run_until`] waits before it gives up, in virtual time.
const PATIENCE: Duration = Duration::from_secs(60);
/// Pause between the starts of two nodes, so that nothing depends on one instant.
const START_GAP: u64 = 7_000;

/// So many seconds.
#[must_use]
pub const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Every running node sees exactly the running nodes, all Up and reachable, on a converged state.
#[must_use]
pub fn all_up(sim: &Sim) -> bool {
    sim.settled(|member| member == Status::Up)
}

/// Like [`all_up`], and every message is accounted for: nothing is buffered or on its way.
#[must_use]
pub fn calm(sim: &Sim) -> bool {
    all_up(sim) && sim.unanswered() == 0
}

impl Sim {
    /// An empty world with the timing profile for one machine.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let name = ClusterName::new("sim").expect("invariant: a short name is legal");
        Self::with_config(seed, Config::fast(name), Show::Nothing)
    }

    /// The same world with a trace that is shown.
    #[must_use]
    pub fn showing(seed: u64, show: Show) -> Self {
        let name = ClusterName::new("sim").expect("invariant: a short name is legal");
        Self::with_config(seed, Config::fast(name), show)
    }

    /// Changes the settings of nodes that start from now on.
    #[must_use]
    pub fn config(mut self, change: impl FnOnce(&mut Config)) -> Self {
        change(&mut self.config);
        self
    }

    /// Starts this many nodes, which all name each other as seeds, the first one first.
    #[must_use]
    pub fn nodes(mut self, count: usize) -> Self {
        self.last_at.resize(count, None);
        for index in 0..count {
            self.start(index);
            let next = self.now + START_GAP;
            self.advance(next);
        }
        self
    }

    /// Starts a node on an address; it joins through all addresses there are, the first one first.
    pub fn start(&mut self, index: usize) {
        let all = self.last_at.len().max(index + 1);
        let seeds: Vec<usize> = (0..all).collect();
        self.start_with_seeds(index, &seeds);
    }

    /// Starts a node on an address; it joins through the nodes named.
    pub fn start_with_seeds(&mut self, index: usize, seeds: &[usize]) {
        let process = self.boot(index);
        if self.has_workload {
            self.register_kind(process);
        }
        if self.has_data {
            self.subscribe_to_data(process);
        }
        self.register_singletons(process);
        self.register_paths(process);
        self.open_buckets(process);
        let seeds = seeds.iter().map(|seed| self.address(*seed)).collect();
        self.command(
            process,
            Open::Command("join"),
            Command::Membership(MembershipCommand::JoinSeeds(seeds)),
        );
    }

    /// Lets virtual time pass.
    pub fn run_for(&mut self, time: Duration) {
        let until = self.now + u64::try_from(time.as_micros()).unwrap_or(u64::MAX / 2);
        self.advance(until);
        self.guard();
    }

    /// Lets virtual time pass until something holds; panics after a minute of it.
    pub fn run_until(&mut self, holds: impl Fn(&Self) -> bool) {
        let patience = u64::try_from(PATIENCE.as_micros()).unwrap_or(u64::MAX / 2);
        let came = self.run_until_or(self.now + patience, &holds);
        self.guard();
        if !came {
            panic!("{}", self.report("waited for a minute in vain"));
        }
    }

    /// Lets virtual time pass until something holds, or up to a time; whether it holds.
    pub(crate) fn run_until_or(&mut self, limit: u64, holds: &impl Fn(&Self) -> bool) -> bool {
        self.changed = true;
        loop {
            if core::mem::take(&mut self.changed) && holds(self) {
                return true;
            }
            if self.violation.is_some() || !self.advance_once(limit) {
                return holds(self);
            }
        }
    }

    /// Cuts the ways between two groups of nodes.
    pub fn partition(
        &mut self,
        left: impl IntoIterator<Item = usize>,
        right: impl IntoIterator<Item = usize>,
    ) {
        let groups = [left.into_iter().collect(), right.into_iter().collect()];
        self.partition_into(&groups);
    }

    /// Cuts the ways between any number of groups of nodes.
    pub fn partition_into(&mut self, groups: &[Vec<usize>]) {
        if !self.network.is_whole() || !self.settled(|status| status == Status::Up) {
            self.assumptions
                .breaks(self.now, "a partition of a cluster that had not settled");
        }
        if self.network.weather != Weather::FINE {
            self.assumptions.breaks(self.now, "a partition in bad weather");
        }
        self.assumptions.unsettled_partition = true;
        self.faults.add(FaultKind::Partition);
        self.note(format_args!("partition {groups:?}"));
        self.network.partition(groups);
        self.links_are_cut();
    }

    /// Cuts one direction between two nodes.
    pub fn cut(&mut self, from: usize, to: usize) {
        self.assumptions.breaks(self.now, "a one-way cut");
        self.note(format_args!("cut {from} -> {to}"));
        self.network.cut(from, to);
        self.links_are_cut();
    }

    /// Cuts both directions between two nodes, and nothing else.
    pub fn cut_pair(&mut self, one: usize, other: usize) {
        self.cut(one, other);
        self.cut(other, one);
    }

    /// Everything between two nodes is lost until it is healed, and no host notices: a moment in which
    /// packets are lost.
    pub(crate) fn burst(&mut self, one: usize, other: usize) {
        self.note(format_args!("burst {one} <-> {other}"));
        self.network.cut(one, other);
        self.network.cut(other, one);
    }

    /// Opens one direction between two nodes again.
    pub fn open(&mut self, from: usize, to: usize) {
        self.note(format_args!("open {from} -> {to}"));
        self.network.open(from, to);
    }

    /// The process at an address stands still, unless it does already: what arrives waits, in order, and its
    /// clocks go on.
    pub fn pause(&mut self, index: usize, time: Duration) {
        let process = self.running_at(index);
        let Some(process) = process.filter(|at| self.processes[*at as usize].paused_until <= self.now) else {
            return;
        };
        self.assumptions.breaks(self.now, "a process stood still");
        self.faults.add(FaultKind::Pause);
        self.fact(process, format_args!("stands still for {time:?}"));
        self.stand_still(process, time.as_micros() as u64);
    }

    /// The virtual time since the beginning.
    #[must_use]
    pub const fn now(&self) -> Duration {
        Duration::from_micros(self.now)
    }

    /// From now on every entity at an address is in a handler that does not end.
    pub fn stick(&mut self, index: usize) {
        if let Some(process) = self.running_at(index) {
            self.processes[process as usize].is_stuck = true;
        }
    }

    /// The process at an address handles everything that arrives this much later, for a while.
    pub fn slow_down(&mut self, index: usize, delay: Duration, time: Duration) {
        let Some(process) = self.running_at(index) else {
            return;
        };
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX / 2);
        self.assumptions.fault(self.now, "a slow process in a partition");
        self.faults.add(FaultKind::Slow);
        self.fact(process, format_args!("is slow by {delay:?} for {time:?}"));
        self.processes[process as usize].slow = (micros(delay), self.now + micros(time));
    }

    /// The wall clock of the process at an address shows something else from now on.
    pub fn jump_wall_clock(&mut self, index: usize, skew_ms: u64) {
        let Some(process) = self.running_at(index) else {
            return;
        };
        self.faults.add(FaultKind::WallClock);
        self.fact(process, format_args!("has its wall clock off by {skew_ms} ms"));
        self.processes[process as usize].jump_wall(skew_ms);
    }

    /// The monotonic clock of the process at an address jumps ahead, and it gets its next tick twice.
    pub fn jump_ahead(&mut self, index: usize, by: Duration) {
        let Some(process) = self.running_at(index) else {
            return;
        };
        if self.now < self.processes[process as usize].paused_until {
            return;
        }
        self.assumptions.breaks(self.now, "a clock jumped");
        self.faults.add(FaultKind::Tick);
        self.fact(process, format_args!("has its clock jump by {by:?}"));
        let by = u64::try_from(by.as_micros()).unwrap_or(u64::MAX / 2);
        self.processes[process as usize].jump_mono(by);
        self.tick(process);
        self.tick(process);
    }

    /// Opens every way again.
    pub fn heal(&mut self) {
        self.note(format_args!("heal"));
        self.network.heal();
    }

    /// Changes what the network does to frames.
    pub fn weather(&mut self, weather: Weather) {
        if weather != Weather::FINE {
            self.assumptions.fault(self.now, "bad weather in a partition");
        }
        self.note(format_args!("{weather:?}"));
        self.network.weather = weather;
    }

    /// Ends the process at an address without a word.
    pub fn crash(&mut self, index: usize) {
        let Some(process) = self.running_at(index) else {
            return;
        };
        self.assumptions.fault(self.now, "a crash in a partition");
        self.faults.add(FaultKind::Crash);
        self.kill(process);
    }

    /// Starts a new process on an address, as if a supervisor did it; ends the old one first.
    pub fn restart(&mut self, index: usize) {
        self.crash(index);
        self.assumptions.fault(self.now, "a restart in a partition");
        self.faults.add(FaultKind::Restart);
        self.start(index);
    }

    /// Has the node at an address leave gracefully.
    pub fn leave(&mut self, index: usize) {
        let Some(process) = self.running_at(index) else {
            return;
        };
        self.assumptions.fault(self.now, "a departure in a partition");
        self.faults.add(FaultKind::Leave);
        self.fact(process, format_args!("is asked to leave"));
        self.command(
            process,
            Open::Command("leave"),
            Command::Membership(MembershipCommand::Leave),
        );
    }

    /// Has a node join through others by command, whatever it is part of already.
    pub fn join(&mut self, index: usize, seeds: &[usize]) {
        let Some(process) = self.running_at(index) else {
            return;
        };
        let seeds = seeds.iter().map(|seed| self.address(*seed)).collect();
        self.command(
            process,
            Open::Command("join"),
            Command::Membership(MembershipCommand::JoinSeeds(seeds)),
        );
    }

    /// Has a node declare the node at another address Down, as an operator would.
    pub fn down(&mut self, at: usize, target: usize) {
        let Some(process) = self.running_at(at) else {
            return;
        };
        let target = DownTarget::Address(self.address(target));
        self.command(
            process,
            Open::Command("down"),
            Command::Membership(MembershipCommand::Down(target)),
        );
    }

    /// Breaks the links between two nodes; what was on the way is lost, both may dial again at once.
    pub fn reset(&mut self, one: usize, other: usize) {
        let (Some(a), Some(b)) = (self.running_at(one), self.running_at(other)) else {
            return;
        };
        self.faults.add(FaultKind::Reset);
        self.note(format_args!("reset {one} <-> {other}"));
        self.break_link(a, other);
        self.break_link(b, one);
    }

    /// Loses the next message of a kind ("Welcome", "Join", ...) from one node to another.
    pub fn lose_next(&mut self, name: &'static str, from: usize, to: usize) {
        self.doomed.push((name, from, to));
    }

    /// The picture of the node at an address, whatever became of its process.
    #[must_use]
    pub fn view(&self, index: usize) -> &Arc<View> {
        let id = self.last_at[index].expect("a node was started there");
        self.processes[id as usize].node.view()
    }

    /// The addresses on which a process runs.
    #[must_use]
    pub fn running(&self) -> Vec<usize> {
        (0..self.last_at.len())
            .filter(|index| self.running_at(*index).is_some())
            .collect()
    }

    /// The node that the node at an address takes for the leader.
    #[must_use]
    pub fn leader_of(&self, index: usize) -> Option<usize> {
        self.index_of_node(self.view(index).leader()?)
    }

    /// The oldest member as the node at an address sees it.
    #[must_use]
    pub fn oldest_of(&self, index: usize) -> Option<usize> {
        let view = self.view(index);
        let oldest = view.by_age(None).first().map(|member| member.node.clone())?;
        self.index_of_node(&oldest)
    }

    /// Every message that is on its way or whose ask has no answer yet.
    #[must_use]
    pub fn unanswered(&self) -> usize {
        self.history
            .messages
            .iter()
            .filter(|message| self.is_open(message))
            .count()
    }

    /// Nothing is on its way, and every ask of a living node has its answer.
    pub(crate) fn is_quiet(&self) -> bool {
        self.unanswered() == 0 && self.open_data() == 0 && self.keyed.open() == 0 && self.durables.is_quiet()
    }

    /// Virtual time since the beginning.
    #[must_use]
    pub const fn elapsed(&self) -> Duration {
        Duration::from_micros(self.now)
    }

    /// What really happened.
    #[must_use]
    pub const fn history(&self) -> &History {
        &self.history
    }

    /// How often each fault fired.
    #[must_use]
    pub const fn fault_counts(&self) -> &FaultCounts {
        &self.faults
    }

    /// Whether the run is one in which single ownership must hold.
    #[must_use]
    pub const fn assumptions(&self) -> &Assumptions {
        &self.assumptions
    }

    /// The hash of everything that happened so far.
    #[must_use]
    pub fn trace_hash(&self) -> u64 {
        self.trace.hash()
    }

    /// Inputs handed to nodes so far.
    #[must_use]
    pub const fn steps(&self) -> u64 {
        self.steps
    }

    /// How often running nodes said that joining failed for this reason.
    #[must_use]
    pub fn join_failures(&self, reason: JoinFailure) -> usize {
        self.join_failures
            .iter()
            .filter(|failure| **failure == reason)
            .count()
    }

    /// The running nodes and how many shards each hosts.
    #[must_use]
    pub fn hosts(&self) -> Vec<(usize, usize)> {
        let running = self.running().into_iter();
        running
            .filter_map(|index| {
                let id = self.running_at(index)?;
                Some((index, self.history.processes[id as usize].shards.len()))
            })
            .collect()
    }

    /// Counts over all processes ever started, by name.
    pub fn sum(&self, of: impl Fn(&quorate_core::stats::Stats) -> u64) -> u64 {
        self.processes.iter().map(|host| of(host.node.stats())).sum()
    }

    /// The first broken invariant.
    #[must_use]
    pub const fn violation(&self) -> Option<&Violation> {
        self.violation.as_ref()
    }

    pub(crate) fn is_open(&self, message: &super::history::MessageRecord) -> bool {
        use super::history::Whereabouts;
        let asker_lives = self.processes[message.sender as usize].runs();
        let waits = message.ask && message.outcome.is_none() && asker_lives;
        waits
            || matches!(
                message.whereabouts,
                Whereabouts::InFlight | Whereabouts::Mailbox(_)
            )
    }

    /// Whether every running node sees exactly the running ones, with a status that is good, reachable and
    /// converged.
    pub(crate) fn settled(&self, good: impl Fn(Status) -> bool) -> bool {
        let running = self.running();
        running.iter().all(|index| {
            let view = self.view(*index);
            view.phase() == MembershipPhase::Member
                && view.is_converged()
                && view.unreachable().is_empty()
                && view.members().len() == running.len()
                && view.members().iter().all(|member| {
                    let lives = self
                        .history
                        .of(&member.node)
                        .is_some_and(|process| process.life == Life::Running);
                    good(member.status) && lives
                })
        })
    }

    pub(crate) fn index_of_node(&self, node: &UniqueAddress) -> Option<usize> {
        self.history.of(node).map(|process| process.index)
    }

    pub(crate) fn note(&mut self, what: core::fmt::Arguments<'_>) {
        self.trace.begin(self.now, u32::MAX, b'!');
        self.trace.debug(&what);
        if self.trace.shows(Show::Facts) {
            self.trace.line(self.now, "---", what);
        }
    }
}
