//! Durable mailboxes under real faults: on five nodes a path has two slots, and every node sends numbered
//! messages to both. Slots are moved by command again and again, and the old host is killed in the middle. At
//! the end every message whose sender heard that it is kept was handled, those of one sender in their order,
//! and what was handled again was the last of its slot and marked as repeated.

mod fleet;
mod ledger;
mod node;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use self::fleet::{Fleet, Messages};
use self::ledger::Verdict;
use crate::ending::{self, Folder};
use crate::processes::Listens as _;
use crate::program::{self, NODES, NodeOptions, Options, Program, Stage};
use crate::stores::Stores;
use quorate_demo::hosts::Host;

/// The path.
const PATH: &str = "shop/mail";
/// Its instances.
const SLOTS: usize = 2;
/// Between two faults.
const CALM: Duration = Duration::from_millis(300);
/// A round without a fault and one with it, for each slot.
const ROUNDS_MIN: usize = 4;
/// How long after it was planned the old host of a move is killed at most: by then most are complete.
const MOVE_MS: u64 = 250;

struct Mailboxes;

impl Program for Mailboxes {
    const NAME: &'static str = "mailboxes";
    const ABOUT: &'static str = "\
Five node processes host two instances with durable mailboxes and send numbered messages to both. Slots are moved by command,
and in every second move the old host is killed (SIGKILL). What a sender was told is kept has to be handled, in its order, and
what is handled again has to be the last one and marked.";
    const SECONDS: &'static str = "how long slots are moved; four times at least";
    const STORE: Option<&'static str> = Some(
        "\
keep what is not handled in this folder, in one file for each node of which three keep every log",
    );
    const POSTGRES: Option<&'static str> = Some("keep it in PostgreSQL instead, `host=… user=…`");
    const SCHEMA: &'static str = node::SCHEMA;
    const EXIT: &'static str =
        "0 if nothing that was kept is lost, late or repeated without a mark, 1 if not";
    const RANGE: (u64, u64, u64) = (4, 3_600, 30);

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
    program::main::<Mailboxes>()
}

fn run(options: &Options, stage: &Stage, folder: &Folder) -> Result<Verdict, String> {
    let stores = Stores::of_run(options, folder);
    let node = NodeOptions::first("mailboxes", stage);
    let mut fleet = Fleet::new(options, stage, node, Some(stores), Messages::default())?;
    fleet.start_all()?;
    fleet
        .screen
        .say(format_args!("{NODES} nodes are up, over {}", stage.name));
    let stuck = work(&mut fleet, options.time).err();
    let verdict = Verdict {
        stuck,
        kills: fleet.kills,
        ..fleet.proof.ledger.judge()
    };
    fleet.screen.say(format_args!("{verdict}"));
    Ok(verdict)
}

/// What happens; an error if the work did not go on.
fn work(fleet: &mut Fleet, time: Duration) -> Result<(), String> {
    fleet.until_settled()?;
    let end = Instant::now() + time;
    fleet.begin()?;
    for round in 0.. {
        if round >= ROUNDS_MIN && Instant::now() >= end {
            break;
        }
        fleet.run_for(CALM)?;
        fleet.until_settled()?;
        let slot = round / 2 % SLOTS;
        let (from, to) = fleet.places_for(slot)?;
        let kills = round % 2 == 1;
        let what = if kills { ", which is killed meanwhile" } else { "" };
        fleet.screen.say(format_args!(
            "slot {slot} is moved to node {} from node {}{what}",
            to + 1,
            from + 1
        ));
        fleet.move_slot(slot, to)?;
        if kills {
            // Each time a little later.
            fleet.run_for(Duration::from_millis(round as u64 / 2 * 37 % MOVE_MS))?;
            fleet.kill(from)?;
            fleet.until_more_is_acknowledged()?;
            fleet.start(from)?;
        }
        fleet.until_more_is_acknowledged()?;
    }
    fleet.until_settled()?;
    fleet.halt()?;
    fleet.until_all_is_handled()
}
