//! Histories of the keyed store under real faults: this process calls the keys of a bucket through five
//! nodes, which are killed, cut off and paused one after the other, so that ranges move all the time. What it
//! was told about each key is judged: as a register where one writes at a time or all write with a condition,
//! as siblings where all write at once. Spec: sharding 10.19; reliability I-70 to I-73.

mod fleet;
mod node;
mod plan;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use self::fleet::{Fleet, Histories};
use crate::ending;
use crate::ledger::line;
use crate::program::{self, NODES, NodeOptions, Options, Program, Stage};
use quorate_demo::hosts::Host;

/// How long a node is cut off or stands still: well below what would get it downed.
const AWAY: Duration = Duration::from_secs(3);
/// Between two faults.
const BETWEEN: Duration = Duration::from_secs(2);

struct StoreHistory;

impl Program for StoreHistory {
    const NAME: &'static str = "store_history";
    const ABOUT: &'static str = "\
Five node processes hold a bucket of the keyed store, three copies of each value, and are called about its keys all the time. They
are killed and started again, cut off, and stand still, one after the other, so that ranges move. What callers were told about each
key is judged: keys with one writer and keys of conditional puts have to be linearizable, and where many write at once everything
acknowledged has to be there until it is overwritten.";
    const SECONDS: &'static str = "how long they are called";
    const EXIT: &'static str = "0 if every history is right, 1 if not";
    const RANGE: (u64, u64, u64) = (20, 3_600, 60);

    fn node<H: Host>(options: NodeOptions) -> ExitCode {
        node::run::<H>(options)
    }

    fn run(options: &Options, stage: &Stage) -> ExitCode {
        ending::finish::<Self>(options, run(options, stage))
    }
}

/// The whole program, arguments and exit code included.
#[must_use]
pub fn main() -> ExitCode {
    program::main::<StoreHistory>()
}

/// What a run has come to.
#[derive(Clone, Debug, Default)]
struct Verdict {
    keys: usize,
    puts: u64,
    gets: u64,
    unknown: u64,
    kills: u64,
    cuts: u64,
    pauses: u64,
    moves: u64,
    not_linearizable: u64,
    not_dominated: u64,
    /// The first history that is wrong, or why the run did not go on.
    why: Option<String>,
}

impl ending::Judged for Verdict {
    fn fault(&self) -> Option<String> {
        let wrong = self.not_linearizable + self.not_dominated;
        let why = self.why.clone();
        if wrong > 0 {
            return Some(format!(
                "{wrong} histories are wrong: {}",
                why.unwrap_or_default()
            ));
        }
        why
    }

    fn json(&self) -> String {
        line(&[
            ("keys", &self.keys),
            ("puts", &self.puts),
            ("gets", &self.gets),
            ("unknown", &self.unknown),
            ("kills", &self.kills),
            ("cuts", &self.cuts),
            ("pauses", &self.pauses),
            ("moves", &self.moves),
            ("not_linearizable", &self.not_linearizable),
            ("not_dominated", &self.not_dominated),
        ])
    }
}

fn run(options: &Options, stage: &Stage) -> Result<Verdict, String> {
    let node = NodeOptions::first("store-history", stage);
    let mut fleet = Fleet::new(options, stage, node, None, Histories::new())?;
    fleet.start_all()?;
    fleet
        .screen
        .say(format_args!("{NODES} nodes are up, over {}", stage.name));
    fleet.until_ranges_rest()?;
    let went = work(&mut fleet, options.time);
    let verdict = fleet.judge(went.err());
    fleet.screen.say(format_args!(
        "{} keys, {} puts and {} gets answered, {} open; {} kills, {} cuts, {} pauses, {} moves; {} histories are not \
         linearizable, {} not dominated",
        verdict.keys,
        verdict.puts,
        verdict.gets,
        verdict.unknown,
        verdict.kills,
        verdict.cuts,
        verdict.pauses,
        verdict.moves,
        verdict.not_linearizable,
        verdict.not_dominated
    ));
    Ok(verdict)
}

/// What happens; an error if the work did not go on.
fn work(fleet: &mut Fleet, time: Duration) -> Result<(), String> {
    let end = Instant::now() + time;
    for round in 0.. {
        fleet.call_for(BETWEEN)?;
        if Instant::now() >= end {
            break;
        }
        let index = (round / 3) % NODES;
        match round % 3 {
            0 => {
                fleet.screen.say(format_args!("node {} is killed", index + 1));
                fleet.is_killed(index)?;
                fleet.call_for(BETWEEN)?;
                fleet.start(index)?;
                fleet.until_ranges_rest()?;
            }
            1 => {
                fleet.screen.say(format_args!("node {} is cut off", index + 1));
                fleet.is_cut_off(index, AWAY)?;
            }
            _ => {
                fleet.screen.say(format_args!("node {} stands still", index + 1));
                fleet.stands_still(index, AWAY)?;
            }
        }
        fleet.call_until_acknowledged()?;
    }
    fleet.finish_calls()
}
