//! Who may shake hands at the port, and how many may at once. Peers that have no link have places of their
//! own and take none of those who have: handshakes, and connections of peers that have proved who they are
//! and have no link open. When there are too many of either, one goes at random, of the source that has the
//! most. Decides that and nothing else; it never closes a connection that has a link. Spec: reliability 3b,
//! B-52.
//!
//! The driver has the same rule for what comes after: links on which peers say who they are. Here a peer
//! counts as proved when its certificate holds, for the driver alone knows who is a member.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use quorate_driver::spi::{Crowd, HandshakeStats, Pending, Source};
use quorate_driver::{config::Bounds, security::HandshakeLimits};
use tokio::sync::oneshot;

/// Connections that are neither proved nor dialed, for each that may be in its handshake: those, and those
/// given up, which linger for a moment (RFC 9000, 10.2). Bounds memory if strangers come faster than that
/// moment passes.
const LINGERING_TIMES: usize = 4;

/// How long a source is known for somebody who proved himself there: peers whose connections broke come back
/// within it.
const REMEMBERED_FOR: Duration = Duration::from_secs(60 * 60);

/// What is known of a source.
#[derive(Debug)]
struct KnownSource {
    /// Proved connections from there.
    open: usize,
    /// When the newest of them began or the last one ended.
    last: Instant,
}

/// See the module.
#[derive(Debug)]
struct DoorPlaces {
    limits: HandshakeLimits,
    /// Handshakes.
    unfinished: Pending,
    /// Connections of proved peers on which no link is open.
    vacant: Crowd,
    /// Those of both. Dropped: it is over, for another one needs the place.
    holders: BTreeMap<u64, (Source, oneshot::Sender<()>)>,
    next: u64,
    /// Connections of proved peers, the vacant ones included.
    proved: usize,
    sources: BTreeMap<Source, KnownSource>,
    displaced: u64,
    timed_out: u64,
}

impl DoorPlaces {
    fn new(limits: HandshakeLimits) -> Self {
        Self {
            limits,
            unfinished: Pending::default(),
            vacant: Crowd::default(),
            holders: BTreeMap::new(),
            next: 0,
            proved: 0,
            sources: BTreeMap::new(),
            displaced: 0,
            timed_out: 0,
        }
    }

    /// A place for one more handshake, and what becomes ready when it has to go.
    fn enter(&mut self, source: Source, now: Instant, random: u64) -> (u64, oneshot::Receiver<()>) {
        let is_known = self.is_known(source, now);
        let bounds = Bounds {
            max: self.limits.pending_max,
            per_source_max: (!is_known).then_some(self.limits.pending_per_source_max),
        };
        let victim = self.unfinished.victim(source, bounds, random);
        let (id, displaced) = self.hold(source, victim);
        self.unfinished.add(id, source, is_known);
        (id, displaced)
    }

    /// The same for a connection of a proved peer without a link.
    fn vacate(&mut self, source: Source, random: u64) -> (u64, oneshot::Receiver<()>) {
        let is_full = self.vacant.len() >= self.limits.pending_max;
        let victim = is_full.then(|| self.vacant.one_of_the_most(random)).flatten();
        let (id, displaced) = self.hold(source, victim);
        self.vacant.add(id, source);
        (id, displaced)
    }

    fn hold(&mut self, source: Source, victim: Option<u64>) -> (u64, oneshot::Receiver<()>) {
        if let Some(victim) = victim {
            self.leave(victim);
            self.displaced += 1;
        }
        self.next += 1;
        let (sender, displaced) = oneshot::channel();
        self.holders.insert(self.next, (source, sender));
        (self.next, displaced)
    }

    /// The place is free again, if it was not before.
    fn leave(&mut self, id: u64) {
        if let Some((source, _)) = self.holders.remove(&id)
            && !self.unfinished.remove(id, source)
        {
            self.vacant.remove(id, source);
        }
    }

