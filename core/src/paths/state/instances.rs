//! How many instances a path has: as many as survive the failures of nodes that its owner wants to survive,
//! as many as its load needs, within what users wish and the nodes there are. Pure. Spec: sharding 5.2,
//! 10.22.

use alloc::vec::Vec;

/// Most entries of a table: it travels with its path in every gossip, and between two entries the lower one
/// holds.
pub const TABLE_ENTRIES_MAX: usize = 64;

/// How many nodes may fail at once and leave an instance running, as a function of how many nodes may host
/// the path. It is data, so that it can be compared and sent; where it is not below the number of nodes it is
/// cut down to one less.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FaultTolerance {
    /// So many, however many nodes there are.
    Constant(u16),
    /// A share of the nodes.
    Share(NodeShare),
    /// By the number of nodes.
    Table(ToleranceTable),
}

impl FaultTolerance {
    /// `part` of every `whole` nodes, rounded down.
    ///
    /// # Errors
    /// [`ToleranceError`] if that is no share.
    pub const fn share(part: u16, whole: u16) -> Result<Self, ToleranceError> {
        if whole == 0 || part > whole {
            return Err(ToleranceError::NoShare { part, whole });
        }
        let common = common_divisor(part, whole);
        Ok(Self::Share(NodeShare {
            part: part / common,
            whole: whole / common,
        }))
    }

    /// Pairs of a number of nodes and what holds from that number on, sorted by it. Below the first pair it
    /// is 0.
    ///
    /// # Errors
    /// [`ToleranceError`] if there are none or too many, or they are not in order.
    pub fn table(entries: Vec<(u16, u16)>) -> Result<Self, ToleranceError> {
        match entries.len() {
            0 => return Err(ToleranceError::EmptyTable),
            found if found > TABLE_ENTRIES_MAX => return Err(ToleranceError::TooManyEntries { found }),
            _ => {}
        }
        match entries.windows(2).find(|pair| pair[0].0 >= pair[1].0) {
            Some(pair) => Err(ToleranceError::Unsorted { nodes: pair[1].0 }),
            None => Ok(Self::Table(ToleranceTable { entries })),
        }
    }

    /// What it says for so many nodes, before it is cut down.
    #[must_use]
    pub fn of(&self, nodes: u16) -> u16 {
        match self {
            Self::Constant(tolerance) => *tolerance,
            Self::Share(share) => share.of(nodes),
            Self::Table(table) => table.of(nodes),
        }
    }
}

/// A share of the nodes: 0 to 1, as a fraction in lowest terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeShare {
    part: u16,
    whole: u16,
}

impl NodeShare {
    /// The numerator.
    #[must_use]
    pub const fn part(self) -> u16 {
        self.part
    }

    /// The denominator (>= 1).
    #[must_use]
    pub const fn whole(self) -> u16 {
        self.whole
    }

    /// The share of so many nodes, rounded down.
    const fn of(self, nodes: u16) -> u16 {
        // At most `nodes`, because the part is at most the whole.
        (nodes as u32 * self.part as u32 / self.whole as u32) as u16
    }
}

/// What is to be survived, by the number of nodes: 1 to [`TABLE_ENTRIES_MAX`] pairs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ToleranceTable {
    /// Sorted by the number of nodes, each once.
    entries: Vec<(u16, u16)>,
}

impl ToleranceTable {
    /// The pairs: from so many nodes on, so many failures.
    #[must_use]
    pub fn entries(&self) -> &[(u16, u16)] {
        &self.entries
    }

    fn of(&self, nodes: u16) -> u16 {
        let until = self.entries.partition_point(|(from, _)| *from <= nodes);
        let entry = until.checked_sub(1).and_then(|last| self.entries.get(last));
        entry.map_or(0, |(_, tolerance)| *tolerance)
    }
}

const fn common_divisor(one: u16, other: u16) -> u16 {
    let (mut one, mut other) = (one, other);
    while other != 0 {
        (one, other) = (other, one % other);
    }
    one
}

