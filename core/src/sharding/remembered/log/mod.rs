//! A set of names in a log that a majority of the journal's voters keeps: opened with the owner's token, read
//! as a whole, changed by events with snapshots. Whoever opened it later with a higher token has it, and this
//! one is refused. One question at a time; answers to earlier ones are passed over. Spec: sharding 1.5 (event
//! sourced stores), 10.7, 10.15.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::names::RememberedNames;
use super::record;
use super::set::QuestionOutcome;
use crate::bytes::WireError;
use crate::config::ShardingConfig;
use crate::ddata::crdt::Element;
use crate::effect::{Answer as AnyAnswer, CommandError as AnyError};
use crate::input::{Command as AnyCommand, StoreAsk};
use crate::journal::protocol::Command;
use crate::journal::state::TokenClaim;
use crate::log::{LogProgress, QuorumLog, ReplayedPart, UnreadableLog};
use crate::rng;
use crate::sharding::Cx;
use crate::sharding::kind::RegisteredKind;
use crate::sharding::protocol::StoreUser;
use crate::sharding::state::ids::KindId;
use crate::store::{Bytes, LogName};

/// Bytes of names in one write, so that every link and store takes it at once, however long they are.
const WRITE_BYTES_MAX: usize = 64 << 10;

/// A name that comes or goes.
#[derive(Clone, Debug)]
struct NameChange {
    name: Element,
    comes: bool,
}

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct StoredLog {
    kind: KindId,
    config: Arc<ShardingConfig>,
    user: StoreUser,
    claim: TokenClaim,
    /// With the changes that are on their way.
    log: QuorumLog<Vec<NameChange>>,
    /// The open question; 0: none. The next one is above it, also above those of whoever had this log here
    /// before.
    request: u64,
    /// Whether the question is what there is. If not, it is whether all changes are stored.
    reads: bool,
    /// What was to be written cannot be: who asked hears so when the log is closed.
    is_failing: bool,
    /// What the log amounts to.
    names: RememberedNames,
    /// Changes to be written, in their order.
    waiting: VecDeque<NameChange>,
}

impl StoredLog {
    /// A set in this log.
    pub(crate) fn new(kind: &RegisteredKind, user: StoreUser, log: LogName, claim: TokenClaim) -> Self {
        Self {
            kind: kind.id,
            config: Arc::clone(&kind.config),
            user,
            claim,
            log: QuorumLog::new(log),
            request: 0,
            reads: false,
            is_failing: false,
            names: RememberedNames::default(),
            waiting: VecDeque::new(),
        }
    }

    /// Which token it is opened with from now on.
    pub(crate) fn claim_with(&mut self, claim: TokenClaim) {
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
        if self.is_failing {
            // One question at a time: who asks has waited for the answer to the one before.
        } else if self.log.owner().is_closed() {
            self.open(cx);
        } else if self.log.owner().is_idle() && self.write_next(cx).is_err() {
            self.is_failing = true;
            self.ask_to_close(cx);
        }
    }

    /// Gives it up: nothing that is on its way is repeated any more, and nothing is waited for.
    pub(crate) fn close(&mut self, cx: &mut Cx<'_>) {
        self.ask_to_close(cx);
        self.is_failing = false;
        self.request = 0;
        self.names = RememberedNames::default();
        self.waiting.clear();
    }

    /// The log answers; `None` while the question is open, or if the answer is not of this one.
    pub(crate) fn on_answer(
        &mut self,
        cx: &mut Cx<'_>,
        ask: StoreAsk,
        answer: AnyAnswer,
    ) -> Option<QuestionOutcome> {
        if ask.request != self.request || self.request == 0 {
            return None;
        }
        let answer = match answer {
            AnyAnswer::Journal(answer) => Ok(answer),
            AnyAnswer::Refused(AnyError::Journal(error)) => Err(error),
            AnyAnswer::Refused(_) => return self.fail(cx),
            AnyAnswer::Done if self.is_failing => return self.fail(cx),
            // What is closed is answered too.
            AnyAnswer::Done
            | AnyAnswer::Asked(_)
            | AnyAnswer::Ddata(_)
            | AnyAnswer::Sharding(_)
            | AnyAnswer::Singleton(_)
            | AnyAnswer::Kv(_) => {
                return None;
            }
        };
        let names = &mut self.names;
        let mut replay = |found: ReplayedPart<'_>| match found.bytes() {
            None => {
                *names = RememberedNames::default();
                Ok(())
            }
            Some(bytes) => record::apply(bytes, names).map_err(|_| UnreadableLog),
        };
        match self.log.on_answer(&answer, &mut replay) {
            LogProgress::Opened if self.reads => return Some(QuestionOutcome::Read(self.names.all())),
            LogProgress::Opened | LogProgress::Trimmed => {}
            LogProgress::Appended(changes) => changes.into_iter().for_each(|change| self.learn(change)),
            LogProgress::Full(changes) => {
                let changes = changes.into_iter().rev();
                changes.for_each(|change| self.waiting.push_front(change));
            }
            LogProgress::Damaged => {
                self.close(cx);
                return Some(QuestionOutcome::Damaged);
            }
            LogProgress::NotDone(..) | LogProgress::Again { .. } | LogProgress::Lost { .. } => {
                return self.fail(cx);
            }
            LogProgress::Passed | LogProgress::Ask(_) => return None,
        }
        self.go_on(cx)
    }

    /// The log says so now.
    fn learn(&mut self, NameChange { name, comes }: NameChange) {
        if comes {
            self.names.insert(name);
        } else {
            self.names.remove(&name);
        }
    }

    /// Has the next of what waits written, or says that all is.
    fn go_on(&mut self, cx: &mut Cx<'_>) -> Option<QuestionOutcome> {
        if self.waiting.is_empty() {
            return Some(QuestionOutcome::Written);
        }
        match self.write_next(cx) {
            Ok(()) => None,
            Err(_) => self.fail(cx),
        }
    }

    fn write_next(&mut self, cx: &mut Cx<'_>) -> Result<(), WireError> {
        let command = if self.log.owner().needs_snapshot(self.config.snapshot_after) {
            self.log.keep(record::whole(&self.names)?)
        } else {
            self.append(self.config.remember_updates_per_write)?
        };
        self.ask(cx, command);
        Ok(())
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
        Ok(self.log.append(changes, records))
    }

    fn open(&mut self, cx: &mut Cx<'_>) {
        let command = self.log.open(rng::number(cx.rng()), self.claim);
        self.ask(cx, command);
    }

    fn ask_to_close(&mut self, cx: &mut Cx<'_>) {
        if let Some(command) = self.log.close() {
            self.ask(cx, command);
        }
    }

    fn fail(&mut self, cx: &mut Cx<'_>) -> Option<QuestionOutcome> {
        self.close(cx);
        Some(QuestionOutcome::Failed)
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

#[cfg(test)]
mod tests;
