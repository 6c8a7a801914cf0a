//! What a coordinator's log holds, and what is on its way there: homes that are stored, shards whose home has
//! changed since, one write at a time. The log is a register with fixed voters (journal): whoever opens it
//! has claimed a term there, has read what the highest term among those that promised left, and has written
//! it back. Decides nothing about homes. Spec: sharding 1.1 (ddata-mode write rule, persistent mode), 10.16,
//! 10.23.

use alloc::format;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use super::record::{self, HomeChange, Homes, PlacedHome};
use crate::bytes::WireError;
use crate::journal::protocol::{Answer, Command, JournalCommandError};
use crate::journal::state::TokenClaim;
use crate::log::{LogProgress, QuorumLog, ReplayedPart, UnreadableLog};
use crate::ordered::OrderedSet;
use crate::sharding::state::fields::StoreMode;
use crate::sharding::state::ids::ShardId;
use crate::store::LogName;

/// Changes in one record: some tens of kilobytes, which every link and store takes at once.
const CHANGES_PER_RECORD_MAX: usize = 4_096;

/// Whole states that are left behind before the last takes their place: each is read by the next coordinator.
const STATES_MAX: usize = 8;

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct HomeLedger {
    mode: StoreMode,
    shards: u32,
    /// With the changes that are on their way.
    log: QuorumLog<Vec<HomeChange>>,
    /// What the log says.
    stored: Homes,
    /// Shards whose home may be another one than the log says.
    changed: OrderedSet<ShardId>,
    /// The term with which it was opened.
    term: u64,
}

/// What the log's answer means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LedgerAnswer {
    /// Nothing.
    Passed,
    /// The log is this coordinator's, and its homes are known.
    Opened,
    /// More is stored than before, or there is room again.
    Stored,
    /// What the log holds is damaged: nothing is decided by it.
    Damaged,
    /// It does not serve this coordinator.
    Refused,
}

impl HomeLedger {
    /// Nothing is stored yet.
    pub(super) fn new(kind: &str, mode: StoreMode, shards: u32) -> Self {
        Self {
            mode,
            shards,
            log: QuorumLog::new(coordinator_log(kind)),
            stored: Homes::new(),
            changed: OrderedSet::new(),
            term: 0,
        }
    }

    /// Whether anything is stored at all.
    pub(super) const fn is_durable(&self) -> bool {
        match self.mode {
            StoreMode::DistributedData | StoreMode::Events => true,
            StoreMode::Memory | StoreMode::Other { .. } => false,
        }
    }

    /// Whether the homes that were stored are known, if any are.
    pub(super) const fn is_ready(&self) -> bool {
        !self.is_durable() || self.log.owner().is_idle() || self.log.owner().is_writing()
    }

    /// Whether the log owes an answer; `true` inside if something is being written.
    pub(super) fn awaits(&self) -> Option<bool> {
        let (is_opening, is_writing) = (self.log.owner().is_opening(), self.log.owner().is_writing());
        (is_opening || is_writing).then_some(is_writing)
    }

    /// Who has opened the log.
    pub(super) const fn opener(&self) -> u64 {
        self.log.opener()
    }

    /// Whether an answer to this opening is this coordinator's.
    pub(super) fn is_opener(&self, opener: u64) -> bool {
        self.awaits().is_some() && self.opener() == opener
    }

    /// What the log says.
    pub(super) const fn stored(&self) -> &Homes {
        &self.stored
    }

    /// Whether another coordinator would find this home, placed with this token.
    pub(super) fn holds(&self, shard: ShardId, at: &PlacedHome) -> bool {
        !self.is_durable() || self.stored.get(&shard) == Some(at)
    }

    /// The term of the placements that are stored there, above that of everybody who had the log before. The
    /// first is 2: what is opened without a placement counts in the terms below.
    pub(super) fn term(&self) -> Option<u64> {
        self.is_durable().then(|| self.term.saturating_add(1))
    }

