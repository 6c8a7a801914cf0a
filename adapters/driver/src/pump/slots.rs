//! The places in which users' code runs on this node: mailboxes by slot. Puts in, ends and forgets as the
//! core orders, and says what cannot be done; knows whose they are by name only. Spec: sharding 1.4, 10.5.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;

use quorate_core::input::{HostReport, Recipient};
use quorate_core::load::state::sample::LoadPartId;
use quorate_core::sharding::errors::AskFailure;
use quorate_core::sharding::ids::Slot;

use crate::mailbox::{MAILBOX_MESSAGES_MAX, Mailbox, MailboxMessage, MailboxRefusal, Reports};

/// One that lives.
struct LiveSlot {
    generation: u32,
    who: Recipient,
    mailbox: Arc<Mailbox>,
    /// Its place among the kinds and paths; none of an instance of a singleton.
    kind: Option<usize>,
}

/// Mailboxes that are looked into for one measure: what that costs must not grow with their number.
const MAILBOXES_MEASURED_MAX: usize = 1_024;

/// The load of the entities of one kind, or of the instances of one path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct KindLoad {
    pub(crate) part: LoadPartId,
    /// Messages in mailboxes, of the room in them; of more than 1,024 entities an estimate.
    pub(crate) mailboxes: f64,
    /// Messages put into mailboxes since the last measure.
    pub(crate) delivered: u64,
}

/// A table of what lives here, of one owner.
pub(super) struct Slots {
    /// By slot index: the core uses small indexes again, so the table is as long as the most there ever were.
    places: Vec<Option<LiveSlot>>,
    live: u64,
    /// Every kind and path that had an entity or instance here since the node began, and messages delivered
    /// since the last measure: as many as there are kinds and paths.
    kinds: Vec<(LoadPartId, u64)>,
    reports: Arc<Reports>,
    /// What was reported and the node has not heard yet.
    unheard: VecDeque<HostReport>,
}

