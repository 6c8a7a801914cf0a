//! The end of what nobody needs any more: tombstones, and actors that give no dots. Only where all N owners
//! of a stable range hold the same: first all say so; then the grace passes, so that what was sent before is
//! gone; then each forgets, if it still holds the same. Spec: sharding 5.6, 10.19 b, g;
//! reliability I-75.

use alloc::vec::Vec;

use super::CallOutput;
use crate::journal::state::StoreId;
use crate::kv::state::configuration::{Configuration, OwnersTally};
use crate::kv::state::exchange::{KvAnswer, KvAsk, SettleStep};

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettlingAnswer {
    /// Some owner has not answered yet.
    Open,
    /// All hold the same: after the grace comes [`Settling::end`].
    Alike,
    /// They are not alike, or the range is being moved: nothing was forgotten.
    NotAlike,
}

/// One key's settling, by one of its owners. It is repeated as a whole some other time, never in part.
#[derive(Clone, Debug)]
pub struct Settling {
    digest: u64,
    last: SettleStep,
    tally: OwnersTally,
    copies: usize,
}

impl Settling {
    /// Begins: asks all owners whether they hold what this digest stands for.
    #[must_use]
    pub fn begin(
        configuration: Configuration,
        copies: usize,
        digest: u64,
        last: SettleStep,
        out: &mut Vec<CallOutput>,
    ) -> Self {
        let settling = Self {
            digest,
            last,
            tally: OwnersTally::new(configuration),
            copies,
        };
        settling.ask(0, &SettleStep::Compare, out);
        settling
    }

    fn ask(&self, step: u32, what: &SettleStep, out: &mut Vec<CallOutput>) {
        let digest = self.digest;
        out.extend(self.tally.configuration().owners.all().map(|to| CallOutput::Ask {
            to,
            step,
            ask: KvAsk::Settle {
                digest,
                step: what.clone(),
            },
        }));
    }

    /// An owner has answered whether it holds the same.
    pub fn on_answer(&mut self, (from, epoch): (StoreId, u64), answer: &KvAnswer) -> SettlingAnswer {
        if *answer != KvAnswer::Done {
            return SettlingAnswer::NotAlike;
        }
        self.tally.count(from, epoch);
        if !self.tally.meets(self.copies) {
            return SettlingAnswer::Open;
        }
        SettlingAnswer::Alike
    }

    /// The grace has passed since all were found alike: each is told to forget.
    pub fn end(self, out: &mut Vec<CallOutput>) {
        self.ask(1, &self.last, out);
    }
}
