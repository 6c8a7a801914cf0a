//! A rolling restart as a deployment does it: processes with the documented timings, asks and one-way
//! messages all the time, and one process after the other gets SIGTERM and is started again at once at the
//! same address. Says how long each needed, how many asks failed, how long the slowest waited, and whether
//! each one-way message was handled once and in its order. With `--kill` processes are killed instead, and
//! every ask that failed is compared with what entities really handled. Exit code 0 if it stayed within what
//! is promised, 1 if it did not, 2 for bad options. `cargo run --release -p quorate-soak --bin rolling`
#![forbid(unsafe_code)]

mod node;
mod said;
mod told;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::BufRead;
use std::net::TcpListener;
use std::process::{Command, ExitCode};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use lexopt::prelude::*;
use quorate_demo::hosts::{Host, OnSmol, OnTokio};
use quorate_demo::process::ChildProcess;
use quorate_demo::trust::Authority;
use quorate_quinn::Quinn;
use quorate_tokio::Tokio;
use said::{Failed, Said, understood};
use told::Told;

const HELP: &str = "\
Restarts nodes one after the other while they are asked, and measures.

Usage: rolling [OPTIONS]

Options:
      --nodes N         how many (2 to 16, default 3)
      --rate N          asks per second, of all nodes together (default 200)
      --tells N         one-way messages per second, of all nodes together (default 0)
      --timeout SECONDS how long an ask may wait (default 5); longer than a fail-over takes, and those to a killed node wait for
                        the next home
      --rounds N        how often each node is restarted (default 1)
      --pause SECONDS   from a node's return to the next restart (default 5)
      --together N      so many nodes are restarted at the same time (default 1)
      --transport NAME  tokio (default), tokio-tls, smol, smol-tls or quinn; the latter four with certificates of this run,
                        except smol
      --kill            nodes are killed (SIGKILL) instead of told to end: asks fail then, and no error may say that an ask
                        was not handled that was; one-way messages to a killed node are gone, the others keep their order
      --stubborn        the restarted node has an entity whose handler runs on for longer than the node waits: the others
                        must keep the removal margin then, and its figures are not held to the promise
      --logs            what the nodes log, on standard error
  -h, --help            print this
";

/// How many nodes there may be.
const NODES: std::ops::RangeInclusive<usize> = 2..=16;
/// How long the slowest ask may wait.
const WAIT_MAX: Duration = Duration::from_secs(1);
/// How long a restarted node of up to three may need to be Up, from its start; among more its news needs more
/// rounds of gossip, of a second each.
const UP_MAX: Duration = Duration::from_secs(3);
const UP_MAX_OF_MANY: Duration = Duration::from_secs(5);
/// How long a one-way message may be on its way at the end of a run.
const ON_THE_WAY_MAX: Duration = Duration::from_secs(10);
/// When the program gives up waiting for a node.
const LIMIT: Duration = Duration::from_secs(60);

#[derive(Clone, Debug)]
struct Options {
    nodes: usize,
    rate: u64,
    tells: u64,
    timeout: u64,
    rounds: usize,
    pause: Duration,
    together: usize,
    transport: Transport,
    kill: bool,
    stubborn: bool,
    logs: bool,
}

/// How a node process runs.
type NodeMain = fn(Vec<OsString>) -> Result<(), node::Failure>;

/// What nodes run on.
#[derive(Clone, Copy, Debug)]
struct Transport {
    name: &'static str,
    has_certificates: bool,
    node: NodeMain,
}

const TRANSPORTS: [Transport; 5] = [
    transport::<OnTokio<Tokio>>("tokio", false),
    transport::<OnTokio<Tokio>>("tokio-tls", true),
    transport::<OnSmol>("smol", false),
    transport::<OnSmol>("smol-tls", true),
    transport::<OnTokio<Quinn>>("quinn", true),
];

const fn transport<H: Host>(name: &'static str, has_certificates: bool) -> Transport {
    let node = node::run::<H>;
    Transport {
        name,
        has_certificates,
        node,
    }
}

