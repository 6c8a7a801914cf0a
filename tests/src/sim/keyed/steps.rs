//! Every fault at every step of a move of a range, one run each: a range of a quiet cluster is moved while
//! everybody calls its keys, and in the moment in which the step happens the fault does. Then everything
//! comes to rest and is looked at as at the end of a random run.

use core::ops::Range;
use std::process::ExitCode;

use quorate_core::input::Command;
use quorate_core::journal::state::StoreId;
use quorate_core::kv::hosting::BucketStore;
use quorate_core::kv::protocol::ranges::RangeCommand;
use quorate_core::kv::protocol::{BucketBody, Command as KvCommand, Msg, RangeContent, RangeStatement};
use quorate_core::kv::state::configuration::{Configuration, Owners};
use quorate_core::kv::state::table::RangeId;

use super::{BUCKETS, has_voters};
use crate::histories::books::KeyUse;
use crate::sim::engine::Sim;
use crate::sim::plan::SECOND;
use crate::sim::process::Open;
use crate::sim::script::all_up;
use crate::sim::stepwise::{StepFault, StepTally};
use crate::sim::{Show, Violation};

/// Nodes of each run: a caller beside four that a move has parts for.
const NODES: usize = 6;
/// The range that is moved.
const RANGE: RangeId = RangeId(0);
/// Keys that are called.
const USES: [KeyUse; 5] = [
    KeyUse::Shared,
    KeyUse::Shared,
    KeyUse::OneWriter,
    KeyUse::Conditional,
    KeyUse::Conditional,
];
/// Time between two calls.
const ROUND: u64 = 10_000;
/// How long the move may take to get to a step.
const STEP_MAX: u64 = 20 * SECOND;
/// How long calls go on after the fault.
const GO_ON: u64 = 4 * SECOND;

/// How far a move is: somebody says this for the first time.
const STEPS: [&str; 8] = [
    "Tell Joint",
    "Refuse",
    "Refuses",
    "Pull",
    "Part",
    "Adopted merged",
    "Tell Stable",
    "Adopted Stable",
];

/// Who has a part in a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// Who decides it.
    Coordinator,
    /// The owner that goes.
    Old,
    /// The owner that comes.
    New,
    /// One that stays.
    Stays,
}

/// What happens at the step.
type Fault = StepFault<Part>;

const FAULTS: [Fault; 15] = [
    StepFault::Crash(Part::Coordinator),
    StepFault::Crash(Part::Old),
    StepFault::Crash(Part::New),
    StepFault::Crash(Part::Stays),
    StepFault::Pause(Part::Coordinator, 7),
    StepFault::Pause(Part::Old, 7),
    StepFault::Pause(Part::New, 7),
    StepFault::Pause(Part::Stays, 7),
    StepFault::Reset(Part::Old, Part::New),
    StepFault::Reset(Part::Coordinator, Part::New),
    StepFault::Reset(Part::Stays, Part::New),
    StepFault::Leave(Part::Coordinator),
    StepFault::Leave(Part::Old),
    StepFault::Leave(Part::New),
    StepFault::Leave(Part::Stays),
];

/// Where each part is.
#[derive(Clone, Copy, Debug)]
struct Cast {
    bucket: usize,
    coordinator: usize,
    old: (usize, StoreId),
    new: (usize, StoreId),
    stays: usize,
}

impl Cast {
    const fn of(self, part: Part) -> usize {
        match part {
            Part::Coordinator => self.coordinator,
            Part::Old => self.old.0,
            Part::New => self.new.0,
            Part::Stays => self.stays,
        }
    }
}

/// What a message says of a move.
fn said_by(message: &Msg) -> Option<&'static str> {
    let of = |configuration: &Configuration, joint, stable| match &configuration.owners {
        Owners::Joint { .. } => joint,
        Owners::Stable(_) => stable,
    };
    match &message.body {
        BucketBody::Ranges(RangeStatement::Tell { ranges, .. }) => {
            let told = ranges.iter().find(|(range, _)| *range == RANGE);
            told.map(|(_, configuration)| of(configuration, "Tell Joint", "Tell Stable"))
        }
        BucketBody::Ranges(RangeStatement::Refuse { .. }) => Some("Refuse"),
        BucketBody::Ranges(RangeStatement::Refuses { .. }) => Some("Refuses"),
        BucketBody::Ranges(RangeStatement::Adopted { ranges, .. }) => {
            let adopted = ranges.iter().find(|adopted| adopted.range == RANGE)?;
            // The move goes from an epoch to the next but one.
            match (adopted.merged.is_empty(), adopted.epoch % 2) {
                (false, _) => Some("Adopted merged"),
                (true, 1) => Some("Adopted Stable"),
                (true, _) => None,
            }
        }
        BucketBody::Content(RangeContent::Pull { .. }) => Some("Pull"),
        BucketBody::Content(RangeContent::Part { .. }) => Some("Part"),
        BucketBody::Ranges(
            RangeStatement::Look { .. }
            | RangeStatement::Differs { .. }
            | RangeStatement::Seek { .. }
            | RangeStatement::NotOpen { .. }
            | RangeStatement::Recall { .. }
            | RangeStatement::Found { .. }
            | RangeStatement::Repair { .. },
        )
        | BucketBody::Trees(_)
        | BucketBody::Content(RangeContent::Table { .. })
        | BucketBody::Ask(_)
        | BucketBody::List(_)
        | BucketBody::Listed(_)
        | BucketBody::Watch(_)
        | BucketBody::Notice(_)
        | BucketBody::Hint(_)
        | BucketBody::Answer(_) => None,
    }
}

