//! What a node waits for: one arm per machine.

pub use crate::ddata::protocol::Timer as DdataTimer;
pub use crate::detector::protocol::Timer as DetectorTimer;
pub use crate::downing::protocol::Timer as DowningTimer;
pub use crate::journal::protocol::Timer as JournalTimer;
pub use crate::kv::protocol::Timer as KvTimer;
pub use crate::load::protocol::Timer as LoadTimer;
pub use crate::membership::protocol::Timer as MembershipTimer;
pub use crate::oldest::protocol::Timer as OldestTimer;
pub use crate::paths::protocol::Timer as PathTimer;
pub use crate::sharding::protocol::{CoordinatorTimer, RegionTimer, Timer as ShardingTimer};
pub use crate::singleton::protocol::Timer as SingletonTimer;

/// Everything that can be waited for. Setting a timer again moves it. Timers due at one instant fire in the
/// order of this type, which makes a step deterministic.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// Membership's periodic and one-off tasks.
    Membership(MembershipTimer),
    /// The failure detector's.
    Detector(DetectorTimer),
    /// The downing machine's stability tick.
    Downing(DowningTimer),
    /// The room of age's.
    Oldest(OldestTimer),
    /// Deadlines of asks, and what regions and coordinators wait for.
    Sharding(ShardingTimer),
    /// The replicator's.
    Ddata(DdataTimer),
    /// Those of managers and proxies of singletons.
    Singleton(SingletonTimer),
    /// Those of voters and owners of quorum logs.
    Journal(JournalTimer),
    /// Rounds of load, and answers that are due.
    Load(LoadTimer),
    /// Those of paths.
    Path(PathTimer),
    /// Those of the keyed store.
    Kv(KvTimer),
}

impl From<DdataTimer> for Timer {
    fn from(timer: DdataTimer) -> Self {
        Self::Ddata(timer)
    }
}

impl From<SingletonTimer> for Timer {
    fn from(timer: SingletonTimer) -> Self {
        Self::Singleton(timer)
    }
}

impl From<JournalTimer> for Timer {
    fn from(timer: JournalTimer) -> Self {
        Self::Journal(timer)
    }
}

impl From<LoadTimer> for Timer {
    fn from(timer: LoadTimer) -> Self {
        Self::Load(timer)
    }
}

impl From<PathTimer> for Timer {
    fn from(timer: PathTimer) -> Self {
        Self::Path(timer)
    }
}

impl From<KvTimer> for Timer {
    fn from(timer: KvTimer) -> Self {
        Self::Kv(timer)
    }
}

impl From<MembershipTimer> for Timer {
    fn from(timer: MembershipTimer) -> Self {
        Self::Membership(timer)
    }
}

impl From<DetectorTimer> for Timer {
    fn from(timer: DetectorTimer) -> Self {
        Self::Detector(timer)
    }
}

impl From<DowningTimer> for Timer {
    fn from(timer: DowningTimer) -> Self {
        Self::Downing(timer)
    }
}

impl From<OldestTimer> for Timer {
    fn from(timer: OldestTimer) -> Self {
        Self::Oldest(timer)
    }
}

impl From<ShardingTimer> for Timer {
    fn from(timer: ShardingTimer) -> Self {
        Self::Sharding(timer)
    }
}
