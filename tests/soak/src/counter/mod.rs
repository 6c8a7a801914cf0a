//! The seeds' counter, event-sourced and sharded: two hundred of them on five nodes, which leave memory when
//! nobody wants them. A node is killed, one is cut off, one leaves, then all are killed at once and started
//! again: each counter is at home where it was, and the alarms beside them run without a message. At the end
//! each counter has every command that was acknowledged, once; and a further run on the same folder finds
//! what this one has left.

mod alarm;
mod entity;
mod fleet;
mod ledger;
mod node;

use std::process::ExitCode;
use std::time::Duration;

use self::fleet::{Changes, Fleet};
use self::ledger::{Left, Verdict};
use crate::ending::{self, Folder};
use crate::processes::Listens as _;
use crate::program::{self, NODES, NodeOptions, Options, Program, Stage};
use crate::stores::{State, Stores};
use quorate_demo::hosts::Host;

/// Counters of a run.
const COUNTERS: u64 = 200;

/// Entities beside them that are remembered, and run by themselves.
const ALARMS: u64 = 20;

/// Who is killed, who is cut off, who leaves.
const KILLED: usize = 1;
const CUT_OFF: usize = 2;
const LEAVES: usize = 3;
const STANDS_STILL: usize = 4;

/// What a run leaves in its folder for the next one to check.
const LEFT: &str = "values.txt";

struct Counters;

impl Program for Counters {
    const NAME: &'static str = "counter";
    const ABOUT: &'static str = "\
Five node processes share two hundred durable counters, and their clients change them all the time. A node is killed, one is
cut off, one leaves, then all are killed at once. Counters leave memory and come back from the store with their value.
No command that was acknowledged may be lost, and none may count twice. After all were killed each counter has to be where it
was, and twenty alarms that the cluster remembers have to run without a message.";
    const SECONDS: &'static str = "how long they work, besides the time that faults take";
    const STORE: Option<&'static str> = Some(
        "\
keep the counters in this folder, in one file for each node of which three keep every log; a further
                     run with it checks every value of the last one",
    );
    const POSTGRES: Option<&'static str> = Some("keep the counters in PostgreSQL instead, `host=… user=…`");
    const STATE: Option<&'static str> = Some(
        "\
where it is kept which node each shard lives on, and which alarms are remembered: events (homes as
                     events in the stores' logs, alarms in replicated data, the default), or data (homes as one
                     value, alarms as events in the logs); or bucket:
                     as events, but counters in a bucket of the keyed store, in the memory of three nodes,
                     one node after the other is killed, each after its ranges are whole again,
                     and one stands still and goes on late",
    );
    const SCHEMA: &'static str = node::SCHEMA;
    const EXIT: &'static str =
        "0 if nothing is lost, doubled or moved, all alarms run and the work went on, 1 if not";
    const RANGE: (u64, u64, u64) = (5, 600, 20);

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
    program::main::<Counters>()
}

fn run(options: &Options, stage: &Stage, folder: &Folder) -> Result<Verdict, String> {
    let stores = Stores::of_run(options, folder);
    let node = NodeOptions {
        state: options.state,
        ..NodeOptions::first("counter", stage)
    };
    let mut fleet = Fleet::new(options, stage, node, Some(stores), Changes::default())?;
    fleet.start_all()?;
    fleet.screen.say(format_args!(
        "{NODES} nodes are up, over {}, state mode {}",
        stage.name,
        options.state.name()
    ));
    // What is in memory alone leaves nothing.
    let leaves = options.state != State::Bucket;
    let left = Left::read(&folder.path().join(LEFT))?.filter(|_| leaves);
    let found = fleet.read()?;
    // Until this run ends in good order, nobody knows more than that.
    if leaves {
        Left::new(found.clone(), false).write(&folder.path().join(LEFT))?;
    }
    fleet.proof.ledger.begin(found, left.as_ref());
    fleet.begin_alarms()?;
    if let Some(left) = left {
        let known = left.counters();
        fleet.screen.say(format_args!(
            "{known} counters of an earlier run were read and compared"
        ));
    }
    let went = match options.state {
        State::Bucket => work_in_a_bucket(&mut fleet, options.time / 5),
        State::Events | State::Data => work(&mut fleet, options.time / 5),
    };
    if went.is_err() {
        // Nobody changes anything while it is read. The first error counts.
        let _ = fleet.halt();
    }
    let found = fleet.read()?;
    if leaves {
        Left::new(found.clone(), true).write(&folder.path().join(LEFT))?;
    }
    let verdict = fleet.judge(&found);
    fleet.screen.say(format_args!(
        "{} commands, {} acknowledged, {} lost, {} doubled; {} of {} counters came back from the store; {} times one left memory, {} stale \
         ones were refused; after all were killed {} of {} homes were others, and {} alarms ran by themselves",
        verdict.commands,
        verdict.acknowledged,
        verdict.lost,
        verdict.doubled,
        verdict.recovered,
        verdict.counters,
        verdict.passivated,
        fleet.fenced(),
        verdict.moved,
        verdict.homes,
        verdict.alarms
    ));
    Ok(Verdict {
        stuck: went.err(),
        ..verdict
    })
}

