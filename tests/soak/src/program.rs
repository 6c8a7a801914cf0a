//! Programs that start five node processes and let things happen to them: their command line, the transports
//! that they run on, and how a process becomes a node. What happens is theirs.

use std::ffi::OsString;
use std::fmt;
use std::io::{BufRead, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_channel::Receiver;
use lexopt::prelude::*;
use quorate_driver::Security;
use quorate_quinn::Quinn;
use quorate_tokio::Tokio;

use crate::stores::{self, State};
use quorate_demo::hosts::{Host, OnSmol, OnTokio};
use quorate_demo::{log, process, trust};

/// Node processes of such a program.
pub(crate) const NODES: usize = 5;
/// What a node's first line begins with.
pub(crate) const READY: &str = "ready ";
/// What the last line of a node begins with that ends because of a mistake or a fault.
pub(crate) const FAILED: &str = "failed: ";
/// What a node's line begins with that says that its store's disk is full: the program ends.
pub(crate) const NO_ROOM: &str = "no room: ";
/// How long a process may take until it is Up.
pub(crate) const START_TIMEOUT: Duration = Duration::from_secs(30);

/// One program.
pub(crate) trait Program {
    /// What its messages begin with.
    const NAME: &'static str;
    /// What `--help` says first.
    const ABOUT: &'static str;
    /// What `--help` says about `--seconds` and the exit code.
    const SECONDS: &'static str;
    /// What it says about `--store`, if the program knows that option.
    const STORE: Option<&'static str> = None;
    /// What it says about `--input`, if the program knows that option.
    const INPUT: Option<&'static str> = None;
    /// What it says about `--postgres`, if the program knows that option.
    const POSTGRES: Option<&'static str> = None;
    /// What it says about `--state`, if the program knows that option.
    const STATE: Option<&'static str> = None;
    /// What it says about `--bytes`, if the program knows that option, and the least, most and usual.
    const BYTES: Option<(&'static str, (usize, usize, usize))> = None;
    /// What it says about `--messages`, if the program knows that option, and the least, most and usual.
    const MESSAGES: Option<(&'static str, (u64, u64, u64))> = None;
    /// Where the tables of the nodes are in a database.
    const SCHEMA: &'static str = "";
    const EXIT: &'static str;
    /// Least, most and usual `--seconds`.
    const RANGE: (u64, u64, u64);

    /// A node process.
    fn node<H: Host>(options: NodeOptions) -> ExitCode;

    /// The program itself.
    fn run(options: &Options, stage: &Stage) -> ExitCode;
}

/// One transport: its name and how a node runs there.
#[derive(Clone, Copy)]
pub(crate) struct Stage {
    pub(crate) name: &'static str,
    pub(crate) has_certificates: bool,
    node: fn(NodeOptions) -> ExitCode,
}

/// What a program can run on; the first is the default.
fn stages<P: Program>() -> [Stage; 5] {
    let plain = |name, node| Stage {
        name,
        has_certificates: false,
        node,
    };
    let with_certificates = |name, node| Stage {
        name,
        has_certificates: true,
        node,
    };
    [
        plain("tokio", P::node::<OnTokio<Tokio>>),
        with_certificates("tokio-tls", P::node::<OnTokio<Tokio>>),
        plain("smol", P::node::<OnSmol>),
        with_certificates("smol-tls", P::node::<OnSmol>),
        with_certificates("quinn", P::node::<OnTokio<Quinn>>),
    ]
}

/// The whole program, arguments and exit code included.
pub(crate) fn main<P: Program>() -> ExitCode {
    let stages = stages::<P>();
    let stage = |name: &str| stages.iter().find(|stage| stage.name == name);
    let refused = |message: &str| {
        eprintln!("{}: {message}", P::NAME);
        ExitCode::from(2)
    };
    match parse::<P>(std::env::args_os().skip(1).collect(), &stages) {
        Err(message) => refused(&message),
        Ok(Command::Help) => {
            print!("{}", help::<P>(&stages));
            ExitCode::SUCCESS
        }
        Ok(Command::Node(options)) => match stage(&options.transport) {
            Some(stage) => {
                log::from_environment();
                (stage.node)(options)
            }
            None => refused("no such transport"),
        },
        Ok(Command::Run(options)) => match stage(&options.transport) {
            Some(stage) => match stores::check::<P>(&options) {
                Ok(()) => P::run(&options, stage),
                Err(cause) => {
                    eprintln!("{}: {}", P::NAME, one_line(&cause));
                    ExitCode::FAILURE
                }
            },
            None => refused("no such transport"),
        },
    }
}

fn help<P: Program>(stages: &[Stage]) -> String {
    let names: Vec<&str> = stages.iter().map(|stage| stage.name).collect();
    let (least, most, usual) = P::RANGE;
    format!(
        "\
{}

Usage: {} [OPTIONS]

Options:
      --seconds N    {}, {least} to {most} (default {usual})
      --transport T  {}: what the nodes talk over (default {})
{}{}{}{}{}{}      --json         end standard output with one line of JSON; everything else goes to standard error
  -h, --help         print this

Exit code: {}, 2 for a
mistake in the options.
",
        P::ABOUT,
        P::NAME,
        P::SECONDS,
        names.join(", "),
        names.first().unwrap_or(&""),
        P::INPUT.map_or_else(String::new, |about| format!("      --input PATH   {about}\n")),
        P::STORE.map_or_else(String::new, |about| format!("      --store DIR    {about}\n")),
        P::POSTGRES.map_or_else(String::new, |about| format!("      --postgres URL {about}\n")),
        P::STATE.map_or_else(String::new, |about| format!("      --state MODE   {about}\n")),
        P::BYTES.map_or_else(String::new, |(about, (least, most, usual))| {
            format!("      --bytes N      {about}, {least} to {most} (default {usual})\n")
        }),
        P::MESSAGES.map_or_else(String::new, |(about, (least, most, usual))| {
            format!("      --messages N   {about}, {least} to {most} (default {usual})\n")
        }),
        P::EXIT,
    )
}

/// What the user wants.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) time: Duration,
    pub(crate) transport: String,
    pub(crate) input: Option<PathBuf>,
    pub(crate) store: Option<PathBuf>,
    pub(crate) postgres: Option<String>,
    pub(crate) state: State,
    /// Of a message; 0 for a program that has no `--bytes`.
    pub(crate) bytes: usize,
    /// 0 for a program that has no `--messages`.
    pub(crate) messages: u64,
    pub(crate) json: bool,
}

/// What one node process is told.
#[derive(Clone, Debug)]
pub(crate) struct NodeOptions {
    pub(crate) transport: String,
    pub(crate) cluster: String,
    /// Which node it is, from 0.
    pub(crate) index: usize,
    /// Which of this node's processes it is, so that no two give out one name.
    pub(crate) life: u64,
    pub(crate) bind: String,
    pub(crate) seed: Option<String>,
    pub(crate) store: Option<PathBuf>,
    pub(crate) state: State,
    pub(crate) bytes: usize,
}

enum Command {
    Help,
    Run(Options),
    Node(NodeOptions),
}

/// The hidden subcommand that makes a process a node.
const NODE: &str = "node-process";
/// Stands for an argument that is not given.
const NOTHING: &str = "-";

impl NodeOptions {
    /// The first node's first process in a cluster of this run alone. Lives are counted from the clock: two
    /// runs with one store give out no name twice.
    pub(crate) fn first(program: &str, stage: &Stage) -> Self {
        let life = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            transport: stage.name.to_owned(),
            cluster: format!("{program}-{}", std::process::id()),
            index: 0,
            life: life.as_secs(),
            bind: "127.0.0.1:0".to_owned(),
            seed: None,
            store: None,
            state: State::default(),
            bytes: 0,
        }
    }

    pub(crate) fn arguments(&self) -> Vec<OsString> {
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
            self.state.name().into(),
            self.bytes.to_string().into(),
        ]
    }

    fn parse(mut words: impl Iterator<Item = OsString>) -> Option<Self> {
        let mut text = || words.next()?.into_string().ok();
        let (transport, cluster) = (text()?, text()?);
        let (index, life) = (text()?.parse().ok()?, text()?.parse().ok()?);
        let (bind, seed) = (text()?, text()?);
        let store = words.next()?;
        let state = State::named(words.next()?.to_str()?)?;
        let bytes = words.next()?.to_str()?.parse().ok()?;
        Some(Self {
            transport,
            cluster,
            index,
            life,
            bind,
            seed: (seed != NOTHING).then_some(seed),
            store: (store != NOTHING).then(|| PathBuf::from(store)),
            state,
            bytes,
        })
    }
}