impl Slots {
    pub(super) const fn new(reports: Arc<Reports>) -> Self {
        Self {
            places: Vec::new(),
            live: 0,
            kinds: Vec::new(),
            reports,
            unheard: VecDeque::new(),
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
    pub(super) fn holders(&self, looks: u64) -> Vec<Option<&Recipient>> {
        let slots = self.reports.holding.look(looks);
        let who = |slot| self.find(slot).map(|live| &live.who);
        slots.into_iter().map(who).collect()
    }

    /// Whether something was taken over of which the node has not heard.
    pub(super) fn has_reports(&self) -> bool {
        !self.unheard.is_empty()
    }

    /// Takes over what was reported, unless there is something of an earlier time.
    pub(super) fn take_reports(&mut self) {
        if self.unheard.is_empty() {
            self.reports.take(&mut self.unheard);
        }
    }

    /// The next report of what was taken over. Forgets what has ended.
    pub(super) fn next_report(&mut self) -> Option<HostReport> {
        let report = self.unheard.pop_front()?;
        if let HostReport::Stopped { slot } = &report {
            self.stopped(*slot);
        }
        Some(report)
    }

    /// Everything that was reported. Forgets what has ended.
    pub(super) fn all_reports(&mut self) -> Vec<HostReport> {
        let mut all: Vec<HostReport> = std::iter::from_fn(|| self.next_report()).collect();
        self.take_reports();
        all.extend(std::iter::from_fn(|| self.next_report()));
        all
    }

    /// One more lives here from now on.
    pub(super) fn put(&mut self, slot: Slot, who: Recipient, mailbox: Arc<Mailbox>) {
        let index = slot.index as usize;
        if index >= self.places.len() {
            self.places.resize_with(index + 1, || None);
        }
        let kind = self.kind_of(&who);
        self.places[index] = Some(LiveSlot {
            generation: slot.generation,
            who,
            mailbox,
            kind,
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
    pub(super) fn kill_all(&self) -> Vec<HostReport> {
        let mut left = Vec::new();
        for live in self.places.iter().flatten() {
            left.extend(live.mailbox.kill_and_take(&self.reports.budget));
        }
        let unhandled = |delivery: MailboxMessage| {
            let result = Err(AskFailure::EntityStoppedUnhandled);
            delivery
                .into_ask()
                .map(|ask| HostReport::Answered { ask, result })
        };
        left.into_iter().filter_map(unhandled).collect()
    }

    fn kind_of(&mut self, who: &Recipient) -> Option<usize> {
        let part = LoadPartId(match who {
            Recipient::Entity(kind, _) => kind.raw(),
            Recipient::Path(path, _) => path.raw(),
            Recipient::Singleton(_) => return None,
        });
        let known = self.kinds.iter().position(|(of, _)| *of == part);
        Some(known.unwrap_or_else(|| {
            self.kinds.push((part, 0));
            self.kinds.len() - 1
        }))
    }

    /// The load by kind, since the last call. Linear in the kinds and in the mailboxes that are looked into.
    pub(super) fn load_of_kinds(&mut self) -> Vec<KindLoad> {
        let mut found = vec![(0_usize, 0_usize); self.kinds.len()];
        let step = self.places.len().div_ceil(MAILBOXES_MEASURED_MAX).max(1);
        for live in self.places.iter().step_by(step).flatten() {
            if let Some((looked, waiting)) = live.kind.and_then(|kind| found.get_mut(kind)) {
                *looked += 1;
                *waiting += live.mailbox.waiting();
            }
        }
        let load =
            |((part, delivered), (looked, waiting)): (&mut (LoadPartId, u64), (usize, usize))| KindLoad {
                part: *part,
                mailboxes: waiting as f64 / (looked.max(1) * MAILBOX_MESSAGES_MAX) as f64,
                delivered: std::mem::take(delivered),
            };
        self.kinds.iter_mut().zip(found).map(load).collect()
    }

    /// How many of a kind or path live here. Linear in the slots: for paths, which have few.
    pub(super) fn live_of(&self, part: LoadPartId) -> u32 {
        let at = self.kinds.iter().position(|(of, _)| *of == part);
        let of_it = |live: &&LiveSlot| at.is_some() && live.kind == at;
        u32::try_from(self.places.iter().flatten().filter(of_it).count()).unwrap_or(u32::MAX)
    }

    /// Whom to wake for it.
    pub(super) fn deliver(
        &mut self,
        slot: Slot,
        delivery: MailboxMessage,
    ) -> Result<Option<Waker>, HostReport> {
        let refused = |delivery: MailboxMessage, reason| HostReport::Refused {
            slot,
            ask: delivery.into_ask(),
            reason,
        };
        let Some(live) = self.find(slot) else {
            return Err(refused(delivery, AskFailure::EntityStoppedUnhandled));
        };
        let kind = live.kind;
        match live.mailbox.push(delivery, &self.reports.budget) {
            Ok(waker) => {
                if let Some((_, delivered)) = kind.and_then(|kind| self.kinds.get_mut(kind)) {
                    *delivered += 1;
                }
                Ok(waker)
            }
            Err(MailboxRefusal::Full(delivery)) => Err(refused(delivery, AskFailure::MailboxFull)),
            Err(MailboxRefusal::Gone(delivery)) => Err(refused(delivery, AskFailure::EntityStoppedUnhandled)),
        }
    }

    pub(super) fn end(&self, slot: Slot, how: fn(&Mailbox)) -> Result<(), HostReport> {
        // One that ended by itself has reported it, or is about to: only an unknown slot is said again.
        let live = self.find(slot).ok_or(HostReport::Stopped { slot })?;
        how(&live.mailbox);
        Ok(())
    }

    fn find(&self, slot: Slot) -> Option<&LiveSlot> {
        let live = self.places.get(slot.index as usize)?.as_ref()?;
        (live.generation == slot.generation).then_some(live)
    }
}
