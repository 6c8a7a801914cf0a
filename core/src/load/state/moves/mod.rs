//! Whether something moves from the most loaded node to the least loaded one: after three rounds that agree,
//! never back soon, and never so much that the two change places. Spec: sharding 5.5, 10.20, 10.22.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;

use crate::time::Instant;

/// Rounds that have to agree.
pub const ROUNDS: usize = 3;

/// How far apart the capacities of the two nodes have to be.
pub const GAP_MIN: f64 = 0.3;

/// Samples older than so many rounds say nothing, and are forgotten.
pub const AGE_ROUNDS_MAX: u64 = 3;

/// For how long nothing moves between two nodes after something has, in either direction.
pub const COOL_DOWN: Duration = Duration::from_secs(30);

/// What is known of one node in one round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NodeSample {
    /// What it could still take on, from 0 to 1.
    pub capacity: f64,
    /// How old that is, in rounds.
    pub age_rounds: u64,
    /// Whether something may move to it or from it: it is reachable, and not on its way out.
    pub usable: bool,
}

impl NodeSample {
    fn counts(&self) -> bool {
        self.usable && self.age_rounds <= AGE_ROUNDS_MAX && self.capacity.is_finite()
    }
}

/// The two nodes that are furthest apart in a round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Extremes<N> {
    /// With the lowest capacity.
    pub hot: N,
    /// With the highest capacity.
    pub cold: N,
    /// By how much.
    pub gap: f64,
}

/// Something moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnitMove<U, N> {
    /// What.
    pub unit: U,
    /// From where.
    pub from: N,
    /// Where to.
    pub to: N,
}

/// The two nodes that are furthest apart among those that are fresh and usable; of equals the first. `None`
/// if there are fewer than two.
pub fn extremes<N: Clone + PartialEq>(round: &[(N, NodeSample)]) -> Option<Extremes<N>> {
    let mut counted = round.iter().filter(|(_, sample)| sample.counts());
    let first = counted.next()?;
    let (mut hot, mut cold) = (first, first);
    for each in counted {
        if each.1.capacity < hot.1.capacity {
            hot = each;
        }
        if each.1.capacity > cold.1.capacity {
            cold = each;
        }
    }
    let gap = cold.1.capacity - hot.1.capacity;
    (hot.0 != cold.0).then(|| Extremes {
        hot: hot.0.clone(),
        cold: cold.0.clone(),
        gap,
    })
}

/// By how much one node could take on more than another; `None` if nothing is known of one of them.
pub(crate) fn gap<N: PartialEq>(round: &[(N, NodeSample)], hot: &N, cold: &N) -> Option<f64> {
    let capacity = |node: &N| {
        let mut counted = round.iter().filter(|(_, sample)| sample.counts());
        counted
            .find(|(other, _)| other == node)
            .map(|(_, sample)| sample.capacity)
    };
    Some(capacity(cold)? - capacity(hot)?)
}

/// Between which nodes something is to move, if anything is: the last three rounds name the same two nodes,
/// far enough apart in each. Earlier rounds do not matter.
pub fn agreed<N: Clone + PartialEq>(rounds: &[Vec<(N, NodeSample)>]) -> Option<Extremes<N>> {
    let last = rounds.get(rounds.len().checked_sub(ROUNDS)?..)?;
    let mut all = last.iter().map(|round| extremes(round));
    let mut agreed: Option<Extremes<N>> = None;
    all.try_for_each(|round| {
        let round = round.filter(|round| round.gap >= GAP_MIN)?;
        let same = agreed
            .as_ref()
            .is_none_or(|before| before.hot == round.hot && before.cold == round.cold);
        agreed = Some(round);
        same.then_some(())
    })?;
    agreed
}

/// The unit on the hot node whose rate, in units of capacity, is closest to half the gap. None whose move
/// would make the cold node the hotter one; of equals the first.
pub fn choose_unit<U>(gap: f64, units: impl IntoIterator<Item = (U, f64)>) -> Option<U> {
    let half = gap / 2.0;
    let mut best: Option<(U, f64)> = None;
    for (unit, rate) in units {
        if !(0.0..=half).contains(&rate) {
            continue;
        }
        if best.as_ref().is_none_or(|(_, best)| rate > *best) {
            best = Some((unit, rate));
        }
    }
    best.map(|(unit, _)| unit)
}

/// What somebody who moves things by load remembers: the last rounds, and between which nodes something moved
/// lately. Holds three rounds and one entry for each move of the cool-down.
#[derive(Clone, Debug, PartialEq)]
pub struct MoveWindows<N> {
    rounds: VecDeque<Vec<(N, NodeSample)>>,
    moved: Vec<(N, N, Instant)>,
}

impl<N> Default for MoveWindows<N> {
    fn default() -> Self {
        Self {
            rounds: VecDeque::new(),
            moved: Vec::new(),
        }
    }
}

impl<N: Clone + PartialEq> MoveWindows<N> {
    /// Takes what is known in a new round, in the order in which nodes are preferred. A round in which the
    /// two nodes furthest apart are cooling down is not counted, nor are those before it.
    pub fn push(&mut self, now: Instant, round: Vec<(N, NodeSample)>) {
        self.moved.retain(|(_, _, at)| now.since(*at) < COOL_DOWN);
        if extremes(&round).is_some_and(|found| self.is_cooling(now, &found.hot, &found.cold)) {
            return self.rounds.clear();
        }
        if self.rounds.len() == ROUNDS {
            self.rounds.pop_front();
        }
        self.rounds.push_back(round);
    }

    /// Between which nodes something is to move now. Not between nodes that a change touches already, and not
    /// between two of which something moved lately.
    pub fn due(&mut self, now: Instant, is_pending: impl Fn(&N) -> bool) -> Option<Extremes<N>> {
        let found = agreed(self.rounds.make_contiguous())?;
        let is_free = !is_pending(&found.hot) && !is_pending(&found.cold);
        (is_free && !self.is_cooling(now, &found.hot, &found.cold)).then_some(found)
    }

    /// Takes note of a move. What was measured before it says nothing of what is after it.
    pub fn moved(&mut self, now: Instant, from: N, to: N) {
        self.rounds.clear();
        self.moved.retain(|(_, _, at)| now.since(*at) < COOL_DOWN);
        self.moved.push((from, to, now));
    }

    /// Whether something moved between the two lately, in either direction.
    pub fn is_cooling(&self, now: Instant, one: &N, other: &N) -> bool {
        self.moved.iter().any(|(from, to, at)| {
            let is_pair = (from == one && to == other) || (from == other && to == one);
            is_pair && now.since(*at) < COOL_DOWN
        })
    }
}

#[cfg(test)]
mod tests;
