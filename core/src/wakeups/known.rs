//! What an entity knows of its clock, and what it has to do before it says something: a clock never wakes
//! later than somebody has wanted, and only who surely owns the log says what is next. Spec: sharding 1.15,
//! issue "reminders"; `docs/adr/0016`.

use super::WakeUp;

/// What the clock has said last, and nobody else has changed as far as is known. Its time is not later than
/// this.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KnownWakeup(Option<WakeUp>);

impl KnownWakeup {
    /// Whether the entity is woken at this time or before. If not it asks its clock before it keeps what it
    /// has to be woken for.
    #[must_use]
    pub fn covers(&self, at_ms: u64) -> bool {
        self.0.is_some_and(|known| known.at_ms <= at_ms)
    }

    /// The clock has said that this is kept.
    pub const fn on_kept(&mut self, kept: WakeUp) {
        self.0 = Some(kept);
    }

    /// Whether who was woken under this version surely owns its log: it has written something since, or has
    /// said itself what the clock keeps and written that, and nobody has said anything since. If not it
    /// writes something first, which a store refuses if another incarnation owns the log and may want to be
    /// woken.
    #[must_use]
    pub fn is_sure(&self, version: u64, has_written: bool) -> bool {
        has_written || self.0.is_some_and(|known| known.version == version)
    }

    /// What the clock keeps is not known any more: it is told what is next, or what the entity was to be
    /// woken for is not kept. Who could not keep it may have lost its log to one that wants to be woken
    /// earlier.
    pub const fn forget(&mut self) {
        self.0 = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_told_asks_for_an_earlier_time_only_and_is_sure_under_that_version_only() {
        let mut known = KnownWakeup::default();
        assert!(!known.covers(u64::MAX) && !known.is_sure(0, false) && known.is_sure(0, true));
        known.on_kept(WakeUp {
            at_ms: 50,
            version: 7,
        });
        assert!(known.covers(50) && known.covers(51) && !known.covers(49));
        assert!(known.is_sure(7, false) && !known.is_sure(6, false) && !known.is_sure(8, false));
        known.forget();
        assert!(!known.covers(u64::MAX) && !known.is_sure(7, false));
    }
}
