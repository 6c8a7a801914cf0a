//! Durable entities in the profile `durable`: each of the workload's entities keeps in a log that it has
//! handled a message, answers once that is durable, and wants to be reminded. A host does what the core's
//! value says of each; the invariants judge what becomes of the logs. I-55: what is acknowledged is in the
//! log, once, written by who owns it, and what is said not to be done is not. I-56: what an entity has is
//! what its log amounts to. I-57: a reminder is handled in its time, once, and clocks wake entities for it.
//! Spec: sharding 10.7; reliability I-55 to I-57, I-69.

mod account;
mod clocks;
mod database;
mod deliveries;
mod handling;
mod outbox;
mod records;
mod rest;
mod truth;
mod waking;

use std::collections::BTreeMap;

use quorate_core::config::Config;
use quorate_core::durable::{DurableStep, LogRetention, RECOVERY_PAGE_BYTES, RetentionKeeps};
use quorate_core::log::LogRequest;
use quorate_core::sharding::fields::StoreMode;
use quorate_core::sharding::ids::{EntityId, Slot};
use quorate_core::store::Outcome;
use quorate_core::supervision::RestartSettings;
use quorate_core::token::Token;
use quorate_core::wakeups::WakeUp;

use self::account::{Account, Heard, Manner};
use self::clocks::{Clocks, is_clock};
use self::database::{Asked, Database};
use self::deliveries::{Delivered, Deliveries, is_account};
use self::outbox::Sent;
use super::chance::{Chance, Purpose};
use super::engine::Sim;
use super::history::ProcessId;
use super::trace::Show;
use super::watches::End;

/// Something that happens to a durable entity, or on its way to the database.
#[derive(Debug)]
pub(crate) struct DurableHappening {
    process: ProcessId,
    slot: Slot,
    turn: Turn,
}

#[derive(Debug)]
enum Turn {
    /// An order comes to the database.
    Reaches(Asked),
    /// The database's answer comes to the incarnation that asked.
    Answers { life: u64, outcome: Outcome },
    /// A pause is over.
    Waited { life: u64 },
    /// It looks at its reminders.
    Looks { life: u64 },
    /// It begins, after it panicked.
    MadeAnew { life: u64 },
    /// A daemon ends that is none any more.
    MayNotBegin,
    /// The producer hears what became of one of its asks.
    Delivered(Delivered),
    /// Messages of an entity are sent.
    Sends { life: u64, numbers: Vec<u64> },
    /// The recipient of one has kept it.
    Delivers { life: u64, number: u64 },
    /// The clock of an entity keeps this, or has not said so in time.
    ClockAnswers { life: u64, kept: Option<WakeUp> },
    /// A node sees to the clocks.
    Sees,
}

impl DurableHappening {
    /// Whose process has to go on for it.
    pub(super) const fn waits_for(&self) -> Option<ProcessId> {
        match self.turn {
            Turn::Reaches(_) => None,
            Turn::Answers { .. }
            | Turn::Waited { .. }
            | Turn::Looks { .. }
            | Turn::MadeAnew { .. }
            | Turn::MayNotBegin
            | Turn::Sends { .. }
            | Turn::Delivers { .. }
            | Turn::ClockAnswers { .. }
            | Turn::Sees
            | Turn::Delivered(_) => Some(self.process),
        }
    }
}

/// How often what happened.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DurableCounts {
    pub(crate) recovered: u64,
    pub(crate) kept: u64,
    pub(crate) not_done: u64,
    pub(crate) fenced: u64,
    pub(crate) turned_away: u64,
    pub(crate) retained: u64,
    pub(crate) room_made: u64,
    pub(crate) reminded: u64,
    pub(crate) made_anew: u64,
    pub(crate) given_up: u64,
    pub(crate) reads: u64,
    pub(crate) at_rest: u64,
    pub(crate) sent: u64,
    pub(crate) confirmed: u64,
    pub(crate) wanted: u64,
    pub(crate) woken: u64,
    pub(crate) woken_at_rest: u64,
}

