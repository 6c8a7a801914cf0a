//! Reliable delivery under real faults: on five nodes durable producers send to entities and push jobs into a
//! durable work queue, while one node after the other is killed and started again; at last all are killed at
//! once. Then everything that was acknowledged has to be handled.

mod fleet;
mod ledger;
mod node;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use self::fleet::Fleet;
use self::ledger::{Ledger, Verdict};
use crate::ending::{self, Folder};
use crate::processes::Listens as _;
use crate::program::{self, NODES, NodeOptions, Options, Program, Stage};
use crate::stores::Stores;
use quorate_demo::hosts::Host;

/// Between two kills.
const CALM: Duration = Duration::from_secs(3);

struct Deliveries;

impl Program for Deliveries {
    const NAME: &'static str = "deliveries";
    const ABOUT: &'static str = "\
Five node processes send messages to entities through durable producers, and push jobs into a durable work queue from which
all of them pull. One node after the other is killed and started again; at last all are killed at once. Everything that was
acknowledged has to be handled; what is handled twice is counted.";
    const SECONDS: &'static str = "how long nodes are killed; twice at least";
    const STORE: Option<&'static str> = Some(
        "\
keep what is not confirmed in this folder, in one file for each node of which three keep every log",
    );
    const POSTGRES: Option<&'static str> = Some("keep it in PostgreSQL instead, `host=… user=…`");
    const BYTES: Option<(&'static str, (usize, usize, usize))> =
        Some(("bytes of a message", (0, 1_000_000, 1_024)));
    const SCHEMA: &'static str = node::SCHEMA;
    const EXIT: &'static str = "0 if nothing that was acknowledged is lost and the work went on, 1 if not";
    const RANGE: (u64, u64, u64) = (5, 3_600, 45);

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
    program::main::<Deliveries>()
}

fn run(options: &Options, stage: &Stage, folder: &Folder) -> Result<Verdict, String> {
    let stores = Stores::of_run(options, folder);
    let store = if stores.is_server() { "postgres" } else { "redb" };
    let node = NodeOptions {
        bytes: options.bytes,
        ..NodeOptions::first("deliveries", stage)
    };
    let mut fleet = Fleet::new(options, stage, node, Some(stores), Ledger::default())?;
    fleet.start_all()?;
    fleet
        .screen
        .say(format_args!("{NODES} nodes are up, over {}", stage.name));
    let stuck = work(&mut fleet, options.time).err();
    let verdict = Verdict {
        store,
        stuck,
        ..fleet.judge()
    };
    fleet.screen.say(format_args!(
        "{} jobs of {} bytes, {} acknowledged; {} lost, {} doubled; {} kills",
        verdict.jobs, options.bytes, verdict.acknowledged, verdict.lost, verdict.doubled, verdict.kills
    ));
    Ok(verdict)
}

/// What happens; an error if the work did not go on.
fn work(fleet: &mut Fleet, time: Duration) -> Result<(), String> {
    let end = Instant::now() + time;
    fleet.begin()?;
    for round in 0.. {
        if round >= 2 && Instant::now() >= end {
            break;
        }
        fleet.run_for(CALM)?;
        let node = (round * 2) % NODES;
        fleet.screen.say(format_args!("node {} is killed", node + 1));
        fleet.kill(node)?;
        fleet.until_more_is_acknowledged()?;
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
