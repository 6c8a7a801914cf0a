//! Which slot of the host's table an entity lives in. Reuses an index only after the host has reported that
//! its last user stopped, and then with the next generation. Spec: sharding 10.5.

use alloc::vec::Vec;

use crate::sharding::state::ids::{EntityId, KindId, ShardId, Slot};

/// Who lives, or lived last, in a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tenant {
    pub(crate) kind: KindId,
    pub(crate) shard: ShardId,
    pub(crate) entity: EntityId,
}

#[derive(Clone, Debug)]
struct SlotEntry {
    generation: u32,
    taken: bool,
    tenant: Tenant,
}

/// The slots of one node, shared by all kinds. As long as the most entities that ran at once.
#[derive(Clone, Debug, Default)]
pub(crate) struct EntitySlots {
    entries: Vec<SlotEntry>,
    free: Vec<u32>,
}

impl EntitySlots {
    /// A slot nobody uses. `None` when all 2^32 are taken, which memory forbids long before.
    pub(crate) fn take(&mut self, tenant: Tenant) -> Option<Slot> {
        if let Some(index) = self.free.pop() {
            let entry = self.entries.get_mut(index as usize)?;
            entry.generation = entry.generation.wrapping_add(1);
            entry.taken = true;
            entry.tenant = tenant;
            return Some(Slot {
                index,
                generation: entry.generation,
            });
        }
        let index = u32::try_from(self.entries.len()).ok()?;
        self.entries.push(SlotEntry {
            generation: 0,
            taken: true,
            tenant,
        });
        Some(Slot { index, generation: 0 })
    }

    /// Frees a slot and says who lived there; `None` for a slot that is not in use, or not by this
    /// generation.
    pub(crate) fn release(&mut self, slot: Slot) -> Option<Tenant> {
        let entry = self.entries.get_mut(slot.index as usize)?;
        if entry.generation != slot.generation || !entry.taken {
            return None;
        }
        entry.taken = false;
        self.free.push(slot.index);
        Some(entry.tenant.clone())
    }

    /// Who lives in a slot, or lived there last if nobody has moved in since.
    pub(crate) fn tenant(&self, slot: Slot) -> Option<&Tenant> {
        let entry = self.entries.get(slot.index as usize)?;
        (entry.generation == slot.generation).then_some(&entry.tenant)
    }

    /// Whether somebody lives in a slot.
    pub(crate) fn is_taken(&self, slot: Slot) -> bool {
        let entry = self.entries.get(slot.index as usize);
        entry.is_some_and(|entry| entry.taken && entry.generation == slot.generation)
    }

    /// How many slots are in use.
    pub(crate) fn in_use(&self) -> usize {
        self.entries.len() - self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(entity: &str) -> Tenant {
        Tenant {
            kind: KindId::of("files"),
            shard: ShardId(3),
            entity: EntityId::from(entity),
        }
    }

    #[test]
    fn a_slot_is_used_again_with_the_next_generation_only() {
        let mut slots = EntitySlots::default();
        let first = slots.take(tenant("a")).unwrap();
        let other = slots.take(tenant("b")).unwrap();
        assert_eq!((first.index, other.index, slots.in_use()), (0, 1, 2));
        assert_eq!(slots.release(first), Some(tenant("a")));
        assert_eq!(slots.release(first), None, "stopped twice");
        assert_eq!(slots.tenant(first), Some(&tenant("a")));
        let again = slots.take(tenant("c")).unwrap();
        assert_eq!(
            again,
            Slot {
                index: 0,
                generation: 1
            }
        );
        assert_eq!(slots.tenant(first), None);
        assert_eq!(slots.release(first), None);
        assert_eq!(slots.release(again), Some(tenant("c")));
    }
}
