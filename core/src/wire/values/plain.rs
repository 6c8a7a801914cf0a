//! Counters, grow-only sets, registers and users' types as bytes. Spec: `docs/WIRE.md` 4.5.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::DataLimits;
use crate::bytes::WireError;
use crate::bytes::{BodyReader, put_node, put_text};
use crate::ddata::crdt::{
    CustomType, CustomTypes, Element, Flag, GCounter, GSet, LwwRegister, LwwWrite, PnCounter, Tallies, Tally,
};
use crate::ident::UniqueAddress;

/// A node takes at least this many bytes: a host of one byte.
const NODE_BYTES_MIN: usize = 1 + 1 + 2 + 8;
/// The length of an element.
const ELEMENT_BYTES_MIN: usize = 2;

/// Refuses a count for which there cannot be the bytes.
pub(super) fn fits(reader: &BodyReader<'_>, count: usize, bytes_min: usize) -> Result<(), WireError> {
    match count.checked_mul(bytes_min) {
        Some(bytes) if bytes <= reader.rest().len() => Ok(()),
        Some(_) | None => Err(WireError::Incomplete),
    }
}

pub(super) fn read_count(
    reader: &mut BodyReader<'_>,
    max: u32,
    bytes_min: usize,
    what: &'static str,
) -> Result<usize, WireError> {
    let count = reader.u32()?;
    if count > max {
        return Err(WireError::LimitExceeded { what });
    }
    let count = usize::try_from(count).map_err(|_| WireError::LimitExceeded { what })?;
    fits(reader, count, bytes_min)?;
    Ok(count)
}

pub(super) fn put_count(count: usize, what: &'static str, out: &mut Vec<u8>) -> Result<(), WireError> {
    let count = u32::try_from(count).map_err(|_| WireError::Unencodable { what })?;
    out.extend_from_slice(&count.to_le_bytes());
    Ok(())
}

pub(super) fn put_nodes<'a>(
    nodes: impl ExactSizeIterator<Item = &'a UniqueAddress>,
    out: &mut Vec<u8>,
) -> Result<(), WireError> {
    let count = u16::try_from(nodes.len()).map_err(|_| WireError::Unencodable { what: "nodes" })?;
    out.extend_from_slice(&count.to_le_bytes());
    nodes.into_iter().try_for_each(|node| put_node(out, node))
}

pub(super) fn read_nodes(
    reader: &mut BodyReader<'_>,
    limits: &DataLimits,
) -> Result<Vec<UniqueAddress>, WireError> {
    let count = reader.u16()?;
    if count > limits.nodes_max {
        return Err(WireError::LimitExceeded { what: "nodes" });
    }
    fits(reader, usize::from(count), NODE_BYTES_MIN)?;
    let mut nodes: Vec<UniqueAddress> = Vec::with_capacity(usize::from(count));
    for _ in 0..count {
        let node = reader.node()?;
        if nodes.last().is_some_and(|last| *last >= node) {
            return Err(WireError::NonCanonical { what: "nodes" });
        }
        nodes.push(node);
    }
    Ok(nodes)
}

pub(super) fn put_element(element: &[u8], out: &mut Vec<u8>) -> Result<(), WireError> {
    let len = u16::try_from(element.len()).map_err(|_| WireError::Unencodable { what: "element" })?;
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(element);
    Ok(())
}

pub(super) fn read_element(reader: &mut BodyReader<'_>) -> Result<Element, WireError> {
    let len = reader.u16()?;
    reader.take(usize::from(len)).map(Arc::from)
}

pub(super) fn put_value(value: &[u8], out: &mut Vec<u8>) -> Result<(), WireError> {
    put_count(value.len(), "value", out)?;
    out.extend_from_slice(value);
    Ok(())
}

pub(super) fn read_value<'a>(reader: &mut BodyReader<'a>) -> Result<&'a [u8], WireError> {
    let len = usize::try_from(reader.u32()?).map_err(|_| WireError::Incomplete)?;
    reader.take(len)
}

pub(super) fn read_u128(reader: &mut BodyReader<'_>) -> Result<u128, WireError> {
    reader.array().map(u128::from_le_bytes)
}

pub(super) fn read_stamp(reader: &mut BodyReader<'_>) -> Result<i64, WireError> {
    reader.array().map(i64::from_le_bytes)
}

pub(super) fn put_tally(tally: Tally, out: &mut Vec<u8>) {
    out.extend_from_slice(&tally.up.to_le_bytes());
    out.extend_from_slice(&tally.down.to_le_bytes());
}

