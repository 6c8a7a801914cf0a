//! Replicated data under real faults: five processes change counters and sets on their own while one stands
//! still, one is cut off and one is killed; at the end all replicas are equal and hold everything that was
//! acknowledged.

mod fleet;
mod ledger;
mod node;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use self::fleet::Fleet;
use self::ledger::{Ledger, Verdict};
use crate::ending;
use crate::ledger::line;
use crate::processes::Listens as _;
use crate::program::{self, NODES, NodeOptions, Options, Program, Stage};
use crate::stores::Stores;
use quorate_demo::hosts::Host;

/// Which node stands still, is cut off, is killed; the first is the seed of all and goes through all of it
/// unharmed.
const STILL: usize = 1;
const CUT: usize = 2;
const KILLED: usize = 3;
/// Longest time of a fault: well below what would get anybody downed.
const FAULT_MAX: Duration = Duration::from_secs(6);
/// How long replicas may take to become equal.
const CONVERGE_MAX: Duration = Duration::from_secs(30);
/// Between two looks whether they are.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

struct Likes;

impl Program for Likes {
    const NAME: &'static str = "likes";
    const ABOUT: &'static str = "\
Five node processes count likes and keep followers, each on its own; one stands still for a while, one is cut off, one is
killed and started again. At the end all replicas must be equal to the byte and hold every update that was acknowledged.";
    const SECONDS: &'static str = "how long they write";
    const STORE: Option<&'static str> = Some(
        "\
keep the data in files in this folder. At the end all nodes are killed at once and started again, and a
                     further run with the same folder goes on from there",
    );
    const EXIT: &'static str = "\
0 if all replicas are equal, nothing that was acknowledged is missing and the sums are exact, 1 if not";
    // Shortest: everything that is to happen has its time. Longest: the followers of processes that were
    // killed stay, and a set has a size.
    const RANGE: (u64, u64, u64) = (10, 600, 30);

    fn node<H: Host>(options: NodeOptions) -> ExitCode {
        node::run::<H>(options)
    }

    fn run(options: &Options, stage: &Stage) -> ExitCode {
        ending::finish::<Self>(options, run(options, stage))
    }
}

/// How a run ended.
struct Outcome {
    updates: u64,
    acknowledged: u64,
    verdict: Verdict,
    is_equal: bool,
    took: Duration,
}

/// The whole program, arguments and exit code included.
#[must_use]
pub fn main() -> ExitCode {
    program::main::<Likes>()
}

impl ending::Judged for Outcome {
    fn fault(&self) -> Option<String> {
        let Verdict { missing, surplus } = self.verdict;
        let is_right = self.is_equal && missing == 0 && surplus == 0;
        (!is_right).then(|| {
            format!(
                "{missing} acknowledged updates are missing, {surplus} are there that nobody made, the replicas are {}",
                if self.is_equal { "equal" } else { "not equal" }
            )
        })
    }

    fn json(&self) -> String {
        line(&[
            ("nodes", &NODES),
            ("updates", &self.updates),
            ("acknowledged", &self.acknowledged),
            ("missing", &self.verdict.missing),
            ("equal", &self.is_equal),
            ("seconds", &format_args!("{:.1}", self.took.as_secs_f64())),
        ])
    }
}

fn run(options: &Options, stage: &Stage) -> Result<Outcome, String> {
    let started = Instant::now();
    let node = NodeOptions::first("likes", stage);
    let stores = options.store.clone().map(Stores::Files);
    let mut fleet = Fleet::new(options, stage, node, stores, Ledger::default())?;
    fleet.start_all()?;
    fleet
        .screen
        .say(format_args!("{NODES} nodes are up, over {}", stage.name));
    converge(&mut fleet)?;
    let base = fleet.dump(0)?;
    fleet.proof = Ledger::after(base);
    fleet.begin()?;
    faults(&mut fleet, options.time)?;
    fleet.halt()?;
    fleet.screen.say("nobody writes any more");
    let mut is_equal = converge(&mut fleet)?;
    if options.store.is_some() {
        fleet
            .screen
            .say("all nodes are killed at once, and started again");
        fleet.kill_all()?;
        fleet.start_all()?;
        is_equal &= converge(&mut fleet)?;
    }
    let found = fleet.dump(0)?;
    let verdict = fleet.proof.judge(&found);
    let (updates, acknowledged) = (fleet.proof.updates, fleet.proof.acknowledged);
    let likes: u128 = found.likes.values().sum();
    fleet.screen.say(format_args!(
        "{updates} updates, {acknowledged} acknowledged, {} missing; {likes} likes and {} followers on every node",
        verdict.missing,
        found.fans.len()
    ));
    Ok(Outcome {
        updates,
        acknowledged,
        verdict,
        is_equal,
        took: started.elapsed(),
    })
}

