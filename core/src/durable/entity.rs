//! One durable entity, from claiming its log until somebody else owns it: recovers however long that takes,
//! appends one thing at a time and the same until it is known what became of it, keeps snapshots when they
//! are due. Never reads a clock, and never looks into a record. Spec: sharding 10.7.

use alloc::vec::Vec;
use core::mem;
use core::time::Duration;

use super::failure::DurableFailure;
use super::retention::{LogRetention, RetentionKeeps};
use super::trouble::StoreTrouble;
use crate::log::{LogExtent, LogFault, LogOwner, LogProgress, LogRequest, Replay, ReplayedPart};
use crate::store::{Bytes, LogState, Record, Sequence, Snapshot, StoreError};

/// A snapshot that could not be kept is tried again after so many records at most.
const RETAIN_AGAIN: u64 = 100;

/// What the host does next. It does one at a time, and hands in what came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "an entity goes no further by itself"]
pub enum DurableStep {
    /// Nothing: that was not waited for.
    Nothing,
    /// Ask the keeper of the log for this. Whether anything else is handled meanwhile is the host's business;
    /// no command is.
    Ask(LogRequest),
    /// Wait, then call [`DurableMachine::on_waited`].
    Wait(DurablePause),
    /// The log is read to its end: commands are handled now.
    Recovered,
    /// What was to be written is durable.
    Durable,
    /// It is surely not, and the entity goes on.
    NotDone(DurableFailure),
    /// A snapshot is due before anything else, because the log is full: call [`DurableMachine::retain`].
    MakeRoom,
    /// The snapshot is kept and what it makes needless is gone, or that is tried again some records later.
    Retained,
    /// Somebody else owns the log: the entity ends, and who asked hears this.
    Stopped(DurableFailure),
}

/// A pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DurablePause {
    /// For so long.
    pub pause: Duration,
    /// What whoever has a command here, or sends one meanwhile, is told; nothing while it is short.
    pub told: Option<DurableFailure>,
    /// What is in the way.
    pub why: RecoveryError,
    /// What is being written may be durable all the same. Nothing is, while it recovers.
    pub is_unknown: bool,
}

/// Why an entity cannot be recovered now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecoveryError {
    /// What the store says.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// What it says cannot be read.
    #[error("the log holds a record that cannot be read")]
    Unreadable,
    /// The log has a gap, also when it was read once more.
    #[error("the log lacks a record or a snapshot")]
    Missing,
    /// It was read while somebody else wrote it.
    #[error("another incarnation took the log over while it was read")]
    Overtaken,
    /// The host's own: [`DurableMachine::hinder`].
    #[error("{0}")]
    Host(DurableFailure),
}

impl RecoveryError {
    /// What is said to who asks.
    #[must_use]
    pub const fn failure(self) -> DurableFailure {
        match self {
            Self::Store(error) => DurableFailure::by(error),
            Self::Unreadable => DurableFailure::Unreadable,
            Self::Missing => DurableFailure::Damaged,
            Self::Overtaken => DurableFailure::Fenced,
            Self::Host(failure) => failure,
        }
    }

    /// Whether waiting for a moment may help: then nobody is told anything for that moment.
    const fn may_pass(self) -> bool {
        match self {
            Self::Store(error) => match error {
                StoreError::Busy
                | StoreError::Unavailable
                | StoreError::OutcomeUnknown
                | StoreError::Fenced { .. }
                | StoreError::SequenceConflict { .. } => true,
                StoreError::NoStore | StoreError::Full | StoreError::TooLarge | StoreError::Corrupt => false,
            },
            Self::Overtaken => true,
            Self::Unreadable | Self::Missing | Self::Host(_) => false,
        }
    }
}

#[derive(Clone, Debug)]
enum DurableStage {
    /// The log is claimed and read, or will be after a pause.
    Recovering,
    Running,
    /// Records are on their way, or will be after a pause.
    Writing {
        /// It did not fit, and room was made for it.
        has_made_room: bool,
    },
    /// The log is full: a snapshot is due, behind which these are written.
    MakingRoom {
        then: Vec<Bytes>,
    },
    /// A snapshot is on its way.
    Keeping {
        /// What did not fit, and is written behind it.
        then: Option<Vec<Bytes>>,
    },
    /// What a snapshot or the last record makes needless is being forgotten.
    Forgetting {
        then: Option<Vec<Bytes>>,
    },
    Stopped,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct DurableMachine {
    stage: DurableStage,
    /// With the records that are being written, where a snapshot can make room for them.
    log: LogOwner<Vec<Bytes>>,
    retention: LogRetention,
    /// The log can be full while its store is not.
    has_an_end: bool,
    trouble: StoreTrouble,
    /// A snapshot that could not be kept is tried again behind this record.
    not_before: Sequence,
}

impl DurableMachine {
    /// One that has to recover. `has_an_end`: its log can be full while the store is not, and then a snapshot
    /// makes room.
    #[must_use]
    pub fn new(retention: LogRetention, has_an_end: bool) -> Self {
        Self {
            stage: DurableStage::Recovering,
            log: LogOwner::default(),
            retention,
            has_an_end,
            trouble: StoreTrouble::default(),
            not_before: 0,
        }
    }

