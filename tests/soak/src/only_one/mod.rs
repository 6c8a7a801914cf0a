//! Exactly one: a singleton that numbers invoices and stores each through its token, in a book that another
//! process holds. The oldest node is killed, then one is cut off while a write of its instance is on its way,
//! then the oldest leaves. At the end every invoice that was acknowledged is in the book, once, and no
//! instance wrote after a later one had opened it.

mod billing;
mod book;
mod fleet;
mod ledger;
mod node;

use std::process::ExitCode;
use std::time::Duration;

use self::book::Book;
use self::fleet::{Fleet, Invoices};
use self::ledger::Verdict;
use crate::ending::{self, Folder};
use crate::processes::Listens as _;
use crate::program::{self, NODES, NodeOptions, Options, Program, Stage};
use crate::stores::Stores;
use quorate_demo::hosts::Host;

struct OnlyOne;

impl Program for OnlyOne {
    const NAME: &'static str = "only_one";
    const ABOUT: &'static str = "\
Five node processes have one instance between them that numbers invoices, and stores each through its fencing token in a
book that another process holds. The oldest node is killed, one is cut off while its instance writes, the oldest leaves.
Nothing that was acknowledged may be missing, nothing doubled, and no lower token accepted.";
    const SECONDS: &'static str = "how long they work, besides the time that faults take";
    const STORE: Option<&'static str> = Some(
        "\
keep the book and the nodes' promises in this folder; a further run with it goes on with higher tokens",
    );
    const EXIT: &'static str = "\
0 if nothing is missing, nothing is doubled, no lower token was accepted and the work went on, 1 if not";
    const RANGE: (u64, u64, u64) = (8, 600, 20);

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
    program::main::<OnlyOne>()
}

fn run(options: &Options, stage: &Stage, folder: &Folder) -> Result<Verdict, String> {
    let node = NodeOptions::first("only-one", stage);
    let book = Book::open(&folder.path().join("book.redb"))?;
    let stores = folder.stays().then(|| Stores::Files(folder.path().to_owned()));
    let mut fleet = Fleet::new(options, stage, node, stores, Invoices::in_book(book))?;
    fleet.look_into_the_book()?;
    fleet.start_all()?;
    fleet
        .screen
        .say(format_args!("{NODES} nodes are up, over {}", stage.name));
    let went = work(&mut fleet, options.time / 4);
    fleet.judge(went)
}

/// What happens; an error if the work did not go on.
fn work(fleet: &mut Fleet, part: Duration) -> Result<(), String> {
    fleet.begin()?;
    fleet.run_for(part)?;
    the_oldest_is_killed(fleet)?;
    fleet.run_for(part)?;
    the_oldest_is_cut_off(fleet)?;
    fleet.run_for(part)?;
    the_oldest_leaves(fleet)?;
    fleet.run_for(part)?;
    fleet.halt()
}

fn the_oldest_is_killed(fleet: &mut Fleet) -> Result<(), String> {
    let index = fleet.runs_at()?;
    fleet
        .screen
        .say(format_args!("node {}, where it runs, is killed", index + 1));
    fleet.kill(index)?;
    fleet.until_it_runs_elsewhere(index)?;
    fleet.start(index)?;
    fleet
        .screen
        .say(format_args!("node {} is back, as a new process", index + 1));
    Ok(())
}

fn the_oldest_is_cut_off(fleet: &mut Fleet) -> Result<(), String> {
    let index = fleet.runs_at()?;
    fleet.screen.say(format_args!(
        "node {}, where it runs, is cut off; what its instance writes is held up on its way to the book",
        index + 1
    ));
    fleet.cut_off_with_a_write(index)?;
    fleet.until_it_runs_elsewhere(index)?;
    fleet.release(index);
    fleet.until_it_ended(index)?;
    fleet.start(index)?;
    fleet.screen.say(format_args!(
        "node {} found itself in the minority and ended; it is back, as a new process",
        index + 1
    ));
    Ok(())
}

fn the_oldest_leaves(fleet: &mut Fleet) -> Result<(), String> {
    let index = fleet.runs_at()?;
    fleet
        .screen
        .say(format_args!("node {}, where it runs, leaves", index + 1));
    fleet.leave(index);
    fleet.until_it_runs_elsewhere(index)?;
    fleet.until_it_ended(index)
}
