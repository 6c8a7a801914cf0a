//! The one owner of a log: claims it, replays what it holds, appends one thing at a time, puts a snapshot in
//! the place of records, and begins anew when it was outdone. A value without a clock and without I/O: its
//! host does what it asks ([`LogRequest`]), hands the answer in and learns what that means ([`LogProgress`]).
//! Knows neither what records mean nor who keeps the log. Spec: sharding 1.1, 1.5, 10.7, 10.16.
//!
//! | stage | asked | it ends with |
//! |---|---|---|
//! | closed | nothing | [`LogOwner::claim`] |
//! | claiming | the log | [`LogOwner::on_claimed`], or all at once [`LogOwner::on_opened`] |
//! | reading the snapshot, replaying | what it holds | [`LogOwner::on_snapshot`], [`LogOwner::on_records`] |
//! | idle | nothing | [`LogOwner::append`], [`LogOwner::keep`], [`LogOwner::forget`] |
//! | appending | these records | [`LogOwner::on_appended`] |
//! | keeping, forgetting | this | [`LogOwner::on_kept`] |
//! | ended: outdone or damaged | nothing | [`LogOwner::claim`], [`LogOwner::close`] |
//!
//! Every one that has asked something ends with [`LogOwner::on_failed`] as well:
//!
//! * outdone by another owner: it is lost, in every stage;
//! * full: a snapshot makes room, unless there was one just now;
//! * not known whether it is written: the same is asked again ([`LogOwner::again`]), and nothing else until
//!   its outcome is known;
//! * surely not done: what was to be written is given back;
//! * damaged: nothing is decided by it. A record that is missing may have been covered by a later owner's
//!   snapshot while it was read: the log is damaged only if one is missing again once it was claimed anew.
//!
//! `W` is what an owner notes about the append that is on its way. [`QuorumLog`] is the owner of a log that a
//! majority of stores keeps.

mod quorum;
#[cfg(test)]
mod tests;
mod words;

use alloc::vec::Vec;
use core::mem;

pub use self::quorum::QuorumLog;
pub use self::words::{LogFault, LogProgress, LogRequest, Replay, ReplayedPart, UnreadableLog};
use crate::journal::state::{NUMBER_MAX, OpenedLog};
use crate::store::{Bytes, LogState, Record, Sequence, Snapshot};

/// What of a log there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogExtent {
    /// The first record that is there; one more than `last` if none is.
    pub first: Sequence,
    /// The last record that was ever appended; 0 if none was.
    pub last: Sequence,
    /// The last record that the snapshot covers; 0 without one.
    pub covered: Sequence,
    /// Bytes of the records that were replayed or appended, and that no snapshot covers.
    pub bytes_behind: usize,
}

impl LogExtent {
    /// Records that are there, and that no snapshot covers.
    #[must_use]
    pub fn behind(&self) -> u64 {
        self.last
            .saturating_sub(self.covered.max(self.first.saturating_sub(1)))
    }
}

#[derive(Clone, Debug)]
enum OwnerStage<W> {
    Closed,
    Claiming,
    /// What lies before `from` is not needed.
    ReadingSnapshot {
        from: Sequence,
    },
    /// This record is the next.
    Replaying {
        next: Sequence,
    },
    Idle,
    Appending {
        what: W,
        records: Vec<Bytes>,
        upkeep: bool,
        /// This, or the same asked earlier, may be done.
        is_unknown: bool,
    },
    Keeping,
    Forgetting {
        through: Sequence,
    },
    /// It is not this owner's, and who keeps it has not been told so.
    Ended,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct LogOwner<W> {
    stage: OwnerStage<W>,
    extent: LogExtent,
    /// An append was refused because there is no room, and no snapshot was kept since.
    is_full: bool,
    /// A record was missing when the log was replayed, for which it was claimed once more.
    has_missed: bool,
}

impl<W> Default for LogOwner<W> {
    fn default() -> Self {
        Self {
            stage: OwnerStage::Closed,
            extent: LogExtent::default(),
            is_full: false,
            has_missed: false,
        }
    }
}

impl<W> LogOwner<W> {
    /// Claims the log, whatever it was doing: what is on its way is not waited for.
    pub fn claim(&mut self) -> LogRequest {
        *self = Self {
            stage: OwnerStage::Claiming,
            ..Self::default()
        };
        LogRequest::Claim
    }

