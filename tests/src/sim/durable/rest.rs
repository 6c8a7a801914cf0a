//! What must hold of durable entities at the end: each answers, what it was to be reminded of is handled, and
//! what the database holds of each log is what was ever written to it. Spec: reliability I-55 to I-57.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use quorate_core::durable::RetentionKeeps;
use quorate_core::log::ReplayedPart;
use quorate_core::sharding::passivation::PassivationSettings;
use quorate_core::store::{LogName, Snapshot, StoreAnswer, StoreOrder};

use super::super::engine::Sim;
use super::super::plan::SECOND;
use super::super::script::all_up;
use super::super::work::ENTITIES;
use super::account::Kept;
use super::database::{Database, SPACE};
use super::truth::{Pending, Truth};

/// Everybody answers within this: what was done late, and incarnations that were fenced by it, are over.
const REST_MAX: u64 = 30 * SECOND;
/// A coordinator that has its majority again has read where homes are, and what waited is handled.
const RECOVERY: u64 = 20 * SECOND;
/// Whoever has something to do is woken within this, and has done it: a clock that sleeps, one that has
/// ended, and an entity that did not answer for long.
const WAKES_MAX: u64 = 180 * SECOND;
/// A reminder is not late before this.
const LATE_MS: u64 = 500;

impl Sim {
    /// Nodes that ended while the others came to rest come back: a majority of stores says where homes are,
    /// and without it messages wait and nobody answers.
    pub(crate) fn bring_back(&mut self, nodes: usize) {
        let is_whole = (0..nodes).all(|index| self.running_at(index).is_some());
        if is_whole {
            return;
        }
        for index in 0..nodes {
            if self.running_at(index).is_none() {
                self.start(index);
            }
        }
        let limit = self.now + REST_MAX;
        while !all_up(self) && self.now < limit && self.violation.is_none() {
            self.advance(self.now + SECOND);
        }
        self.advance(self.now + RECOVERY);
        self.run_until_or(self.now + REST_MAX, &Self::is_quiet);
    }

    /// Everything is at rest.
    pub(crate) fn rest_of_durables(&mut self, nodes: usize) {
        if let Some(index) = (0..nodes).find(|index| self.running_at(*index).is_some()) {
            self.rest_of_deliveries(index);
        }
        self.rest_of_wake_ups();
        let limit = self.now + REST_MAX;
        self.durables.is_at_rest = true;
        let mut wanted: Vec<u64> = (0..ENTITIES).collect();
        let mut round = 0;
        while !wanted.is_empty() && self.violation.is_none() {
            if self.now >= limit {
                let what = format!("entities {wanted:?} do not answer, or have reminders that are late");
                return self.violated("I-57", 0, what);
            }
            let Some(index) = (0..nodes)
                .map(|index| (index + round) % nodes)
                .find(|index| self.running_at(*index).is_some())
            else {
                return;
            };
            round += 1;
            let asked_ms = self.earliest_ms();
            let asks: Vec<(u64, Option<usize>)> = wanted
                .iter()
                .map(|entity| (*entity, self.ask_at_rest(index, *entity)))
                .collect();
            self.advance(self.now + 3 * SECOND);
            let is_over = |sim: &Self, (entity, ask): &(u64, Option<usize>)| {
                ask.is_some_and(|ask| sim.outcome(ask) == Some(Ok(())))
                    && !sim.has_late_reminders(*entity, asked_ms)
            };
            wanted = asks
                .iter()
                .filter(|ask| !is_over(self, ask))
                .map(|(entity, _)| *entity)
                .collect();
        }
        if self.violation.is_none() {
            self.compare_logs();
        }
    }

