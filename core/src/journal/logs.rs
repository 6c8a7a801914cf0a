//! The logs that this node owns or tries to own: what their writers want done, and who waits for what. Spec:
//! sharding 10.7.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use super::protocol::{Answer, Event, JournalCommandError, Msg, Rejection, ReplicaReply, Timer};
use super::state::{TokenClaim, WriterEnd};
use super::writer::{LogWriter, WriterBounds, WriterOutput, WriterSettings};
use super::{Cx, Journals};
use crate::config::ValidConfig;
use crate::effect::{Answer as AnyAnswer, CommandError as AnyError};
use crate::input::Caller;
use crate::reject::Rejection as AnyRejection;
use crate::rng;
use crate::store::LogName;

/// What stands around the entries or the part of a message: a name, tokens and numbers.
const HEADER_BYTES: usize = 2_048;

/// How often a token is taken again before an opening has failed: two that open at once settle it in a few.
const ATTEMPTS_MAX: u32 = 24;

/// The first rest of who was refused twice, at most; it doubles up to [`REST_MAX`].
const REST_MIN: Duration = Duration::from_millis(20);

/// The longest rest.
const REST_MAX: Duration = Duration::from_secs(2);

/// A log that this node owns, or tries to own.
#[derive(Clone, Debug)]
pub(super) struct LocalLog {
    pub(super) opener: u64,
    claim: TokenClaim,
    /// `None` until the voters are settled.
    pub(super) writer: Option<LogWriter>,
    pub(super) opening: Option<Caller>,
    pub(super) appending: Option<Caller>,
    pub(super) keeping: Option<Caller>,
}

impl LocalLog {
    pub(super) const fn new(opener: u64, claim: TokenClaim, caller: Caller) -> Self {
        Self {
            opener,
            claim,
            writer: None,
            opening: Some(caller),
            appending: None,
            keeping: None,
        }
    }

    /// All that wait are told that it is over.
    pub(super) fn end(self, cx: &mut Cx<'_>, error: AnyError) {
        let waiting = [self.opening, self.appending, self.keeping];
        for caller in waiting.into_iter().flatten() {
            cx.reply(caller, AnyAnswer::Refused(error.clone()));
        }
    }

    pub(super) fn check_invariants(&self, name: &str) -> Result<(), String> {
        let is_open = self.writer.as_ref().is_some_and(LogWriter::is_open);
        if is_open == self.opening.is_some() {
            return Err(alloc::format!("log {name}: open and awaited do not fit"));
        }
        if !is_open && (self.appending.is_some() || self.keeping.is_some()) {
            return Err(alloc::format!(
                "log {name}: somebody waits for a log that is not open"
            ));
        }
        Ok(())
    }
}

impl Journals {
    /// Opens the logs that wait for the voters.
    pub(super) fn open_waiting(&mut self, cx: &mut Cx<'_>) {
        let waiting = self.logs.iter().filter(|(_, log)| log.writer.is_none());
        let waiting: Vec<LogName> = waiting.map(|(name, _)| Arc::clone(name)).collect();
        for name in waiting {
            self.open(cx, &name);
        }
    }

    pub(super) fn open(&mut self, cx: &mut Cx<'_>, name: &LogName) {
        let Some(stores) = self.electorate.settled() else {
            return;
        };
        let Some(log) = self.logs.get_mut(name) else {
            return;
        };
        let mut out = Vec::new();
        let settings = WriterSettings {
            log: Arc::clone(name),
            stores: Arc::clone(stores),
            opener: log.opener,
            claim: log.claim,
            bounds: bounds(cx.config()),
        };
        log.writer = Some(LogWriter::open(settings, &mut out));
        self.perform(cx, name, out);
    }

    /// A replica has answered.
    pub(super) fn on_answer(&mut self, cx: &mut Cx<'_>, reply: ReplicaReply) {
        let name = Arc::clone(&reply.log);
        let mut out = Vec::new();
        if let Some(writer) = self.logs.get_mut(&name).and_then(|log| log.writer.as_mut()) {
            writer.on_reply(reply, &mut out);
            self.perform(cx, &name, out);
        }
    }

    pub(super) fn repeat(&mut self, cx: &mut Cx<'_>, name: &LogName) {
        let mut out = Vec::new();
        if let Some(writer) = self.logs.get_mut(name).and_then(|log| log.writer.as_mut()) {
            cx.counters().repetitions += 1;
            writer.repeat(&mut out);
            self.perform(cx, name, out);
        }
    }

    pub(super) fn take_again(&mut self, cx: &mut Cx<'_>, name: &LogName) {
        let mut out = Vec::new();
        if let Some(writer) = self.logs.get_mut(name).and_then(|log| log.writer.as_mut()) {
            writer.take_again(&mut out);
            self.perform(cx, name, out);
        }
    }

