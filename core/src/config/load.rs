//! Settings of load: how often it is told, to whom, and how it is smoothed; and their check. Spec: sharding
//! 5.5.

use core::time::Duration;

use super::ConfigError;
use super::ranges::{positive, within};

/// Most neighbours on either side for which a member may be asked.
pub const NEIGHBORS_MAX: usize = 8;

/// Settings of load.
#[derive(Clone, Debug)]
pub struct LoadConfig {
    /// How often a host measures the load of its process, and how long a round is, in which it is told to
    /// others or asked for (default 3 s, > 0). Mirrors `metrics.collector.sample-interval` and
    /// `gossip-interval`.
    pub interval: Duration,
    /// After how long a measure counts half (default 12 s, > 0). Mirrors
    /// `metrics.collector.moving-average-half-life`.
    pub half_life: Duration,
    /// How nodes hear of each other's load (default `Auto`). `Direct`: each tells all others in each round,
    /// in at most 64 bytes. `Chord`: leaders and coordinators ask some members in each round, whatever the
    /// size of the cluster. `Auto`: the first up to `load.direct_members_max`, the second above. `Off`: they
    /// do not.
    pub spread: LoadSpread,
    /// Whether slots of paths and shards move by load (default true): one at a time, after three rounds that
    /// agree. The leader's counts, and the coordinator's of a kind.
    pub moves: bool,
    /// Which capacity of a node counts for that (default `Mix`): of processor time, of memory, of the
    /// machine, or the mean of those that are measured. Mirrors `metrics-selector`.
    pub selector: CapacitySelector,
    /// Up to how many members of a data center each tells all others (default 100, 2 to 10,000).
    pub direct_members_max: usize,
    /// How many members are asked in a round (default 5, 1 to 64).
    pub chord_contacts: usize,
    /// For how many neighbours on either side each of them answers (default 2, 0 to 8).
    pub chord_neighbors: usize,
    /// How long is waited for answers (default 1 s, > 0). Those who are asked wait for their neighbours half
    /// as long.
    pub chord_timeout: Duration,
}

/// Which capacity of a node counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum CapacitySelector {
    /// Of processor time.
    Cpu,
    /// Of memory.
    Heap,
    /// Of the machine, by its load.
    Load,
    /// The mean of those that there are.
    #[default]
    Mix,
}

/// How nodes hear of each other's load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LoadSpread {
    /// Not at all.
    Off,
    /// Each tells all others.
    Direct,
    /// Leaders and coordinators ask some of them.
    Chord,
    /// By the size of the cluster.
    #[default]
    Auto,
}

impl Default for LoadConfig {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(3),
            half_life: Duration::from_secs(12),
            spread: LoadSpread::default(),
            moves: true,
            selector: CapacitySelector::Mix,
            direct_members_max: 100,
            chord_contacts: 5,
            chord_neighbors: 2,
            chord_timeout: Duration::from_secs(1),
        }
    }
}

impl LoadConfig {
    /// Timings for one machine; see [`super::Config::fast`].
    pub(super) fn fast() -> Self {
        Self {
            interval: Duration::from_millis(300),
            half_life: Duration::from_millis(1_200),
            chord_timeout: Duration::from_millis(100),
            ..Self::default()
        }
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        positive("load.interval", self.interval)?;
        positive("load.half_life", self.half_life)?;
        positive("load.chord_timeout", self.chord_timeout)?;
        within(
            "load.direct_members_max",
            self.direct_members_max,
            (2, 10_000),
            "2 to 10000",
        )?;
        within("load.chord_contacts", self.chord_contacts, (1, 64), "1 to 64")?;
        within(
            "load.chord_neighbors",
            self.chord_neighbors,
            (0, NEIGHBORS_MAX),
            "0 to 8",
        )
    }
}
