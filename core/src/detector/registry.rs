//! One detector per monitored incarnation. Keyed by incarnation, so a restarted process starts afresh. A peer
//! it does not know counts as available: it only ever reports silence it has measured. Spec: membership 2.14.

use core::time::Duration;

use crate::config::DetectorImplementation;
use crate::detector::deadline::DeadlineDetector;
use crate::detector::phi::{PhiAccrual, PhiSettings};
use crate::ident::UniqueAddress;
use crate::ordered::OrderedMap;
use crate::time::Instant;

/// The detectors of all monitored peers.
#[derive(Clone, Debug)]
pub(crate) struct DetectorRegistry {
    settings: PhiSettings,
    implementation: DetectorImplementation,
    peers: OrderedMap<UniqueAddress, PeerDetector>,
}

/// One peer's detector.
#[derive(Clone, Debug)]
enum PeerDetector {
    Phi(PhiAccrual),
    Deadline(DeadlineDetector),
}

impl PeerDetector {
    fn heartbeat(&mut self, now: Instant) -> Option<Duration> {
        match self {
            Self::Phi(detector) => detector.heartbeat(now),
            Self::Deadline(detector) => {
                detector.heartbeat(now);
                None
            }
        }
    }

    fn last_heartbeat(&self) -> Option<Instant> {
        match self {
            Self::Phi(detector) => detector.last_heartbeat(),
            Self::Deadline(detector) => detector.last_heartbeat(),
        }
    }

    fn shift(&mut self, by: Duration) {
        match self {
            Self::Phi(detector) => detector.shift(by),
            Self::Deadline(detector) => detector.shift(by),
        }
    }

    fn is_available(&self, now: Instant) -> bool {
        match self {
            Self::Phi(detector) => detector.is_available(now),
            Self::Deadline(detector) => detector.is_available(now),
        }
    }
}

impl DetectorRegistry {
    pub(crate) const fn new(settings: PhiSettings, implementation: DetectorImplementation) -> Self {
        Self {
            settings,
            implementation,
            peers: OrderedMap::new(),
        }
    }

    /// Records a heartbeat, creating the detector at the first one. Returns an interval worth a warning.
    pub(crate) fn heartbeat(&mut self, peer: &UniqueAddress, now: Instant) -> Option<Duration> {
        if let Some(detector) = self.peers.get_mut(peer) {
            return detector.heartbeat(now);
        }
        let settings = self.settings;
        let mut detector = match self.implementation {
            DetectorImplementation::PhiAccrual => PeerDetector::Phi(PhiAccrual::new(settings)),
            DetectorImplementation::Deadline => PeerDetector::Deadline(DeadlineDetector::new(
                settings.first_heartbeat_estimate,
                settings.acceptable_heartbeat_pause,
            )),
        };
        let late = detector.heartbeat(now);
        self.peers.insert(peer.clone(), detector);
        late
    }

    /// Forgets a peer.
    pub(crate) fn remove(&mut self, peer: &UniqueAddress) {
        self.peers.remove(peer);
    }

    /// Forgets every peer.
    pub(crate) fn clear(&mut self) {
        self.peers.clear();
    }

    /// Forgives a pause of this process: nobody was silent during it. No heartbeat moves past `now`, because
    /// one that was already handled after the pause needs no forgiving.
    pub(crate) fn shift(&mut self, by: Duration, now: Instant) {
        for detector in self.peers.values_mut() {
            let room = detector
                .last_heartbeat()
                .map_or(Duration::ZERO, |last| now.since(last));
            detector.shift(by.min(room));
        }
    }

    pub(crate) fn is_available(&self, peer: &UniqueAddress, now: Instant) -> bool {
        self.peers
            .get(peer)
            .is_none_or(|detector| detector.is_available(now))
    }

    pub(crate) fn is_monitoring(&self, peer: &UniqueAddress) -> bool {
        self.peers.contains_key(peer)
    }