    /// Owns the log no more; `None` if that was said before.
    pub fn close(&mut self) -> Option<LogRequest> {
        match mem::replace(&mut self.stage, OwnerStage::Closed) {
            OwnerStage::Closed => None,
            OwnerStage::Claiming
            | OwnerStage::ReadingSnapshot { .. }
            | OwnerStage::Replaying { .. }
            | OwnerStage::Idle
            | OwnerStage::Appending { .. }
            | OwnerStage::Keeping
            | OwnerStage::Forgetting { .. }
            | OwnerStage::Ended => Some(LogRequest::Close),
        }
    }

    /// Adds records as one, at least one of them.
    ///
    /// # Panics
    /// The log is not [idle](Self::is_idle): its owner has lost track of what it asked.
    pub fn append(&mut self, what: W, records: Vec<Bytes>, upkeep: bool) -> LogRequest {
        assert!(self.is_idle(), "an append waits for what was asked before");
        let request = self.request_append(&records, upkeep);
        self.stage = OwnerStage::Appending {
            what,
            records,
            upkeep,
            is_unknown: false,
        };
        request
    }

    /// Keeps what all records amount to.
    ///
    /// # Panics
    /// As [`Self::append`].
    pub fn keep(&mut self, state: Bytes) -> LogRequest {
        assert!(self.is_idle(), "a snapshot waits for what was asked before");
        self.stage = OwnerStage::Keeping;
        let covers = self.extent.last;
        LogRequest::Keep { covers, state }
    }

    /// Forgets the records up to and with `through`, which something later says as well.
    ///
    /// # Panics
    /// As [`Self::append`].
    pub fn forget(&mut self, through: Sequence) -> LogRequest {
        assert!(self.is_idle(), "records stay until what was asked before is done");
        self.stage = OwnerStage::Forgetting { through };
        LogRequest::Forget { through }
    }

    /// The same once more, after [`LogProgress::Again`]: the same append, or the log is claimed anew if it
    /// was being opened.
    pub fn again(&mut self) -> Option<LogRequest> {
        match &self.stage {
            OwnerStage::Appending { records, upkeep, .. } => Some(self.request_append(records, *upkeep)),
            OwnerStage::Claiming | OwnerStage::ReadingSnapshot { .. } | OwnerStage::Replaying { .. } => {
                Some(self.claim())
            }
            OwnerStage::Closed
            | OwnerStage::Idle
            | OwnerStage::Keeping
            | OwnerStage::Forgetting { .. }
            | OwnerStage::Ended => None,
        }
    }

    /// What was to be written, if it surely is not: it is not asked again.
    pub fn take_back(&mut self) -> Option<W> {
        if let OwnerStage::Appending { is_unknown: true, .. } = self.stage {
            return None;
        }
        self.take_appending().map(|(what, _)| what)
    }

    /// The log is this owner's, and holds so much. What lies before `from` is not needed.
    pub fn on_claimed(&mut self, found: LogState, from: Sequence, replay: &mut Replay<'_>) -> LogProgress<W> {
        let OwnerStage::Claiming = self.stage else {
            return LogProgress::Passed;
        };
        self.extent = LogExtent {
            first: found.first,
            last: found.last,
            covered: found.snapshot.unwrap_or(0),
            bytes_behind: 0,
        };
        // No log has so many records: whoever says so, a number behind the last one could not be counted.
        let is_countable = found.last <= NUMBER_MAX && self.extent.covered <= NUMBER_MAX;
        if !is_countable || replay(ReplayedPart::Beginning).is_err() {
            return self.damaged();
        }
        if found.snapshot.is_none() {
            return self.read_from(from);
        }
        self.stage = OwnerStage::ReadingSnapshot { from };
        LogProgress::Ask(LogRequest::ReadSnapshot)
    }

    /// The newest snapshot.
    pub fn on_snapshot(&mut self, snapshot: Option<&Snapshot>, replay: &mut Replay<'_>) -> LogProgress<W> {
        let OwnerStage::ReadingSnapshot { from } = self.stage else {
            return LogProgress::Passed;
        };
        match snapshot {
            None => self.missing(),
            // A later owner's.
            Some(snapshot) if snapshot.through > self.extent.last => LogProgress::Again { is_unknown: false },
            Some(snapshot) => {
                self.extent.covered = snapshot.through;
                match replay(ReplayedPart::Snapshot(snapshot)) {
                    Ok(()) => self.read_from(from),
                    Err(UnreadableLog) => self.damaged(),
                }
            }
        }
    }