    /// Does what a log's writer wants.
    pub(super) fn perform(&mut self, cx: &mut Cx<'_>, name: &LogName, out: Vec<WriterOutput>) {
        for output in out {
            match output {
                WriterOutput::Ask(request) => match self.electorate.node_of(cx, request.store) {
                    Some(node) => cx.send(&node, Msg::Request(request)),
                    None => cx.counters().stores_absent += 1,
                },
                WriterOutput::Opened(opened) => {
                    cx.counters().logs_opened += 1;
                    let caller = self.logs.get_mut(name).and_then(|log| log.opening.take());
                    answer(cx, caller, Answer::Opened(opened));
                }
                WriterOutput::Appended { last } => {
                    cx.counters().appends_acknowledged += 1;
                    let caller = self.logs.get_mut(name).and_then(|log| log.appending.take());
                    answer(cx, caller, Answer::Appended { last });
                }
                WriterOutput::Kept { .. } => {
                    cx.counters().snapshots_acknowledged += 1;
                    let caller = self.logs.get_mut(name).and_then(|log| log.keeping.take());
                    answer(cx, caller, Answer::Kept);
                }
                WriterOutput::NearlyFull { bytes } => {
                    let log = Arc::clone(name);
                    let bytes_max = cx.config().journal.log_bytes_max;
                    cx.notify(Event::NearlyFull {
                        log,
                        bytes,
                        bytes_max,
                    });
                }
                WriterOutput::TakeAgain { attempt } => {
                    cx.counters().tokens_refused += 1;
                    let at = cx.mono() + rest(cx, attempt);
                    cx.wake(Timer::TakeAgain(Arc::clone(name)), at);
                }
                WriterOutput::Nonsense(store) => {
                    if let Some(node) = self.electorate.node_of(cx, store) {
                        cx.reject(&node, AnyRejection::Journal(Rejection::Nonsense));
                    }
                }
                WriterOutput::Ended(end) => self.on_ended(cx, name, end),
            }
        }
        self.wake(cx, name);
    }

    fn on_ended(&mut self, cx: &mut Cx<'_>, name: &LogName, end: WriterEnd) {
        cx.counters().owners_ended += 1;
        match end {
            WriterEnd::Fenced { held } => {
                let log = Arc::clone(name);
                if let Some(TokenClaim::Placed(placement)) = self.logs.get(name).map(|log| log.claim)
                    && placement.reopened(held).is_none()
                {
                    cx.say_placement_outdone(Arc::clone(name), placement, held);
                }
                cx.notify(Event::Fenced { log, held });
            }
            WriterEnd::Damaged => cx.notify(Event::Damaged),
        }
        self.forget(cx, name, AnyError::Journal(JournalCommandError::Ended(end)));
    }

    /// This node has nothing to do with the log any more.
    pub(super) fn forget(&mut self, cx: &mut Cx<'_>, name: &LogName, error: AnyError) {
        if let Some(log) = self.logs.remove(name) {
            log.end(cx, error);
        }
        cx.cancel(Timer::Repeat(Arc::clone(name)));
        cx.cancel(Timer::TakeAgain(Arc::clone(name)));
    }

    /// Comes back while a question is open.
    fn wake(&self, cx: &mut Cx<'_>, name: &LogName) {
        let writer = self.logs.get(name).and_then(|log| log.writer.as_ref());
        let timer = Timer::Repeat(Arc::clone(name));
        if !writer.is_some_and(LogWriter::is_waiting) {
            cx.cancel(timer);
        } else if !cx.is_set(timer.clone()) {
            let at = cx.mono() + cx.config().journal.retry_interval;
            cx.wake(timer, at);
        }
    }

    /// Everything ends: this node is finished.
    pub(crate) fn halt(&mut self, cx: &mut Cx<'_>) {
        self.halted = true;
        for (_, log) in core::mem::take(&mut self.logs) {
            log.end(cx, AnyError::Stopped);
        }
    }
}

fn answer(cx: &mut Cx<'_>, caller: Option<Caller>, answer: Answer) {
    if let Some(caller) = caller {
        cx.reply(caller, AnyAnswer::Journal(answer));
    }
}

/// A rest that is drawn, so that two who open do not refuse each other for ever. None after the first
/// refusal: that says only how high the token has to be.
fn rest(cx: &mut Cx<'_>, attempt: u32) -> Duration {
    let Some(doublings) = attempt.checked_sub(2) else {
        return Duration::ZERO;
    };
    let longest = REST_MIN.saturating_mul(1 << doublings.min(10)).min(REST_MAX);
    let micros = usize::try_from(longest.as_micros()).unwrap_or(usize::MAX);
    Duration::from_micros(rng::below(cx.rng(), micros) as u64)
}

fn bounds(config: &ValidConfig) -> WriterBounds {
    let journal = &config.journal;
    WriterBounds {
        page_bytes: journal.page_bytes,
        append_bytes_max: append_bytes_max(config),
        log_bytes_max: journal.log_bytes_max,
        attempts_max: ATTEMPTS_MAX,
    }
}

/// The bytes of one append: what fits into a frame, with what stands around it, and into every store.
fn append_bytes_max(config: &ValidConfig) -> usize {
    let frame = config.limits.bulk_frame_bytes_max.saturating_sub(HEADER_BYTES);
    frame.min(super::protocol::REQUEST_BYTES_MAX)
}