    fn is_known(&self, source: Source, now: Instant) -> bool {
        let recent = |known: &KnownSource| known.open > 0 || now.duration_since(known.last) < REMEMBERED_FOR;
        self.sources.get(&source).is_some_and(recent)
    }

    /// A peer has proved who it is.
    fn prove(&mut self, source: Source, now: Instant) {
        // So many sources are known: one is forgotten that has nobody at the moment.
        if self.sources.len() >= self.limits.links_max && !self.sources.contains_key(&source) {
            let vacant = self.sources.iter().filter(|(_, known)| known.open == 0);
            let oldest = vacant.min_by_key(|(_, known)| known.last);
            if let Some(oldest) = oldest.map(|(source, _)| *source) {
                self.sources.remove(&oldest);
            }
        }
        self.proved += 1;
        let known = self
            .sources
            .entry(source)
            .or_insert(KnownSource { open: 0, last: now });
        (known.open, known.last) = (known.open + 1, now);
    }

    fn end(&mut self, source: Source, now: Instant) {
        self.proved -= 1;
        if let Some(known) = self.sources.get_mut(&source) {
            (known.open, known.last) = (known.open - 1, now);
        }
    }

    /// Whether so many connections may have links. The driver's own limits, for members' links, strangers'
    /// and those in their handshake, are reached before, so that none of these keeps another from its places.
    fn has_room_for_links(&self) -> bool {
        let limits = &self.limits;
        let max = limits.links_max + limits.pending_max + limits.stranger_links_max;
        self.proved - self.vacant.len() <= max
    }
}

/// The door of one port. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Door(Arc<Mutex<DoorPlaces>>);

impl Door {
    /// A door for a node with these settings.
    pub(crate) fn new(limits: HandshakeLimits) -> Self {
        Self(Arc::new(Mutex::new(DoorPlaces::new(limits))))
    }

    fn places(&self) -> MutexGuard<'_, DoorPlaces> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether one more may begin. `open`: connections of all kinds that the port has; `dialed`: those that
    /// this node opened.
    pub(crate) fn has_room(&self, open: usize, dialed: usize) -> bool {
        let places = self.places();
        open.saturating_sub(dialed + places.proved) < LINGERING_TIMES * places.limits.pending_max
    }

    /// What is under way, and what was counted.
    pub(crate) fn stats(&self) -> HandshakeStats {
        let places = self.places();
        HandshakeStats {
            pending: places.unfinished.len() as u64,
            displaced: places.displaced,
            timed_out: places.timed_out,
        }
    }

    /// Somebody begins a handshake. Another one may have to go for it.
    pub(crate) fn enter(&self, from: SocketAddr) -> DoorPlace {
        let source = Source::of(from.ip());
        self.place(source, |places| places.enter(source, Instant::now(), random()))
    }

    fn place(
        &self,
        source: Source,
        take: impl FnOnce(&mut DoorPlaces) -> (u64, oneshot::Receiver<()>),
    ) -> DoorPlace {
        let (id, displaced) = take(&mut self.places());
        DoorPlace {
            door: self.clone(),
            id,
            source,
            displaced,
        }
    }
}

/// Only if the system has no entropy is it always the same one who goes.
fn random() -> u64 {
    getrandom::u64().unwrap_or_default()
}

/// The place of somebody without a link, given back when this is dropped.
#[derive(Debug)]
pub(crate) struct DoorPlace {
    door: Door,
    id: u64,
    source: Source,
    displaced: oneshot::Receiver<()>,
}

impl DoorPlace {
    /// Returns when another one needs the place. Loses nothing when it is dropped.
    pub(crate) async fn displaced(&mut self) {
        // Nothing is ever sent.
        let _ = (&mut self.displaced).await;
    }

    /// The handshake was not finished in time.
    pub(crate) fn time_out(self) {
        self.door.places().timed_out += 1;
    }

    /// The peer has proved who it is.
    pub(crate) fn prove(self) -> ProvedConnection {
        let (door, source) = (self.door.clone(), self.source);
        door.places().prove(source, Instant::now());
        ProvedConnection { door, source }
    }
}

