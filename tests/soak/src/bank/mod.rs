//! A bank: durable accounts on five nodes, and transfers between them all the time. One node after the other
//! is killed, cut off, or stands still, and is started again; at last all are killed at once. Then every
//! transfer that was ever sent is acknowledged, and the accounts have each of them exactly once.

mod entity;
mod fleet;
mod ledger;
mod node;
mod stalled;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use self::fleet::{Fleet, Transfers};
use self::ledger::Verdict;
use crate::ending::{self, Folder};
use crate::processes::Listens as _;
use crate::program::{self, NODES, NodeOptions, Options, Program, Stage};
use crate::stores::Stores;
use quorate_demo::hosts::Host;

/// Accounts of a run.
const ACCOUNTS: u64 = 60;

/// Between two things that happen to nodes.
const CALM: Duration = Duration::from_secs(2);

/// What happens to a node, in turn. Which node it is changes too.
#[derive(Clone, Copy, Debug)]
enum Fault {
    Killed,
    CutOff,
    StandsStill,
}

const FAULTS: [Fault; 3] = [Fault::Killed, Fault::CutOff, Fault::StandsStill];

struct Bank;

impl Program for Bank {
    const NAME: &'static str = "bank";
    const ABOUT: &'static str = "\
Five node processes share sixty durable accounts, and their clients transfer between them all the time. One node after the
other is killed, cut off or stands still, and is started again; at last all are killed at once. No transfer may be lost, none
may count twice, and all balances together have to be what they were.";
    const SECONDS: &'static str = "how long things happen to nodes; each of them once at least";
    const STORE: Option<&'static str> = Some(
        "\
keep the accounts in this folder, in one file for each node of which three keep every log; a further
                     run with it goes on with the balances of the last one",
    );
    const POSTGRES: Option<&'static str> = Some("keep the accounts in PostgreSQL instead, `host=… user=…`");
    const SCHEMA: &'static str = node::SCHEMA;
    const EXIT: &'static str = "0 if every transfer is there once and the work went on, 1 if not";
    const RANGE: (u64, u64, u64) = (5, 3_600, 20);

    fn node<H: Host>(options: NodeOptions) -> ExitCode {
        node::run::<H>(options)
    }

    fn run(options: &Options, stage: &Stage) -> ExitCode {
        let folder = Folder::of::<Self>(options);
        let outcome = folder.and_then(|folder| run(options, stage, &folder));
        ending::finish::<Self>(options, outcome)
    }
}

/// The whole program, arguments and exit code included.
#[must_use]
pub fn main() -> ExitCode {
    program::main::<Bank>()
}

fn run(options: &Options, stage: &Stage, folder: &Folder) -> Result<Verdict, String> {
    let stores = Stores::of_run(options, folder);
    let node = NodeOptions::first("bank", stage);
    let mut fleet = Fleet::new(options, stage, node, Some(stores), Transfers::default())?;
    fleet.start_all()?;
    fleet
        .screen
        .say(format_args!("{NODES} nodes are up, over {}", stage.name));
    let found = fleet.read()?;
    fleet.proof.ledger.begin(found);
    let went = work(&mut fleet, options.time);
    if went.is_err() {
        fleet.explain();
        // Nobody changes anything while it is read. The first error counts.
        let _ = fleet.end();
    }
    let found = fleet.read()?;
    let verdict = fleet.judge(&found);
    fleet.screen.say(format_args!(
        "{} transfers, {} acknowledged, {} of them when they were sent again at the end; {} lost, {} doubled, {} accounts wrong; {} kills, {} \
         cuts, {} pauses; {} writes of stale owners were refused, {} messages sent again, {} recoveries",
        verdict.transfers,
        verdict.acknowledged,
        verdict.resolved,
        verdict.lost,
        verdict.doubled,
        verdict.wrong,
        verdict.kills,
        verdict.cuts,
        verdict.stops,
        verdict.refused,
        verdict.resent,
        verdict.recovered
    ));
    Ok(Verdict {
        stuck: went.err(),
        ..verdict
    })
}

/// What happens; an error if the work did not go on.
fn work(fleet: &mut Fleet, time: Duration) -> Result<(), String> {
    let end = Instant::now() + time;
    fleet.begin()?;
    for round in 0.. {
        if round >= FAULTS.len() && Instant::now() >= end {
            break;
        }
        fleet.run_for(CALM)?;
        happens(fleet, FAULTS[round % FAULTS.len()], (round * 2 + 1) % NODES)?;
        fleet.start_all()?;
        fleet.until_more_is_acknowledged()?;
    }
    fleet.screen.say("all nodes are killed at once");
    fleet.kill_all()?;
    fleet.start_all()?;
    fleet.until_more_is_acknowledged()?;
    fleet.run_for(CALM)?;
    fleet.end()
}

fn happens(fleet: &mut Fleet, fault: Fault, index: usize) -> Result<(), String> {
    let node = index + 1;
    match fault {
        Fault::Killed => {
            fleet.screen.say(format_args!("node {node} is killed"));
            fleet.kill(index)?;
            fleet.until_all_answer_elsewhere(index)
        }
        Fault::CutOff => {
            fleet
                .screen
                .say(format_args!("node {node} is cut off from the others"));
            fleet.cut_off_until_it_ends(index)
        }
        Fault::StandsStill => {
            fleet.screen.say(format_args!("node {node} stands still"));
            fleet.stands_still(index)
        }
    }
}