    /// Records, the first of which was asked for.
    pub fn on_records(&mut self, records: &[Record], replay: &mut Replay<'_>) -> LogProgress<W> {
        let OwnerStage::Replaying { mut next } = self.stage else {
            return LogProgress::Passed;
        };
        if records
            .first()
            .is_none_or(|record| record.sequence > self.extent.last)
        {
            return self.missing();
        }
        // What is behind the end that the claim found is somebody else's, who refuses this owner.
        let end = self.extent.last;
        for record in records.iter().take_while(|record| record.sequence <= end) {
            if record.sequence != next {
                return self.missing();
            }
            if replay(ReplayedPart::Record(record)).is_err() {
                return self.damaged();
            }
            self.extent.bytes_behind = self.extent.bytes_behind.saturating_add(record.bytes.len());
            next += 1;
        }
        self.read_on(next)
    }

    /// The log is this owner's, and this is all that it holds.
    pub fn on_opened(&mut self, opened: &OpenedLog, replay: &mut Replay<'_>) -> LogProgress<W> {
        let behind = opened.last.saturating_add(1);
        let first = opened.records.first().map_or(behind, |record| record.sequence);
        let snapshot = opened.snapshot.as_ref();
        let found = LogState {
            first,
            last: opened.last,
            snapshot: snapshot.map(|snapshot| snapshot.through),
        };
        // Nobody can have trimmed it meanwhile: what is missing was never there.
        self.has_missed = true;
        let from = if snapshot.is_some() { 0 } else { first };
        let mut progress = self.on_claimed(found, from, replay);
        if let LogProgress::Ask(LogRequest::ReadSnapshot) = progress {
            progress = self.on_snapshot(snapshot, replay);
        }
        if let LogProgress::Ask(LogRequest::Read { .. }) = progress {
            progress = self.on_records(&opened.records, replay);
        }
        // It ends before its last record, or its snapshot is of what it has not.
        if matches!(progress, LogProgress::Ask(_) | LogProgress::Again { .. }) {
            return self.damaged();
        }
        progress
    }

    /// What was appended is durable.
    pub fn on_appended(&mut self) -> LogProgress<W> {
        let Some((what, records)) = self.take_appending() else {
            return LogProgress::Passed;
        };
        self.extent.last += records.len() as u64;
        let bytes: usize = records.iter().map(|record| record.len()).sum();
        self.extent.bytes_behind = self.extent.bytes_behind.saturating_add(bytes);
        LogProgress::Appended(what)
    }

    /// The snapshot is kept, or the records are forgotten.
    pub fn on_kept(&mut self) -> LogProgress<W> {
        match self.stage {
            OwnerStage::Keeping => self.extent.covered = self.extent.last,
            OwnerStage::Forgetting { through } => {
                self.extent.first = self.extent.first.max(through.saturating_add(1));
            }
            OwnerStage::Closed
            | OwnerStage::Claiming
            | OwnerStage::ReadingSnapshot { .. }
            | OwnerStage::Replaying { .. }
            | OwnerStage::Idle
            | OwnerStage::Appending { .. }
            | OwnerStage::Ended => return LogProgress::Passed,
        }
        self.extent.bytes_behind = 0;
        self.is_full = false;
        self.stage = OwnerStage::Idle;
        LogProgress::Trimmed
    }

    /// What was asked is not done, or not known to be.
    pub fn on_failed(&mut self, fault: LogFault) -> LogProgress<W> {
        match &mut self.stage {
            OwnerStage::Closed | OwnerStage::Idle | OwnerStage::Ended => LogProgress::Passed,
            OwnerStage::Appending { is_unknown, .. } => {
                *is_unknown |= fault.may_be_done();
                let is_unknown = *is_unknown;
                self.append_failed(fault, is_unknown)
            }
            OwnerStage::Keeping | OwnerStage::Forgetting { .. } => match fault {
                LogFault::Outdone { .. } => self.lost(false),
                LogFault::Damaged => self.damaged(),
                LogFault::Full
                | LogFault::Corrupt
                | LogFault::Unknown
                | LogFault::Later
                | LogFault::Never => {
                    self.stage = OwnerStage::Idle;
                    LogProgress::NotDone(None, fault)
                }
            },
            OwnerStage::Claiming | OwnerStage::ReadingSnapshot { .. } | OwnerStage::Replaying { .. } => {
                match fault {
                    LogFault::Outdone { .. } => self.lost(false),
                    LogFault::Damaged | LogFault::Corrupt => self.damaged(),
                    LogFault::Unknown | LogFault::Later => LogProgress::Again { is_unknown: false },
                    LogFault::Full | LogFault::Never => {
                        self.stage = OwnerStage::Ended;
                        LogProgress::NotDone(None, fault)
                    }
                }
            }
        }
    }

