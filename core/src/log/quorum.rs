//! The owner of a log that a majority of the journal's voters keeps: asks in the journal's words, and is told
//! all that the log holds at once. Decides nothing. Spec: sharding 10.7.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::{LogOwner, LogProgress, LogRequest, Replay};
use crate::journal::protocol::{Answer, Command, JournalCommandError};
use crate::journal::state::TokenClaim;
use crate::store::{Bytes, LogName};

/// See the module.
#[derive(Clone, Debug)]
pub struct QuorumLog<W> {
    name: LogName,
    /// Who has opened it; no other opening has the number.
    opener: u64,
    /// With which token it is opened.
    claim: TokenClaim,
    owner: LogOwner<W>,
}

impl<W> QuorumLog<W> {
    /// The log of this name; nobody's so far.
    #[must_use]
    pub fn new(name: LogName) -> Self {
        Self {
            name,
            opener: 0,
            claim: TokenClaim::Count,
            owner: LogOwner::default(),
        }
    }

    /// Claims it. `opener` is drawn for this opening.
    pub fn open(&mut self, opener: u64, claim: TokenClaim) -> Command {
        (self.opener, self.claim) = (opener, claim);
        let request = self.owner.claim();
        self.command(request)
    }

    /// Gives it up; `None` if it is not this owner's.
    pub fn close(&mut self) -> Option<Command> {
        let request = self.owner.close()?;
        Some(self.command(request))
    }

    /// Adds records, at least one. The log is idle.
    pub fn append(&mut self, what: W, records: Vec<Bytes>) -> Command {
        let request = self.owner.append(what, records, false);
        self.command(request)
    }

    /// Puts what all records amount to in their place. The log is idle.
    pub fn keep(&mut self, state: Bytes) -> Command {
        let request = self.owner.keep(state);
        self.command(request)
    }

    /// The journal answers this opening.
    pub fn on_answer(
        &mut self,
        answer: &Result<Answer, JournalCommandError>,
        replay: &mut Replay<'_>,
    ) -> LogProgress<W> {
        match answer {
            Ok(Answer::Opened(opened)) => self.owner.on_opened(opened, replay),
            Ok(Answer::Appended { .. }) => self.owner.on_appended(),
            Ok(Answer::Kept) => self.owner.on_kept(),
            Err(error) => self.owner.on_failed((*error).into()),
        }
    }

    /// What becomes of the log here.
    #[must_use]
    pub const fn owner(&self) -> &LogOwner<W> {
        &self.owner
    }

    /// Who has opened it.
    #[must_use]
    pub const fn opener(&self) -> u64 {
        self.opener
    }

    fn command(&self, request: LogRequest) -> Command {
        let (log, opener) = (Arc::clone(&self.name), self.opener);
        match request {
            // What is found is told at once: nothing is read behind it.
            LogRequest::Claim | LogRequest::ReadSnapshot | LogRequest::Read { .. } => Command::Open {
                log,
                opener,
                claim: self.claim,
            },
            LogRequest::Append {
                expected,
                records,
                upkeep,
            } => Command::Append {
                log,
                opener,
                expected,
                records,
                upkeep,
            },
            LogRequest::Keep { covers, state } => Command::Keep {
                log,
                opener,
                covers,
                state,
            },
            LogRequest::Forget { through } => Command::Forget { log, opener, through },
            LogRequest::Close => Command::Close { log, opener },
        }
    }
}