    /// Begins: claims the log, before anything of it is read.
    pub fn begin(&mut self) -> DurableStep {
        self.stage = DurableStage::Recovering;
        self.trouble = StoreTrouble::default();
        DurableStep::Ask(self.log.claim())
    }

    /// Something of the host's keeps it from its log: tried again later, from the beginning.
    pub fn hinder(&mut self, failure: DurableFailure) -> DurableStep {
        match self.stage {
            DurableStage::Recovering => self.wait(RecoveryError::Host(failure)),
            DurableStage::Running
            | DurableStage::Writing { .. }
            | DurableStage::MakingRoom { .. }
            | DurableStage::Keeping { .. }
            | DurableStage::Forgetting { .. }
            | DurableStage::Stopped => DurableStep::Nothing,
        }
    }

    /// The log is claimed, and holds so much. `replay` hears what it holds, from the beginning.
    pub fn on_claimed(&mut self, found: LogState, replay: &mut Replay<'_>) -> DurableStep {
        let from = match self.retention.keeps {
            RetentionKeeps::Last => found.last,
            RetentionKeeps::Everything | RetentionKeeps::BehindSnapshot => 0,
        };
        self.replay(replay, |log, replay| log.on_claimed(found, from, replay))
    }

    /// The newest snapshot was read.
    pub fn on_snapshot(&mut self, snapshot: Option<&Snapshot>, replay: &mut Replay<'_>) -> DurableStep {
        self.replay(replay, |log, replay| log.on_snapshot(snapshot, replay))
    }

    /// Records were read.
    pub fn on_records(&mut self, records: &[Record], replay: &mut Replay<'_>) -> DurableStep {
        self.replay(replay, |log, replay| log.on_records(records, replay))
    }

    fn replay(
        &mut self,
        replay: &mut Replay<'_>,
        found: impl FnOnce(&mut LogOwner<Vec<Bytes>>, &mut Replay<'_>) -> LogProgress<Vec<Bytes>>,
    ) -> DurableStep {
        let mut is_readable = true;
        let progress = found(&mut self.log, &mut |found: ReplayedPart<'_>| {
            let taken = replay(found);
            is_readable &= taken.is_ok();
            taken
        });
        match progress {
            LogProgress::Ask(request) => DurableStep::Ask(request),
            LogProgress::Opened => {
                self.stage = DurableStage::Running;
                self.trouble = StoreTrouble::default();
                DurableStep::Recovered
            }
            LogProgress::Again { .. } | LogProgress::Lost { .. } => self.wait(RecoveryError::Overtaken),
            LogProgress::Damaged if is_readable => self.wait(RecoveryError::Missing),
            LogProgress::Damaged => self.wait(RecoveryError::Unreadable),
            LogProgress::Passed
            | LogProgress::Appended(_)
            | LogProgress::Trimmed
            | LogProgress::Full(_)
            | LogProgress::NotDone(..) => DurableStep::Nothing,
        }
    }

    /// Writes records, at least one, behind all others.
    ///
    /// # Panics
    /// It is not [running](Self::is_running): its host has lost track of its steps.
    pub fn write(&mut self, records: Vec<Bytes>) -> DurableStep {
        assert!(self.is_running(), "one thing is written at a time");
        self.trouble = StoreTrouble::default();
        self.append(records, false)
    }

    fn append(&mut self, records: Vec<Bytes>, has_made_room: bool) -> DurableStep {
        self.stage = DurableStage::Writing { has_made_room };
        let can_make_room = self.has_an_end && !has_made_room;
        let kept = if can_make_room {
            records.clone()
        } else {
            Vec::new()
        };
        DurableStep::Ask(self.log.append(kept, records, false))
    }