    /// What of the log there is.
    #[must_use]
    pub const fn extent(&self) -> LogExtent {
        self.extent
    }

    /// Whether the log is this owner's, and nothing is on its way.
    #[must_use]
    pub const fn is_idle(&self) -> bool {
        matches!(self.stage, OwnerStage::Idle)
    }

    /// Whether nothing is asked, because the log is not this owner's.
    #[must_use]
    pub const fn is_closed(&self) -> bool {
        matches!(self.stage, OwnerStage::Closed | OwnerStage::Ended)
    }

    /// Whether it is being claimed or read.
    #[must_use]
    pub const fn is_opening(&self) -> bool {
        matches!(
            self.stage,
            OwnerStage::Claiming | OwnerStage::ReadingSnapshot { .. } | OwnerStage::Replaying { .. }
        )
    }

    /// Whether something is on its way into the log.
    #[must_use]
    pub const fn is_writing(&self) -> bool {
        matches!(
            self.stage,
            OwnerStage::Appending { .. } | OwnerStage::Keeping | OwnerStage::Forgetting { .. }
        )
    }

    /// Whether a snapshot is to take the place of the records, of which there may be so many, before anything
    /// is appended.
    #[must_use]
    pub fn needs_snapshot(&self, records: usize) -> bool {
        self.is_full || self.extent.behind() >= records.max(1) as u64
    }

    fn request_append(&self, records: &[Bytes], upkeep: bool) -> LogRequest {
        LogRequest::Append {
            expected: self.extent.last,
            records: records.to_vec(),
            upkeep,
        }
    }

    /// What is being appended, and the log is idle.
    fn take_appending(&mut self) -> Option<(W, Vec<Bytes>)> {
        let is_appending = matches!(self.stage, OwnerStage::Appending { .. });
        let stage = is_appending.then(|| mem::replace(&mut self.stage, OwnerStage::Idle))?;
        let OwnerStage::Appending { what, records, .. } = stage else {
            return None;
        };
        Some((what, records))
    }

    fn append_failed(&mut self, fault: LogFault, is_unknown: bool) -> LogProgress<W> {
        match fault {
            LogFault::Outdone { .. } => self.lost(is_unknown),
            LogFault::Damaged => self.damaged(),
            LogFault::Full | LogFault::Corrupt | LogFault::Never if !is_unknown => {
                let makes_room = fault == LogFault::Full && !self.is_full && self.extent.behind() > 0;
                match self.take_appending() {
                    Some((what, _)) if makes_room => {
                        self.is_full = true;
                        LogProgress::Full(what)
                    }
                    what => LogProgress::NotDone(what.map(|(what, _)| what), fault),
                }
            }
            LogFault::Full | LogFault::Corrupt | LogFault::Never | LogFault::Unknown | LogFault::Later => {
                LogProgress::Again { is_unknown }
            }
        }
    }

    /// Reads what the snapshot does not cover, from here on.
    fn read_from(&mut self, from: Sequence) -> LogProgress<W> {
        self.read_on(from.max(self.extent.covered.saturating_add(1)))
    }

    fn read_on(&mut self, next: Sequence) -> LogProgress<W> {
        if next > self.extent.last {
            self.stage = OwnerStage::Idle;
            return LogProgress::Opened;
        }
        self.stage = OwnerStage::Replaying { next };
        LogProgress::Ask(LogRequest::Read { from: next })
    }

    /// Something that should be there is not.
    fn missing(&mut self) -> LogProgress<W> {
        if self.has_missed {
            return self.damaged();
        }
        let request = self.claim();
        self.has_missed = true;
        LogProgress::Ask(request)
    }

    fn damaged(&mut self) -> LogProgress<W> {
        self.stage = OwnerStage::Ended;
        LogProgress::Damaged
    }

    fn lost(&mut self, is_unknown: bool) -> LogProgress<W> {
        let what = self.take_appending().map(|(what, _)| what);
        self.stage = OwnerStage::Ended;
        LogProgress::Lost { what, is_unknown }
    }
}

impl LogFault {
    /// Whether what was asked may be done although nobody said so.
    const fn may_be_done(self) -> bool {
        match self {
            Self::Unknown => true,
            Self::Outdone { may_be_done } => may_be_done,
            Self::Full | Self::Damaged | Self::Corrupt | Self::Later | Self::Never => false,
        }
    }
}
