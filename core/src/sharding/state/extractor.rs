//! Which shard an entity belongs to: functions of its id and the number of shards, the same on every node.
//! Decides nothing else. Spec: sharding 1.0, S-045.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use core::cmp::Ordering;
use core::fmt;

use crate::sharding::state::fields::EXTRACTOR_BYTES_MAX;
use crate::sharding::state::ids::{EntityId, ShardId};

/// How entities of a kind are assigned to shards. The same on every node as long as the cluster runs: a node
/// with another one is refused.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum ShardExtractor {
    /// SipHash 1-3 of the id with published keys.
    #[default]
    SipHash,
    /// As Kafka's default partitioner: where the messages of a topic with as many partitions as the kind has
    /// shards come from, an entity lives in the shard of its key's partition.
    Kafka,
    /// A function of the user's own, by its name.
    Custom(CustomExtractor),
}

/// A function of an id and the number of shards, and the name by which nodes compare it: give it another one
/// whenever it changes.
#[derive(Clone)]
pub struct CustomExtractor(Arc<NamedExtractor>);

type ShardOf = dyn Fn(&EntityId, u32) -> u32 + Send + Sync;

struct NamedExtractor {
    name: String,
    shard_of: Box<ShardOf>,
}

impl fmt::Debug for CustomExtractor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CustomExtractor").field(&self.0.name).finish()
    }
}

impl PartialEq for CustomExtractor {
    /// As nodes compare them: by name.
    fn eq(&self, other: &Self) -> bool {
        self.0.name == other.0.name
    }
}

impl Eq for CustomExtractor {}

impl PartialOrd for CustomExtractor {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for CustomExtractor {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.name.cmp(&other.0.name)
    }
}

impl ShardExtractor {
    /// Names of custom extractors begin so for those who compare them: none is taken for one of the others.
    const CUSTOM: &'static str = "custom:";

    /// A function of the application: pure, with the same result for an id on every node and at any time. It
    /// is given the number of shards, at least 1; of a larger result the remainder counts. Called for each
    /// message, by the node that sends it, on the thread that answers heartbeats: it must neither wait nor be
    /// long. Where it panics the first shard counts, and the log says so. The name has 1 to 57 bytes, which
    /// registration checks.
    #[must_use]
    pub fn custom(name: &str, shard_of: impl Fn(&EntityId, u32) -> u32 + Send + Sync + 'static) -> Self {
        Self::Custom(CustomExtractor(Arc::new(NamedExtractor {
            name: alloc::format!("{}{name}", Self::CUSTOM),
            shard_of: Box::new(shard_of),
        })))
    }

    /// The same, with something of the host's around each call of a function of the user's own: what survives
    /// a panic in it, for instance.
    #[must_use]
    pub fn around(self, around: impl Fn(&EntityId, &dyn Fn() -> u32) -> u32 + Send + Sync + 'static) -> Self {
        match self {
            Self::SipHash | Self::Kafka => self,
            Self::Custom(custom) => Self::Custom(CustomExtractor(Arc::new(NamedExtractor {
                name: custom.0.name.clone(),
                shard_of: Box::new(move |id, shards| around(id, &|| (custom.0.shard_of)(id, shards))),
            }))),
        }
    }

    /// The name that nodes compare.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::SipHash => "siphash-1-3",
            Self::Kafka => "kafka-murmur2",
            Self::Custom(custom) => &custom.0.name,
        }
    }

    /// Whether its name can be told to others.
    pub(crate) fn is_legal(&self) -> bool {
        match self {
            Self::SipHash | Self::Kafka => true,
            Self::Custom(custom) => {
                (Self::CUSTOM.len() + 1..=EXTRACTOR_BYTES_MAX).contains(&custom.0.name.len())
            }
        }
    }

    /// The shard of an entity among so many; the first one if there is none.
    #[must_use]
    pub fn shard_of(&self, entity: &EntityId, shards: u32) -> ShardId {
        match self {
            Self::SipHash => ShardId::of(entity, shards),
            Self::Kafka => ShardId((murmur2(entity.as_bytes()) & 0x7FFF_FFFF) % shards.max(1)),
            Self::Custom(custom) => {
                let shards = shards.max(1);
                ShardId((custom.0.shard_of)(entity, shards) % shards)
            }
        }
    }
}

