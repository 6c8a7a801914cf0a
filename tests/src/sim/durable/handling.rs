//! What durable entities do with messages and reminders: count each, want to be reminded, panic, answer. And
//! whose turn it is. Decides what is wanted; the core's value decides what is written. Spec: sharding 10.7,
//! 1.4.

use core::time::Duration;

use quorate_core::durable::{DurableFailure, LetterOutbox, ReminderWish};
use quorate_core::input::HostReport;
use quorate_core::sharding::errors::AskFailure;
use quorate_core::sharding::ids::{AskRef, Payload, Slot};
use quorate_core::supervision::{Directive, SupervisionVerdict};
use quorate_core::wakeups::WakeupSchedule;

use super::super::engine::{Happening, Sim};
use super::super::entities::Letter;
use super::super::history::ProcessId;
use super::super::life::Fate;
use super::Turn;
use super::account::{Account, Cause, Written, log_of, serial_of};
use super::clocks::is_clock;
use super::deliveries::is_account;
use super::records::Event;
use super::truth::{Broken, Told};

/// Of a thousand messages so many have their entity panic, only read, or have it want to be reminded.
const PANICS_PER_MILLE: u64 = 40;
const READS_PER_MILLE: u64 = 150;
const WISHES_PER_MILLE: u64 = 150;
const SENDS_PER_MILLE: u64 = 150;
/// When reminders are wanted, in milliseconds.
const AFTER_MS: (u64, u64) = (10, 6_000);
const EVERY_MS: (u64, u64) = (300, 4_000);
/// An entity of a node in doubt looks at its reminders again after this.
const LOOK_AGAIN: u64 = 20_000;
/// A clock sleeps so long at most: the wall clock may be set.
const NAP_MAX: Duration = Duration::from_secs(60);

/// What an answer says, behind the number of its message.
const KEPT: u8 = 1;
const NOT_DONE: u8 = 2;
const UNKNOWN: u8 = 3;
const READ: u8 = 4;

fn answer(at: usize, what: u8, count: usize) -> Payload {
    let (at, count) = (at as u64, count as u64);
    [&at.to_le_bytes()[..], &[what], &count.to_le_bytes()]
        .concat()
        .into()
}

/// What a message is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    Panic,
    Read,
    Add,
    AddAndRemind,
    AddAndSend,
}

impl Sim {
    /// Whether an entity has no time for its turn, which it gets later.
    pub(crate) fn holds_back(&mut self, process: ProcessId, slot: Slot) -> bool {
        let entity = self.processes[process as usize].entities.get(slot);
        let (stopping, has_letters) =
            entity.map_or((false, false), |entity| (entity.stopping, entity.has_letters()));
        let Some(account) = self.durables.account((process, slot)) else {
            return false;
        };
        let turns_away = account.told.is_some() && has_letters;
        let ends_early = stopping && !has_letters && !account.has_recovered;
        account.has_turn = !(account.is_idle() || turns_away || ends_early);
        account.has_turn
    }

    pub(super) fn gives_turn_back(&mut self, at: (ProcessId, Slot)) {
        if let Some(account) = self.durables.account(at)
            && core::mem::take(&mut account.has_turn)
        {
            let (process, slot) = at;
            self.queue.push(self.now + 1, Happening::Turn { process, slot });
        }
    }

    /// A durable entity handles a message.
    pub(crate) fn handle_durable(&mut self, at: (ProcessId, Slot), letter: Letter, message: usize) {
        let entity = &self.history.messages[message].entity;
        if is_clock(entity) {
            return self.handle_clock(at, &letter, message);
        }
        if !is_account(entity) {
            return self.handle_other(at, &letter, message);
        }
        if letter.is_wake_up {
            return self.handle_call(at, letter, message);
        }
        let drawn = self.durables.chance.below(1_000);
        // What another entity sent begets nothing.
        let is_sent = self.durables.letters.contains_key(&message);
        let wanted = match drawn {
            _ if is_sent => Wanted::Add,
            0..PANICS_PER_MILLE => Wanted::Panic,
            number if number < PANICS_PER_MILLE + READS_PER_MILLE => Wanted::Read,
            number if number < PANICS_PER_MILLE + READS_PER_MILLE + WISHES_PER_MILLE => Wanted::AddAndRemind,
            number if number >= 1_000 - SENDS_PER_MILLE => Wanted::AddAndSend,
            _ => Wanted::Add,
        };
        let wishes = match wanted {
            Wanted::AddAndRemind => self.wishes(message),
            Wanted::Panic | Wanted::Read | Wanted::Add | Wanted::AddAndSend => Vec::new(),
        };
        let sends = if wanted == Wanted::AddAndSend {
            self.sends(at, message)
        } else {
            Some(Vec::new())
        };
        let now_ms = self.unix_ms(at.0);
        let Some(account) = self.durables.account(at) else {
            return self.violated("host", at.0, "a message comes to no entity".to_owned());
        };
        if !account.is_idle() {
            self.durables.counts.turned_away += 1;
            return self.is_refused(at, message, letter.reply_to);
        }
        match wanted {
            Wanted::Panic => self.panics(at, message, letter.reply_to),
            Wanted::Read => {
                let count = account.kept.events.len();
                if let Some(ask) = letter.reply_to {
                    let result = Ok(answer(message, READ, count));
                    self.report_now(at.0, HostReport::Answered { ask, result });
                }
                self.may_passivate(at);
            }
            Wanted::Add | Wanted::AddAndRemind | Wanted::AddAndSend => {
                let ask = letter.reply_to;
                let Some(sends) = sends else {
                    // As much is unconfirmed as may be.
                    return self.is_refused(at, message, ask);
                };
                let Ok(mut notes) = account.kept.noted.reminders.notes_of(now_ms, wishes) else {
                    return self.violated("host", at.0, "a wish is refused".to_owned());
                };
                notes.extend(sends);
                let event = Written::Event(Event::of_message(message));
                self.keeps(at, Cause::Message { at: message, ask }, event, notes);
            }
        }
    }

