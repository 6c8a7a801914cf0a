//! A set of names in a log that a majority of the journal's voters keeps: opened with the owner's token, read as a whole, changed by events
//! with snapshots. Whoever opened it later with a higher token has it, and this one is refused. One question at a time; answers to earlier
//! ones are passed over. Spec: sharding 1.5 (event sourced stores), 10.7, 10.15.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::names::Names;
use super::record;
use super::set::Done;
use crate::bytes::WireError;
use crate::config::ShardingConfig;
use crate::ddata::crdt::Element;
use crate::effect::{Answer as AnyAnswer, CommandError as AnyError};
use crate::input::{Command as AnyCommand, StoreAsk};
use crate::journal::protocol::{Answer, Command, CommandError};
use crate::journal::state::{Claim, Opened, WriterEnd, WriterError};
use crate::rng;
use crate::sharding::Cx;
use crate::sharding::kind::Kind;
use crate::sharding::protocol::StoreUser;
use crate::sharding::state::ids::KindId;
use crate::store::{Bytes, LogName, Sequence};

/// Bytes of names in one write, so that every link and store takes it at once, however long they are.
const WRITE_BYTES_MAX: usize = 64 << 10;

/// A name that comes or goes.
#[derive(Clone, Debug)]
struct NameChange {
    name: Element,
    comes: bool,
}

/// There are more names than a log may have, or one of them is none.
struct WriteRefused;

#[derive(Clone, Debug)]
enum Stage {
    /// It is not this owner's.
    Closed,
    /// It is being claimed and read.
    Opening,
    /// It is this owner's, and nothing is on its way.
    Idle,
    /// These changes are on their way.
    Appending(Vec<NameChange>),
    /// A snapshot takes the place of the records.
    Trimming,
    /// What was to be written cannot be: who asked hears so when the log is closed.
    Failing,
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct StoredLog {
    kind: KindId,
    config: Arc<ShardingConfig>,
    user: StoreUser,
    log: LogName,
    claim: Claim,
    opener: u64,
    /// The open question; 0: none. The next one is above it, also above those of whoever had this log here before.
    request: u64,
    stage: Stage,
    /// Whether the question is what there is. If not, it is whether all changes are stored.
    reads: bool,
    /// What the log amounts to.
    names: Names,
    /// The log's last record.
    last: Sequence,
    /// Records behind the newest snapshot.
    records: usize,
    /// The log is as large as it may be.
    full: bool,
    /// Changes to be written, in their order.
    waiting: VecDeque<NameChange>,
}

impl StoredLog {
    /// A set in this log.
    pub(crate) fn new(kind: &Kind, user: StoreUser, log: LogName, claim: Claim) -> Self {
        Self {
            kind: kind.id,
            config: Arc::clone(&kind.config),
            user,
            log,
            claim,
            opener: 0,
            request: 0,
            stage: Stage::Closed,
            reads: false,
            names: Names::default(),
            last: 0,
            records: 0,
            full: false,
            waiting: VecDeque::new(),
        }
    }

    /// Which token it is opened with from now on.
    pub(crate) fn claim_with(&mut self, claim: Claim) {
        self.claim = claim;
    }

    /// Opens the log and asks what is there. `request` was not used before, by whoever has this name.
    pub(crate) fn read(&mut self, cx: &mut Cx<'_>, request: u64) {
        self.close(cx);
        self.request = request;
        self.reads = true;
        self.open(cx);
    }

    /// Adds and removes names; at least one. Opens the log, if it is not.
    pub(crate) fn write(&mut self, cx: &mut Cx<'_>, request: u64, add: Vec<Element>, remove: Vec<Element>) {
        self.request = request;
        self.reads = false;
        let change = |comes| move |name| NameChange { name, comes };
        self.waiting = remove.into_iter().map(change(false)).collect();
        self.waiting.extend(add.into_iter().map(change(true)));
        match self.stage {
            Stage::Closed => self.open(cx),
            Stage::Idle => {
                if let Err(WriteRefused) = self.write_next(cx) {
                    let (log, opener) = (Arc::clone(&self.log), self.opener);
                    self.stage = Stage::Failing;
                    self.ask(cx, Command::Close { log, opener });
                }
            }
            // One question at a time: who asks has waited for the answer to the one before.
            Stage::Opening | Stage::Appending(_) | Stage::Trimming | Stage::Failing => {}
        }
    }

    /// Gives it up: nothing that is on its way is repeated any more, and nothing is waited for.
    pub(crate) fn close(&mut self, cx: &mut Cx<'_>) {
        match core::mem::replace(&mut self.stage, Stage::Closed) {
            Stage::Closed | Stage::Failing => {}
            Stage::Opening | Stage::Idle | Stage::Appending(_) | Stage::Trimming => {
                let (log, opener) = (Arc::clone(&self.log), self.opener);
                self.ask(cx, Command::Close { log, opener });
            }
        }
        self.request = 0;
        self.names = Names::default();
        self.waiting.clear();
        self.full = false;
    }

    /// The log answers; `None` while the question is open, or if the answer is not of this one.
    pub(crate) fn on_answer(&mut self, cx: &mut Cx<'_>, ask: StoreAsk, answer: AnyAnswer) -> Option<Done> {
        if ask.request != self.request || self.request == 0 {
            return None;
        }
        match answer {
            AnyAnswer::Journal(Answer::Opened(opened)) => self.on_opened(cx, &opened),
            AnyAnswer::Journal(Answer::Appended { last }) => {
                self.on_appended(last);
                self.go_on(cx)
            }
            AnyAnswer::Journal(Answer::Kept) => {
                self.stage = Stage::Idle;
                self.records = 0;
                self.full = false;
                self.go_on(cx)
            }
            AnyAnswer::Refused(AnyError::Journal(error)) => self.on_refused(cx, error),
            AnyAnswer::Refused(_) => self.fail(cx),
            AnyAnswer::Done if matches!(self.stage, Stage::Failing) => self.fail(cx),
            // What is closed is answered too.
            AnyAnswer::Done | AnyAnswer::Ddata(_) | AnyAnswer::Sharding(_) | AnyAnswer::Singleton(_) => None,
        }
    }