/// All durable entities, and where they keep their logs.
#[derive(Debug)]
pub(crate) struct Durables {
    pub(crate) enabled: bool,
    chance: Chance,
    accounts: BTreeMap<(ProcessId, Slot), Account>,
    database: Database,
    deliveries: Deliveries,
    clocks: Clocks,
    retention: LogRetention,
    page_bytes: usize,
    restarts: RestartSettings,
    /// Incarnations so far.
    lives: u64,
    /// How many events had been acknowledged when somebody asked.
    asked: BTreeMap<usize, usize>,
    /// Nobody sends any more.
    is_at_rest: bool,
    /// Messages between entities that are on their way.
    letters: BTreeMap<usize, Sent>,
    pub(crate) counts: DurableCounts,
}

impl Durables {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            enabled: false,
            chance: Chance::new(seed, Purpose::Durables),
            accounts: BTreeMap::new(),
            database: Database::new(Chance::new(seed, Purpose::Database)),
            deliveries: Deliveries::new(Chance::new(seed, Purpose::Deliveries)),
            clocks: Clocks::default(),
            retention: LogRetention::default(),
            page_bytes: RECOVERY_PAGE_BYTES,
            restarts: RestartSettings::default(),
            lives: 0,
            asked: BTreeMap::new(),
            is_at_rest: false,
            letters: BTreeMap::new(),
            counts: DurableCounts::default(),
        }
    }

    /// Draws how the entities of this run are.
    pub(super) fn configure(&mut self, config: &mut Config, nodes: usize) {
        self.enabled = true;
        // In a quarter of the seeds homes are not stored, and whoever opens a log last has it.
        let modes = [StoreMode::Events, StoreMode::DistributedData];
        config.sharding.state_store_mode = modes[usize::from(self.chance.per_mille(250))];
        config.journal.voters = nodes / 2 + 1;
        self.retention.events = self.chance.between(3, 20);
        if self.chance.per_mille(300) {
            self.retention.bytes = 200;
        }
        self.page_bytes = usize::try_from(self.chance.between(20, 400)).unwrap_or(20);
        if self.chance.per_mille(400) {
            self.database.room = Some(self.chance.between(2, 12));
        }
        self.restarts.restarts_max = 1;
    }

    /// What belongs to a database is repaired.
    pub(super) fn repair(&mut self) {
        self.database.repair();
    }

    /// Nothing waits for the database, or for an entity that does.
    pub(super) fn is_quiet(&self) -> bool {
        let waits = |account: &Account| {
            let is_busy = account.doing.is_some() || account.asking.is_some() || account.call.is_some();
            is_busy || account.has_turn
        };
        !self.accounts.values().any(waits)
    }

    /// What its entities had in memory died with a process.
    pub(super) fn died(&mut self, process: ProcessId) {
        self.accounts.retain(|(host, _), _| *host != process);
        self.deliveries.died(process);
        self.clocks.died(process);
    }

    pub(super) fn ended(&mut self, process: ProcessId, slot: Slot) {
        let account = self.accounts.remove(&(process, slot));
        if let Some(clock) = account.filter(|account| !account.alarm.is_empty()) {
            self.clocks.ended(process, &clock.id);
        }
        self.deliveries.ended(process, slot);
    }

    fn account(&mut self, at: (ProcessId, Slot)) -> Option<&mut Account> {
        self.accounts.get_mut(&at)
    }

    /// Whether another incarnation has taken over the log of the one that is here.
    fn is_outdated(&mut self, at: (ProcessId, Slot)) -> bool {
        let Some(account) = self.accounts.get(&at) else {
            return true;
        };
        let truth = self.database.truths.get(&account.log);
        truth.is_none_or(|truth| truth.held() != account.owner().token)
    }

    /// The incarnation that something happens to, if it is there still.
    fn alive(&mut self, at: (ProcessId, Slot), life: u64) -> Option<&mut Account> {
        self.account(at).filter(|account| account.life == life)
    }

    const fn next_life(&mut self) -> u64 {
        self.lives += 1;
        self.lives
    }

    /// Each entity keeps its log in one way, wherever it lives.
    fn manner(&self, id: &EntityId) -> Manner {
        let keeps = match id.as_bytes().last().copied().unwrap_or(0) % 3 {
            _ if is_clock(id) => RetentionKeeps::BehindSnapshot,
            0 => RetentionKeeps::Everything,
            1 => RetentionKeeps::BehindSnapshot,
            _ => RetentionKeeps::Last,
        };
        Manner {
            retention: LogRetention {
                keeps,
                ..self.retention
            },
            has_an_end: self.database.room.is_some(),
            page_bytes: self.page_bytes,
        }
    }

    /// How often what happened, by name.
    pub(crate) fn branches(&self) -> [(&'static str, u64); 31] {
        let (counts, of) = (self.counts, self.database.counts);
        [
            ("durable entities recovered", counts.recovered),
            ("durable events kept", counts.kept),
            ("durable events not done", counts.not_done),
            ("durable entities fenced", counts.fenced),
            ("durable commands turned away", counts.turned_away),
            ("snapshots of durable entities", counts.retained),
            ("snapshots that made room", counts.room_made),
            ("reminders handled", counts.reminded),
            ("durable entities made anew", counts.made_anew),
            ("durable entities given up", counts.given_up),
            ("durable reads that were judged", counts.reads),
            ("logs compared at rest", counts.at_rest),
            ("messages of durable entities", counts.sent),
            ("messages that a durable entity confirmed", counts.confirmed),
            ("times that a clock was to keep", counts.wanted),
            ("wake-ups by clocks", self.clocks.wake_ups),
            ("entities woken by a clock", counts.woken),
            ("entities woken by a clock at rest", counts.woken_at_rest),
            ("outdated words to a clock", self.clocks.outdated),
            ("looks at clocks", self.clocks.looks),
            ("orders that a log refused", of.refused),
            ("orders of which nobody knew", of.unsure),
            ("orders done late", of.late),
            ("orders without room", of.full),
            ("logs taken over by a stranger", of.usurped),
            ("messages given to a producer", self.deliveries.given),
            ("messages handed out by a consumer", self.deliveries.delivered),
            ("messages handed out again", self.deliveries.repeated),
            ("daemons begun", self.deliveries.daemons_begun),
            ("daemons that might not begin", self.deliveries.daemons_refused),
            ("orders turned away by the database", of.away),
        ]
    }
}

