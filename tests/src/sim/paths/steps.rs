//! Every fault at every step of a hand-off, one run each: a slot of a quiet cluster is moved while everybody
//! sends to it, and in the moment in which the step happens the fault does. Then everything comes to rest and
//! is looked at as at the end of a random run.

use core::ops::Range;
use core::time::Duration;
use std::process::ExitCode;

use quorate_core::input::Command;
use quorate_core::paths::protocol::PathPick;
use quorate_core::paths::state::table::MoveStatus;

use super::{PATHS, PathKind};
use crate::sim::engine::Sim;
use crate::sim::plan::SECOND;
use crate::sim::process::Open;
use crate::sim::stepwise::{StepFault, StepTally};
use crate::sim::{Show, Violation};

/// Nodes of each run. The first one leads.
const NODES: usize = 5;
/// Time between two rounds of messages.
const ROUND: u64 = 15_000;
/// How long the move may take to get to a step.
const STEP_MAX: u64 = 20 * SECOND;
/// How long messages go on after the fault.
const GO_ON: u64 = 3 * SECOND;

/// How far a hand-off is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandoffStep {
    /// The leader has written it into the table.
    Begun,
    /// The old host has seen it.
    Awaiting,
    /// Somebody said this for the first time.
    Said(&'static str),
    /// This status is in the table of the old host.
    Status(MoveStatus),
}

impl HandoffStep {
    /// All of them, in order.
    pub const ALL: [Self; 13] = [
        Self::Begun,
        Self::Awaiting,
        Self::Said("State"),
        Self::Said("StateReceived"),
        Self::Said("Init"),
        Self::Said("Ready"),
        Self::Said("Begin"),
        Self::Said("Begun"),
        Self::Status(MoveStatus::Complete),
        Self::Said("Mark"),
        Self::Said("PassedMark"),
        Self::Status(MoveStatus::Settled),
        Self::Status(MoveStatus::Applied),
    ];
}

/// Who has a part in a hand-off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The leader, which has no other part.
    Leader,
    /// Who had the slot.
    OldHost,
    /// Who gets it.
    NewHost,
    /// One of those that send.
    Sender,
}

/// What happens at the step.
type Fault = StepFault<Part>;

const FAULTS: [Fault; 16] = [
    StepFault::Crash(Part::Leader),
    StepFault::Crash(Part::OldHost),
    StepFault::Crash(Part::NewHost),
    StepFault::Crash(Part::Sender),
    StepFault::Pause(Part::OldHost, 7),
    StepFault::Pause(Part::NewHost, 7),
    StepFault::Pause(Part::OldHost, 25),
    StepFault::Pause(Part::NewHost, 25),
    StepFault::Pause(Part::Leader, 25),
    StepFault::Reset(Part::OldHost, Part::NewHost),
    StepFault::Reset(Part::Sender, Part::OldHost),
    StepFault::Reset(Part::Sender, Part::NewHost),
    StepFault::Leave(Part::Leader),
    StepFault::Leave(Part::OldHost),
    StepFault::Leave(Part::NewHost),
    StepFault::Leave(Part::Sender),
];

/// What came of one run.
#[derive(Clone, Debug)]
pub struct StepOutcome {
    /// Of which path, at which step, and which fault.
    pub name: String,
    /// Whether the move came to the step.
    pub reached: bool,
    /// What was broken.
    pub violation: Option<Violation>,
}

/// Runs all of them under one seed.
pub fn run_all(seed: u64, show: Show, only: Option<&str>, seen: &mut dyn FnMut(&StepOutcome)) {
    for kind in PATHS.iter().take(5) {
        for step in HandoffStep::ALL {
            for fault in FAULTS {
                let name = format!("{} {step:?} {fault:?}", kind.name);
                if only.is_none_or(|only| only == name) {
                    let (reached, violation) = run(seed, show, kind, (step, fault));
                    let outcome = StepOutcome {
                        name,
                        reached,
                        violation,
                    };
                    seen(&outcome);
                }
            }
        }
    }
}

/// Where each part is, and the counter of the move.
#[derive(Clone, Copy, Debug)]
struct Cast {
    old: usize,
    new: usize,
    sender: usize,
}

impl Cast {
    const fn of(self, part: Part) -> usize {
        match part {
            Part::Leader => 0,
            Part::OldHost => self.old,
            Part::NewHost => self.new,
            Part::Sender => self.sender,
        }
    }
}

