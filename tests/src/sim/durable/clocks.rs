//! Clocks in the profile `durable`: a kind of their own beside the workload's, each a durable entity that
//! keeps when entities are to be woken, and wakes them by asks. The oldest node looks at all of them when the
//! core says so, and a node at one that has ended on it with somebody to wake. What is kept, whom it wakes
//! and when all are looked at `quorate_core::wakeups` decides. Spec: sharding 1.15; `docs/adr/0016`.

use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::Arc;

use quorate_core::input::{Command, HostReport, KindSettings, ShardingCommand};
use quorate_core::sharding::chain::AskChain;
use quorate_core::sharding::ids::{AskRef, EntityId, KindId, Payload, Slot};
use quorate_core::sharding::passivation::PassivationSettings;
use quorate_core::wakeups::{self, CLOCKS, ClockWatch, WakeUp};

use super::super::engine::Sim;
use super::super::entities::Letter;
use super::super::history::ProcessId;
use super::super::plan::SECOND;
use super::super::process::Open;
use super::super::work::KIND;
use super::Turn;
use super::account::{Cause, Written};

/// How long who asks a clock waits.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often each node looks whether clocks are to be looked at.
const SEES_EVERY: u64 = SECOND;
/// Entities that a clock wakes at once.
const WAKES_AT_ONCE: usize = 64;
/// Where what happens to a whole process happens.
const NOWHERE: Slot = Slot {
    index: 0,
    generation: 0,
};

/// What an answer of a clock says, behind the number of its message.
const KEPT: u8 = 1;
const NOTHING: u8 = 2;
const OUTDATED: u8 = 3;
const NOT_DONE: u8 = 4;

/// What is said to a clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ClockOrder {
    Look,
    Wake {
        entity: EntityId,
        at_ms: u64,
    },
    Handled {
        entity: EntityId,
        version: u64,
        next_ms: Option<u64>,
    },
}

impl ClockOrder {
    fn bytes(&self) -> Vec<u8> {
        let (what, number, next_ms, entity) = match self {
            Self::Look => (0, 0, None, &[][..]),
            Self::Wake { entity, at_ms } => (1, *at_ms, None, entity.as_bytes()),
            Self::Handled {
                entity,
                version,
                next_ms,
            } => (2, *version, *next_ms, entity.as_bytes()),
        };
        let next = [u64::from(next_ms.is_some()), next_ms.unwrap_or(0)];
        let numbers = [what, number, next[0], next[1]].map(u64::to_le_bytes);
        [numbers.as_flattened(), entity].concat()
    }

    fn of(bytes: &[u8]) -> Option<Self> {
        let (numbers, entity) = bytes.split_first_chunk::<32>()?;
        let numbers: Vec<u64> = numbers
            .as_chunks()
            .0
            .iter()
            .copied()
            .map(u64::from_le_bytes)
            .collect();
        let entity = EntityId::new(entity);
        Some(match numbers[..] {
            [0, ..] => Self::Look,
            [1, at_ms, ..] => Self::Wake { entity, at_ms },
            [2, version, has_next, next_ms] => Self::Handled {
                entity,
                version,
                next_ms: (has_next == 1).then_some(next_ms),
            },
            _ => return None,
        })
    }
}

/// What a clock was asked, or asks.
#[derive(Clone, Debug)]
enum ClockAsk {
    /// An entity waits for the answer.
    OfEntity { at: (ProcessId, Slot), life: u64 },
    /// A process looks at a clock.
    Look { process: ProcessId, clock: EntityId },
    /// An entity is woken.
    WakeUp,
}

/// What a process sees of the clocks.
#[derive(Debug, Default)]
struct Sight {
    watch: ClockWatch,
    /// Those to be looked at, and whether that is on its way.
    open: BTreeMap<EntityId, bool>,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Clocks {
    asks: BTreeMap<usize, ClockAsk>,
    sights: BTreeMap<ProcessId, Sight>,
    pub(super) wake_ups: u64,
    pub(super) looks: u64,
    pub(super) outdated: u64,
}

impl Clocks {
    pub(super) fn died(&mut self, process: ProcessId) {
        self.sights.remove(&process);
    }