    fn wishes(&mut self, message: usize) -> Vec<ReminderWish> {
        let chance = &mut self.durables.chance;
        let count = chance.between(1, 2);
        let mut wishes = Vec::new();
        for number in 0..count {
            let name = ["a", "b", "c"][chance.index(3)].to_owned();
            let after = Duration::from_millis(chance.between(AFTER_MS.0, AFTER_MS.1));
            let every = Duration::from_millis(chance.between(EVERY_MS.0, EVERY_MS.1));
            let (comes_again, is_not_wanted) = (chance.per_mille(250), chance.per_mille(200));
            let serial = message as u64 * 2 + number;
            wishes.push(if is_not_wanted {
                ReminderWish::Forget { name }
            } else {
                ReminderWish::Remind {
                    name,
                    after,
                    every: comes_again.then_some(every),
                    message: Some(Payload::from(serial.to_le_bytes())),
                }
            });
        }
        wishes
    }

    pub(super) fn unix_ms(&self, process: ProcessId) -> u64 {
        self.processes[process as usize].now(self.now).unix_ms
    }

    /// Its log is out of reach: who asks meanwhile hears so.
    fn is_refused(&mut self, at: (ProcessId, Slot), message: usize, ask: Option<AskRef>) {
        self.says(at, message, Told::NotDone, ask);
    }

    /// Tells who asked what became of a message's event, and the truth that it was told.
    fn says(&mut self, at: (ProcessId, Slot), message: usize, told: Told, ask: Option<AskRef>) {
        let Some(account) = self.durables.account(at) else {
            return;
        };
        let (log, keeps) = (account.log.clone(), account.manner.retention.keeps);
        let count = account.kept.events.len();
        let truth = self.durables.database.truth(&log, keeps);
        if let Err(broken) = truth.tell(message as u64, told) {
            return self.is_broken(at.0, broken);
        }
        let what = match told {
            Told::Kept => KEPT,
            Told::NotDone => NOT_DONE,
            Told::Unknown => UNKNOWN,
        };
        if let Some(ask) = ask {
            let result = Ok(answer(message, what, count));
            self.report_now(at.0, HostReport::Answered { ask, result });
        }
    }

    pub(super) fn is_broken(&mut self, process: ProcessId, (invariant, what): Broken) {
        self.violated(invariant, process, what);
    }

    /// The handler panics: what it would have written is not, and the entity is made anew unless that happens
    /// too often.
    fn panics(&mut self, at: (ProcessId, Slot), message: usize, ask: Option<AskRef>) {
        let (process, slot) = at;
        let life = self.durables.next_life();
        let now = self.processes[process as usize].now(self.now).mono;
        let settings = self.durables.restarts;
        let Some(account) = self.durables.account(at) else {
            return;
        };
        let (log, keeps) = (account.log.clone(), account.manner.retention.keeps);
        let verdict = account
            .restarts
            .on_failure(&settings, Directive::Restart, false, now);
        if let Err(broken) = self
            .durables
            .database
            .truth(&log, keeps)
            .tell(message as u64, Told::NotDone)
        {
            return self.is_broken(process, broken);
        }
        if let Some(ask) = ask {
            let result = Err(AskFailure::EntityStopped);
            self.report_now(process, HostReport::Answered { ask, result });
        }
        match verdict {
            SupervisionVerdict::Restart { after } => {
                self.durables.counts.made_anew += 1;
                if let Some(account) = self.durables.account(at) {
                    *account = account.made_anew(life);
                    let after = u64::try_from(after.as_micros()).unwrap_or(u64::MAX);
                    self.happens_to(at, self.now + after, Turn::MadeAnew { life });
                }
            }
            SupervisionVerdict::GiveUp => {
                self.durables.counts.given_up += 1;
                self.durables.ended(process, slot);
                self.suffer(process, slot, Fate::Fails);
            }
            SupervisionVerdict::GoOn | SupervisionVerdict::Stop | SupervisionVerdict::Escalate => {
                self.violated("host", process, format!("{verdict:?} of an entity that panicked"));
            }
        }
    }

