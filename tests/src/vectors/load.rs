//! Keys `ewma`, `capacity`, `weights`, `chord` and `metric_moves`: what is made of load. Spec: sharding 5.5,
//! 10.20, 10.22.

use std::time::Duration;

use quorate_core::config::CapacitySelector;
use quorate_core::load::state::capacity::{Capacities, Cpu, Heap, MachineLoad};
use quorate_core::load::state::chord;
use quorate_core::load::state::ewma::{self, Ewma};
use quorate_core::load::state::moves::{MoveWindows, NodeSample, choose_unit, extremes};
use quorate_core::load::state::weights::Weights;
use quorate_core::time::Instant;
use serde_json::{Value, json};

use super::json::{Differences, IllFormed, NINE_DECIMALS, Node, compare, compare_floats};

/// Largest ring that is gone around here.
const RING_MAX: u64 = 100_000;

/// When a case of moves happens: late enough for what was before.
const NOW: Instant = Instant::from_millis(1 << 40);

/// A length of time in seconds; `None` for null.
fn seconds(node: &Node<'_>) -> Result<Option<Duration>, IllFormed> {
    let legal = |node: &Node<'_>| {
        let seconds = node.float()?;
        let within = (0.0..=1e9).contains(&seconds);
        within
            .then(|| Duration::from_secs_f64(seconds))
            .ok_or_else(|| node.refuse("no length of time"))
    };
    node.non_null().map(legal).transpose()
}

pub(super) fn ewma(case: Node<'_>) -> Result<Differences, IllFormed> {
    let mut out = Differences::new();
    let (interval, half_life) = (
        seconds(&case.get("interval_s")?)?,
        seconds(&case.get("half_life_s")?)?,
    );
    let given = case.expected_or_null("alpha")?;
    let given = given.non_null().map(Node::float).transpose()?;
    let alpha = match (interval.zip(half_life), given) {
        (Some((interval, half_life)), given) => {
            let found = ewma::alpha(interval, half_life);
            if let Some(expected) = given {
                compare_floats(&mut out, "alpha", Some(expected), found, NINE_DECIMALS);
            }
            found
        }
        (None, Some(alpha)) => alpha,
        (None, None) => return Err(case.refuse("neither alpha nor an interval with a half-life")),
    };
    let samples = case.get("samples")?.items()?;
    let values = case.expected("values")?.items()?;
    compare(&mut out, "values", &values.len(), &samples.len());
    let mut average = Ewma::default();
    for (at, (sample, expected)) in samples.iter().zip(&values).enumerate() {
        let found = average.add(sample.float()?, alpha);
        compare_optional(&mut out, &format!("value {at}"), expected, found)?;
    }
    Ok(out)
}

/// Notes a difference unless both are the same number, or both are none.
fn compare_optional(
    out: &mut Differences,
    what: &str,
    expected: &Node<'_>,
    found: Option<f64>,
) -> Result<(), IllFormed> {
    let expected = expected.non_null().map(Node::float).transpose()?;
    match (expected, found) {
        (Some(_), Some(found)) => compare_floats(out, what, expected, found, NINE_DECIMALS),
        (expected, found) => compare(out, what, &expected, &found),
    }
    Ok(())
}

pub(super) fn capacity(case: Node<'_>) -> Result<Differences, IllFormed> {
    let heap = case.get("heap")?.non_null().map(heap).transpose()?;
    let cpu = case.get("cpu")?.non_null().map(cpu).transpose()?;
    let load = case.get("load")?.non_null().map(machine_load).transpose()?;
    let found = Capacities::of(heap, cpu, load);
    let mut out = Differences::new();
    for (name, selector) in [
        ("heap_capacity", CapacitySelector::Heap),
        ("cpu_capacity", CapacitySelector::Cpu),
        ("load_capacity", CapacitySelector::Load),
        ("mix", CapacitySelector::Mix),
    ] {
        let expected = case.expected_or_null(name)?;
        compare_optional(&mut out, name, &expected, found.select(selector))?;
    }
    Ok(out)
}

fn heap(node: &Node<'_>) -> Result<Heap, IllFormed> {
    let max = node.get("max")?;
    Ok(Heap {
        used: node.get("used")?.natural()?,
        committed: node.get("committed")?.natural()?,
        max: max.non_null().map(Node::natural).transpose()?,
    })
}

fn cpu(node: &Node<'_>) -> Result<Cpu, IllFormed> {
    Ok(Cpu {
        combined: node.get("combined")?.float()?,
        stolen: node.get("stolen")?.float()?,
    })
}

fn machine_load(node: &Node<'_>) -> Result<MachineLoad, IllFormed> {
    let cores = node.get("cores")?;
    Ok(MachineLoad {
        load: node.get("load")?.float()?,
        cores: u32::try_from(cores.natural()?).map_err(|_| cores.refuse("too many"))?,
    })
}

