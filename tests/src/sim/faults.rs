//! The kinds of faults the simulator can bring about, and how often each really happened. Spec: reliability
//! 1a.

use core::fmt;
use core::str::FromStr;

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FaultKind {
    /// F-01: a process ends without a word.
    Crash,
    /// F-03: a process starts on the address of an earlier one, with a new uid.
    Restart,
    /// F-09: no frame passes between groups of nodes.
    Partition,
    /// F-15: frames get lost, each on its own.
    Loss,
    /// F-14: frames take much longer.
    Delay,
    /// F-31: a member leaves gracefully, and comes back.
    Leave,
    /// F-19: the links between two nodes break, and with them what was on the way.
    Reset,
    /// F-05: a process stands still; what arrives meanwhile waits.
    Pause,
    /// F-06: a process handles everything late.
    Slow,
    /// F-07: a wall clock jumps.
    WallClock,
    /// F-08: a monotonic clock jumps ahead, and ticks come twice.
    Tick,
    /// F-10: one direction between two nodes is cut.
    OneWay,
    /// F-11: one pair of nodes is cut, or one node is left that reaches both halves of a partition.
    Partial,
    /// F-12: a partition that comes and goes.
    Flap,
    /// F-13: links are cut one by one and opened one by one in another order.
    Clog,
    /// F-15: everything between two nodes is lost for a moment.
    Burst,
    /// F-16: heartbeats and gossip overtake each other.
    Reorder,
    /// F-17: heartbeats and gossip arrive twice, the second time much later.
    Duplicate,
    /// F-01 of all nodes at the same time: what is not on a disk is gone.
    Blackout,
    /// F-23: a disk takes up to five seconds longer for everything.
    SlowDisk,
    /// F-20: a disk has no room for a while.
    FullDisk,
    /// F-22: the next commit of a disk fails, and is there or not.
    FailedSync,
    /// F-30: a member gives a shard a second home, and one of the two does not stop it in time.
    Conflict,
    /// A user has a live member declared Down (membership 2.12).
    Down,
    /// F-31: the two oldest members of a role leave at the same time.
    LeaveTwo,
    /// The whole cluster is prepared for a shutdown, loses a member meanwhile, and ends (sharding 10.12).
    Prepare,
    /// F-32: the lease keeper is away, slow, or out of reach of some.
    LeaseKeeper,
    /// A user has a node that stays host a singleton no more, and later again.
    Retire,
    /// A user removes a member at once, whether it runs or not (membership 2.10).
    Remove,
    /// F-30: a member lies about every number that it says, until an operator has it downed.
    Liar,
}

impl FaultKind {
    /// All kinds that need no disk and no shards.
    pub const ALL: [Self; 18] = [
        Self::Crash,
        Self::Restart,
        Self::Partition,
        Self::Loss,
        Self::Delay,
        Self::Leave,
        Self::Reset,
        Self::Pause,
        Self::Slow,
        Self::WallClock,
        Self::Tick,
        Self::OneWay,
        Self::Partial,
        Self::Flap,
        Self::Clog,
        Self::Burst,
        Self::Reorder,
        Self::Duplicate,
    ];

    /// Those that matter where something is on a disk.
    pub const STORES: [Self; 4] = [Self::Blackout, Self::SlowDisk, Self::FullDisk, Self::FailedSync];

    /// Those of shards.
    pub const SHARDS: [Self; 1] = [Self::Conflict];

    /// Those that concern who acts for others.
    pub const SINGLETONS: [Self; 5] = [
        Self::Down,
        Self::LeaveTwo,
        Self::Prepare,
        Self::LeaseKeeper,
        Self::Retire,
    ];

    /// Those of an operator who does not wait for the cluster.
    pub const LAST_RESORT: [Self; 1] = [Self::Remove];

    /// Those of members that are broken, or hostile.
    pub const PEERS: [Self; 1] = [Self::Liar];

    /// Every kind there is.
    pub fn every() -> impl Iterator<Item = Self> {
        let special = Self::STORES
            .into_iter()
            .chain(Self::SHARDS)
            .chain(Self::SINGLETONS)
            .chain(Self::LAST_RESORT)
            .chain(Self::PEERS);
        Self::ALL.into_iter().chain(special)
    }

    /// Whether a seed mixes it with others. The rest follows a schedule of its own.
    #[must_use]
    pub const fn is_mixed(self) -> bool {
        !matches!(self, Self::Conflict | Self::Liar)
    }

    /// Its name on the command line and in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Crash => "crash",
            Self::Restart => "restart",
            Self::Partition => "partition",
            Self::Loss => "loss",
            Self::Delay => "delay",
            Self::Leave => "leave",
            Self::Reset => "reset",
            Self::Pause => "pause",
            Self::Slow => "slow",
            Self::WallClock => "wall-clock",
            Self::Tick => "tick",
            Self::OneWay => "one-way",
            Self::Partial => "partial",
            Self::Flap => "flap",
            Self::Clog => "clog",
            Self::Burst => "burst",
            Self::Reorder => "reorder",
            Self::Duplicate => "duplicate",
            Self::Blackout => "blackout",
            Self::SlowDisk => "slow-disk",
            Self::FullDisk => "full-disk",
            Self::FailedSync => "failed-sync",
            Self::Conflict => "conflict",
            Self::Down => "down",
            Self::LeaveTwo => "leave-two",
            Self::Prepare => "prepare",
            Self::LeaseKeeper => "lease-keeper",
            Self::Retire => "retire",
            Self::Remove => "remove",
            Self::Liar => "liar",
        }
    }

    /// Whether a run stays within the safe assumptions for all this fault does.
    #[must_use]
    pub const fn is_orderly(self) -> bool {
        match self {
            Self::Crash
            | Self::Restart
            | Self::Partition
            | Self::Loss
            | Self::Delay
            | Self::Leave
            | Self::Reset
            | Self::Slow
            | Self::WallClock
            | Self::Burst
            | Self::Reorder
            | Self::Duplicate
            | Self::SlowDisk
            | Self::FullDisk
            | Self::FailedSync
            | Self::LeaveTwo
            | Self::LeaseKeeper
            | Self::Retire
            | Self::Remove => true,
            Self::Blackout
            | Self::Pause
            | Self::Tick
            | Self::OneWay
            | Self::Partial
            | Self::Flap
            | Self::Clog
            | Self::Conflict
            | Self::Liar
            | Self::Down
            | Self::Prepare => false,
        }
    }
}

impl FromStr for FaultKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::every().find(|kind| kind.name() == text);
        found.ok_or_else(|| {
            let names: Vec<&str> = Self::every().map(Self::name).collect();
            format!("unknown fault `{text}`; there are {}", names.join(", "))
        })
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How often each kind fired.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultCounts(
    [u64; FaultKind::ALL.len()
        + FaultKind::STORES.len()
        + FaultKind::SHARDS.len()
        + FaultKind::SINGLETONS.len()
        + FaultKind::LAST_RESORT.len()
        + FaultKind::PEERS.len()],
);

impl FaultCounts {
    /// Counts one.
    pub fn add(&mut self, kind: FaultKind) {
        self.0[kind as usize] += 1;
    }

    /// How often this kind fired.
    #[must_use]
    pub const fn of(&self, kind: FaultKind) -> u64 {
        self.0[kind as usize]
    }

    /// How many faults fired.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Adds the counts of another run.
    pub fn absorb(&mut self, other: &Self) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine += theirs;
        }
    }
}
