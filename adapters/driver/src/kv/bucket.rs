//! What a handle and its calls know of a bucket. Values only. Spec: sharding 10.11.

use std::sync::Arc;

use quorate_core::kv::state::bucket::BucketName;
use quorate_core::kv::state::level::Level;

use crate::shared::Shared;

/// Keys of one [`Kv::get_many`](super::Kv::get_many) or [`Kv::put_many`](super::Kv::put_many) at most.
pub const MANY_KEYS_MAX: usize = 4_096;

/// Bytes of values that one [`Kv::put_many`](super::Kv::put_many) takes at most, and after which a
/// [`Kv::get_many`](super::Kv::get_many) reads no further key.
pub const MANY_BYTES_MAX: usize = 16 << 20;

/// Makes one value of two siblings.
pub(super) type Merge<V> = Arc<dyn Fn(V, V) -> V + Send + Sync>;

/// What calls need to know.
pub(super) struct Bucket<V> {
    pub(super) shared: Arc<Shared>,
    pub(super) name: BucketName,
    pub(super) ranges: u16,
    pub(super) reads: Level,
    pub(super) writes: Level,
    pub(super) merge: Option<Merge<V>>,
}