    /// Monitored peers that are not available at `now`, in node order.
    pub(crate) fn unavailable(&self, now: Instant) -> impl Iterator<Item = &UniqueAddress> {
        self.peers
            .iter()
            .filter(move |(_, detector)| !detector.is_available(now))
            .map(|(peer, _)| peer)
    }

    /// Monitored peers, in node order.
    pub(crate) fn monitored(&self) -> impl Iterator<Item = &UniqueAddress> {
        self.peers.keys()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::node;

    fn at(ms: u64) -> Instant {
        Instant::from_millis(1_000_000 + ms)
    }

    fn impatient() -> DetectorRegistry {
        let settings = PhiSettings {
            threshold: 3.0,
            min_std_deviation: Duration::from_millis(10),
            acceptable_heartbeat_pause: Duration::ZERO,
            ..PhiSettings::default()
        };
        DetectorRegistry::new(settings, DetectorImplementation::PhiAccrual)
    }

    #[test]
    fn m_282_an_unknown_peer_is_available_and_not_monitored() {
        let registry = impatient();
        assert!(registry.is_available(&node("a", 1), at(0)));
        assert!(!registry.is_monitoring(&node("a", 1)));
    }

    #[test]
    fn m_283_a_forgotten_peer_starts_afresh() {
        let (mut registry, a) = (impatient(), node("a", 1));
        for beat in [0, 1000, 1100] {
            registry.heartbeat(&a, at(beat));
        }
        assert!(!registry.is_available(&a, at(8200)));
        registry.remove(&a);
        assert!(registry.is_available(&a, at(8200)) && !registry.is_monitoring(&a));
        registry.heartbeat(&a, at(8200));
        let Some(PeerDetector::Phi(detector)) = registry.peers.get(&a) else {
            unreachable!("phi was asked for");
        };
        assert!(detector.history().intervals_ms().eq([750, 1250]));
    }

    #[test]
    fn m_284_a_heartbeat_of_one_peer_says_nothing_about_another() {
        let (mut registry, a, b) = (impatient(), node("a", 1), node("b", 2));
        for beat in [0, 1000, 1100] {
            registry.heartbeat(&a, at(beat));
            registry.heartbeat(&b, at(beat));
        }
        registry.heartbeat(&b, at(8000));
        assert!(registry.unavailable(at(8200)).eq([&a]));
        assert!(registry.is_available(&b, at(8200)));
    }

    #[test]
    fn the_deadline_detector_can_be_chosen() {
        let settings = PhiSettings::default();
        let (mut registry, a) = (
            DetectorRegistry::new(settings, DetectorImplementation::Deadline),
            node("a", 1),
        );
        registry.heartbeat(&a, at(0));
        assert!(registry.is_available(&a, at(3_999)) && !registry.is_available(&a, at(4_000)));
        registry.shift(Duration::from_secs(1), at(4_000));
        assert!(registry.is_available(&a, at(4_999)) && registry.unavailable(at(5_000)).eq([&a]));
    }

    #[test]
    fn m_402_another_incarnation_of_an_address_is_another_peer() {
        let (mut registry, old, new) = (impatient(), node("a", 1), node("a", 2));
        registry.heartbeat(&old, at(0));
        registry.heartbeat(&new, at(60_000));
        assert!(registry.unavailable(at(60_100)).eq([&old]));
    }

    #[test]
    fn s_8_5_a_pause_is_forgiven_but_nothing_is_moved_into_the_future() {
        let (mut registry, before, after) = (impatient(), node("a", 1), node("b", 2));
        registry.heartbeat(&before, at(0));
        registry.heartbeat(&after, at(29_999));
        registry.shift(Duration::from_secs(29), at(30_000));
        let last = |peer: &UniqueAddress| registry.peers.get(peer).unwrap().last_heartbeat();
        assert_eq!(last(&before), Some(at(29_000)));
        assert_eq!(last(&after), Some(at(30_000)));
    }
}
