//! The hand-offs themselves: two nodes host all shards, each with an entity that runs, a third comes, and the
//! time counts until nothing moves any more. Then every entity is asked where it is. Afterwards, over the
//! same links, as many asks at once as a round has hand-offs.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use quorate_core::sharding::allocation::AllocationSettings;
use quorate_tokio::{Cluster, Region};
use tokio::task::JoinSet;

use super::counted::{Counted, Round};
use super::nodes::{LOOKS, Table, host, id, start, wait};
use super::{Failure, INTERVAL, strategies};

/// Nodes in the end; one fewer before.
const NODES: usize = 3;

/// Asks at once when all entities are asked.
const ASKERS: usize = 64;

/// Rounds of asks that are measured at least, where there are any: few rounds are asked several times.
const FLOOR_ROUNDS: usize = 100;

const ASK_TIMEOUT: Duration = Duration::from_secs(60);

/// What one strategy did.
struct Row {
    name: &'static str,
    rounds: Vec<Round>,
    completed: u64,
    timed_out: u64,
    /// Shards of each node in the end.
    shares: Vec<usize>,
    /// Entities that answered from the node that says it hosts them.
    at_home: usize,
    twice: usize,
    /// From the third node's registration until nothing moved.
    even: Duration,
    /// As many asks as hand-offs, at once as many as a round has.
    asks: Duration,
}

pub(super) async fn measure(shards: u32) -> Result<String, Failure> {
    println!(
        "{shards} shards with an entity each, 2 to 3 nodes; {} ms between two looks at the balance, and what it is at {} s",
        LOOKS.as_millis(),
        INTERVAL.as_secs()
    );
    println!(
        "strategy                   | rounds | moved | most, least | even after | at {} s | work of a round, longest | each hand-off | each ask | ratio",
        INTERVAL.as_secs()
    );
    let mut rows = Vec::new();
    for (name, settings) in strategies() {
        let row = rebalance(name, settings, shards).await?;
        row.check(shards as usize)?;
        row.print();
        rows.push(row.json(shards));
    }
    Ok(format!("\"hand_offs\":[{}]", rows.join(",")))
}

async fn rebalance(name: &'static str, settings: AllocationSettings, shards: u32) -> Result<Row, Failure> {
    let (table, strategy) = (Table::new(shards), Counted::new(settings, NODES));
    let mut nodes: Vec<Cluster> = Vec::new();
    let mut regions = Vec::new();
    for at in 0..NODES - 1 {
        nodes.push(start(nodes.first()).await?);
        let node = nodes.last().map(|node| (at, node)).ok_or("no node")?;
        regions.push(host(node, shards, strategy.as_strategy(), &table).await?);
    }
    let all = shards as usize;
    ask_all(&regions, all).await?;

    let third = start(nodes.first()).await?;
    let started = Instant::now();
    let at = nodes.len();
    regions.push(host((at, &third), shards, strategy.as_strategy(), &table).await?);
    nodes.push(third);
    while !strategy.is_at_rest() {
        wait(started, "nothing moves any more").await?;
    }
    let mut hosted = hosted(&nodes, all).await?;
    while hosted.is_none() {
        wait(started, "every shard has begun where it is").await?;
        hosted = self::hosted(&nodes, all).await?;
    }
    let even = started.elapsed();
    let homes = hosted.unwrap_or_default();

    let answers = ask_all(&regions, all).await?;
    let at_home = answers.iter().zip(&homes).filter(|(said, home)| said == home);
    let at_home = at_home.count();
    let shares = (0..NODES).map(|node| homes.iter().filter(|home| **home == node).count());
    let rounds = strategy.rounds();
    let asks = floor(&regions, &homes, &rounds).await?;
    let (mut completed, mut timed_out) = (0, 0);
    for node in &nodes {
        let counted = node.stats().await?.core.sharding;
        completed += counted.hand_offs_completed;
        timed_out += counted.hand_offs_timed_out;
    }
    let shares = shares.collect();
    for node in nodes {
        node.stop().await;
    }
    Ok(Row {
        name,
        rounds,
        completed,
        timed_out,
        shares,
        at_home,
        twice: table.twice.load(Ordering::Relaxed),
        even,
        asks,
    })
}

/// Where each shard runs, as the nodes say that host them; `None` while one runs nowhere, or on two.
async fn hosted(nodes: &[Cluster], shards: usize) -> Result<Option<Vec<usize>>, Failure> {
    let mut homes = vec![None; shards];
    for (at, node) in nodes.iter().enumerate() {
        for kind in node.sharding_state().await? {
            for (shard, _) in kind.region.hosted {
                match homes.get_mut(shard.0 as usize) {
                    Some(home @ None) => *home = Some(at),
                    Some(Some(_)) | None => return Ok(None),
                }
            }
        }
    }
    Ok(homes.into_iter().collect())
}