/// Reads the arguments, the program's name left out.
fn parse<P: Program>(arguments: Vec<OsString>, stages: &[Stage]) -> Result<Command, String> {
    if arguments.first().is_some_and(|first| first == NODE) {
        let node = NodeOptions::parse(arguments.into_iter().skip(1));
        return node
            .map(Command::Node)
            .ok_or_else(|| format!("`{NODE}` is for the program's own use"));
    }
    let (least, most, usual) = P::RANGE;
    let mut options = Options {
        time: Duration::from_secs(usual),
        transport: stages
            .first()
            .map_or_else(String::new, |stage| stage.name.to_owned()),
        input: None,
        store: None,
        postgres: None,
        state: State::default(),
        bytes: P::BYTES.map_or(0, |(_, (_, _, usual))| usual),
        messages: P::MESSAGES.map_or(0, |(_, (_, _, usual))| usual),
        json: false,
    };
    let mut parser = lexopt::Parser::from_args(arguments);
    while let Some(argument) = parser.next().map_err(|error| error.to_string())? {
        match argument {
            Long("seconds") => {
                let seconds: u64 = parsed(&mut parser)?;
                if !(least..=most).contains(&seconds) {
                    return Err(format!("--seconds takes {least} to {most}"));
                }
                options.time = Duration::from_secs(seconds);
            }
            Long("transport") => {
                let name: String = parsed(&mut parser)?;
                if stages.iter().all(|stage| stage.name != name) {
                    return Err(format!("no transport `{name}`; see --help"));
                }
                options.transport = name;
            }
            Long("input") if P::INPUT.is_some() => options.input = Some(path(&mut parser)?),
            Long("store") if P::STORE.is_some() => options.store = Some(path(&mut parser)?),
            Long("postgres") if P::POSTGRES.is_some() => options.postgres = Some(parsed(&mut parser)?),
            Long("state") if P::STATE.is_some() => {
                let name: String = parsed(&mut parser)?;
                let state = State::named(&name);
                options.state = state.ok_or_else(|| format!("no state mode `{name}`; see --help"))?;
            }
            Long("bytes") if P::BYTES.is_some() => {
                let (least, most, _) = P::BYTES.map_or((0, 0, 0), |(_, range)| range);
                options.bytes = parsed(&mut parser)?;
                if !(least..=most).contains(&options.bytes) {
                    return Err(format!("--bytes takes {least} to {most}"));
                }
            }
            Long("messages") if P::MESSAGES.is_some() => {
                let (least, most, _) = P::MESSAGES.map_or((0, 0, 0), |(_, range)| range);
                options.messages = parsed(&mut parser)?;
                if !(least..=most).contains(&options.messages) {
                    return Err(format!("--messages takes {least} to {most}"));
                }
            }
            Long("json") => options.json = true,
            Short('h') | Long("help") => return Ok(Command::Help),
            Short(_) | Long(_) | Value(_) => return Err(argument.unexpected().to_string()),
        }
    }
    options.check()?;
    Ok(Command::Run(options))
}

