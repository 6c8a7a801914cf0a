//! The node processes of one cluster: started, stopped, killed, and heard. Dropping it ends them all.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::ledger::{self, Answer, Ledger, Unanswered};
use crate::node::{PATIENCE, micros};
use crate::options::Profile;
use crate::work::Work;

/// How often a condition is looked at.
const LOOK: Duration = Duration::from_millis(20);
/// How long nodes that were started may take to be Up before it is looked whether one has ended again.
const SETTLE: Duration = Duration::from_secs(15);
/// When a question must have ended: its patience, and what a busy machine takes to say so.
const GRACE: Duration = PATIENCE.saturating_add(Duration::from_secs(2));

/// What a process has said of itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct Said {
    /// Members that are Up, members at all, and unreachable ones.
    pub(crate) members: (usize, usize, usize),
    /// How its node ended.
    pub(crate) ended: Option<String>,
    /// Its latest events.
    events: Vec<String>,
}

/// What a node's process has asked.
#[derive(Clone, Debug, Default)]
struct Asks {
    /// Which of the node's processes it is.
    life: u64,
    /// Questions that have not ended, by entity and number: when they were asked.
    open: BTreeMap<(u32, u64), u64>,
}

/// What all processes have said.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    pub(crate) ledger: Ledger,
    pub(crate) said: Vec<Said>,
    /// Of each node.
    asks: Vec<Asks>,
    /// Questions at all.
    pub(crate) asked: u64,
}

#[derive(Debug)]
struct Running {
    child: Child,
    /// When it ended (microseconds), once it was seen.
    ended: Option<u64>,
}

/// Where and how the nodes run.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    pub(crate) addresses: Vec<String>,
    /// What each program is started with.
    pub(crate) prefixes: Vec<Vec<OsString>>,
    /// The node that forms the cluster.
    pub(crate) first: usize,
    pub(crate) profile: Profile,
    pub(crate) logs: bool,
    pub(crate) work: Work,
    /// The database of the book, and the folder of the nodes' own stores.
    pub(crate) book: Option<(String, PathBuf)>,
}

#[derive(Debug)]
pub(crate) struct Nodes {
    layout: Layout,
    running: Vec<Option<Running>>,
    heard: Arc<Mutex<Heard>>,
}

impl Nodes {
    /// Starts all nodes and waits until all see all of them Up and all entities have answered all of them.
    pub(crate) fn start(layout: Layout) -> Result<Self, String> {
        let count = layout.addresses.len();
        let mut heard = Heard {
            said: vec![Said::default(); count],
            asks: vec![Asks::default(); count],
            ..Heard::default()
        };
        heard.ledger.entities = layout.work.entities();
        let mut nodes = Self {
            layout,
            running: (0..count).map(|_| None).collect(),
            heard: Arc::new(Mutex::new(heard)),
        };
        nodes.launch(nodes.layout.first)?;
        for node in 0..count {
            if nodes.running[node].is_none() {
                nodes.launch(node)?;
            }
        }
        nodes.settle(Duration::from_secs(120))?;
        Ok(nodes)
    }

    pub(crate) fn count(&self) -> usize {
        self.running.len()
    }

    pub(crate) fn address(&self, node: usize) -> &str {
        &self.layout.addresses[node]
    }

