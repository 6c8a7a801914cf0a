//! The five node processes, and what they say of themselves and their updates. Dropping it ends them all.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::ledger::{Dump, Ledger};
use super::table;
use crate::processes::Processes;
use crate::program::{NODES, NodeOptions, READY, START_TIMEOUT};
use crate::stores;
use quorate_demo::screen::Screen;
use quorate_demo::trust::Authority;

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
#[derive(Clone, Default)]
struct Place {
    address: Option<String>,
    shown: Shown,
    note: &'static str,
}

/// All nodes of a run.
pub(super) struct Fleet {
    options: NodeOptions,
    folder: Option<PathBuf>,
    processes: Processes,
    places: Vec<Place>,
    pub(super) ledger: Ledger,
    pub(super) screen: Screen,
}

impl Fleet {
    pub(super) fn new(
        options: NodeOptions,
        folder: Option<PathBuf>,
        authority: Authority,
        screen: Screen,
    ) -> Self {
        Self {
            options,
            folder,
            processes: Processes::new(NODES, authority),
            places: vec![Place::default(); NODES],
            ledger: Ledger::default(),
            screen,
        }
    }

    /// Starts every node; the first forms the cluster, the others join through it.
    pub(super) fn start_all(&mut self) -> Result<(), String> {
        (0..NODES).try_for_each(|index| self.start(index))
    }

    /// Starts a node's next process and waits until it is Up. Where its last one was, it is again.
    pub(super) fn start(&mut self, index: usize) -> Result<(), String> {
        let seed = self.places.first().and_then(|first| first.address.clone());
        let place = &mut self.places[index];
        let bind = place.address.clone();
        place.note = "";
        let options = NodeOptions {
            index,
            life: self.options.life * 1_000 + self.processes.next_life(index),
            bind: bind.unwrap_or_else(|| self.options.bind.clone()),
            seed: if index == 0 { None } else { seed },
            store: self
                .folder
                .as_deref()
                .map(|folder| stores::file_of(folder, index)),
            ..self.options.clone()
        };
        self.processes.start(index, options.arguments())?;
        let ready = self.wait_for(index, START_TIMEOUT, READY)?;
        self.places[index].address = Some(ready);
        Ok(())
    }

    pub(super) fn tell(&mut self, index: usize, order: &str) {
        self.processes.tell(index, order);
    }

    pub(super) fn tell_all(&mut self, order: &str) {
        (0..NODES).for_each(|index| self.tell(index, order));
    }

    pub(super) fn note(&mut self, index: usize, note: &'static str) {
        self.places[index].note = note;
    }

    pub(super) fn stand_still(&self, index: usize, still: bool) -> Result<(), String> {
        self.processes.stand_still(index, still)
    }

    /// Kills a node (SIGKILL); what it had said until then still counts.
    pub(super) fn kill(&mut self, index: usize) -> Result<(), String> {
        self.places[index].note = "killed";
        if self.processes.kill(index) {
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
        let Some((who, line)) = self.processes.listen(limit)? else {
            return Ok(None);
        };
        match line.as_deref().and_then(|line| line.split_once(' ')) {
            Some(("show", rest)) => {
                self.places[who].shown = Shown::read(rest).unwrap_or_default();
                let rows = self.places.iter().map(|place| (place.shown.clone(), place.note));
                table::show(&mut self.screen, &rows.collect::<Vec<_>>());
            }
            Some(("begin" | "done" | "open" | "void", _)) => {
                self.ledger.hear(who, line.as_deref().unwrap_or_default());
            }
            Some((_, _)) | None => {}
        }
        Ok(Some((who, line)))
    }
}
