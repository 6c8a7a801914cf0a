//! What keeps an entity from its log, for how long it waits, and what is said to who asks meanwhile.

use std::time::Duration;

use quorate_core::delivery::BadSetting;
use quorate_core::store::StoreError;

use super::{DurableFailure, SchemaError};
use crate::background::Sleep;
use crate::entity::Life;
use crate::sync::{Either, race};

/// The first pause after the store could not do what it was asked; doubled each time. As long as the store's own thread waits
/// before it opens the store again.
const PAUSE_MIN: Duration = Duration::from_millis(50);

/// The longest pause: an entity goes on within seconds of its store.
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// For so long commands wait for a store that is in trouble; then they are answered that nothing was done. Below half of the default
/// time of an ask, so that the asker hears why.
const PATIENCE: Duration = Duration::from_secs(2);

/// Why a recovery does not get further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Obstacle {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the snapshot through {through}: {error}")]
    Snapshot { through: u64, error: SchemaError },
    #[error("event {sequence}: {error}")]
    Event { sequence: u64, error: SchemaError },
    #[error("event {sequence} is missing")]
    Missing { sequence: u64 },
    #[error("somebody else has taken the log over meanwhile")]
    Overtaken,
    #[error("the store belongs to this node, and {others} more may host the kind")]
    SeveralHosts { others: usize },
    #[error("the record {sequence} is none of the library's that this version knows")]
    Note { sequence: u64 },
    #[error("redelivery: {0}")]
    Setting(#[from] BadSetting),
}

impl Obstacle {
    /// What is said to who asks.
    pub(super) const fn failure(self) -> DurableFailure {
        match self {
            Self::Store(error) => failure(error),
            Self::Snapshot { .. } | Self::Event { .. } | Self::Note { .. } => DurableFailure::Unreadable,
            Self::Missing { .. } => DurableFailure::Damaged,
            Self::Overtaken => DurableFailure::Fenced,
            Self::SeveralHosts { .. } => DurableFailure::SeveralHosts,
            Self::Setting(_) => DurableFailure::BadSetting,
        }
    }

    /// Whether waiting for a moment may help.
    pub(super) const fn may_pass(self) -> bool {
        match self {
            Self::Store(error) => match error {
                StoreError::Busy
                | StoreError::Unavailable
                | StoreError::OutcomeUnknown
                | StoreError::Fenced { .. }
                | StoreError::SequenceConflict { .. } => true,
                StoreError::NoStore | StoreError::Full | StoreError::TooLarge | StoreError::Corrupt => false,
                // What a later version of the core says.
                _ => true,
            },
            Self::Overtaken => true,
            Self::Snapshot { .. }
            | Self::Event { .. }
            | Self::Note { .. }
            | Self::Missing { .. }
            | Self::SeveralHosts { .. }
            | Self::Setting(_) => false,
        }
    }
}

/// What is said to who asks for something that the store did not do, and has surely not done.
pub(super) const fn failure(error: StoreError) -> DurableFailure {
    match error {
        StoreError::NoStore | StoreError::Busy | StoreError::Unavailable | StoreError::OutcomeUnknown => {
            DurableFailure::Unavailable
        }
        StoreError::Full => DurableFailure::Full,
        StoreError::TooLarge => DurableFailure::TooLarge,
        StoreError::Fenced { .. } | StoreError::SequenceConflict { .. } => DurableFailure::Fenced,
        StoreError::Corrupt => DurableFailure::Damaged,
        // What a later version of the core says.
        _ => DurableFailure::Unavailable,
    }
}

/// How long an entity has been kept waiting.
#[derive(Debug)]
pub(super) struct Trouble {
    pause: Duration,
    waited: Duration,
    /// The mailbox has nothing more to give: the entity stops once this is over.
    is_stopping: bool,
}

impl Default for Trouble {
    fn default() -> Self {
        Self {
            pause: PAUSE_MIN,
            waited: Duration::ZERO,
            is_stopping: false,
        }
    }
}

/// How a wait has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waited {
    /// Try again.
    Over,
    /// Try again, and nobody waits for what comes after: the entity has been told to stop, and has nothing else to do.
    Stopping,
    /// The entity stops now.
    Killed,
}

impl Trouble {
    /// Whether commands have waited long enough.
    pub(super) fn is_long(&self) -> bool {
        self.waited >= PATIENCE
    }

    /// Waits a little longer than the last time. With a failure, whoever has a command here or sends one meanwhile is told.
    pub(super) async fn wait(&mut self, life: &Life, sleep: &Sleep, said: Option<DurableFailure>) -> Waited {
        let pause = self.pause;
        self.waited = self.waited.saturating_add(pause);
        self.pause = (pause * 2).min(PAUSE_MAX);
        let said = said.filter(|_| !self.is_stopping);
        let waiting = async {
            let sleeping = sleep(pause);
            match said {
                None => sleeping.await,
                Some(failure) => {
                    if let Either::Left(()) = race(life.turn_away(failure), sleeping).await {
                        return Waited::Stopping;
                    }
                }
            }
            Waited::Over
        };
        match race(life.killed(), waiting).await {
            Either::Left(()) => Waited::Killed,
            Either::Right(waited) => {
                self.is_stopping |= waited == Waited::Stopping;
                waited
            }
        }
    }
}
