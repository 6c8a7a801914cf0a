//! Keys `allocation_new` and `allocation_old`: which region gets a shard, and which shards move. Spec:
//! sharding 1.7.

use quorate_core::ident::UniqueAddress;
use quorate_core::membership::app_version::AppVersion;
use quorate_core::membership::member::Status;
use quorate_core::ordered::OrderedSet;
use quorate_core::sharding::allocation::{
    AllocationSettings, DesiredHomes, Neighbour, RebalanceLimits, RegionLoad, RegionRing, SimultaneousLimits,
    by_suitability, is_good_time,
};
use quorate_core::sharding::ids::ShardId;

use super::json::{Differences, IllFormed, Node, compare};

/// Rounds after which a case is given up: a strategy that has not come to rest by then never will.
const ROUNDS_MAX: usize = 10_000;

struct Region {
    node: UniqueAddress,
    status: Status,
    app_version: AppVersion,
    is_reachable: bool,
    shards: Vec<ShardId>,
}

impl Region {
    fn load(&self) -> RegionLoad<'_> {
        RegionLoad {
            node: &self.node,
            status: self.status,
            app_version: self.app_version.clone(),
            shards: &self.shards,
        }
    }
}

struct Case {
    regions: Vec<Region>,
    others: Vec<Neighbour>,
    strategy: AllocationSettings,
}

pub(super) fn least_shards(case: Node<'_>) -> Result<Differences, IllFormed> {
    let strategy = AllocationSettings::LeastShards(RebalanceLimits {
        absolute: count(&case.get("absolute_limit")?)?,
        relative: case.get("relative_limit")?.float()?,
    });
    run(&case, strategy)
}

pub(super) fn one_by_one(case: Node<'_>) -> Result<Differences, IllFormed> {
    let strategy = AllocationSettings::LeastShardsOneByOne(SimultaneousLimits {
        threshold: count(&case.get("threshold")?)?,
        simultaneous: count(&case.get("max_simultaneous")?)?,
    });
    run(&case, strategy)
}

fn run(node: &Node<'_>, strategy: AllocationSettings) -> Result<Differences, IllFormed> {
    strategy.check().map_err(|error| node.refuse(error.to_string()))?;
    let mut case = Case {
        regions: regions(&node.get("regions")?)?,
        others: others(&node.get("others")?)?,
        strategy,
    };
    let in_progress: OrderedSet<ShardId> = node
        .get("in_progress")?
        .items()?
        .iter()
        .map(shard)
        .collect::<Result<_, _>>()?;
    let mut out = Differences::new();
    let order: Vec<String> = by_suitability(&case.loads())
        .iter()
        .map(|region| host(region.node))
        .collect();
    compare(&mut out, "order", &texts(&node.expected("order")?)?, &order);
    let expected = node.expected_or_null("allocate")?;
    let expected = expected
        .non_null()
        .map(Node::text)
        .transpose()?
        .map(str::to_owned);
    compare(
        &mut out,
        "allocate",
        &expected,
        &case.allocate(ShardId(0)).map(|at| host(&case.regions[at].node)),
    );
    let is_good = case.is_good_time();
    compare(
        &mut out,
        "good_time",
        &node.expected("good_time")?.flag()?,
        &is_good,
    );
    if let Some(expected) = node.expected_or_null("rebalance")?.non_null() {
        compare(
            &mut out,
            "rebalance",
            &sorted(expected)?,
            &case.rebalance(&in_progress),
        );
    }
    if let Some(expected) = node.expected_or_null("rounds")?.non_null() {
        compare_rounds(&mut out, expected, &mut case)?;
    }
    Ok(out)
}

/// Rounds until nothing moves any more.
fn compare_rounds(out: &mut Differences, expected: &Node<'_>, case: &mut Case) -> Result<(), IllFormed> {
    let mut wanted = Vec::new();
    for round in expected.items()? {
        let [moved, sizes] = round.tuple()?;
        let sizes = sizes.items()?.iter().map(count).collect::<Result<Vec<_>, _>>()?;
        wanted.push((sorted(&moved)?, sizes));
    }
    let mut found = Vec::new();
    while found.len() < ROUNDS_MAX {
        let moved = case.rebalance(&OrderedSet::new());
        if moved.is_empty() {
            break;
        }
        case.move_all(&moved);
        let sizes: Vec<usize> = case.regions.iter().map(|region| region.shards.len()).collect();
        found.push((moved, sizes));
    }
    compare(out, "rounds", &wanted.len(), &found.len());
    for (at, (wanted, found)) in wanted.iter().zip(&found).enumerate() {
        compare(out, &format!("round {at}"), wanted, found);
    }
    Ok(())
}

