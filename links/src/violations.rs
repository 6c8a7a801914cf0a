//! How often somebody broke the protocol: three times within a minute are too many. Counted per incarnation,
//! which is then refused for good, and, of those who are no members, per source, whose strangers are refused
//! until the minute is over. Only what no honest peer of any version sends counts. Spec: reliability 3a
//! (quarantine), 3c (code Q).

use core::time::Duration;

use quorate_core::ordered::OrderedMap;
use quorate_core::time::Instant;

/// Violations within [`WINDOW`] that are too many.
const VIOLATIONS_MAX: u32 = 3;

/// See [`VIOLATIONS_MAX`].
const WINDOW: Duration = Duration::from_secs(60);

/// Watched at once: as many peers as may be linked both ways twice. Past it a peer is still cut off each
/// time, only not counted.
const WATCHED_MAX: usize = 1_024;

/// See the module.
#[derive(Debug)]
pub(crate) struct Violations<K>(OrderedMap<K, (Instant, u32)>);

impl<K> Default for Violations<K> {
    fn default() -> Self {
        Self(OrderedMap::new())
    }
}

impl<K: Ord + Clone> Violations<K> {
    /// Counts a violation; says whether there were too many.
    pub(crate) fn violated(&mut self, who: &K, now: Instant) -> bool {
        self.0.retain(|_, (since, _)| now.since(*since) < WINDOW);
        if self.0.len() >= WATCHED_MAX && !self.0.contains_key(who) {
            return false;
        }
        let (_, count) = self.0.entry(who.clone()).or_insert((now, 0));
        *count += 1;
        *count >= VIOLATIONS_MAX
    }

    /// Whether there were too many within the last minute.
    pub(crate) fn is_unruly(&self, who: &K, now: Instant) -> bool {
        let found = self.0.get(who);
        found.is_some_and(|(since, count)| *count >= VIOLATIONS_MAX && now.since(*since) < WINDOW)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_core::ident::{Address, UniqueAddress};

    #[test]
    fn three_violations_within_a_minute_are_too_many() {
        let peer = UniqueAddress::new(Address::new("h", 1).unwrap(), 1);
        let mut violations = Violations::default();
        let seconds = |s: u64| Instant::from_millis(s * 1_000);
        assert!(!violations.violated(&peer, seconds(0)));
        assert!(!violations.violated(&peer, seconds(30)));
        assert!(!violations.violated(&peer, seconds(61)));
        assert!(!violations.violated(&peer, seconds(62)));
        assert!(!violations.is_unruly(&peer, seconds(62)));
        assert!(violations.violated(&peer, seconds(63)));
        assert!(violations.is_unruly(&peer, seconds(63)));
        assert!(!violations.is_unruly(&peer, seconds(121)));
    }
}