fn transport_named(name: &str) -> Result<Transport, String> {
    let found = TRANSPORTS.into_iter().find(|transport| transport.name == name);
    found.ok_or_else(|| format!("no transport `{name}`"))
}

/// What has been seen so far.
#[derive(Default)]
struct Tally {
    answered: u64,
    failed: u64,
    slowest: Duration,
    failures: BTreeMap<String, u64>,
    /// How often each ask was handled.
    handled: BTreeMap<u64, u32>,
    /// Asks of which an error said that they were not handled.
    denied: Vec<u64>,
    told: Told,
    /// Nodes that were Up in a cluster of their own.
    alone: usize,
}

impl Tally {
    /// How many asks were handled of which an error said that they were not, and how many were handled twice.
    fn untruths(&self) -> (usize, usize) {
        let was_handled = |ask: &&u64| self.handled.contains_key(ask);
        let twice = self.handled.values().filter(|times| **times > 1).count();
        (self.denied.iter().filter(was_handled).count(), twice)
    }

    fn take(&mut self, took: Duration, failure: Option<Failed>) {
        match failure {
            None => {
                self.answered += 1;
                self.slowest = self.slowest.max(took);
            }
            Some(failed) => {
                self.failed += 1;
                *self.failures.entry(failed.reason).or_default() += 1;
                self.denied
                    .extend((!failed.may_have_been_handled).then_some(failed.ask));
            }
        }
    }
}

struct Nodes {
    options: Options,
    authority: Authority,
    /// Processes started so far.
    lives: u64,
    addresses: Vec<String>,
    running: Vec<Option<ChildProcess>>,
    /// Processes that have left and still run a handler.
    stubborn: Vec<ChildProcess>,
    said: Receiver<(usize, Said)>,
    say: Sender<(usize, Said)>,
    tally: Tally,
    /// What happened to which node and when, not looked at yet.
    news: Vec<(usize, Instant, bool)>,
}

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|word| word == "node") {
        let name = arguments.next().and_then(|word| word.into_string().ok());
        let run = |transport: Transport| (transport.node)(arguments.collect());
        return match transport_named(&name.unwrap_or_default())
            .map_err(Into::into)
            .and_then(run)
        {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("rolling node: {error}");
                ExitCode::FAILURE
            }
        };
    }
    let options = match parse() {
        Ok(Some(options)) => options,
        Ok(None) => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("rolling: {error}; try --help");
            return ExitCode::from(2);
        }
    };
    match restart_all(options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("rolling: {error}");
            ExitCode::FAILURE
        }
    }
}

fn parse() -> Result<Option<Options>, lexopt::Error> {
    let mut options = Options {
        nodes: 3,
        rate: 200,
        tells: 0,
        timeout: 5,
        rounds: 1,
        pause: Duration::from_secs(5),
        together: 1,
        transport: TRANSPORTS[0],
        kill: false,
        stubborn: false,
        logs: false,
    };
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Short('h') | Long("help") => return Ok(None),
            Long("rate") => options.rate = parser.value()?.parse()?,
            Long("nodes") => options.nodes = parser.value()?.parse()?,
            Long("tells") => options.tells = parser.value()?.parse()?,
            Long("timeout") => options.timeout = parser.value()?.parse()?,
            Long("rounds") => options.rounds = parser.value()?.parse()?,
            Long("pause") => options.pause = Duration::from_secs(parser.value()?.parse()?),
            Long("together") => options.together = parser.value()?.parse()?,
            Long("transport") => options.transport = transport_named(&parser.value()?.string()?)?,
            Long("kill") => options.kill = true,
            Long("stubborn") => options.stubborn = true,
            Long("logs") => options.logs = true,
            Short(_) | Long(_) | Value(_) => return Err(argument.unexpected()),
        }
    }
    if !NODES.contains(&options.nodes) {
        return Err(format!("--nodes is from {} to {}", NODES.start(), NODES.end()).into());
    }
    if !(1..=options.nodes).contains(&options.together) || options.rate == 0 {
        return Err(format!("--together is from 1 to {}, --rate at least 1", options.nodes).into());
    }
    Ok(Some(options))
}

