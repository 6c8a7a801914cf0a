//! Chance by purpose: one stream of random numbers for each thing that is left to chance, all from one seed,
//! so that turning one of them off does not shift the others. Spec: reliability 1c.

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};

/// What a stream of random numbers is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Latency and loss.
    Network,
    /// What goes wrong, and when.
    Faults,
    /// Who asks whom.
    Workload,
    /// How long entities take.
    Entities,
    /// Uids, clock origins and start-up order.
    Processes,
    /// How long disks take, and what a crash leaves on them.
    Stores,
    /// Which shard gets a second home, and when.
    Conflicts,
    /// How instances of singletons behave, and how long the database takes that they write to.
    Singletons,
    /// Which entities leave memory, and when.
    Passivation,
    /// Whether members are removed by hand among the faults of a seed.
    LastResort,
    /// Which remembered entities crash, and which ask to be forgotten.
    Remembered,
    /// What entities go through in the profile `life`.
    Lives,
    /// Who watches what, and for how long.
    Watches,
    /// Which seeds have a lease per shard, and what happens to it.
    ShardLeases,
    /// Which seeds have queues of links that fill up.
    Queues,
    /// Who lies, when, to whom and about what.
    Lies,
    /// What durable entities are like, and what they are asked for.
    Durables,
    /// How long their database takes, and what is wrong with it.
    Database,
    /// What a producer is given, and when somebody sees to daemons.
    Deliveries,
    /// How instances of paths behave.
    Paths,
    /// What is commanded of paths.
    PathCommands,
    /// How busy nodes are.
    Load,
    /// Which ranges of the keyed store are moved.
    Keyed,
    /// Who takes a log in a bucket over, and writes it.
    Logs,
    /// The node of this process (its position in the list of all processes ever started).
    Node(u32),
}

impl Purpose {
    const fn stream(self) -> u64 {
        match self {
            Self::Network => 1,
            Self::Faults => 2,
            Self::Workload => 3,
            Self::Entities => 4,
            Self::Processes => 5,
            Self::Stores => 6,
            Self::Conflicts => 7,
            Self::Singletons => 8,
            Self::Passivation => 9,
            Self::LastResort => 10,
            Self::Remembered => 11,
            Self::Lives => 12,
            Self::Watches => 13,
            Self::ShardLeases => 14,
            Self::Queues => 15,
            Self::Lies => 16,
            Self::Durables => 17,
            Self::Database => 18,
            Self::Deliveries => 19,
            Self::Paths => 20,
            Self::PathCommands => 21,
            Self::Load => 22,
            Self::Keyed => 23,
            Self::Logs => 24,
            Self::Node(process) => 1_000 + process as u64,
        }
    }

    /// The stream for this purpose under a seed.
    #[must_use]
    pub fn rng(self, seed: u64) -> ChaCha8Rng {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(self.stream());
        rng
    }
}

/// One stream with the draws that the simulator needs.
#[derive(Clone, Debug)]
pub struct Chance(ChaCha8Rng);

impl Chance {
    /// The stream for a purpose under a seed.
    #[must_use]
    pub fn new(seed: u64, purpose: Purpose) -> Self {
        Self(purpose.rng(seed))
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number below `bound`; 0 if `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        let wide = u128::from(self.number()) * u128::from(bound);
        u64::try_from(wide >> 64).unwrap_or(0)
    }

    /// A position in a list of this length; 0 if it is empty.
    pub fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).unwrap_or(0)
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low) + 1)
    }

    /// True `per_mille` times in a thousand. Always draws once.
    pub fn per_mille(&mut self, per_mille: u64) -> bool {
        self.below(1_000) < per_mille
    }

    /// Shuffles a list.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for at in (1..items.len()).rev() {
            let other = self.index(at + 1);
            items.swap(at, other);
        }
    }

    /// All nodes in two groups, or in three, or each on its own.
    pub(super) fn groups(&mut self, nodes: usize) -> Vec<Vec<usize>> {
        let mut order: Vec<usize> = (0..nodes).collect();
        self.shuffle(&mut order);
        let shape = self.below(10);
        let first = 1 + self.index(nodes.saturating_sub(1));
        let second = self.index(nodes);
        let mut groups = match shape {
            0 => order.iter().map(|index| vec![*index]).collect(),
            1 | 2 => {
                let (low, high) = (first.min(second), first.max(second));
                let parts = [&order[..low], &order[low..high], &order[high..]];
                parts.iter().map(|part| part.to_vec()).collect()
            }
            _ => vec![order[..first].to_vec(), order[first..].to_vec()],
        };
        groups.retain(|group: &Vec<usize>| !group.is_empty());
        groups
    }
}