    /// A clock has ended with somebody to wake.
    pub(super) fn ended(&mut self, process: ProcessId, clock: &EntityId) {
        if let Some(sight) = self.sights.get_mut(&process) {
            sight.open.entry(clock.clone()).or_default();
        }
    }
}

/// Whether an entity is a clock.
pub(super) fn is_clock(entity: &EntityId) -> bool {
    wakeups::index_of(entity).is_some()
}

/// What a clock answers, and what that says to an entity.
fn answer(message: usize, what: u8, kept: Option<WakeUp>) -> Payload {
    let WakeUp { at_ms, version } = kept.unwrap_or(WakeUp { at_ms: 0, version: 0 });
    let numbers = [at_ms, version].map(u64::to_le_bytes);
    [
        &(message as u64).to_le_bytes()[..],
        &[what],
        numbers.as_flattened(),
    ]
    .concat()
    .into()
}

fn kept_of(answer: &[u8]) -> Option<WakeUp> {
    let (at_ms, version) = answer.get(8..)?.strip_prefix(&[KEPT])?.split_first_chunk::<8>()?;
    Some(WakeUp {
        at_ms: u64::from_le_bytes(*at_ms),
        version: u64::from_le_bytes(*version.first_chunk()?),
    })
}

impl Sim {
    /// The node hosts the clocks too, and looks at them.
    pub(crate) fn register_clocks(&mut self, process: ProcessId) {
        let index = self.processes[process as usize].index;
        let settings = KindSettings {
            extractor: wakeups::extractor(),
            passivation: Some(PassivationSettings::off()),
            ..KindSettings::new(wakeups::clocks_of(KIND), CLOCKS, self.lives.hosts(index))
        };
        let register = ShardingCommand::RegisterKind(Box::new(settings));
        self.command(process, Open::Command("register"), Command::Sharding(register));
        self.durables.clocks.sights.insert(process, Sight::default());
        self.happens_to((process, NOWHERE), self.now + SEES_EVERY, Turn::Sees);
    }

    /// A node looks at the clocks that it has to look at.
    pub(super) fn sees_to_clocks(&mut self, process: ProcessId) {
        let host = &self.processes[process as usize];
        let (view, me, index) = (Arc::clone(host.node.view()), host.me.clone(), host.index);
        let Some(sight) = self.durables.clocks.sights.get_mut(&process) else {
            return;
        };
        if sight.watch.is_time(&view, &me, None) {
            for clock in wakeups::clocks() {
                sight.open.entry(clock).or_default();
            }
        }
        let open = sight.open.iter_mut().filter(|(_, is_asked)| !**is_asked);
        let clocks: Vec<EntityId> = open
            .map(|(clock, is_asked)| {
                *is_asked = true;
                clock.clone()
            })
            .collect();
        for clock in clocks {
            self.durables.clocks.looks += 1;
            let ask = ClockAsk::Look {
                process,
                clock: clock.clone(),
            };
            self.ask_clock(index, &clock, &ClockOrder::Look, ask);
        }
        self.happens_to((process, NOWHERE), self.now + SEES_EVERY, Turn::Sees);
    }

    /// An entity asks its clock, and goes on when that has answered.
    pub(super) fn asks_its_clock(&mut self, at: (ProcessId, Slot), order: &ClockOrder) {
        let index = self.processes[at.0 as usize].index;
        let Some(account) = self.durables.account(at) else {
            return;
        };
        let (life, clock) = (account.life, wakeups::clock_of(&account.id));
        self.ask_clock(index, &clock, order, ClockAsk::OfEntity { at, life });
    }

    fn ask_clock(&mut self, index: usize, clock: &EntityId, order: &ClockOrder, ask: ClockAsk) {
        let kind = KindId::of(&wakeups::clocks_of(KIND));
        let to = (kind, &*clock.to_string());
        let asked = self.ask_of(index, to, AskChain::default(), PATIENCE, &order.bytes());
        match asked {
            Some(message) => drop(self.durables.clocks.asks.insert(message, ask)),
            None => self.clock_has_answered(ask, None),
        }
    }

    /// An ask ends; whether a clock asked or was asked.
    pub(crate) fn is_of_a_clock(&mut self, message: usize, answer: Option<&[u8]>) -> bool {
        let ask = self.durables.clocks.asks.remove(&message);
        let is_of_a_clock = ask.is_some();
        if let Some(ask) = ask {
            self.clock_has_answered(ask, answer);
        }
        is_of_a_clock
    }

