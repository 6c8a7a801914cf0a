//! What a coordinator's log holds, and what is on its way there: homes that are stored, shards whose home has changed since, one
//! write at a time. The log is a register with fixed voters (journal): whoever opens it has claimed a term there, has read what the
//! highest term among those that promised left, and has written it back. Decides nothing about homes. Spec: sharding 1.1
//! (ddata-mode write rule, persistent mode), 10.16, 10.23.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use super::record::{self, HomeChange, Homes, Placement};
use crate::bytes::WireError;
use crate::journal::protocol::Command;
use crate::journal::state::{Claim, Opened};
use crate::sharding::state::fields::StoreMode;
use crate::sharding::state::ids::ShardId;
use crate::store::{LogName, Sequence};

/// Changes in one record: some tens of kilobytes, which every link and store takes at once.
const CHANGES_PER_RECORD_MAX: usize = 4_096;

/// Whole states that are left behind before the last takes their place: each is read by the next coordinator.
const STATES_MAX: usize = 8;

/// What the log is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Stage {
    /// Nothing: there is none, or it is not this coordinator's.
    Closed,
    /// It is being claimed and read.
    Opening,
    /// It is this coordinator's, and nothing is on its way.
    Idle,
    /// These changes are on their way.
    Writing(Vec<HomeChange>),
    /// A snapshot takes the place of the records.
    Trimming,
    /// What it holds is none of what a coordinator writes.
    Damaged,
}

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct Ledger {
    mode: StoreMode,
    shards: u32,
    log: LogName,
    /// Who has opened it; no other opening has the number.
    opener: u64,
    stage: Stage,
    /// What the log says.
    stored: Homes,
    /// Shards whose home may be another one than the log says.
    changed: BTreeSet<ShardId>,
    /// The log's last record.
    last: Sequence,
    /// The term with which it was opened.
    term: u64,
    /// Records behind the newest snapshot.
    records: usize,
    /// The log is as large as it may be.
    full: bool,
}

/// What the log's answer means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// The log is this coordinator's, and its homes are known.
    Opened,
    /// More is stored than before, or there is room again.
    Stored,
    /// What the log holds is damaged.
    Damaged,
}

impl Ledger {
    /// Nothing is stored yet.
    pub(super) fn new(kind: &str, mode: StoreMode, shards: u32) -> Self {
        Self {
            mode,
            shards,
            log: coordinator_log(kind),
            opener: 0,
            stage: Stage::Closed,
            stored: Homes::new(),
            changed: BTreeSet::new(),
            last: 0,
            term: 0,
            records: 0,
            full: false,
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
        match self.stage {
            Stage::Idle | Stage::Writing(_) | Stage::Trimming => true,
            Stage::Closed | Stage::Opening | Stage::Damaged => !self.is_durable(),
        }
    }

    /// Whether the log owes an answer; `true` inside if something is being written.
    pub(super) const fn awaits(&self) -> Option<bool> {
        match self.stage {
            Stage::Opening => Some(false),
            Stage::Writing(_) | Stage::Trimming => Some(true),
            Stage::Closed | Stage::Idle | Stage::Damaged => None,
        }
    }

    /// What a majority holds is no log: nothing is decided by it.
    pub(super) fn on_damaged(&mut self) {
        self.stage = Stage::Damaged;
    }

    /// Who has opened the log.
    pub(super) const fn opener(&self) -> u64 {
        self.opener
    }

    /// Whether an answer to this opener is this coordinator's.
    pub(super) fn is_opener(&self, opener: u64) -> bool {
        self.awaits().is_some() && self.opener == opener
    }

    /// What the log says.
    pub(super) const fn stored(&self) -> &Homes {
        &self.stored
    }

    /// Whether another coordinator would find this home, placed with this token.
    pub(super) fn holds(&self, shard: ShardId, at: &Placement) -> bool {
        !self.is_durable() || self.stored.get(&shard) == Some(at)
    }

    /// The term of the placements that are stored there, above that of everybody who had the log before. The first is 2: what is opened
    /// without a placement counts in the terms below.
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
        self.opener = opener;
        self.stage = Stage::Opening;
        Command::Open {
            log: Arc::clone(&self.log),
            opener,
            claim: match above {
                0 => Claim::Term,
                above => Claim::TermAbove(above),
            },
        }
    }