    /// What was appended is durable.
    pub fn on_appended(&mut self) -> DurableStep {
        match self.log.on_appended() {
            LogProgress::Appended(_) => {
                self.stage = DurableStage::Running;
                DurableStep::Durable
            }
            LogProgress::Passed
            | LogProgress::Ask(_)
            | LogProgress::Opened
            | LogProgress::Trimmed
            | LogProgress::Full(_)
            | LogProgress::NotDone(..)
            | LogProgress::Again { .. }
            | LogProgress::Damaged
            | LogProgress::Lost { .. } => DurableStep::Nothing,
        }
    }

    /// What was asked is not done, or not known to be.
    pub fn on_failed(&mut self, error: StoreError) -> DurableStep {
        let progress = self.log.on_failed(LogFault::from(error));
        match self.stage {
            DurableStage::Recovering => match progress {
                LogProgress::Passed => DurableStep::Nothing,
                LogProgress::Ask(_)
                | LogProgress::Opened
                | LogProgress::Appended(_)
                | LogProgress::Trimmed
                | LogProgress::Full(_)
                | LogProgress::NotDone(..)
                | LogProgress::Again { .. }
                | LogProgress::Damaged
                | LogProgress::Lost { .. } => self.wait(RecoveryError::Store(error)),
            },
            DurableStage::Writing { has_made_room } => self.not_written(progress, error, has_made_room),
            DurableStage::Keeping { .. } | DurableStage::Forgetting { .. } => match progress {
                LogProgress::Lost { .. } | LogProgress::Damaged => self.stop(DurableFailure::by(error)),
                LogProgress::NotDone(..) => self.not_retained(),
                LogProgress::Passed
                | LogProgress::Ask(_)
                | LogProgress::Opened
                | LogProgress::Appended(_)
                | LogProgress::Trimmed
                | LogProgress::Full(_)
                | LogProgress::Again { .. } => DurableStep::Nothing,
            },
            DurableStage::Running | DurableStage::MakingRoom { .. } | DurableStage::Stopped => {
                DurableStep::Nothing
            }
        }
    }

    fn not_written(
        &mut self,
        progress: LogProgress<Vec<Bytes>>,
        error: StoreError,
        has_made_room: bool,
    ) -> DurableStep {
        match progress {
            LogProgress::Lost { is_unknown, .. } => self.stop(if is_unknown {
                DurableFailure::FencedUnknown
            } else {
                DurableFailure::Fenced
            }),
            LogProgress::Damaged => self.stop(DurableFailure::by(error)),
            LogProgress::Again { is_unknown: false } if self.trouble.is_long() => {
                self.log.take_back();
                self.not_done(DurableFailure::Unavailable)
            }
            LogProgress::Again { is_unknown } => {
                let told = self.trouble.is_long().then_some(DurableFailure::Unavailable);
                DurableStep::Wait(DurablePause {
                    pause: self.trouble.pause(),
                    told,
                    why: RecoveryError::Store(error),
                    is_unknown,
                })
            }
            LogProgress::Full(records) | LogProgress::NotDone(Some(records), LogFault::Full)
                if self.has_an_end && !has_made_room && self.can_retain() =>
            {
                self.stage = DurableStage::MakingRoom { then: records };
                DurableStep::MakeRoom
            }
            LogProgress::Full(_) | LogProgress::NotDone(..) => self.not_done(DurableFailure::by(error)),
            LogProgress::Passed
            | LogProgress::Ask(_)
            | LogProgress::Opened
            | LogProgress::Appended(_)
            | LogProgress::Trimmed => DurableStep::Nothing,
        }
    }

    fn not_done(&mut self, failure: DurableFailure) -> DurableStep {
        self.stage = DurableStage::Running;
        DurableStep::NotDone(failure)
    }

    fn stop(&mut self, failure: DurableFailure) -> DurableStep {
        self.stage = DurableStage::Stopped;
        DurableStep::Stopped(failure)
    }

    /// What is in the way, and for how long it waits until it begins anew.
    fn wait(&mut self, why: RecoveryError) -> DurableStep {
        let is_said = self.trouble.is_long() || !why.may_pass();
        DurableStep::Wait(DurablePause {
            pause: self.trouble.pause(),
            told: is_said.then(|| why.failure()),
            why,
            is_unknown: false,
        })
    }

    /// The pause is over.
    pub fn on_waited(&mut self) -> DurableStep {
        match self.stage {
            DurableStage::Recovering => DurableStep::Ask(self.log.claim()),
            DurableStage::Writing { .. } => self.log.again().map_or(DurableStep::Nothing, DurableStep::Ask),
            DurableStage::Running
            | DurableStage::MakingRoom { .. }
            | DurableStage::Keeping { .. }
            | DurableStage::Forgetting { .. }
            | DurableStage::Stopped => DurableStep::Nothing,
        }
    }

