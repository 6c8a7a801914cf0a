//! Keys `quorum`, `gossip_slice` and `status_chunks`: the replicator's arithmetic. Spec: sharding 1.12.

use quorate_core::ddata::slices::{RoundRobin, chunk_of, chunks_per_tick, chunks_total, slice_size};
use quorate_core::ddata::state::consistency::{Consistency, OperationElectorate};
use quorate_core::ident::{Address, UniqueAddress};

use super::json::{Differences, IllFormed, Node, compare};

/// A number that fits.
fn count<T: TryFrom<u64>>(node: &Node<'_>) -> Result<T, IllFormed> {
    T::try_from(node.natural()?).map_err(|_| node.refuse("too large"))
}

pub(super) fn quorum(case: Node<'_>) -> Result<Differences, IllFormed> {
    let electorate = OperationElectorate {
        members: count(&case.get("members")?)?,
        exiting: count(&case.get("exiting")?)?,
    };
    let kind = case.get("consistency")?;
    let level = match kind.text()? {
        "majority" => Consistency::Majority,
        "majority_plus" => Consistency::MajorityPlus(count(&case.get("additional")?)?),
        "all" => Consistency::All,
        "to" | "from" => Consistency::Replicas(count(&case.get("count")?)?),
        _ => return Err(kind.refuse("no consistency")),
    };
    let required = level.required(electorate, count(&case.get("min_cap")?)?);
    let enough = required <= level.counted(electorate);
    let mut out = Differences::new();
    compare(&mut out, "enough", &case.expected("enough")?.flag()?, &enough);
    let (expected, acks) = (
        case.expected_or_null("required")?,
        case.expected_or_null("remote_acks")?,
    );
    let expected_number = |node: &Node<'_>| node.non_null().map(count::<usize>).transpose();
    let found = enough.then_some(required);
    compare(&mut out, "required", &expected_number(&expected)?, &found);
    let found = found.map(|required| required - 1);
    compare(&mut out, "remote_acks", &expected_number(&acks)?, &found);
    Ok(out)
}

pub(super) fn gossip_slice(case: Node<'_>) -> Result<Differences, IllFormed> {
    let mut out = Differences::new();
    let size = slice_size(count(&case.get("others")?)?);
    compare(&mut out, "size", &count(&case.expected("size")?)?, &size);
    let names = case.get("names")?;
    let Some(names) = names.non_null() else {
        return Ok(out);
    };
    let ticks = case.expected("ticks")?;
    let mut nodes = Vec::new();
    for name in names.items()? {
        let address = Address::new(name.text()?, 7355).map_err(|error| name.refuse(error.to_string()))?;
        nodes.push(UniqueAddress::new(address, 1));
    }
    nodes.sort();
    let mut turns = RoundRobin::default();
    for (at, tick) in ticks.items()?.iter().enumerate() {
        let expected = tick
            .items()?
            .iter()
            .map(Node::text)
            .collect::<Result<Vec<_>, _>>()?;
        let told = turns.next(&nodes);
        let found: Vec<&str> = told.iter().map(|node| node.address().host()).collect();
        compare(&mut out, &format!("tick {at}"), &expected, &found);
    }
    Ok(out)
}

pub(super) fn status_chunks(case: Node<'_>) -> Result<Differences, IllFormed> {
    let total = chunks_total(
        count(&case.get("entries")?)?,
        count(&case.get("max_delta_elements")?)?,
    );
    let mut out = Differences::new();
    compare(
        &mut out,
        "total_chunks",
        &count(&case.expected("total_chunks")?)?,
        &total,
    );
    let messages = case.expected("messages_per_tick")?;
    compare(
        &mut out,
        "messages_per_tick",
        &count(&messages)?,
        &chunks_per_tick(total),
    );
    let mut found = Vec::new();
    for hash in case.get("hashes")?.items()? {
        let hash: u64 = hash.text()?.parse().map_err(|_| hash.refuse("no hash"))?;
        found.push(chunk_of(hash, total));
    }
    let expected = case
        .expected("chunks")?
        .items()?
        .iter()
        .map(count)
        .collect::<Result<Vec<usize>, _>>()?;
    compare(&mut out, "chunks", &expected, &found);
    Ok(out)
}
