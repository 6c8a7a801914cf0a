//! Questions about what nodes host, and their answers, as bytes. Unstable as all of sharding. Spec: sharding 1.3, `docs/WIRE.md` 4.11.
#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use alloc::vec::Vec;

use super::sharding::{put_shard, read_shard};
use crate::bytes::{Reader, WireError};
use crate::sharding::protocol::survey::{RegionCounts, SurveyMsg};
use crate::sharding::state::ids::{KindId, SHARDS_MAX};

const QUERY: u8 = 1;
const COUNTS: u8 = 2;

/// A shard in a list takes two bytes, and four for its entities.
const SHARD_BYTES: usize = 6;

pub(super) fn put(message: &SurveyMsg, out: &mut Vec<u8>) -> Result<(), WireError> {
    match message {
        SurveyMsg::Query { id, kind } => {
            out.push(QUERY);
            out.extend_from_slice(&id.to_le_bytes());
            out.extend_from_slice(&kind.raw().to_le_bytes());
            Ok(())
        }
        SurveyMsg::Counts { id, region } => {
            out.push(COUNTS);
            out.extend_from_slice(&id.to_le_bytes());
            out.push(u8::from(region.is_some()));
            region.as_ref().map_or(Ok(()), |region| put_counts(region, out))
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
            let region = match reader.bool("region")? {
                true => Some(read_counts(reader)?),
                false => None,
            };
            Ok(SurveyMsg::Counts { id, region })
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