fn run(
    seed: u64,
    show: Show,
    kind: &PathKind,
    (step, fault): (HandoffStep, Fault),
) -> (bool, Option<Violation>) {
    let mut sim = Sim::showing(seed, show);
    sim.has_workload = false;
    sim.enable_paths();
    sim.paths.calm_down();
    let mut sim = sim.nodes(NODES);
    let limit = sim.now + 60 * SECOND;
    while sim.violation.is_none() && sim.now < limit && sim.check_rest().is_err() {
        sim.advance(sim.now + SECOND / 10);
    }
    let mut reached = false;
    if let (None, Some((slot, cast))) = (&sim.violation, sim.cast(kind)) {
        sim.paths.calm = false;
        reached = sim.move_until(kind, slot, (step, cast));
        sim.paths.calm = true;
        sim.strike(fault, |part| cast.of(part));
        let end = sim.now + GO_ON;
        while sim.violation.is_none() && sim.now < end {
            sim.send_round(kind, slot);
            sim.advance(sim.now + ROUND);
        }
        sim.come_to_rest(NODES, Sim::look_at_paths);
        if sim.violation.is_none() {
            sim.rest_of_paths();
        }
    }
    (reached, sim.violation)
}

impl Sim {
    /// Who takes which part: neither host leads.
    fn cast(&self, kind: &PathKind) -> Option<(u16, Cast)> {
        let table = self.view(0).gossip().paths();
        let entry = table.get(&kind.path())?;
        let host = |slot| self.index_of_node(entry.host(slot)?);
        let slot = (0..entry.slots()).find(|slot| host(*slot).is_some_and(|host| host > 0))?;
        let hosts: Vec<usize> = (0..entry.slots()).filter_map(host).collect();
        let suits = |at: &usize| kind.role.is_none() || at.is_multiple_of(2);
        let mut others = (1..NODES).filter(|at| !hosts.contains(at));
        let new = others.clone().find(suits)?;
        let sender = others.find(|at| *at != new).unwrap_or(0);
        let old = host(slot)?;
        Some((slot as u16, Cast { old, new, sender }))
    }

    fn send_round(&mut self, kind: &PathKind, slot: u16) {
        for index in 0..NODES {
            let timeout = (index % 4 != 3).then_some(Duration::from_secs(3));
            self.ask_path(index, kind, PathPick::Slot(slot), timeout);
        }
    }

    /// Has the slot moved, with messages from everybody, up to the step.
    fn move_until(&mut self, kind: &PathKind, slot: u16, (step, cast): (HandoffStep, Cast)) -> bool {
        let last = |sim: &Self, at: usize| {
            let table = sim.view(at).gossip().paths();
            let change = table.get(&kind.path())?.last_move(usize::from(slot))?.clone();
            Some(change)
        };
        let before = last(self, 0).map_or(0, |change| change.id.counter);
        for _ in 0..3 {
            self.send_round(kind, slot);
        }
        self.paths.said.clear();
        if let (Some((name, command)), Some(process)) =
            (self.move_of(kind, slot, cast.new), self.running_at(cast.sender))
        {
            self.command(process, Open::Command(name), Command::Path(command));
        }
        let status = |sim: &Self, at| {
            let change = last(sim, at).filter(|change| change.id.counter > before);
            change.map(|change| change.status)
        };
        let is_there = |sim: &Self| match step {
            HandoffStep::Begun => status(sim, 0).is_some(),
            HandoffStep::Awaiting => status(sim, cast.old).is_some(),
            HandoffStep::Said(what) => status(sim, 0).is_some() && sim.paths.said.contains(&what),
            HandoffStep::Status(wanted) => status(sim, cast.old) == Some(wanted),
        };
        let limit = self.now + STEP_MAX;
        let mut next = self.now;
        while self.violation.is_none() && self.now < limit {
            if is_there(self) {
                return true;
            }
            if self.now >= next {
                next = self.now + ROUND;
                self.send_round(kind, slot);
            }
            self.advance_once(next);
            // It is over, and the step was none of this hand-off.
            if status(self, cast.old) == Some(MoveStatus::Applied) && !is_there(self) {
                return false;
            }
        }
        false
    }
}

/// Every fault at every step of a hand-off, once for each seed, said on the standard output.
#[must_use]
pub fn every_step(seeds: &Range<u64>, show: Show, only: Option<&str>) -> ExitCode {
    let mut tally = StepTally::new("--steps");
    for seed in seeds.clone() {
        run_all(seed, show, only, &mut |outcome| {
            tally.note(seed, &outcome.name, outcome.reached, outcome.violation.as_ref());
        });
    }
    tally.end()
}