fn restart_all(options: Options) -> Result<bool, String> {
    let mut nodes = Nodes::new(options.clone())?;
    for node in 0..options.nodes {
        nodes.start(node)?;
    }
    for node in 0..options.nodes {
        nodes.wait_for(node, true)?;
    }
    // Until the shards are spread: a rebalance is another matter.
    nodes.listen(Duration::from_secs(35));
    println!("{} asks answered before the first restart", nodes.tally.answered);
    nodes.tally = Tally::default();
    let mut is_kept = true;
    for round in 0..options.rounds {
        for first in (0..options.nodes).step_by(options.together) {
            let restarted: Vec<usize> = (first..options.nodes.min(first + options.together)).collect();
            is_kept &= nodes.restart(round, &restarted)?;
            nodes.listen(options.pause);
        }
    }
    let told = nodes.judge_told();
    let tally = &nodes.tally;
    println!(
        "{} asks answered, {} failed {:?}, the slowest waited {:.3} s",
        tally.answered,
        tally.failed,
        tally.failures,
        tally.slowest.as_secs_f64()
    );
    let (untrue, twice) = tally.untruths();
    println!("{untrue} asks were handled that were said not to be, {twice} were handled twice");
    println!(
        "{} one-way messages sent, {} refused, {} missing, {} handled twice, {} overtaken",
        told.sent, tally.told.refused, told.missing, told.doubled, told.overtaken
    );
    if tally.alone > 0 {
        println!("{} nodes formed a cluster of their own", tally.alone);
    }
    let is_in_order = (told.doubled, told.overtaken) == (0, 0) && (told.missing == 0 || options.kill);
    let is_fast = tally.failed == 0 && tally.slowest < WAIT_MAX;
    Ok(is_kept && tally.alone == 0 && is_in_order && (is_fast || options.kill) && (untrue, twice) == (0, 0))
}

impl Nodes {
    fn new(options: Options) -> Result<Self, String> {
        let free = |_| {
            let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
            port.map(|address| address.to_string())
        };
        let addresses: Result<Vec<String>, _> = (0..options.nodes).map(free).collect();
        let (say, said) = channel();
        let authority =
            Authority::new(options.transport.has_certificates).map_err(|error| error.to_string())?;
        Ok(Self {
            authority,
            lives: 0,
            addresses: addresses.map_err(|error| error.to_string())?,
            running: (0..options.nodes).map(|_| None).collect(),
            options,
            stubborn: Vec::new(),
            said,
            say,
            tally: Tally::default(),
            news: Vec::new(),
        })
    }

