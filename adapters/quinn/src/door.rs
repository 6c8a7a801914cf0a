//! Who may shake hands at the port, and how many may at once. Peers that have proved nothing yet have places of their own and
//! take none of those who have; when there are too many of them, one goes at random, of the source that has the most. Decides
//! that and nothing else; it never closes a connection whose peer has proved who it is. Spec: reliability 3b, B-52.
//!
//! The driver has the same rule for what comes after: links on which peers say who they are. Here a peer counts as proved when
//! its certificate holds, for the driver alone knows who is a member.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use quorate_driver::{Crowd, HandshakeLimits, Source};
use tokio::sync::oneshot;

/// Connections that are neither proved nor dialed, for each that may be in its handshake: those, and those given up, which linger
/// for a moment (RFC 9000, 10.2). Bounds memory if strangers come faster than that moment passes.
const LINGERING_TIMES: usize = 4;

/// How long a source is known for somebody who proved himself there: peers whose connections broke come back within it.
const REMEMBERED_FOR: Duration = Duration::from_secs(60 * 60);

/// What is known of a source.
#[derive(Debug)]
struct Known {
    /// Proved connections from there.
    open: usize,
    /// When the newest of them began or the last one ended.
    last: Instant,
}

/// See the module.
#[derive(Debug)]
struct Places {
    limits: HandshakeLimits,
    unfinished: Crowd,
    /// Dropped: the handshake is over, for another one needs the place.
    holders: BTreeMap<u64, (Source, oneshot::Sender<()>)>,
    next: u64,
    proved: usize,
    sources: BTreeMap<Source, Known>,
}

impl Places {
    fn new(limits: HandshakeLimits) -> Self {
        Self {
            limits,
            unfinished: Crowd::default(),
            holders: BTreeMap::new(),
            next: 0,
            proved: 0,
            sources: BTreeMap::new(),
        }
    }

    /// A place for one more, and what becomes ready when it has to go.
    fn enter(&mut self, source: Source, now: Instant, random: u64) -> (u64, oneshot::Receiver<()>) {
        let is_throttled = !self.is_known(source, now);
        let victim = if is_throttled && self.unfinished.count(source) >= self.limits.pending_per_source_max {
            self.unfinished.one_of(source, random)
        } else if self.unfinished.len() >= self.limits.pending_max {
            self.unfinished.one_of_the_most(random)
        } else {
            None
        };
        if let Some(victim) = victim {
            self.leave(victim);
        }
        self.next += 1;
        let (sender, displaced) = oneshot::channel();
        self.unfinished.add(self.next, source);
        self.holders.insert(self.next, (source, sender));
        (self.next, displaced)
    }

    /// The place is free again, if it was not before.
    fn leave(&mut self, id: u64) {
        if let Some((source, _)) = self.holders.remove(&id) {
            self.unfinished.remove(id, source);
        }
    }

    fn is_known(&self, source: Source, now: Instant) -> bool {
        let recent = |known: &Known| known.open > 0 || now.duration_since(known.last) < REMEMBERED_FOR;
        self.sources.get(&source).is_some_and(recent)
    }

    /// A peer has proved who it is; says whether there is room for it.
    fn prove(&mut self, source: Source, now: Instant) -> bool {
        if self.proved >= self.limits.links_max {
            return false;
        }
        // As many sources are known as connections may be open: one is forgotten that has nobody at the moment.
        if self.sources.len() >= self.limits.links_max && !self.sources.contains_key(&source) {
            let vacant = self.sources.iter().filter(|(_, known)| known.open == 0);
            let oldest = vacant.min_by_key(|(_, known)| known.last);
            if let Some(oldest) = oldest.map(|(source, _)| *source) {
                self.sources.remove(&oldest);
            }
        }
        self.proved += 1;
        let known = self.sources.entry(source).or_insert(Known { open: 0, last: now });
        (known.open, known.last) = (known.open + 1, now);
        true
    }

    fn end(&mut self, source: Source, now: Instant) {
        self.proved -= 1;
        if let Some(known) = self.sources.get_mut(&source) {
            (known.open, known.last) = (known.open - 1, now);
        }
    }
}

/// The door of one port. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Door(Arc<Mutex<Places>>);

