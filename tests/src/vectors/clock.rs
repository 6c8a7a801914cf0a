//! Key `vector_clock`: order, merge and pruning. Spec: membership 1.6.

use quorate_core::ident::UniqueAddress;
use quorate_core::membership::vector_clock::{ClockOrder, VectorClock};
use quorate_core::ordered::OrderedMap;

use super::json::{Differences, IllFormed, Node, compare};

pub(super) fn run(case: Node<'_>) -> Result<Differences, IllFormed> {
    let (a, b) = (clock(&case.get("a")?)?, clock(&case.get("b")?)?);
    let mut out = Differences::new();
    let expected = order(&case.expected("cmp")?)?;
    compare(&mut out, "cmp", &expected, &a.compare(&b));
    compare(&mut out, "cmp of b to a", &mirrored(expected), &b.compare(&a));
    let expected = case.expected("merge")?.counters()?;
    for (what, left, right) in [("merge", &a, &b), ("merge of b with a", &b, &a)] {
        let mut merged = left.clone();
        merged.merge(right);
        compare(&mut out, what, &expected, &entries(&merged));
    }
    let mut pruned = a;
    pruned.prune(&case.get("prune")?.node()?);
    let expected = case.expected("a_pruned")?.counters()?;
    compare(&mut out, "a_pruned", &expected, &entries(&pruned));
    let expected = order(&case.expected("cmp_pruned_a_vs_b")?)?;
    compare(&mut out, "cmp_pruned_a_vs_b", &expected, &pruned.compare(&b));
    Ok(out)
}

fn clock(node: &Node<'_>) -> Result<VectorClock, IllFormed> {
    let entries = node.counters()?.into_iter().collect();
    VectorClock::from_entries(entries).ok_or_else(|| node.refuse("a node appears twice"))
}

fn entries(clock: &VectorClock) -> OrderedMap<UniqueAddress, u64> {
    clock.entries().iter().cloned().collect()
}

fn order(node: &Node<'_>) -> Result<ClockOrder, IllFormed> {
    match node.text()? {
        "Same" => Ok(ClockOrder::Same),
        "Before" => Ok(ClockOrder::Before),
        "After" => Ok(ClockOrder::After),
        "Concurrent" => Ok(ClockOrder::Concurrent),
        other => Err(node.refuse(format!("`{other}` is no order of clocks"))),
    }
}

const fn mirrored(order: ClockOrder) -> ClockOrder {
    match order {
        ClockOrder::Same => ClockOrder::Same,
        ClockOrder::Before => ClockOrder::After,
        ClockOrder::After => ClockOrder::Before,
        ClockOrder::Concurrent => ClockOrder::Concurrent,
    }
}