    /// Nobody sends anything: clocks wake whoever has something to do, and it is done. Where nodes have room
    /// for few entities, who sends may be passivated for its recipient before that answers: then it is sent.
    fn rest_of_wake_ups(&mut self) {
        let (limit, began_ms) = (self.now + WAKES_MAX, self.earliest_ms());
        let has_room = self.config.sharding.passivation == PassivationSettings::off();
        let truths = &mut self.durables.database.truths;
        truths.values_mut().for_each(|truth| truth.sent.clear());
        let open: BTreeMap<LogName, BTreeSet<u64>> = truths
            .iter()
            .map(|(log, truth)| (log.clone(), truth.amounts().open.clone()))
            .collect();
        let woken = self.durables.counts.woken;
        while self.violation.is_none() {
            let truths = &self.durables.database.truths;
            let is_late = |(_, truth): &(&LogName, &Truth)| {
                let mut pending = truth.amounts().reminders.values();
                pending.any(|pending| pending.at_ms <= began_ms)
            };
            let is_open = |(log, truth): &(&LogName, &Truth)| {
                let mut open = open.get(*log).into_iter().flatten();
                let is_due = |number: &u64| has_room || !truth.sent.contains(number);
                open.any(|number| truth.amounts().open.contains(number) && is_due(number))
            };
            let late: Vec<&LogName> = truths.iter().filter(is_late).map(|(log, _)| log).collect();
            let unsent: Vec<&LogName> = truths.iter().filter(is_open).map(|(log, _)| log).collect();
            if late.is_empty() && unsent.is_empty() {
                break;
            }
            if self.now >= limit {
                let invariant = if late.is_empty() { "I-69" } else { "I-57" };
                let what = format!("nobody wakes {late:?} for reminders, {unsent:?} for messages");
                return self.violated(invariant, 0, what);
            }
            self.advance(self.now + SECOND);
        }
        self.durables.counts.woken_at_rest += self.durables.counts.woken - woken;
    }

    fn ask_at_rest(&mut self, index: usize, entity: u64) -> Option<usize> {
        let ask = self.ask(index, &format!("e{entity}"), Duration::from_secs(2));
        self.asks_durable(ask);
        ask
    }

    /// What the clock shows that is behind all others.
    fn earliest_ms(&self) -> u64 {
        let running = self.processes.iter().filter(|process| process.runs());
        let clocks = running.map(|process| process.now(self.now).unix_ms);
        clocks.min().unwrap_or(0)
    }

    /// Whether something was due when an entity was asked, and is not handled.
    fn has_late_reminders(&self, entity: u64, asked_ms: u64) -> bool {
        let log = LogName::from(format!("account/e{entity}"));
        let truth = self.durables.database.truths.get(&log);
        let is_late = |pending: &Pending| pending.at_ms + LATE_MS < asked_ms;
        truth.is_some_and(|truth| truth.amounts().reminders.values().any(is_late))
    }

    /// What the database holds is what was written.
    fn compare_logs(&mut self) {
        let logs: Vec<(LogName, RetentionKeeps)> = self
            .durables
            .database
            .truths
            .iter()
            .map(|(log, truth)| (log.clone(), truth.keeps()))
            .collect();
        for (log, keeps) in logs {
            let database = &mut self.durables.database;
            let Some((last, kept)) = held(database, &log, keeps) else {
                return self.violated("I-56", 0, format!("{log} cannot be read"));
            };
            let Some(truth) = database.truths.get(&log) else {
                continue;
            };
            let is_complete = last == truth.last();
            if let Err((invariant, what)) = truth.amounts_to(last, &kept) {
                return self.violated(invariant, 0, format!("{log}: {what}"));
            }
            if !is_complete {
                return self.violated("I-55", 0, format!("{log} ends at {last}"));
            }
            self.durables.counts.at_rest += 1;
        }
    }
}

/// What a log amounts to, read without the core's recovery: where it ends, and what it has.
fn held(database: &mut Database, log: &LogName, keeps: RetentionKeeps) -> Option<(u64, Kept)> {
    let mut kept = Kept::new(log.starts_with("clock/"));
    let order = StoreOrder::ReadSnapshot { log: log.clone() };
    let Ok(StoreAnswer::Snapshot(snapshot)) = database.map.obey(SPACE, &order) else {
        return None;
    };
    let mut last = snapshot
        .as_ref()
        .map_or(0, |snapshot: &Snapshot| snapshot.through);
    if let Some(snapshot) = &snapshot {
        kept.replay(keeps, ReplayedPart::Snapshot(snapshot)).ok()?;
    }
    loop {
        let order = StoreOrder::ReadLog {
            log: log.clone(),
            from: last + 1,
            bytes_max: 1 << 20,
        };
        let Ok(StoreAnswer::Records { records, .. }) = database.map.obey(SPACE, &order) else {
            return None;
        };
        if records.is_empty() {
            kept.is_read();
            return Some((last, kept));
        }
        for record in &records {
            if record.sequence != last + 1 && (keeps != RetentionKeeps::Last || last != 0) {
                return None;
            }
            last = record.sequence;
            kept.replay(keeps, ReplayedPart::Record(record)).ok()?;
        }
    }
}
