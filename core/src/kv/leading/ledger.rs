//! The table of a bucket's ranges where voters keep it: claimed and read before anything is decided, then one
//! change is appended at a time, and nobody is told of it before a majority of the voters has it. Who is
//! refused knows nothing any more, and claims it anew after a while. Decides nothing about owners. Spec:
//! sharding 10.7, 10.16, 10.19 a.

use alloc::format;
use alloc::sync::Arc;
use alloc::vec;
use core::time::Duration;

use super::LeadBucket;
use crate::effect::Answer as AnyAnswer;
use crate::journal::protocol::{Answer, Command, JournalCommandError};
use crate::journal::state::{TokenClaim, WriterError};
use crate::kv::protocol::Event;
use crate::kv::state::bucket::BucketName;
use crate::kv::state::table::{RangeLevels, RangeTable, TableChange};
use crate::kv::{Cx, KeyedStore};
use crate::log::{LogProgress, QuorumLog, ReplayedPart, UnreadableLog};
use crate::rng;
use crate::store::{Bytes, LogName};
use crate::time::Instant;

/// Changes that are left behind before the whole table takes their place: each is read by the next
/// coordinator.
const CHANGES_MAX: usize = 32;

/// How far the wait after a refusal grows, as a multiple of the first.
const REST_MAX: u32 = 5;

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct TableLedger {
    ranges: u16,
    levels: RangeLevels,
    log: QuorumLog<TableChange>,
    /// What the log holds, as it is read.
    read: RangeTable,
    /// The log was read; what it holds is for the coordinator, if it ever held anything.
    opened: Option<Option<RangeTable>>,
    /// What is decided and not on its way yet.
    waiting: Option<TableChange>,
    is_damaged: bool,
    rejections: u32,
    /// Until when a coordinator that was refused leaves the log alone.
    rest_until: Instant,
}

/// What the log's answer means.
enum TableProgress {
    /// Nothing, or there is room again.
    Passed,
    /// A change is kept.
    Kept,
    /// What the log holds is damaged.
    Damaged,
    /// It does not serve this coordinator.
    Refused,
}

impl TableLedger {
    /// Nothing is known yet.
    pub(super) fn new(bucket: &BucketName, ranges: u16, levels: RangeLevels) -> Self {
        Self {
            ranges,
            levels,
            log: QuorumLog::new(table_log(bucket)),
            read: RangeTable::new(),
            opened: None,
            waiting: None,
            is_damaged: false,
            rejections: 0,
            rest_until: Instant::ZERO,
        }
    }

    fn on_answer(&mut self, answer: &Result<Answer, JournalCommandError>) -> TableProgress {
        let (ranges, levels, read) = (self.ranges, self.levels, &mut self.read);
        let mut replay = |found: ReplayedPart<'_>| {
            let change = found.bytes().map(|bytes| TableChange::from_bytes(bytes));
            let change = change.transpose().map_err(|_| UnreadableLog)?;
            match (found, change) {
                (ReplayedPart::Record(_), Some(change)) => read.apply(fitting(change, ranges, levels)),
                (_, change) => {
                    *read = RangeTable::new();
                    read.apply(fitting(change.unwrap_or_default(), ranges, levels));
                }
            }
            Ok(())
        };
        match self.log.on_answer(answer, &mut replay) {
            LogProgress::Opened => {
                let is_written = self.log.owner().extent().last > 0;
                self.opened = Some(is_written.then(|| core::mem::take(&mut self.read)));
                TableProgress::Passed
            }
            LogProgress::Appended(_) => TableProgress::Kept,
            LogProgress::Full(change) => {
                self.waiting = Some(change);
                TableProgress::Passed
            }
            LogProgress::Damaged => TableProgress::Damaged,
            LogProgress::NotDone(..) | LogProgress::Again { .. } | LogProgress::Lost { .. } => {
                TableProgress::Refused
            }
            LogProgress::Trimmed | LogProgress::Passed | LogProgress::Ask(_) => TableProgress::Passed,
        }
    }
}

/// What was written when the bucket had other settings says nothing about it now.
fn fitting(mut change: TableChange, ranges: u16, levels: RangeLevels) -> TableChange {
    let fits = |range: u16, of: RangeLevels| range < ranges && of == levels;
    change
        .entries
        .retain(|(range, entry)| fits(range.0, entry.levels));
    change
}

/// How the log of a bucket's table is called. No entity's log is called so: their names begin with a kind's,
/// which has no `/` in it there.
#[must_use]
pub fn table_log(bucket: &BucketName) -> LogName {
    Arc::from(format!("/kv/{bucket}/ranges"))
}

impl LeadBucket {
    /// Claims the log, if voters keep the table and it is not this coordinator's.
    pub(super) fn claim_log(&mut self, cx: &mut Cx<'_>) {
        let now = cx.mono();
        let Some(ledger) = self.ledger.as_mut() else {
            return;
        };
        let is_due = ledger.log.owner().is_closed() && !ledger.is_damaged && now >= ledger.rest_until;
        if is_due && !self.coordinator.is_paused() {
            let command = ledger.log.open(rng::number(cx.rng()), TokenClaim::Term);
            cx.ask_log(ledger.log.opener(), command);
        }
    }

