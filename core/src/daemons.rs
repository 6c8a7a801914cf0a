//! Daemons that are always somewhere: how many there are, how each is called, and what the one who sees to
//! them has to do next when their number changes. Values without a machine: a daemon is an entity, its number
//! is its shard, and what is written here is kept in distributed data as a set of scales, of which the
//! greatest counts. Never sends. Spec: sharding 1.8.

use alloc::format;
use alloc::vec::Vec;
use core::str;

use crate::sharding::state::extractor::ShardExtractor;
use crate::sharding::state::ids::EntityId;

/// Most daemons of one name: each has a shard, and a table of so many is looked through in a moment.
pub const DAEMONS_MAX: u32 = 4_096;

/// How many daemons there are. Of two scales the one with the higher revision counts, of one revision the
/// settled one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DaemonScale {
    /// Grows with each change of the number; from 1 on.
    pub revision: u64,
    /// Whether all daemons of earlier revisions have ended: only then one of this may begin.
    pub is_settled: bool,
    /// How many: 1 to [`DAEMONS_MAX`].
    pub count: u32,
}

impl DaemonScale {
    /// The first one.
    #[must_use]
    pub const fn first(count: u32) -> Self {
        Self {
            revision: 1,
            is_settled: true,
            count,
        }
    }

    /// The next one: nothing of it may begin yet.
    #[must_use]
    pub const fn next(self, count: u32) -> Self {
        Self {
            revision: self.revision.saturating_add(1),
            is_settled: false,
            count,
        }
    }

    /// The same, once all earlier ones have ended.
    #[must_use]
    pub const fn settled(self) -> Self {
        Self {
            is_settled: true,
            ..self
        }
    }

    /// Its daemons.
    pub fn daemons(self) -> impl Iterator<Item = DaemonId> {
        (0..self.count).map(move |index| DaemonId {
            revision: self.revision,
            count: self.count,
            index,
        })
    }
}

/// One daemon of one scale. One of a later revision is another, so that an order to an earlier one never
/// begins it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DaemonId {
    /// Of the scale.
    pub revision: u64,
    /// Of the scale.
    pub count: u32,
    /// Which of them: below `count`.
    pub index: u32,
}

impl DaemonId {
    /// As an entity: `revision|count|index`.
    #[must_use]
    pub fn entity(self) -> EntityId {
        let text = format!("{}|{}|{}", self.revision, self.count, self.index);
        EntityId::new(text.as_bytes())
    }

    /// Reads what [`Self::entity`] has written; `None` for anything else.
    #[must_use]
    pub fn of(entity: &EntityId) -> Option<Self> {
        let mut parts = str::from_utf8(entity.as_bytes()).ok()?.split('|');
        let id = Self {
            revision: parts.next()?.parse().ok()?,
            count: parts.next()?.parse().ok()?,
            index: parts.next()?.parse().ok()?,
        };
        let is_legal = parts.next().is_none() && id.index < id.count && id.entity() == *entity;
        is_legal.then_some(id)
    }

    /// Whether it may begin, by what a majority knows.
    #[must_use]
    pub fn may_begin(self, known: impl IntoIterator<Item = DaemonScale>) -> bool {
        let newest = known.into_iter().max();
        newest.is_some_and(|scale| {
            scale.is_settled && scale.revision == self.revision && scale.count == self.count
        })
    }
}

/// Each daemon in the shard of its number: the allocation of shards spreads them.
#[must_use]
pub fn extractor() -> ShardExtractor {
    ShardExtractor::custom("daemon-index", |entity, _| {
        DaemonId::of(entity).map_or(0, |daemon| daemon.index)
    })
}