impl Drop for DoorPlace {
    fn drop(&mut self) {
        self.door.places().leave(self.id);
    }
}

/// A connection whose peer has proved who it is, until this is dropped.
#[derive(Debug)]
pub(crate) struct ProvedConnection {
    door: Door,
    source: Source,
}

impl ProvedConnection {
    /// No link is open on the connection: another one may need its place.
    pub(crate) fn vacate(&self) -> DoorPlace {
        let source = self.source;
        self.door.place(source, |places| places.vacate(source, random()))
    }

    /// Whether the connection, which is not vacant, may have links.
    pub(crate) fn may_have_links(&self) -> bool {
        self.door.places().has_room_for_links()
    }
}

impl Drop for ProvedConnection {
    fn drop(&mut self) {
        self.door.places().end(self.source, Instant::now());
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    /// The defaults.
    const HANDSHAKES_MAX: usize = 512;
    const HANDSHAKES_PER_SOURCE_MAX: usize = 16;
    const LINKS_MAX: usize = 4_096;

    fn places() -> DoorPlaces {
        DoorPlaces::new(HandshakeLimits::default())
    }

    fn from(source: u8) -> Source {
        Source::of([10, 0, 0, source].into())
    }

    type Held = Vec<(u64, oneshot::Receiver<()>)>;

    /// Splitmix: as random as this needs, and the same every time.
    fn random(number: u64) -> u64 {
        let mixed = (number.wrapping_add(1)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed ^ (mixed >> 27)
    }

    fn crowd(places: &mut DoorPlaces, source: Source, count: u64, now: Instant) -> Held {
        (0..count)
            .map(|number| places.enter(source, now, random(number)))
            .collect()
    }

    fn is_displaced(held: &mut oneshot::Receiver<()>) -> bool {
        matches!(held.try_recv(), Err(oneshot::error::TryRecvError::Closed))
    }

    #[test]
    fn b_52_strangers_of_one_source_displace_each_other_and_nobody_else() {
        let (mut places, now) = (places(), Instant::now());
        let _before = crowd(&mut places, from(1), 5_000, now);
        assert_eq!(places.unfinished.count(from(1)), HANDSHAKES_PER_SOURCE_MAX);
        let (_, mut honest) = places.enter(from(2), now, 7);
        let mut after = crowd(&mut places, from(1), 5_000, now);
        assert!(!is_displaced(&mut honest));
        assert_eq!(places.unfinished.len(), HANDSHAKES_PER_SOURCE_MAX + 1);
        assert_eq!(places.holders.len(), HANDSHAKES_PER_SOURCE_MAX + 1);
        let (_, newest) = after.last_mut().unwrap();
        assert!(!is_displaced(newest), "the newest always gets in");
    }

    #[test]
    fn b_52_strangers_behind_a_peers_address_neither_fill_the_places_nor_throttle_it() {
        let (mut places, now) = (places(), Instant::now());
        places.prove(from(1), now);
        let _strangers = crowd(&mut places, from(1), 5_000, now);
        assert_eq!(places.unfinished.len(), HANDSHAKES_MAX);
        let (_, mut elsewhere) = places.enter(from(2), now, 7);
        // As many as come within a few round trips of an honest handshake.
        let mut survived = 0;
        for attempt in 0..100 {
            let (id, mut honest) = places.enter(from(1), now, random(attempt));
            let _more = crowd(&mut places, from(1), 50, now);
            survived += u32::from(!is_displaced(&mut honest));
            places.leave(id);
        }
        assert!(survived > 70, "{survived}");
        assert!(!is_displaced(&mut elsewhere));
    }

    #[test]
    fn b_52_a_source_is_known_for_a_while_after_its_last_peer_has_gone() {
        let (mut places, now) = (places(), Instant::now());
        places.prove(from(1), now);
        places.end(from(1), now);
        assert!(places.is_known(from(1), now + Duration::from_secs(60)));
        assert!(!places.is_known(from(1), now + REMEMBERED_FOR));
        assert!(!places.is_known(from(2), now));
    }

    #[test]
    fn b_52_no_flood_from_elsewhere_displaces_the_handshake_of_a_peer_that_comes_back() {
        let (mut places, now) = (places(), Instant::now());
        places.prove(from(1), now);
        places.end(from(1), now);
        let (_, mut back) = places.enter(from(1), now, 7);
        for source in 2..=255 {
            let _strangers = crowd(&mut places, from(source), 16, now);
        }
        assert_eq!(places.unfinished.len(), HANDSHAKES_MAX);
        assert!(!is_displaced(&mut back));
    }

    #[test]
    fn b_52_connections_without_a_link_are_bounded_and_take_no_place_from_those_with_one() {
        let (mut places, now) = (places(), Instant::now());
        let all = u64::try_from(2 * LINKS_MAX).unwrap();
        let mut held: Held = Vec::new();
        for number in 0..all {
            places.prove(from(1), now);
            held.push(places.vacate(from(1), random(number)));
            held.retain_mut(|(_, displaced)| {
                let gone = is_displaced(displaced);
                if gone {
                    places.end(from(1), now);
                }
                !gone
            });
            assert!(places.has_room_for_links());
        }
        assert_eq!(
            (places.vacant.len(), held.len()),
            (HANDSHAKES_MAX, HANDSHAKES_MAX)
        );
        assert_eq!(places.displaced, all - 512);
        // Somebody from elsewhere is not the one who goes.
        let (_, mut elsewhere) = places.vacate(from(2), 7);
        for number in 0..1_000 {
            held.push(places.vacate(from(1), random(number)));
        }
        assert!(!is_displaced(&mut elsewhere));
    }

    #[test]
    fn known_sources_are_bounded() {
        let (mut places, now) = (places(), Instant::now());
        for number in 0..u32::try_from(2 * LINKS_MAX).unwrap() {
            let source = Source::of(std::net::Ipv4Addr::from(number).into());
            places.prove(source, now);
            places.end(source, now + Duration::from_millis(number.into()));
        }
        assert_eq!(places.sources.len(), LINKS_MAX);
    }

    #[test]
    fn b_52_what_lingers_is_bounded_and_takes_no_place_from_the_proved() {
        let door = Door::new(HandshakeLimits::default());
        let unproved_max = LINGERING_TIMES * HANDSHAKES_MAX;
        let proved: Vec<ProvedConnection> = (0..100_u16)
            .map(|port| door.enter(SocketAddr::from(([10, 0, 0, 1], port))))
            .map(DoorPlace::prove)
            .collect();
        assert!(door.has_room(150 + unproved_max - 1, 50));
        assert!(!door.has_room(150 + unproved_max, 50));
        drop(proved);
        assert!(!door.has_room(50 + unproved_max, 50));
        let places = door.places();
        assert!(places.holders.is_empty() && places.unfinished.is_empty() && places.proved == 0);
    }

    #[test]
    fn the_settings_of_tcp_bound_handshakes_here_too() {
        let mut limits = HandshakeLimits::default();
        (limits.pending_max, limits.pending_per_source_max) = (40, 4);
        (limits.links_max, limits.stranger_links_max) = (16, 20);
        let (mut places, now) = (DoorPlaces::new(limits), Instant::now());
        let _one = crowd(&mut places, from(1), 100, now);
        assert_eq!(places.unfinished.len(), 4);
        for source in 2..100 {
            let _more = crowd(&mut places, from(source), 4, now);
        }
        assert_eq!(places.unfinished.len(), 40);
        let mut with_links = 0;
        while places.has_room_for_links() {
            places.prove(from(1), now);
            with_links += 1;
        }
        assert_eq!(with_links, 16 + 40 + 20 + 1, "the last one has none");
        let door = Door::new(limits);
        assert!(door.has_room(159, 0) && !door.has_room(160, 0));
    }
}
