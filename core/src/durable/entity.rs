//! One durable entity, from claiming its log until somebody else owns it: recovers however long that takes,
//! appends one thing at a time and the same until it is known what became of it, keeps snapshots when they
//! are due. Never reads a clock, and never looks into a record. Spec: sharding 10.7.

use alloc::vec::Vec;
use core::mem;
use core::time::Duration;

use super::failure::DurableFailure;
use super::retention::{Keeps, Retention};
use super::trouble::Trouble;
use crate::log::{Extent, Fault, Found, LogOwner, Progress, Replay, Request};
use crate::store::{Bytes, LogState, Record, Sequence, Snapshot, StoreError};

/// A snapshot that could not be kept is tried again after so many records at most.
const RETAIN_AGAIN: u64 = 100;

/// What the host does next. It does one at a time, and hands in what came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "an entity goes no further by itself"]
pub enum Step {
    /// Nothing: that was not waited for.
    Nothing,
    /// Ask the keeper of the log for this. Whether anything else is handled meanwhile is the host's business;
    /// no command is.
    Ask(Request),
    /// Wait, then call [`DurableEntity::on_waited`].
    Wait(Wait),
    /// The log is read to its end: commands are handled now.
    Recovered,
    /// What was to be written is durable.
    Durable,
    /// It is surely not, and the entity goes on.
    NotDone(DurableFailure),
    /// A snapshot is due before anything else, because the log is full: call [`DurableEntity::retain`].
    MakeRoom,
    /// The snapshot is kept and what it makes needless is gone, or that is tried again some records later.
    Retained,
    /// Somebody else owns the log: the entity ends, and who asked hears this.
    Stopped(DurableFailure),
}

/// A pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
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
    /// The host's own: [`DurableEntity::hinder`].
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
enum Stage {
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
pub struct DurableEntity {
    stage: Stage,
    /// With the records that are being written, where a snapshot can make room for them.
    log: LogOwner<Vec<Bytes>>,
    retention: Retention,
    /// The log can be full while its store is not.
    has_an_end: bool,
    trouble: Trouble,
    /// A snapshot that could not be kept is tried again behind this record.
    not_before: Sequence,
}

impl DurableEntity {
    /// One that has to recover. `has_an_end`: its log can be full while the store is not, and then a snapshot
    /// makes room.
    #[must_use]
    pub fn new(retention: Retention, has_an_end: bool) -> Self {
        Self {
            stage: Stage::Recovering,
            log: LogOwner::default(),
            retention,
            has_an_end,
            trouble: Trouble::default(),
            not_before: 0,
        }
    }

    /// Begins: claims the log, before anything of it is read.
    pub fn begin(&mut self) -> Step {
        self.stage = Stage::Recovering;
        self.trouble = Trouble::default();
        Step::Ask(self.log.claim())
    }

    /// Something of the host's keeps it from its log: tried again later, from the beginning.
    pub fn hinder(&mut self, failure: DurableFailure) -> Step {
        match self.stage {
            Stage::Recovering => self.wait(RecoveryError::Host(failure)),
            Stage::Running
            | Stage::Writing { .. }
            | Stage::MakingRoom { .. }
            | Stage::Keeping { .. }
            | Stage::Forgetting { .. }
            | Stage::Stopped => Step::Nothing,
        }
    }

    /// The log is claimed, and holds so much. `replay` hears what it holds, from the beginning.
    pub fn on_claimed(&mut self, found: LogState, replay: &mut Replay<'_>) -> Step {
        let from = match self.retention.keeps {
            Keeps::Last => found.last,
            Keeps::Everything | Keeps::BehindSnapshot => 0,
        };
        self.replay(replay, |log, replay| log.on_claimed(found, from, replay))
    }

    /// The newest snapshot was read.
    pub fn on_snapshot(&mut self, snapshot: Option<&Snapshot>, replay: &mut Replay<'_>) -> Step {
        self.replay(replay, |log, replay| log.on_snapshot(snapshot, replay))
    }

    /// Records were read.
    pub fn on_records(&mut self, records: &[Record], replay: &mut Replay<'_>) -> Step {
        self.replay(replay, |log, replay| log.on_records(records, replay))
    }

    fn replay(
        &mut self,
        replay: &mut Replay<'_>,
        found: impl FnOnce(&mut LogOwner<Vec<Bytes>>, &mut Replay<'_>) -> Progress<Vec<Bytes>>,
    ) -> Step {
        let mut is_readable = true;
        let progress = found(&mut self.log, &mut |found: Found<'_>| {
            let taken = replay(found);
            is_readable &= taken.is_ok();
            taken
        });
        match progress {
            Progress::Ask(request) => Step::Ask(request),
            Progress::Opened => {
                self.stage = Stage::Running;
                self.trouble = Trouble::default();
                Step::Recovered
            }
            Progress::Again { .. } | Progress::Lost { .. } => self.wait(RecoveryError::Overtaken),
            Progress::Damaged if is_readable => self.wait(RecoveryError::Missing),
            Progress::Damaged => self.wait(RecoveryError::Unreadable),
            Progress::Passed
            | Progress::Appended(_)
            | Progress::Trimmed
            | Progress::Full(_)
            | Progress::NotDone(..) => Step::Nothing,
        }
    }

