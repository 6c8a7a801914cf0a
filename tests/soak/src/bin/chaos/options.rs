//! The command line.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use lexopt::prelude::*;
use quorate_tokio::membership::ClusterName;
use quorate_tokio::{Address, Config};

use crate::splits::Row;
use crate::tokens::Split;
use crate::work::Work;

pub(crate) const HELP: &str = "\
Runs five nodes as processes, asks their entities all the time, disturbs them, and judges every answer.

Usage: chaos splits [OPTIONS]   links are cut, processes stopped; needs Linux, `ip` and `unshare`
       chaos kills [OPTIONS]    SIGKILL until the first answer of an entity that lived there
       chaos leaves [OPTIONS]   the node of a singleton leaves: the longest time without an answer, and what became of the asks
       chaos tokens [OPTIONS]   links are cut in every way under a singleton that writes into PostgreSQL through its token; as
                                splits, and QUORATE_POSTGRES_SOCKET names the server (tests/with_postgres.sh starts one)

Options:
      --row NAME         splits: only this row; may be repeated: cut, one-way, flap, stop-leader, stop-coordinator
                         tokens: alone-N, pair-N-M (two against three), deaf-N (hears nobody), mute-N (is heard by nobody)
      --seconds N        splits, tokens: how long each fault lasts (default 60)
      --runs N           kills, leaves: how often (default 20)
      --side-by-side N   kills, leaves: so many clusters at the same time (default 1)
      --singleton        kills: of a singleton, so that the oldest node is killed
      --default-profile  the documented default timings (without it: those for one machine)
      --one-data-center  the timings for one data center
      --stable N         the stable period and the removal margin are N seconds each
      --logs             the nodes log to standard error what RUST_LOG says (default warn)
  -h, --help             print this

Exit code 1 if an entity answered on two sides at once, an answer was wrong, a node ended that should not have, the
cluster did not come back, an ask had neither answer nor error, a lower token was accepted, or a token had two instances; 2 if the
run could not be made.
";

#[derive(Debug)]
pub(crate) enum Command {
    Help,
    Node(NodeOptions),
    Splits(SplitOptions),
    Kills(KillOptions),
    Tokens(TokenOptions),
}

/// The timings of all nodes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Profile {
    pub(crate) preset: Preset,
    /// Seconds of the stable period and the removal margin, instead of the preset's.
    pub(crate) stable: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Preset {
    #[default]
    Fast,
    Lan,
    OneDataCenter,
}

impl Profile {
    pub(crate) fn config(self, cluster: ClusterName) -> Config {
        let mut config = match self.preset {
            Preset::Fast => Config::fast(cluster),
            Preset::Lan => Config::lan(cluster),
            Preset::OneDataCenter => Config::one_data_center(cluster),
        };
        if let Some(stable) = self.stable.map(Duration::from_secs) {
            config.downing.stable_after = Some(stable);
            config.downing.down_removal_margin = Some(stable);
        }
        config
    }

    /// As a node's command line has it.
    pub(crate) fn words(self) -> Vec<String> {
        let preset = match self.preset {
            Preset::Fast => None,
            Preset::Lan => Some("--default-profile".to_owned()),
            Preset::OneDataCenter => Some("--one-data-center".to_owned()),
        };
        let stable = self.stable.map(|stable| format!("--stable={stable}"));
        preset.into_iter().chain(stable).collect()
    }
}

/// One node process.
#[derive(Debug)]
pub(crate) struct NodeOptions {
    pub(crate) bind: String,
    pub(crate) seeds: Vec<Address>,
    pub(crate) profile: Profile,
    pub(crate) logs: bool,
    pub(crate) work: Work,
    /// The database of the book.
    pub(crate) book: Option<String>,
    /// The node's own store.
    pub(crate) store: Option<PathBuf>,
}

