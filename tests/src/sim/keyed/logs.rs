//! The log of a durable entity in the bucket that outlives processes: all of them take it from each other and
//! write it. What was acknowledged is there, in one order, whoever takes it over; a lower token is never
//! applied; what was surely refused never appears. Spec: sharding 10.7, 10.19 h.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use quorate_core::ddata::state::key::Key;
use quorate_core::input::Command;
use quorate_core::kv::protocol::{Answer as KvAnswer, Command as KvCommand};
use quorate_core::kv::state::logged::{LogChange, LogDenial, LogRecord, LogWrite};
use quorate_core::kv::state::outcome::{CallAnswer, CallGoal, LogHold};
use quorate_core::store::Bytes;
use quorate_core::token::Token;

use super::BUCKETS;
use crate::sim::chance::{Chance, Purpose};
use crate::sim::engine::Sim;
use crate::sim::history::ProcessId;
use crate::sim::plan::SECOND;
use crate::sim::process::Open;

/// The bucket that it is in.
const KEPT: usize = 1;
const TIMEOUT: Duration = Duration::from_secs(2);
/// How long a process may take to take it over at rest.
const CLAIM_MAX: u64 = 10 * SECOND;

/// A process that owns the log, or believes so, or would like to.
#[derive(Debug, Default)]
struct Writer {
    token: Option<Token>,
    /// All that it has read and written.
    content: Vec<u64>,
    hold: Option<LogHold>,
    /// What is on its way, or asked again because nobody knows what became of it.
    wanted: Option<LogChange>,
    is_unknown: bool,
    /// The call that is on its way.
    call: Option<u64>,
}

/// What is known of the log.
#[derive(Debug)]
pub(crate) struct Logs {
    chance: Chance,
    writers: BTreeMap<ProcessId, Writer>,
    numbers: u64,
    acknowledged: Vec<u64>,
    tokens: BTreeSet<Token>,
    refused: BTreeSet<u64>,
    pub(crate) counts: LogCounts,
}

/// What happened, for the report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LogCounts {
    pub(crate) claimed: u64,
    pub(crate) appended: u64,
    pub(crate) fenced: u64,
}

/// What a call about the log knew as it began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogCall {
    number: u64,
    highest: Token,
    acknowledged: usize,
}

impl Logs {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            chance: Chance::new(seed, Purpose::Logs),
            writers: BTreeMap::new(),
            numbers: 0,
            acknowledged: Vec::new(),
            tokens: BTreeSet::new(),
            refused: BTreeSet::new(),
            counts: LogCounts::default(),
        }
    }

    /// Nobody hears any more what it is told.
    pub(super) fn writer_is_gone(&mut self, process: ProcessId) {
        self.writers.remove(&process);
    }

    fn begin(&mut self, process: ProcessId, kind: u64) -> CallGoal {
        self.numbers += 1;
        let number = self.numbers;
        let writer = self.writers.entry(process).or_default();
        let last = writer.content.len() as u64;
        let change = match (writer.wanted.take(), writer.token) {
            (Some(change), _) => change,
            (None, None) => LogChange::Claim { placement: None },
            (None, Some(token)) if kind == 0 && last > 0 => LogChange::Write(LogWrite::Keep {
                token,
                through: last,
                state: bytes_of(&writer.content),
            }),
            (None, Some(token)) => LogChange::Write(LogWrite::Append {
                token,
                expected: last,
                records: vec![bytes_of(&[number])],
            }),
        };
        writer.wanted = Some(change.clone());
        writer.call = Some(number);
        let hold = writer.hold.take();
        CallGoal::Log { change, hold }
    }

    fn end(&mut self, process: ProcessId, call: LogCall, answer: KvAnswer) -> Result<(), String> {
        let Some(writer) = self.writers.get_mut(&process) else {
            return Ok(());
        };
        if writer.call != Some(call.number) {
            return Ok(());
        }
        writer.call = None;
        let KvAnswer::Called(Ok(CallAnswer::Logged { log, hold })) = answer else {
            writer.is_unknown = true;
            return Ok(());
        };
        let own = match writer.wanted.take() {
            Some(LogChange::Write(LogWrite::Append { records, .. })) => numbers_of(&records),
            _ => Vec::new(),
        };
        let was_unknown = core::mem::take(&mut writer.is_unknown);
        writer.hold = Some(hold);
        let known = &self.acknowledged;
        match log {
            Ok(Some(log)) => {
                let all = content(&log);
                writer.token = Some(log.token());
                writer.content.clone_from(&all);
                self.counts.claimed += 1;
                if log.token() <= call.highest || !self.tokens.insert(log.token()) {
                    return Err(format!("{} has the log after {}", log.token(), call.highest));
                }
                // Somebody may have it already who came later.
                let is_one = all.starts_with(known) || known.starts_with(&all);
                if all.len() < call.acknowledged || !is_one {
                    return Err(format!("a log of {all:?}, and {known:?} was acknowledged"));
                }
                if all.iter().any(|number| self.refused.contains(number)) {
                    return Err(format!("a log of {all:?} holds what was refused"));
                }
            }
            Ok(None) => {
                self.counts.appended += own.len() as u64;
                writer.content.extend(own);
                let all = &writer.content;
                if !all.starts_with(known) && !known.starts_with(all) {
                    return Err(format!("{all:?} and {known:?} were acknowledged"));
                }
                if all.len() > known.len() {
                    self.acknowledged.clone_from(all);
                }
            }
            Err(LogDenial::Fenced { .. }) => {
                self.counts.fenced += 1;
                if !was_unknown {
                    self.refused.extend(own);
                }
                self.writers.remove(&process);
            }
            Err(denial) => return Err(format!("a write is refused: {denial}")),
        }
        Ok(())
    }
}

