//! What a kind remembers of its entities: which ids a shard has, and which shards there are. An id is stored before its entity handles
//! anything. Holds no entity and sends no message. Spec: sharding 1.5, 10.10; issue "remember entities".
//!
//! `batches`: what is to be written, one write at a time. `set`: a set of names in a store, read and written with repetitions.
//! `keys`: how these are called there. `recovery`: when a remembered entity is started. `moves`: those that belong to
//! another shard by now.

mod batches;
mod keys;
mod moves;
mod recovery;
mod set;

pub(super) use batches::{Batches, Update};
pub(super) use keys::{NAME_BYTES_MAX, coordinator_keys, coordinator_part, shard_keys};
pub(super) use moves::Moves;
pub(super) use recovery::Recovery;
pub(super) use set::{Done, READ_ATTEMPTS, StoredSet, by_hash};