impl Door {
    /// A door for a node with these settings.
    pub(crate) fn new(limits: HandshakeLimits) -> Self {
        Self(Arc::new(Mutex::new(Places::new(limits))))
    }

    fn places(&self) -> MutexGuard<'_, Places> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether one more may begin. `open`: connections of all kinds that the port has; `dialed`: those that this node opened.
    pub(crate) fn has_room(&self, open: usize, dialed: usize) -> bool {
        let places = self.places();
        open.saturating_sub(dialed + places.proved) < LINGERING_TIMES * places.limits.pending_max
    }

    /// Somebody begins a handshake. Another one may have to go for it.
    pub(crate) fn enter(&self, from: SocketAddr) -> Unfinished {
        // Only if the system has no entropy is it always the same one.
        let random = getrandom::u64().unwrap_or_default();
        let source = Source::of(from.ip());
        let (id, displaced) = self.places().enter(source, Instant::now(), random);
        Unfinished {
            door: self.clone(),
            id,
            source,
            displaced,
        }
    }
}

/// The place of a handshake, given back when this is dropped.
#[derive(Debug)]
pub(crate) struct Unfinished {
    door: Door,
    id: u64,
    source: Source,
    displaced: oneshot::Receiver<()>,
}

impl Unfinished {
    /// Returns when another one needs the place. Loses nothing when it is dropped.
    pub(crate) async fn displaced(&mut self) {
        // Nothing is ever sent.
        let _ = (&mut self.displaced).await;
    }

    /// The peer has proved who it is. `None`: there are too many who have.
    pub(crate) fn prove(self) -> Option<Proved> {
        let (door, source) = (self.door.clone(), self.source);
        let has_room = door.places().prove(source, Instant::now());
        has_room.then_some(Proved { door, source })
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        self.door.places().leave(self.id);
    }
}

/// The place of a peer that has proved who it is, given back when this is dropped.
#[derive(Debug)]
pub(crate) struct Proved {
    door: Door,
    source: Source,
}

impl Drop for Proved {
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
    const PROVED_MAX: usize = 4_096;

    fn places() -> Places {
        Places::new(HandshakeLimits::default())
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

    fn crowd(places: &mut Places, source: Source, count: u64, now: Instant) -> Held {
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
        assert!(places.prove(from(1), now));
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
        assert!(places.prove(from(1), now));
        places.end(from(1), now);
        assert!(places.is_known(from(1), now + Duration::from_secs(60)));
        assert!(!places.is_known(from(1), now + REMEMBERED_FOR));
        assert!(!places.is_known(from(2), now));
    }

    #[test]
    fn proved_connections_and_known_sources_are_bounded() {
        let (mut places, now) = (places(), Instant::now());
        for number in 0..u32::try_from(2 * PROVED_MAX).unwrap() {
            let source = Source::of(std::net::Ipv4Addr::from(number).into());
            assert!(places.prove(source, now));
            places.end(source, now + Duration::from_millis(number.into()));
        }
        assert_eq!(places.sources.len(), PROVED_MAX);
        for _ in 0..PROVED_MAX {
            assert!(places.prove(from(1), now));
        }
        assert!(!places.prove(from(1), now));
    }

    #[test]
    fn b_52_what_lingers_is_bounded_and_takes_no_place_from_the_proved() {
        let door = Door::new(HandshakeLimits::default());
        let unproved_max = LINGERING_TIMES * HANDSHAKES_MAX;
        let proved: Vec<Proved> = (0..100_u16)
            .map(|port| door.enter(SocketAddr::from(([10, 0, 0, 1], port))))
            .map(|unfinished| unfinished.prove().unwrap())
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
        (
            limits.pending_max,
            limits.pending_per_source_max,
            limits.links_max,
        ) = (40, 4, 16);
        let (mut places, now) = (Places::new(limits), Instant::now());
        let _one = crowd(&mut places, from(1), 100, now);
        assert_eq!(places.unfinished.len(), 4);
        for source in 2..100 {
            let _more = crowd(&mut places, from(source), 4, now);
        }
        assert_eq!(places.unfinished.len(), 40);
        let proved = (0..100).filter(|source| places.prove(from(*source), now)).count();
        assert_eq!((proved, places.sources.len()), (16, 16));
        let door = Door::new(limits);
        assert!(door.has_room(159, 0) && !door.has_room(160, 0));
    }
}
