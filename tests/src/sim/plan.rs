//! A random run from a seed: which faults, how often, and when. Every seed draws its own mix (swarm), many of
//! them with some faults turned off. Only the draw; the director brings it about. Spec: reliability 1c.

use super::chance::{Chance, Purpose};
use super::faults::FaultKind;
use super::keyed;

/// Microseconds of a second.
pub(super) const SECOND: u64 = 1_000_000;
/// What a run looks at, with the timings that suit it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Profile {
    /// Everything, entities and their messages included: two minutes, the first 80 seconds with faults.
    #[default]
    Sharding,
    /// Membership alone: a minute (600 gossip rounds), the first 40 seconds with faults, and tombstones that
    /// expire within the run, though later than any partition lasts.
    Membership,
    /// Replicated data on every node, a part of it durable: the first 20 seconds with faults, and half a
    /// minute in which everything becomes equal and what removed nodes did is taken over.
    Data,
    /// Entities whose coordinator's state is stored, as one value or as events by the seed's parity: a
    /// minute, the first 40 seconds with faults, those of stores and the death of all nodes at once among
    /// them.
    Stored,
    /// Singletons of two roles, half of them with a lease, whose instances write to a database through their
    /// tokens: 40 seconds with faults, and a quiet rest in which each runs again and answers everybody.
    Singleton,
    /// Entities that are remembered, in durable replicated data or in logs: they crash and are passivated,
    /// disks fail, all nodes stop at once; the first 40 seconds with faults. At rest each that was handed a
    /// message and was not forgotten runs, once.
    Remember,
    /// Entities that go through everything: they are passivated by a strategy of the seed's own, panic, fail,
    /// stop, are slow, answer late, are moved, watched and, in a quarter of the seeds each, remembered, and
    /// of shards with leases; in a fifth the queues of links hold few messages to them. The first 40 seconds
    /// with faults.
    Life,
    /// Durable entities that keep what they did in a database that is slow, full, away or unsure of what it
    /// did, want to be reminded, panic and are passivated; the first 30 seconds with faults. At rest each
    /// answers, and each log has what was acknowledged.
    Durable,
    /// Paths of every preset on three to seven nodes, whose slots are moved and whose settings are changed
    /// all the time: 40 seconds with faults. At rest each has as many instances as it should, and they answer
    /// everybody.
    Paths,
    /// Buckets of the keyed store, which everybody calls and whose ranges are moved all the time: 40 seconds
    /// with faults. At rest each node finds what was acknowledged.
    Kv,
}

impl Profile {
    /// In what unit a wall clock jumps, in milliseconds. Stamps of the far future are refused for ever, and
    /// markers go by the wall clock.
    pub(crate) const fn wall_clock_unit(self) -> u64 {
        match self {
            Self::Sharding | Self::Membership | Self::Stored | Self::Singleton | Self::Paths => {
                3_600_000 * 1_000
            }
            Self::Data | Self::Remember | Self::Life => 1_000,
            Self::Durable | Self::Kv => 20,
        }
    }