impl Sim {
    /// A durable entity starts: it recovers first.
    pub(crate) fn starts_durable(
        &mut self,
        (process, slot): (ProcessId, Slot),
        entity: &EntityId,
        placement: Option<Token>,
    ) {
        if !self.durables.enabled {
            return;
        }
        if !is_account(entity) {
            return self.starts_other((process, slot), entity);
        }
        let (life, manner) = (self.durables.next_life(), self.durables.manner(entity));
        let account = Account::new(life, entity, placement, manner);
        self.durables.accounts.insert((process, slot), account);
        self.begin_durable((process, slot));
    }

    fn begin_durable(&mut self, at: (ProcessId, Slot)) {
        if let Some(account) = self.durables.account(at) {
            let step = account.entity.begin();
            self.go_on_with(at, step);
        }
    }

    /// Something happens to a durable entity.
    pub(crate) fn on_durable(&mut self, happening: DurableHappening) {
        let DurableHappening { process, slot, turn } = happening;
        let at = (process, slot);
        if let Turn::Reaches(asked) = turn {
            return self.reaches_database(at, asked);
        }
        if !self.processes[process as usize].runs() {
            return;
        }
        match turn {
            Turn::Reaches(_) => {}
            Turn::Answers { life, outcome } => {
                let Some(account) = self.durables.alive(at, life) else {
                    return;
                };
                let heard = account.hear(&outcome);
                self.trace.begin(self.now, process, b'A');
                self.trace.debug(&outcome);
                match heard {
                    Heard::OpenAgain => self.ask_database(at, LogRequest::Claim),
                    Heard::Step(step) => self.go_on_with(at, step),
                }
            }
            Turn::Waited { life } => {
                if let Some(account) = self.durables.alive(at, life) {
                    let step = account.waited();
                    self.go_on_with(at, step);
                }
            }
            Turn::Looks { life } => {
                let now = self.now;
                let account = self.durables.alive(at, life);
                if let Some(account) = account.filter(|account| account.looks_at.is_some_and(|at| at <= now))
                {
                    account.looks_at = None;
                    self.look_at_reminders(at);
                }
            }
            Turn::Sends { life, numbers } => self.send_letters(at, life, numbers),
            Turn::Delivers { life, number } => self.is_delivered(at, life, number),
            Turn::ClockAnswers { life, kept } => self.hears_of_clock(at, life, kept),
            Turn::Sees => self.sees_to_clocks(process),
            Turn::MayNotBegin => self.may_not_begin(at),
            Turn::Delivered(delivered) => self.hears_of_delivery(delivered),
            Turn::MadeAnew { life } => {
                if self.durables.alive(at, life).is_some() {
                    self.begin_durable(at);
                }
            }
        }
    }

