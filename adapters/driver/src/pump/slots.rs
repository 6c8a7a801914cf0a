//! The places in which users' code runs on this node: mailboxes by slot. Puts in, ends and forgets as the core orders, and says what
//! cannot be done; knows neither kinds nor singletons. Spec: sharding 1.4, 10.5.

use std::collections::VecDeque;
use std::sync::Arc;

use quorate_core::input::EntityReport;
use quorate_core::sharding::errors::AskFailure;
use quorate_core::sharding::ids::Slot;

use crate::mailbox::{Delivery, Mailbox, Refused, Reports};

/// One that lives.
struct Live<W> {
    generation: u32,
    who: W,
    mailbox: Arc<Mailbox>,
}

/// A table of what lives here; `W` is what its owner knows of each.
pub(super) struct Slots<W> {
    /// By slot index: the core uses small indexes again, so the table is as long as the most there ever were.
    places: Vec<Option<Live<W>>>,
    live: u64,
    reports: Arc<Reports>,
}

impl<W> Slots<W> {
    pub(super) const fn new(reports: Arc<Reports>) -> Self {
        Self {
            places: Vec::new(),
            live: 0,
            reports,
        }
    }

    /// How many live.
    pub(super) const fn live(&self) -> u64 {
        self.live
    }

    pub(super) const fn reports(&self) -> &Arc<Reports> {
        &self.reports
    }

    /// Those whose handlers have held a thread for so many looks; `None` for one that is gone meanwhile.
    pub(super) fn holders(&self, looks: u64) -> Vec<Option<&W>> {
        let slots = self.reports.holding.look(looks);
        let who = |slot| self.find(slot).map(|live| &live.who);
        slots.into_iter().map(who).collect()
    }

    /// Moves what was reported to an empty `into`.
    pub(super) fn take_reports(&self, into: &mut VecDeque<EntityReport>) {
        self.reports.take(into);
    }

    /// One more lives here from now on.
    pub(super) fn put(&mut self, slot: Slot, who: W, mailbox: Arc<Mailbox>) {
        let index = slot.index as usize;
        if index >= self.places.len() {
            self.places.resize_with(index + 1, || None);
        }
        self.places[index] = Some(Live {
            generation: slot.generation,
            who,
            mailbox,
        });
        self.live += 1;
    }

    /// Forgets one whose end was reported.
    pub(super) fn stopped(&mut self, slot: Slot) {
        let Some(place) = self.places.get_mut(slot.index as usize) else {
            return;
        };
        if place
            .as_ref()
            .is_some_and(|live| live.generation == slot.generation)
        {
            *place = None;
            self.live = self.live.saturating_sub(1);
        }
    }

    /// Stops all of them now. What to say of the asks that they have not begun with.
    pub(super) fn kill_all(&self) -> Vec<EntityReport> {
        let mut left = Vec::new();
        for live in self.places.iter().flatten() {
            left.extend(live.mailbox.kill_and_take(&self.reports.budget));
        }
        let unhandled = |delivery: Delivery| {
            let result = Err(AskFailure::EntityStoppedUnhandled);
            delivery
                .into_ask()
                .map(|ask| EntityReport::Answered { ask, result })
        };
        left.into_iter().filter_map(unhandled).collect()
    }

    pub(super) fn deliver(&self, slot: Slot, delivery: Delivery) -> Result<(), EntityReport> {
        let refused = |delivery: Delivery, reason| EntityReport::Refused {
            slot,
            ask: delivery.into_ask(),
            reason,
        };
        let Some(live) = self.find(slot) else {
            return Err(refused(delivery, AskFailure::EntityStoppedUnhandled));
        };
        match live.mailbox.push(delivery, &self.reports.budget) {
            Ok(()) => Ok(()),
            Err(Refused::Full(delivery)) => Err(refused(delivery, AskFailure::MailboxFull)),
            Err(Refused::Gone(delivery)) => Err(refused(delivery, AskFailure::EntityStoppedUnhandled)),
        }
    }

    pub(super) fn end(&self, slot: Slot, how: fn(&Mailbox)) -> Result<(), EntityReport> {
        // One that ended by itself has reported it, or is about to: only an unknown slot is said again.
        let live = self.find(slot).ok_or(EntityReport::Stopped { slot })?;
        how(&live.mailbox);
        Ok(())
    }

    fn find(&self, slot: Slot) -> Option<&Live<W>> {
        let live = self.places.get(slot.index as usize)?.as_ref()?;
        (live.generation == slot.generation).then_some(live)
    }
}
