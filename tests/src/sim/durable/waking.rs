//! What durable entities do about being woken in the profile `durable`: before one keeps what it has to be
//! woken for it has its clock keep the time, and when it was woken it does what is due and says what is next.
//! I-57, I-69: a clock keeps a time for whoever has a reminder pending or a message unconfirmed, so at rest
//! all of that is done although nobody sends a message. Spec: sharding 1.15; reliability I-57, I-69.

use quorate_core::durable::{DurableFailure, DurableNote};
use quorate_core::input::HostReport;
use quorate_core::sharding::ids::{EntityId, Payload, Slot};
use quorate_core::store::{LogName, Sequence};
use quorate_core::wakeups::{self, WakeUp};

use super::super::engine::Sim;
use super::super::entities::Letter;
use super::super::history::ProcessId;
use super::account::{Cause, Doing, Written, log_of};
use super::clocks::{ClockOrder, is_woken_by};
use super::database::Database;
use super::truth::Broken;

/// An entity was woken.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    version: u64,
    /// The last record when it was.
    last: Sequence,
    /// It has said what is next, and waits for the answer.
    pub(super) has_told: bool,
}

impl Sim {
    /// A clock wakes an entity.
    pub(super) fn handle_call(&mut self, at: (ProcessId, Slot), letter: Letter, message: usize) {
        let version = letter.payload.get(8..).and_then(wakeups::version_of);
        if let Some(ask) = letter.reply_to {
            let result = Ok(Payload::from((message as u64).to_le_bytes()));
            self.report_now(at.0, HostReport::Answered { ask, result });
        }
        let Some(version) = version else {
            // A liar's is a message that cannot be decoded; it counts as nothing else.
            if self.liars.process.is_none() {
                self.violated("host", at.0, "a wake-up has no version".to_owned());
            }
            return;
        };
        let Some(account) = self.durables.account(at).filter(|account| account.is_idle()) else {
            // It is woken again.
            return;
        };
        account.call = Some(Call {
            version,
            last: account.entity.last(),
            has_told: false,
        });
        self.durables.counts.woken += 1;
        self.next_of(at);
    }

    /// Everything is done that was due when it was woken: it is sure of its log, and says what is next.
    pub(super) fn goes_on_with_call(&mut self, at: (ProcessId, Slot)) -> bool {
        let (now_ms, may_begin) = (
            self.unix_ms(at.0),
            self.processes[at.0 as usize].may_begin(self.now),
        );
        let account = self.durables.account(at);
        let Some(account) = account.filter(|account| account.is_free() && may_begin) else {
            return false;
        };
        let Some(call) = account.call.as_mut().filter(|call| !call.has_told) else {
            return false;
        };
        let (version, outbox) = (call.version, account.kept.outbox.as_ref());
        if !account.known.is_sure(version, account.entity.last() != call.last) {
            let number = outbox.map_or(0, |outbox| outbox.rules().counter());
            let step = account.write(Cause::Call, Written::Nothing, vec![DurableNote::Given { number }]);
            self.go_on_with(at, step);
            return true;
        }
        call.has_told = true;
        account.known.forget();
        let post = outbox.and_then(|outbox| outbox.awake_ms(now_ms));
        let next_ms = account
            .kept
            .noted
            .reminders
            .next_ms()
            .into_iter()
            .chain(post)
            .min();
        let entity = account.id.clone();
        let handled = ClockOrder::Handled {
            entity,
            version,
            next_ms,
        };
        self.asks_its_clock(at, &handled);
        true
    }

    /// Writes something, once its clock wakes the entity for it.
    pub(super) fn keeps(
        &mut self,
        at: (ProcessId, Slot),
        cause: Cause,
        written: Written,
        notes: Vec<DurableNote>,
    ) {
        let now_ms = self.unix_ms(at.0);
        let Some(account) = self.durables.account(at) else {
            return;
        };
        let sends = notes.iter().any(|note| matches!(note, DurableNote::Sent { .. }));
        let outbox = account.kept.outbox.as_ref().filter(|_| sends);
        let sent = outbox.map(|outbox| outbox.first_awake_ms(now_ms));
        let reminded = notes.iter().filter_map(DurableNote::wakes_at_ms);
        let wanted = reminded
            .chain(sent)
            .min()
            .filter(|at_ms| !account.known.covers(*at_ms));
        let Some(at_ms) = wanted else {
            let step = account.write(cause, written, notes);
            return self.go_on_with(at, step);
        };
        account.asking = Some(Doing {
            cause,
            written,
            notes,
            records: Vec::new(),
        });
        let entity = account.id.clone();
        self.durables.counts.wanted += 1;
        self.asks_its_clock(at, &ClockOrder::Wake { entity, at_ms });
    }

    /// Its clock keeps this, or has not said so in time.
    pub(super) fn hears_of_clock(&mut self, at: (ProcessId, Slot), life: u64, kept: Option<WakeUp>) {
        let Some(account) = self.durables.alive(at, life) else {
            return;
        };
        if let Some(kept) = kept {
            account.known.on_kept(kept);
        }
        match (account.asking.take(), kept) {
            (None, _) => {
                account.call = None;
                self.next_of(at);
            }
            (Some(asking), Some(_)) => {
                let step = account.write(asking.cause, asking.written, asking.notes);
                self.go_on_with(at, step);
            }
            (Some(asking), None) => {
                account.doing = Some(asking);
                self.is_not_kept(at, DurableFailure::Unavailable);
                self.next_of(at);
            }
        }
    }
}

impl Database {
    /// Whether those whose logs have something that they have to be woken for are woken, by what their clocks
    /// have durably: the owner of this log, or all that a clock wakes.
    pub(super) fn judge_wake_ups(&self, log: &LogName) -> Result<(), Broken> {
        let entities = self.truths.keys().filter_map(|log| log.strip_prefix("account/"));
        for entity in entities.map(EntityId::from) {
            if log_of(&entity) != *log && log_of(&wakeups::clock_of(&entity)) != *log {
                continue;
            }
            let clock = self.truths.get(&log_of(&wakeups::clock_of(&entity)));
            let clock = clock.map(|clock| &clock.amounts().wake_ups);
            let Some(truth) = self.truths.get(&log_of(&entity)) else {
                continue;
            };
            let due = truth.amounts().reminders.values().map(|pending| pending.at_ms);
            let due = due.min().map(|due| if truth.is_put_off { u64::MAX } else { due });
            let unconfirmed = (!truth.amounts().open.is_empty()).then_some(u64::MAX);
            for (invariant, at_ms) in [("I-57", due), ("I-69", unconfirmed)] {
                if at_ms.is_some_and(|at_ms| !is_woken_by(clock, &entity, at_ms)) {
                    let kept = clock.and_then(|clock| clock.get(&entity));
                    let what = format!("{entity} has to be woken by {at_ms:?}, and its clock keeps {kept:?}");
                    return Err((invariant, what));
                }
            }
        }
        Ok(())
    }
}
