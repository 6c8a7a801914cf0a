//! Which entries of a versioned value's clock may be forgotten, by Riak's rule: few or young entries stay, then the oldest
//! go. For keyed data only. The membership clock must never use it: that one forgets exactly the removed members, so that
//! equal clocks stay comparable. Pure; reads no clock. Spec: membership 1.6.

use alloc::vec::Vec;
use core::time::Duration;

/// Bounds of a versioned value's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockPruning {
    /// A clock of at most so many entries is kept whole (default 50). Mirrors `small_vclock`.
    pub small: usize,
    /// A clock of more entries loses its oldest (default 50). Mirrors `big_vclock`.
    pub big: usize,
    /// Entries younger than this always stay (default 20 s). Mirrors `young_vclock`.
    pub young: Duration,
    /// Entries older than this go if the clock is not small (default 1 day). Mirrors `old_vclock`.
    pub old: Duration,
}

impl Default for ClockPruning {
    fn default() -> Self {
        Self {
            small: 50,
            big: 50,
            young: Duration::from_secs(20),
            old: Duration::from_secs(24 * 3600),
        }
    }
}

/// One entry of a versioned value's clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StampedEntry<K> {
    /// Who counted.
    pub key: K,
    /// How often.
    pub counter: u64,
    /// When it last did, in milliseconds of whatever clock the writers share. It only decides what is forgotten.
    pub at_ms: u64,
}

impl ClockPruning {
    /// Forgets what may be forgotten at `now_ms` and sorts the rest, oldest first; equal times by key. The result does
    /// not depend on the order of `entries`, whose keys must differ. An entry from the future counts as new.
    /// O(n log n).
    pub fn prune<K: Ord>(&self, entries: &mut Vec<StampedEntry<K>>, now_ms: u64) {
        entries.sort_unstable_by(|left, right| (left.at_ms, &left.key).cmp(&(right.at_ms, &right.key)));
        let len = entries.len();
        let stays = |(at, entry): (usize, &StampedEntry<K>)| {
            let left = len - at;
            let age = Duration::from_millis(now_ms.saturating_sub(entry.at_ms));
            left <= self.small || age < self.young || (left <= self.big && age <= self.old)
        };
        let dropped = entries.iter().enumerate().position(stays).unwrap_or(len);
        entries.drain(..dropped);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 2_000_000_000;

    /// Keys 0 to n, so many seconds old each.
    fn aged(seconds: &[u64]) -> Vec<StampedEntry<usize>> {
        let entry = |(key, age): (usize, &u64)| StampedEntry {
            key,
            counter: 1,
            at_ms: NOW - age * 1_000,
        };
        seconds.iter().enumerate().map(entry).collect()
    }

    fn kept(rule: ClockPruning, seconds: &[u64]) -> Vec<usize> {
        let mut entries = aged(seconds);
        rule.prune(&mut entries, NOW);
        entries.iter().map(|entry| entry.key).collect()
    }

    fn rule(small: usize, big: usize, young: u64, old: u64) -> ClockPruning {
        let (young, old) = (Duration::from_secs(young), Duration::from_secs(old));
        ClockPruning {
            small,
            big,
            young,
            old,
        }
    }

    #[test]
    fn m_441_a_small_clock_is_untouched_however_old() {
        assert_eq!(kept(rule(3, 1, 1, 1), &[1_000, 1_000, 1_000]), [0, 1, 2]);
        assert_eq!(kept(ClockPruning::default(), &[1_000_000; 50]).len(), 50);
    }

    #[test]
    fn m_442_young_entries_are_untouched_however_many() {
        assert_eq!(kept(rule(1, 1, 1_000, 1), &[999, 999, 999]), [0, 1, 2]);
        assert_eq!(kept(rule(1, 1, 1_000, 1), &[1_000, 999, 999]), [1, 2]);
    }

    #[test]
    fn m_443_a_big_clock_loses_its_oldest_until_it_is_not_big() {
        assert_eq!(kept(rule(1, 2, 1, 100_000), &[1_000; 3]).len(), 2);
        assert_eq!(kept(rule(1, 2, 1, 100_000), &[1_000, 3_000, 2_000]), [2, 0]);
    }

    #[test]
    fn old_entries_go_until_the_clock_is_small() {
        assert_eq!(
            kept(rule(1, 100, 1, 1_500), &[1_000, 2_000, 1_500, 3_000]),
            [2, 0]
        );
        assert_eq!(kept(rule(3, 100, 1, 1_500), &[2_000; 4]).len(), 3);
    }

    #[test]
    fn m_445_with_equal_times_the_order_of_the_input_does_not_matter() {
        let mut expected = aged(&[1_000; 4]);
        rule(1, 2, 1, 100_000).prune(&mut expected, NOW);
        assert_eq!(expected.len(), 2);
        for turn in 0..4 {
            let mut turned = aged(&[1_000; 4]);
            turned.rotate_left(turn);
            turned.swap(0, 2);
            rule(1, 2, 1, 100_000).prune(&mut turned, NOW);
            assert_eq!(turned, expected);
        }
    }
}