pub(super) fn read_tally(reader: &mut BodyReader<'_>) -> Result<Tally, WireError> {
    Ok(Tally {
        up: read_u128(reader)?,
        down: read_u128(reader)?,
    })
}

fn put_tallied(tallies: &Tallies, out: &mut Vec<u8>) -> Result<(), WireError> {
    put_nodes(tallies.entries().iter().map(|(node, _)| node), out)
}

pub(super) fn put_gcounter(counter: &GCounter, out: &mut Vec<u8>) -> Result<(), WireError> {
    put_tallied(counter.tallies(), out)?;
    for (_, tally) in counter.tallies().entries() {
        out.extend_from_slice(&tally.up.to_le_bytes());
    }
    Ok(())
}

pub(super) fn put_pncounter(counter: &PnCounter, out: &mut Vec<u8>) -> Result<(), WireError> {
    put_tallied(counter.tallies(), out)?;
    for (_, tally) in counter.tallies().entries() {
        put_tally(*tally, out);
    }
    Ok(())
}

fn read_tallies(
    reader: &mut BodyReader<'_>,
    limits: &DataLimits,
    read: impl Fn(&mut BodyReader<'_>) -> Result<Tally, WireError>,
) -> Result<Tallies, WireError> {
    let nodes = read_nodes(reader, limits)?;
    let entries = nodes.into_iter().map(|node| Ok((node, read(reader)?)));
    let entries = entries.collect::<Result<Vec<_>, WireError>>()?;
    Tallies::from_sorted(entries).ok_or(WireError::NonCanonical { what: "counter of 0" })
}

pub(super) fn read_gcounter(reader: &mut BodyReader<'_>, limits: &DataLimits) -> Result<GCounter, WireError> {
    let only_up = |reader: &mut BodyReader<'_>| {
        Ok(Tally {
            up: read_u128(reader)?,
            down: 0,
        })
    };
    read_tallies(reader, limits, only_up).map(GCounter::from_tallies)
}

pub(super) fn read_pncounter(
    reader: &mut BodyReader<'_>,
    limits: &DataLimits,
) -> Result<PnCounter, WireError> {
    read_tallies(reader, limits, read_tally).map(PnCounter::from_tallies)
}

pub(super) fn put_gset(set: &GSet, out: &mut Vec<u8>) -> Result<(), WireError> {
    put_count(set.len(), "elements", out)?;
    set.iter().try_for_each(|element| put_element(element, out))
}

pub(super) fn read_gset(reader: &mut BodyReader<'_>, limits: &DataLimits) -> Result<GSet, WireError> {
    let count = read_count(reader, limits.elements_max, ELEMENT_BYTES_MIN, "elements")?;
    let mut elements: Vec<Element> = Vec::with_capacity(count);
    for _ in 0..count {
        let element = read_element(reader)?;
        if elements.last().is_some_and(|last| *last >= element) {
            return Err(WireError::NonCanonical { what: "elements" });
        }
        elements.push(element);
    }
    Ok(GSet::from_elements(elements.into_iter().collect()))
}

pub(super) fn read_flag(reader: &mut BodyReader<'_>) -> Result<Flag, WireError> {
    reader.bool("flag").map(Flag::from_bool)
}

pub(super) fn put_register(register: &LwwRegister, out: &mut Vec<u8>) -> Result<(), WireError> {
    let Some(written) = register.get() else {
        out.push(0);
        return Ok(());
    };
    out.push(1);
    out.extend_from_slice(&written.stamp.to_le_bytes());
    put_node(out, &written.node)?;
    put_value(&written.value, out)
}

pub(super) fn read_register(reader: &mut BodyReader<'_>) -> Result<LwwRegister, WireError> {
    if !reader.bool("register")? {
        return Ok(LwwRegister::new());
    }
    Ok(LwwRegister::from_written(Some(LwwWrite {
        stamp: read_stamp(reader)?,
        node: reader.node()?,
        value: Arc::from(read_value(reader)?),
    })))
}

pub(super) fn put_custom(name: &str, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), WireError> {
    put_text(out, name, "name of a user's type")?;
    put_value(bytes, out)
}

pub(super) fn read_custom<'a>(
    reader: &mut BodyReader<'a>,
    types: &CustomTypes,
) -> Result<(Arc<dyn CustomType>, &'a [u8]), WireError> {
    let what = "name of a user's type";
    let name = reader.text(what)?;
    let kind = types.get(name).ok_or(WireError::Malformed { what })?;
    Ok((Arc::clone(kind), read_value(reader)?))
}
