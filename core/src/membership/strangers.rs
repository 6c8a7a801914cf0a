//! Senders that gossip as members do and are none here: let in by members that were removed before anybody
//! else had heard of it, or removed so long ago that their tombstone is gone. Values only. Spec: membership
//! 8.13.

use core::time::Duration;

use crate::ident::UniqueAddress;
use crate::ordered::OrderedMap;
use crate::time::Instant;

/// Strangers that are remembered: who finds no room takes the place of the one heard longest ago, and is told
/// later.
const STRANGERS_MAX: usize = 64;

/// Since when each of them gossips, and when it was heard last.
#[derive(Clone, Debug, Default)]
pub(super) struct Strangers(OrderedMap<UniqueAddress, Heard>);

#[derive(Clone, Copy, Debug)]
struct Heard {
    first: Instant,
    last: Instant,
}

impl Strangers {
    /// Somebody is out of reach who may have let them in: all of it begins anew.
    pub(super) fn forget(&mut self) {
        self.0.clear();
    }

    /// A stranger gossips; says whether it has for so long that who let it in would have said so by now.
    pub(super) fn has_gossiped_for(
        &mut self,
        node: &UniqueAddress,
        now: Instant,
        patience: Duration,
    ) -> bool {
        // Silence of that length is a new beginning: meanwhile it may have been let in by others.
        self.0.retain(|_, heard| now.since(heard.last) <= patience);
        if !self.0.contains_key(node) && self.0.len() >= STRANGERS_MAX {
            let oldest = self.0.iter().min_by_key(|(_, heard)| heard.last);
            if let Some(oldest) = oldest.map(|(node, _)| node.clone()) {
                self.0.remove(&oldest);
            }
        }
        let new = Heard {
            first: now,
            last: now,
        };
        let heard = self.0.entry(node.clone()).or_insert(new);
        heard.last = now;
        now.since(heard.first) >= patience
    }
}

#[cfg(test)]
mod tests {
    use super::{STRANGERS_MAX, Strangers};
    use crate::ident::{Address, UniqueAddress};
    use crate::time::Instant;
    use core::time::Duration;

    const PATIENCE: Duration = Duration::from_secs(10);

    fn node(uid: u64) -> UniqueAddress {
        UniqueAddress::new(Address::new("a", 1).expect("an address"), uid)
    }

    fn at(secs: u64) -> Instant {
        Instant::default() + Duration::from_secs(secs)
    }

    #[test]
    fn who_gossips_without_a_long_gap_has_gossiped_since_the_first_time() {
        let mut strangers = Strangers::default();
        let said = [0, 5, 9, 10, 12].map(|secs| strangers.has_gossiped_for(&node(1), at(secs), PATIENCE));
        assert_eq!(said, [false, false, false, true, true]);
        assert!(
            !strangers.has_gossiped_for(&node(1), at(23), PATIENCE),
            "after a gap of 11 s"
        );
    }

    #[test]
    fn a_flood_of_strangers_takes_no_more_room_and_drops_who_was_heard_longest_ago() {
        let mut strangers = Strangers::default();
        let flood = 2 * u64::try_from(STRANGERS_MAX).expect("few");
        strangers.has_gossiped_for(&node(0), at(0), PATIENCE);
        for uid in 1..flood {
            strangers.has_gossiped_for(&node(uid), at(1), PATIENCE);
            strangers.has_gossiped_for(&node(0), at(2), PATIENCE);
        }
        assert_eq!(strangers.0.len(), STRANGERS_MAX);
        assert!(strangers.has_gossiped_for(&node(0), at(10), PATIENCE));
        assert!(!strangers.has_gossiped_for(&node(1), at(11), PATIENCE));
    }
}
