//! Paths under real faults: on five nodes three paths have seven instances, and every node sends numbered
//! messages to all of them. A slot of each path is moved by command, a host is killed, the leader leaves. At
//! the end every message was handled, refused by name, or died with the process that was killed; order held
//! where it is promised, never were two alive where that is promised, and always one ran.

mod fleet;
mod ledger;
mod node;

use std::process::ExitCode;
use std::time::Duration;

use quorate_driver::paths::HandoffOptions;

use self::fleet::{Fleet, Messages};
use self::ledger::Verdict;
use crate::ending::{self, Folder};
use crate::processes::Listens as _;
use crate::program::{self, NODES, NodeOptions, Options, Program, Stage};
use crate::stores::Stores;
use quorate_demo::hosts::Host;

/// A path of a run.
struct Shape {
    name: &'static str,
    options: HandoffOptions,
    /// So many hosts may be lost at once: there is one instance more.
    lost_at_once: u16,
    subtree: bool,
}

/// All of them. Each is told by its place here.
const PATHS: [Shape; 3] = [
    Shape {
        name: "shop/prices",
        options: HandoffOptions::STATELESS,
        lost_at_once: 2,
        subtree: true,
    },
    Shape {
        name: "shop/orders",
        options: HandoffOptions::ORDERED,
        lost_at_once: 1,
        subtree: false,
    },
    Shape {
        name: "shop/ledger",
        options: HandoffOptions::STATEFUL,
        lost_at_once: 1,
        subtree: false,
    },
];
/// Instances of all paths.
const SLOTS: usize = 7;
/// So many messages are sent, however long that takes.
const SENT_MIN: u64 = 10_000;
/// What processes have said is heard within this time.
const HEARD_WITHIN: Duration = Duration::from_secs(1);

struct Instances;

impl Program for Instances {
    const NAME: &'static str = "instances";
    const ABOUT: &'static str = "\
Five node processes host seven instances of three paths, one of them the top of a subtree, and send numbered messages to all of
them. A slot of each path is moved by command, a host is killed, the leader leaves. No message may be lost that did not die with
the killed process, none may be late where order is promised, two may never be alive where that is promised, and at least one
instance of each path has to run all the time.";
    const SECONDS: &'static str = "how long they work, besides the time that faults take";
    const STORE: Option<&'static str> =
        Some("keep the nodes' promises in this folder, in one file for each node");
    const EXIT: &'static str = "\
0 if 10,000 messages were sent, none is lost, late or handled twice, never two were alive and always one ran, 1 if not";
    const RANGE: (u64, u64, u64) = (4, 3_600, 24);

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
    program::main::<Instances>()
}

fn run(options: &Options, stage: &Stage, folder: &Folder) -> Result<Verdict, String> {
    let node = NodeOptions::first("instances", stage);
    let stores = folder.stays().then(|| Stores::Files(folder.path().to_owned()));
    let mut fleet = Fleet::new(options, stage, node, stores, Messages::default())?;
    fleet.start_all()?;
    fleet
        .screen
        .say(format_args!("{NODES} nodes are up, over {}", stage.name));
    let went = work(&mut fleet, options.time / 4);
    let verdict = fleet.proof.ledger.judge(went.err());
    fleet.screen.say(format_args!("{verdict}"));
    Ok(verdict)
}

/// What happens; an error if the work did not go on.
fn work(fleet: &mut Fleet, part: Duration) -> Result<(), String> {
    fleet.until_settled()?;
    fleet.proof.ledger.begin(node::nanos());
    fleet.begin()?;
    fleet.run_for(part)?;
    slots_are_moved(fleet)?;
    fleet.run_for(part)?;
    a_host_is_killed(fleet)?;
    fleet.run_for(part)?;
    the_leader_leaves(fleet)?;
    fleet.run_for(part)?;
    fleet.until(Duration::from_secs(60), "enough messages", |fleet| {
        fleet.proof.ledger.sent() >= SENT_MIN
    })?;
    fleet.halt()?;
    fleet.run_for(HEARD_WITHIN)?;
    fleet.proof.ledger.end(node::nanos());
    Ok(())
}

/// To the leader, so that it has something to hand over, unless it hosts an instance of the path.
fn slots_are_moved(fleet: &mut Fleet) -> Result<(), String> {
    for (path, shape) in PATHS.iter().enumerate() {
        fleet.until_settled()?;
        let to = fleet.place_for(path)?;
        fleet.screen.say(format_args!(
            "slot 0 of {} is moved to node {}",
            shape.name,
            to + 1
        ));
        fleet.move_slot(path, to)?;
    }
    fleet.until_settled()
}

fn a_host_is_killed(fleet: &mut Fleet) -> Result<(), String> {
    fleet.until_settled()?;
    let index = fleet.busiest_but_the_leader()?;
    fleet.screen.say(format_args!(
        "node {}, with {} instances, is killed",
        index + 1,
        fleet.proof.ledger.running_on(index)
    ));
    fleet.proof.ledger.killed(index, node::nanos());
    fleet.kill(index)?;
    fleet.until_settled()?;
    fleet.until_more_is_acknowledged()?;
    fleet.proof.ledger.is_back();
    fleet.start(index)?;
    fleet
        .screen
        .say(format_args!("node {} is back, as a new process", index + 1));
    Ok(())
}

fn the_leader_leaves(fleet: &mut Fleet) -> Result<(), String> {
    fleet.until_settled()?;
    let index = fleet.leader()?;
    fleet.screen.say(format_args!(
        "node {}, the leader with {} instances, leaves",
        index + 1,
        fleet.proof.ledger.running_on(index)
    ));
    // Its clients have an answer to everything that they sent; the others go on.
    fleet.order(index, "halt", "idle")?;
    fleet.leave(index);
    fleet.until_it_ended(index)?;
    fleet.until_settled()?;
    fleet.until_more_is_acknowledged()
}
