//! What really became of the logs of durable entities: all that was ever written, in order, by whom, and what
//! was said of it. Judges each step of the database and each recovery (I-55, I-56, I-57) by rules of its own.
//! Spec: sharding 10.7; reliability I-55 to I-57.

use std::collections::{BTreeMap, BTreeSet};

use quorate_core::durable::{DurableNote, RetentionKeeps, split};
use quorate_core::sharding::ids::EntityId;
use quorate_core::store::{Bytes, LogState, Sequence};
use quorate_core::token::Token;
use quorate_core::wakeups::{WakeUp, WakeupChange};

use super::account::Kept;
use super::records::{Event, change_of, events_of};

/// What the one who asked was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    Kept,
    NotDone,
    Unknown,
}

/// A reminder, as far as the log says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pending {
    pub(crate) at_ms: u64,
    pub(crate) every_ms: u64,
    pub(crate) serial: u64,
}

/// What a log amounts to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Amounts {
    pub(crate) events: Vec<Event>,
    pub(crate) reminders: BTreeMap<String, Pending>,
    /// Messages that are unconfirmed, and the last number that one had.
    pub(crate) open: BTreeSet<u64>,
    pub(crate) given: u64,
    /// What a clock keeps, the last version being what was given.
    pub(crate) wake_ups: BTreeMap<EntityId, WakeUp>,
}

impl Amounts {
    /// Whether an entity has this. What could not be written when it was due is due again a moment later,
    /// which is not kept.
    fn are(&self, has: &Self) -> bool {
        let is_alike = |((name, pending), (other, its)): ((&String, &Pending), (&String, &Pending))| {
            let (what, it) = ((pending.serial, pending.every_ms), (its.serial, its.every_ms));
            name == other && what == it && pending.at_ms <= its.at_ms
        };
        self.events == has.events
            && (&self.open, self.given) == (&has.open, has.given)
            && self.wake_ups == has.wake_ups
            && self.reminders.len() == has.reminders.len()
            && self.reminders.iter().zip(&has.reminders).all(is_alike)
    }
}

/// One incarnation of an entity, and the token with which it has opened the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) life: u64,
    pub(crate) token: Token,
}

/// One log.
#[derive(Debug)]
pub(crate) struct Truth {
    keeps: RetentionKeeps,
    owner: Option<Owner>,
    /// Everything that was ever written.
    records: Vec<Bytes>,
    amounts: Amounts,
    /// How many records there were when a life opened it last.
    opened_at: BTreeMap<u64, Sequence>,
    /// How many events were acknowledged to whoever asked.
    pub(crate) acknowledged: usize,
    pub(crate) told: BTreeMap<u64, Told>,
    /// Messages of it that their recipients have kept.
    pub(super) delivered: BTreeSet<u64>,
    /// Messages of it that were sent since everything is at rest.
    pub(super) sent: BTreeSet<u64>,
    /// A reminder could not be kept and is due later, which its entity may have said to its clock.
    pub(super) is_put_off: bool,
}