/// MurmurHash 2 of 32 bits with Kafka's seed.
fn murmur2(bytes: &[u8]) -> u32 {
    const SEED: u32 = 0x9747_B28C;
    const M: u32 = 0x5BD1_E995;
    const R: u32 = 24;
    // Ids are far shorter than 4 GiB.
    let mut hash = SEED ^ bytes.len() as u32;
    let (words, rest) = bytes.as_chunks::<4>();
    for word in words {
        let mut k = u32::from_le_bytes(*word).wrapping_mul(M);
        k = (k ^ (k >> R)).wrapping_mul(M);
        hash = hash.wrapping_mul(M) ^ k;
    }
    for (at, byte) in rest.iter().enumerate() {
        hash ^= u32::from(*byte) << (8 * at);
    }
    if !rest.is_empty() {
        hash = hash.wrapping_mul(M);
    }
    hash = (hash ^ (hash >> 13)).wrapping_mul(M);
    hash ^ (hash >> 15)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s_045_the_hash_is_kafkas() {
        for (text, hash) in [
            ("1", -1_993_445_489),
            ("12", 126_087_238),
            ("123", -267_702_483),
            ("1234", -1_614_185_708),
            ("12345", -1_188_365_604),
        ] {
            assert_eq!(murmur2(text.as_bytes()).cast_signed(), hash, "{text}");
            let positive = u32::try_from(i64::from(hash) & 0x7FFF_FFFF).unwrap();
            let found = ShardExtractor::Kafka.shard_of(&EntityId::from(text), 1_000);
            assert_eq!(found, ShardId(positive % 1_000));
        }
    }

    #[test]
    fn custom_ones_are_compared_by_name_and_never_taken_for_another() {
        let custom = |name: &str, shard| ShardExtractor::custom(name, move |_, _| shard);
        assert_eq!(custom("a", 1), custom("a", 2));
        assert_ne!(custom("a", 1), custom("b", 1));
        assert_ne!(custom("siphash-1-3", 1).name(), ShardExtractor::SipHash.name());
        assert!(custom("a", 1).is_legal() && custom(&"a".repeat(57), 1).is_legal());
        assert!(!custom("", 1).is_legal() && !custom(&"a".repeat(58), 1).is_legal());
        assert_eq!(custom("a", 5).shard_of(&EntityId::from("x"), 7), ShardId(5));
    }

    #[test]
    fn what_is_around_an_extractor_changes_neither_its_name_nor_one_that_is_not_the_users() {
        let seven = |_: &EntityId, of: &dyn Fn() -> u32| of() + 7;
        let around = ShardExtractor::custom("a", |_, _| 1).around(seven);
        assert_eq!(around, ShardExtractor::custom("a", |_, _| 1));
        assert_eq!(around.shard_of(&EntityId::from("x"), 10), ShardId(8));
        for own in [ShardExtractor::SipHash, ShardExtractor::Kafka] {
            assert_eq!(own.clone().around(seven), own);
        }
    }

    #[test]
    fn an_extractor_stays_within_the_shards() {
        let far = ShardExtractor::custom("far", |_, _| u32::MAX);
        for extractor in [ShardExtractor::SipHash, ShardExtractor::Kafka, far] {
            let id = |number: u32| EntityId::new(&number.to_le_bytes());
            assert!((0..1_000).all(|number| extractor.shard_of(&id(number), 7).0 < 7));
            assert_eq!(extractor.shard_of(&id(1), 0), ShardId(0));
        }
    }
}
