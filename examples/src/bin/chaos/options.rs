//! The command line.

use std::time::Duration;

use lexopt::prelude::*;
use quorate_tokio::core::Address;

use crate::splits::Row;

pub(crate) const HELP: &str = "\
Runs five nodes as processes, asks their entities all the time, disturbs them, and judges every answer.

Usage: chaos splits [OPTIONS]   links are cut, processes stopped; needs Linux, `ip` and `unshare`
       chaos kills [OPTIONS]    SIGKILL until the first answer of an entity that lived there

Options:
      --row NAME         splits: only this row; may be repeated: cut, one-way, flap, stop-leader, stop-coordinator
      --seconds N        splits: how long each fault lasts (default 60)
      --runs N           kills: how often (default 20)
      --side-by-side N   kills: so many clusters at the same time (default 1)
      --default-profile  the documented default timings (without it: those for one machine)
      --logs             the nodes log to standard error what RUST_LOG says (default warn)
  -h, --help             print this

Exit code 1 if an entity answered on two sides at once, an answer was wrong, a node ended that should not have, or the
cluster did not come back; 2 if the run could not be made.
";

#[derive(Debug)]
pub(crate) enum Command {
    Help,
    Node(NodeOptions),
    Splits(SplitOptions),
    Kills(KillOptions),
}

/// One node process.
#[derive(Debug)]
pub(crate) struct NodeOptions {
    pub(crate) bind: String,
    pub(crate) seeds: Vec<Address>,
    pub(crate) fast: bool,
    pub(crate) logs: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct SplitOptions {
    pub(crate) rows: Vec<Row>,
    pub(crate) lasting: Duration,
    pub(crate) fast: bool,
    pub(crate) logs: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct KillOptions {
    pub(crate) runs: u32,
    pub(crate) side_by_side: u32,
    pub(crate) fast: bool,
    pub(crate) logs: bool,
}

pub(crate) fn parse() -> Result<Command, lexopt::Error> {
    let mut parser = lexopt::Parser::from_env();
    let mut verb = None;
    let (mut rows, mut lasting, mut runs, mut side_by_side) = (Vec::new(), Duration::from_secs(60), 20, 1);
    let (mut bind, mut seeds) = ("127.0.0.1:0".to_owned(), Vec::new());
    let (mut fast, mut logs) = (true, false);
    while let Some(argument) = parser.next()? {
        match argument {
            Short('h') | Long("help") => return Ok(Command::Help),
            Value(text) if verb.is_none() => verb = Some(text.string()?),
            Long("row") => rows.push(parser.value()?.parse()?),
            Long("seconds") => lasting = Duration::from_secs(parser.value()?.parse()?),
            Long("runs") => runs = parser.value()?.parse()?,
            Long("side-by-side") => side_by_side = parser.value()?.parse::<u32>()?.max(1),
            Long("default-profile") => fast = false,
            Long("logs") => logs = true,
            Long("bind") => bind = parser.value()?.string()?,
            Long("seed") => seeds.push(parser.value()?.parse()?),
            Short(_) | Long(_) | Value(_) => return Err(argument.unexpected()),
        }
    }
    if rows.is_empty() {
        rows.extend(Row::ALL);
    }
    match verb.as_deref() {
        Some("node") => Ok(Command::Node(NodeOptions {
            bind,
            seeds,
            fast,
            logs,
        })),
        Some("splits") => Ok(Command::Splits(SplitOptions {
            rows,
            lasting,
            fast,
            logs,
        })),
        Some("kills") => Ok(Command::Kills(KillOptions {
            runs,
            side_by_side,
            fast,
            logs,
        })),
        _ => Err("what to do is `splits` or `kills`".into()),
    }
}
