//! Sets with removal and maps as bytes: the context, then the entries with their dots. A dot names its node
//! by its position in the context's table. Spec: `docs/WIRE.md` 4.5.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::plain::{
    put_count, put_element, put_nodes, put_pncounter, put_register, read_count, read_element, read_nodes,
    read_pncounter, read_register,
};
use super::{DataLimits, put_body};
use crate::bytes::BodyReader;
use crate::bytes::WireError;
use crate::ddata::crdt::{
    Binding, CausalContext, DataValue, Dot, Dotted, DottedDelta, DottedEntry, DottedValue, Element, Few,
    LwwRegister, NodeIndex, PnCounter, SeenVersions, VERSION_MAX, ValueType, VersionRange,
};
use crate::ordered::OrderedSet;

/// A range of the cloud: a node and two versions.
const RANGE_BYTES: usize = 2 + 8 + 8;
/// A dot: a node and a version.
const DOT_BYTES: usize = 2 + 8;

/// A key of entries.
pub(super) trait WireKey: Ord + Clone {
    /// Bytes of the shortest one.
    const BYTES_MIN: usize;
    fn put(&self, out: &mut Vec<u8>) -> Result<(), WireError>;
    fn read(reader: &mut BodyReader<'_>) -> Result<Self, WireError>;
}

impl WireKey for Element {
    const BYTES_MIN: usize = 2;

    fn put(&self, out: &mut Vec<u8>) -> Result<(), WireError> {
        put_element(self, out)
    }

    fn read(reader: &mut BodyReader<'_>) -> Result<Self, WireError> {
        read_element(reader)
    }
}

impl WireKey for Binding {
    const BYTES_MIN: usize = 4;

    fn put(&self, out: &mut Vec<u8>) -> Result<(), WireError> {
        put_element(&self.key, out)?;
        put_element(&self.value, out)
    }

    fn read(reader: &mut BodyReader<'_>) -> Result<Self, WireError> {
        Ok(Self {
            key: read_element(reader)?,
            value: read_element(reader)?,
        })
    }
}

/// A value under a key. `values` says what a map of values holds.
pub(super) trait WireValue: DottedValue {
    fn put(&self, out: &mut Vec<u8>) -> Result<(), WireError>;
    fn read(
        reader: &mut BodyReader<'_>,
        limits: &DataLimits,
        values: Option<ValueType>,
    ) -> Result<Self, WireError>;
}

impl WireValue for () {
    fn put(&self, _: &mut Vec<u8>) -> Result<(), WireError> {
        Ok(())
    }

    fn read(_: &mut BodyReader<'_>, _: &DataLimits, _: Option<ValueType>) -> Result<Self, WireError> {
        Ok(())
    }
}

impl WireValue for PnCounter {
    fn put(&self, out: &mut Vec<u8>) -> Result<(), WireError> {
        put_pncounter(self, out)
    }

    fn read(
        reader: &mut BodyReader<'_>,
        limits: &DataLimits,
        _: Option<ValueType>,
    ) -> Result<Self, WireError> {
        read_pncounter(reader, limits)
    }
}

impl WireValue for LwwRegister {
    fn put(&self, out: &mut Vec<u8>) -> Result<(), WireError> {
        put_register(self, out)
    }

    fn read(reader: &mut BodyReader<'_>, _: &DataLimits, _: Option<ValueType>) -> Result<Self, WireError> {
        read_register(reader)
    }
}

impl WireValue for DataValue {
    fn put(&self, out: &mut Vec<u8>) -> Result<(), WireError> {
        put_body(self, out)
    }

