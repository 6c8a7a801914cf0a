//! Which keys a comparison passes over: those whose changes are on their way as deltas, so that two replicas
//! differ for a moment and whole values would be exchanged for nothing. Decides only that; what a delta did
//! not bring, a later comparison does. Spec: sharding 1.12 (full-state gossip, delta propagation).

use core::time::Duration;

use super::Replicator;
use super::replicas::Replicas;
use super::slices::slice_size;
use super::state::key::Key;
use crate::ddata::Cx;
use crate::time::Instant;

/// Comparisons that a key is passed over in a row, at most; a node takes part in about two per round of
/// gossip. It bounds for how long a replica goes without what somebody else's deltas did not bring, while the
/// key is changed all the time.
const PASSED_OVER_MAX: u8 = 30;

/// What is known about a key's changes that travel as deltas.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct KeyFlux {
    /// By then everybody was sent the last of them.
    until: Option<Instant>,
    passed_over: u8,
    /// One was refused here because one before it is missing: only a value helps.
    has_gap: bool,
}

impl KeyFlux {
    /// A change of the key travels as a delta.
    const fn extend(&mut self, until: Instant) {
        self.until = Some(until);
    }

    /// The key was changed in a way that only values bring.
    const fn end(&mut self) {
        self.until = None;
    }

    /// A delta came before the one that it follows.
    const fn note_gap(&mut self) {
        self.has_gap = true;
    }

    /// A whole value came.
    pub(super) const fn close_gap(&mut self) {
        self.has_gap = false;
    }

    pub(super) const fn has_gap(&self) -> bool {
        self.has_gap
    }

    /// Whether a comparison at this time leaves the key out.
    pub(super) fn passes_over(&mut self, now: Instant) -> bool {
        let passes = self.until.is_some_and(|until| now < until) && self.passed_over < PASSED_OVER_MAX;
        self.passed_over = if passes { self.passed_over + 1 } else { 0 };
        passes
    }
}

impl Replicator {
    /// A change of a key, made here or heard of as a delta, is on its way to the others.
    pub(super) fn note_on_its_way(&mut self, cx: &Cx<'_>, key: &Key) {
        let until = cx.mono() + spreads_within(cx);
        if let Some(entry) = self.entries.get_mut(key) {
            entry.flux.extend(until);
        }
    }

    /// A change of a key is brought by whole values only.
    pub(super) fn end_flux(&mut self, key: &Key) {
        if let Some(entry) = self.entries.get_mut(key) {
            entry.flux.end();
        }
    }

    /// A delta came before the one that it follows.
    pub(super) fn note_gap(&mut self, key: &Key) {
        if let Some(entry) = self.entries.get_mut(key) {
            entry.flux.note_gap();
        }
    }
}

/// The time in which the deltas of a change have been sent to everybody, and arrived: a slice of the members
/// per tick, and a tick more.
fn spreads_within(cx: &Cx<'_>) -> Duration {
    let told = Replicas::new(cx.view(), &cx.config().ddata).told().count();
    let ticks = told.div_ceil(slice_size(told).max(1)) + 1;
    let ticks = u32::try_from(ticks).unwrap_or(u32::MAX);
    cx.config()
        .ddata
        .delta_propagation_interval()
        .saturating_mul(ticks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_changes_all_the_time_is_compared_now_and_then() {
        let at = Instant::from_micros;
        let mut flux = KeyFlux::default();
        assert!(!flux.passes_over(at(1)));
        flux.extend(at(100));
        let passed = (0..62).map(|_| flux.passes_over(at(99)));
        let compared: alloc::vec::Vec<usize> = passed
            .enumerate()
            .filter(|(_, passed)| !passed)
            .map(|(round, _)| round)
            .collect();
        assert_eq!(compared, [30, 61]);
        assert!(!flux.passes_over(at(100)), "everybody was told");
    }
}
