//! Questions about what nodes host, and their answers, as bytes. Unstable as all of sharding. Spec: sharding 1.3, `docs/WIRE.md` 4.11.
#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use alloc::vec::Vec;

use super::declare::Form;
use super::listing;
use super::sharding::{put_shard, read_shard};
use crate::bytes::{Reader, WireError};
use crate::config::Limits;
use crate::sharding::protocol::survey::{Placement, RegionCounts, SurveyMsg};
use crate::sharding::state::ids::{KindId, SHARDS_MAX};

const QUERY: u8 = 1;
const COUNTS: u8 = 2;
const WHERE: u8 = 3;
const THERE: u8 = 4;
const LIST: u8 = 5;
const ENTITIES: u8 = 6;

/// A shard in a list takes two bytes, and four for its entities.
const SHARD_BYTES: usize = 6;

pub(super) fn put(message: &SurveyMsg, limits: &Limits, out: &mut Vec<u8>) -> Result<(), WireError> {
    match message {
        SurveyMsg::Query { id, kind } => {
            out.push(QUERY);
            out.extend_from_slice(&id.to_le_bytes());
            out.extend_from_slice(&kind.raw().to_le_bytes());
            Ok(())
        }
        SurveyMsg::Counts { id, region, more } => {
            out.push(COUNTS);
            out.extend_from_slice(&id.to_le_bytes());
            out.push(u8::from(region.is_some()));
            region.as_ref().map_or(Ok(()), |region| {
                out.push(u8::from(*more));
                put_counts(region, out)
            })
        }
        SurveyMsg::Where { id, kind, shard } => {
            out.push(WHERE);
            out.extend_from_slice(&id.to_le_bytes());
            out.extend_from_slice(&kind.raw().to_le_bytes());
            put_shard(*shard, out)
        }
        SurveyMsg::There { id, placement } => {
            out.push(THERE);
            out.extend_from_slice(&id.to_le_bytes());
            out.push(u8::from(placement.is_some()));
            placement
                .as_ref()
                .map_or(Ok(()), |placement| Placement::put(placement, "", limits, out))
        }
        SurveyMsg::List {
            id,
            kind,
            after,
            bytes,
        } => {
            out.push(LIST);
            out.extend_from_slice(&id.to_le_bytes());
            out.extend_from_slice(&kind.raw().to_le_bytes());
            out.extend_from_slice(&bytes.to_le_bytes());
            listing::put_position(after.as_ref(), limits, out)
        }
        SurveyMsg::Entities { id, listed } => {
            out.push(ENTITIES);
            out.extend_from_slice(&id.to_le_bytes());
            out.push(u8::from(listed.is_some()));
            listed
                .as_ref()
                .map_or(Ok(()), |listed| listing::put(listed, limits, out))
        }
    }
}

pub(super) fn read(reader: &mut Reader<'_>) -> Result<SurveyMsg, WireError> {
    let tag = reader.u8()?;
    let id = reader.u64()?;
    match tag {
        QUERY => Ok(SurveyMsg::Query {
            id,
            kind: KindId::from_raw(reader.u64()?),
        }),
        COUNTS => {
            let (more, region) = match reader.bool("region")? {
                true => (reader.bool("more")?, Some(read_counts(reader)?)),
                false => (false, None),
            };
            Ok(SurveyMsg::Counts { id, region, more })
        }
        WHERE => Ok(SurveyMsg::Where {
            id,
            kind: KindId::from_raw(reader.u64()?),
            shard: read_shard(reader)?,
        }),
        THERE => {
            let placement = match reader.bool("placement")? {
                true => Some(Placement::read(reader, "")?),
                false => None,
            };
            Ok(SurveyMsg::There { id, placement })
        }
        LIST => {
            let (kind, bytes) = (KindId::from_raw(reader.u64()?), reader.u32()?);
            let after = listing::read_position(reader)?;
            Ok(SurveyMsg::List {
                id,
                kind,
                after,
                bytes,
            })
        }
        ENTITIES => {
            let listed = match reader.bool("entities")? {
                true => Some(listing::read(reader)?),
                false => None,
            };
            Ok(SurveyMsg::Entities { id, listed })
        }
        _ => Err(WireError::Malformed { what: "survey" }),
    }
}

fn put_counts(region: &RegionCounts, out: &mut Vec<u8>) -> Result<(), WireError> {
    let count = u32::try_from(region.shards.len()).map_err(|_| WireError::Unencodable { what: "shards" })?;
    out.extend_from_slice(&region.shards_total.to_le_bytes());
    out.extend_from_slice(&region.entities_total.to_le_bytes());
    out.extend_from_slice(&count.to_le_bytes());
    for (shard, entities) in &region.shards {
        put_shard(*shard, out)?;
        out.extend_from_slice(&entities.to_le_bytes());
    }
    Ok(())
}

fn read_counts(reader: &mut Reader<'_>) -> Result<RegionCounts, WireError> {
    let (shards_total, entities_total) = (reader.u32()?, reader.u64()?);
    let count = reader.u32()? as usize;
    if shards_total > SHARDS_MAX || count > shards_total as usize || count > reader.rest().len() / SHARD_BYTES
    {
        return Err(WireError::Malformed {
            what: "count of shards",
        });
    }
    let mut shards = Vec::with_capacity(count);
    for _ in 0..count {
        let shard = read_shard(reader)?;
        if shards.last().is_some_and(|(last, _)| *last >= shard) {
            return Err(WireError::Malformed {
                what: "order of shards",
            });
        }
        shards.push((shard, reader.u32()?));
    }
    Ok(RegionCounts {
        shards,
        shards_total,
        entities_total,
    })
}
