//! Incarnations whose links are refused. Local knowledge: never told to others. Spec: reliability 3a.

use alloc::collections::VecDeque;

use quorate_core::ident::UniqueAddress;
use quorate_core::ordered::OrderedSet;

use crate::limits::QUARANTINE_MAX;

/// A bounded set; the oldest entry is forgotten first.
#[derive(Debug, Default)]
pub(crate) struct Quarantine {
    members: OrderedSet<UniqueAddress>,
    order: VecDeque<UniqueAddress>,
}

impl Quarantine {
    /// Adds an incarnation; says whether it is new.
    pub(crate) fn insert(&mut self, node: UniqueAddress) -> bool {
        if !self.members.insert(node.clone()) {
            return false;
        }
        self.order.push_back(node);
        if self.order.len() > QUARANTINE_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.members.remove(&oldest);
        }
        true
    }

    pub(crate) fn contains(&self, node: &UniqueAddress) -> bool {
        self.members.contains(node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_core::ident::Address;

    #[test]
    fn the_oldest_is_forgotten_when_the_list_is_full() {
        let node = |uid: usize| UniqueAddress::new(Address::new("h", 1).unwrap(), uid as u64);
        let mut list = Quarantine::default();
        for uid in 0..=QUARANTINE_MAX {
            assert!(list.insert(node(uid)));
        }
        assert!(!list.contains(&node(0)));
        assert!(list.contains(&node(1)) && list.contains(&node(QUARANTINE_MAX)));
        assert!(!list.insert(node(1)));
    }
}