    /// Writes records, at least one, behind all others.
    ///
    /// # Panics
    /// It is not [running](Self::is_running): its host has lost track of its steps.
    pub fn write(&mut self, records: Vec<Bytes>) -> Step {
        assert!(self.is_running(), "one thing is written at a time");
        self.trouble = Trouble::default();
        self.append(records, false)
    }

    fn append(&mut self, records: Vec<Bytes>, has_made_room: bool) -> Step {
        self.stage = Stage::Writing { has_made_room };
        let can_make_room = self.has_an_end && !has_made_room;
        let kept = if can_make_room {
            records.clone()
        } else {
            Vec::new()
        };
        Step::Ask(self.log.append(kept, records, false))
    }

    /// What was appended is durable.
    pub fn on_appended(&mut self) -> Step {
        match self.log.on_appended() {
            Progress::Appended(_) => {
                self.stage = Stage::Running;
                Step::Durable
            }
            Progress::Passed
            | Progress::Ask(_)
            | Progress::Opened
            | Progress::Trimmed
            | Progress::Full(_)
            | Progress::NotDone(..)
            | Progress::Again { .. }
            | Progress::Damaged
            | Progress::Lost { .. } => Step::Nothing,
        }
    }

    /// What was asked is not done, or not known to be.
    pub fn on_failed(&mut self, error: StoreError) -> Step {
        let progress = self.log.on_failed(Fault::from(error));
        match self.stage {
            Stage::Recovering => match progress {
                Progress::Passed => Step::Nothing,
                Progress::Ask(_)
                | Progress::Opened
                | Progress::Appended(_)
                | Progress::Trimmed
                | Progress::Full(_)
                | Progress::NotDone(..)
                | Progress::Again { .. }
                | Progress::Damaged
                | Progress::Lost { .. } => self.wait(RecoveryError::Store(error)),
            },
            Stage::Writing { has_made_room } => self.not_written(progress, error, has_made_room),
            Stage::Keeping { .. } | Stage::Forgetting { .. } => match progress {
                Progress::Lost { .. } | Progress::Damaged => self.stop(DurableFailure::by(error)),
                Progress::NotDone(..) => self.not_retained(),
                Progress::Passed
                | Progress::Ask(_)
                | Progress::Opened
                | Progress::Appended(_)
                | Progress::Trimmed
                | Progress::Full(_)
                | Progress::Again { .. } => Step::Nothing,
            },
            Stage::Running | Stage::MakingRoom { .. } | Stage::Stopped => Step::Nothing,
        }
    }

    fn not_written(
        &mut self,
        progress: Progress<Vec<Bytes>>,
        error: StoreError,
        has_made_room: bool,
    ) -> Step {
        match progress {
            Progress::Lost { is_unknown, .. } => self.stop(if is_unknown {
                DurableFailure::FencedUnknown
            } else {
                DurableFailure::Fenced
            }),
            Progress::Damaged => self.stop(DurableFailure::by(error)),
            Progress::Again { is_unknown: false } if self.trouble.is_long() => {
                self.log.take_back();
                self.not_done(DurableFailure::Unavailable)
            }
            Progress::Again { is_unknown } => {
                let told = self.trouble.is_long().then_some(DurableFailure::Unavailable);
                Step::Wait(Wait {
                    pause: self.trouble.pause(),
                    told,
                    why: RecoveryError::Store(error),
                    is_unknown,
                })
            }
            Progress::Full(records) | Progress::NotDone(Some(records), Fault::Full)
                if self.has_an_end && !has_made_room && self.can_retain() =>
            {
                self.stage = Stage::MakingRoom { then: records };
                Step::MakeRoom
            }
            Progress::Full(_) | Progress::NotDone(..) => self.not_done(DurableFailure::by(error)),
            Progress::Passed
            | Progress::Ask(_)
            | Progress::Opened
            | Progress::Appended(_)
            | Progress::Trimmed => Step::Nothing,
        }
    }

    fn not_done(&mut self, failure: DurableFailure) -> Step {
        self.stage = Stage::Running;
        Step::NotDone(failure)
    }

    fn stop(&mut self, failure: DurableFailure) -> Step {
        self.stage = Stage::Stopped;
        Step::Stopped(failure)
    }

