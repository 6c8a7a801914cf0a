//! Keys `passivation_…`: which entities of a shard a strategy names, access after access. Spec: sharding 1.6.

use std::num::NonZeroUsize;
use std::time::Duration;

use quorate_core::ordered::OrderedMap;
use quorate_core::sharding::passivation::{
    AdmissionFilter, ClimbingSettings, IdleSettings, LimitSettings, Passivation, PassivationError,
    PassivationSettings, Replacement, Segments, Share, SketchSettings, StrategyPlace, WindowSettings,
};
use quorate_core::time::Instant;

use super::json::{Differences, IllFormed, NINE_DECIMALS, Node, compare, compare_floats};

/// The estimates that a case gives, in the place of a sketch: they stay as they are.
#[derive(Clone, Debug, Default)]
struct Estimates(OrderedMap<u64, u64>);

impl AdmissionFilter<u64> for Estimates {
    fn on_limit(&mut self, _limit: usize) {}

    fn on_access(&mut self, _key: &u64) {}

    fn estimate(&self, key: &u64) -> u64 {
        self.0.get(key).copied().unwrap_or(0)
    }
}

/// The strategy under test, and where it has put the entities that run.
struct Shard {
    passivation: Passivation<u64, Estimates>,
    places: OrderedMap<u64, StrategyPlace>,
    per_region: usize,
    shards: usize,
}

impl Shard {
    fn new(settings: &PassivationSettings, estimates: Estimates) -> Self {
        Self {
            passivation: Passivation::with_filter(settings, |_| estimates),
            places: OrderedMap::new(),
            per_region: 1,
            shards: 1,
        }
    }

    fn touch(&mut self, id: u64, now: Instant) -> Vec<u64> {
        let mut gone = Vec::new();
        let known = self.places.get(&id).copied();
        if !known.is_some_and(|place| self.passivation.touch(now, place)) {
            let place = self.passivation.insert(now, id, &mut gone);
            self.places.extend(place.map(|place| (id, place)));
        }
        self.forget(gone)
    }

    fn stopped(&mut self, id: u64) {
        if let Some(place) = self.places.remove(&id) {
            self.passivation.remove(place);
        }
    }

    fn divide(&mut self, per_region: Option<usize>, shards: Option<usize>) -> Vec<u64> {
        self.per_region = per_region.unwrap_or(self.per_region);
        self.shards = shards.unwrap_or(self.shards);
        // One after the other would go through a limit that the case does not have.
        if shards.is_some() {
            self.passivation.share_among(self.shards);
        }
        if per_region.is_some() {
            self.passivation.set_limit(self.per_region);
        }
        let mut gone = Vec::new();
        self.passivation.shrink(usize::MAX, &mut gone);
        self.forget(gone)
    }

    fn forget(&mut self, gone: Vec<u64>) -> Vec<u64> {
        for id in &gone {
            self.places.remove(id);
        }
        gone
    }
}

/// What ran at the end.
fn compare_active(case: &Node<'_>, shard: &Shard, out: &mut Differences) -> Result<(), IllFormed> {
    let expected = numbers(&case.expected("active")?)?;
    let mut found: Vec<u64> = shard.places.keys().copied().collect();
    found.sort_unstable();
    let mut sorted = expected;
    sorted.sort_unstable();
    compare(out, "active", &sorted, &found);
    Ok(())
}

