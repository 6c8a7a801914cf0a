//! What nodes keep in their stores, as bytes: where shards live, which entities are remembered, what was
//! promised, what a voter holds of logs. On disks, so a version only ever grows; keys and the store's own
//! seal are `journal::layout` and `store`. Spec: sharding 1.1, 1.5, 10.7, `docs/WIRE.md` 4.14.
#![deny(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

use super::declare::{ANY, Form, List, Maybe, Rises, Rising, by_hand, codes, read_whole, record, written};
use super::sharding::SHARDS;
use crate::bytes::{WireError, count_u16};
use crate::ddata::crdt::{CustomTypes, Element};
use crate::ident::UniqueAddress;
use crate::journal::protocol::PARTS_MAX;
use crate::journal::state::{LogItem, ReplicaHead, SnapshotHead, Voters};
use crate::kv::state::settings::BucketSettings;
use crate::sharding::state::ids::SHARDS_MAX;
use crate::sharding::state::kept::{
    HomeRecord, HomesChange, HomesRecord, NODES_MAX, NamesChange, NamesRecord,
};
use crate::singleton::state::StoredPromise;
use crate::store::Bytes;
use crate::token::Token;

/// What is kept in a store, behind its version.
pub(crate) trait StoredForm: Sized {
    /// As it is kept.
    ///
    /// # Errors
    /// [`WireError::Unencodable`] if a part is beyond its bounds.
    fn to_bytes(&self) -> Result<Bytes, WireError>;

    /// What [`Self::to_bytes`] gave.
    ///
    /// # Errors
    /// It was not written here.
    fn from_bytes(bytes: &[u8]) -> Result<Self, WireError>;
}

macro_rules! stored {
    ($($of:ident $version:literal)*) => {$(
        impl StoredForm for $of {
            fn to_bytes(&self) -> Result<Bytes, WireError> {
                let bytes = written(|out| {
                    out.push($version);
                    Self::put(self, "", out)
                });
                bytes.map(Bytes::from)
            }

            fn from_bytes(bytes: &[u8]) -> Result<Self, WireError> {
                read_whole(bytes, &CustomTypes::new(), |reader| match reader.u8()? {
                    $version => Self::read(reader, ""),
                    _ => Err(WireError::Malformed { what: "version" }),
                })
            }
        }
    )*};
}

stored!(HomesRecord 2 NamesRecord 1 StoredPromise 1 Voters 1 ReplicaHead 1 LogItem 1 BucketSettings 1);

// A kind that remembers its entities has had more shards once, or a region said so: they live somewhere as
// well.
record! {
    HomesRecord as "homes" {
        what: HomesChange,
        shards: u32,
        nodes: List<u16, UniqueAddress, NODES_MAX>,
        terms: List<u16, u64, NODES_MAX>,
        homes: Rising<List<u32, HomeRecord, SHARDS>>,
    } if |it| (1..=SHARDS_MAX).contains(&it.shards) && it.homes.iter().all(|home| home.shard < SHARDS_MAX)
}

codes! { HomesChange as "what" { 0 Whole, 1 Changes } }

record! { HomeRecord as "home" { shard: u32, node: u16, term: u16, count: u32 } }

record! { NamesRecord as "names" { what: NamesChange, names: Rising<List<u32, EntityName, ANY>> } }

codes! { NamesChange as "what" { 0 Whole, 1 Added, 2 Removed } }

record! { StoredPromise as "promised" { term: u64, to: Maybe<UniqueAddress> } }

record! {
    ReplicaHead as "head" { promise: Token, opener: u64, snapshot: Maybe<SnapshotHead> }
    if |head| head.snapshot.is_none_or(|snapshot| snapshot.parts <= PARTS_MAX)
}

/// The id of a remembered entity.
struct EntityName;

by_hand! {
    EntityName: Element, "name", 3, |name, what, out| match count_u16(name.len(), what)? {
        0 => Err(WireError::Unencodable { what }),
        len => {
            out.extend_from_slice(&len.to_le_bytes());
            out.extend_from_slice(name);
            Ok(())
        }
    }, |reader, what| match usize::from(reader.u16()?) {
        0 => Err(WireError::Malformed { what }),
        len => reader.take(len).map(Element::from),
    };
}

impl Rises for HomeRecord {
    fn is_below(&self, next: &Self) -> bool {
        self.shard < next.shard
    }
}

impl Rises for Element {
    fn is_below(&self, next: &Self) -> bool {
        self < next
    }
}