impl Options {
    /// Whether what was said goes together.
    fn check(&self) -> Result<(), String> {
        let empty = |name: &str| Err(format!("--{name} is empty"));
        match (&self.store, &self.postgres) {
            (Some(_), Some(_)) => Err("--store and --postgres are two places; say one".to_owned()),
            (Some(store), None) if store.as_os_str().is_empty() => empty("store"),
            (None, Some(server)) if server.is_empty() => empty("postgres"),
            (Some(_), None) | (None, Some(_) | None) => Ok(()),
        }
    }
}

fn path(parser: &mut lexopt::Parser) -> Result<PathBuf, String> {
    let value = parser.value().map_err(|error| error.to_string())?;
    Ok(value.into())
}

fn parsed<T: std::str::FromStr>(parser: &mut lexopt::Parser) -> Result<T, String>
where
    T::Err: std::error::Error + Send + Sync + 'static,
{
    let value = parser.value().map_err(|error| error.to_string())?;
    value.parse().map_err(|error: lexopt::Error| error.to_string())
}

/// What went wrong, however many lines a library has made of it.
pub(crate) fn one_line(error: &dyn fmt::Display) -> String {
    let text = error.to_string();
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    lines.join(" ")
}

/// Tells the parent. It ends this process when it goes away, so nobody minds a line that is lost.
pub(crate) fn say(line: fmt::Arguments<'_>) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}");
    let _ = out.flush();
}

/// In a node process: runs the node until the parent ends, or the node does. What the parent says comes line
/// by line.
pub(crate) fn node_process<H: Host, E: fmt::Display, F: Future<Output = Result<(), E>>>(
    node: impl FnOnce(Security, Receiver<String>) -> F,
) -> ExitCode {
    let failed = |error: &dyn fmt::Display| {
        say(format_args!("{FAILED}{}", one_line(error)));
        ExitCode::FAILURE
    };
    let security = match process::introduction().map(|told| trust::introduced(&told)) {
        Ok(Ok(security)) => security,
        Ok(Err(error)) => return failed(&error),
        Err(error) => return failed(&error),
    };
    let (sender, orders) = async_channel::unbounded();
    let listen = move || {
        let mut line = String::new();
        let mut stdin = std::io::stdin().lock();
        while matches!(stdin.read_line(&mut line), Ok(1..)) {
            // Fails only while the process ends.
            let _ = sender.try_send(std::mem::take(&mut line).trim().to_owned());
        }
        std::process::exit(0);
    };
    let named = std::thread::Builder::new().name("parent-watch".into());
    if let Err(error) = named.spawn(listen) {
        return failed(&error);
    }
    match H::block_on(node(security, orders)) {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(error)) => failed(&error),
        Err(error) => failed(&error),
    }
}