/// What the one who sees to the daemons does, given what a majority knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScalePlan {
    /// Nobody has begun: write this.
    Begin(DaemonScale),
    /// A change is under way, whoever began it: have all daemons of these ended, then write this.
    Settle {
        /// Earlier ones.
        ends: Vec<DaemonScale>,
        /// The settled one.
        then: DaemonScale,
    },
    /// See to it that the daemons of this one run; what else is known need not be kept.
    Keep {
        /// The one that counts.
        scale: DaemonScale,
        /// Earlier ones.
        forget: Vec<DaemonScale>,
    },
}

impl ScalePlan {
    /// `count`: of the first scale.
    #[must_use]
    pub fn of(known: impl IntoIterator<Item = DaemonScale>, count: u32) -> Self {
        let mut known: Vec<DaemonScale> = known.into_iter().collect();
        known.sort_unstable();
        match known.pop() {
            None => Self::Begin(DaemonScale::first(count)),
            Some(scale) if scale.is_settled => Self::Keep { scale, forget: known },
            Some(scale) => {
                // Another change of the same revision may have begun elsewhere, and was not settled: nothing
                // of it runs.
                known.retain(|earlier| earlier.revision < scale.revision);
                Self::Settle {
                    ends: known,
                    then: scale.settled(),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    #[test]
    fn a_daemon_is_called_by_revision_count_and_number_and_by_nothing_else() {
        let daemon = DaemonId {
            revision: 1,
            count: 4,
            index: 3,
        };
        assert_eq!(daemon.entity().as_bytes(), b"1|4|3");
        assert_eq!(DaemonId::of(&daemon.entity()), Some(daemon));
        for bad in [
            &b"3"[..],
            b"1|4",
            b"1|4|4",
            b"1|4|3|",
            b"01|4|3",
            b"1|4|+3",
            b"",
            b"\xff|1|0",
        ] {
            assert_eq!(DaemonId::of(&EntityId::new(bad)), None, "{bad:?}");
        }
        assert_eq!(extractor().shard_of(&daemon.entity(), DAEMONS_MAX).0, 3);
    }

    #[test]
    fn a_change_ends_the_earlier_ones_and_settles_whoever_goes_on_with_it() {
        let first = DaemonScale::first(4);
        assert_eq!(ScalePlan::of([], 4), ScalePlan::Begin(first));
        let keep = ScalePlan::Keep {
            scale: first,
            forget: vec![],
        };
        assert_eq!(ScalePlan::of([first], 9), keep, "what is written counts");
        let change = first.next(7);
        let settle = ScalePlan::Settle {
            ends: vec![first],
            then: change.settled(),
        };
        assert_eq!(ScalePlan::of([change, first], 4), settle);
        let forget = ScalePlan::Keep {
            scale: change.settled(),
            forget: vec![first, change],
        };
        assert_eq!(ScalePlan::of([change.settled(), first, change], 4), forget);
        // Two changes at once: one of them counts, everywhere the same.
        let plan = ScalePlan::of([first, first.next(3), first.next(7)], 4);
        assert_eq!(plan, settle);
    }

    #[test]
    fn a_daemon_begins_only_under_its_own_settled_scale() {
        let first = DaemonScale::first(4);
        let change = first.next(7);
        let (old, new) = (first.daemons().next().unwrap(), change.daemons().next().unwrap());
        assert_eq!((first.daemons().count(), change.daemons().count()), (4, 7));
        assert!(old.may_begin([first]) && !new.may_begin([first]));
        assert!(!old.may_begin([first, change]) && !new.may_begin([first, change]));
        let settled = [first, change, change.settled()];
        assert!(!old.may_begin(settled) && new.may_begin(settled));
        assert!(!old.may_begin([]), "nobody knows");
    }

    #[test]
    fn of_two_changes_of_one_revision_only_the_daemons_of_the_one_that_counts_begin() {
        let first = DaemonScale::first(4);
        let (one, other) = (first.next(3).settled(), first.next(7).settled());
        let begins = |scale: DaemonScale| {
            scale
                .daemons()
                .any(|daemon| daemon.may_begin([first, one, other]))
        };
        assert!(begins(other) && !begins(one));
    }
}
