//! The second half of gets and puts: gives the owners what was found or made, answers once enough of them
//! have it, and goes on to the others. Spec: sharding 5.6, 10.19 c, f; reliability I-70, I-71.

use super::{Call, CallAnswer, CallGoal, CallOutput, CallStage, Out};
use crate::journal::state::StoreId;
use crate::kv::state::configuration::OwnersTally;
use crate::kv::state::entry::KvEntry;
use crate::kv::state::exchange::{KvAnswer, KvRefusal};

#[derive(Clone, Debug)]
pub(super) struct Spreading {
    entry: KvEntry,
    /// Who has it.
    tally: OwnersTally,
}

impl Spreading {
    pub(super) fn answered(&self) -> usize {
        self.tally.answered()
    }

    pub(super) const fn entry(&self) -> &KvEntry {
        &self.entry
    }
}

impl Call {
    /// Gives the entry to all owners but those that hold all of it. Who was asked already what it holds, and
    /// has not answered yet, is told when it does, or with the next repetition.
    pub(super) fn spread(&mut self, entry: KvEntry, held: &[(StoreId, KvEntry)], out: &mut Out) {
        let step = self.next_step();
        let epoch = self.place.configuration.epoch;
        let mut tally = OwnersTally::new(self.place.configuration.clone());
        for (store, theirs) in held {
            if theirs.holds(&entry) {
                tally.count(*store, epoch);
            } else {
                out.push(CallOutput::merge(*store, step, entry.clone()));
            }
        }
        if held.is_empty() {
            let missing = tally.missing();
            out.extend(missing.map(|to| CallOutput::merge(to, step, entry.clone())));
        }
        self.stage = CallStage::Spreading(Spreading { entry, tally });
        self.look(out);
    }

    /// As [`Self::spread`], of what one owner has made and holds.
    pub(super) fn spread_from(&mut self, maker: (StoreId, u64), entry: KvEntry, out: &mut Out) {
        let step = self.next_step();
        let mut tally = OwnersTally::new(self.place.configuration.clone());
        tally.count(maker.0, maker.1);
        let missing = tally.missing();
        out.extend(missing.map(|to| CallOutput::merge(to, step, entry.clone())));
        self.stage = CallStage::Spreading(Spreading { entry, tally });
        self.look(out);
    }

    pub(super) fn repeat_spreading(&self, out: &mut Out) {
        if let CallStage::Spreading(Spreading { entry, tally }) = &self.stage {
            let missing = tally.missing();
            out.extend(missing.map(|to| CallOutput::merge(to, self.step, entry.clone())));
        }
    }

    pub(super) fn on_spread(&mut self, (from, epoch): (StoreId, u64), answer: KvAnswer, out: &mut Out) {
        let CallStage::Spreading(spreading) = &mut self.stage else {
            return;
        };
        match answer {
            KvAnswer::Done => {
                spreading.tally.count(from, epoch);
            }
            // Of the step before: it says late what it holds.
            KvAnswer::Held(theirs) if theirs.holds(&spreading.entry) => {
                spreading.tally.count(from, epoch);
            }
            KvAnswer::Held(_) | KvAnswer::Minted { .. } => {
                if !spreading.tally.has(from) {
                    out.push(CallOutput::merge(from, self.step, spreading.entry.clone()));
                }
            }
            KvAnswer::Refused(_) if self.is_answered => {}
            KvAnswer::Refused(KvRefusal::Blocked(held)) => return self.take_turn(held, out),
            KvAnswer::Refused(KvRefusal::Conditional) => {
                let last = self.place.last_turn;
                return self.take_turn(last, out);
            }
            KvAnswer::Refused(KvRefusal::Put(error)) => return self.fail(error.into(), out),
            KvAnswer::Refused(_) => {}
        }
        self.look(out);
    }

    /// Whether enough have it, or all.
    fn look(&mut self, out: &mut Out) {
        let CallStage::Spreading(spreading) = &self.stage else {
            return;
        };
        let is_whole = spreading.tally.missing().next().is_none();
        match &self.goal {
            CallGoal::Get { .. } if spreading.tally.meets(self.place.levels.writes()) => {
                let entry = spreading.entry.clone();
                self.answer(Ok(CallAnswer::Found(entry)), out);
            }
            CallGoal::Write { .. } if spreading.tally.meets(self.need) => {
                let clock = spreading.entry.siblings.clock().clone();
                self.answer(Ok(CallAnswer::Written(clock)), out);
            }
            CallGoal::Get { .. }
            | CallGoal::Write { .. }
            | CallGoal::Conditional { .. }
            | CallGoal::Resolve
            | CallGoal::Log { .. } => {}
        }
        if is_whole && self.is_answered {
            self.close(out);
        }
    }
}
