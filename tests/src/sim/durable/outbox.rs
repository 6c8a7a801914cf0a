//! What durable entities send each other in the profile `durable`: each message is in the sender's log before
//! it is sent, goes as an ask, again and again until the recipient has said that it has kept it, and is then
//! confirmed in the sender's log. I-69: a number is given once, only what is durable and unconfirmed is sent,
//! what is confirmed was kept by its recipient. The core's `Outbox` says what is sent when. Spec: sharding
//! 1.15; reliability I-69.

use core::time::Duration;

use quorate_core::delivery::{AtLeastOnceSettings, Redelivery};
use quorate_core::durable::{DurableNote, Letter, LetterOutbox, LetterRecipient};
use quorate_core::sharding::ids::{EntityId, KindId, Payload, Slot};

use super::super::engine::Sim;
use super::super::history::ProcessId;
use super::super::work::{ENTITIES, KIND};
use super::Turn;
use super::account::{Cause, Written};
use super::records::Event;

/// Those with a lower number send to the others. Two that send to each other where a node has room for one of
/// them only would wake each other without end: who recovers sends all that is unconfirmed.
const SENDERS: u64 = ENTITIES / 2;
/// How long an ask waits for its recipient.
const WAITS: Duration = Duration::from_secs(1);

/// Short, so that much is sent again.
pub(super) fn settings() -> AtLeastOnceSettings {
    AtLeastOnceSettings {
        redeliver_interval: Duration::from_millis(800),
        interval_max: Duration::from_secs(3),
        unconfirmed_max: 5,
        ..AtLeastOnceSettings::default()
    }
}

/// A message on its way, as an ask.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    at: (ProcessId, Slot),
    life: u64,
    number: u64,
}

impl Sim {
    /// The notes of a command that sends something; none if as much is unconfirmed as may be.
    pub(super) fn sends(&mut self, at: (ProcessId, Slot), message: usize) -> Option<Vec<DurableNote>> {
        let (count, chance) = (self.durables.chance.between(1, 2), &mut self.durables.chance);
        let drawn = (0..count).map(|_| format!("e{}", SENDERS + chance.below(ENTITIES - SENDERS)));
        let to: Vec<LetterRecipient> = drawn
            .map(|name| LetterRecipient {
                kind: KindId::of(KIND),
                id: EntityId::from(name.as_str()),
            })
            .collect();
        let account = self.durables.account(at)?;
        let number = account.id.to_string().trim_start_matches('e').parse();
        if number.is_ok_and(|number: u64| number >= SENDERS) {
            return Some(Vec::new());
        }
        let outbox = account.kept.outbox.as_ref()?;
        let numbers = outbox.number(to.iter()).ok()?;
        let note =
            |(to, numbered): (LetterRecipient, quorate_core::durable::LetterNumber)| DurableNote::Sent {
                number: numbered.number,
                letter: Letter {
                    to,
                    payload: Payload::from((message as u64).to_le_bytes()),
                },
            };
        Some(to.into_iter().zip(numbers).map(note).collect())
    }

    /// What was kept, or is there after a recovery, is sent a moment later.
    pub(super) fn will_send(&mut self, at: (ProcessId, Slot), numbers: Vec<u64>) {
        let Some(life) = self.durables.account(at).map(|account| account.life) else {
            return;
        };
        // At rest who sends would have itself passivated before its reminders, where a node has room for few.
        if !numbers.is_empty() && !self.durables.is_at_rest {
            self.happens_to(at, self.now + 1, Turn::Sends { life, numbers });
        }
    }

    /// It has read its log: what it has to deliver is sent.
    pub(super) fn begins_to_send(&mut self, at: (ProcessId, Slot)) {
        self.takes_from_outbox(at, LetterOutbox::begin);
    }

    /// What nobody has confirmed for long enough is sent again.
    pub(super) fn sends_again(&mut self, at: (ProcessId, Slot)) {
        self.takes_from_outbox(at, LetterOutbox::redeliver);
    }

    fn takes_from_outbox(
        &mut self,
        at: (ProcessId, Slot),
        takes: impl FnOnce(&mut LetterOutbox, quorate_core::time::Instant) -> Redelivery,
    ) {
        let now = self.processes[at.0 as usize].now(self.now).mono;
        let outbox = self
            .durables
            .account(at)
            .and_then(|account| account.kept.outbox.as_mut());
        if let Some(outbox) = outbox {
            let numbers = takes(outbox, now).send;
            self.will_send(at, numbers);
        }
    }

    /// Messages go to their recipients.
    pub(super) fn send_letters(&mut self, at: (ProcessId, Slot), life: u64, numbers: Vec<u64>) {
        let index = self.processes[at.0 as usize].index;
        for number in numbers {
            let Some(account) = self.durables.alive(at, life) else {
                return;
            };
            let (log, keeps) = (account.log.clone(), account.manner.retention.keeps);
            let rules = account.kept.outbox.as_ref().map(LetterOutbox::rules);
            let Some(letter) = rules.and_then(|rules| rules.get(number)) else {
                continue;
            };
            let (to, payload) = (letter.message.to.id.to_string(), letter.message.payload.clone());
            // What it is confirming may be confirmed already, as far as the log says.
            let is_being_confirmed = account.doing.as_ref().is_some_and(|doing| doing.confirms(number));
            let is_open = self
                .durables
                .database
                .truth(&log, keeps)
                .amounts()
                .open
                .contains(&number);
            if !is_open && !is_being_confirmed && !self.durables.is_outdated(at) {
                return self.violated(
                    "I-69",
                    at.0,
                    format!("{number} of {log} is sent, and is not kept"),
                );
            }
            if let Some(message) = self.ask_saying(index, &to, WAITS, &payload) {
                self.durables.database.truth(&log, keeps).sent.insert(number);
                self.durables.counts.sent += 1;
                self.durables.letters.insert(message, Sent { at, life, number });
            }
        }
    }

    /// An ask has ended with its recipient having kept it: the sender hears of it.
    pub(super) fn letter_is_kept(&mut self, message: usize) {
        let Some(Sent { at, life, number }) = self.durables.letters.remove(&message) else {
            return;
        };
        let Some(account) = self.durables.alive(at, life) else {
            return;
        };
        let (log, keeps) = (account.log.clone(), account.manner.retention.keeps);
        self.durables.database.truth(&log, keeps).delivered.insert(number);
        self.happens_to(at, self.now + 1, Turn::Delivers { life, number });
    }

    /// A recipient has kept a message.
    pub(super) fn is_delivered(&mut self, at: (ProcessId, Slot), life: u64, number: u64) {
        if let Some(account) = self.durables.alive(at, life) {
            account.answered.insert(number);
            self.handles_answer(at);
        }
    }

    /// Confirms the first message that was answered, if one was and nothing is in the way.
    pub(super) fn handles_answer(&mut self, at: (ProcessId, Slot)) -> bool {
        let host = &self.processes[at.0 as usize];
        let may_begin = host.may_begin(self.now) && !host.entities.is_stopping(at.1);
        let account = self.durables.account(at);
        let Some(account) = account.filter(|account| account.is_idle() && may_begin) else {
            return false;
        };
        while let Some(number) = account.answered.pop_first() {
            let rules = account.kept.outbox.as_ref().map(LetterOutbox::rules);
            if rules.is_some_and(|rules| rules.get(number).is_some()) {
                let event = Written::Event(Event::of_confirmation(number));
                self.keeps(
                    at,
                    Cause::Confirmation,
                    event,
                    vec![DurableNote::Confirmed { number }],
                );
                return true;
            }
        }
        false
    }
}
