//! Which actors of a clock are forgotten: the oldest of too many, by Riak's rule. A clock that has forgotten
//! some takes older versions of theirs for new ones, so this is only done where none is left: in a stable
//! configuration, of actors that give no dots any more, with all copies alike. Pure. Spec: membership 1.6;
//! sharding 5.6, 10.19 c; M-441 to M-445, S-338.

use alloc::vec::Vec;

use super::clock::{Actor, VersionClock};

/// When actors are forgotten. Times are milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockPruning {
    /// So many are always kept.
    pub small: usize,
    /// More than so many are too many.
    pub big: usize,
    /// Nothing is forgotten while the oldest is younger than this: older than any message that still
    /// carries a version.
    pub young_ms: u64,
    /// What is older than this is forgotten even if there are not too many.
    pub old_ms: u64,
}

impl Default for ClockPruning {
    fn default() -> Self {
        Self {
            small: 50,
            big: 50,
            young_ms: 20_000,
            old_ms: 86_400_000,
        }
    }
}

impl ClockPruning {
    /// Which of these go, the oldest first. Each is given with the time of its last dot; of equal times the
    /// lower actor is the older one.
    #[must_use]
    pub fn choose(self, entries: &[(Actor, u64)], now_ms: u64) -> Vec<Actor> {
        let mut sorted = entries.to_vec();
        sorted.sort_unstable_by_key(|(actor, at_ms)| (*at_ms, *actor));
        let goes = |(at, (_, at_ms)): &(usize, &(Actor, u64))| {
            let left = sorted.len() - at;
            let age_ms = now_ms.saturating_sub(*at_ms);
            left > self.small && age_ms >= self.young_ms && (left > self.big || age_ms > self.old_ms)
        };
        let gone = sorted.iter().enumerate().take_while(goes);
        gone.map(|(_, (actor, _))| *actor).collect()
    }

    /// Which actors of a clock go, of those that are over.
    #[must_use]
    pub fn of(self, clock: &VersionClock, now_ms: u64, is_over: impl Fn(Actor) -> bool) -> Vec<Actor> {
        let entries: Vec<_> = clock
            .entries()
            .iter()
            .map(|entry| (entry.actor, entry.at_ms))
            .collect();
        let mut chosen = self.choose(&entries, now_ms);
        chosen.retain(|actor| is_over(*actor));
        chosen
    }
}
