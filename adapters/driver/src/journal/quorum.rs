//! The log of one entity on a majority of the nodes' own stores: the core keeps it, this end asks and waits.
//! What was found when it was opened is held here until it has been read. Decides nothing. Spec: sharding
//! 10.7.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use quorate_core::effect::{Answer, CommandError, JournalAnswer, JournalCommandError};
use quorate_core::input::JournalCommand;
use quorate_core::journal::protocol::LOG_NAME_BYTES_MAX;
use quorate_core::journal::state::{TokenClaim, WriterEnd, WriterError};
use quorate_core::store::{Bytes, LogName, LogState, Record, Sequence, Snapshot, StoreError};
use quorate_core::token::Token;

use super::{AppendPurpose, Journal, RECOVERY_PAGE_BYTES};
use crate::background::Sleep;
use crate::shared::Shared;
use crate::sync::{self, Either, race};

/// So long an opening may take until those who wait for the entity are told that its log cannot be had: less
/// than half of a second passes where a majority of the stores can be reached, and the log is short. It goes
/// on, and whoever asks again waits for the same: a long log on slow disks takes longer than that each time.
const OPENING_TIMEOUT: Duration = Duration::from_secs(3);

/// A log on a majority of the nodes' own stores. Its token is one that this opening takes: above all others
/// that a majority has promised, or within the entity's placement.
pub(crate) struct QuorumJournal {
    shared: Arc<Shared>,
    sleep: Sleep,
    log: LogName,
    claim: TokenClaim,
    /// What this opening is called; `None` while it is not open.
    opener: Option<u64>,
    /// The answer to an opening that has taken too long so far.
    opening: Option<sync::Receiver<Answer>>,
    records: VecDeque<Record>,
    snapshot: Option<Snapshot>,
}

impl QuorumJournal {
    /// The log of this name, whose openings are within the placement, if there is one; `None` if the name is
    /// too long.
    pub(crate) fn new(
        shared: Arc<Shared>,
        sleep: Sleep,
        log: LogName,
        placement: Option<Token>,
    ) -> Option<Self> {
        (log.len() <= LOG_NAME_BYTES_MAX).then_some(Self {
            shared,
            sleep,
            log,
            claim: placement.map_or(TokenClaim::Count, TokenClaim::Placed),
            opener: None,
            opening: None,
            records: VecDeque::new(),
            snapshot: None,
        })
    }

    async fn order(&self, command: JournalCommand) -> Option<Answer> {
        self.shared.log(command)?.await
    }

    /// Takes a token, or goes on waiting for one.
    fn begin_opening(&mut self) -> Option<sync::Receiver<Answer>> {
        if let Some(opening) = self.opening.take() {
            return Some(opening);
        }
        self.close();
        let opener = self.shared.next_opener();
        self.opener = Some(opener);
        let command = JournalCommand::Open {
            log: LogName::clone(&self.log),
            opener,
            claim: self.claim,
        };
        self.shared.log(command)
    }

    /// What this opening has is needed no more.
    fn close(&mut self) {
        self.forget_what_was_found();
        self.opening = None;
        if let Some(opener) = self.opener.take() {
            let log = LogName::clone(&self.log);
            // Nobody waits for the answer.
            self.shared.log(JournalCommand::Close { log, opener });
        }
    }

    fn forget_what_was_found(&mut self) {
        self.records = VecDeque::new();
        self.snapshot = None;
    }

    /// What an answer says that is none of success; `in_flight`: an append that may be in the log.
    fn refused(&mut self, answer: Option<Answer>, in_flight: bool) -> StoreError {
        let Some(Answer::Refused(CommandError::Journal(error))) = answer else {
            // The node has stopped.
            return unknown(in_flight, StoreError::Unavailable);
        };
        match error {
            JournalCommandError::Refused(error) => match error {
                WriterError::NotOpen | WriterError::InFlight => StoreError::Busy,
                WriterError::SequenceConflict { last } => StoreError::SequenceConflict { last },
                WriterError::TooLarge => StoreError::TooLarge,
                WriterError::Full => StoreError::Full,
                // What a later version of the core says.
                _ => StoreError::Unavailable,
            },
            JournalCommandError::NotOpen => self.ended(Token::NONE),
            JournalCommandError::Closed => {
                let fenced = self.ended(Token::NONE);
                unknown(in_flight, fenced)
            }
            JournalCommandError::Ended(end) => match end {
                WriterEnd::Fenced { held } => {
                    let fenced = self.ended(held);
                    unknown(in_flight, fenced)
                }
                WriterEnd::Damaged => StoreError::Corrupt,
                // What a later version of the core says.
                _ => unknown(in_flight, StoreError::Unavailable),
            },
            JournalCommandError::TooMany => StoreError::Busy,
            JournalCommandError::BadName => StoreError::TooLarge,
            JournalCommandError::NotConfigured => StoreError::NoStore,
            // What a later version of the core says.
            _ => StoreError::Unavailable,
        }
    }

