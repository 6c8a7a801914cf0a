//! The event loop: takes the next thing that happens, hands it to a node, does what the node says, and has
//! the invariants look at the result. Decides nothing about protocols.

use std::collections::BTreeSet;
use std::sync::Arc;

use quorate_core::config::{Config, ValidConfig};
use quorate_core::effect::Output;
use quorate_core::event::JoinFailure;
use quorate_core::ident::{Address, UniqueAddress};
use quorate_core::input::{Command, Input, LinkEvent, Token};
use quorate_core::view::View;

use super::chance::{Chance, Purpose};
use super::data::Books;
use super::durable::Durables;
use super::faults::FaultCounts;
use super::figures::Traffic;
pub(crate) use super::happening::Happening;
use super::history::{History, Life, ProcessId, Whereabouts};
use super::keyed::Keyed;
use super::leases::LeaseKeeper;
use super::liars::Liars;
use super::life::Lives;
use super::load::UnequalLoads;
use super::names::{LinkName, dropped_message};
use super::network::Network;
use super::passivation::Passivations;
use super::paths::Paths;
use super::process::{Clock, Open, Process};
use super::queue::Queue;
use super::remembered::Remembered;
use super::safety::Assumptions;
use super::singletons::Singletons;
use super::store::Stores;
use super::swallowed::Swallowed;
use super::trace::{Show, Trace};
use super::violation::Violation;
use super::watches::Watches;
use crate::invariants::{Cause, Checks, Step};
use crate::lease::MemoryLeases;

/// Ticks of one process within one microsecond after which it counts as spinning.
const TICKS_PER_INSTANT_MAX: u32 = 2_000;

/// Inputs that all nodes together may take in a second of virtual time, on average, and at once: a hundred
/// times what an ordinary run of nine nodes needs.
const STEPS_PER_SECOND_MAX: u64 = 50_000;
const STEPS_BASE: u64 = 500_000;

/// A node's own rules are looked at after each input that changed its picture, after every fourth other one,
/// and at rest: what is broken stays so, and looking each time took half of a campaign.
const LOOK_EVERY: u64 = 4;

/// A simulated cluster.
#[derive(Debug)]
pub struct Sim {
    pub(crate) seed: u64,
    pub(crate) now: u64,
    pub(crate) queue: Queue<Happening>,
    pub(crate) network: Network,
    pub(crate) processes: Vec<Process>,
    /// The last process started on each address.
    pub(crate) last_at: Vec<Option<ProcessId>>,
    pub(crate) config: Config,
    pub(crate) history: History,
    pub(crate) checks: Checks,
    pub(crate) trace: Trace,
    pub(crate) faults: FaultCounts,
    pub(crate) assumptions: Assumptions,
    pub(crate) leases: MemoryLeases,
    pub(crate) lease_keeper: LeaseKeeper,
    /// The number of the next lease that is granted.
    pub(crate) next_lease: u64,
    pub(crate) stores: Stores,
    pub(crate) violation: Option<Violation>,
    pub(crate) workload: Chance,
    pub(crate) entity_chance: Chance,
    pub(crate) process_chance: Chance,
    pub(crate) passivations: Passivations,
    pub(crate) remembered: Remembered,
    pub(crate) lives: Lives,
    pub(crate) durables: Durables,
    pub(crate) watches: Watches,
    pub(crate) liars: Liars,
    /// Frames of these kinds to lose: kind, from address, to address.
    pub(crate) doomed: Vec<(&'static str, usize, usize)>,
    /// Frames that do not come through: from address, to address, which.
    pub(crate) swallowed: BTreeSet<(usize, usize, Swallowed)>,
    /// Set when a picture changed since it was last cleared.
    pub(crate) changed: bool,
    pub(crate) steps: u64,
    /// Why joins failed, over all nodes.
    pub(crate) join_failures: Vec<JoinFailure>,
    /// A run outside of the safe shapes did not come to rest.
    pub(crate) stuck: bool,
    /// The address whose node has a role that the others lack, and registers the kind for that role only.
    pub(crate) differs: Option<usize>,
    /// Whether nodes host entities and are sent messages.
    pub(crate) has_workload: bool,
    /// Whether nodes hold replicated data and are asked to change it.
    pub(crate) has_data: bool,
    pub(crate) data: Books,
    /// Singletons, their instances' database, and whether there are any.
    pub(crate) singletons: Singletons,
    /// Paths, what is commanded of them, and whether there are any.
    pub(crate) paths: Paths,
    /// Buckets of the keyed store, and what is called of them.
    pub(crate) keyed: Keyed,
    /// How busy nodes are.
    pub(crate) loads: UnequalLoads,
    /// For how many stable periods nodes count who is Down, if it is not the usual number.
    pub(crate) held_periods: Option<u32>,
    /// Nothing is checked and nothing hashed: for figures of large clusters.
    pub(crate) is_bare: bool,
    /// What nodes have sent over links.
    pub(crate) traffic: Traffic,
    /// Processes that halted, by what they said.
    pub(crate) halts: std::collections::BTreeMap<String, u64>,
}

impl Sim {
    pub(crate) fn with_config(seed: u64, config: Config, show: Show) -> Self {
        Self {
            seed,
            now: 0,
            queue: Queue::new(),
            network: Network::new(seed),
            processes: Vec::new(),
            last_at: Vec::new(),
            config,
            history: History::default(),
            checks: Checks::default(),
            trace: Trace::new(show),
            faults: FaultCounts::default(),
            assumptions: Assumptions::default(),
            leases: MemoryLeases::default(),
            lease_keeper: LeaseKeeper::default(),
            next_lease: 0,
            stores: Stores::new(seed),
            violation: None,
            workload: Chance::new(seed, Purpose::Workload),
            entity_chance: Chance::new(seed, Purpose::Entities),
            process_chance: Chance::new(seed, Purpose::Processes),
            passivations: Passivations::new(seed),
            remembered: Remembered::new(seed),
            lives: Lives::new(seed),
            durables: Durables::new(seed),
            watches: Watches::new(seed),
            liars: Liars::default(),
            doomed: Vec::new(),
            swallowed: BTreeSet::new(),
            changed: false,
            steps: 0,
            join_failures: Vec::new(),
            stuck: false,
            differs: None,
            has_workload: true,
            has_data: false,
            data: Books::default(),
            singletons: Singletons::new(seed),
            paths: Paths::new(seed),
            keyed: Keyed::new(seed),
            loads: UnequalLoads::new(seed),
            held_periods: None,
            is_bare: false,
            traffic: Traffic::default(),
            halts: std::collections::BTreeMap::new(),
        }
    }