/// Why a fault tolerance was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ToleranceError {
    /// More than all nodes, or a part of none.
    #[error("{part} of {whole} is no share of the nodes")]
    NoShare {
        /// The numerator.
        part: u16,
        /// The denominator.
        whole: u16,
    },
    /// A table without entries.
    #[error("a table of tolerances needs an entry")]
    EmptyTable,
    /// A table with too many.
    #[error("a table of tolerances has at most {TABLE_ENTRIES_MAX} entries, not {found}")]
    TooManyEntries {
        /// How many.
        found: usize,
    },
    /// The entry of this number of nodes does not come behind all lower ones.
    #[error("the entries of a table of tolerances must be in order: {nodes} nodes come too late or twice")]
    Unsorted {
        /// Which entry.
        nodes: u16,
    },
}

/// How many instances load and users want.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InstanceDemand {
    /// What the load needs (1 if it was never scaled).
    pub scale_target: u16,
    /// At least so many (>= 1).
    pub min: u16,
    /// At most so many (>= 1), whatever else is wanted; `None`: as many as there are nodes.
    pub max: Option<u16>,
}

impl Default for InstanceDemand {
    /// 1 or more.
    fn default() -> Self {
        Self {
            scale_target: 1,
            min: 1,
            max: None,
        }
    }
}

impl InstanceDemand {
    /// Whether the bounds can be kept.
    ///
    /// # Errors
    /// [`DemandError`].
    pub fn check(&self) -> Result<(), DemandError> {
        if self.min == 0 || self.max == Some(0) {
            return Err(DemandError::Zero);
        }
        match self.max.filter(|max| *max < self.min) {
            Some(max) => Err(DemandError::Crossed { min: self.min, max }),
            None => Ok(()),
        }
    }
}

/// Why bounds of a number of instances were refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DemandError {
    /// A bound of 0.
    #[error("a path has at least one instance")]
    Zero,
    /// More at least than at most.
    #[error("at least {min} instances, but at most {max}")]
    Crossed {
        /// At least.
        min: u16,
        /// At most.
        max: u16,
    },
}

/// How many instances a path has on so many nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InstanceCount {
    /// What the fault tolerance says.
    pub wanted_tolerance: u16,
    /// What of it so many nodes can give: at most one less than there are.
    pub tolerance: u16,
    /// How many instances; 0 only without a node.
    pub instances: u16,
}

impl InstanceCount {
    /// Whether the fault tolerance was cut down, which operators are to know.
    #[must_use]
    pub const fn is_clamped(&self) -> bool {
        self.tolerance < self.wanted_tolerance
    }
}

