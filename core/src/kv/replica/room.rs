//! What a replica does not begin while its store has no room. Spec: sharding 5.6.

use super::RangeReplica;
use crate::kv::state::entry::KvEntry;
use crate::kv::state::exchange::KvRefusal;
use crate::kv::state::siblings::{PutError, VersionContent};

impl RangeReplica {
    /// Whether the store holds as much as it may.
    pub const fn set_full(&mut self, is_full: bool) {
        self.is_full = is_full;
    }

    /// Whether a version may be made: a deletion always.
    pub(super) fn check_room(&self, content: &VersionContent) -> Result<(), KvRefusal> {
        self.room(*content == VersionContent::Tombstone)
    }

    /// Whether a turn may begin: about a key that is held always, because it may end it.
    pub(super) fn check_turn(&self, entry: &KvEntry) -> Result<(), KvRefusal> {
        self.room(!entry.is_empty())
    }

    const fn room(&self, is_free: bool) -> Result<(), KvRefusal> {
        if self.is_full && !is_free {
            return Err(KvRefusal::Put(PutError::Full));
        }
        Ok(())
    }
}