    pub(crate) fn heard(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a process on a node's address; what an earlier one said of itself is forgotten.
    pub(crate) fn launch(&mut self, node: usize) -> Result<(), String> {
        let me = std::env::current_exe().map_err(|error| error.to_string())?;
        let mut words = self.layout.prefixes[node].clone();
        words.push(me.into());
        words.extend(["node", "--bind", self.address(node)].map(OsString::from));
        let first = self.layout.first;
        let seeds = (0..self.count()).filter(|seed| *seed != first);
        for seed in std::iter::once(first).chain(seeds) {
            words.extend(["--seed", self.address(seed)].map(OsString::from));
        }
        words.extend(["--work", self.layout.work.name()].map(OsString::from));
        if let Some((server, folder)) = &self.layout.book {
            words.extend(["--book", server, "--store"].map(OsString::from));
            words.push(folder.join(format!("node-{}.redb", node + 1)).into());
        }
        words.extend(self.layout.profile.words().into_iter().map(OsString::from));
        if self.layout.logs {
            words.push("--logs".into());
        }
        let mut child = Command::new(&words[0])
            .args(&words[1..])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{words:?}: {error}"))?;
        let Some(output) = child.stdout.take() else {
            return Err("a child without output".to_owned());
        };
        let life = self.heard().forget(node);
        let heard = Arc::clone(&self.heard);
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                heard
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .take(node, life, &line);
            }
        });
        self.running[node] = Some(Running { child, ended: None });
        Ok(())
    }

    /// Sends a process a signal.
    pub(crate) fn signal(&self, node: usize, name: &str) -> Result<(), String> {
        let Some(running) = &self.running[node] else {
            return Err(format!("node {} does not run", node + 1));
        };
        let pid = running.child.id().to_string();
        let status = Command::new("kill").args([&format!("-{name}"), &pid]).status();
        match status {
            Ok(status) if status.success() => Ok(()),
            other => Err(format!("kill -{name} {pid}: {other:?}")),
        }
    }

    /// Kills a process (SIGKILL) and collects it.
    pub(crate) fn kill(&mut self, node: usize) {
        if let Some(mut running) = self.running[node].take() {
            let _ = running.child.kill();
            let _ = running.child.wait();
            self.heard().forget(node);
        }
    }

    /// Questions of the processes that run which should have ended and have not, with an answer or an error.
    pub(crate) fn lost(&self) -> usize {
        let before = micros().saturating_sub(u64::try_from(GRACE.as_micros()).unwrap_or(u64::MAX));
        let heard = self.heard();
        let open = heard.asks.iter().flat_map(|asks| asks.open.values());
        open.filter(|asked| **asked < before).count()
    }

    /// When a process ended by itself, if it has.
    pub(crate) fn ended(&mut self, node: usize) -> Option<u64> {
        let running = self.running[node].as_mut()?;
        if running.ended.is_none() && !matches!(running.child.try_wait(), Ok(None)) {
            running.ended = Some(micros());
        }
        running.ended
    }

    /// The processes that have ended by themselves.
    pub(crate) fn all_ended(&mut self) -> Vec<usize> {
        (0..self.count())
            .filter(|node| self.ended(*node).is_some())
            .collect()
    }

    /// Waits until something holds; `false` if it does not within `limit`.
    pub(crate) fn wait(&mut self, limit: Duration, mut holds: impl FnMut(&mut Self) -> bool) -> bool {
        let deadline = Instant::now() + limit;
        while !holds(self) {
            if Instant::now() >= deadline {
                return false;
            }
            thread::sleep(LOOK);
        }
        true
    }

    /// Whether every one of these nodes has had an answer of every entity to a question it asked after
    /// `since`.
    pub(crate) fn are_served(&self, nodes: &[usize], since: u64) -> bool {
        let mut answered = vec![vec![false; self.layout.work.entities() as usize]; self.count()];
        let heard = self.heard();
        // The latest answers are at the end.
        let fresh = heard
            .ledger
            .answers
            .iter()
            .rev()
            .take_while(|answer| answer.came > since);
        for answer in fresh.filter(|answer| answer.asked > since) {
            answered[answer.asker][answer.entity as usize] = true;
        }
        nodes.iter().all(|node| answered[*node].iter().all(|had| *had))
    }

    /// Waits until everybody sees everybody Up and has an answer of every entity.
    pub(crate) fn settle(&mut self, limit: Duration) -> Result<(), String> {
        let count = self.count();
        let all_up = |nodes: &mut Self| {
            nodes
                .heard()
                .said
                .iter()
                .all(|said| said.members == (count, count, 0))
        };
        if !self.wait(limit, all_up) {
            return Err(format!("not all {count} nodes are up: {}", self.describe()));
        }
        let (since, everybody) = (micros(), (0..count).collect::<Vec<_>>());
        if !self.wait(limit, |nodes| nodes.are_served(&everybody, since)) {
            return Err(format!("not everybody is served: {}", self.describe()));
        }
        Ok(())
    }

    /// Starts whatever has ended, until everybody is Up and served.
    pub(crate) fn restore(&mut self, limit: Duration) -> Result<(), String> {
        let end = Instant::now() + limit;
        loop {
            for node in self.all_ended() {
                self.launch(node)?;
            }
            match self.settle(SETTLE) {
                Ok(()) => return Ok(()),
                Err(error) if Instant::now() >= end => return Err(error),
                Err(_) => {}
            }
        }
    }

    /// What each process said last.
    pub(crate) fn describe(&mut self) -> String {
        let ended = self.all_ended();
        let heard = self.heard();
        let mut text = String::new();
        for (node, said) in heard.said.iter().enumerate() {
            let (up, all, unreachable) = said.members;
            let how = said.ended.as_deref().unwrap_or("");
            let state = if ended.contains(&node) { "ended" } else { "runs" };
            text += &format!(
                "\n  node {} {state} {how}: {up} up of {all}, {unreachable} unreachable",
                node + 1
            );
            for event in said.events.iter().rev().take(8).rev() {
                text += &format!("\n      {}", &event[..event.len().min(300)]);
            }
        }
        text
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        for node in 0..self.count() {
            self.kill(node);
        }
    }
}

impl Heard {
    /// Whatever a process of this node has said of itself, and asked. Says which process the next one is.
    fn forget(&mut self, node: usize) -> u64 {
        self.said[node] = Said::default();
        let life = self.asks[node].life + 1;
        self.asks[node] = Asks {
            life,
            ..Asks::default()
        };
        life
    }

    fn take(&mut self, node: usize, life: u64, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        if let ["answer" | "mistaken" | "unanswered", entity, question, ..] = words[..]
            && let (Ok(entity), Ok(question)) = (entity.parse(), question.parse())
        {
            self.asks[node].open.remove(&(entity, question));
        }
        match words[..] {
            ["asked", entity, question, at] => {
                self.asked += 1;
                let number = |word: &str| word.parse::<u64>().ok();
                if let (Ok(entity), Some(question), Some(at)) = (entity.parse(), number(question), number(at))
                    && self.asks[node].life == life
                {
                    self.asks[node].open.insert((entity, question), at);
                }
            }
            ["answer", ref answer @ ..] => self.ledger.answers.extend(Answer::parse(node, answer)),
            ["mistaken", ..] => self.ledger.mistaken += 1,
            ["unanswered", _, _, ref reason @ ..] => {
                self.ledger.unanswered.push(Unanswered {
                    asker: node,
                    at: micros(),
                    reason: reason.join(" "),
                });
            }
            ["opened", token, last, instance] => {
                let opened = ledger::token(token).zip(last.parse().ok());
                let opened = opened.map(|(token, last)| (token, last, instance.to_owned()));
                self.ledger.opened.extend(opened);
            }
            ["refused", ..] => self.ledger.refused += 1,
            ["members", up, all, unreachable] => {
                let number = |word: &str| word.parse().unwrap_or(usize::MAX);
                self.said[node].members = (number(up), number(all), number(unreachable));
            }
            ["ended", ..] => self.said[node].ended = Some(line.to_owned()),
            _ => self.said[node]
                .events
                .push(format!("{} {line}", micros() / 1000 % 1_000_000)),
        }
    }
}
