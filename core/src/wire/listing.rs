//! Which entities run on a node, as bytes. Unstable as all of sharding. Spec: sharding 1.3, `docs/WIRE.md` 4.11.
#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use alloc::vec::Vec;

use super::declare::Form;
use super::entity::{ID_BYTES_MIN, put_id, read_id};
use super::sharding::{Shards, put_shard, read_shard};
use crate::bytes::{Reader, WireError, put_node};
use crate::config::Limits;
use crate::ident::UniqueAddress;
use crate::sharding::protocol::survey::{EntityPosition, Listed, ShardHomes};
use crate::sharding::state::ids::{EntityId, ShardId};

/// A shard with a count of entities takes at least so many bytes.
const SHARD_BYTES_MIN: usize = 6;

const MORE: u8 = 1;
const CUT_HOMES: u8 = 2;

/// A list's length.
fn put_count(count: usize, what: &'static str, out: &mut Vec<u8>) -> Result<(), WireError> {
    let count = u32::try_from(count).map_err(|_| WireError::Unencodable { what })?;
    out.extend_from_slice(&count.to_le_bytes());
    Ok(())
}

/// The length of a list whose items take at least so many bytes each.
fn read_count(reader: &mut Reader<'_>, least: usize, what: &'static str) -> Result<usize, WireError> {
    let count = usize::try_from(reader.u32()?).unwrap_or(usize::MAX);
    if count > reader.rest().len() / least {
        return Err(WireError::Malformed { what });
    }
    Ok(count)
}

pub(super) fn put_position(
    position: Option<&EntityPosition>,
    limits: &Limits,
    out: &mut Vec<u8>,
) -> Result<(), WireError> {
    let Some(EntityPosition { shard, entity }) = position else {
        out.push(0);
        return Ok(());
    };
    out.push(if entity.is_some() { 2 } else { 1 });
    put_shard(*shard, out)?;
    entity
        .as_ref()
        .map_or(Ok(()), |entity| put_id(entity, limits, out))
}

pub(super) fn read_position(reader: &mut Reader<'_>) -> Result<Option<EntityPosition>, WireError> {
    let tag = reader.u8()?;
    if tag == 0 {
        return Ok(None);
    }
    let shard = read_shard(reader)?;
    let entity = match tag {
        1 => None,
        2 => Some(read_id(reader)?),
        _ => return Err(WireError::Malformed { what: "position" }),
    };
    Ok(Some(EntityPosition { shard, entity }))
}

pub(super) fn put(listed: &Listed, limits: &Limits, out: &mut Vec<u8>) -> Result<(), WireError> {
    let more = if listed.more { MORE } else { 0 };
    let cut = if listed.homes_up_to.is_some() {
        CUT_HOMES
    } else {
        0
    };
    out.push(more | cut);
    put_count(listed.shards.len(), "shards", out)?;
    for (shard, entities) in &listed.shards {
        put_shard(*shard, out)?;
        put_count(entities.len(), "entities", out)?;
        entities
            .iter()
            .try_for_each(|entity| put_id(entity, limits, out))?;
    }
    put_count(listed.homes.len(), "homes", out)?;
    for (node, shards) in &listed.homes {
        put_node(out, node)?;
        Shards::put(shards, "", limits, out)?;
    }
    listed.homes_up_to.map_or(Ok(()), |shard| put_shard(shard, out))
}

/// Who says that there are more has said something: the last of that is where the next page begins.
pub(super) fn read(reader: &mut Reader<'_>) -> Result<Listed, WireError> {
    let flags = reader.u8()?;
    if flags & !(MORE | CUT_HOMES) != 0 {
        return Err(WireError::Malformed { what: "flags" });
    }
    let (more, is_cut) = (flags & MORE != 0, flags & CUT_HOMES != 0);
    let shards = read_listed(reader)?;
    if more && shards.is_empty() {
        return Err(WireError::Malformed { what: "entities" });
    }
    let homes = read_homes(reader)?;
    let homes_up_to = match is_cut {
        true => Some(read_shard(reader)?),
        false => None,
    };
    Ok(Listed {
        shards,
        more,
        homes,
        homes_up_to,
    })
}

fn read_listed(reader: &mut Reader<'_>) -> Result<Vec<(ShardId, Vec<EntityId>)>, WireError> {
    let count = read_count(reader, SHARD_BYTES_MIN, "count of shards")?;
    let mut shards: Vec<(ShardId, Vec<EntityId>)> = Vec::with_capacity(count);
    for _ in 0..count {
        let shard = read_shard(reader)?;
        if shards.last().is_some_and(|(last, _)| *last >= shard) {
            let what = "order of shards";
            return Err(WireError::Malformed { what });
        }
        let count = read_count(reader, ID_BYTES_MIN, "count of entities")?;
        let mut entities: Vec<EntityId> = Vec::with_capacity(count);
        for _ in 0..count {
            let entity = read_id(reader)?;
            if entities.last().is_some_and(|last| *last >= entity) {
                let what = "order of entities";
                return Err(WireError::Malformed { what });
            }
            entities.push(entity);
        }
        shards.push((shard, entities));
    }
    Ok(shards)
}

fn read_homes(reader: &mut Reader<'_>) -> Result<ShardHomes, WireError> {
    let count = read_count(reader, <UniqueAddress as Form<_>>::BYTES_MIN, "homes")?;
    let mut homes = Vec::with_capacity(count);
    for _ in 0..count {
        homes.push((reader.node()?, Shards::read(reader, "")?));
    }
    Ok(homes)
}
