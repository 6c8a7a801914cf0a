//! The database in which durable entities keep their logs, outside of the cluster and its network: one for
//! all nodes, under the rules of a store that compares tokens. It is slow, full, away or unsure of what it
//! did, each for a while, does late what it said it does not know, and does or loses what a process had asked
//! that has ended. Spec: sharding 10.7; reliability F-20, F-22, F-23.

use std::collections::BTreeMap;

use quorate_core::durable::RetentionKeeps;
use quorate_core::sharding::ids::Slot;
use quorate_core::store::memory::MemoryMap;
use quorate_core::store::{LogName, Outcome, Space, StoreAnswer, StoreError, StoreOrder};

use quorate_core::token::Token;

use super::super::chance::Chance;
use super::super::engine::{Happening, Sim};
use super::super::history::ProcessId;
use super::super::plan::SECOND;
use super::truth::{Broken, Owner, Truth};
use super::{DurableHappening, Turn};

/// The part of the store that logs of entities are in.
pub(super) const SPACE: Space = Space(16);
/// The way to the database, what it does, and the way back, each.
const TAKES: (u64, u64) = (200, 2_500);
/// How long it is as it is.
const REGIME: (u64, u64) = (SECOND, 6 * SECOND);
/// The latest that something is done of which it does not know.
const LATE_MAX: u64 = 3 * SECOND;
/// With so many of a thousand messages somebody takes a log over.
const USURPED_PER_MILLE: u64 = 8;
/// Of a thousand orders so many go wrong at any time.
const WRONG_PER_MILLE: u64 = 6;

/// How it is for a while.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Regime {
    #[default]
    Fine,
    /// Of a thousand orders so many go wrong.
    Unsure(u64),
    Slow(u64),
    Full,
    Away,
}

/// What becomes of one order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Plain,
    /// It is done, and nobody is told.
    Unheard,
    /// It is not done, and nobody knows.
    Lost,
    /// It is done later, and nobody knows.
    Late(u64),
    Busy,
    Away,
    Full,
}

/// An order on its way.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    owner: Owner,
    order: StoreOrder,
    /// What became of it is known by now: this is a late one.
    is_late: bool,
    /// Whether it is done if who asked has ended meanwhile.
    survives: bool,
    back: u64,
}

/// How often what happened.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DatabaseCounts {
    pub(crate) done: u64,
    pub(crate) refused: u64,
    pub(crate) unsure: u64,
    pub(crate) late: u64,
    pub(crate) full: u64,
    pub(crate) away: u64,
    pub(crate) of_the_dead: u64,
    pub(crate) usurped: u64,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Database {
    chance: Chance,
    pub(super) map: MemoryMap,
    regime: Regime,
    changes_at: u64,
    is_healthy: bool,
    /// Records behind a snapshot that a log may have, where it can be full.
    pub(super) room: Option<u64>,
    pub(super) truths: BTreeMap<LogName, Truth>,
    pub(super) counts: DatabaseCounts,
}

/// What an order asks for, if it changes a log.
fn log_of(order: &StoreOrder) -> Option<&LogName> {
    match order {
        StoreOrder::Open { log, .. }
        | StoreOrder::Append { log, .. }
        | StoreOrder::Snapshot { log, .. }
        | StoreOrder::DeleteRange { log, .. } => Some(log),
        StoreOrder::Identify
        | StoreOrder::Read { .. }
        | StoreOrder::Range { .. }
        | StoreOrder::Write { .. }
        | StoreOrder::ReadLog { .. }
        | StoreOrder::ReadSnapshot { .. } => None,
    }
}

impl Database {
    pub(super) fn new(chance: Chance) -> Self {
        Self {
            chance,
            map: MemoryMap::new(),
            regime: Regime::Fine,
            changes_at: 0,
            is_healthy: false,
            room: None,
            truths: BTreeMap::new(),
            counts: DatabaseCounts::default(),
        }
    }

    /// Nothing is wrong with it from now on.
    pub(super) fn repair(&mut self) {
        self.is_healthy = true;
        self.regime = Regime::Fine;
    }

    pub(super) fn truth(&mut self, log: &LogName, keeps: RetentionKeeps) -> &mut Truth {
        self.truths
            .entry(log.clone())
            .or_insert_with(|| Truth::new(keeps))
    }

