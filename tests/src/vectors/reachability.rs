//! Key `reachability`: two tables that grow from a common one, and their merge. Spec: membership 1.5.

use quorate_core::ident::UniqueAddress;
use quorate_core::membership::reachability::{Reachability, ReachabilityStatus};
use quorate_core::ordered::OrderedMap;

use super::json::{Differences, IllFormed, Node, compare};

type Row = (UniqueAddress, UniqueAddress, ReachabilityStatus, u64);

pub(super) fn run(case: Node<'_>) -> Result<Differences, IllFormed> {
    let mut common = Reachability::new();
    apply(&mut common, &case.get("common")?)?;
    let (mut a, mut b) = (common.clone(), common);
    apply(&mut a, &case.get("branch_a")?)?;
    apply(&mut b, &case.get("branch_b")?)?;
    let allowed = case.get("allowed")?.nodes()?;
    let merged = a.merge(|node| allowed.contains(node), &b);
    let mut out = Differences::new();
    for (name, table) in [("a", &a), ("b", &b), ("merged", &merged)] {
        compare_table(&mut out, name, &case.expected(name)?, table)?;
    }
    let mirrored = b.merge(|node| allowed.contains(node), &a);
    compare(&mut out, "merge of b with a", &merged, &mirrored);
    for (name, found) in [
        ("unreachable", merged.all_unreachable()),
        (
            "unreachable_or_terminated",
            merged.all_unreachable_or_terminated(),
        ),
    ] {
        let expected = case.expected(name)?.nodes()?;
        compare(&mut out, name, &expected, &found.into_iter().collect());
    }
    Ok(out)
}

fn apply(table: &mut Reachability, changes: &Node<'_>) -> Result<(), IllFormed> {
    for change in changes.items()? {
        let [observer, subject, status] = change.tuple()?;
        table.change(&observer.node()?, &subject.node()?, reach(&status)?);
    }
    Ok(())
}

fn compare_table(
    out: &mut Differences,
    name: &str,
    expected: &Node<'_>,
    table: &Reachability,
) -> Result<(), IllFormed> {
    let rows = expected.expected("records")?.items()?;
    let mut rows = rows.iter().map(row).collect::<Result<Vec<Row>, _>>()?;
    rows.sort();
    let found = table.records().iter();
    let found = found
        .map(|r| (r.observer.clone(), r.subject.clone(), r.status, r.version))
        .collect();
    compare(out, &format!("{name}.records"), &rows, &found);
    let versions = expected.expected("versions")?.counters()?;
    let found: OrderedMap<UniqueAddress, u64> = table.versions().iter().cloned().collect();
    compare(out, &format!("{name}.versions"), &versions, &found);
    Ok(())
}

fn row(record: &Node<'_>) -> Result<Row, IllFormed> {
    let [observer, subject, status, version] = record.tuple()?;
    Ok((
        observer.node()?,
        subject.node()?,
        reach(&status)?,
        version.natural()?,
    ))
}

fn reach(node: &Node<'_>) -> Result<ReachabilityStatus, IllFormed> {
    match node.text()? {
        "R" => Ok(ReachabilityStatus::Reachable),
        "U" => Ok(ReachabilityStatus::Unreachable),
        "T" => Ok(ReachabilityStatus::Terminated),
        other => Err(node.refuse(format!("`{other}` is none of R, U, T"))),
    }
}
