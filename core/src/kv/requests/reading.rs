//! A get's first half, and what a put does whose context names more than its owner has seen: asks all owners
//! what they hold, and waits for as many as were asked for, or until some have seen all of the context.
//! Spec: sharding 5.6, 10.19 f.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::{Call, CallAnswer, CallError, CallGoal, CallOutput, CallStage, Out, ask_all};
use crate::journal::state::StoreId;
use crate::kv::state::configuration::OwnersTally;
use crate::kv::state::entry::{AcceptedDecision, KvEntry, Register};
use crate::kv::state::exchange::{KvAnswer, KvAsk};

#[derive(Clone, Debug)]
pub(super) struct ReadingStep {
    tally: OwnersTally,
    held: Vec<(StoreId, KvEntry)>,
}

impl ReadingStep {
    pub(super) fn answered(&self) -> usize {
        self.tally.answered()
    }
}

/// What some owners hold together: all siblings, and what was accepted in the latest turn.
pub(super) fn join<'e>(entries: impl Iterator<Item = &'e KvEntry>) -> (KvEntry, Option<AcceptedDecision>) {
    let mut all = KvEntry::default();
    let mut latest: Option<AcceptedDecision> = None;
    for entry in entries {
        all.siblings.join(&entry.siblings);
        if let Some(accepted) = entry.accepted()
            && latest.as_ref().is_none_or(|latest| accepted.supersedes(latest))
        {
            latest = Some(accepted.clone());
        }
    }
    (all, latest)
}

/// An entry as it is handed on: what was accepted, without what was promised.
pub(super) fn entry_of(mut entry: KvEntry, accepted: Option<AcceptedDecision>) -> KvEntry {
    entry.register = accepted.map(|accepted| {
        Box::new(Register {
            promise: accepted.ballot,
            accepted: Some(accepted),
        })
    });
    if entry.accepted().is_some_and(AcceptedDecision::is_value) {
        entry.siblings = crate::kv::state::siblings::Siblings::new();
    }
    entry
}

impl Call {
    pub(super) fn read(&mut self, out: &mut Out) {
        self.next_step();
        self.stage = CallStage::Reading(ReadingStep {
            tally: OwnersTally::new(self.place.configuration.clone()),
            held: Vec::new(),
        });
        self.repeat_reading(out);
    }

    pub(super) fn repeat_reading(&self, out: &mut Out) {
        if let CallStage::Reading(reading) = &self.stage {
            ask_all(reading.tally.missing(), self.step, &KvAsk::Get, out);
        }
    }

    pub(super) fn on_read(&mut self, (from, epoch): (StoreId, u64), answer: KvAnswer, out: &mut Out) {
        let is_guaranteed = self.is_guaranteed();
        let CallStage::Reading(reading) = &mut self.stage else {
            return;
        };
        let KvAnswer::Held(entry) = answer else { return };
        if !reading.tally.count(from, epoch) {
            return;
        }
        reading.held.push((from, entry));
        let (all, latest) = join(reading.held.iter().map(|(_, entry)| entry));
        if let CallGoal::Write { context, .. } = &self.goal {
            self.is_proven = all.siblings.clock().dominates(context);
            if self.is_proven {
                self.mint(out);
            } else if reading.tally.missing().next().is_none() {
                self.fail(CallError::Context, out);
            }
            return;
        }
        if !reading.tally.meets(self.need) {
            return;
        }
        if !is_guaranteed {
            return self.end(Ok(CallAnswer::Found(entry_of(all, latest))), out);
        }
        let ReadingStep { tally, held } = reading;
        if let Some(latest) = &latest {
            // What was accepted by some is decided only if so many have accepted it that no later turn can
            // miss it.
            if !tally.meets(self.place.levels.decisive()) {
                return;
            }
            let mut same = OwnersTally::new(self.place.configuration.clone());
            for (store, entry) in held.iter() {
                if entry.accepted().is_some_and(|own| own.ballot == latest.ballot) {
                    same.count(*store, epoch);
                }
            }
            if !same.meets(self.place.levels.decisive()) {
                let last = latest.ballot;
                return self.take_turn(last, out);
            }
        }
        let held = core::mem::take(held);
        let entry = entry_of(all, latest);
        if entry.is_empty() {
            return self.end(Ok(CallAnswer::Found(entry)), out);
        }
        self.spread(entry, &held, out);
    }
}

impl CallOutput {
    pub(super) const fn merge(to: StoreId, step: u32, entry: KvEntry) -> Self {
        Self::Ask {
            to,
            step,
            ask: KvAsk::Merge(entry),
        }
    }
}