/// What happens; an error if the work did not go on.
fn work(fleet: &mut Fleet, part: Duration) -> Result<(), String> {
    fleet.begin()?;
    fleet.run_for(part)?;
    one_is_killed(fleet)?;
    fleet.run_for(part)?;
    one_is_cut_off(fleet)?;
    fleet.run_for(part)?;
    one_leaves(fleet)?;
    fleet.run_for(part)?;
    all_are_killed(fleet)?;
    fleet.run_for(part)?;
    fleet.halt()
}

/// One node after the other is killed, each once every range has three copies again.
fn work_in_a_bucket(fleet: &mut Fleet, part: Duration) -> Result<(), String> {
    fleet.begin()?;
    for index in 0..NODES {
        fleet.until_ranges_are_whole()?;
        fleet.run_for(part)?;
        replace(fleet, index)?;
    }
    fleet.until_ranges_are_whole()?;
    one_stands_still(fleet)?;
    fleet.until_ranges_are_whole()?;
    fleet.run_for(part)?;
    fleet.halt()
}

/// A node is killed, and started once its counters answer elsewhere.
fn replace(fleet: &mut Fleet, index: usize) -> Result<(), String> {
    let there = fleet.living_on(index);
    fleet.screen.say(format_args!(
        "node {}, with {} counters, is killed",
        index + 1,
        there.len()
    ));
    fleet.kill(index)?;
    fleet.until_they_answer_elsewhere(index, &there)?;
    fleet.start(index)
}

/// A node stands still in the middle of its writes until its counters answer elsewhere, and goes on with
/// them: if one of them came to anything, a command would have counted twice, or be lost.
fn one_stands_still(fleet: &mut Fleet) -> Result<(), String> {
    let there = fleet.living_on(STANDS_STILL);
    let open = fleet.proof.ledger.unanswered();
    fleet.screen.say(format_args!(
        "node {}, with {} counters, stands still; {open} commands are open",
        STANDS_STILL + 1,
        there.len()
    ));
    fleet.may_end(STANDS_STILL, "stands still");
    fleet.stand_still(STANDS_STILL, true)?;
    let went = fleet.until_they_answer_elsewhere(STANDS_STILL, &there);
    // Whatever came of it, it goes on, and can be ended.
    fleet.stand_still(STANDS_STILL, false)?;
    went?;
    fleet.until_it_ended(STANDS_STILL)?;
    fleet.start(STANDS_STILL)?;
    fleet.screen.say(format_args!(
        "node {} went on with what it had lost, and ended; it is back, as a new process",
        STANDS_STILL + 1
    ));
    Ok(())
}

fn one_is_killed(fleet: &mut Fleet) -> Result<(), String> {
    replace(fleet, KILLED)?;
    fleet
        .screen
        .say(format_args!("node {} is back, as a new process", KILLED + 1));
    Ok(())
}

fn one_is_cut_off(fleet: &mut Fleet) -> Result<(), String> {
    let there = fleet.living_on(CUT_OFF);
    fleet.screen.say(format_args!(
        "node {}, with {} counters, is cut off from the others",
        CUT_OFF + 1,
        there.len()
    ));
    fleet.cut_off(CUT_OFF);
    fleet.until_they_answer_elsewhere(CUT_OFF, &there)?;
    fleet.until_it_ended(CUT_OFF)?;
    fleet.start(CUT_OFF)?;
    fleet.screen.say(format_args!(
        "node {} found itself in the minority and ended; it is back, as a new process",
        CUT_OFF + 1
    ));
    Ok(())
}

fn one_leaves(fleet: &mut Fleet) -> Result<(), String> {
    let there = fleet.living_on(LEAVES);
    fleet.screen.say(format_args!(
        "node {}, with {} counters, leaves",
        LEAVES + 1,
        there.len()
    ));
    fleet.leave(LEAVES);
    fleet.until_they_answer_elsewhere(LEAVES, &there)?;
    fleet.until_it_ended(LEAVES)
}

fn all_are_killed(fleet: &mut Fleet) -> Result<(), String> {
    fleet.start(LEAVES)?;
    fleet.halt()?;
    let homes = fleet.homes_at_rest()?;
    fleet.begin()?;
    fleet.screen.say("all nodes are killed at once");
    fleet.kill_all()?;
    fleet.start_all()?;
    fleet
        .screen
        .say("all nodes are back; they know their counters from their stores alone");
    fleet.until_more_is_acknowledged()?;
    fleet.until_alarms_run()?;
    fleet.compare(homes)
}
