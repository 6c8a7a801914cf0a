//! The one written form of changes of a table, read and written with every length, index and order checked.
//! Spec: sharding 10.19 b, reliability 3b.
//!
//! | field | bytes |
//! |---|---|
//! | number of stores, the stores ascending | 2, 16 each |
//! | number of lost ones, their places ascending | 2, 2 each |
//! | number of entries | 2 |
//! | an entry: range, epoch, copies, least reads, least writes | 2, 8, 1, 1, 1 |
//! | its owners in their order, as many as copies | 2 each |
//! | the place of the owner who is being replaced, 255 for none; by whom | 1, 2 if one is |
#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use alloc::vec::Vec;

use super::configuration::{Configuration, Owners};
use super::table::{EPOCH_MAX, RANGES_MAX, RangeEntry, RangeId, RangeLevels, TableChange, replaced};
use crate::bytes::{BodyReader, WireError, count_u16};
use crate::journal::state::StoreId;
use crate::ordered::OrderedSet;

/// Nobody is being replaced.
const NOBODY: u8 = u8::MAX;

/// The most stores that are named in one change.
const STORES_MAX: usize = 16_384;

impl TableChange {
    /// Writes it.
    ///
    /// # Errors
    /// [`WireError`] if there is more than may be, or an entry that no range can have.
    pub fn to_bytes(&self) -> Result<Vec<u8>, WireError> {
        let mut stores: OrderedSet<StoreId> = self.lost.clone();
        for (_, entry) in &self.entries {
            stores.extend(entry.configuration.owners.all());
        }
        let stores: Vec<StoreId> = stores.into_iter().collect();
        if stores.len() > STORES_MAX {
            return Err(WireError::LimitExceeded { what: "stores" });
        }
        let mut out = Vec::new();
        put_u16(&mut out, count_u16(stores.len(), "stores")?);
        for StoreId(store) in &stores {
            out.extend_from_slice(&store.to_le_bytes());
        }
        put_u16(&mut out, count_u16(self.lost.len(), "lost stores")?);
        for store in &self.lost {
            put_store(&mut out, &stores, *store)?;
        }
        put_u16(&mut out, count_u16(self.entries.len(), "ranges")?);
        let mut next = 0;
        for (RangeId(range), entry) in &self.entries {
            if *range < next || *range >= RANGES_MAX || entry.check().is_err() {
                return Err(WireError::Unencodable { what: "range" });
            }
            next = range + 1;
            put_u16(&mut out, *range);
            put_entry(&mut out, &stores, entry)?;
        }
        Ok(out)
    }

    /// Reads one that was written with [`Self::to_bytes`].
    ///
    /// # Errors
    /// [`WireError`] if it was not.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, WireError> {
        let mut body = BodyReader::new(bytes);
        let count = usize::from(body.u16()?);
        if count > STORES_MAX {
            return Err(WireError::LimitExceeded { what: "stores" });
        }
        let column = body.column::<16>(count)?.iter();
        let stores: Vec<StoreId> = column.map(|id| StoreId(u128::from_le_bytes(id))).collect();
        if !stores.is_sorted_by(|one, other| one < other) {
            return Err(WireError::NonCanonical { what: "stores" });
        }
        let count = usize::from(body.u16()?);
        let lost: Vec<u16> = body.column::<2>(count)?.u16s().collect();
        if !lost.is_sorted_by(|one, other| one < other) {
            return Err(WireError::NonCanonical { what: "lost stores" });
        }
        let lost = lost.into_iter().map(|place| store_at(&stores, place));
        let lost = lost.collect::<Result<OrderedSet<_>, _>>()?;
        let count = body.u16()?;
        let mut entries = Vec::new();
        let mut next = 0;
        for _ in 0..count {
            let range = body.u16()?;
            if range >= RANGES_MAX {
                return Err(WireError::LimitExceeded { what: "ranges" });
            }
            if range < next {
                return Err(WireError::NonCanonical { what: "ranges" });
            }
            next = range + 1;
            entries.push((RangeId(range), entry(&mut body, &stores)?));
        }
        body.finish()?;
        Ok(Self { entries, lost })
    }
}

fn put_u16(out: &mut Vec<u8>, value: u16) {
    out.extend_from_slice(&value.to_le_bytes());
}

fn put_store(out: &mut Vec<u8>, stores: &[StoreId], store: StoreId) -> Result<(), WireError> {
    let place = stores.binary_search(&store);
    let place = place.map_err(|_| WireError::Unencodable { what: "store" })?;
    put_u16(out, count_u16(place, "stores")?);
    Ok(())
}

fn put_entry(out: &mut Vec<u8>, stores: &[StoreId], entry: &RangeEntry) -> Result<(), WireError> {
    let Configuration { epoch, owners } = &entry.configuration;
    let (from, _) = owners.sets();
    out.extend_from_slice(&epoch.to_le_bytes());
    out.extend_from_slice(&entry.levels.to_bytes());
    for store in from {
        put_store(out, stores, *store)?;
    }
    let (Some(goes), Some(comes)) = (owners.leaver(), owners.newcomer()) else {
        out.push(NOBODY);
        return Ok(());
    };
    // Another order of the owners after could not be read again.
    let is_in_place = replaced(from, goes, comes).as_ref() == Some(owners);
    let place = from
        .iter()
        .position(|store| *store == goes)
        .filter(|_| is_in_place);
    let place = place.and_then(|place| u8::try_from(place).ok());
    out.push(place.ok_or(WireError::Unencodable { what: "owners" })?);
    put_store(out, stores, comes)
}

fn store_at(stores: &[StoreId], place: u16) -> Result<StoreId, WireError> {
    let store = stores.get(usize::from(place)).copied();
    store.ok_or(WireError::DanglingIndex { what: "store" })
}

fn entry(body: &mut BodyReader<'_>, stores: &[StoreId]) -> Result<RangeEntry, WireError> {
    let epoch = body.u64()?;
    if epoch == 0 || epoch > EPOCH_MAX {
        return Err(WireError::Malformed { what: "epoch" });
    }
    let [copies, reads, writes] = body.array()?;
    let levels = RangeLevels::new(copies, reads, writes);
    let levels = levels.map_err(|_| WireError::Malformed { what: "levels" })?;
    let places = body.column::<2>(levels.copies())?.u16s();
    let from = places.map(|place| store_at(stores, place));
    let from: Vec<StoreId> = from.collect::<Result<_, _>>()?;
    let owners = match body.u8()? {
        NOBODY => Owners::Stable(from),
        place => {
            let comes = store_at(stores, body.u16()?)?;
            let goes = from.get(usize::from(place)).copied();
            let joint = goes.and_then(|goes| replaced(&from, goes, comes));
            joint.ok_or(WireError::Malformed { what: "owners" })?
        }
    };
    let configuration = Configuration { epoch, owners };
    let entry = RangeEntry {
        configuration,
        levels,
    };
    entry
        .check()
        .map_err(|_| WireError::Malformed { what: "owners" })?;
    Ok(entry)
}
