//! What a handle and its calls know of a bucket. Values only. Spec: sharding 10.11.

use std::sync::Arc;

use quorate_core::kv::state::bucket::BucketName;
use quorate_core::kv::state::level::Level;

use crate::shared::Shared;

/// Makes one value of two siblings.
pub(super) type Merge<V> = Arc<dyn Fn(V, V) -> V + Send + Sync>;

/// What calls need to know.
pub(super) struct Bucket<V> {
    pub(super) shared: Arc<Shared>,
    pub(super) name: BucketName,
    pub(super) reads: Level,
    pub(super) writes: Level,
    pub(super) merge: Option<Merge<V>>,
}