    /// A shard's home is decided, claimed or gone.
    pub(super) fn note(&mut self, shard: ShardId) {
        if self.is_durable() {
            self.changed.insert(shard);
        }
    }

    /// Claims the log, with a term above this one, and reads it.
    pub(super) fn open(&mut self, opener: u64, above: u64) -> Command {
        let claim = match above {
            0 => TokenClaim::Term,
            above => TokenClaim::TermAbove(above),
        };
        self.log.open(opener, claim)
    }

    /// Gives the log up; `None` if it is not this coordinator's.
    pub(super) fn close(&mut self) -> Option<Command> {
        self.log.close()
    }

    /// The log answers.
    pub(super) fn on_answer(&mut self, answer: &Result<Answer, JournalCommandError>) -> LedgerAnswer {
        let (shards, stored) = (self.shards, &mut self.stored);
        let mut replay = |found: ReplayedPart<'_>| match found.bytes() {
            None => {
                stored.clear();
                Ok(())
            }
            Some(bytes) => record::apply(bytes, shards, stored).map_err(|_| UnreadableLog),
        };
        match self.log.on_answer(answer, &mut replay) {
            LogProgress::Opened => {
                if let Ok(Answer::Opened(opened)) = answer {
                    self.term = opened.token.term;
                }
                LedgerAnswer::Opened
            }
            LogProgress::Appended(changes) => {
                for (shard, home) in changes {
                    record::change(&mut self.stored, shard, home);
                }
                LedgerAnswer::Stored
            }
            LogProgress::Full(changes) => {
                self.changed.extend(changes.into_iter().map(|(shard, _)| shard));
                LedgerAnswer::Stored
            }
            LogProgress::Trimmed => LedgerAnswer::Stored,
            LogProgress::Damaged => LedgerAnswer::Damaged,
            LogProgress::NotDone(..) | LogProgress::Again { .. } | LogProgress::Lost { .. } => {
                LedgerAnswer::Refused
            }
            LogProgress::Passed | LogProgress::Ask(_) => LedgerAnswer::Passed,
        }
    }

    /// What to have stored next, if anything and if nothing is on its way. `home_of` says where a shard lives
    /// by now.
    ///
    /// # Errors
    /// It cannot be written down.
    pub(super) fn next(
        &mut self,
        snapshot_after: usize,
        home_of: impl Fn(ShardId) -> Option<PlacedHome>,
    ) -> Result<Option<Command>, WireError> {
        if !self.log.owner().is_idle() {
            return Ok(None);
        }
        let is_whole = self.mode == StoreMode::DistributedData;
        let many = if is_whole { STATES_MAX } else { snapshot_after };
        if self.log.owner().needs_snapshot(many) {
            let whole = record::whole(self.shards, &self.stored)?;
            return Ok(Some(self.log.keep(whole)));
        }
        let batch = if is_whole {
            usize::MAX
        } else {
            CHANGES_PER_RECORD_MAX
        };
        let mut changes = Vec::new();
        while changes.len() < batch
            && let Some(shard) = self.changed.pop_first()
        {
            let home = home_of(shard);
            if self.stored.get(&shard) != home.as_ref() {
                changes.push((shard, home));
            }
        }
        if changes.is_empty() {
            return Ok(None);
        }
        let record = if is_whole {
            let mut homes = self.stored.clone();
            for (shard, home) in &changes {
                record::change(&mut homes, *shard, home.clone());
            }
            record::whole(self.shards, &homes)?
        } else {
            record::changes(self.shards, &changes)?
        };
        Ok(Some(self.log.append(changes, vec![record])))
    }
}

/// How the log of a kind's coordinator is called. No entity's log is called so: their names begin with a
/// kind's, which has no `/` in it there.
#[must_use]
pub fn coordinator_log(kind: &str) -> LogName {
    Arc::from(format!("/sharding/{kind}/coordinator"))
}
