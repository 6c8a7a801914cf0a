//! Who owns a range, and when enough of its owners have answered. Owners are stores: one that has lost what
//! it held has another id and counts for nothing that it did before. Values only. Spec: sharding 10.19 b.
//!
//! While one owner is being replaced both sets count: what is met in one of them alone could be missed by who
//! asks the other one. An answer counts in the configuration under which it was given, and in no other.

use alloc::vec::Vec;

use crate::journal::state::StoreId;

/// The most owners of a range, and the most copies of a value: each write waits for some of them. The number
/// of a quorum log's voters.
pub const OWNERS_MAX: usize = crate::journal::state::VOTERS_MAX;

/// The owners of a range as they are at an epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Configuration {
    /// Counts the configurations of the range, from 1; owners refuse requests of lower ones.
    pub epoch: u64,
    /// Who they are.
    pub owners: Owners,
}

/// The stores that own a range, each once, in an order that stays: who replaces another takes its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owners {
    /// These.
    Stable(Vec<StoreId>),
    /// One is being replaced: everything is to be met in both sets.
    Joint {
        /// The owners before.
        from: Vec<StoreId>,
        /// The owners after.
        to: Vec<StoreId>,
    },
}

/// Why owners are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OwnersError {
    /// None, or more than there may be.
    #[error("a range has 1 to {OWNERS_MAX} owners, not {found}")]
    Count {
        /// How many.
        found: usize,
    },
    /// A store is named twice.
    #[error("a store owns a range once")]
    Twice,
    /// Not exactly one store is replaced by one other.
    #[error("a range changes one owner at a time")]
    NotOneChange,
}

impl Owners {
    /// Whether a range can have these.
    ///
    /// # Errors
    /// [`OwnersError`] says why not.
    pub fn check(&self) -> Result<(), OwnersError> {
        let (from, to) = self.sets();
        check_set(from)?;
        let Some(to) = to else { return Ok(()) };
        check_set(to)?;
        let come = to.iter().filter(|store| !from.contains(store)).count();
        if from.len() == to.len() && come == 1 {
            Ok(())
        } else {
            Err(OwnersError::NotOneChange)
        }
    }

    /// The owners before and, in Joint, those after.
    #[must_use]
    pub fn sets(&self) -> (&[StoreId], Option<&[StoreId]>) {
        match self {
            Self::Stable(stores) => (stores, None),
            Self::Joint { from, to } => (from, Some(to)),
        }
    }

    /// Everybody who is named, each once: the owners before, then the newcomer.
    pub fn all(&self) -> impl Iterator<Item = StoreId> {
        let (from, _) = self.sets();
        from.iter().copied().chain(self.newcomer())
    }

    /// Whether the store is among them.
    #[must_use]
    pub fn contains(&self, store: StoreId) -> bool {
        self.all().any(|owner| owner == store)
    }

    /// Who is to become an owner.
    #[must_use]
    pub fn newcomer(&self) -> Option<StoreId> {
        let (from, to) = self.sets();
        to?.iter().find(|store| !from.contains(store)).copied()
    }

    /// Who is to be one no more.
    #[must_use]
    pub fn leaver(&self) -> Option<StoreId> {
        let (from, to) = self.sets();
        let to = to?;
        from.iter().find(|store| !to.contains(store)).copied()
    }
}

fn check_set(stores: &[StoreId]) -> Result<(), OwnersError> {
    if !(1..=OWNERS_MAX).contains(&stores.len()) {
        return Err(OwnersError::Count { found: stores.len() });
    }
    let is_twice = |(at, store)| stores.iter().take(at).any(|other| other == store);
    if stores.iter().enumerate().any(is_twice) {
        return Err(OwnersError::Twice);
    }
    Ok(())
}

/// Which owners have answered a request under its present configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnersTally {
    configuration: Configuration,
    answered: Vec<StoreId>,
}

impl OwnersTally {
    /// Nobody has.
    #[must_use]
    pub const fn new(configuration: Configuration) -> Self {
        Self {
            configuration,
            answered: Vec::new(),
        }
    }

    /// The configuration under which answers count.
    #[must_use]
    pub const fn configuration(&self) -> &Configuration {
        &self.configuration
    }

    /// The request is asked again under a newer configuration: no answer that came before counts in it.
    /// Whether it is newer.
    pub fn renew(&mut self, configuration: Configuration) -> bool {
        let is_newer = configuration.epoch > self.configuration.epoch;
        if is_newer {
            *self = Self::new(configuration);
        }
        is_newer
    }

    /// A store has answered under the configuration of this epoch. Whether that counts, and did not before.
    pub fn count(&mut self, store: StoreId, epoch: u64) -> bool {
        let counts = epoch == self.configuration.epoch
            && self.configuration.owners.contains(store)
            && !self.has(store);
        if counts {
            self.answered.push(store);
        }
        counts
    }