    /// How far a clock jumps at most. Where tombstones expire within the run, it must not make them expire
    /// before old frames have come.
    pub(crate) const fn longest_jump(self) -> u64 {
        match self {
            Self::Sharding | Self::Stored | Self::Singleton | Self::Paths => 60 * SECOND,
            Self::Membership | Self::Data | Self::Remember | Self::Life | Self::Durable | Self::Kv => {
                3 * SECOND
            }
        }
    }

    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Sharding,
        Self::Membership,
        Self::Data,
        Self::Stored,
        Self::Singleton,
        Self::Remember,
        Self::Life,
        Self::Durable,
        Self::Paths,
        Self::Kv,
    ];

    /// Its name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sharding => "sharding",
            Self::Membership => "membership",
            Self::Data => "data",
            Self::Stored => "stored",
            Self::Singleton => "singleton",
            Self::Remember => "remember",
            Self::Life => "life",
            Self::Durable => "durable",
            Self::Paths => "paths",
            Self::Kv => "kv",
        }
    }

    /// How many nodes the seeds of the mixed campaign have, see [`Plan::of_seed`].
    #[must_use]
    pub const fn mixed_nodes_text(self) -> &'static str {
        match self {
            Self::Data | Self::Durable => "2 to 6",
            Self::Singleton => "2 to 7",
            Self::Paths | Self::Kv => "3 to 7",
            Self::Sharding | Self::Membership | Self::Stored | Self::Remember | Self::Life => "5 to 9",
        }
    }

    /// The kinds of faults that an ordinary campaign has.
    #[must_use]
    pub fn faults(self) -> Vec<FaultKind> {
        match self {
            Self::Sharding | Self::Life => FaultKind::ALL.to_vec(),
            Self::Paths => FaultKind::ALL
                .into_iter()
                .chain([FaultKind::Down, FaultKind::LeaveTwo])
                .collect(),
            Self::Membership => FaultKind::ALL.into_iter().chain(FaultKind::LAST_RESORT).collect(),
            Self::Data | Self::Stored | Self::Remember | Self::Durable | Self::Kv => {
                FaultKind::ALL.into_iter().chain(FaultKind::STORES).collect()
            }
            Self::Singleton => {
                let special = FaultKind::STORES.into_iter().chain(FaultKind::SINGLETONS);
                let special = special.chain(FaultKind::LAST_RESORT);
                FaultKind::ALL.into_iter().chain(special).collect()
            }
        }
    }
}

/// What a run is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// What it looks at.
    pub profile: Profile,
    /// Nodes at the start.
    pub nodes: usize,
    /// Whether every seed has a number of nodes of its own instead, see [`Plan::mixed_nodes`].
    pub mixed: bool,
    /// The kinds of faults that may happen.
    pub faults: Vec<FaultKind>,
    /// How long faults happen.
    pub chaos_seconds: u64,
    /// How long the run lasts at least.
    pub total_seconds: u64,
}

impl Plan {
    /// The ordinary run: two minutes, the first 80 seconds with faults.
    #[must_use]
    pub fn new(nodes: usize, faults: &[FaultKind]) -> Self {
        Self::of(Profile::Sharding, nodes, faults)
    }

    /// The ordinary run of a profile.
    #[must_use]
    pub fn of(profile: Profile, nodes: usize, faults: &[FaultKind]) -> Self {
        let (chaos_seconds, total_seconds) = match profile {
            Profile::Sharding => (80, 120),
            Profile::Membership => (40, 60),
            Profile::Data => (20, 26),
            Profile::Stored | Profile::Life => (40, 60),
            Profile::Paths => (40, 52),
            Profile::Kv => (30, 42),
            Profile::Singleton | Profile::Remember => (40, 50),
            Profile::Durable => (30, 40),
        };
        Self {
            profile,
            nodes,
            mixed: false,
            faults: faults.to_vec(),
            chaos_seconds,
            total_seconds,
        }
    }

    /// How many nodes a seed has in the mixed campaign: 60 % have 5, 30 % have 6 or 7, 10 % have 8 or 9.
    #[must_use]
    pub const fn mixed_nodes(seed: u64) -> usize {
        match seed % 20 {
            0..12 => 5,
            12..15 => 6,
            15..18 => 7,
            18 => 8,
            _ => 9,
        }
    }

    /// The run of one seed.
    #[must_use]
    pub fn of_seed(&self, seed: u64) -> Self {
        let nodes = match (self.mixed, self.profile) {
            (false, _) => self.nodes,
            // Two to six: majorities of every kind.
            (true, Profile::Data | Profile::Durable) => [3, 5, 4, 3, 5, 2, 6][(seed % 7) as usize],
            (true, Profile::Paths | Profile::Kv) => [4, 3, 5, 4, 6, 3, 7][(seed % 7) as usize],
            // Two to seven: roles of one member up to five.
            (true, Profile::Singleton) => [5, 3, 4, 5, 6, 2, 7][(seed % 7) as usize],
            (
                true,
                Profile::Sharding | Profile::Membership | Profile::Stored | Profile::Remember | Profile::Life,
            ) => Self::mixed_nodes(seed),
        };
        Self {
            nodes,
            mixed: false,
            ..self.clone()
        }
    }
}