    fn start(&mut self, node: usize) -> Result<(), String> {
        self.lives += 1;
        let life = self.lives.to_string();
        let words = [
            "node",
            self.options.transport.name,
            "--bind",
            &self.addresses[node],
            "--life",
            &life,
        ];
        let mut words: Vec<OsString> = words.map(OsString::from).into();
        for seed in &self.addresses {
            words.extend(["--seed", seed].map(OsString::from));
        }
        let micros_between = |rate: u64| 1_000_000 * self.options.nodes as u64 / rate;
        words.extend([
            "--pace".into(),
            micros_between(self.options.rate).to_string().into(),
        ]);
        words.extend(["--timeout".into(), self.options.timeout.to_string().into()]);
        if self.options.tells > 0 {
            words.extend([
                "--tells".into(),
                micros_between(self.options.tells).to_string().into(),
            ]);
        }
        if self.options.stubborn {
            words.push("--stubborn".into());
        }
        if self.options.logs {
            words.push("--logs".into());
        }
        let introduction = self.authority.introduction().map_err(|error| error.to_string())?;
        let mut child =
            ChildProcess::start_introduced(words, &introduction).map_err(|error| error.to_string())?;
        let output = child.output().ok_or("a child without output")?;
        let (say, is_stubborn) = (self.say.clone(), self.options.stubborn);
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if is_stubborn && line == "left" {
                    break;
                }
                if let Some(said) = understood(&line)
                    && say.send((node, said)).is_err()
                {
                    return;
                }
            }
            let _ = say.send((node, Said::Ended));
        });
        let before = self.running[node].replace(child);
        self.stubborn.extend(before.filter(|_| self.options.stubborn));
        Ok(())
    }

    /// Counts what the nodes say until `limit` has passed, or a node has news.
    fn hear(&mut self, limit: Duration) -> bool {
        match self.said.recv_timeout(limit) {
            Ok((_, Said::Asked(took, failure))) => self.tally.take(took, failure),
            Ok((_, Said::Handled(ask))) => *self.tally.handled.entry(ask).or_default() += 1,
            Ok((_, Said::Sent(course, number))) => self.tally.told.sent(course, number),
            Ok((_, Said::Refused)) => self.tally.told.refused += 1,
            Ok((_, Said::Told(course, number, at))) => self.tally.told.handled(course, number, at),
            Ok((node, Said::Up(members))) => {
                self.tally.alone += usize::from(members == 1);
                self.news.push((node, Instant::now(), true));
            }
            Ok((node, Said::Ended)) => self.news.push((node, Instant::now(), false)),
            Err(_) => return false,
        }
        true
    }

    fn listen(&mut self, time: Duration) {
        let end = Instant::now() + time;
        while let Some(left) = end.checked_duration_since(Instant::now()) {
            self.hear(left);
        }
    }

    /// What is wrong with the one-way messages that were taken before now, once those on their way have
    /// arrived.
    fn judge_told(&mut self) -> told::Verdict {
        self.tally.told.seal();
        self.listen(ON_THE_WAY_MAX);
        self.tally.told.judge()
    }

    /// Waits until a node is Up, or has ended.
    fn wait_for(&mut self, node: usize, is_up: bool) -> Result<Instant, String> {
        let end = Instant::now() + LIMIT;
        loop {
            let found = self
                .news
                .iter()
                .position(|news| (news.0, news.2) == (node, is_up));
            if let Some(at) = found {
                return Ok(self.news.remove(at).1);
            }
            let left = end.checked_duration_since(Instant::now());
            let left = left.ok_or_else(|| format!("node {} says nothing", node + 1))?;
            self.hear(left);
        }
    }

    /// Ends these nodes with SIGTERM, or SIGKILL, and starts each again as soon as it has ended.
    fn restart(&mut self, round: usize, nodes: &[usize]) -> Result<bool, String> {
        let begun = Instant::now();
        for node in nodes {
            let child = self.running[*node].as_ref().ok_or("a node that does not run")?;
            let pid = child.id().to_string();
            let signal = if self.options.kill { "-KILL" } else { "-TERM" };
            let status = Command::new("kill").args([signal, &pid]).status();
            status.map_err(|error| error.to_string())?;
        }
        let mut started = Vec::new();
        for node in nodes {
            self.wait_for(*node, false)?;
            let ended = begun.elapsed();
            self.start(*node)?;
            started.push((*node, ended, Instant::now()));
        }
        let mut is_kept = true;
        let up_max = if self.options.nodes > 3 {
            UP_MAX_OF_MANY
        } else {
            UP_MAX
        };
        for (node, ended, start) in started {
            let up = self.wait_for(node, true)?.duration_since(start);
            println!(
                "round {}, node {}: ended {:.2} s after the signal, Up {:.2} s after its start; so far {} answered, {} failed, \
                 slowest {:.3} s",
                round + 1,
                node + 1,
                ended.as_secs_f64(),
                up.as_secs_f64(),
                self.tally.answered,
                self.tally.failed,
                self.tally.slowest.as_secs_f64()
            );
            is_kept &= up < up_max || self.options.stubborn || self.options.kill;
        }
        Ok(is_kept)
    }
}