/// Which invariant is broken, and how.
pub(crate) type Broken = (&'static str, String);

impl Truth {
    pub(crate) const fn new(keeps: RetentionKeeps) -> Self {
        Self {
            keeps,
            owner: None,
            records: Vec::new(),
            amounts: Amounts {
                events: Vec::new(),
                reminders: BTreeMap::new(),
                open: BTreeSet::new(),
                given: 0,
                wake_ups: BTreeMap::new(),
            },
            opened_at: BTreeMap::new(),
            acknowledged: 0,
            told: BTreeMap::new(),
            delivered: BTreeSet::new(),
            sent: BTreeSet::new(),
            is_put_off: false,
        }
    }

    /// The database has given the log to somebody.
    pub(super) fn opened(&mut self, by: Owner, found: LogState) -> Result<(), Broken> {
        if let Some(owner) = self.owner.filter(|owner| *owner != by && owner.token >= by.token) {
            return Err(("I-55", format!("{by:?} takes the log over from {owner:?}")));
        }
        self.owner = Some(by);
        self.opened_at.insert(by.life, found.last);
        let last = self.last();
        (found.last == last)
            .then_some(())
            .ok_or_else(|| ("I-55", format!("a log of {last} records is opened as {found:?}")))
    }

    /// The database has said that these records are there.
    pub(super) fn appended(
        &mut self,
        by: Owner,
        expected: Sequence,
        records: &[Bytes],
    ) -> Result<(), Broken> {
        if self.owner != Some(by) {
            let what = format!("{by:?} writes a log that {:?} has taken over", self.owner);
            return Err(("I-55", what));
        }
        let from = usize::try_from(expected).unwrap_or(usize::MAX);
        if from != self.records.len() {
            let there = self.records.get(from..from.saturating_add(records.len()));
            let is_there = there == Some(records);
            return is_there.then_some(()).ok_or_else(|| {
                let last = self.last();
                (
                    "I-55",
                    format!("{by:?} writes behind {expected} of {last} records"),
                )
            });
        }
        for record in records {
            self.records.push(record.clone());
            let (open, given) = (self.amounts.open.clone(), self.amounts.given);
            learn(&mut self.amounts, self.keeps, record)?;
            let now = &self.amounts.open;
            if let Some(number) = open.difference(now).find(|it| !self.delivered.contains(it)) {
                let what = format!("message {number} is confirmed, and its recipient has not kept it");
                return Err(("I-69", what));
            }
            if let Some(number) = now.difference(&open).find(|number| **number <= given) {
                return Err(("I-69", format!("number {number} is given twice")));
            }
        }
        self.nothing_that_was_not_done(records.len())
    }

    /// What has just been written is in the log once, and nobody was told that it is not.
    fn nothing_that_was_not_done(&self, written: usize) -> Result<(), Broken> {
        let before = self.amounts.events.len().saturating_sub(written);
        let before = if self.keeps == RetentionKeeps::Last {
            0
        } else {
            before
        };
        for (at, event) in self.amounts.events.iter().enumerate().skip(before) {
            if self.told.get(&event.number) == Some(&Told::NotDone) {
                let what = format!("{event:?} is written although it was said not to be done");
                return Err(("I-55", what));
            }
            let is_twice = |other: &Event| !event.is_reminder() && other.number == event.number;
            if self.amounts.events[..at].iter().any(is_twice) {
                return Err(("I-55", format!("{event:?} is written twice")));
            }
        }
        Ok(())
    }

    /// An entity has it from its store that these are the last records of its log.
    pub(super) fn is_durable(&self, last: Sequence, records: &[Bytes]) -> Result<(), Broken> {
        let end = usize::try_from(last).unwrap_or(usize::MAX);
        let there = end
            .checked_sub(records.len())
            .and_then(|from| self.records.get(from..end));
        (there == Some(records)).then_some(()).ok_or_else(|| {
            let what = format!("records up to {last} of {} count as durable", self.last());
            ("I-55", what)
        })
    }

    /// Somebody was told something of an event.
    pub(super) fn tell(&mut self, number: u64, told: Told) -> Result<(), Broken> {
        let is_there = self
            .amounts
            .events
            .iter()
            .position(|event| event.number == number);
        if let Some(before) = self.told.insert(number, told).filter(|before| *before != told) {
            return Err((
                "I-55",
                format!("{number} is said to be {before:?}, then {told:?}"),
            ));
        }
        match (told, is_there) {
            (Told::Kept, None) => Err(("I-55", format!("{number} is acknowledged, and is not written"))),
            (Told::NotDone, Some(at)) => Err((
                "I-55",
                format!("{number} is said not to be done, and is event {at}"),
            )),
            (Told::Kept, Some(at)) => {
                self.acknowledged = self.acknowledged.max(at + 1);
                Ok(())
            }
            (Told::NotDone, None) | (Told::Unknown, _) => Ok(()),
        }
    }

    /// A life has recovered with this.
    pub(super) fn recovered(&self, life: u64, last: Sequence, kept: &Kept) -> Result<(), Broken> {
        if self.opened_at.get(&life) != Some(&last) {
            let what = format!(
                "a log was opened at {:?} and is read to {last}",
                self.opened_at.get(&life)
            );
            return Err(("I-56", what));
        }
        self.amounts_to(last, kept)
    }

    /// What a life has at this record is what the records up to there amount to.
    pub(super) fn amounts_to(&self, last: Sequence, kept: &Kept) -> Result<(), Broken> {
        let end = usize::try_from(last).unwrap_or(usize::MAX);
        let mut amounts = Amounts::default();
        for record in self.records.iter().take(end) {
            learn(&mut amounts, self.keeps, record)?;
        }
        let has = kept.amounts();
        if amounts.are(&has) {
            return Ok(());
        }
        Err((
            "I-56",
            format!("records up to {last} amount to {amounts:?}, and it has {has:?}"),
        ))
    }

    pub(crate) fn last(&self) -> Sequence {
        self.records.len() as Sequence
    }

    /// The token of whoever owns it.
    pub(super) fn held(&self) -> Token {
        self.owner.map_or(Token::NONE, |owner| owner.token)
    }

    pub(super) const fn keeps(&self) -> RetentionKeeps {
        self.keeps
    }

    pub(crate) const fn amounts(&self) -> &Amounts {
        &self.amounts
    }
}

/// One record more.
fn learn(amounts: &mut Amounts, keeps: RetentionKeeps, record: &Bytes) -> Result<(), Broken> {
    let unreadable = || ("I-55", format!("{record:?} is no record"));
    match keeps {
        RetentionKeeps::Everything | RetentionKeeps::BehindSnapshot => match DurableNote::read(record) {
            Ok(Some(note)) => note_down(amounts, note),
            Ok(None) => match change_of(record) {
                Some(change) => wake(amounts, change),
                None => {
                    for event in events_of(record).ok_or_else(unreadable)? {
                        happen(amounts, event)?;
                    }
                }
            },
            Err(_) => return Err(unreadable()),
        },
        RetentionKeeps::Last => {
            let (notes, state) = split(record).map_err(|_| unreadable())?;
            let events = events_of(state).ok_or_else(unreadable)?;
            let Some(new) = events.strip_prefix(&amounts.events[..]) else {
                let before = amounts.events.len();
                return Err(("I-55", format!("{before} events are replaced by {events:?}")));
            };
            for event in new {
                happen(amounts, *event)?;
            }
            amounts.reminders.clear();
            amounts.open.clear();
            for note in notes {
                note_down(amounts, note);
            }
        }
    }
    Ok(())
}

/// A clock keeps something else from now on: each change has a version.
fn wake(amounts: &mut Amounts, WakeupChange { entity, at_ms }: WakeupChange) {
    amounts.given += 1;
    let version = amounts.given;
    match at_ms {
        Some(at_ms) => drop(amounts.wake_ups.insert(entity, WakeUp { at_ms, version })),
        None => drop(amounts.wake_ups.remove(&entity)),
    }
}

/// I-57: a reminder is handled once, in its time, if it was not taken back.
fn happen(amounts: &mut Amounts, event: Event) -> Result<(), Broken> {
    if event.is_reminder() {
        let serial = event.serial();
        let pending = amounts
            .reminders
            .values()
            .find(|pending| pending.serial == serial);
        match pending {
            None => return Err(("I-57", format!("{event:?}, and nothing like that is pending"))),
            Some(pending) if pending.at_ms > event.at_ms => {
                return Err(("I-57", format!("{event:?} before its time: {pending:?}")));
            }
            Some(_) => {}
        }
    }
    amounts.events.push(event);
    Ok(())
}

fn note_down(amounts: &mut Amounts, note: DurableNote) {
    let reminders = &mut amounts.reminders;
    match note {
        DurableNote::Reminded {
            name,
            at_ms,
            every_ms,
            message,
        } => {
            let serial = message
                .first_chunk::<8>()
                .map_or(0, |bytes| u64::from_le_bytes(*bytes));
            let pending = Pending {
                at_ms,
                every_ms,
                serial,
            };
            reminders.insert(name, pending);
        }
        DurableNote::Again { name, at_ms } => {
            if let Some(pending) = reminders.get_mut(&name) {
                pending.at_ms = at_ms;
            }
        }
        DurableNote::Forgotten { name } => drop(reminders.remove(&name)),
        DurableNote::Sent { number, .. } => {
            amounts.given = amounts.given.max(number);
            amounts.open.insert(number);
        }
        DurableNote::Confirmed { number } => drop(amounts.open.remove(&number)),
        DurableNote::Given { number } => amounts.given = amounts.given.max(number),
    }
}