    /// Whether a snapshot is to be kept now, or what the last record has made needless deleted.
    #[must_use]
    pub const fn is_due(&self) -> bool {
        let LogExtent {
            first,
            last,
            covered,
            bytes_behind,
        } = self.log.extent();
        let behind = match self.retention.keeps {
            RetentionKeeps::Everything | RetentionKeeps::BehindSnapshot => last.saturating_sub(covered),
            RetentionKeeps::Last => last.saturating_sub(first),
        };
        last >= self.not_before
            && (behind >= self.retention.events || (behind > 0 && bytes_behind >= self.retention.bytes))
    }

    /// Keeps what all records amount to, or deletes what the last one has made needless. What cannot be done
    /// now is tried again some records later: nothing is lost by it. `state` is asked where there are
    /// snapshots; `None`: it is too large to be kept.
    pub fn retain(&mut self, state: impl FnOnce() -> Option<Bytes>) -> DurableStep {
        let then = match mem::replace(&mut self.stage, DurableStage::Running) {
            DurableStage::Running => None,
            DurableStage::MakingRoom { then } => Some(then),
            other @ (DurableStage::Recovering
            | DurableStage::Writing { .. }
            | DurableStage::Keeping { .. }
            | DurableStage::Forgetting { .. }
            | DurableStage::Stopped) => {
                self.stage = other;
                return DurableStep::Nothing;
            }
        };
        match self.retention.keeps {
            RetentionKeeps::Last => self.forget(self.last().saturating_sub(1), then),
            RetentionKeeps::Everything | RetentionKeeps::BehindSnapshot => {
                self.stage = DurableStage::Keeping { then };
                match state() {
                    Some(state) => DurableStep::Ask(self.log.keep(state)),
                    None => self.not_retained(),
                }
            }
        }
    }

    fn forget(&mut self, through: Sequence, then: Option<Vec<Bytes>>) -> DurableStep {
        self.stage = DurableStage::Forgetting { then };
        DurableStep::Ask(self.log.forget(through))
    }

    /// The snapshot is kept, or records are forgotten.
    pub fn on_kept(&mut self) -> DurableStep {
        match self.log.on_kept() {
            LogProgress::Trimmed => match &mut self.stage {
                DurableStage::Keeping { then } if self.retention.keeps == RetentionKeeps::BehindSnapshot => {
                    let then = then.take();
                    self.forget(self.last(), then)
                }
                DurableStage::Keeping { .. }
                | DurableStage::Forgetting { .. }
                | DurableStage::MakingRoom { .. }
                | DurableStage::Recovering
                | DurableStage::Running
                | DurableStage::Writing { .. }
                | DurableStage::Stopped => self.retained(),
            },
            LogProgress::Passed
            | LogProgress::Ask(_)
            | LogProgress::Opened
            | LogProgress::Appended(_)
            | LogProgress::Full(_)
            | LogProgress::NotDone(..)
            | LogProgress::Again { .. }
            | LogProgress::Damaged
            | LogProgress::Lost { .. } => DurableStep::Nothing,
        }
    }

    fn not_retained(&mut self) -> DurableStep {
        self.not_before = self
            .last()
            .saturating_add(self.retention.events.min(RETAIN_AGAIN));
        self.retained()
    }

    fn retained(&mut self) -> DurableStep {
        match mem::replace(&mut self.stage, DurableStage::Running) {
            DurableStage::Keeping { then: Some(records) }
            | DurableStage::Forgetting { then: Some(records) } => self.append(records, true),
            DurableStage::Keeping { then: None }
            | DurableStage::Forgetting { then: None }
            | DurableStage::MakingRoom { .. }
            | DurableStage::Recovering
            | DurableStage::Running
            | DurableStage::Writing { .. }
            | DurableStage::Stopped => DurableStep::Retained,
        }
    }

    /// Whether a snapshot would make room.
    const fn can_retain(&self) -> bool {
        let LogExtent {
            first, last, covered, ..
        } = self.log.extent();
        match self.retention.keeps {
            RetentionKeeps::Everything | RetentionKeeps::BehindSnapshot => last > covered,
            RetentionKeeps::Last => last > first,
        }
    }

    /// Whether it handles commands, and nothing is on its way.
    #[must_use]
    pub const fn is_running(&self) -> bool {
        matches!(self.stage, DurableStage::Running)
    }

    /// The number of the last record.
    #[must_use]
    pub const fn last(&self) -> Sequence {
        self.log.extent().last
    }
}