    fn read(
        reader: &mut BodyReader<'_>,
        limits: &DataLimits,
        values: Option<ValueType>,
    ) -> Result<Self, WireError> {
        let values = values.ok_or(WireError::Malformed { what: "value type" })?;
        super::read_value(values, reader, limits)
    }
}

pub(super) fn put<K: WireKey, V: WireValue>(
    dotted: &Dotted<K, V>,
    out: &mut Vec<u8>,
) -> Result<(), WireError> {
    let positions = put_context(&dotted.context, out)?;
    put_count(dotted.entries.len(), "elements", out)?;
    for (key, entry) in &dotted.entries {
        key.put(out)?;
        let position = |dot: &Dot| {
            positions
                .get(usize::from(dot.node.0))
                .copied()
                .unwrap_or(u16::MAX)
        };
        let mut dots: Vec<(u16, u64)> = entry
            .dots
            .iter()
            .map(|dot| (position(dot), dot.version))
            .collect();
        dots.sort_unstable();
        let count = u16::try_from(dots.len()).map_err(|_| WireError::Unencodable { what: "dots" })?;
        out.extend_from_slice(&count.to_le_bytes());
        for (position, version) in dots {
            out.extend_from_slice(&position.to_le_bytes());
            out.extend_from_slice(&version.to_le_bytes());
        }
        entry.value.put(out)?;
    }
    Ok(())
}

/// Says where in the written table each node of the context stands.
fn put_context(context: &CausalContext, out: &mut Vec<u8>) -> Result<Vec<u16>, WireError> {
    put_nodes(context.sorted().map(|(_, seen)| &seen.node), out)?;
    let mut positions = Vec::from_iter(core::iter::repeat_n(0, context.len()));
    for (position, (index, seen)) in (0_u16..).zip(context.sorted()) {
        out.extend_from_slice(&seen.upto.to_le_bytes());
        if let Some(place) = positions.get_mut(usize::from(index.0)) {
            *place = position;
        }
    }
    put_count(context.cloud(), "ranges", out)?;
    for (position, (_, seen)) in (0_u16..).zip(context.sorted()) {
        for range in &seen.later {
            out.extend_from_slice(&position.to_le_bytes());
            out.extend_from_slice(&range.from.to_le_bytes());
            out.extend_from_slice(&range.to.to_le_bytes());
        }
    }
    Ok(positions)
}

pub(super) fn read<K: WireKey, V: WireValue>(
    reader: &mut BodyReader<'_>,
    limits: &DataLimits,
    values: Option<ValueType>,
) -> Result<Dotted<K, V>, WireError> {
    let context = read_context(reader, limits)?;
    let count = read_count(
        reader,
        limits.elements_max,
        K::BYTES_MIN + 2 + DOT_BYTES,
        "elements",
    )?;
    let mut entries: Vec<(K, DottedEntry<V>)> = Vec::with_capacity(count);
    for _ in 0..count {
        let key = K::read(reader)?;
        if entries.last().is_some_and(|(last, _)| *last >= key) {
            return Err(WireError::NonCanonical { what: "elements" });
        }
        let dots = read_dots(reader, &context)?;
        let value = V::read(reader, limits, values)?;
        entries.push((key, DottedEntry { dots, value }));
    }
    let entries: BTreeMap<K, DottedEntry<V>> = entries.into_iter().collect();
    Ok(Dotted { context, entries })
}

fn read_dots(reader: &mut BodyReader<'_>, context: &CausalContext) -> Result<Few<Dot>, WireError> {
    let mut dots: Few<Dot> = Few::none();
    let count = reader.u16()?;
    if count == 0 {
        return Err(WireError::NonCanonical {
            what: "element without dots",
        });
    }
    for _ in 0..count {
        let dot = Dot {
            node: NodeIndex(reader.u16()?),
            version: reader.u64()?,
        };
        if usize::from(dot.node.0) >= context.len() {
            return Err(WireError::DanglingIndex { what: "dot" });
        }
        if dot.version == 0 || !context.covers(dot) {
            return Err(WireError::Malformed {
                what: "dot beyond its context",
            });
        }
        if dots.as_slice().last().is_some_and(|last| *last >= dot) {
            return Err(WireError::NonCanonical { what: "dots" });
        }
        dots.push(dot);
    }
    Ok(dots)
}

fn read_context(reader: &mut BodyReader<'_>, limits: &DataLimits) -> Result<CausalContext, WireError> {
    let nodes = read_nodes(reader, limits)?;
    let column = reader.column::<8>(nodes.len())?;
    let mut seen: Vec<SeenVersions> = nodes
        .into_iter()
        .zip(column.u64s())
        .map(|(node, upto)| SeenVersions {
            node,
            upto,
            later: Vec::new(),
        })
        .collect();
    if seen.iter().any(|seen| seen.upto > VERSION_MAX) {
        return Err(WireError::Malformed { what: "version" });
    }
    let count = read_count(reader, limits.cloud_max, RANGE_BYTES, "ranges")?;
    let mut last = 0;
    for _ in 0..count {
        let position = reader.u16()?;
        let range = VersionRange {
            from: reader.u64()?,
            to: reader.u64()?,
        };
        let Some(seen) = seen.get_mut(usize::from(position)) else {
            return Err(WireError::DanglingIndex { what: "range" });
        };
        let below = seen.later.last().map_or(seen.upto, |range| range.to);
        let rises = position >= last && range.from.checked_sub(1).is_some_and(|gap| gap > below);
        if !rises || range.to < range.from || range.to > VERSION_MAX {
            return Err(WireError::NonCanonical { what: "ranges" });
        }
        seen.later.push(range);
        last = position;
    }
    CausalContext::from_sorted(seen).ok_or(WireError::NonCanonical { what: "nodes" })
}

pub(super) fn put_delta<K: WireKey, V: WireValue>(
    delta: &DottedDelta<K, V>,
    out: &mut Vec<u8>,
) -> Result<(), WireError> {
    out.push(u8::from(delta.whole));
    put(&delta.part, out)?;
    put_count(delta.removed.len(), "removed elements", out)?;
    delta.removed.iter().try_for_each(|key| key.put(out))
}

pub(super) fn read_delta<K: WireKey, V: WireValue>(
    reader: &mut BodyReader<'_>,
    limits: &DataLimits,
    values: Option<ValueType>,
) -> Result<DottedDelta<K, V>, WireError> {
    let whole = reader.bool("whole")?;
    let part: Dotted<K, V> = read(reader, limits, values)?;
    let what = "removed elements";
    let count = read_count(reader, limits.elements_max, K::BYTES_MIN, what)?;
    let mut removed: Vec<K> = Vec::with_capacity(count);
    for _ in 0..count {
        let key = K::read(reader)?;
        if removed.last().is_some_and(|last| *last >= key) || part.entries.contains_key(&key) {
            return Err(WireError::NonCanonical { what });
        }
        removed.push(key);
    }
    Ok(DottedDelta {
        part,
        removed: removed.into_iter().collect::<OrderedSet<K>>(),
        whole,
    })
}