/// Runs the steps and compares who went in each.
fn run_steps(
    case: &Node<'_>,
    out: &mut Differences,
    mut step: impl FnMut(&Node<'_>) -> Result<Vec<u64>, IllFormed>,
) -> Result<(), IllFormed> {
    let steps = case.get("steps")?.items()?;
    let expected = case.expected("evicted")?.items()?;
    compare(out, "steps with an expectation", &expected.len(), &steps.len());
    for (at, this) in steps.iter().enumerate() {
        let found = step(this)?;
        if let Some(expected) = expected.get(at).and_then(Node::non_null) {
            compare(out, &format!("step {at}"), &numbers(expected)?, &found);
        }
    }
    Ok(())
}

pub(super) fn idle(case: Node<'_>) -> Result<Differences, IllFormed> {
    let timeout = duration(&case.get("timeout_ms")?)?;
    let interval = duration(&case.get("interval_ms")?)?;
    let settings = PassivationSettings {
        idle: Some(IdleSettings::new(timeout, interval).map_err(refused(&case))?),
        limit: None,
    };
    let mut shard = Shard::new(&settings, Estimates::default());
    let mut out = Differences::new();
    run_steps(&case, &mut out, |step| {
        let [name, id, now] = step.tuple()?;
        let now = Instant::from_millis(now.natural()?);
        Ok(match name.text()? {
            "touch" => shard.touch(id.natural()?, now),
            "terminated" => {
                shard.stopped(id.natural()?);
                Vec::new()
            }
            "tick" => {
                let mut gone = Vec::new();
                shard.passivation.pass_time(now, usize::MAX, &mut gone);
                shard.forget(gone)
            }
            other => return Err(name.refuse(format!("`{other}` is no step"))),
        })
    })?;
    compare_active(&case, &shard, &mut out)?;
    Ok(out)
}

/// Runs a case of one strategy without window and filter.
pub(super) fn plain(policy: &str, case: &Node<'_>) -> Result<Differences, IllFormed> {
    let limit = LimitSettings::plain(NonZeroUsize::MIN, replacement(policy, case)?);
    let (out, _) = limited(case, limit, Estimates::default())?;
    Ok(out)
}

pub(super) fn composite(case: Node<'_>) -> Result<Differences, IllFormed> {
    let main = case.get("main")?;
    let mut limit = LimitSettings::plain(
        NonZeroUsize::MIN,
        replacement(main.get("policy")?.text()?, &main)?,
    );
    if let Some(window) = case.get("window")?.non_null() {
        let proportion = window.get("proportion")?;
        let climbing = case.get("hill_climbing")?;
        limit.window = Some(WindowSettings {
            policy: replacement(window.get("policy")?.text()?, window)?,
            proportion: Share::new(proportion.float()?)
                .ok_or_else(|| proportion.refuse("expected 0 to 1"))?,
            climbing: climbing.non_null().map(hill_climbing).transpose()?,
        });
    }
    let mut estimates = Estimates::default();
    if let Some(table) = case.get("estimates")?.non_null() {
        limit.filter = Some(SketchSettings::default());
        for (id, estimate) in table.entries()? {
            let id = id.parse().map_err(|_| estimate.refuse("the id is no number"))?;
            estimates.0.insert(id, estimate.natural()?);
        }
    }
    let (mut out, shard) = limited(&case, limit, estimates)?;
    // Only a window that climbs has something to expect of it.
    if case.get("hill_climbing")?.non_null().is_some() {
        compare_window(&case, &shard, &mut out)?;
    }
    Ok(out)
}

fn compare_window(case: &Node<'_>, shard: &Shard, out: &mut Differences) -> Result<(), IllFormed> {
    let (proportion, adjustments) = shard.passivation.window().unwrap_or_default();
    if let Some(expected) = case.expected_or_null("final_proportion")?.non_null() {
        let expected = Some(expected.float()?);
        compare_floats(out, "final_proportion", expected, proportion, NINE_DECIMALS);
    }
    if let Some(expected) = case.expected_or_null("adjustments")?.non_null() {
        compare(out, "adjustments", &expected.natural()?, &adjustments);
    }
    Ok(())
}

fn limited(
    case: &Node<'_>,
    limit: LimitSettings,
    estimates: Estimates,
) -> Result<(Differences, Shard), IllFormed> {
    let mut shard = Shard::new(&PassivationSettings::limit(limit), estimates);
    let per_region = count(&case.get("per_region_limit")?)?;
    let shards = shards(&case.get("shards")?)?;
    shard.divide(Some(per_region), Some(shards));
    let mut out = Differences::new();
    run_steps(case, &mut out, |step| {
        let [name, argument] = step.tuple()?;
        Ok(match name.text()? {
            "touch" => shard.touch(argument.natural()?, Instant::ZERO),
            "terminated" => {
                shard.stopped(argument.natural()?);
                Vec::new()
            }
            "limit" => shard.divide(Some(count(&argument)?), None),
            "shards" => shard.divide(None, Some(self::shards(&argument)?)),
            other => return Err(name.refuse(format!("`{other}` is no step"))),
        })
    })?;
    compare_active(case, &shard, &mut out)?;
    Ok((out, shard))
}

/// A policy by its name; what it needs beside stands in `of`.
fn replacement(policy: &str, of: &Node<'_>) -> Result<Replacement, IllFormed> {
    Ok(match policy {
        "lru" => Replacement::LeastRecentlyUsed,
        "mru" => Replacement::MostRecentlyUsed,
        "lfu" => Replacement::LeastFrequentlyUsed { aging: false },
        "lfu_aging" => Replacement::LeastFrequentlyUsed { aging: true },
        "slru" => {
            let segments = of.get("segments")?;
            let shares = segments
                .items()?
                .iter()
                .map(Node::float)
                .collect::<Result<Vec<_>, _>>()?;
            Replacement::Segmented(Segments::new(&shares).map_err(refused(&segments))?)
        }
        other => return Err(of.refuse(format!("`{other}` is no policy"))),
    })
}

fn hill_climbing(node: &Node<'_>) -> Result<ClimbingSettings, IllFormed> {
    let number = |name: &str| node.get(name)?.float();
    ClimbingSettings::default()
        .every(number("adjust_multiplier")?)
        .map_err(refused(node))?
        .step(number("initial_step")?, number("decay")?)
        .map_err(refused(node))?
        .restart_at(number("restart_threshold")?)
        .map_err(refused(node))?
        .within(number("min_proportion")?, number("max_proportion")?)
        .map_err(refused(node))
}

fn refused(node: &Node<'_>) -> impl Fn(PassivationError) -> IllFormed {
    let node = node.refuse("");
    move |error| node.because(error.to_string())
}

fn numbers(list: &Node<'_>) -> Result<Vec<u64>, IllFormed> {
    list.items()?.iter().map(Node::natural).collect()
}

fn count(node: &Node<'_>) -> Result<usize, IllFormed> {
    usize::try_from(node.natural()?).map_err(|_| node.refuse("too large"))
}

fn shards(node: &Node<'_>) -> Result<usize, IllFormed> {
    let shards = count(node)?;
    if shards == 0 {
        return Err(node.refuse("expected at least one shard"));
    }
    Ok(shards)
}

fn duration(node: &Node<'_>) -> Result<Duration, IllFormed> {
    node.natural().map(Duration::from_millis)
}
