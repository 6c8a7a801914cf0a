//! When all clocks of a kind are looked at: nobody would send a message to those that ran on a node that was
//! lost. Never looks itself. Spec: issue "reminders"; `docs/adr/0016`.

use alloc::sync::Arc;
use core::mem;

use crate::ident::{Role, UniqueAddress};
use crate::ordered::OrderedSet;
use crate::view::View;

/// Which members had been removed when all clocks of a kind were looked at last, as the oldest member sees
/// it; `None` where another one is that. Who was a member only between two looks was removed too, and may
/// have run clocks.
#[derive(Clone, Debug, Default)]
pub struct ClockWatch(Option<Arc<OrderedSet<UniqueAddress>>>);

impl ClockWatch {
    /// Whether this node is to look at all clocks, by this picture: it has become the oldest member of the
    /// role, or a member was removed.
    pub fn is_time(&mut self, view: &View, me: &UniqueAddress, role: Option<&Role>) -> bool {
        let hosts = view.by_age(role);
        let is_mine = hosts.first().is_some_and(|oldest| oldest.node == *me);
        self.see(is_mine.then(|| Arc::clone(view.gossip().tombstones_arc())))
    }

    /// These were removed; `None` if another node looks.
    fn see(&mut self, removed: Option<Arc<OrderedSet<UniqueAddress>>>) -> bool {
        let before = mem::replace(&mut self.0, removed);
        match (before, &self.0) {
            (_, None) => false,
            (None, Some(_)) => true,
            (Some(before), Some(removed)) => !Arc::ptr_eq(&before, removed) && !removed.is_subset(&before),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ident::Address;

    #[test]
    fn the_oldest_looks_when_it_becomes_that_and_whenever_a_member_was_removed() {
        let node = |port| UniqueAddress::new(Address::new("a", port).unwrap(), u64::from(port));
        let mut watch = ClockWatch::default();
        let mut see = |removed: Option<&[u16]>| {
            let removed = removed.map(|ports| Arc::new(ports.iter().map(|port| node(*port)).collect()));
            watch.see(removed)
        };
        assert!(!see(None), "another node looks");
        assert!(see(Some(&[1])), "it is the oldest");
        assert!(!see(Some(&[1])));
        assert!(see(Some(&[1, 2])), "one was removed");
        assert!(!see(Some(&[2])), "the first is forgotten");
        assert!(see(Some(&[3])), "one was removed as another was forgotten");
        assert!(!see(None) && see(Some(&[3])), "it is the oldest again");
    }
}