    fn clock_has_answered(&mut self, ask: ClockAsk, answer: Option<&[u8]>) {
        match ask {
            ClockAsk::OfEntity { at, life } => {
                let kept = answer.and_then(kept_of);
                self.happens_to(at, self.now + 1, Turn::ClockAnswers { life, kept });
            }
            ClockAsk::Look { process, clock } => {
                if let Some(sight) = self.durables.clocks.sights.get_mut(&process) {
                    sight.open.insert(clock.clone(), false);
                    let is_seen = answer
                        .and_then(|answer| answer.get(8))
                        .is_some_and(|what| *what != NOT_DONE);
                    if is_seen {
                        sight.open.remove(&clock);
                    }
                }
            }
            // It is woken again if nothing comes of it.
            ClockAsk::WakeUp => {}
        }
    }

    /// A clock is told something.
    pub(super) fn handle_clock(&mut self, at: (ProcessId, Slot), letter: &Letter, message: usize) {
        let ask = letter.reply_to.clone();
        let order = letter.payload.get(8..).and_then(ClockOrder::of);
        let Some(account) = self.durables.account(at).filter(|account| account.is_idle()) else {
            return self.clock_answers(at, ask, answer(message, NOT_DONE, None));
        };
        let (Some(clock), Some(order)) = (&account.kept.clock, order) else {
            return self.violated("host", at.0, "a clock is told what none is told".to_owned());
        };
        let change = match order {
            ClockOrder::Look => {
                let is_over = clock.is_empty();
                self.clock_answers(at, ask, answer(message, NOTHING, None));
                if is_over {
                    self.report_now(at.0, HostReport::Passivate { slot: at.1 });
                }
                return;
            }
            ClockOrder::Wake { entity, at_ms } => clock.wanted(entity, at_ms).ok(),
            ClockOrder::Handled {
                entity,
                version,
                next_ms,
            } => clock.handled(entity, version, next_ms),
        };
        let Some(change) = change else {
            self.durables.clocks.outdated += 1;
            return self.clock_answers(at, ask, answer(message, OUTDATED, None));
        };
        let cause = Cause::Change { at: message, ask };
        let step = account.write(cause, Written::Change(change), Vec::new());
        self.go_on_with(at, step);
    }

    /// What became of a change that a clock was told: kept, if there is a change.
    pub(super) fn clock_has_changed(
        &mut self,
        at: (ProcessId, Slot),
        (message, ask): (usize, Option<AskRef>),
        written: Option<Written>,
    ) {
        let Some(account) = self.durables.account(at) else {
            return;
        };
        let (Some(Written::Change(change)), Some(clock)) = (written, &account.kept.clock) else {
            return self.clock_answers(at, ask, answer(message, NOT_DONE, None));
        };
        let (kept, is_over) = (clock.get(&change.entity), clock.is_empty());
        account.alarm.put(&change.entity, kept);
        let what = if kept.is_some() { KEPT } else { NOTHING };
        self.clock_answers(at, ask, answer(message, what, kept));
        if is_over {
            self.report_now(at.0, HostReport::Passivate { slot: at.1 });
        }
    }

    fn clock_answers(&mut self, at: (ProcessId, Slot), ask: Option<AskRef>, answer: Payload) {
        if let Some(ask) = ask {
            let result = Ok(answer);
            self.report_now(at.0, HostReport::Answered { ask, result });
        }
    }

    /// A clock wakes those who are due.
    pub(super) fn rings(&mut self, at: (ProcessId, Slot)) {
        let (now_ms, index) = (self.unix_ms(at.0), self.processes[at.0 as usize].index);
        let Some(account) = self.durables.account(at) else {
            return;
        };
        for due in account.alarm.take_due(now_ms, WAKES_AT_ONCE) {
            let to = (KindId::of(KIND), &*due.entity.to_string());
            let call = wakeups::call(due.version);
            let asked = self.ask_of(index, to, AskChain::of_a_clock(), due.again_in, &call);
            self.durables.clocks.wake_ups += 1;
            if let Some(message) = asked {
                self.durables.clocks.asks.insert(message, ClockAsk::WakeUp);
            }
        }
    }
}

/// Whether a clock that keeps this wakes the entity at this time or before.
pub(super) fn is_woken_by(clock: Option<&BTreeMap<EntityId, WakeUp>>, entity: &EntityId, at_ms: u64) -> bool {
    let kept = clock.and_then(|kept| kept.get(entity));
    kept.is_some_and(|kept| kept.at_ms <= at_ms)
}