fn run(
    seed: u64,
    show: Show,
    bucket: usize,
    (step, fault): (&'static str, Fault),
) -> (bool, Option<Violation>) {
    let mut sim = Sim::showing(seed, show);
    sim.has_workload = false;
    if has_voters(seed) {
        sim.config.journal.voters = NODES / 2;
    }
    sim.enable_keyed();
    sim.call_keys_of_one_range(bucket);
    let mut sim = sim.nodes(NODES);
    let limit = sim.now + 60 * SECOND;
    while sim.violation.is_none() && sim.now < limit && (!all_up(&sim) || sim.cast_of(bucket).is_none()) {
        sim.advance(sim.now + SECOND / 10);
        sim.look_at_ranges();
    }
    let mut reached = false;
    if let (None, Some(cast)) = (&sim.violation, sim.cast_of(bucket)) {
        reached = sim.move_range_until(step, cast);
        sim.strike(fault, |part| cast.of(part));
        sim.call_until(sim.now + GO_ON, |_| false);
        sim.keyed.calm_down();
        sim.come_to_rest(NODES, Sim::look_at_ranges);
        if sim.violation.is_none() {
            sim.rest_of_keyed();
        }
    }
    (reached, sim.violation)
}

impl Sim {
    /// A node says something about a move.
    pub(crate) fn note_kv_message(&mut self, message: &Msg) {
        if let Some(what) = said_by(message).filter(|what| !self.keyed.said.contains(what)) {
            self.keyed.said.push(what);
        }
    }

    fn call_keys_of_one_range(&mut self, bucket: usize) {
        self.keyed.current.clear();
        let settings = BUCKETS[bucket].settings();
        for use_of in USES {
            loop {
                let key = self.new_key(bucket, use_of);
                if settings.range_of(&self.key_of(key)) == RANGE {
                    self.keyed.current.push(key);
                    break;
                }
            }
        }
    }

    /// Who takes which part: who coordinates takes no other one where that can be.
    fn cast_of(&self, bucket: usize) -> Option<Cast> {
        let (coordinator, configuration) = self.coordinated(bucket, RANGE)?;
        let coordinator = self.processes[coordinator as usize].index;
        let Owners::Stable(owners) = &configuration.owners else {
            return None;
        };
        let at = |store: &StoreId| (0..NODES).find(|index| self.store_at(bucket, *index) == Some(*store));
        let mut others = owners.iter().filter(|store| at(store) != Some(coordinator));
        let old = *others.next()?;
        let stays = at(others.next()?)?;
        let new = (0..NODES).find(|index| {
            let store = self.store_at(bucket, *index);
            *index != coordinator && store.is_some_and(|store| !owners.contains(&store))
        })?;
        Some(Cast {
            bucket,
            coordinator,
            old: (at(&old)?, old),
            new: (new, self.store_at(bucket, new)?),
            stays,
        })
    }

    pub(super) fn store_at(&self, bucket: usize, index: usize) -> Option<StoreId> {
        let process = self.running_at(index)?;
        self.store_of(process, bucket).map(BucketStore::id)
    }

    fn call_until(&mut self, limit: u64, is_there: impl Fn(&Self) -> bool) -> bool {
        let mut next = self.now;
        while self.violation.is_none() && self.now < limit {
            if is_there(self) {
                return true;
            }
            if self.now >= next {
                next = self.now + ROUND;
                self.random_call(NODES);
                self.look_at_ranges();
            }
            self.advance_once(next);
        }
        false
    }

    /// Has the range moved, with calls from everybody, up to the step.
    fn move_range_until(&mut self, step: &'static str, cast: Cast) -> bool {
        self.call_until(self.now + SECOND, |_| false);
        self.keyed.said.clear();
        let Some(process) = self.running_at(cast.coordinator) else {
            return false;
        };
        let (from, to) = (cast.old.1, cast.new.1);
        let range = RANGE;
        let bucket = BUCKETS[cast.bucket].bucket();
        let command = RangeCommand::Move { range, from, to };
        let command = KvCommand::Ranges { bucket, command };
        self.command(process, Open::Command("move range"), Command::Kv(command));
        self.call_until(self.now + STEP_MAX, |sim| sim.keyed.said.contains(&step))
    }
}

/// Every fault at every step of a move, once for each seed, said on the standard output.
#[must_use]
pub fn every_step(seeds: &Range<u64>, show: Show, only: Option<&str>) -> ExitCode {
    let mut tally = StepTally::new("--profile kv --steps");
    let buckets = (0..BUCKETS.len()).flat_map(|bucket| STEPS.map(|step| (bucket, step)));
    let all = buckets.flat_map(|(bucket, step)| FAULTS.map(|fault| (bucket, step, fault)));
    for (seed, (bucket, step, fault)) in seeds
        .clone()
        .flat_map(|seed| all.clone().map(move |run| (seed, run)))
    {
        let name = format!("{} {step} {fault:?}", BUCKETS[bucket].name);
        if only.is_none_or(|only| only == name) {
            let (came, violation) = run(seed, show, bucket, (step, fault));
            tally.note(seed, name, came, violation.as_ref());
        }
    }
    tally.end()
}