impl Case {
    fn loads(&self) -> Vec<RegionLoad<'_>> {
        self.regions.iter().map(Region::load).collect()
    }

    fn is_good_time(&self) -> bool {
        let hosting = self.regions.iter().map(|region| Neighbour {
            status: region.status,
            is_reachable: region.is_reachable,
        });
        is_good_time(&self.loads(), hosting.chain(self.others.iter().copied()))
    }

    fn allocate(&self, shard: ShardId) -> Option<usize> {
        self.strategy.allocate(
            &mut RegionRing::default(),
            None,
            shard,
            &self.loads(),
            &DesiredHomes::new(),
        )
    }

    /// Sorted; nothing while it is no good time.
    fn rebalance(&self, in_progress: &OrderedSet<ShardId>) -> Vec<ShardId> {
        if !self.is_good_time() {
            return Vec::new();
        }
        let mut moved = self.strategy.rebalance(
            &mut RegionRing::default(),
            &self.loads(),
            in_progress,
            &DesiredHomes::new(),
        );
        moved.sort_unstable();
        moved
    }

    fn move_all(&mut self, moved: &[ShardId]) {
        for region in &mut self.regions {
            region.shards.retain(|shard| !moved.contains(shard));
        }
        for shard in moved {
            if let Some(at) = self.allocate(*shard) {
                self.regions[at].shards.push(*shard);
            }
        }
    }
}

fn regions(list: &Node<'_>) -> Result<Vec<Region>, IllFormed> {
    let mut found: Vec<Region> = Vec::new();
    let mut taken = OrderedSet::new();
    for item in list.items()? {
        let [node, status, version, reachable, shards] = item.tuple()?;
        let region = Region {
            node: node.node()?,
            status: self::status(&status)?,
            app_version: self::version(&version)?,
            is_reachable: reachable.flag()?,
            shards: shards.items()?.iter().map(shard).collect::<Result<_, _>>()?,
        };
        if found.iter().any(|other| other.node == region.node) {
            return Err(item.refuse("a region appears twice"));
        }
        if !region.shards.iter().all(|shard| taken.insert(*shard)) {
            return Err(item.refuse("a shard appears twice"));
        }
        found.push(region);
    }
    Ok(found)
}

/// Members without a region, of the own data center.
fn others(list: &Node<'_>) -> Result<Vec<Neighbour>, IllFormed> {
    let mut here = Vec::new();
    for item in list.items()? {
        let [node, status, is_here, reachable, version] = item.tuple()?;
        node.node()?;
        self::version(&version)?;
        let neighbour = Neighbour {
            status: self::status(&status)?,
            is_reachable: reachable.flag()?,
        };
        if is_here.flag()? {
            here.push(neighbour);
        }
    }
    Ok(here)
}

fn status(node: &Node<'_>) -> Result<Status, IllFormed> {
    let name = node.text()?;
    let all = Status::ALL.into_iter();
    let found = all
        .filter(|status| *status != Status::Removed)
        .find(|status| format!("{status:?}") == name);
    found.ok_or_else(|| node.refuse(format!("`{name}` is no member's status")))
}

fn version(node: &Node<'_>) -> Result<AppVersion, IllFormed> {
    node.text()?
        .parse()
        .map_err(|error| node.refuse(format!("{error}")))
}

fn shard(node: &Node<'_>) -> Result<ShardId, IllFormed> {
    let number = u32::try_from(node.natural()?).map_err(|_| node.refuse("expected a shard's number"))?;
    Ok(ShardId(number))
}

fn sorted(list: &Node<'_>) -> Result<Vec<ShardId>, IllFormed> {
    let mut shards = list.items()?.iter().map(shard).collect::<Result<Vec<_>, _>>()?;
    shards.sort_unstable();
    Ok(shards)
}

fn texts(list: &Node<'_>) -> Result<Vec<String>, IllFormed> {
    list.items()?
        .iter()
        .map(|item| item.text().map(str::to_owned))
        .collect()
}

fn host(node: &UniqueAddress) -> String {
    node.address().host().to_owned()
}

fn count(node: &Node<'_>) -> Result<usize, IllFormed> {
    usize::try_from(node.natural()?).map_err(|_| node.refuse("too large"))
}