    /// Gives the log up; `None` if it is not this coordinator's.
    pub(super) fn close(&mut self) -> Option<Command> {
        let (log, opener) = (Arc::clone(&self.log), self.opener);
        let was = core::mem::replace(&mut self.stage, Stage::Closed);
        let is_open = was != Stage::Closed && was != Stage::Damaged;
        is_open.then_some(Command::Close { log, opener })
    }

    /// The log is this coordinator's.
    pub(super) fn on_opened(&mut self, opened: &Opened) -> Progress {
        match read(opened, self.shards) {
            Ok(stored) => {
                self.stored = stored;
                self.last = opened.last;
                self.term = opened.token.term;
                self.records = opened.records.len();
                self.stage = Stage::Idle;
                Progress::Opened
            }
            Err(_) => Progress::Damaged,
        }
    }

    /// What was on its way is stored.
    pub(super) fn on_appended(&mut self, last: Sequence) -> Progress {
        if let Stage::Writing(changes) = core::mem::replace(&mut self.stage, Stage::Idle) {
            for (shard, home) in changes {
                match home {
                    Some(home) => self.stored.insert(shard, home),
                    None => self.stored.remove(&shard),
                };
            }
        }
        self.last = last;
        self.records += 1;
        Progress::Stored
    }

    /// The snapshot is kept.
    pub(super) fn on_trimmed(&mut self) -> Progress {
        self.stage = Stage::Idle;
        self.full = false;
        self.records = 0;
        Progress::Stored
    }

    /// The log is as large as it may be. Whether anything can be done about it.
    pub(super) fn on_full(&mut self) -> bool {
        if let Stage::Writing(changes) = core::mem::replace(&mut self.stage, Stage::Idle) {
            self.changed.extend(changes.into_iter().map(|(shard, _)| shard));
        }
        self.full = true;
        self.records > 0
    }

    /// What to have stored next, if anything and if nothing is on its way. `home_of` says where a shard lives by now.
    ///
    /// # Errors
    /// It cannot be written down.
    pub(super) fn next(
        &mut self,
        snapshot_after: usize,
        home_of: impl Fn(ShardId) -> Option<Placement>,
    ) -> Result<Option<Command>, WireError> {
        if self.stage != Stage::Idle {
            return Ok(None);
        }
        let is_whole = self.mode == StoreMode::DistributedData;
        let many = if is_whole { STATES_MAX } else { snapshot_after };
        if self.full || self.records >= many.max(1) {
            self.stage = Stage::Trimming;
            return self.trim().map(Some);
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
                match home {
                    Some(home) => homes.insert(*shard, home.clone()),
                    None => homes.remove(shard),
                };
            }
            record::whole(self.shards, &homes)?
        } else {
            record::changes(self.shards, &changes)?
        };
        self.stage = Stage::Writing(changes);
        Ok(Some(Command::Append {
            log: Arc::clone(&self.log),
            opener: self.opener,
            expected: self.last,
            records: vec![record],
            upkeep: false,
        }))
    }

    /// One state in place of all records: the last of them, or what they amount to.
    fn trim(&self) -> Result<Command, WireError> {
        Ok(Command::Keep {
            log: Arc::clone(&self.log),
            opener: self.opener,
            covers: self.last,
            state: record::whole(self.shards, &self.stored)?,
        })
    }
}

/// How the log of a kind's coordinator is called. No entity's log is called so: their names begin with a kind's, which has no `/` in it
/// there.
#[must_use]
pub fn coordinator_log(kind: &str) -> LogName {
    Arc::from(format!("/sharding/{kind}/coordinator"))
}

/// The homes that a log holds.
fn read(opened: &Opened, shards: u32) -> Result<Homes, WireError> {
    let mut homes = BTreeMap::new();
    if let Some(snapshot) = &opened.snapshot {
        record::apply(&snapshot.state, shards, &mut homes)?;
    }
    for record in &opened.records {
        record::apply(&record.bytes, shards, &mut homes)?;
    }
    Ok(homes)
}