    fn on_opened(&mut self, cx: &mut Cx<'_>, opened: &Opened) -> Option<Done> {
        match read(opened) {
            Ok(names) => self.names = names,
            Err(_) => {
                self.close(cx);
                return Some(Done::Damaged);
            }
        }
        self.last = opened.last;
        self.records = opened.records.len();
        self.stage = Stage::Idle;
        if self.reads {
            return Some(Done::Read(self.names.all()));
        }
        self.go_on(cx)
    }

    fn on_appended(&mut self, last: Sequence) {
        if let Stage::Appending(changes) = core::mem::replace(&mut self.stage, Stage::Idle) {
            for NameChange { name, comes } in changes {
                if comes {
                    self.names.insert(name);
                } else {
                    self.names.remove(&name);
                }
            }
        }
        self.records += usize::try_from(last.saturating_sub(self.last)).unwrap_or(usize::MAX);
        self.last = last;
    }

    fn on_refused(&mut self, cx: &mut Cx<'_>, error: CommandError) -> Option<Done> {
        match error {
            CommandError::Refused(WriterError::Full) if self.records > 0 && !self.full => {
                if let Stage::Appending(changes) = core::mem::replace(&mut self.stage, Stage::Idle) {
                    changes
                        .into_iter()
                        .rev()
                        .for_each(|change| self.waiting.push_front(change));
                }
                self.full = true;
                self.go_on(cx)
            }
            CommandError::Ended(WriterEnd::Damaged) => {
                self.close(cx);
                Some(Done::Damaged)
            }
            CommandError::NotConfigured
            | CommandError::BadName
            | CommandError::TooMany
            | CommandError::NotOpen
            | CommandError::Closed
            | CommandError::Refused(_)
            | CommandError::Ended(WriterEnd::Fenced { .. }) => self.fail(cx),
        }
    }

    /// Has the next of what waits written, or says that all is.
    fn go_on(&mut self, cx: &mut Cx<'_>) -> Option<Done> {
        if self.waiting.is_empty() {
            return Some(Done::Written);
        }
        match self.write_next(cx) {
            Ok(()) => None,
            Err(WriteRefused) => self.fail(cx),
        }
    }

    fn write_next(&mut self, cx: &mut Cx<'_>) -> Result<(), WriteRefused> {
        let command = if self.full || self.records >= self.config.snapshot_after {
            self.trim()
        } else {
            self.append(self.config.remember_updates_per_write)
        };
        let command = command.map_err(|_| WriteRefused)?;
        self.ask(cx, command);
        Ok(())
    }

    fn trim(&mut self) -> Result<Command, WireError> {
        self.stage = Stage::Trimming;
        Ok(Command::Keep {
            log: Arc::clone(&self.log),
            opener: self.opener,
            covers: self.last,
            state: record::whole(&self.names)?,
        })
    }

    fn append(&mut self, most: usize) -> Result<Command, WireError> {
        let mut room = WRITE_BYTES_MAX;
        let mut changes: Vec<NameChange> = Vec::new();
        while changes.len() < most.max(1)
            && let Some(next) = self.waiting.pop_front()
        {
            if next.name.len() > room && !changes.is_empty() {
                self.waiting.push_front(next);
                break;
            }
            room = room.saturating_sub(next.name.len());
            changes.push(next);
        }
        let of = |comes| {
            let names = changes.iter().filter(|change| change.comes == comes);
            let mut names: Vec<Element> = names.map(|change| Arc::clone(&change.name)).collect();
            names.sort_unstable();
            names.dedup();
            names
        };
        let (removed, added) = (of(false), of(true));
        if !self.names.has_room_for(&added) {
            return Err(WireError::LimitExceeded { what: "names" });
        }
        let mut records: Vec<Bytes> = Vec::new();
        if !removed.is_empty() {
            records.push(record::removed(&removed)?);
        }
        if !added.is_empty() {
            records.push(record::added(&added)?);
        }
        self.stage = Stage::Appending(changes);
        Ok(Command::Append {
            log: Arc::clone(&self.log),
            opener: self.opener,
            expected: self.last,
            records,
            upkeep: false,
        })
    }

    fn open(&mut self, cx: &mut Cx<'_>) {
        self.opener = rng::number(cx.rng());
        self.stage = Stage::Opening;
        let command = Command::Open {
            log: Arc::clone(&self.log),
            opener: self.opener,
            claim: self.claim,
        };
        self.ask(cx, command);
    }

    fn fail(&mut self, cx: &mut Cx<'_>) -> Option<Done> {
        self.close(cx);
        Some(Done::Failed)
    }

    fn ask(&self, cx: &mut Cx<'_>, command: Command) {
        let ask = StoreAsk {
            kind: self.kind,
            user: self.user,
            request: self.request,
            part: 0,
        };
        cx.ask_store(ask, AnyCommand::Journal(command));
    }
}

/// The names that a log holds.
fn read(opened: &Opened) -> Result<Names, WireError> {
    let mut names = Names::default();
    if let Some(snapshot) = &opened.snapshot {
        record::apply(&snapshot.state, &mut names)?;
    }
    for record in &opened.records {
        record::apply(&record.bytes, &mut names)?;
    }
    Ok(names)
}

#[cfg(test)]
mod tests;
