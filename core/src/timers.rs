//! The one timer table: which timer is due when. The host keeps a single deadline. Decides nothing else.

use alloc::collections::{BTreeMap, BTreeSet};

use crate::time::Instant;
use crate::timer::Timer;

/// Deadlines by timer and by time.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeTimers {
    by_timer: BTreeMap<Timer, Instant>,
    by_time: BTreeSet<(Instant, Timer)>,
}

impl NodeTimers {
    /// Sets or moves a timer.
    pub(crate) fn set(&mut self, timer: Timer, at: Instant) {
        if let Some(old) = self.by_timer.insert(timer.clone(), at) {
            if old == at {
                return;
            }
            self.by_time.remove(&(old, timer.clone()));
        }
        self.by_time.insert((at, timer));
    }

    /// Forgets a timer; says whether it was set.
    pub(crate) fn cancel(&mut self, timer: &Timer) -> bool {
        let Some(old) = self.by_timer.remove(timer) else {
            return false;
        };
        self.by_time.remove(&(old, timer.clone()))
    }

    /// When the timer is due, if it is set.
    pub(crate) fn at(&self, timer: &Timer) -> Option<Instant> {
        self.by_timer.get(timer).copied()
    }

    /// Takes the first timer that is due at `now`.
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<Timer> {
        let (at, _) = self.by_time.first()?;
        if *at > now {
            return None;
        }
        let (_, timer) = self.by_time.pop_first()?;
        self.by_timer.remove(&timer);
        Some(timer)
    }

    /// The next deadline and what it is for.
    pub(crate) fn next(&self) -> Option<(Instant, &Timer)> {
        self.by_time.first().map(|(at, timer)| (*at, timer))
    }

    /// Forgets everything; a stopped node waits for nothing.
    pub(crate) fn clear(&mut self) {
        self.by_timer.clear();
        self.by_time.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timer::{DowningTimer, MembershipTimer};

    #[test]
    fn a_timer_set_again_moves_and_fires_once() {
        let mut timers = NodeTimers::default();
        timers.set(Timer::Downing(DowningTimer::Tick), Instant::from_millis(5));
        timers.set(Timer::Downing(DowningTimer::Tick), Instant::from_millis(9));
        assert_eq!(timers.pop_due(Instant::from_millis(8)), None);
        assert_eq!(timers.next().map(|(at, _)| at), Some(Instant::from_millis(9)));
        assert_eq!(
            timers.pop_due(Instant::from_millis(9)),
            Some(Timer::Downing(DowningTimer::Tick))
        );
        assert_eq!(timers.pop_due(Instant::MAX), None);
    }

    #[test]
    fn timers_of_one_instant_fire_in_the_order_of_the_type() {
        let mut timers = NodeTimers::default();
        timers.set(Timer::Downing(DowningTimer::Tick), Instant::ZERO);
        timers.set(Timer::Membership(MembershipTimer::Gossip), Instant::ZERO);
        assert_eq!(
            timers.pop_due(Instant::ZERO),
            Some(Timer::Membership(MembershipTimer::Gossip))
        );
        timers.cancel(&Timer::Downing(DowningTimer::Tick));
        assert_eq!(timers.at(&Timer::Downing(DowningTimer::Tick)), None);
        assert_eq!(timers.pop_due(Instant::MAX), None);
    }
}
