//! How often each node is chosen when nodes are chosen by what they could still take on. Spec: sharding 5.5.

use alloc::vec::Vec;

/// Nothing has a capacity below this as far as weights go: one node of nearly none would make those of all
/// others huge.
const LEAST_CAPACITY: f64 = 0.01;

/// Nodes by weight: how many tickets each has. A node without one is never chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Weights<N> {
    /// With the last ticket of each.
    nodes: Vec<(N, u64)>,
}

impl<N> Weights<N> {
    /// Those of nodes with these capacities: each divided by the least of them, but by 0.01 at least, halves
    /// up. Capacities are from 0 to 1; what is none counts as 0.
    pub fn of(capacities: impl IntoIterator<Item = (N, f64)>) -> Self {
        let legal = |capacity: f64| if capacity > 0.0 { capacity.min(1.0) } else { 0.0 };
        let all: Vec<_> = capacities
            .into_iter()
            .map(|(node, capacity)| (node, legal(capacity)))
            .collect();
        let least = all
            .iter()
            .fold(1.0, |least: f64, (_, capacity)| least.min(*capacity));
        let divisor = least.max(LEAST_CAPACITY);
        let mut last = 0_u64;
        let with_ticket = |(node, capacity): (N, f64)| {
            last = last.saturating_add((capacity / divisor + 0.5) as u64);
            (node, last)
        };
        Self {
            nodes: all.into_iter().map(with_ticket).collect(),
        }
    }

    /// How many tickets there are.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.nodes.last().map_or(0, |(_, last)| *last)
    }

    /// The nodes with their weights, in the order given.
    pub fn iter(&self) -> impl Iterator<Item = (&N, u64)> {
        let mut before = 0;
        self.nodes.iter().map(move |(node, last)| {
            let weight = last - core::mem::replace(&mut before, *last);
            (node, weight)
        })
    }

    /// Whose ticket this is, from 1 to [`Self::total`].
    #[must_use]
    pub fn pick(&self, ticket: u64) -> Option<&N> {
        if ticket == 0 {
            return None;
        }
        let at = self.nodes.partition_point(|(_, last)| *last < ticket);
        self.nodes.get(at).map(|(node, _)| node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weights(capacities: &[f64]) -> (Weights<usize>, Vec<u64>) {
        let weights = Weights::of(capacities.iter().copied().enumerate());
        let each = weights.iter().map(|(_, weight)| weight).collect();
        (weights, each)
    }

    #[test]
    fn s_325_weights_and_the_tickets_of_each() {
        let (by_three, each) = weights(&[0.6, 0.3, 0.1]);
        assert_eq!(each, [6, 3, 1]);
        assert_eq!(by_three.total(), 10);
        let picked: Vec<_> = (0..=11).map(|ticket| by_three.pick(ticket).copied()).collect();
        let expected = [0, 0, 0, 0, 0, 0, 1, 1, 1, 2];
        assert_eq!(picked[0], None);
        assert_eq!(picked[11], None);
        assert_eq!(picked[1..11], expected.map(Some));
        let (uneven, each) = weights(&[0.0, 1.0, 0.005, 0.004]);
        assert_eq!(each, [0, 100, 1, 0]);
        for ticket in 1..=uneven.total() {
            let picked = *uneven.pick(ticket).unwrap();
            assert!(picked == 1 || picked == 2, "a node of weight 0 is never chosen");
        }
    }

    #[test]
    fn nobody_is_chosen_where_nobody_has_a_weight() {
        let (none, _) = weights(&[]);
        assert_eq!((none.total(), none.pick(1)), (0, None));
        let (empty, each) = weights(&[0.0, 0.004, f64::NAN, -1.0]);
        assert_eq!(each, [0, 0, 0, 0]);
        assert_eq!((empty.total(), empty.pick(1)), (0, None));
        assert_eq!(weights(&[7.0, 0.5]).1, [2, 1], "nothing is above 1");
    }
}