/// What a run with singletons mixes besides.
const SINGLETONS_AND_STORES: [FaultKind; 9] = {
    let [a, b, c, d, e] = FaultKind::SINGLETONS;
    let [f, g, h, i] = FaultKind::STORES;
    [a, b, c, d, e, f, g, h, i]
};

/// How one seed mixes the faults.
#[derive(Clone, Debug)]
pub(super) struct Mix {
    pub(super) kinds: Vec<FaultKind>,
    /// Only shapes in which single ownership must hold: partitions of a settled cluster, alone.
    pub(super) orderly: bool,
    /// Mean time between two faults, in microseconds.
    pub(super) pause: u64,
    /// Messages of the workload per second.
    pub(super) messages_per_second: u64,
    /// Time after which a supervisor restarts what has ended, in microseconds.
    pub(super) restart_after: (u64, u64),
}

impl Mix {
    pub(super) fn draw(seed: u64, chance: &mut Chance, plan: &Plan) -> Self {
        // Every number is drawn, whatever is allowed, so that two fault lists differ only in what they leave
        // out.
        let mut kinds: Vec<FaultKind> = Vec::new();
        for kind in FaultKind::ALL {
            let wanted = chance.per_mille(550);
            if wanted && plan.faults.contains(&kind) {
                kinds.push(kind);
            }
        }
        let mixed: Vec<FaultKind> = plan
            .faults
            .iter()
            .copied()
            .filter(|kind| kind.is_mixed())
            .collect();
        let fallback = chance.index(mixed.len());
        let orderly = chance.per_mille(500);
        if orderly {
            kinds.retain(|kind| kind.is_orderly());
        }
        if kinds.is_empty() {
            kinds.extend(mixed.get(fallback).copied());
        }
        let mut mix = Self {
            kinds,
            orderly,
            pause: chance.between(2 * SECOND, 9 * SECOND),
            messages_per_second: chance.between(5, 40),
            restart_after: (SECOND / 5, chance.between(SECOND, 8 * SECOND)),
        };
        // Drawn last, so that the seeds of the other profiles stay what they are.
        let (shorter, special): (u64, &[FaultKind]) = match plan.profile {
            Profile::Data => (4, &FaultKind::STORES),
            Profile::Stored | Profile::Durable | Profile::Kv => (2, &FaultKind::STORES),
            Profile::Remember => (1, &FaultKind::STORES),
            Profile::Singleton => (2, &SINGLETONS_AND_STORES),
            Profile::Life => (2, &[]),
            Profile::Paths => (2, &[FaultKind::Down, FaultKind::LeaveTwo]),
            Profile::Sharding | Profile::Membership => (1, &[]),
        };
        mix.pause /= shorter;
        for kind in special {
            let wanted = chance.per_mille(550) && plan.faults.contains(kind);
            if wanted && (kind.is_orderly() || !orderly) {
                mix.kinds.push(*kind);
            }
        }
        if plan.profile == Profile::Kv && keyed::is_away_for_long(seed) {
            mix.restart_after = (20 * SECOND, 26 * SECOND);
        }
        // From a stream of its own, so that seeds without it stay what they are.
        let mut last_resort = Chance::new(seed, Purpose::LastResort);
        for kind in FaultKind::LAST_RESORT {
            let wanted = last_resort.per_mille(550) && plan.faults.contains(&kind);
            if wanted && (kind.is_orderly() || !orderly) {
                mix.kinds.push(kind);
            }
        }
        mix
    }
}
