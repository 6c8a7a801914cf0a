//! The keyed store at work: five processes build an index of the words of files, each word on three nodes. One
//! is killed, one is cut off until it is downed, one joins; queries run all the time. At the end every entry
//! is what one thread finds.

mod fleet;
mod node;
mod words;
mod work;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use self::fleet::{Fleet, Indexing};
use crate::ending;
use crate::ledger::line;
use crate::program::{self, NODES, NodeOptions, Options, Program, Stage};
use quorate_demo::hosts::Host;

/// Copies of each word: one node may be lost at a time.
const COPIES: u8 = 3;
/// Parts in which words are spread over the nodes.
const RANGES: u16 = 256;
/// Parts of the files: three for each node, so that the work goes on through everything that happens.
const PARTS: usize = 3 * NODES;
/// Which node is killed, and which is cut off.
const KILLED: usize = 3;
const CUT_OFF: usize = 2;

struct WordIndex;

impl Program for WordIndex {
    const NAME: &'static str = "word_index";
    const ABOUT: &'static str = "\
Five node processes build an index of the words of files in the keyed store: three copies of each entry, sets of files merged
by union. One is killed; once every range has three copies again one is cut off until it is downed; one joins. Each node
queries words all the time. At the end every entry has to name the files that one thread finds.";
    const SECONDS: &'static str = "how long it may take";
    const INPUT: Option<&'static str> =
        Some("every regular file below PATH (default: the sources of this workspace)");
    const EXIT: &'static str = "0 if every entry is right and no query failed, 1 if not";
    const RANGE: (u64, u64, u64) = (10, 3_600, 200);

    fn node<H: Host>(options: NodeOptions) -> ExitCode {
        node::run::<H>(options)
    }

    fn run(options: &Options, stage: &Stage) -> ExitCode {
        match words::files(options.input.as_deref()) {
            Ok((files, what)) => ending::finish::<Self>(options, run(options, stage, files, &what)),
            Err(mistake) => {
                eprintln!("{}: {mistake}", Self::NAME);
                ExitCode::from(2)
            }
        }
    }
}

/// How a run ended.
#[derive(Debug)]
struct Outcome {
    files: usize,
    words: u64,
    entries: usize,
    wrong: u64,
    queries: u64,
    failed: u64,
}

/// The whole program, arguments and exit code included.
#[must_use]
pub fn main() -> ExitCode {
    program::main::<WordIndex>()
}

impl ending::Judged for Outcome {
    fn fault(&self) -> Option<String> {
        let Self { wrong, failed, .. } = self;
        let is_right = *wrong == 0 && *failed == 0;
        (!is_right).then(|| format!("{wrong} entries are wrong, {failed} queries failed"))
    }

    fn json(&self) -> String {
        line(&[
            ("files", &self.files),
            ("words", &self.words),
            ("entries", &self.entries),
            ("wrong", &self.wrong),
            ("queries", &self.queries),
            ("failed", &self.failed),
        ])
    }
}

fn run(options: &Options, stage: &Stage, files: Vec<PathBuf>, what: &str) -> Result<Outcome, String> {
    let (begun, count) = (Instant::now(), files.len());
    let node = NodeOptions::first("words", stage);
    let mut fleet = Fleet::new(options, stage, node, None, Indexing::new(files, PARTS))?;
    fleet.start_all()?;
    fleet.until_whole()?;
    fleet.screen.say(format_args!(
        "{NODES} nodes are up, over {}: the words of {count} files below {what}",
        stage.name
    ));
    let limit = options.time.saturating_sub(begun.elapsed());
    put_through_faults(&mut fleet, begun, limit)?;
    fleet
        .screen
        .say("all words are put; one thread reads the same files");
    let index = fleet.proof.alone();
    fleet.look_up(&index)?;
    fleet.halt()?;
    let (queries, proof) = (fleet.queries(), &fleet.proof);
    let outcome = Outcome {
        files: count,
        words: index.words,
        entries: proof.found.len(),
        wrong: proof.found.wrong(&index) as u64 + proof.stale,
        queries,
        failed: proof.failed,
    };
    let took = begun.elapsed();
    fleet.screen.say(format_args!(
        "{} words, {} entries, {} wrong; {queries} queries, {} failed; {:.1} s",
        outcome.words,
        outcome.entries,
        outcome.wrong,
        outcome.failed,
        took.as_secs_f64()
    ));
    if took > options.time {
        return Err(format!("it took {took:.1?}"));
    }
    Ok(outcome)
}

/// The work, and what happens to the nodes meanwhile: some parts of it wait for each thing that happens.
fn put_through_faults(fleet: &mut Fleet, begun: Instant, limit: Duration) -> Result<(), String> {
    let left = move || limit.saturating_sub(begun.elapsed());
    let third = fleet.proof.work.parts().div_ceil(3);
    fleet.begin_with(third)?;
    fleet.until_put(third / 2, left())?;
    fleet.screen.say(format_args!("node {} is killed", KILLED + 1));
    fleet.kill(KILLED)?;
    fleet.give_to_others(KILLED);
    fleet.release(third);
    fleet.until_whole()?;
    fleet.screen.say(format_args!(
        "every range has {COPIES} copies again; node {} is cut off from the others",
        CUT_OFF + 1
    ));
    fleet.cut_off(CUT_OFF);
    fleet.give_to_others(CUT_OFF);
    fleet.until_it_ended(CUT_OFF)?;
    fleet.until_whole()?;
    fleet.screen.say(format_args!(
        "node {} found itself in the minority and ended",
        CUT_OFF + 1
    ));
    fleet.start(KILLED)?;
    fleet
        .screen
        .say(format_args!("node {} joins, as a new process", KILLED + 1));
    let all = fleet.proof.work.parts();
    fleet.release(all);
    fleet.until_put(all, left())
}

#[cfg(test)]
mod tests {
    use super::ending::Judged as _;
    use super::*;

    fn outcome(wrong: u64, failed: u64) -> Outcome {
        Outcome {
            files: 5,
            words: 70,
            entries: 30,
            wrong,
            queries: 9,
            failed,
        }
    }

    #[test]
    fn a_wrong_entry_and_a_query_without_an_answer_are_faults() {
        assert_eq!(outcome(0, 0).fault(), None);
        for (wrong, named) in [(outcome(2, 0), "2 entries"), (outcome(0, 3), "3 queries")] {
            let fault = wrong.fault().unwrap();
            assert!(fault.contains(named), "{fault}");
        }
    }

    #[test]
    fn the_line_has_what_is_asked_of_it() {
        assert_eq!(
            outcome(1, 2).json(),
            r#"{"files":5,"words":70,"entries":30,"wrong":1,"queries":9,"failed":2}"#
        );
    }
}