    /// Gives the log up.
    pub(in crate::kv) fn give_up_log(&mut self, cx: &mut Cx<'_>) {
        if let Some(ledger) = self.ledger.as_mut()
            && let Some(command) = ledger.log.close()
        {
            cx.ask_log(ledger.log.opener(), command);
        }
    }

    /// What voters keep, once it was read.
    pub(super) fn take_opened(&mut self) -> Option<Option<RangeTable>> {
        self.ledger.as_mut()?.opened.take()
    }

    /// This is decided, and to be kept before anybody hears of it.
    pub(super) fn keep(&mut self, change: TableChange) {
        if let Some(ledger) = self.ledger.as_mut() {
            ledger.waiting = Some(change);
        }
    }

    /// Has what is decided kept, unless something is on its way.
    pub(super) fn write(&mut self, cx: &mut Cx<'_>, bucket: &BucketName) {
        match self.next_write() {
            Ok(Some((opener, command))) => cx.ask_log(opener, command),
            Ok(None) => {}
            Err(error) => self.rest(cx, bucket, error),
        }
    }

    fn next_write(&mut self) -> Result<Option<(u64, Command)>, JournalCommandError> {
        let Some(ledger) = self.ledger.as_mut().filter(|ledger| ledger.log.owner().is_idle()) else {
            return Ok(None);
        };
        if ledger.waiting.is_none() {
            return Ok(None);
        }
        let written = |change: &TableChange| {
            let bytes = change.to_bytes().map(Bytes::from);
            bytes.map_err(|_| JournalCommandError::Refused(WriterError::TooLarge))
        };
        let command = if ledger.log.owner().needs_snapshot(CHANGES_MAX) {
            ledger.log.keep(written(&self.coordinator.table().whole())?)
        } else {
            let Some(change) = ledger.waiting.take() else {
                return Ok(None);
            };
            let record = written(&change)?;
            ledger.log.append(change, vec![record])
        };
        Ok(Some((ledger.log.opener(), command)))
    }

    fn on_log(&mut self, cx: &mut Cx<'_>, bucket: &BucketName, answer: &Result<Answer, JournalCommandError>) {
        let Some(ledger) = self.ledger.as_mut() else {
            return;
        };
        match (ledger.on_answer(answer), answer) {
            (TableProgress::Kept, _) => {
                ledger.rejections = 0;
                cx.counters().changes_kept += 1;
                self.coordinator.on_kept(cx.mono());
            }
            (TableProgress::Damaged, _) => {
                ledger.is_damaged = true;
                self.give_up_log(cx);
                cx.notify((bucket.clone(), Event::TableDamaged));
            }
            (TableProgress::Refused, Err(error)) => self.rest(cx, bucket, *error),
            (TableProgress::Passed | TableProgress::Refused, _) => {}
        }
    }

    /// The log does not serve this coordinator: another one has it, or cannot hold it. What was decided and
    /// not told is void.
    fn rest(&mut self, cx: &mut Cx<'_>, bucket: &BucketName, error: JournalCommandError) {
        self.give_up_log(cx);
        let first = cx.config().kv.repeat_interval;
        let Some(ledger) = self.ledger.as_mut() else {
            return;
        };
        ledger.rejections = ledger.rejections.saturating_add(1);
        ledger.waiting = None;
        ledger.opened = None;
        let wait = first.saturating_mul(ledger.rejections.min(REST_MAX));
        ledger.rest_until = cx.mono() + wait + drawn(cx, first);
        self.coordinator = self.coordinator.anew();
        self.is_announced = false;
        self.lookers.extend(self.members.keys().cloned());
        cx.counters().tables_refused += 1;
        cx.notify((bucket.clone(), Event::CoordinatorRefused { error }));
    }
}

/// A time up to this, so that two do not claim the log in step.
fn drawn(cx: &mut Cx<'_>, longest: Duration) -> Duration {
    let micros = usize::try_from(longest.as_micros()).unwrap_or(usize::MAX);
    Duration::from_micros(rng::below(cx.rng(), micros.max(1)) as u64)
}

impl KeyedStore {
    /// The quorum logs of this node answer who has opened one under this number.
    pub(crate) fn on_log_answer(&mut self, cx: &mut Cx<'_>, opener: u64, answer: AnyAnswer) {
        let Some(answer) = answer.of_log() else { return };
        let has_it = |lead: &LeadBucket| {
            let ledger = lead.ledger.as_ref();
            ledger.is_some_and(|ledger| ledger.log.opener() == opener && !ledger.log.owner().is_closed())
        };
        let found = self.leads.iter_mut().find(|(_, lead)| has_it(lead));
        let Some((bucket, lead)) = found else { return };
        let bucket = bucket.clone();
        lead.on_log(cx, &bucket, &answer);
        self.look_at_lead(cx, &bucket);
        self.await_next(cx);
    }
}
