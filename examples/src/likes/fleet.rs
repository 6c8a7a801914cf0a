//! The five node processes as their parent sees them: started, told, heard, stopped, killed. Dropping it ends them all.

use std::io::BufRead;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use super::ledger::{Dump, Ledger};
use super::node::{self, READY};
use super::options::NodeOptions;
use super::table::Table;
use crate::process::ChildProcess;
use crate::trust::Authority;

/// Node processes.
pub(super) const NODES: usize = 5;
/// How long a process may take until it is Up.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// How long an answer may take.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);

/// What a node shows of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Shown {
    pub(super) updates: u64,
    pub(super) acknowledged: u64,
    pub(super) likes: u128,
    pub(super) fans: usize,
    pub(super) digest: String,
}

impl Shown {
    fn read(line: &str) -> Option<Self> {
        let mut words = line.split(' ');
        Some(Self {
            updates: words.next()?.parse().ok()?,
            acknowledged: words.next()?.parse().ok()?,
            likes: words.next()?.parse().ok()?,
            fans: words.next()?.parse().ok()?,
            digest: words.next()?.to_owned(),
        })
    }
}

/// One node.
struct Place {
    process: Option<ChildProcess>,
    address: Option<String>,
    shown: Shown,
    note: &'static str,
    /// Its processes so far.
    lives: u64,
}

/// All nodes of a run.
pub(super) struct Fleet {
    options: NodeOptions,
    folder: Option<PathBuf>,
    authority: Authority,
    places: Vec<Place>,
    /// Which process spoke (node and life), and what it said; `None` at its end.
    lines: Receiver<((usize, u64), Option<String>)>,
    speak: Sender<((usize, u64), Option<String>)>,
    pub(super) ledger: Ledger,
    pub(super) table: Table,
}

impl Fleet {
    pub(super) fn new(
        options: NodeOptions,
        folder: Option<PathBuf>,
        authority: Authority,
        table: Table,
    ) -> Self {
        let (speak, lines) = channel();
        let place = |_| Place {
            process: None,
            address: None,
            shown: Shown::default(),
            note: "",
            lives: 0,
        };
        Self {
            options,
            folder,
            authority,
            places: (0..NODES).map(place).collect(),
            lines,
            speak,
            ledger: Ledger::default(),
            table,
        }
    }

    /// Starts every node; the first forms the cluster, the others join through it.
    pub(super) fn start_all(&mut self) -> Result<(), String> {
        (0..NODES).try_for_each(|index| self.start(index))
    }