    /// Somebody else has the log.
    fn ended(&mut self, held: Token) -> StoreError {
        self.opener = None;
        StoreError::Fenced { held }
    }

    fn opened(&self) -> Result<u64, StoreError> {
        self.opener.ok_or(StoreError::Fenced { held: Token::NONE })
    }
}

/// An append that was on its way may be in the log, and what is asked next says that it is refused.
const fn unknown(in_flight: bool, error: StoreError) -> StoreError {
    if in_flight {
        StoreError::OutcomeUnknown
    } else {
        error
    }
}

impl Journal for QuorumJournal {
    async fn open(&mut self) -> Result<LogState, StoreError> {
        let Some(mut opening) = self.begin_opening() else {
            return Err(self.refused(None, false));
        };
        let late = (self.sleep)(OPENING_TIMEOUT);
        let answer = match race(&mut opening, late).await {
            Either::Left(answer) => answer,
            Either::Right(()) => {
                self.opening = Some(opening);
                return Err(StoreError::Unavailable);
            }
        };
        let Some(Answer::Journal(JournalAnswer::Opened(opened))) = answer else {
            return Err(self.refused(answer, false));
        };
        let first = opened
            .records
            .first()
            .map_or(opened.last.saturating_add(1), |record| record.sequence);
        self.records = opened.records.into();
        self.snapshot = opened.snapshot;
        Ok(LogState {
            first,
            last: opened.last,
            snapshot: self.snapshot.as_ref().map(|snapshot| snapshot.through),
        })
    }

    async fn read(&mut self, from: Sequence) -> Result<Vec<Record>, StoreError> {
        while self.records.front().is_some_and(|record| record.sequence < from) {
            self.records.pop_front();
        }
        let mut room = RECOVERY_PAGE_BYTES;
        let fits = |record: &&Record| {
            let is_room = room > 0;
            room = room.saturating_sub(record.bytes.len());
            is_room
        };
        Ok(self.records.iter().take_while(fits).cloned().collect())
    }

    async fn read_snapshot(&mut self) -> Result<Option<Snapshot>, StoreError> {
        Ok(self.snapshot.clone())
    }

    async fn append(
        &mut self,
        expected: Sequence,
        records: Vec<Bytes>,
        purpose: AppendPurpose,
    ) -> Result<(), StoreError> {
        self.forget_what_was_found();
        let command = JournalCommand::Append {
            log: LogName::clone(&self.log),
            opener: self.opened()?,
            expected,
            records,
            upkeep: purpose == AppendPurpose::Upkeep,
        };
        match self.order(command).await {
            Some(Answer::Journal(JournalAnswer::Appended { .. })) => Ok(()),
            answer => Err(self.refused(answer, true)),
        }
    }

    async fn keep(&mut self, through: Sequence, state: Bytes) -> Result<(), StoreError> {
        let command = JournalCommand::Keep {
            log: LogName::clone(&self.log),
            opener: self.opened()?,
            covers: through,
            state,
        };
        match self.order(command).await {
            Some(Answer::Journal(JournalAnswer::Kept)) => Ok(()),
            answer => Err(self.refused(answer, false)),
        }
    }

    fn has_an_end(&self) -> bool {
        true
    }

    async fn delete(&mut self, through: Sequence) -> Result<(), StoreError> {
        let command = JournalCommand::Forget {
            log: LogName::clone(&self.log),
            opener: self.opened()?,
            through,
        };
        match self.order(command).await {
            Some(Answer::Journal(JournalAnswer::Kept)) => Ok(()),
            answer => Err(self.refused(answer, false)),
        }
    }
}

impl QuorumJournal {
    /// Whether an opening has taken too long so far, and goes on.
    pub(super) const fn is_opening(&self) -> bool {
        self.opening.is_some()
    }
}

impl Drop for QuorumJournal {
    fn drop(&mut self) {
        self.close();
    }
}
