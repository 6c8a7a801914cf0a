//! A member that lies about every number that it says, against three real nodes: a fourth joins them
//! honestly, and tells them random legal messages of every kind that members say to each other, at a bounded
//! rate, while its node goes on as an honest member. Then it is declared Down, and five more join.

mod fleet;
mod lies;
mod node;
mod tongue;
mod verdict;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use quorate_tests::liar::Kind;

use self::fleet::{ALL, Fleet, HONEST};
use self::node::LIAR;
use self::verdict::Verdict;
use crate::ending::{self, Folder};
use crate::processes::Listens as _;
use crate::program::{self, NodeOptions, Options, Program, Stage};
use crate::stores::Stores;
use quorate_demo::hosts::Host;
use quorate_demo::screen::Screen;
use quorate_demo::trust::Authority;

/// Without a terminal, how things stand is a line at most this often.
const LINE_EVERY: Duration = Duration::from_secs(5);
/// How long the four are clients of each other before and after the lies: what they take anyway is there
/// then.
const CALM: Duration = Duration::from_secs(2);
/// How long it may take until everybody is answered, or sees who is there.
const PATIENCE: Duration = Duration::from_secs(60);

struct Liars;

impl Program for Liars {
    const NAME: &'static str = "liars";
    const ABOUT: &'static str = "\
Three node processes host entities, a singleton, data and logs. A fourth joins them, and tells them random legal messages of every
kind whose numbers are not so, beside what its node says; none that members trust each other with (Leave, Down, Removed, and what
states say of members). Nobody else may end, the memory of the three may grow by less than 64 MiB, and after the liar's removal
five more nodes join.";
    const SECONDS: &'static str = "how long the lies take, at least";
    const STORE: Option<&'static str> =
        Some("keep the nodes' stores in this folder, in one file for each node");
    const MESSAGES: Option<(&'static str, (u64, u64, u64))> =
        Some(("lies of each kind", (1, 100_000, 1_000)));
    const EXIT: &'static str =
        "0 if nobody else ended, memory is bounded and eight nodes formed a cluster, 1 if not";
    const RANGE: (u64, u64, u64) = (1, 3_600, 120);

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
    program::main::<Liars>()
}

fn run(options: &Options, stage: &Stage, folder: &Folder) -> Result<Verdict, String> {
    let started = Instant::now();
    let authority = Authority::new(stage.has_certificates).map_err(|error| error.to_string())?;
    let screen = Screen::new(options.json, started, LINE_EVERY);
    let node = NodeOptions::first("liars", stage);
    let stores = Stores::of_run(options, folder);
    let mut fleet = Fleet::new((node, stores), authority, screen);
    let mut verdict = Verdict {
        transport: stage.name,
        kinds: Kind::all().len(),
        wanted: options.messages,
        ..Verdict::default()
    };
    verdict.stuck = play(&mut fleet, options, &mut verdict).err();
    (verdict.sent, verdict.messages) = fleet.told;
    verdict.growth = fleet.growth();
    verdict.ended = fleet.ended();
    fleet.screen.say(format_args!(
        "{} lies of {} kinds, {} of each at least; memory grew by {:?} bytes; {} nodes ended",
        verdict.sent, verdict.kinds, verdict.messages, verdict.growth, verdict.ended
    ));
    Ok(verdict)
}

/// What happens; an error if it did not go on.
fn play(fleet: &mut Fleet, options: &Options, verdict: &mut Verdict) -> Result<(), String> {
    let honest: Vec<usize> = (0..HONEST).collect();
    fleet.start(&[0])?;
    fleet.start(&[1, 2, LIAR])?;
    fleet.wait_for(&honest, 4, PATIENCE)?;
    fleet.order(&honest, "ask", "answered", PATIENCE)?;
    fleet.run_for(CALM)?;
    fleet.weigh_from_now();
    fleet.screen.say("four nodes are up; one of them begins to lie");
    let frames = |fleet: &Fleet| honest.iter().map(|index| fleet.shown(*index).frames).sum::<u64>();
    let before = frames(fleet);
    let seconds = options.time.as_secs();
    let order = format!("lie {} {seconds}", options.messages);
    fleet.order(&[LIAR], &order, "silent", options.time * 3 + PATIENCE)?;
    fleet.run_for(CALM)?;
    let dropped: Vec<u64> = honest.iter().map(|index| fleet.shown(*index).dropped).collect();
    verdict.heard = frames(fleet) - before;
    fleet.screen.say(format_args!(
        "all is told; the three have read {} frames, and dropped {dropped:?}",
        verdict.heard
    ));
    // What it hosts, or has been asked to, is the liar's.
    fleet.order(&honest, "try", "tried", PATIENCE)?;
    fleet.end_the_liar(0);
    fleet.kill(LIAR);
    fleet.wait_for(&honest, 3, PATIENCE)?;
    fleet.screen.say("the liar is removed");
    let fresh: Vec<usize> = (LIAR + 1..ALL).collect();
    fleet.start(&fresh)?;
    let all = [honest, fresh].concat();
    fleet.wait_for(&all, all.len() as u64, PATIENCE)?;
    verdict.formed = true;
    fleet.screen.say("eight nodes are Up");
    fleet.order(&all, "ask", "answered", PATIENCE)?;
    verdict.answered = true;
    Ok(())
}
