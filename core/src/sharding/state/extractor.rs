//! Which shard an entity belongs to: functions of its id and the number of shards, the same on every node. Decides nothing else.
//! Spec: sharding 1.0, S-045.

use crate::sharding::state::ids::{EntityId, ShardId};

/// How the entities of a kind find their shards. The same on every node as long as the cluster runs: a node with another one is
/// refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum ShardExtractor {
    /// SipHash 1-3 of the id with published keys.
    #[default]
    SipHash,
    /// As Kafka's default partitioner: where the messages of a topic with as many partitions as the kind has shards come from, an
    /// entity lives in the shard of its key's partition.
    Kafka,
}

impl ShardExtractor {
    /// What nodes compare.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::SipHash => "siphash-1-3",
            Self::Kafka => "kafka-murmur2",
        }
    }

    /// The shard of an entity among so many; the first one if there is none.
    #[must_use]
    pub fn shard_of(self, entity: &EntityId, shards: u32) -> ShardId {
        match self {
            Self::SipHash => ShardId::of(entity, shards),
            Self::Kafka => ShardId((murmur2(entity.as_bytes()) & 0x7FFF_FFFF) % shards.max(1)),
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
    fn an_extractor_stays_within_the_shards() {
        for extractor in [ShardExtractor::SipHash, ShardExtractor::Kafka] {
            let id = |number: u32| EntityId::new(&number.to_le_bytes());
            assert!((0..1_000).all(|number| extractor.shard_of(&id(number), 7).0 < 7));
            assert_eq!(extractor.shard_of(&id(1), 0), ShardId(0));
        }
    }
}
