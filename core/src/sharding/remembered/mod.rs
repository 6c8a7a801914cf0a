//! What a kind remembers of its entities: which ids a shard has, and which shards there are. An id is stored
//! before its entity handles anything. Holds no entity and sends no message. Spec: sharding 1.5, 10.10; issue
//! "remember entities".
//!
//! `batches`: what is to be written, one write at a time. `store`: a set of names that is read and written,
//! kept by `set` in replicated data or by `log` in a log (`names`: what that amounts to; `record`: its
//! bytes). `keys`: how these are called there. `recovery`: when a remembered entity is started. `moves`:
//! those that belong to another shard by now.

mod batches;
mod keys;
mod log;
mod moves;
mod names;
mod record;
mod recovery;
mod set;
mod store;

pub(super) use batches::{NameBatches, NameUpdate};
pub(super) use keys::{
    NAME_BYTES_MAX, coordinator_keys, coordinator_part, shard_keys, shard_log, shards_log,
};
pub use keys::{is_remembered_key, remembered_keys, remembered_logs, remembered_range};
pub(super) use log::StoredLog;
pub(super) use moves::EntityMoves;
pub(super) use recovery::EntitiesToStart;
pub(super) use set::{QuestionOutcome, READ_ATTEMPTS, StoredSet, by_hash};
pub(super) use store::NameStore;
