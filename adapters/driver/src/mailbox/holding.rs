//! Which entities hold a thread of the users' executor at the moment, and for how many looks of the node's
//! loop. Reads no clock: the loop looks at a fixed interval, and only while it runs itself, so that a pause
//! of the process is nobody's fault. Decides nothing. Spec: `ARCHITECTURE.md`.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use quorate_core::sharding::ids::Slot;

/// Threads that are watched at once. More than an executor has on usual machines; beyond it a handler goes
/// unwatched.
const PLACES: usize = 128;

/// Places that are tried before a handler goes unwatched: threads choose different ones, so the first is free
/// nearly always.
const PLACES_TRIED: usize = 8;

/// Nobody holds this place.
const FREE: u64 = 0;

/// Gives every thread a place of its own to begin with, in the order in which they come.
static THREADS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static PLACE: Cell<usize> = Cell::new(THREADS.fetch_add(1, Ordering::Relaxed));
}

/// One thread, if an entity holds it. A cache line of its own: every message writes here.
#[derive(Debug, Default)]
#[repr(align(64))]
struct HeldThread {
    /// The look during which it began, counted from 1; [`FREE`].
    since: AtomicU64,
    /// Index and generation of the entity's slot.
    who: AtomicU64,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct ThreadHolding {
    look: AtomicU64,
    places: Box<[HeldThread]>,
}

impl Default for ThreadHolding {
    fn default() -> Self {
        Self {
            look: AtomicU64::new(1),
            places: (0..PLACES).map(|_| HeldThread::default()).collect(),
        }
    }
}

/// Lets go of the thread when it is dropped.
pub(crate) struct ThreadGuard<'a>(Option<&'a HeldThread>);

impl Drop for ThreadGuard<'_> {
    fn drop(&mut self) {
        if let Some(place) = self.0 {
            place.since.store(FREE, Ordering::Release);
        }
    }
}

impl ThreadHolding {
    /// An entity's handler runs on this thread from now on.
    pub(crate) fn begin(&self, slot: Slot) -> ThreadGuard<'_> {
        let look = self.look.load(Ordering::Relaxed);
        let first = PLACE.get();
        let mut places = (first..first + PLACES_TRIED).map(|index| &self.places[index % PLACES]);
        let place = places.find(|place| {
            let taken = place
                .since
                .compare_exchange(FREE, look, Ordering::Acquire, Ordering::Relaxed);
            taken.is_ok()
        });
        if let Some(place) = place {
            let who = u64::from(slot.index) << 32 | u64::from(slot.generation);
            place.who.store(who, Ordering::Release);
        }
        ThreadGuard(place)
    }

    /// Looks once more; says who has held a thread since exactly `looks` looks ago, so that everybody is
    /// named once.
    pub(crate) fn look(&self, looks: u64) -> Vec<Slot> {
        let now = self.look.fetch_add(1, Ordering::Relaxed) + 1;
        let overdue = |place: &&HeldThread| {
            let since = place.since.load(Ordering::Acquire);
            since != FREE && since + looks == now
        };
        let slot = |place: &HeldThread| {
            let who = place.who.load(Ordering::Acquire).to_be_bytes();
            let [i, j, k, l, generation @ ..] = who;
            Slot {
                index: u32::from_be_bytes([i, j, k, l]),
                generation: u32::from_be_bytes(generation),
            }
        };
        self.places.iter().filter(overdue).map(slot).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(index: u32) -> Slot {
        Slot { index, generation: 7 }
    }

    #[test]
    fn who_holds_a_thread_for_so_many_looks_is_named_once_and_who_let_go_is_not() {
        let holding = ThreadHolding::default();
        let held = holding.begin(slot(1));
        drop(holding.begin(slot(2)));
        assert_eq!(holding.look(2), []);
        assert_eq!(holding.look(2), [slot(1)]);
        assert_eq!(holding.look(2), []);
        drop(held);
        let _again = holding.begin(slot(3));
        assert_eq!(holding.look(2), []);
        assert_eq!(holding.look(2), [slot(3)]);
    }

    #[test]
    fn a_thread_that_finds_no_place_goes_unwatched() {
        let holding = ThreadHolding::default();
        let held: Vec<_> = (0..20).map(|index| holding.begin(slot(index))).collect();
        assert_eq!(holding.look(1).len(), PLACES_TRIED);
        drop(held);
        assert!(
            holding
                .places
                .iter()
                .all(|place| place.since.load(Ordering::Relaxed) == FREE)
        );
    }
}
