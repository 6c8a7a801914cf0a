//! What a store keeps of a range beside its entries. These bytes are on disks: they only ever grow. Spec:
//! sharding 10.19 b.

use alloc::vec::Vec;

use crate::bytes::{BodyReader, WireError};
use crate::journal::state::StoreId;
use crate::kv::state::configuration::{Configuration, OWNERS_MAX, Owners};

pub(super) fn encode(since: u64, configuration: &Configuration) -> Vec<u8> {
    let mut out = Vec::new();
    out.extend_from_slice(&since.to_le_bytes());
    out.extend_from_slice(&configuration.epoch.to_le_bytes());
    let (from, to) = configuration.owners.sets();
    out.push(u8::from(to.is_some()));
    put_stores(&mut out, from);
    if let Some(to) = to {
        put_stores(&mut out, to);
    }
    out
}

fn put_stores(out: &mut Vec<u8>, stores: &[StoreId]) {
    // Owners that were checked are few.
    out.push(u8::try_from(stores.len()).unwrap_or(u8::MAX));
    for store in stores {
        out.extend_from_slice(&store.0.to_le_bytes());
    }
}

pub(super) fn decode(bytes: &[u8]) -> Result<(u64, Configuration), WireError> {
    let mut reader = BodyReader::new(bytes);
    let since = reader.u64()?;
    let epoch = reader.u64()?;
    let is_joint = reader.bool("owners")?;
    let from = take_stores(&mut reader)?;
    let owners = if is_joint {
        let to = take_stores(&mut reader)?;
        Owners::Joint { from, to }
    } else {
        Owners::Stable(from)
    };
    reader.finish()?;
    if epoch == 0 || since > epoch || owners.check().is_err() {
        return Err(WireError::Malformed { what: "owners" });
    }
    Ok((since, Configuration { epoch, owners }))
}

fn take_stores(from: &mut BodyReader<'_>) -> Result<Vec<StoreId>, WireError> {
    let count = usize::from(from.u8()?);
    if count > OWNERS_MAX {
        return Err(WireError::LimitExceeded { what: "owners" });
    }
    let ids = from.column::<16>(count)?;
    Ok(ids.iter().map(|id| StoreId(u128::from_le_bytes(id))).collect())
}