    /// How it is now.
    fn regime(&mut self, now: u64) -> Regime {
        if !self.is_healthy && now >= self.changes_at {
            self.changes_at = now + self.chance.between(REGIME.0, REGIME.1);
            self.regime = match self.chance.below(12) {
                0 | 1 => Regime::Unsure(self.chance.between(50, 500)),
                2 | 3 => Regime::Slow(self.chance.between(10_000, SECOND)),
                4 => Regime::Full,
                5 => Regime::Away,
                _ => Regime::Fine,
            };
        }
        self.regime
    }

    fn fate(&mut self, now: u64, writes: bool) -> Fate {
        let (at, which) = (self.chance.below(1_000), self.chance.below(6));
        let late = self.chance.between(1, LATE_MAX);
        let wrong = match self.regime(now) {
            Regime::Away => return Fate::Away,
            Regime::Full if writes => return Fate::Full,
            Regime::Unsure(wrong) => wrong,
            Regime::Fine | Regime::Slow(_) | Regime::Full if self.is_healthy => 0,
            Regime::Fine | Regime::Slow(_) | Regime::Full => WRONG_PER_MILLE,
        };
        if at >= wrong {
            return Fate::Plain;
        }
        match which {
            0 | 1 => Fate::Unheard,
            2 => Fate::Lost,
            3 => Fate::Late(late),
            4 => Fate::Busy,
            _ => Fate::Away,
        }
    }

    /// Whether a log has no room for more.
    fn is_full(&mut self, order: &StoreOrder) -> bool {
        let (Some(room), StoreOrder::Append { log, expected, .. }) = (self.room, order) else {
            return false;
        };
        let order = StoreOrder::ReadSnapshot { log: log.clone() };
        let covered = match self.map.obey(SPACE, &order) {
            Ok(StoreAnswer::Snapshot(Some(snapshot))) => snapshot.through,
            Ok(_) | Err(_) => 0,
        };
        let order = StoreOrder::ReadLog {
            log: log.clone(),
            from: 0,
            bytes_max: 0,
        };
        let first = match self.map.obey(SPACE, &order) {
            Ok(StoreAnswer::Records { records, .. }) => records.first().map_or(0, |first| first.sequence),
            Ok(_) | Err(_) => 0,
        };
        expected.saturating_sub(covered.max(first.saturating_sub(1))) >= room
    }

    /// Does an order, and looks at what became of it.
    fn obey(&mut self, owner: Owner, order: &StoreOrder) -> Result<Outcome, Broken> {
        let outcome = self.map.obey(SPACE, order);
        match &outcome {
            Ok(_) => self.counts.done += 1,
            Err(_) => self.counts.refused += 1,
        }
        if let Some(truth) = log_of(order).and_then(|log| self.truths.get_mut(log)) {
            match (order, &outcome) {
                (StoreOrder::Open { .. }, Ok(StoreAnswer::Opened(found))) => {
                    truth.opened(owner, *found)?;
                }
                (
                    StoreOrder::Append {
                        expected, records, ..
                    },
                    Ok(StoreAnswer::Appended { .. }),
                ) => {
                    truth.appended(owner, *expected, records)?;
                    if let Some(log) = log_of(order) {
                        self.judge_wake_ups(log)?;
                    }
                }
                (_, Ok(_) | Err(_)) => {}
            }
        }
        Ok(outcome)
    }
}

impl Sim {
    /// An entity asks the database.
    pub(super) fn ask_database(&mut self, at: (ProcessId, Slot), request: quorate_core::log::LogRequest) {
        let Some(account) = self.durables.account(at) else {
            return;
        };
        let keeps = account.manner.retention.keeps;
        let Some(order) = account.order(request) else {
            return self.violated("host", at.0, "an entity gives its log up".to_owned());
        };
        let (owner, log) = (account.owner(), account.log.clone());
        self.trace.begin(self.now, at.0, b'A');
        self.trace.debug(&order);
        let database = &mut self.durables.database;
        database.truth(&log, keeps);
        let slower = match database.regime(self.now) {
            Regime::Slow(most) => database.chance.below(most),
            Regime::Fine | Regime::Unsure(_) | Regime::Full | Regime::Away => 0,
        };
        let asked = Asked {
            owner,
            order,
            is_late: false,
            survives: database.chance.per_mille(500),
            back: database.chance.between(TAKES.0, TAKES.1),
        };
        let there = database.chance.between(TAKES.0, TAKES.1) + slower;
        self.happens_to(at, self.now + there, Turn::Reaches(asked));
    }