    /// What was being written is durable.
    pub(super) fn is_kept(&mut self, at: (ProcessId, Slot)) {
        let Some(account) = self.durables.accounts.get_mut(&at) else {
            return;
        };
        let last = account.entity.last();
        let now = self.processes[at.0 as usize].now(self.now).mono;
        let Some((doing, numbers)) = account.apply(now) else {
            return self.violated("host", at.0, "nothing was being written".to_owned());
        };
        let truth = self
            .durables
            .database
            .truth(&account.log, account.manner.retention.keeps);
        let judged = truth
            .is_durable(last, &doing.records)
            .and_then(|()| truth.amounts_to(last, &account.kept));
        if let Err(broken) = judged {
            return self.is_broken(at.0, broken);
        }
        self.durables.counts.kept += 1;
        self.will_send(at, numbers);
        match doing.cause {
            Cause::Message { at: message, ask } => {
                self.says(at, message, Told::Kept, ask);
                self.may_passivate(at);
            }
            Cause::Reminder(_) => self.durables.counts.reminded += 1,
            Cause::Confirmation => self.durables.counts.confirmed += 1,
            Cause::Call => {}
            Cause::Change { at: message, ask } => {
                self.clock_has_changed(at, (message, ask), Some(doing.written));
            }
        }
    }

    /// What was being written is not, or nobody knows.
    pub(super) fn is_not_kept(&mut self, at: (ProcessId, Slot), failure: DurableFailure) {
        let now_ms = self.unix_ms(at.0);
        let account = self.durables.account(at);
        let Some((account, doing)) = account.and_then(|it| it.doing.take().map(|doing| (it, doing))) else {
            return;
        };
        account.known.forget();
        let is_unknown = failure.may_have_been_handled();
        self.durables.counts.not_done += u64::from(!is_unknown);
        match doing.cause {
            Cause::Message { at: message, ask } => {
                let told = if is_unknown { Told::Unknown } else { Told::NotDone };
                self.says(at, message, told, ask);
            }
            Cause::Reminder(note) => {
                if let Some(account) = self.durables.accounts.get_mut(&at) {
                    account.kept.noted.reminders.on_not_kept(&note, now_ms);
                    let keeps = account.manner.retention.keeps;
                    self.durables.database.truth(&account.log, keeps).is_put_off = true;
                }
            }
            // It is sent again, and answered again.
            Cause::Confirmation => {}
            // It is woken again.
            Cause::Call => {
                if let Some(account) = self.durables.account(at) {
                    account.call = None;
                }
            }
            Cause::Change { at: message, ask } => self.clock_has_changed(at, (message, ask), None),
        }
    }

    /// A log is read to its end.
    pub(super) fn has_recovered(&mut self, at: (ProcessId, Slot)) {
        let Some(account) = self.durables.accounts.get_mut(&at) else {
            return;
        };
        let truth = self
            .durables
            .database
            .truth(&account.log, account.manner.retention.keeps);
        let judged = truth.recovered(account.life, account.entity.last(), &account.kept);
        self.durables.counts.recovered += 1;
        if let Some(clock) = &account.kept.clock {
            account.alarm = WakeupSchedule::of(clock);
        }
        if let Err(broken) = judged {
            self.is_broken(at.0, broken);
        }
    }

    /// It has time: for what it is to be reminded of, then for its mailbox.
    pub(super) fn next_of(&mut self, at: (ProcessId, Slot)) {
        if self.violation.is_none() && !self.does_what_is_due(at) {
            self.look_later(at);
            self.gives_turn_back(at);
        }
    }

    pub(super) fn look_at_reminders(&mut self, at: (ProcessId, Slot)) {
        self.sends_again(at);
        self.rings(at);
        if !self.does_what_is_due(at) {
            self.look_later(at);
        }
    }

    fn does_what_is_due(&mut self, at: (ProcessId, Slot)) -> bool {
        self.handles_answer(at) || self.handles_reminder(at) || self.goes_on_with_call(at)
    }