/// Asks every entity, from all nodes in turns; the answers by shard.
async fn ask_all(regions: &[Region<(), usize>], shards: usize) -> Result<Vec<usize>, Failure> {
    let regions: Arc<[_]> = regions.into();
    let mut askers = JoinSet::new();
    for asker in 0..ASKERS {
        let regions = Arc::clone(&regions);
        askers.spawn(async move {
            let mut said = Vec::new();
            for shard in (asker..shards).step_by(ASKERS) {
                if let Some(region) = regions.get(shard % regions.len()) {
                    let ask = region.entity(id(shard)).ask(()).timeout(ASK_TIMEOUT);
                    said.push((shard, ask.await?));
                }
            }
            Ok::<_, quorate_tokio::AskError>(said)
        });
    }
    let mut answers = vec![usize::MAX; shards];
    while let Some(said) = askers.join_next().await {
        for (shard, node) in said?? {
            if let Some(answer) = answers.get_mut(shard) {
                *answer = node;
            }
        }
    }
    Ok(answers)
}

/// As many asks at once as each round has moves, one round after the other with the pauses of the looks
/// between them, from the coordinator's node to entities of the others. The time of all rounds, on average.
async fn floor(
    regions: &[Region<(), usize>],
    homes: &[usize],
    rounds: &[Round],
) -> Result<Duration, Failure> {
    let region = regions.first().ok_or("no region")?;
    let away = (0..homes.len()).filter(|shard| homes.get(*shard) != Some(&0));
    let mut away = away.collect::<Vec<_>>().into_iter().cycle();
    let mut spent = Duration::ZERO;
    let times = (FLOOR_ROUNDS / rounds.len().max(1)).max(1);
    for round in rounds.iter().cycle().take(times * rounds.len()) {
        tokio::time::sleep(LOOKS).await;
        let asked: Vec<usize> = away.by_ref().take(round.moves).collect();
        let started = Instant::now();
        let mut asks = JoinSet::new();
        for shard in asked {
            let entity = region.entity(id(shard));
            asks.spawn(async move { entity.ask(()).timeout(ASK_TIMEOUT).await });
        }
        while let Some(answer) = asks.join_next().await {
            answer??;
        }
        spent += started.elapsed();
    }
    Ok(spent / u32::try_from(times)?)
}

impl Row {
    fn moved(&self) -> usize {
        self.rounds.iter().map(|round| round.moves).sum()
    }

    fn work(&self) -> Duration {
        self.rounds.iter().map(Round::work).sum()
    }

    fn longest(&self) -> Duration {
        self.rounds.iter().map(Round::work).max().unwrap_or_default()
    }

    fn most_and_least(&self) -> (usize, usize) {
        let shares = || self.shares.iter().copied();
        (shares().max().unwrap_or(0), shares().min().unwrap_or(0))
    }

    /// Microseconds of each hand-off, and of each ask.
    fn each(&self) -> (f64, f64) {
        let moved = self.moved().max(1) as f64;
        let each = |time: Duration| time.as_secs_f64() * 1e6 / moved;
        (each(self.work()), each(self.asks))
    }

    /// What has to be so on every machine.
    fn check(&self, shards: usize) -> Result<(), Failure> {
        let ended = self.shares.iter().sum::<usize>() == shards && self.at_home == shards && self.twice == 0;
        if ended && self.timed_out == 0 && self.completed == self.moved() as u64 {
            return Ok(());
        }
        Err(format!(
            "{}: of {shards} shards {:?} are on the nodes, {} entities answer from there, {} ran twice; {} were to move, {} did, {} too \
             late",
            self.name,
            self.shares,
            self.at_home,
            self.twice,
            self.moved(),
            self.completed,
            self.timed_out
        )
        .into())
    }

    fn print(&self) {
        let (hand_off, ask) = self.each();
        let (most, least) = self.most_and_least();
        println!(
            "{:<26} | {:>6} | {:>5} | {most:>5}, {least:<4} | {:>8.2} s | {:>6} s | {:>9.2} ms, {:>7.2} | {hand_off:>10.1} us | {ask:>5.1} us | {:>4.1}",
            self.name,
            self.rounds.len(),
            self.moved(),
            self.even.as_secs_f64(),
            self.rounds.len() as u64 * INTERVAL.as_secs(),
            self.work().as_secs_f64() * 1e3 / self.rounds.len().max(1) as f64,
            self.longest().as_secs_f64() * 1e3,
            hand_off / ask.max(f64::MIN_POSITIVE),
        );
    }

    fn json(&self, shards: u32) -> String {
        let (hand_off, ask) = self.each();
        let (most, least) = self.most_and_least();
        let rounds = self.rounds.len();
        let choices: Duration = self.rounds.iter().map(|round| round.choice).sum();
        let per_round = |time: Duration| time.as_secs_f64() * 1e6 / rounds.max(1) as f64;
        format!(
            "{{\"strategy\":\"{}\",\"shards\":{shards},\"rounds\":{rounds},\"moved\":{},\"completed\":{},\"most\":{most},\"least\":{least},\
             \"at_home\":{},\"twice\":{},\"even_s\":{:.3},\"us_per_round\":{:.1},\"us_longest_round\":{:.1},\"us_per_choice\":{:.1},\
             \"us_per_hand_off\":{hand_off:.2},\"us_per_ask\":{ask:.2},\"ratio\":{:.2}}}",
            self.name,
            self.moved(),
            self.completed,
            self.at_home,
            self.twice,
            self.even.as_secs_f64(),
            per_round(self.work()),
            self.longest().as_secs_f64() * 1e6,
            per_round(choices),
            hand_off / ask.max(f64::MIN_POSITIVE),
        )
    }
}
