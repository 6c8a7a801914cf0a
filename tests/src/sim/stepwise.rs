//! What campaigns share that let a fault happen at a step of something: the faults, how one happens, how the
//! run comes to rest afterwards, and what is said of all runs.

use core::time::Duration;
use std::fmt::Display;
use std::process::ExitCode;
use std::time::Instant;

use super::Violation;
use super::engine::Sim;
use super::plan::SECOND;
use super::script::all_up;

/// What happens at the step, to those who have a part in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StepFault<P> {
    /// A process crashes. If it leads, another one does from then on.
    Crash(P),
    /// A process stands still for so many tenths of a second.
    Pause(P, u64),
    /// The links between two break.
    Reset(P, P),
    /// A member leaves. If it leads, another one does from then on.
    Leave(P),
}

impl Sim {
    /// The fault happens now; `place` says which node has which part.
    pub(super) fn strike<P>(&mut self, fault: StepFault<P>, place: impl Fn(P) -> usize) {
        match fault {
            StepFault::Crash(part) => self.crash(place(part)),
            StepFault::Pause(part, tenths) => self.pause(place(part), Duration::from_millis(tenths * 100)),
            StepFault::Reset(one, other) => self.reset(place(one), place(other)),
            StepFault::Leave(part) => self.leave(place(part)),
        }
    }

    /// Starts so many nodes again and runs until all are up, looking all the time; for a minute at most.
    pub(super) fn come_to_rest(&mut self, nodes: usize, look: impl Fn(&mut Self)) {
        let limit = self.now + 60 * SECOND;
        while self.violation.is_none() && self.now < limit {
            for index in 0..nodes {
                if self.running_at(index).is_none() && all_up(self) {
                    self.start(index);
                }
            }
            self.advance(self.now + SECOND / 10);
            look(self);
            if self.running().len() == nodes && all_up(self) {
                return;
            }
        }
        if self.violation.is_none() {
            let what = self.report("no rest after the fault");
            self.violated("liveness", 0, what);
        }
    }
}

/// What came of the runs of a campaign.
pub(super) struct StepTally {
    begun: Instant,
    /// What the simulator is given to run one of them again.
    options: &'static str,
    runs: u64,
    reached: u64,
    broken: u64,
}

impl StepTally {
    pub(super) fn new(options: &'static str) -> Self {
        Self {
            begun: Instant::now(),
            options,
            runs: 0,
            reached: 0,
            broken: 0,
        }
    }

    /// A run has come to its step or not, and may have broken something.
    pub(super) fn note(&mut self, seed: u64, name: impl Display, reached: bool, broken: Option<&Violation>) {
        self.runs += 1;
        self.reached += u64::from(reached);
        if let Some(violation) = broken {
            self.broken += 1;
            println!("VIOLATION seed {seed}, {name}: {violation}");
            println!(
                "replay: cargo run --release -p quorate-tests --bin sim -- {} --seeds {seed} --only '{name}' --trace",
                self.options
            );
        }
    }

    /// Says how many there were; a failure if one has broken something.
    pub(super) fn end(self) -> ExitCode {
        println!(
            "{} runs, {} of them came to their step, {} broke something; {:.1} s",
            self.runs,
            self.reached,
            self.broken,
            self.begun.elapsed().as_secs_f64()
        );
        if self.broken == 0 {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        }
    }
}
