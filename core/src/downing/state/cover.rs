//! The fewest nodes that hold an end of every broken link: a weighted vertex cover, exact within a fixed
//! number of steps. Values only; the same links give the same nodes everywhere. Spec: membership 3.10.

use alloc::vec;
use alloc::vec::Vec;

/// How often the search may look at a link; beyond, all ends are the answer. A link is looked at in
/// nanoseconds, so a decision stays within milliseconds. Not a setting: all members must find the same cover.
pub(crate) const LOOKS_MAX: usize = 1 << 20;

/// The cover of `links`, pairs of places of `weights`, that weighs least; among equals the one that has the
/// first place where they differ. `None` if that takes more than `looks` at links. Weights are above 0.
pub(crate) fn lightest(weights: &[u64], links: &[(usize, usize)], looks: usize) -> Option<Vec<usize>> {
    let mut search = Search {
        weights,
        links,
        marks: vec![Mark::Open; weights.len()],
        looks,
        bound: u64::MAX,
        found: None,
    };
    search.bound = search.greedy()?;
    search.go(0)?;
    search.found
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    /// Undecided.
    Open,
    /// In the cover.
    In,
    /// Not in it; its neighbours are.
    Out,
}

struct Search<'a> {
    weights: &'a [u64],
    links: &'a [(usize, usize)],
    marks: Vec<Mark>,
    looks: usize,
    /// What the lightest cover known weighs.
    bound: u64,
    /// The first of that weight that was come across in order.
    found: Option<Vec<usize>>,
}

impl Search<'_> {
    /// What a good cover weighs, which saves the search from long ways.
    fn greedy(&mut self) -> Option<u64> {
        let mut is_in = vec![false; self.weights.len()];
        loop {
            self.looks = self.looks.checked_sub(self.links.len())?;
            let mut degrees = vec![0_u64; self.weights.len()];
            for (one, other) in self.links.iter().filter(|(a, b)| !is_in[*a] && !is_in[*b]) {
                degrees[*one] += 1;
                degrees[*other] += 1;
            }
            // The most links for its weight.
            let best = (0..degrees.len())
                .filter(|at| degrees[*at] > 0)
                .reduce(|best, at| {
                    let gains = degrees[at] * self.weights[best] > degrees[best] * self.weights[at];
                    if gains { at } else { best }
                });
            match best {
                Some(best) => is_in[best] = true,
                None => break,
            }
        }
        Some(
            (0..is_in.len())
                .filter(|at| is_in[*at])
                .map(|at| self.weights[at])
                .sum(),
        )
    }

    /// Decides about the first place that has an uncovered link: first with it in the cover, which is the
    /// order among equals, then with it out. `weight` is that of the places in it. Deeper by one for each
    /// place in the cover, so never deeper than the root of the looks.
    fn go(&mut self, weight: u64) -> Option<()> {
        self.looks = self.looks.checked_sub(self.links.len())?;
        let open = |marks: &[Mark], (a, b): (usize, usize)| marks[a] != Mark::In && marks[b] != Mark::In;
        let mut first = None;
        let mut rest = self.weights.to_vec();
        let mut least = weight;
        for (a, b) in self.links.iter().copied().filter(|link| open(&self.marks, *link)) {
            first = Some(first.map_or(a.min(b), |first: usize| first.min(a).min(b)));
            // What one of the two ends must pay for this link, and no other link is paid by.
            let paid = rest[a].min(rest[b]);
            rest[a] -= paid;
            rest[b] -= paid;
            least += paid;
        }
        let is_hopeless = least > self.bound || (least == self.bound && self.found.is_some());
        if is_hopeless {
            return Some(());
        }
        let Some(first) = first else {
            self.bound = weight;
            self.found = Some(
                (0..self.marks.len())
                    .filter(|at| self.marks[*at] == Mark::In)
                    .collect(),
            );
            return Some(());
        };
        self.marks[first] = Mark::In;
        self.go(weight + self.weights[first])?;
        self.marks[first] = Mark::Out;
        let mut forced = Vec::new();
        for (a, b) in self.links.iter().copied() {
            let other = if a == first { b } else { a };
            if (a == first || b == first) && self.marks[other] == Mark::Open {
                self.marks[other] = Mark::In;
                forced.push(other);
            }
        }
        let heavier = forced.iter().map(|at| self.weights[*at]).sum::<u64>();
        self.go(weight + heavier)?;
        for at in forced {
            self.marks[at] = Mark::Open;
        }
        self.marks[first] = Mark::Open;
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By trying all subsets: the lightest, and of equals the one that has the first place.
    fn by_force(weights: &[u64], links: &[(usize, usize)]) -> Vec<usize> {
        let covers = (0..1_usize << weights.len()).filter(|set| {
            let has = |at: usize| set >> at & 1 == 1;
            links.iter().all(|(a, b)| has(*a) || has(*b))
        });
        let places = |set: usize| (0..weights.len()).filter(move |at| set >> at & 1 == 1);
        let best = covers.min_by_key(|set| {
            let weight: u64 = places(*set).map(|at| weights[at]).sum();
            let order: Vec<bool> = (0..weights.len()).map(|at| set >> at & 1 == 0).collect();
            (weight, order)
        });
        best.map(|set| places(set).collect()).unwrap()
    }

    #[test]
    fn s_3_10_it_is_the_lightest_cover_and_the_first_among_equals_on_every_graph_of_five() {
        let pairs: Vec<(usize, usize)> = (0..5).flat_map(|b| (0..b).map(move |a| (a, b))).collect();
        for weights in [[1, 1, 1, 1, 1], [6, 6, 6, 6, 1], [6, 1, 6, 6, 1], [1, 6, 6, 1, 6]] {
            for bits in 0..1_usize << pairs.len() {
                let links = pairs.iter().enumerate().filter(|(at, _)| bits >> at & 1 == 1);
                let links: Vec<(usize, usize)> = links.map(|(_, link)| *link).collect();
                let found = lightest(&weights, &links, LOOKS_MAX);
                assert_eq!(found, Some(by_force(&weights, &links)), "{weights:?} {links:?}");
            }
        }
    }

    #[test]
    fn s_3_10_a_thousand_links_of_two_nodes_are_two_nodes_and_nobody_looks_for_ever() {
        let mut links: Vec<(usize, usize)> = (0..998).map(|at| (at, 998)).collect();
        links.extend((0..998).map(|at| (at, 999)));
        assert_eq!(lightest(&[1; 1000], &links, LOOKS_MAX), Some(vec![998, 999]));
        // Half of 60 have broken links to the other half, in no order that would help.
        let pairs = (0..60_usize).flat_map(|b| (0..b).map(move |a| (a, b)));
        let links: Vec<(usize, usize)> = pairs.filter(|(a, b)| (a * a + 7 * b) % 11 < 3).collect();
        assert_eq!(lightest(&[1; 60], &links, 100 * links.len()), None);
        assert_eq!(
            lightest(&[1; 60], &links, LOOKS_MAX).map(|found| found.len()),
            Some(37)
        );
    }
}
