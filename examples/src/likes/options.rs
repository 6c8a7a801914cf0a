//! The command line of `likes`. Decides nothing but what the words mean.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use lexopt::prelude::*;

use super::Stage;

/// Shortest run in which everything that is to happen has its time.
const SECONDS_MIN: u64 = 10;
/// Longest run: the followers of processes that were killed stay, and a set has a size.
const SECONDS_MAX: u64 = 600;
const SECONDS_DEFAULT: u64 = 30;

/// What `--help` prints.
pub(super) fn help(stages: &[Stage]) -> String {
    let names: Vec<&str> = stages.iter().map(|stage| stage.name).collect();
    format!(
        "\
Five node processes count likes and keep followers, each on its own; one stands still for a while, one is cut off, one is
killed and started again. At the end all replicas must be equal to the byte and hold every update that was acknowledged.

Usage: likes [OPTIONS]

Options:
      --seconds N    how long they write, {SECONDS_MIN} to {SECONDS_MAX} (default {SECONDS_DEFAULT})
      --transport T  {}: what the nodes talk over (default {})
      --store DIR    keep the data in files in this folder. At the end all nodes are killed at once and started again, and a
                     further run with the same folder goes on from there
      --json         end standard output with one line of JSON; everything else goes to standard error
  -h, --help         print this

Exit code: 0 if all replicas are equal, nothing that was acknowledged is missing and the sums are exact, 1 if not, 2 for a
mistake in the options.
",
        names.join(", "),
        names.first().unwrap_or(&"")
    )
}

/// What the user wants.
#[derive(Clone, Debug)]
pub(super) struct Options {
    pub(super) writing: Duration,
    pub(super) transport: String,
    pub(super) store: Option<PathBuf>,
    pub(super) json: bool,
}

/// What one node process is told.
#[derive(Clone, Debug)]
pub(super) struct NodeOptions {
    pub(super) transport: String,
    pub(super) cluster: String,
    /// Which node it is, from 0.
    pub(super) index: usize,
    /// Which of this node's processes it is, so that no two give out one name.
    pub(super) life: u64,
    pub(super) bind: String,
    pub(super) seed: Option<String>,
    pub(super) store: Option<PathBuf>,
}

/// What this process is to do.
pub(super) enum Command {
    Help,
    Run(Options),
    Node(NodeOptions),
}

/// The hidden subcommand that makes a process a node.
const NODE: &str = "node-process";
/// Stands for an argument that is not given.
const NOTHING: &str = "-";

impl NodeOptions {
    pub(super) fn arguments(&self) -> Vec<OsString> {
        let seed = self.seed.clone().unwrap_or_else(|| NOTHING.to_owned());
        let store = self
            .store
            .clone()
            .map_or_else(|| NOTHING.into(), PathBuf::into_os_string);
        vec![
            NODE.into(),
            self.transport.clone().into(),
            self.cluster.clone().into(),
            self.index.to_string().into(),
            self.life.to_string().into(),
            self.bind.clone().into(),
            seed.into(),
            store,
        ]
    }

    fn parse(mut words: impl Iterator<Item = OsString>) -> Option<Self> {
        let mut text = || words.next()?.into_string().ok();
        let (transport, cluster) = (text()?, text()?);
        let (index, life) = (text()?.parse().ok()?, text()?.parse().ok()?);
        let (bind, seed) = (text()?, text()?);
        let store = words.next()?;
        Some(Self {
            transport,
            cluster,
            index,
            life,
            bind,
            seed: (seed != NOTHING).then_some(seed),
            store: (store != NOTHING).then(|| PathBuf::from(store)),
        })
    }
}

/// Reads the arguments, the program's name left out.
pub(super) fn parse(arguments: Vec<OsString>, stages: &[Stage]) -> Result<Command, String> {
    if arguments.first().is_some_and(|first| first == NODE) {
        let node = NodeOptions::parse(arguments.into_iter().skip(1));
        return node
            .map(Command::Node)
            .ok_or_else(|| format!("`{NODE}` is for the program's own use"));
    }
    let mut options = Options {
        writing: Duration::from_secs(SECONDS_DEFAULT),
        transport: stages
            .first()
            .map_or_else(String::new, |stage| stage.name.to_owned()),
        store: None,
        json: false,
    };
    let mut parser = lexopt::Parser::from_args(arguments);
    while let Some(argument) = parser.next().map_err(|error| error.to_string())? {
        match argument {
            Long("seconds") => {
                let seconds: u64 = parsed(&mut parser)?;
                if !(SECONDS_MIN..=SECONDS_MAX).contains(&seconds) {
                    return Err(format!("--seconds takes {SECONDS_MIN} to {SECONDS_MAX}"));
                }
                options.writing = Duration::from_secs(seconds);
            }
            Long("transport") => {
                let name: String = parsed(&mut parser)?;
                if stages.iter().all(|stage| stage.name != name) {
                    return Err(format!("no transport `{name}`; see --help"));
                }
                options.transport = name;
            }
            Long("store") => options.store = Some(parser.value().map_err(|error| error.to_string())?.into()),
            Long("json") => options.json = true,
            Short('h') | Long("help") => return Ok(Command::Help),
            Short(_) | Long(_) | Value(_) => return Err(argument.unexpected().to_string()),
        }
    }
    Ok(Command::Run(options))
}

fn parsed<T: std::str::FromStr>(parser: &mut lexopt::Parser) -> Result<T, String>
where
    T::Err: std::error::Error + Send + Sync + 'static,
{
    let value = parser.value().map_err(|error| error.to_string())?;
    value.parse().map_err(|error: lexopt::Error| error.to_string())
}