#[derive(Clone, Debug)]
pub(crate) struct SplitOptions {
    pub(crate) rows: Vec<Row>,
    pub(crate) lasting: Duration,
    pub(crate) profile: Profile,
    pub(crate) logs: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct KillOptions {
    pub(crate) runs: u32,
    pub(crate) side_by_side: u32,
    pub(crate) work: Work,
    /// Nodes leave instead.
    pub(crate) leave: bool,
    pub(crate) profile: Profile,
    pub(crate) logs: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct TokenOptions {
    pub(crate) splits: Vec<Split>,
    pub(crate) lasting: Duration,
    pub(crate) profile: Profile,
    pub(crate) logs: bool,
}

/// Everything that was said, for whichever command.
#[derive(Default)]
struct Said {
    rows: Vec<String>,
    seconds: Option<u64>,
    runs: Option<u32>,
    side_by_side: u32,
    bind: Option<String>,
    seeds: Vec<Address>,
    profile: Profile,
    logs: bool,
    work: Work,
    book: Option<String>,
    store: Option<PathBuf>,
}

pub(crate) fn parse() -> Result<Command, lexopt::Error> {
    let mut parser = lexopt::Parser::from_env();
    let (mut verb, mut said) = (None, Said::default());
    while let Some(argument) = parser.next()? {
        match argument {
            Short('h') | Long("help") => return Ok(Command::Help),
            Value(text) if verb.is_none() => verb = Some(text.string()?),
            Long("row") => said.rows.push(parser.value()?.string()?),
            Long("seconds") => said.seconds = Some(parser.value()?.parse()?),
            Long("runs") => said.runs = Some(parser.value()?.parse()?),
            Long("side-by-side") => said.side_by_side = parser.value()?.parse()?,
            Long("singleton") => said.work = Work::Singleton,
            Long("default-profile") => said.profile.preset = Preset::Lan,
            Long("one-data-center") => said.profile.preset = Preset::OneDataCenter,
            Long("stable") => said.profile.stable = Some(parser.value()?.parse()?),
            Long("logs") => said.logs = true,
            Long("bind") => said.bind = Some(parser.value()?.string()?),
            Long("seed") => said.seeds.push(parser.value()?.parse()?),
            Long("work") => said.work = parser.value()?.parse()?,
            Long("book") => said.book = Some(parser.value()?.string()?),
            Long("store") => said.store = Some(parser.value()?.into()),
            Short(_) | Long(_) | Value(_) => return Err(argument.unexpected()),
        }
    }
    said.command(verb.as_deref())
}

impl Said {
    fn command(self, verb: Option<&str>) -> Result<Command, lexopt::Error> {
        let (profile, logs) = (self.profile, self.logs);
        let lasting = Duration::from_secs(self.seconds.unwrap_or(60));
        Ok(match verb {
            Some("node") => Command::Node(NodeOptions {
                bind: self.bind.unwrap_or_else(|| "127.0.0.1:0".to_owned()),
                seeds: self.seeds,
                profile,
                logs,
                work: self.work,
                book: self.book,
                store: self.store,
            }),
            Some("splits") => Command::Splits(SplitOptions {
                rows: named(&self.rows, Row::ALL.into())?,
                lasting,
                profile,
                logs,
            }),
            Some("tokens") => Command::Tokens(TokenOptions {
                splits: named(&self.rows, Split::all())?,
                lasting,
                profile,
                logs,
            }),
            Some(verb @ ("kills" | "leaves")) => {
                let leave = verb == "leaves";
                Command::Kills(KillOptions {
                    runs: self.runs.unwrap_or(20),
                    side_by_side: self.side_by_side.max(1),
                    work: if leave { Work::Singleton } else { self.work },
                    leave,
                    profile,
                    logs,
                })
            }
            Some(_) | None => return Err("what to do is `splits`, `kills`, `leaves` or `tokens`".into()),
        })
    }
}

/// The rows of these names, or all.
fn named<R: FromStr<Err = String>>(names: &[String], all: Vec<R>) -> Result<Vec<R>, lexopt::Error> {
    if names.is_empty() {
        return Ok(all);
    }
    let rows: Result<Vec<R>, String> = names.iter().map(|name| name.parse()).collect();
    rows.map_err(Into::into)
}
