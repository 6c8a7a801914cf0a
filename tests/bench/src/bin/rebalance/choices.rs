//! What the strategies choose alone: virtual time, and nothing is handed off. A round is one look at the
//! balance, and all of what it chooses has moved before the next one.

use std::time::Instant;

use quorate_core::ident::{Address, UniqueAddress};
use quorate_core::membership::app_version::AppVersion;
use quorate_core::membership::member::Status;
use quorate_core::ordered::{OrderedMap, OrderedSet};
use quorate_core::sharding::allocation::{AllocationSettings, DesiredHomes, RegionLoad, RegionRing};
use quorate_core::sharding::ids::ShardId;

use super::{INTERVAL, strategies};

/// Nodes that have all shards, and nodes in the end.
const GROWS: [(usize, usize); 4] = [(1, 3), (9, 10), (50, 100), (999, 1_000)];

/// Rounds after which a strategy does not come to rest.
const ROUNDS_MAX: usize = 100_000;

pub(super) fn measure(shards: u32) -> String {
    let mut rows = Vec::new();
    println!(
        "{shards} shards; virtual time at one round in {} s",
        INTERVAL.as_secs()
    );
    println!(
        "nodes        | strategy                   | rounds | moved  | virtual time | most, least | CPU per round"
    );
    for (from, to) in GROWS {
        for (name, strategy) in &strategies() {
            let mut cluster = Placed::new(from, to, shards, strategy);
            let started = Instant::now();
            let (rounds, moved) = cluster.rebalance(strategy);
            let cpu = started.elapsed();
            let counts = cluster.regions.values().map(Vec::len);
            let (most, least) = (counts.clone().max().unwrap_or(0), counts.min().unwrap_or(0));
            let each = cpu.as_secs_f64() * 1e6 / rounds.max(1) as f64;
            let time = INTERVAL.as_secs() * rounds as u64;
            println!(
                "{from:>4} to {to:<4} | {name:<26} | {rounds:>6} | {moved:>6} | {time:>10} s | {most:>4}, {least:>4}  | {each:>9.0} us"
            );
            rows.push(format!(
                "{{\"from\":{from},\"to\":{to},\"strategy\":\"{name}\",\"rounds\":{rounds},\"moved\":{moved},\
                 \"most\":{most},\"least\":{least},\"us_per_round\":{each:.1}}}"
            ));
        }
    }
    format!("\"choices\":[{}]", rows.join(","))
}

/// Which node has which shards, in the order in which it got them.
struct Placed {
    regions: OrderedMap<UniqueAddress, Vec<ShardId>>,
    version: AppVersion,
    ring: RegionRing,
}

impl Placed {
    /// All shards were allocated when there were `from` nodes; now there are `to`.
    fn new(from: usize, to: usize, shards: u32, strategy: &AllocationSettings) -> Self {
        let mut placed = Self {
            regions: OrderedMap::new(),
            version: AppVersion::default(),
            ring: RegionRing::default(),
        };
        placed.grow(0..from);
        for shard in 0..shards {
            placed.place(ShardId(shard), strategy);
        }
        placed.grow(from..to);
        placed
    }

    fn grow(&mut self, nodes: std::ops::Range<usize>) {
        for at in nodes {
            if let Ok(address) = Address::new(&format!("node-{at:04}"), 7355) {
                let node = UniqueAddress::new(address, at as u64 + 1);
                self.regions.insert(node, Vec::new());
            }
        }
    }

    fn loads(&self) -> Vec<RegionLoad<'_>> {
        let load = |(node, shards)| RegionLoad {
            node,
            status: Status::Up,
            app_version: self.version.clone(),
            shards,
        };
        self.regions
            .iter()
            .map(|(node, shards)| load((node, shards.as_slice())))
            .collect()
    }

    fn place(&mut self, shard: ShardId, strategy: &AllocationSettings) {
        let mut ring = std::mem::take(&mut self.ring);
        let loads = self.loads();
        let chosen = strategy.allocate(&mut ring, None, shard, &loads, &DesiredHomes::new());
        let node = chosen.and_then(|at| loads.get(at)).map(|load| load.node.clone());
        self.ring = ring;
        if let Some(shards) = node.and_then(|node| self.regions.get_mut(&node)) {
            shards.push(shard);
        }
    }

    /// Rounds until nothing moves any more, and how many shards moved. Every move is done before the next
    /// round.
    fn rebalance(&mut self, strategy: &AllocationSettings) -> (usize, usize) {
        let (mut rounds, mut moved) = (0, 0);
        while rounds < ROUNDS_MAX {
            let mut ring = std::mem::take(&mut self.ring);
            let moving: OrderedSet<ShardId> = strategy
                .rebalance(&mut ring, &self.loads(), &OrderedSet::new(), &DesiredHomes::new())
                .into_iter()
                .collect();
            self.ring = ring;
            if moving.is_empty() {
                break;
            }
            rounds += 1;
            moved += moving.len();
            for shards in self.regions.values_mut() {
                shards.retain(|shard| !moving.contains(shard));
            }
            for shard in moving {
                self.place(shard, strategy);
            }
        }
        (rounds, moved)
    }
}
