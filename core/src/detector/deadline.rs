//! The deadline failure detector of one peer: silent after a fixed time without a heartbeat. Simpler than phi
//! and blind to how regular a peer is. Never reads a clock. Spec: membership 2.14.

use core::time::Duration;

use crate::time::Instant;

/// One peer's detector.
#[derive(Clone, Debug)]
pub(crate) struct DeadlineDetector {
    patience: Duration,
    last: Option<Instant>,
}

impl DeadlineDetector {
    /// Silent once a heartbeat interval and the acceptable pause have passed since the last heartbeat.
    pub(crate) fn new(heartbeat_interval: Duration, acceptable_pause: Duration) -> Self {
        Self {
            patience: heartbeat_interval.saturating_add(acceptable_pause),
            last: None,
        }
    }

    pub(crate) const fn heartbeat(&mut self, now: Instant) {
        self.last = Some(now);
    }

    pub(crate) const fn last_heartbeat(&self) -> Option<Instant> {
        self.last
    }

    pub(crate) fn shift(&mut self, by: Duration) {
        self.last = self.last.map(|last| last + by);
    }

    /// Before the first heartbeat there is nothing to be late for.
    pub(crate) fn is_available(&self, now: Instant) -> bool {
        self.last.is_none_or(|last| last + self.patience > now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    fn deadline() -> DeadlineDetector {
        DeadlineDetector::new(Duration::from_secs(1), Duration::from_secs(4))
    }

    #[test]
    fn m_280_a_peer_is_silent_exactly_when_interval_and_pause_have_passed() {
        let mut peer = deadline();
        assert!(peer.is_available(at(1_000_000)), "nothing was heard yet");
        peer.heartbeat(at(1_100));
        for (now, available) in [(1_200, true), (6_099, true), (6_100, false), (8_200, false)] {
            assert_eq!(peer.is_available(at(now)), available, "{now}");
        }
    }

    #[test]
    fn m_281_a_heartbeat_after_a_silence_makes_it_available_again() {
        let mut peer = deadline();
        peer.heartbeat(at(1_000));
        assert!(!peer.is_available(at(8_000)));
        peer.heartbeat(at(8_000));
        assert!(peer.is_available(at(8_001)));
        peer.shift(Duration::from_secs(2));
        assert!(
            peer.is_available(at(14_999)) && !peer.is_available(at(15_000)),
            "a pause of mine is forgiven"
        );
    }
}
