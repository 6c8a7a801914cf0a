//! How far one configuration of a range is: who has adopted it, whom a newcomer has merged, and whether the
//! next one may follow. Decides nothing about who owns what. Spec: sharding 10.19 b.

use core::time::Duration;

use crate::handoff::Barrier;
use crate::journal::state::StoreId;
use crate::kv::state::table::RangeEntry;
use crate::ordered::OrderedSet;
use crate::time::Instant;

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct RangeStep {
    /// Opens when all that are concerned have adopted the configuration or are gone.
    pub(super) adopting: Barrier<StoreId>,
    /// Owners whose content the newcomer has merged, each read after it had refused what was before.
    merged: OrderedSet<StoreId>,
    /// When they were told last.
    pub(super) told_at: Option<Instant>,
}

/// What may follow a Joint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JointOutlook {
    /// The newcomer lacks something, or the owners before could still serve among themselves.
    Waits,
    /// The owners after may be the only ones.
    Due,
    /// The same, but so many of those before are gone that acknowledged writes may be gone with them.
    DueWithLosses,
}

impl RangeStep {
    /// Nobody has adopted it; everybody concerned has to, the owner before among them that is none any more.
    pub(super) fn begin(
        epoch: u64,
        concerned: impl IntoIterator<Item = StoreId>,
        (now, timeout): (Instant, Duration),
    ) -> Self {
        Self {
            adopting: Barrier::new(epoch, concerned, now + timeout),
            merged: OrderedSet::new(),
            told_at: None,
        }
    }

    /// The newcomer says whose content it has merged. What it merged it keeps, so nothing is taken back.
    pub(super) fn merge(&mut self, merged: &[StoreId]) {
        self.merged.extend(merged);
    }

    /// Whether Stable with the owners after may follow this Joint. Whoever is gone for good answers no
    /// request, as one who refuses, and has nothing that could be merged.
    pub(super) fn outlook(&self, entry: &RangeEntry, is_gone: impl Fn(StoreId) -> bool) -> JointOutlook {
        let (from, _) = entry.configuration.owners.sets();
        let refuses = |store: &&StoreId| !self.waits_for(**store) || is_gone(**store);
        let refusing = from.iter().filter(refuses).count();
        let merged = from.iter().filter(|store| self.merged.contains(*store)).count();
        let can_be_merged = |store: &&StoreId| self.merged.contains(*store) || !is_gone(**store);
        let mergeable = from.iter().filter(can_be_merged).count();
        let needed = entry.levels.merges();
        if refusing < entry.levels.refusals() || merged < needed.min(mergeable) {
            JointOutlook::Waits
        } else if merged < needed {
            JointOutlook::DueWithLosses
        } else {
            JointOutlook::Due
        }
    }

    fn waits_for(&self, store: StoreId) -> bool {
        self.adopting.waiting().any(|waiting| *waiting == store)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kv::state::configuration::Configuration;
    use crate::kv::state::table::{RangeLevels, replaced};

    const NOBODY: fn(StoreId) -> bool = |_| false;

    fn joint((copies, reads, writes): (u8, u8, u8)) -> (RangeEntry, RangeStep) {
        let owners: alloc::vec::Vec<StoreId> = (1..=u128::from(copies)).map(StoreId).collect();
        let entry = RangeEntry {
            configuration: Configuration {
                epoch: 2,
                owners: replaced(&owners, StoreId(1), StoreId(9)).unwrap(),
            },
            levels: RangeLevels::new(copies, reads, writes).unwrap(),
        };
        let timing = (Instant::ZERO, Duration::from_secs(1));
        let step = RangeStep::begin(2, entry.configuration.owners.all(), timing);
        (entry, step)
    }

    fn adopt(step: &mut RangeStep, stores: &[u128]) {
        for store in stores {
            step.adopting.marked(&StoreId(*store), 2);
        }
    }

    fn merge(step: &mut RangeStep, stores: &[u128]) {
        for store in stores {
            step.merge(&[StoreId(*store)]);
        }
    }

    #[test]
    fn as_many_refuse_and_are_merged_as_the_least_levels_say() {
        for (levels, refusals, merges) in [
            ((3, 2, 2), 2, 2),
            ((3, 1, 3), 3, 1),
            ((3, 3, 1), 3, 3),
            ((3, 3, 3), 1, 1),
            ((5, 3, 3), 3, 3),
        ] {
            for refuse in 0..=levels.0 {
                for merged in 0..=levels.0 {
                    let (entry, mut step) = joint(levels);
                    let first = |count: u8| (1..=u128::from(count)).collect::<alloc::vec::Vec<_>>();
                    adopt(&mut step, &first(refuse));
                    merge(&mut step, &first(merged));
                    let is_due = refuse >= refusals && merged >= merges;
                    let outlook = step.outlook(&entry, NOBODY);
                    assert_eq!(
                        outlook == JointOutlook::Due,
                        is_due,
                        "{levels:?} {refuse} {merged}"
                    );
                    assert_ne!(outlook, JointOutlook::DueWithLosses);
                }
            }
        }
    }

    #[test]
    fn the_newcomers_refusal_and_content_count_for_nothing() {
        let (entry, mut step) = joint((3, 2, 2));
        adopt(&mut step, &[9, 2]);
        merge(&mut step, &[9, 2]);
        assert_eq!(step.outlook(&entry, NOBODY), JointOutlook::Waits);
    }

    #[test]
    fn who_is_gone_refuses_and_cannot_be_merged() {
        let (entry, mut step) = joint((3, 1, 3));
        adopt(&mut step, &[2, 3]);
        merge(&mut step, &[2]);
        assert_eq!(step.outlook(&entry, NOBODY), JointOutlook::Waits, "1 may serve");
        let one = |store: StoreId| store == StoreId(1);
        assert_eq!(step.outlook(&entry, one), JointOutlook::Due);
        let (entry, mut step) = joint((3, 2, 2));
        let two = |store: StoreId| store <= StoreId(2);
        assert_eq!(step.outlook(&entry, two), JointOutlook::Waits, "3 can be merged");
        adopt(&mut step, &[3]);
        merge(&mut step, &[3]);
        assert_eq!(step.outlook(&entry, two), JointOutlook::DueWithLosses);
        let (entry, mut step) = joint((3, 2, 2));
        merge(&mut step, &[1]);
        assert_eq!(
            step.outlook(&entry, two),
            JointOutlook::Waits,
            "merged before it was lost"
        );
        merge(&mut step, &[3]);
        assert_eq!(step.outlook(&entry, two), JointOutlook::Due);
    }
}