    /// Does what the core's value says, until the entity asks, waits, or has nothing to do.
    fn go_on_with(&mut self, at: (ProcessId, Slot), mut step: DurableStep) {
        while self.violation.is_none() {
            if self.trace.shows(Show::Everything)
                && let Some(account) = self.durables.accounts.get(&at)
            {
                self.say(
                    at.0,
                    format_args!("{} (life {}): {step:?}", account.id, account.life),
                );
            }
            let Some(account) = self.durables.account(at) else {
                return;
            };
            step = match step {
                DurableStep::Ask(request) => return self.ask_database(at, request),
                DurableStep::Wait(wait) => {
                    account.told = wait.told;
                    let life = account.life;
                    let pause = u64::try_from(wait.pause.as_micros()).unwrap_or(u64::MAX);
                    self.happens_to(at, self.now + pause, Turn::Waited { life });
                    if wait.told.is_some() {
                        self.gives_turn_back(at);
                    }
                    return;
                }
                DurableStep::MakeRoom => {
                    let step = account.retain();
                    self.durables.counts.room_made += 1;
                    step
                }
                DurableStep::Durable => {
                    self.is_kept(at);
                    let account = self.durables.account(at);
                    match account.filter(|account| account.is_free() && account.entity.is_due()) {
                        Some(account) => account.retain(),
                        None => return self.next_of(at),
                    }
                }
                DurableStep::Recovered => {
                    account.has_recovered = true;
                    account.kept.is_read();
                    self.has_recovered(at);
                    self.begins_to_send(at);
                    return self.next_of(at);
                }
                DurableStep::Retained => {
                    self.durables.counts.retained += 1;
                    return self.next_of(at);
                }
                DurableStep::NotDone(failure) => {
                    self.is_not_kept(at, failure);
                    return self.next_of(at);
                }
                DurableStep::Stopped(failure) => {
                    self.durables.counts.fenced += 1;
                    self.is_not_kept(at, failure);
                    return self.ends_fenced(at);
                }
                DurableStep::Nothing => {
                    let what = "an entity waits for nothing that happens to it".to_owned();
                    return self.violated("host", at.0, what);
                }
            };
        }
    }

    /// It has to end: what waits for it is not begun with.
    fn ends_fenced(&mut self, (process, slot): (ProcessId, Slot)) {
        let was_told = self.processes[process as usize].entities.is_stopping(slot);
        self.durables.ended(process, slot);
        self.crash_entity(process, slot, (!was_told).then_some(End::Stopped));
    }
}