/// How many instances a path has when `nodes` may host it.
#[must_use]
pub fn instances(nodes: u16, tolerance: &FaultTolerance, demand: InstanceDemand) -> InstanceCount {
    let wanted_tolerance = tolerance.of(nodes);
    let tolerance = wanted_tolerance.min(nodes.saturating_sub(1));
    let needed = tolerance
        .saturating_add(1)
        .max(demand.scale_target)
        .max(demand.min);
    let most = demand.max.unwrap_or(u16::MAX).max(1).min(nodes);
    InstanceCount {
        wanted_tolerance,
        tolerance,
        instances: needed.min(most),
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    fn count(nodes: u16, tolerance: &FaultTolerance, scale_target: u16) -> InstanceCount {
        let demand = InstanceDemand {
            scale_target,
            ..InstanceDemand::default()
        };
        instances(nodes, tolerance, demand)
    }

    #[test]
    fn the_table_of_the_worked_example() {
        let numbers = |tolerance: &FaultTolerance, scale_target: u16| {
            [1, 2, 3, 5, 10].map(|nodes| count(nodes, tolerance, scale_target).instances)
        };
        let half = FaultTolerance::table((1..=10).map(|nodes| (nodes, (nodes - 1) / 2)).collect());
        assert_eq!(numbers(&half.unwrap(), 1), [1, 1, 2, 3, 5]);
        assert_eq!(numbers(&FaultTolerance::Constant(3), 1), [1, 2, 3, 4, 4]);
        assert_eq!(numbers(&FaultTolerance::Constant(0), 7), [1, 2, 3, 5, 7]);
    }

    #[test]
    fn s_307_and_m_432_a_tolerance_that_the_nodes_cannot_give_is_cut_down_and_told() {
        let five = FaultTolerance::table(vec![(5, 5)]).unwrap();
        let found = count(5, &five, 1);
        assert_eq!(
            (found.wanted_tolerance, found.tolerance, found.instances),
            (5, 4, 5)
        );
        assert!(found.is_clamped());
        assert!(!count(6, &five, 1).is_clamped(), "one more node is enough");
        let one = count(5, &FaultTolerance::Constant(1), 1);
        assert_eq!((one.instances, one.is_clamped()), (2, false));
        let nobody = count(0, &FaultTolerance::Constant(1), 9);
        assert_eq!((nobody.tolerance, nobody.instances), (0, 0));
        assert!(nobody.is_clamped());
    }

    #[test]
    fn a_share_is_rounded_down_and_exact() {
        let third = FaultTolerance::share(1, 3).unwrap();
        assert_eq!(
            [1, 2, 3, 5, 6, 9].map(|nodes| third.of(nodes)),
            [0, 0, 1, 1, 2, 3]
        );
        assert_eq!(FaultTolerance::share(300, 900), Ok(third));
        let all = FaultTolerance::share(u16::MAX, u16::MAX).unwrap();
        assert_eq!(all.of(u16::MAX), u16::MAX);
        assert_eq!(count(4, &all, 1).instances, 4);
        assert_eq!(FaultTolerance::share(0, 7).unwrap().of(1_000), 0);
        for (part, whole) in [(1, 0), (0, 0), (2, 1)] {
            let refused = Err(ToleranceError::NoShare { part, whole });
            assert_eq!(FaultTolerance::share(part, whole), refused);
        }
    }

    #[test]
    fn a_table_holds_from_its_entries_on() {
        let table = FaultTolerance::table(vec![(3, 1), (7, 2)]).unwrap();
        assert_eq!(
            [0, 2, 3, 6, 7, u16::MAX].map(|nodes| table.of(nodes)),
            [0, 0, 1, 1, 2, 2]
        );
        assert_eq!(FaultTolerance::table(vec![]), Err(ToleranceError::EmptyTable));
        for entries in [vec![(3, 1), (3, 2)], vec![(5, 1), (3, 2)]] {
            let unsorted = Err(ToleranceError::Unsorted { nodes: 3 });
            assert_eq!(FaultTolerance::table(entries), unsorted);
        }
        let long = |entries: u16| FaultTolerance::table((0..entries).map(|nodes| (nodes, 0)).collect());
        assert!(long(64).is_ok());
        assert_eq!(long(65), Err(ToleranceError::TooManyEntries { found: 65 }));
    }

    #[test]
    fn wishes_of_users_bound_what_load_and_tolerance_want() {
        let bounded = |min, max, scale_target| {
            let demand = InstanceDemand {
                scale_target,
                min,
                max,
            };
            instances(10, &FaultTolerance::Constant(2), demand).instances
        };
        assert_eq!(bounded(1, None, 1), 3);
        assert_eq!(bounded(5, None, 1), 5);
        assert_eq!(bounded(1, Some(2), 9), 2);
        assert_eq!(bounded(1, Some(20), 20), 10);
        assert_eq!(bounded(4, Some(2), 1), 2, "the most counts");
        assert_eq!(bounded(1, Some(0), 1), 1, "never none");
        let checked = |min, max| {
            let scale_target = 1;
            InstanceDemand {
                scale_target,
                min,
                max,
            }
            .check()
        };
        assert_eq!(checked(1, Some(1)), Ok(()));
        assert_eq!(checked(0, None), Err(DemandError::Zero));
        assert_eq!(checked(1, Some(0)), Err(DemandError::Zero));
        assert_eq!(checked(3, Some(2)), Err(DemandError::Crossed { min: 3, max: 2 }));
    }
}