    /// Whether the answer of a store is counted.
    #[must_use]
    pub fn has(&self, store: StoreId) -> bool {
        self.answered.contains(&store)
    }

    /// Owners whose answer is missing.
    pub fn missing(&self) -> impl Iterator<Item = StoreId> {
        self.configuration.owners.all().filter(|store| !self.has(*store))
    }

    /// How many have answered: in Joint as many as in the set with fewer answers.
    #[must_use]
    pub fn answered(&self) -> usize {
        let of = |stores: &[StoreId]| stores.iter().filter(|store| self.has(**store)).count();
        let (from, to) = self.configuration.owners.sets();
        to.map_or(of(from), |to| of(from).min(of(to)))
    }

    /// Whether so many owners have answered, of each set. A level is such a number of the N copies that the
    /// bucket has, however many owners there are: with fewer than it wants it cannot be met.
    #[must_use]
    pub fn meets(&self, level: usize) -> bool {
        self.answered() >= level
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    fn stores<const N: usize>(ids: [u128; N]) -> Vec<StoreId> {
        ids.map(StoreId).to_vec()
    }

    fn joint() -> Configuration {
        Configuration {
            epoch: 7,
            owners: Owners::Joint {
                from: stores([1, 2, 3]),
                to: stores([1, 2, 4]),
            },
        }
    }

    #[test]
    fn in_joint_a_level_is_met_in_both_sets() {
        let mut tally = OwnersTally::new(joint());
        assert!(tally.count(StoreId(1), 7));
        assert!(tally.count(StoreId(3), 7));
        assert_eq!(
            (tally.answered(), tally.meets(2)),
            (1, false),
            "only of the old ones"
        );
        assert!(tally.count(StoreId(4), 7));
        assert!(tally.meets(2) && !tally.meets(3));
        assert_eq!(tally.missing().collect::<Vec<_>>(), stores([2]));
    }

    #[test]
    fn an_answer_counts_once_of_an_owner_and_under_the_present_configuration() {
        let mut tally = OwnersTally::new(joint());
        assert!(!tally.count(StoreId(5), 7), "no owner");
        assert!(!tally.count(StoreId(1), 6), "of an earlier configuration");
        assert!(!tally.count(StoreId(1), 8), "of a later one");
        assert!(tally.count(StoreId(1), 7) && !tally.count(StoreId(1), 7));
        let stable = |epoch| Configuration {
            epoch,
            owners: Owners::Stable(stores([1, 2, 4])),
        };
        assert!(!tally.renew(stable(7)) && tally.has(StoreId(1)), "not newer");
        assert!(tally.renew(stable(8)));
        assert_eq!((tally.answered(), tally.configuration().epoch), (0, 8));
    }

    #[test]
    fn a_level_counts_against_all_copies_also_with_fewer_owners() {
        let owners = Owners::Stable(stores([1]));
        let mut tally = OwnersTally::new(Configuration { epoch: 1, owners });
        assert!(tally.count(StoreId(1), 1));
        assert!(tally.meets(1) && !tally.meets(2));
    }

    #[test]
    fn owners_are_few_named_once_and_change_one_at_a_time() {
        let joint = |from: &[u128], to: &[u128]| {
            let [from, to] = [from, to].map(|ids| ids.iter().copied().map(StoreId).collect());
            Owners::Joint { from, to }.check()
        };
        assert_eq!(joint(&[1, 2, 3], &[1, 4, 3]), Ok(()));
        for (from, to) in [
            (&[1, 2, 3][..], &[1, 2, 3][..]),
            (&[1, 2, 3], &[1, 4, 5]),
            (&[1, 2], &[1, 2, 3]),
            (&[1, 2, 3], &[1, 2]),
        ] {
            assert_eq!(joint(from, to), Err(OwnersError::NotOneChange), "{from:?} {to:?}");
        }
        assert_eq!(joint(&[1, 1], &[1, 2]), Err(OwnersError::Twice));
        let many = (0..=OWNERS_MAX as u128).map(StoreId).collect();
        for (wrong, found) in [(vec![], 0), (many, OWNERS_MAX + 1)] {
            let refused = Err(OwnersError::Count { found });
            assert_eq!(Owners::Stable(wrong).check(), refused);
        }
    }

    #[test]
    fn who_comes_and_who_goes() {
        let owners = joint().owners;
        assert_eq!(owners.newcomer(), Some(StoreId(4)));
        assert_eq!(owners.leaver(), Some(StoreId(3)));
        assert_eq!(owners.all().collect::<Vec<_>>(), stores([1, 2, 3, 4]));
        let stable = Owners::Stable(stores([1, 2]));
        assert_eq!((stable.newcomer(), stable.leaver()), (None, None));
    }
}