impl Sim {
    /// Some process writes the log, or takes it over first.
    pub(crate) fn write_log(&mut self, nodes: usize) {
        if !self.keyed.enabled || self.keyed.calm || self.is_sloppy(KEPT) {
            return;
        }
        let logs = &mut self.keyed.logs;
        // Most of the time the same ones, so that they get on.
        let (is_due, any, some) = (
            logs.chance.per_mille(100),
            logs.chance.per_mille(100),
            logs.chance.index(nodes),
        );
        let (index, kind) = (if any { some } else { some % 2 }, logs.chance.below(10));
        if let Some(process) = self.running_at(index).filter(|_| is_due) {
            self.call_log(process, kind);
        }
    }

    fn call_log(&mut self, process: ProcessId, kind: u64) {
        let is_paused = self.now < self.processes[process as usize].paused_until;
        let logs = &mut self.keyed.logs;
        if is_paused
            || logs
                .writers
                .get(&process)
                .is_some_and(|writer| writer.call.is_some())
        {
            return;
        }
        let call = LogCall {
            number: logs.numbers + 1,
            highest: logs.tokens.last().copied().unwrap_or(Token::NONE),
            acknowledged: logs.acknowledged.len(),
        };
        let goal = logs.begin(process, kind);
        let command = KvCommand::Call {
            bucket: BUCKETS[KEPT].bucket(),
            key: Key::new("log/1").expect("invariant: a short key is legal"),
            goal,
            timeout: TIMEOUT,
        };
        self.command(process, Open::Log(call), Command::Kv(command));
    }

    /// A call about the log is answered; `None`: it was not begun.
    pub(crate) fn on_log_answer(&mut self, process: ProcessId, call: LogCall, answer: Option<KvAnswer>) {
        let Some(answer) = answer else {
            if let Some(writer) = self.keyed.logs.writers.get_mut(&process) {
                writer.call = writer.call.filter(|number| *number != call.number);
            }
            return;
        };
        if let Err(what) = self.keyed.logs.end(process, call, answer)
            && self.is_promised(KEPT)
        {
            self.violated("log", process, what);
        }
    }

    /// At rest somebody takes it over, and finds what was acknowledged.
    pub(super) fn end_log(&mut self) {
        if self.is_sloppy(KEPT) {
            return;
        }
        let limit = self.now + CLAIM_MAX;
        let claimed = self.keyed.logs.counts.claimed;
        let Some(process) = self.running().first().and_then(|index| self.running_at(*index)) else {
            return;
        };
        self.keyed.logs.writer_is_gone(process);
        while self.violation.is_none() && self.keyed.logs.counts.claimed == claimed {
            if self.now >= limit {
                return self.not_at_rest("the log cannot be taken over".to_owned());
            }
            self.call_log(process, 1);
            self.advance(self.now + SECOND / 10);
        }
    }
}

fn bytes_of(numbers: &[u64]) -> Bytes {
    let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    Bytes::from(bytes)
}

fn numbers_of(parts: &[Bytes]) -> Vec<u64> {
    let numbers = parts.iter().flat_map(|part| part.chunks_exact(8));
    numbers
        .filter_map(|bytes| bytes.try_into().ok().map(u64::from_le_bytes))
        .collect()
}

fn content(log: &LogRecord) -> Vec<u64> {
    let state = log.snapshot().map(|snapshot| Bytes::clone(&snapshot.state));
    let mut all = numbers_of(&state.into_iter().collect::<Vec<_>>());
    all.extend(numbers_of(log.records()));
    all
}