    /// Lets virtual time pass up to `until`, or up to the first violation.
    pub(crate) fn advance(&mut self, until: u64) {
        while self.violation.is_none() {
            let Some((at, happening)) = self.queue.pop_until(until) else {
                self.now = self.now.max(until);
                return;
            };
            self.now = at;
            self.happen(happening);
        }
    }

    /// The next thing happens, if there is one up to `until`.
    pub(crate) fn advance_once(&mut self, until: u64) -> bool {
        match self.queue.pop_until(until) {
            Some((at, happening)) => {
                self.now = at;
                self.happen(happening);
                true
            }
            None => {
                self.now = self.now.max(until);
                false
            }
        }
    }

    fn happen(&mut self, happening: Happening) {
        if let Some(until) = self.stands_still(&happening) {
            return self.put_off(until, happening);
        }
        match happening {
            Happening::Wake(process) => self.on_wake(process),
            Happening::Frame(flight) => self.on_frame(*flight),
            Happening::Read(flight) => self.read(*flight),
            Happening::Dialled { from, to } => self.on_dialled(from, to),
            Happening::Noticed { from, to, epoch } => self.on_noticed(from, to, epoch),
            Happening::Told { to, event } => self.is_told(to, *event),
            Happening::Margin(process) => self.on_margin(process),
            Happening::HandlersEnded(process) => self.history.handlers_ended(process),
            Happening::Turn { process, slot } => self.on_turn(process, slot),
            Happening::Reported { process, report } => self.on_reported(process, *report),
            Happening::LeaseAnswered { process, answer } => self.on_lease_answered(process, *answer),
            Happening::LeaseRenewal {
                process,
                name,
                number,
            } => self.on_lease_renewal(process, &name, number),
            Happening::Instance(happening) => self.on_instance(*happening),
            Happening::Stored { process, storing } => self.on_stored(process, *storing),
            Happening::Path(happening) => self.on_path(*happening),
            Happening::Durable(happening) => self.on_durable(*happening),
        }
    }

