//! Names on the hot path: an entity kind is a 64-bit hash of its name, a shard a number, an entity a byte
//! string that the host addresses by a slot. Spec: sharding 10.5.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt;
use core::hash::Hasher;

use siphasher::sip::SipHasher13;

use crate::ident::UniqueAddress;

/// Keys of the hash that names kinds and places entities; published, because every node and every client must
/// agree.
pub(super) const HASH_KEYS: (u64, u64) = (0x5175_6f72_6174_6531, 0x5368_6172_6449_6473);

/// Most shards a kind may have. A region's registration names all its shards in one control frame: 65,536
/// numbers of at most three bytes fit into its 256 KiB.
pub const SHARDS_MAX: u32 = 65_536;

fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = SipHasher13::new_with_keys(HASH_KEYS.0, HASH_KEYS.1);
    hasher.write(bytes);
    hasher.finish()
}

/// An entity kind: the hash of its name. Two names with one hash are refused when the second is registered.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KindId(u64);

impl KindId {
    /// The id of a kind's name.
    #[must_use]
    pub fn of(name: &str) -> Self {
        Self(hash(name.as_bytes()))
    }

    /// From the wire.
    #[must_use]
    pub const fn from_raw(raw: u64) -> Self {
        Self(raw)
    }

    /// To the wire.
    #[must_use]
    pub const fn raw(self) -> u64 {
        self.0
    }
}

impl fmt::Debug for KindId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// A shard of a kind: `0..shards`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShardId(pub u32);

impl ShardId {
    /// The shard an entity belongs to. The same on every node as long as `shards` is.
    #[must_use]
    pub fn of(entity: &EntityId, shards: u32) -> Self {
        let shards = u64::from(shards.max(1));
        Self(u32::try_from(entity.hash64() % shards).unwrap_or(0))
    }
}

impl fmt::Debug for ShardId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "shard {}", self.0)
    }
}

impl fmt::Display for ShardId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// An entity's name within its kind: any bytes, usually text. Cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntityId(Arc<[u8]>);

impl EntityId {
    /// A name of any bytes. Its length is checked where it enters the node.
    #[must_use]
    pub fn new(bytes: &[u8]) -> Self {
        Self(Arc::from(bytes))
    }

    /// The published hash of its bytes.
    pub(crate) fn hash64(&self) -> u64 {
        hash(&self.0)
    }

    /// The bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl From<Arc<[u8]>> for EntityId {
    fn from(bytes: Arc<[u8]>) -> Self {
        Self(bytes)
    }
}

impl From<EntityId> for Arc<[u8]> {
    fn from(id: EntityId) -> Self {
        id.0
    }
}

impl From<&str> for EntityId {
    fn from(text: &str) -> Self {
        Self::new(text.as_bytes())
    }
}

impl fmt::Display for EntityId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.escape_ascii())
    }
}

impl fmt::Debug for EntityId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A message's bytes. The core never looks inside.
pub type Payload = Box<[u8]>;

/// Where the host keeps a running entity. A slot's index is used again with the next generation, so that a
/// late report about a stopped entity cannot be taken for its successor's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot {
    /// Position in the host's table.
    pub index: u32,
    /// Which user of that position.
    pub generation: u32,
}

/// Who waits for an answer, and under which number it knows the question.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AskRef {
    /// The asking node.
    pub asker: UniqueAddress,
    /// The asking node's number of the ask.
    pub id: u64,
}

/// Which coordinator speaks: the age and incarnation of its node. A younger one replaces an older one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Term {
    /// The coordinator node's up number.
    pub up_number: crate::membership::state::member::UpNumber,
    /// The coordinator's node.
    pub node: UniqueAddress,
}
