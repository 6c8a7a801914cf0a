//! How many replicas have to answer, and which are asked. Pure: decides nothing about time or messages. Spec:
//! sharding 1.12 (consistency arithmetic).

use alloc::vec::Vec;

use rand_core::Rng;

use crate::ident::UniqueAddress;
use crate::rng;

/// Replicas beyond those needed that are asked after a fifth of the time, at most: enough to outlive a few
/// that are slow without asking a large cluster as a whole.
pub const SECONDARY_MAX: usize = 10;

/// How many replicas must have a write, or be asked by a read, before it counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Consistency {
    /// This node alone: no message, no waiting (but for its store, where the key is durable).
    #[default]
    Local,
    /// So many replicas, this node included (at least 1).
    Replicas(u16),
    /// More than half of the members, and at least `ddata.majority_min_cap` of them.
    Majority,
    /// So many more than a majority, without members that are Exiting.
    MajorityPlus(u16),
    /// Every member that is not Exiting.
    All,
}

/// How many members there are for an operation, this node included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperationElectorate {
    /// All.
    pub members: usize,
    /// Those of them, without this node, that are Exiting.
    pub exiting: usize,
}

impl Consistency {
    /// Whether members that are Exiting are left out: waiting for who leaves would only fail.
    #[must_use]
    pub const fn leaves_out_exiting(self) -> bool {
        match self {
            Self::MajorityPlus(_) | Self::All => true,
            Self::Local | Self::Replicas(_) | Self::Majority => false,
        }
    }

    /// Members that count for this level, this node included.
    #[must_use]
    pub const fn counted(self, electorate: OperationElectorate) -> usize {
        if self.leaves_out_exiting() {
            electorate.members.saturating_sub(electorate.exiting)
        } else {
            electorate.members
        }
    }

    /// Replicas that have to answer, this node included. Above [`Self::counted`] there are not enough of
    /// them.
    #[must_use]
    pub fn required(self, electorate: OperationElectorate, min_cap: usize) -> usize {
        let counted = self.counted(electorate);
        let majority = |extra: u16| (counted / 2 + 1 + usize::from(extra)).max(min_cap).min(counted);
        match self {
            Self::Local => 1,
            Self::Replicas(count) => usize::from(count).max(1),
            Self::Majority => majority(0),
            Self::MajorityPlus(extra) => majority(extra),
            Self::All => counted,
        }
    }
}

/// Whom an operation asks, and when.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReplicaTargets {
    /// At once: as many as are needed.
    pub(crate) primary: Vec<UniqueAddress>,
    /// After a fifth of the time.
    pub(crate) secondary: Vec<UniqueAddress>,
}

/// In which order replicas are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReplicaPreference {
    /// Any, so that load spreads.
    Shuffled,
    /// As given: by age where the oldest are preferred.
    AsGiven,
}

impl ReplicaTargets {
    /// Picks `needed` of `others`, those that are reachable first.
    pub(crate) fn choose(
        others: Vec<UniqueAddress>,
        needed: usize,
        preference: ReplicaPreference,
        is_reachable: impl Fn(&UniqueAddress) -> bool,
        chance: &mut dyn Rng,
    ) -> Self {
        let (mut first, mut last): (Vec<_>, Vec<_>) = others.into_iter().partition(is_reachable);
        match preference {
            ReplicaPreference::Shuffled => {
                shuffle(&mut first, chance);
                shuffle(&mut last, chance);
            }
            ReplicaPreference::AsGiven => {}
        }
        first.append(&mut last);
        let mut secondary = first.split_off(needed.min(first.len()));
        secondary.truncate(SECONDARY_MAX);
        Self {
            primary: first,
            secondary,
        }
    }
}

fn shuffle<T>(list: &mut [T], chance: &mut dyn Rng) {
    for end in (1..list.len()).rev() {
        list.swap(end, rng::below(chance, end + 1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{Fixture, node};

    const fn of(members: usize) -> OperationElectorate {
        OperationElectorate { members, exiting: 0 }
    }

    #[test]
    fn s_207_majority_plus_is_capped_from_both_sides() {
        let plus = |members, extra, cap| Consistency::MajorityPlus(extra).required(of(members), cap);
        for (members, extra, expected) in [
            (3, 1, 3),
            (4, 1, 4),
            (5, 1, 4),
            (5, 2, 5),
            (6, 1, 5),
            (7, 1, 5),
            (8, 1, 6),
            (8, 2, 7),
            (9, 1, 6),
            (10, 1, 7),
            (11, 1, 7),
            (11, 3, 9),
        ] {
            assert_eq!(
                plus(members, extra, 0),
                expected,
                "{members} members, plus {extra}"
            );
        }
        assert_eq!([6, 7, 10].map(|cap| plus(9, 1, cap)), [6, 7, 9]);
    }

    #[test]
    fn who_leaves_is_left_out_of_all_and_of_majority_plus_only() {
        let electorate = OperationElectorate {
            members: 9,
            exiting: 4,
        };
        assert_eq!(Consistency::All.required(electorate, 0), 5);
        assert_eq!(Consistency::MajorityPlus(1).required(electorate, 0), 4);
        assert_eq!(Consistency::Majority.required(electorate, 0), 5);
        assert_eq!(Consistency::Replicas(9).required(electorate, 0), 9);
    }

    #[test]
    fn reachable_replicas_are_asked_first_and_few_others_later() {
        let mut fixture = Fixture::new(node("me", 1));
        let others: Vec<_> = (2..30).map(|uid| node("n", uid)).collect();
        let (lost, alone) = (others[0].clone(), others[1].clone());
        let targets = ReplicaTargets::choose(
            others.clone(),
            27,
            ReplicaPreference::Shuffled,
            |n| *n != lost,
            &mut fixture.rng,
        );
        assert_eq!(targets.primary.len(), 27);
        assert_eq!(targets.secondary, core::slice::from_ref(&lost));
        assert_ne!(targets.primary, others[1..]);
        let targets = ReplicaTargets::choose(
            others.clone(),
            1,
            ReplicaPreference::AsGiven,
            |n| *n != lost,
            &mut fixture.rng,
        );
        assert_eq!(targets.primary, [alone]);
        assert_eq!(targets.secondary, others[2..2 + SECONDARY_MAX]);
    }
}