    /// A process stands still until then. A frame goes behind those that a slow process would have read by
    /// now.
    fn put_off(&mut self, until: u64, happening: Happening) {
        if let Happening::Frame(flight) = happening {
            let at = self.processes[flight.to as usize].reads_at(self.now);
            return self.queue.push(at.unwrap_or(until), Happening::Read(flight));
        }
        if let Happening::Wake(process) = happening {
            self.processes[process as usize].wake = Some(until);
        }
        self.queue.push(until, happening);
    }

    /// Until when the process that something happens to stands still, if it does. What happens to it waits,
    /// in order.
    fn stands_still(&self, happening: &Happening) -> Option<u64> {
        let process = match happening {
            Happening::Frame(flight) | Happening::Read(flight) => flight.to,
            Happening::Wake(process)
            | Happening::Turn { process, .. }
            | Happening::Reported { process, .. }
            | Happening::LeaseAnswered { process, .. }
            | Happening::LeaseRenewal { process, .. }
            | Happening::Stored { process, .. } => *process,
            Happening::Instance(happening) => happening.waits_for()?,
            Happening::Path(happening) => happening.waits_for(),
            Happening::Durable(happening) => happening.waits_for()?,
            Happening::Dialled { from, .. } | Happening::Noticed { from, .. } => *from,
            Happening::Told { to, .. } => *to,
            Happening::Margin(_) | Happening::HandlersEnded(_) => return None,
        };
        let host = &self.processes[process as usize];
        (host.runs() && self.now < host.paused_until).then_some(host.paused_until)
    }

    /// Starts a process on an address; its node has not joined anything.
    pub(crate) fn boot(&mut self, index: usize) -> ProcessId {
        let address = self.address(index);
        let uid = self.process_chance.number();
        let clock = Clock {
            started: self.now,
            origin: self.process_chance.below(1 << 45),
            skew_ms: self.process_chance.below(1 << 40)
                % if self.durables.enabled || self.keyed.enabled {
                    2_000
                } else if self.has_data || self.remembered.store().is_some() || self.lives.enabled {
                    100_000
                } else {
                    1 << 40
                },
        };
        let me = UniqueAddress::new(address, uid);
        let id = self.history.started(me.clone(), index);
        let config = self.config_of(index);
        self.trace.begin(self.now, id, b'B');
        self.trace.number(uid);
        self.processes
            .push(Process::new(config, me, index, clock, (self.seed, id)));
        if self.last_at.len() <= index {
            self.last_at.resize(index + 1, None);
        }
        self.last_at[index] = Some(id);
        self.fact(id, format_args!("starts"));
        id
    }

    /// Ends a process without a word.
    pub(crate) fn kill(&mut self, process: ProcessId) {
        self.processes[process as usize].life = Life::Crashed;
        self.fact(process, format_args!("crashes"));
        self.trace.begin(self.now, process, b'K');
        self.bury(process, Life::Crashed);
    }

    pub(crate) fn command(&mut self, process: ProcessId, what: Open, command: Command) -> Option<Token> {
        let host = &self.processes[process as usize];
        if !host.runs() || self.now < host.paused_until {
            return None;
        }
        let token = self.processes[process as usize].open(what);
        self.trace.begin(self.now, process, b'C');
        self.trace.debug(&command);
        self.feed(process, &Cause::Command, Input::Command { token, command });
        Some(token)
    }

    fn on_wake(&mut self, process: ProcessId) {
        let (now, host) = (self.now, &mut self.processes[process as usize]);
        if !host.runs() || host.wake != Some(now) {
            return;
        }
        host.wake = None;
        host.ticks_now = match host.ticks_now {
            (at, ticks) if at == now => (now, ticks + 1),
            _ => (now, 1),
        };
        if host.ticks_now.1 > TICKS_PER_INSTANT_MAX {
            return self.violated("host", process, "asks for ticks without end".to_owned());
        }
        self.trace.begin(now, process, b'T');
        self.feed(process, &Cause::Tick, Input::Tick);
    }

    /// A tick that nobody asked for.
    pub(crate) fn tick(&mut self, process: ProcessId) {
        if self.violation.is_none() && self.processes[process as usize].runs() {
            self.trace.begin(self.now, process, b'T');
            self.feed(process, &Cause::Tick, Input::Tick);
        }
    }

    pub(crate) fn tell_link(&mut self, to: ProcessId, event: LinkEvent) {
        let dropped = dropped_message(&event);
        let runs = self.processes[to as usize].runs();
        if let Some(at) = dropped.filter(|at| *at < self.history.messages.len()) {
            if runs {
                self.history.arrives(at, to, self.now);
            } else {
                self.history.messages[at].whereabouts = Whereabouts::Destroyed;
            }
        }
        if !runs {
            return;
        }
        self.trace.begin(self.now, to, b'L');
        self.trace.debug(&LinkName(&event));
        if self.trace.shows(Show::Everything) {
            self.say(to, format_args!("<- link {:?}", LinkName(&event)));
        }
        self.feed(to, &Cause::Link, Input::Link(event));
    }