    /// What is in the way, and for how long it waits until it begins anew.
    fn wait(&mut self, why: RecoveryError) -> Step {
        let is_said = self.trouble.is_long() || !why.may_pass();
        Step::Wait(Wait {
            pause: self.trouble.pause(),
            told: is_said.then(|| why.failure()),
            why,
            is_unknown: false,
        })
    }

    /// The pause is over.
    pub fn on_waited(&mut self) -> Step {
        match self.stage {
            Stage::Recovering => Step::Ask(self.log.claim()),
            Stage::Writing { .. } => self.log.again().map_or(Step::Nothing, Step::Ask),
            Stage::Running
            | Stage::MakingRoom { .. }
            | Stage::Keeping { .. }
            | Stage::Forgetting { .. }
            | Stage::Stopped => Step::Nothing,
        }
    }

    /// Whether a snapshot is to be kept now, or what the last record has made needless deleted.
    #[must_use]
    pub const fn is_due(&self) -> bool {
        let Extent {
            first,
            last,
            covered,
            bytes_behind,
        } = self.log.extent();
        let behind = match self.retention.keeps {
            Keeps::Everything | Keeps::BehindSnapshot => last.saturating_sub(covered),
            Keeps::Last => last.saturating_sub(first),
        };
        last >= self.not_before
            && (behind >= self.retention.events || (behind > 0 && bytes_behind >= self.retention.bytes))
    }

    /// Keeps what all records amount to, or deletes what the last one has made needless. What cannot be done
    /// now is tried again some records later: nothing is lost by it. `state` is asked where there are
    /// snapshots; `None`: it is too large to be kept.
    pub fn retain(&mut self, state: impl FnOnce() -> Option<Bytes>) -> Step {
        let then = match mem::replace(&mut self.stage, Stage::Running) {
            Stage::Running => None,
            Stage::MakingRoom { then } => Some(then),
            other @ (Stage::Recovering
            | Stage::Writing { .. }
            | Stage::Keeping { .. }
            | Stage::Forgetting { .. }
            | Stage::Stopped) => {
                self.stage = other;
                return Step::Nothing;
            }
        };
        match self.retention.keeps {
            Keeps::Last => self.forget(self.last().saturating_sub(1), then),
            Keeps::Everything | Keeps::BehindSnapshot => {
                self.stage = Stage::Keeping { then };
                match state() {
                    Some(state) => Step::Ask(self.log.keep(state)),
                    None => self.not_retained(),
                }
            }
        }
    }

    fn forget(&mut self, through: Sequence, then: Option<Vec<Bytes>>) -> Step {
        self.stage = Stage::Forgetting { then };
        Step::Ask(self.log.forget(through))
    }

    /// The snapshot is kept, or records are forgotten.
    pub fn on_kept(&mut self) -> Step {
        match self.log.on_kept() {
            Progress::Trimmed => match &mut self.stage {
                Stage::Keeping { then } if self.retention.keeps == Keeps::BehindSnapshot => {
                    let then = then.take();
                    self.forget(self.last(), then)
                }
                Stage::Keeping { .. }
                | Stage::Forgetting { .. }
                | Stage::MakingRoom { .. }
                | Stage::Recovering
                | Stage::Running
                | Stage::Writing { .. }
                | Stage::Stopped => self.retained(),
            },
            Progress::Passed
            | Progress::Ask(_)
            | Progress::Opened
            | Progress::Appended(_)
            | Progress::Full(_)
            | Progress::NotDone(..)
            | Progress::Again { .. }
            | Progress::Damaged
            | Progress::Lost { .. } => Step::Nothing,
        }
    }

    fn not_retained(&mut self) -> Step {
        self.not_before = self
            .last()
            .saturating_add(self.retention.events.min(RETAIN_AGAIN));
        self.retained()
    }

    fn retained(&mut self) -> Step {
        match mem::replace(&mut self.stage, Stage::Running) {
            Stage::Keeping { then: Some(records) } | Stage::Forgetting { then: Some(records) } => {
                self.append(records, true)
            }
            Stage::Keeping { then: None }
            | Stage::Forgetting { then: None }
            | Stage::MakingRoom { .. }
            | Stage::Recovering
            | Stage::Running
            | Stage::Writing { .. }
            | Stage::Stopped => Step::Retained,
        }
    }

    /// Whether a snapshot would make room.
    const fn can_retain(&self) -> bool {
        let Extent {
            first, last, covered, ..
        } = self.log.extent();
        match self.retention.keeps {
            Keeps::Everything | Keeps::BehindSnapshot => last > covered,
            Keeps::Last => last > first,
        }
    }

    /// Whether it handles commands, and nothing is on its way.
    #[must_use]
    pub const fn is_running(&self) -> bool {
        matches!(self.stage, Stage::Running)
    }

    /// The number of the last record.
    #[must_use]
    pub const fn last(&self) -> Sequence {
        self.log.extent().last
    }
}
