//! Which slots of a path the messages that name none go to, as far as load decides: computed once for each
//! round of load, then only looked up. Knows nothing of hand-offs. Spec: sharding 5.4, 5.5.

use alloc::vec::Vec;

use super::state::settings::PathRouter;
use crate::load::state::weights::Weights;

/// Hosts whose capacity is at most this far below the best one's count as equally loaded: samples are seconds
/// old, and one host should not get everything until the next.
const AS_GOOD: f64 = 0.05;

/// What the load of the hosts says about the slots of one path.
#[derive(Clone, Debug, Default)]
pub(super) enum SlotChoice {
    /// Nothing: one after the other.
    #[default]
    Turn,
    /// These, one after the other.
    Best(Vec<u16>),
    /// By chance, by their tickets.
    Tickets(Weights<u16>),
}

impl SlotChoice {
    /// The choice among slots of which each host's capacity is given, where it is known. A host of unknown
    /// capacity counts as the mean of the others with [`PathRouter::Weighted`], and is passed over with
    /// [`PathRouter::LeastLoaded`].
    pub(super) fn of(router: PathRouter, hosts: &[(u16, Option<f64>)]) -> Self {
        let known = || hosts.iter().filter_map(|(_, capacity)| *capacity);
        let count = u32::try_from(known().count()).unwrap_or(u32::MAX);
        if count == 0 {
            return Self::Turn;
        }
        match router {
            PathRouter::RoundRobin => Self::Turn,
            PathRouter::LeastLoaded => {
                let best = known().fold(0.0, f64::max);
                let is_best =
                    |(_, capacity): &&(u16, Option<f64>)| capacity.is_some_and(|c| c + AS_GOOD >= best);
                Self::Best(hosts.iter().filter(is_best).map(|(slot, _)| *slot).collect())
            }
            PathRouter::Weighted => {
                let mean = known().sum::<f64>() / f64::from(count);
                let weighed = hosts
                    .iter()
                    .map(|(slot, capacity)| (*slot, capacity.unwrap_or(mean)));
                match Weights::of(weighed) {
                    weights if weights.total() == 0 => Self::Turn,
                    weights => Self::Tickets(weights),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTS: [(u16, Option<f64>); 4] = [(0, Some(0.6)), (1, Some(0.3)), (2, None), (3, Some(0.58))];

    #[test]
    fn the_least_loaded_are_those_that_are_about_as_good_as_the_best() {
        match SlotChoice::of(PathRouter::LeastLoaded, &HOSTS) {
            SlotChoice::Best(slots) => assert_eq!(slots, [0, 3]),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn s_325_tickets_follow_capacity_and_who_is_unknown_counts_as_the_mean() {
        let hosts = [(0, Some(0.6)), (1, Some(0.3)), (2, Some(0.0)), (3, None)];
        match SlotChoice::of(PathRouter::Weighted, &hosts) {
            SlotChoice::Tickets(weights) => {
                let each: Vec<(u16, u64)> = weights.iter().map(|(slot, tickets)| (*slot, tickets)).collect();
                assert_eq!(each, [(0, 60), (1, 30), (2, 0), (3, 30)]);
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn without_load_it_goes_by_turns() {
        let nobody = [(0, None), (1, None)];
        let full = [(0, Some(0.0)), (1, Some(0.0))];
        for choice in [
            SlotChoice::of(PathRouter::LeastLoaded, &nobody),
            SlotChoice::of(PathRouter::Weighted, &nobody),
            SlotChoice::of(PathRouter::Weighted, &full),
            SlotChoice::of(PathRouter::RoundRobin, &HOSTS),
            SlotChoice::of(PathRouter::LeastLoaded, &[]),
        ] {
            assert!(matches!(choice, SlotChoice::Turn), "{choice:?}");
        }
    }
}