    /// Hands one input to a node, does everything it says, and lets the invariants look.
    pub(crate) fn feed(&mut self, process: ProcessId, cause: &Cause, input: Input<'_>) {
        self.lose_overdue_leases(process);
        self.steps += 1;
        let now = self.now;
        // Virtual time is no bound: nodes that answer each other without end do it within microseconds of it.
        if !self.is_bare && self.steps > STEPS_BASE + now / 1_000_000 * STEPS_PER_SECOND_MAX {
            return self.violated(
                "storm",
                process,
                "nodes keep each other busy without end".to_owned(),
            );
        }
        let host = &mut self.processes[process as usize];
        let before = Arc::clone(host.node.view());
        host.fed_at = now;
        host.node.handle(host.now(now), input);
        let after = Arc::clone(host.node.view());
        if !self.is_bare {
            self.watch_births(&before, &after);
        }
        let mut effects = 0;
        loop {
            match self.processes[process as usize].node.poll() {
                Output::Effect(effect) => {
                    effects += 1;
                    self.carry_out(process, effect);
                }
                Output::Sleep(wake) => {
                    let host = &self.processes[process as usize];
                    let at = wake.map(|wake| host.virtual_time(wake.at).max(now));
                    self.set_wake(process, at);
                    self.count_effects(process, effects);
                    break;
                }
            }
            if self.violation.is_some() {
                return;
            }
        }
        self.look_at_limits(process, cause);
        self.look(process, cause, &before);
    }

    fn set_wake(&mut self, process: ProcessId, at: Option<u64>) {
        let host = &mut self.processes[process as usize];
        if host.wake == at || !host.runs() {
            return;
        }
        host.wake = at;
        if let Some(at) = at {
            self.queue.push(at, Happening::Wake(process));
        }
    }

    fn look(&mut self, process: ProcessId, cause: &Cause, before: &Arc<View>) {
        let host = &self.processes[process as usize];
        if self.is_bare {
            self.changed |= !Arc::ptr_eq(before, host.node.view());
            return;
        }
        let after = Arc::clone(host.node.view());
        let changed = !Arc::ptr_eq(before, &after);
        if (changed || self.steps.is_multiple_of(LOOK_EVERY))
            && let Err(error) = host.node.check_invariants()
        {
            return self.violated(error.machine, process, error.what);
        }
        if !changed {
            return;
        }
        self.changed = true;
        self.history.held(process, after.gossip());
        let step = Step {
            at: self.now,
            process,
            cause,
            before,
            after: &after,
            safe: self.assumptions.safe(),
            mono: host.now(self.now).mono.as_micros(),
        };
        let result = self.checks.on_step(&step, &self.history);
        if let Err((invariant, what)) = result {
            return self.violated(invariant, process, what);
        }
        self.watch_removals(before, &after);
    }

    pub(crate) fn lives(&self, node: &UniqueAddress) -> Option<ProcessId> {
        let process = self.history.process_of(node)?;
        self.processes[process as usize].runs().then_some(process)
    }

    pub(crate) fn address(&self, index: usize) -> Address {
        let port = u16::try_from(2_551 + index).unwrap_or(u16::MAX);
        Address::new("sim", port).expect("invariant: a short name and a port above zero are legal")
    }

    pub(crate) fn valid_config(&self) -> ValidConfig {
        let valid = self.config.clone().validate();
        valid.expect("invariant: the simulator's profiles are legal")
    }

    /// The running process on an address.
    pub(crate) fn running_at(&self, index: usize) -> Option<ProcessId> {
        let id = self.last_at.get(index).copied().flatten()?;
        self.processes[id as usize].runs().then_some(id)
    }

    pub(crate) fn fact(&self, process: ProcessId, what: core::fmt::Arguments<'_>) {
        if self.trace.shows(Show::Facts) {
            self.say(process, what);
        }
    }

    pub(crate) fn say(&self, process: ProcessId, what: core::fmt::Arguments<'_>) {
        let index = self.processes[process as usize].index;
        self.trace.line(self.now, &format!("n{index}/p{process}"), what);
    }
}