    /// Handles the first reminder that is due, if one is and nothing is in the way.
    fn handles_reminder(&mut self, at: (ProcessId, Slot)) -> bool {
        let (now, now_ms) = (self.now, self.unix_ms(at.0));
        let host = &self.processes[at.0 as usize];
        let (may_begin, is_stopping) = (host.may_begin(now), host.entities.is_stopping(at.1));
        // What is due when it was woken it handles before it stops.
        let may_handle = |account: &&mut Account| {
            let is_called = account.call.is_some_and(|call| !call.has_told);
            account.is_free() && may_begin && (is_called || account.call.is_none() && !is_stopping)
        };
        let Some(account) = self.durables.account(at).filter(may_handle) else {
            return false;
        };
        let due = account.kept.noted.reminders.due(now_ms);
        let Some((reminder, note)) = due else {
            return false;
        };
        let event = Event::of_reminder(serial_of(&reminder.message), now_ms);
        self.keeps(
            at,
            Cause::Reminder(note.clone()),
            Written::Event(event),
            vec![note],
        );
        true
    }

    /// It looks at its reminders when the next is due.
    fn look_later(&mut self, at: (ProcessId, Slot)) {
        let (now, now_ms) = (self.now, self.unix_ms(at.0));
        let Some(account) = self.durables.account(at).filter(|account| account.is_free()) else {
            return;
        };
        let tick = account.kept.outbox.as_ref().map(LetterOutbox::rules);
        let tick = tick
            .filter(|rules| !rules.is_all_confirmed())
            .map(|rules| rules.tick());
        let alarm = account
            .alarm
            .next_ms()
            .map(|due_ms| due_ms.saturating_sub(now_ms));
        let alarm = alarm.map(|wait_ms| Duration::from_millis(wait_ms).min(NAP_MAX));
        let call = account.call.filter(|call| !call.has_told).map(|_| Duration::ZERO);
        let waits = [account.kept.noted.reminders.wait(now_ms), tick, alarm, call];
        let Some(wait) = waits.into_iter().flatten().min() else {
            return;
        };
        let wait = u64::try_from(wait.as_micros()).unwrap_or(u64::MAX);
        let when = now + wait.max(LOOK_AGAIN);
        if account.looks_at.is_none_or(|looks_at| looks_at > when) {
            account.looks_at = Some(when);
            let life = account.life;
            self.happens_to(at, when, Turn::Looks { life });
        }
    }

    pub(super) fn may_passivate(&mut self, (process, slot): (ProcessId, Slot)) {
        if self.passivations.asks() {
            self.report_now(process, HostReport::Passivate { slot });
        }
    }

    /// Somebody asks an entity: what is acknowledged by now has to be in the answer, if that says what the
    /// entity has.
    pub(crate) fn asks_durable(&mut self, message: Option<usize>) {
        let Some(message) = message.filter(|_| self.durables.enabled) else {
            return;
        };
        let log = log_of(&self.history.messages[message].entity);
        let truth = self.durables.database.truths.get(&log);
        let acknowledged = truth.map_or(0, |truth| truth.acknowledged);
        self.durables.asked.insert(message, acknowledged);
    }

    /// Who asked is answered.
    pub(crate) fn on_durable_answer(&mut self, process: ProcessId, message: usize, payload: &[u8]) {
        if !self.durables.enabled || !is_account(&self.history.messages[message].entity) {
            return;
        }
        let Some((&[what], count)) = payload.get(8..).and_then(<[u8]>::split_first_chunk::<1>) else {
            return self.violated(
                "I-55",
                process,
                format!("ask {message} has no answer in its answer"),
            );
        };
        let count = count
            .first_chunk::<8>()
            .map_or(0, |count| u64::from_le_bytes(*count));
        let log = log_of(&self.history.messages[message].entity);
        let truth = self.durables.database.truths.get(&log);
        let told = truth.and_then(|truth| truth.told.get(&(message as u64)).copied());
        let expected = match what {
            KEPT => Some(Told::Kept),
            NOT_DONE => Some(Told::NotDone),
            UNKNOWN => Some(Told::Unknown),
            _ => None,
        };
        if told != expected {
            let what = format!("ask {message} is answered with {what}, and the entity said {told:?}");
            return self.violated("I-55", process, what);
        }
        let asked = self.durables.asked.get(&message).copied().unwrap_or(0);
        if what == KEPT {
            self.letter_is_kept(message);
        }
        if what == READ && self.assumptions.safe() {
            self.durables.counts.reads += 1;
            if count < asked as u64 {
                let what = format!("ask {message} reads {count} events, and {asked} had been acknowledged");
                self.violated("I-56", process, what);
            }
        }
    }
}
