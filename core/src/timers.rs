//! The one timer table: which timer is due when. The host keeps a single deadline. Decides nothing else.

use alloc::collections::{BTreeMap, BTreeSet};

use crate::ident::{Address, UniqueAddress};
use crate::sharding::ids::{KindId, ShardId};
use crate::time::Instant;

/// Everything that can be waited for. Setting a timer again moves it. Timers due at one instant fire in the order of
/// this type, which makes a step deterministic.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// Membership's periodic and one-off tasks.
    Membership(MembershipTimer),
    /// The failure detector's.
    Detector(DetectorTimer),
    /// The downing machine's stability tick.
    Downing,
    /// The earliest deadline of an open ask.
    AskDeadline,
    /// A kind's region.
    Region(KindId, RegionTimer),
    /// A kind's coordinator.
    Coordinator(KindId, CoordinatorTimer),
}

/// Timers of the membership machine.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MembershipTimer {
    /// A gossip round.
    Gossip,
    /// The first extra round of a sped-up interval.
    GossipExtraFirst,
    /// The second extra round of a sped-up interval.
    GossipExtraSecond,
    /// Leader actions.
    LeaderActions,
    /// The join target did not answer with a Welcome.
    JoinRetry,
    /// The seed process asks again.
    SeedRetry,
    /// The first seed gives up waiting for the others and forms the cluster.
    SeedSelfJoin,
    /// The join process as a whole takes too long; give up.
    JoinAbort,
    /// The local work was not handed over in time; go on anyway.
    ExitDrain,
    /// The leader did not move this leaving node on in time; go anyway.
    ExitLeaving,
    /// Links of a gracefully removed incarnation are refused from now on.
    Quarantine(UniqueAddress),
}

/// Timers of the failure detector.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DetectorTimer {
    /// Send heartbeats.
    Heartbeat,
    /// Look for silent and recovered members.
    Reaper,
    /// A receiver that never answered is taken to have started its silence.
    FirstHeartbeat(Address),
}

/// Timers of a shard region.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RegionTimer {
    /// Register again, or ask again for the homes of buffered shards.
    Retry,
    /// More buffered messages are waiting to be flushed than one step may send.
    Flush,
    /// The entities of a shard that hands off did not stop in time.
    ShardStop(ShardId),
    /// The region has not handed everything over in time; what is left is stopped now.
    Drain,
}

/// Timers of a shard coordinator.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CoordinatorTimer {
    /// The removal margin after the last older member's removal has passed.
    Takeover,
    /// Ask the members that have not registered yet once more.
    Recovery,
    /// More shards wait for a home than one step may allocate.
    Allocate,
    /// Look at the balance.
    Rebalance,
    /// A region did not say that it started a shard.
    ShardStart(ShardId),
    /// A hand-off took too long.
    HandOff(ShardId),
    /// The removal margin of a lost region has passed; its shards may be allocated again.
    RegionLost(UniqueAddress),
}

/// Deadlines by timer and by time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Timers {
    by_timer: BTreeMap<Timer, Instant>,
    by_time: BTreeSet<(Instant, Timer)>,
}

impl Timers {
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

    /// Forgets a timer; nothing happens if it is not set.
    pub(crate) fn cancel(&mut self, timer: &Timer) {
        if let Some(old) = self.by_timer.remove(timer) {
            self.by_time.remove(&(old, timer.clone()));
        }
    }

    /// Whether the timer is set.
    pub(crate) fn is_set(&self, timer: &Timer) -> bool {
        self.by_timer.contains_key(timer)
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

    #[test]
    fn a_timer_set_again_moves_and_fires_once() {
        let mut timers = Timers::default();
        timers.set(Timer::Downing, Instant::from_millis(5));
        timers.set(Timer::Downing, Instant::from_millis(9));
        assert_eq!(timers.pop_due(Instant::from_millis(8)), None);
        assert_eq!(timers.next().map(|(at, _)| at), Some(Instant::from_millis(9)));
        assert_eq!(timers.pop_due(Instant::from_millis(9)), Some(Timer::Downing));
        assert_eq!(timers.pop_due(Instant::MAX), None);
    }

    #[test]
    fn timers_of_one_instant_fire_in_the_order_of_the_type() {
        let mut timers = Timers::default();
        timers.set(Timer::Downing, Instant::ZERO);
        timers.set(Timer::Membership(MembershipTimer::Gossip), Instant::ZERO);
        assert_eq!(
            timers.pop_due(Instant::ZERO),
            Some(Timer::Membership(MembershipTimer::Gossip))
        );
        timers.cancel(&Timer::Downing);
        assert!(!timers.is_set(&Timer::Downing));
        assert_eq!(timers.pop_due(Instant::MAX), None);
    }
}