pub(super) fn weights(case: Node<'_>) -> Result<Differences, IllFormed> {
    let mut capacities = Vec::new();
    for pair in case.get("capacities")?.items()? {
        let [node, capacity] = pair.tuple()?;
        capacities.push((node.text()?, capacity.float()?));
    }
    let found = Weights::of(capacities);
    let mut out = Differences::new();
    let expected: Vec<_> = case
        .expected("weights")?
        .items()?
        .iter()
        .map(Node::natural)
        .collect::<Result<_, _>>()?;
    let each = found.iter().map(|(_, weight)| weight).collect();
    compare(&mut out, "weights", &expected, &each);
    compare(
        &mut out,
        "total",
        &case.expected("total")?.natural()?,
        &found.total(),
    );
    for (at, pick) in case.expected("picks")?.items()?.iter().enumerate() {
        let ticket = pick.value().get(0).and_then(Value::as_u64);
        let found = ticket.map(|ticket| json!([ticket, found.pick(ticket)]));
        compare(
            &mut out,
            &format!("pick {at}"),
            &Some(pick.value()),
            &found.as_ref(),
        );
    }
    Ok(out)
}

pub(super) fn chord(case: Node<'_>) -> Result<Differences, IllFormed> {
    let within = |name: &str| {
        let node = case.get(name)?;
        let number = u32::try_from(node.natural()?.min(RING_MAX + 1)).unwrap_or(u32::MAX);
        let legal = u64::from(number) <= RING_MAX;
        legal.then_some(number).ok_or_else(|| node.refuse("too large"))
    };
    let (members, contacts, neighbors) = (within("n")?, within("k")?, within("m")?);
    let mut out = Differences::new();
    let expected = case.expected("expected_distinct")?.float()?;
    let found = chord::expected_distinct(members, contacts, neighbors);
    compare_floats(
        &mut out,
        "expected_distinct",
        Some(expected),
        found,
        NINE_DECIMALS,
    );
    let ordinals = |node: Node<'_>| -> Result<Vec<usize>, IllFormed> {
        let ordinal =
            |node: &Node<'_>| usize::try_from(node.natural()?).map_err(|_| node.refuse("too large"));
        node.items()?.iter().map(ordinal).collect()
    };
    let positions = ordinals(case.get("positions")?)?;
    let mut expected = ordinals(case.expected("seen")?)?;
    expected.sort_unstable();
    let found = chord::seen(members as usize, &positions, neighbors as usize);
    compare(&mut out, "seen", &expected, &found.into_iter().collect());
    Ok(out)
}

pub(super) fn metric_moves(case: Node<'_>) -> Result<Differences, IllFormed> {
    let mut rounds = Vec::new();
    for round in case.get("rounds")?.items()? {
        let mut nodes = Vec::new();
        for (node, sample) in round.entries()? {
            nodes.push((node, node_sample(&sample)?));
        }
        nodes.sort_by_key(|(node, _)| *node);
        rounds.push(nodes);
    }
    let mut windows = MoveWindows::default();
    if let Some(last_move) = case.get("last_move")?.non_null() {
        let [from, to, ago] = last_move.tuple()?;
        let ago = seconds(&ago)?.ok_or_else(|| ago.refuse("expected seconds"))?;
        let at = Instant::from_micros(NOW.since(Instant::ZERO + ago).as_micros() as u64);
        windows.moved(at, from.text()?, to.text()?);
    }
    let last = rounds.last().and_then(|round| extremes(round));
    for round in rounds {
        windows.push(NOW, round);
    }
    let pending = case.get("pending")?.items()?;
    let pending = pending.iter().map(Node::text).collect::<Result<Vec<_>, _>>()?;
    let mut units = Vec::new();
    for unit in case.get("units")?.items()? {
        let [unit, rate] = unit.tuple()?;
        units.push((unit.text()?, rate.float()?));
    }
    let found = windows.due(NOW, |node| pending.contains(node)).and_then(|pair| {
        let unit = choose_unit(pair.gap, units)?;
        Some(vec![unit, pair.hot, pair.cold])
    });

    let mut out = Differences::new();
    for (name, found) in [
        ("hot", last.as_ref().map(|pair| pair.hot)),
        ("cold", last.as_ref().map(|pair| pair.cold)),
    ] {
        let expected = case.expected_or_null(name)?;
        let expected = expected.non_null().map(Node::text).transpose()?;
        compare(&mut out, name, &expected, &found);
    }
    compare_optional(
        &mut out,
        "gap",
        &case.expected_or_null("gap")?,
        last.map(|pair| pair.gap),
    )?;
    let expected = case.expected_or_null("move")?;
    compare(
        &mut out,
        "move",
        expected.value(),
        &found.map_or(Value::Null, Value::from),
    );
    Ok(out)
}

/// Capacity, age in rounds, and whether it is usable, as a flag or a number.
fn node_sample(node: &Node<'_>) -> Result<NodeSample, IllFormed> {
    let [capacity, age, usable] = node.tuple()?;
    Ok(NodeSample {
        capacity: capacity.float()?,
        age_rounds: age.natural()?,
        usable: usable
            .flag()
            .or_else(|_| usable.natural().map(|number| number != 0))?,
    })
}