    /// Starts a node's next process and waits until it is Up. Where its last one was, it is again.
    pub(super) fn start(&mut self, index: usize) -> Result<(), String> {
        let seed = self.places.first().and_then(|first| first.address.clone());
        let life = self.places[index].lives + 1;
        let options = NodeOptions {
            index,
            life: self.options.life * 1_000 + life,
            bind: self.places[index]
                .address
                .clone()
                .unwrap_or_else(|| self.options.bind.clone()),
            seed: if index == 0 { None } else { seed },
            store: self
                .folder
                .as_deref()
                .map(|folder| node::store_path(folder, index)),
            ..self.options.clone()
        };
        let introduction = self.authority.introduction().map_err(|error| error.to_string())?;
        let mut process = ChildProcess::start_introduced(options.arguments(), &introduction)
            .map_err(|error| format!("cannot start a node process: {error}"))?;
        let output = process.output().ok_or("a node process has no output")?;
        let (speak, who) = (self.speak.clone(), (index, life));
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let _ = speak.send((who, Some(line)));
            }
            let _ = speak.send((who, None));
        });
        let place = &mut self.places[index];
        (place.process, place.lives, place.note) = (Some(process), life, "");
        let ready = self.wait_for(index, START_TIMEOUT, READY)?;
        self.places[index].address = Some(ready);
        Ok(())
    }

    pub(super) fn tell(&mut self, index: usize, order: &str) {
        if let Some(process) = &mut self.places[index].process {
            process.tell(order);
        }
    }

    pub(super) fn tell_all(&mut self, order: &str) {
        (0..NODES).for_each(|index| self.tell(index, order));
    }

    pub(super) fn note(&mut self, index: usize, note: &'static str) {
        self.places[index].note = note;
    }

    pub(super) fn stand_still(&self, index: usize, still: bool) -> Result<(), String> {
        let process = self.places[index].process.as_ref();
        process
            .map_or(Ok(()), |process| process.stand_still(still))
            .map_err(|error| format!("cannot stop a process: {error}"))
    }

    /// Kills a node (SIGKILL); what it had said until then still counts.
    pub(super) fn kill(&mut self, index: usize) -> Result<(), String> {
        let place = &mut self.places[index];
        place.note = "killed";
        if let Some(mut process) = place.process.take() {
            process.kill();
            self.wait_until(ANSWER_TIMEOUT, |who, line| {
                (who == index && line.is_none()).then_some(())
            })?;
            self.ledger.killed(index);
        }
        Ok(())
    }

    /// Listens for a while.
    pub(super) fn run_for(&mut self, time: Duration) -> Result<(), String> {
        let end = Instant::now() + time;
        while let Some(left) = end.checked_duration_since(Instant::now()) {
            if self.listen(left)?.is_none() {
                break;
            }
        }
        Ok(())
    }

    /// Each node's answer to an order.
    pub(super) fn ask_all(&mut self, order: &str, answer: &str) -> Result<Vec<String>, String> {
        self.tell_all(order);
        let mut answers = vec![None; NODES];
        self.wait_until(ANSWER_TIMEOUT, |who, line| {
            if let Some(rest) = line.and_then(|line| line.strip_prefix(answer)) {
                answers[who] = Some(rest.trim().to_owned());
            }
            answers.iter().all(Option::is_some).then_some(())
        })?;
        Ok(answers.into_iter().flatten().collect())
    }

    /// What every node holds, in short.
    pub(super) fn states(&mut self) -> Result<Vec<Shown>, String> {
        let answers = self.ask_all("state", "state ")?;
        Ok(answers.iter().filter_map(|line| Shown::read(line)).collect())
    }

    /// What one node holds.
    pub(super) fn dump(&mut self, index: usize) -> Result<Dump, String> {
        let mut dump = Dump::default();
        self.tell(index, "dump");
        self.wait_until(ANSWER_TIMEOUT, |who, line| {
            let line = line.filter(|_| who == index)?;
            dump.read(line);
            (line == "end").then_some(())
        })?;
        Ok(dump)
    }

    fn wait_for(&mut self, index: usize, limit: Duration, prefix: &str) -> Result<String, String> {
        let what = prefix.trim().to_owned();
        self.wait_until(limit, |who, line| match line {
            Some(line) if who == index => line.strip_prefix(&*what).map(|rest| rest.trim().to_owned()),
            Some(_) | None => None,
        })
    }

    fn wait_until<T>(
        &mut self,
        limit: Duration,
        mut found: impl FnMut(usize, Option<&str>) -> Option<T>,
    ) -> Result<T, String> {
        let end = Instant::now() + limit;
        while let Some(left) = end.checked_duration_since(Instant::now()) {
            if let Some((who, line)) = self.listen(left)?
                && let Some(value) = found(who, line.as_deref())
            {
                return Ok(value);
            }
        }
        Err(format!("no answer of a node within {limit:?}"))
    }

    /// The next thing a process says, taken down. `None` if nobody says anything for so long.
    fn listen(&mut self, limit: Duration) -> Result<Option<(usize, Option<String>)>, String> {
        let ((who, life), line) = match self.lines.recv_timeout(limit) {
            Ok(heard) => heard,
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return Ok(None),
        };
        let place = &mut self.places[who];
        match &line {
            None if place.process.is_some() && place.lives == life => {
                return Err(format!("node {} ended, and nobody asked it to", who + 1));
            }
            None => {}
            Some(line) => match line.split_once(' ') {
                Some(("show", rest)) => {
                    place.shown = Shown::read(rest).unwrap_or_default();
                    let rows = self.places.iter().map(|place| (place.shown.clone(), place.note));
                    self.table.show(rows.collect());
                }
                Some(("begin" | "done" | "open" | "void", _)) => self.ledger.hear(who, line),
                Some((_, _)) | None => {}
            },
        }
        Ok(Some((who, line)))
    }
}