/// What goes wrong while they write.
fn faults(fleet: &mut Fleet, writing: Duration) -> Result<(), String> {
    let (part, fault) = (writing / 7, (writing / 7).min(FAULT_MAX));
    fleet.run_for(part)?;
    fleet.screen.say(format_args!("node {} stands still", STILL + 1));
    fleet.note(STILL, "stands still");
    fleet.stand_still(STILL, true)?;
    fleet.run_for(fault)?;
    fleet.stand_still(STILL, false)?;
    fleet.note(STILL, "");
    fleet.screen.say(format_args!("node {} goes on", STILL + 1));
    fleet.run_for(part)?;
    fleet.screen.say(format_args!("node {} is cut off", CUT + 1));
    fleet.note(CUT, "cut off");
    fleet.tell(CUT, "cut");
    fleet.run_for(fault)?;
    fleet.tell(CUT, "heal");
    fleet.note(CUT, "");
    fleet
        .screen
        .say(format_args!("node {} is connected again", CUT + 1));
    fleet.run_for(part)?;
    fleet.screen.say(format_args!("node {} is killed", KILLED + 1));
    fleet.kill(KILLED)?;
    fleet.proof.killed(KILLED);
    fleet.run_for(part / 2)?;
    fleet.start(KILLED)?;
    fleet
        .screen
        .say(format_args!("node {} is back, as a new process", KILLED + 1));
    fleet.run_for(part + part / 2)
}

/// Waits until all replicas are equal; says whether they became so in time.
fn converge(fleet: &mut Fleet) -> Result<bool, String> {
    let began = Instant::now();
    loop {
        let mut digests = fleet.digests()?;
        digests.dedup();
        if digests.len() == 1 {
            let took = began.elapsed().as_secs_f64();
            fleet
                .screen
                .say(format_args!("all replicas are equal, {took:.1} s later"));
            return Ok(true);
        }
        if began.elapsed() > CONVERGE_MAX {
            fleet
                .screen
                .say(format_args!("the replicas differ: {}", digests.join(", ")));
            return Ok(false);
        }
        fleet.run_for(LOOK_AGAIN)?;
    }
}

#[cfg(test)]
mod tests {
    use super::ending::Judged as _;
    use super::*;

    fn outcome(missing: u64, surplus: u64, is_equal: bool) -> Outcome {
        Outcome {
            updates: 7,
            acknowledged: 5,
            verdict: Verdict { missing, surplus },
            is_equal,
            took: Duration::from_millis(1_500),
        }
    }

    #[test]
    fn only_equal_replicas_with_exact_sums_are_no_fault() {
        assert_eq!(outcome(0, 0, true).fault(), None);
        for (wrong, named) in [
            (outcome(2, 0, true), "2 acknowledged updates are missing"),
            (outcome(0, 3, true), "3 are there that nobody made"),
            (outcome(0, 0, false), "not equal"),
        ] {
            let fault = wrong.fault().unwrap_or_default();
            assert!(fault.contains(named), "{fault}");
        }
    }

    #[test]
    fn the_line_says_what_is_missing_and_whether_the_replicas_are_equal() {
        assert_eq!(
            outcome(2, 0, false).json(),
            r#"{"nodes":5,"updates":7,"acknowledged":5,"missing":2,"equal":false,"seconds":1.5}"#
        );
    }

    fn code_of(outcome: Result<Outcome, &str>) -> String {
        let options = Options {
            time: Duration::from_secs(10),
            transport: "tokio".to_owned(),
            input: None,
            store: None,
            postgres: None,
            state: crate::stores::State::default(),
            bytes: 0,
            messages: 0,
            json: true,
        };
        let code = ending::finish::<Likes>(&options, outcome.map_err(str::to_owned));
        format!("{code:?}")
    }

    /// A gate reads nothing but the exit code.
    #[test]
    fn a_fault_and_a_run_that_broke_off_fail_the_program() {
        assert_eq!(
            code_of(Ok(outcome(0, 0, true))),
            format!("{:?}", ExitCode::SUCCESS)
        );
        for wrong in [
            Ok(outcome(1, 0, true)),
            Ok(outcome(0, 0, false)),
            Err("no node came up"),
        ] {
            assert_eq!(code_of(wrong), format!("{:?}", ExitCode::FAILURE));
        }
    }
}
