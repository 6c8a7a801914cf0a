//! When all clocks of a kind are looked at: nobody would send a message to those that ran on a node that was
//! lost. Never looks itself. Spec: issue "reminders"; `docs/adr/0016`.

use core::mem;

use crate::ident::{Role, UniqueAddress};
use crate::ordered::OrderedSet;
use crate::view::View;

/// Who hosted the clocks of a kind when they were looked at last, as the oldest of them sees it; nobody
/// before.
#[derive(Clone, Debug, Default)]
pub struct ClockHosts(OrderedSet<UniqueAddress>);

impl ClockHosts {
    /// Whether this node is to look at all clocks, by this picture: it has become the oldest member of the
    /// role, or a member is gone.
    pub fn is_time(&mut self, view: &View, me: &UniqueAddress, role: Option<&Role>) -> bool {
        let hosts = view.by_age(role);
        let is_mine = hosts.first().is_some_and(|oldest| oldest.node == *me);
        self.see(hosts.iter().filter(|_| is_mine).map(|host| host.node.clone()))
    }

    /// These are hosts now; none if another node looks.
    fn see(&mut self, hosts: impl Iterator<Item = UniqueAddress>) -> bool {
        let before = mem::replace(&mut self.0, hosts.collect());
        !self.0.is_empty() && (before.is_empty() || !before.is_subset(&self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ident::Address;

    #[test]
    fn the_oldest_looks_when_it_becomes_that_and_whenever_a_host_is_gone() {
        let node = |port| UniqueAddress::new(Address::new("a", port).unwrap(), u64::from(port));
        let mut hosts = ClockHosts::default();
        let mut see = |ports: &[u16]| hosts.see(ports.iter().map(|port| node(*port)));
        assert!(!see(&[]), "another node looks");
        assert!(see(&[1, 2]));
        assert!(!see(&[1, 2]) && !see(&[1, 2, 3]), "nobody is gone");
        assert!(see(&[1, 3, 4]), "one is gone, though another came");
        assert!(!see(&[1, 3, 4]) && !see(&[]));
        assert!(see(&[1, 3]), "it is the oldest again");
    }
}