    /// The database gets round to an order.
    pub(super) fn reaches_database(&mut self, at: (ProcessId, Slot), asked: Asked) {
        let is_gone = !self.processes[at.0 as usize].runs();
        let (now, database) = (self.now, &mut self.durables.database);
        if is_gone && !asked.survives && !asked.is_late {
            database.counts.of_the_dead += 1;
            return;
        }
        // Whether a log is full is known to whoever keeps it: nobody is unsure of that.
        let fate = if database.is_full(&asked.order) {
            Fate::Full
        } else if asked.is_late || is_gone {
            Fate::Plain
        } else {
            let writes = log_of(&asked.order).is_some() && !matches!(asked.order, StoreOrder::Open { .. });
            database.fate(now, writes)
        };
        let (is_done, answer) = match fate {
            Fate::Plain => (true, None),
            Fate::Unheard => (true, Some(StoreError::OutcomeUnknown)),
            Fate::Lost | Fate::Late(_) => (false, Some(StoreError::OutcomeUnknown)),
            Fate::Busy => (false, Some(StoreError::Busy)),
            Fate::Away => (false, Some(StoreError::Unavailable)),
            Fate::Full => (false, Some(StoreError::Full)),
        };
        let counts = &mut database.counts;
        match fate {
            Fate::Plain => {}
            Fate::Unheard | Fate::Lost => counts.unsure += 1,
            Fate::Late(_) => counts.late += 1,
            Fate::Busy | Fate::Away => counts.away += 1,
            Fate::Full => counts.full += 1,
        }
        if let Fate::Late(late) = fate {
            let again = Asked {
                is_late: true,
                ..asked.clone()
            };
            self.happens_to(at, now + late, Turn::Reaches(again));
        }
        let mut outcome = Err(StoreError::OutcomeUnknown);
        if is_done {
            match self.durables.database.obey(asked.owner, &asked.order) {
                Ok(done) => outcome = done,
                Err((invariant, what)) => return self.violated(invariant, at.0, what),
            }
        }
        if asked.is_late || is_gone {
            return;
        }
        let outcome = answer.map_or(outcome, Err);
        let (life, back) = (asked.owner.life, asked.back);
        self.happens_to(at, now + back, Turn::Answers { life, outcome });
    }

    /// Another incarnation takes an entity's log over, as one does that was thought to be no more: perhaps
    /// writes, and is gone.
    pub(crate) fn usurps_at_random(&mut self) {
        if !self.durables.enabled || !self.durables.database.chance.per_mille(USURPED_PER_MILLE) {
            return;
        }
        let (life, of) = (self.durables.next_life(), self.durables.accounts.len());
        let which = self.durables.database.chance.index(of);
        let Some((&(process, _), account)) = self.durables.accounts.iter().nth(which) else {
            return;
        };
        let log = account.log.clone();
        let database = &mut self.durables.database;
        let held = database.truths.get(&log).map_or(Token::NONE, Truth::held);
        let Some((owner, record)) = account.usurped(life, held) else {
            return;
        };
        let (token, opener) = (owner.token, owner.life);
        let order = StoreOrder::Open {
            log: log.clone(),
            token,
            opener,
        };
        let opened = database.obey(owner, &order);
        self.durables.database.counts.usurped += 1;
        let written = match (opened, record) {
            (Ok(Ok(StoreAnswer::Opened(found))), Some(record)) => {
                let order = StoreOrder::Append {
                    log,
                    token,
                    expected: found.last,
                    records: vec![record],
                };
                self.durables.database.obey(owner, &order)
            }
            (opened, _) => opened,
        };
        self.trace.begin(self.now, process, b'A');
        self.trace.number(life);
        if let Err((invariant, what)) = written {
            self.violated(invariant, process, what);
        }
    }

    /// Something will happen to an entity.
    pub(super) fn happens_to(&mut self, (process, slot): (ProcessId, Slot), when: u64, turn: Turn) {
        let happening = Box::new(DurableHappening { process, slot, turn });
        self.queue.push(when, Happening::Durable(happening));
    }
}
