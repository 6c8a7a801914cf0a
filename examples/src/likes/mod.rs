//! Replicated data under real faults: five processes change counters and sets on their own while one stands still, one is cut off
//! and one is killed; at the end all replicas are equal and hold everything that was acknowledged. A program calls [`main`] with
//! the transports it can run on.

mod fleet;
mod gate;
mod ledger;
mod node;
mod options;
mod table;

use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use self::fleet::{Fleet, NODES};
use self::ledger::{Ledger, Verdict};
use self::options::{Command, NodeOptions, Options};
use self::table::Table;
use crate::hosts::Host;
use crate::trust::Authority;

/// Which node stands still, is cut off, is killed; the first is the seed of all and goes through all of it unharmed.
const STILL: usize = 1;
const CUT: usize = 2;
const KILLED: usize = 3;
/// Longest time of a fault: well below what would get anybody downed.
const FAULT_MAX: Duration = Duration::from_secs(6);
/// How long replicas may take to become equal.
const CONVERGE_MAX: Duration = Duration::from_secs(30);
/// Between two looks whether they are.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// One transport: its name and how a node runs there.
#[derive(Clone, Copy, Debug)]
pub struct Stage {
    name: &'static str,
    has_certificates: bool,
    node: fn(NodeOptions) -> ExitCode,
}

impl Stage {
    /// A transport whose links are plain.
    #[must_use]
    pub const fn plain<H: Host>(name: &'static str) -> Self {
        Self {
            name,
            has_certificates: false,
            node: node::run::<H>,
        }
    }

    /// A transport whose links are mutual TLS, with certificates of a throw-away authority.
    #[must_use]
    pub const fn with_certificates<H: Host>(name: &'static str) -> Self {
        Self {
            has_certificates: true,
            ..Self::plain::<H>(name)
        }
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

/// The whole program, arguments and exit code included. The first of `stages` is the default.
#[must_use]
pub fn main(stages: &[Stage]) -> ExitCode {
    let stage = |name: &str| stages.iter().find(|stage| stage.name == name);
    let refused = |message: &str| {
        eprintln!("likes: {message}");
        ExitCode::from(2)
    };
    match options::parse(std::env::args_os().skip(1).collect(), stages) {
        Err(message) => refused(&message),
        Ok(Command::Help) => {
            print!("{}", options::help(stages));
            ExitCode::SUCCESS
        }
        Ok(Command::Node(options)) => match stage(&options.transport) {
            Some(stage) => {
                crate::log::from_environment();
                (stage.node)(options)
            }
            None => refused("no such transport"),
        },
        Ok(Command::Run(options)) => match stage(&options.transport) {
            Some(stage) => finish(&options, run(&options, stage)),
            None => refused("no such transport"),
        },
    }
}

fn finish(options: &Options, outcome: Result<Outcome, String>) -> ExitCode {
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(message) => {
            eprintln!("likes: {message}");
            return ExitCode::FAILURE;
        }
    };
    let Verdict { missing, surplus } = outcome.verdict;
    if options.json {
        println!(
            "{{\"nodes\":{NODES},\"updates\":{},\"acknowledged\":{},\"missing\":{missing},\"equal\":{},\"seconds\":{:.1}}}",
            outcome.updates,
            outcome.acknowledged,
            outcome.is_equal,
            outcome.took.as_secs_f64()
        );
    }
    if outcome.is_equal && missing == 0 && surplus == 0 {
        return ExitCode::SUCCESS;
    }
    eprintln!(
        "likes: {missing} acknowledged updates are missing, {surplus} are there that nobody made, the replicas are {}",
        if outcome.is_equal { "equal" } else { "not equal" }
    );
    ExitCode::FAILURE
}

fn run(options: &Options, stage: &Stage) -> Result<Outcome, String> {
    let started = Instant::now();
    let authority = Authority::new(stage.has_certificates).map_err(|error| error.to_string())?;
    let table = Table::new(options.json);
    // Followers of two runs on one store must not have one name.
    let life = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs();
    let node = NodeOptions {
        transport: stage.name.to_owned(),
        cluster: format!("likes-{}", std::process::id()),
        index: 0,
        life,
        bind: "127.0.0.1:0".to_owned(),
        seed: None,
        store: None,
    };
    let mut fleet = Fleet::new(node, options.store.clone(), authority, table);
    fleet.start_all()?;
    fleet
        .table
        .say(format_args!("{NODES} nodes are up, over {}", stage.name));
    converge(&mut fleet)?;
    let base = fleet.dump(0)?;
    fleet.ledger = Ledger::after(base);
    fleet.tell_all("go");
    faults(&mut fleet, options.writing)?;
    fleet.ask_all("halt", "idle")?;
    fleet.table.say("nobody writes any more");
    let mut is_equal = converge(&mut fleet)?;
    if options.store.is_some() {
        fleet.table.say("all nodes are killed at once, and started again");
        // All writes were over before: nothing is unknown because of this.
        let ledger = std::mem::take(&mut fleet.ledger);
        (0..NODES).try_for_each(|index| fleet.kill(index))?;
        fleet.ledger = ledger;
        fleet.start_all()?;
        is_equal &= converge(&mut fleet)?;
    }
    let found = fleet.dump(0)?;
    let verdict = fleet.ledger.judge(&found);
    let (updates, acknowledged) = (fleet.ledger.updates, fleet.ledger.acknowledged);
    let likes: u128 = found.likes.values().sum();
    fleet.table.say(format_args!(
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
    fleet.table.say(format_args!("node {} stands still", STILL + 1));
    fleet.note(STILL, "stands still");
    fleet.stand_still(STILL, true)?;
    fleet.run_for(fault)?;
    fleet.stand_still(STILL, false)?;
    fleet.note(STILL, "");
    fleet.table.say(format_args!("node {} goes on", STILL + 1));
    fleet.run_for(part)?;
    fleet.table.say(format_args!("node {} is cut off", CUT + 1));
    fleet.note(CUT, "cut off");
    fleet.tell(CUT, "cut");
    fleet.run_for(fault)?;
    fleet.tell(CUT, "heal");
    fleet.note(CUT, "");
    fleet
        .table
        .say(format_args!("node {} is connected again", CUT + 1));
    fleet.run_for(part)?;
    fleet.table.say(format_args!("node {} is killed", KILLED + 1));
    fleet.kill(KILLED)?;
    fleet.run_for(part / 2)?;
    fleet.start(KILLED)?;
    fleet.tell(KILLED, "go");
    fleet
        .table
        .say(format_args!("node {} is back, as a new process", KILLED + 1));
    fleet.run_for(part + part / 2)
}

/// Waits until all replicas are equal; says whether they became so in time.
fn converge(fleet: &mut Fleet) -> Result<bool, String> {
    let began = Instant::now();
    loop {
        let states = fleet.states()?;
        let mut digests: Vec<&str> = states.iter().map(|shown| &*shown.digest).collect();
        digests.dedup();
        if digests.len() == 1 && states.len() == NODES {
            let took = began.elapsed().as_secs_f64();
            fleet
                .table
                .say(format_args!("all replicas are equal, {took:.1} s later"));
            return Ok(true);
        }
        if began.elapsed() > CONVERGE_MAX {
            fleet
                .table
                .say(format_args!("the replicas differ: {}", digests.join(", ")));
            return Ok(false);
        }
        fleet.run_for(LOOK_AGAIN)?;
    }
}
