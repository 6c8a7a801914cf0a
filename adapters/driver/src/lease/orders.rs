//! Orders on their way to a keeper that may be slow: the newest per lease, in the order in which leases were
//! first asked about. Never refuses one and never grows beyond the leases that there are, because an order
//! replaces the one before it. Spec: reliability I-26.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Instant;

use quorate_core::lease::protocol::{LeaseName, LeaseOrder};
use quorate_core::ordered::OrderedMap;

use crate::sync::lock;

#[derive(Debug, Default)]
struct OrdersInner {
    turn: VecDeque<LeaseName>,
    waiting: OrderedMap<LeaseName, LeaseOrder>,
    ended: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct LeaseOrders {
    inside: Mutex<OrdersInner>,
    changed: Condvar,
}

/// What [`LeaseOrders::next`] found.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NextLeaseOrder {
    Order(LeaseOrder),
    /// None came until then.
    Due,
    /// There will be none.
    Ended,
}

impl LeaseOrders {
    /// Puts an order in, in place of an older one for the same lease that nobody has begun with.
    pub(super) fn push(&self, order: LeaseOrder) {
        let (LeaseOrder::Acquire { name, .. } | LeaseOrder::Release { name, .. }) = &order;
        let name = LeaseName::clone(name);
        let mut inside = lock(&self.inside);
        if inside.waiting.insert(LeaseName::clone(&name), order).is_none() {
            inside.turn.push_back(name);
        }
        drop(inside);
        self.changed.notify_one();
    }

    /// There will be no more. What waits to be given back still is; nothing more is asked for.
    pub(super) fn end(&self) {
        lock(&self.inside).ended = true;
        self.changed.notify_one();
    }

    /// Waits for the next order, until `due` if that is given.
    pub(super) fn next(&self, due: Option<Instant>) -> NextLeaseOrder {
        let mut inside = lock(&self.inside);
        loop {
            while let Some(name) = inside.turn.pop_front() {
                match inside.waiting.remove(&name) {
                    Some(LeaseOrder::Acquire { .. }) if inside.ended => {}
                    Some(order) => return NextLeaseOrder::Order(order),
                    None => {}
                }
            }
            if inside.ended {
                return NextLeaseOrder::Ended;
            }
            inside = match due {
                None => self.changed.wait(inside).unwrap_or_else(PoisonError::into_inner),
                Some(due) => {
                    let left = due.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return NextLeaseOrder::Due;
                    }
                    let waited = self.changed.wait_timeout(inside, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use quorate_core::ident::{Address, UniqueAddress};

    use super::*;

    fn acquire(name: &str) -> LeaseOrder {
        let owner = UniqueAddress::new(Address::new("host", 1).unwrap(), 1);
        LeaseOrder::Acquire {
            name: name.into(),
            owner,
            time_to_live: Duration::from_secs(1),
        }
    }

    fn release(name: &str) -> LeaseOrder {
        let owner = UniqueAddress::new(Address::new("host", 1).unwrap(), 1);
        LeaseOrder::Release {
            name: name.into(),
            owner,
        }
    }

    #[test]
    fn the_newest_order_of_each_lease_is_done_and_none_is_refused() {
        let orders = LeaseOrders::default();
        for _ in 0..3 {
            for lease in 0..300 {
                orders.push(acquire(&lease.to_string()));
            }
        }
        orders.push(release("7"));
        let now = Some(Instant::now());
        for lease in 0..300 {
            let order = if lease == 7 {
                release("7")
            } else {
                acquire(&lease.to_string())
            };
            assert_eq!(orders.next(now), NextLeaseOrder::Order(order));
        }
        assert_eq!(orders.next(now), NextLeaseOrder::Due);
        orders.push(acquire("7"));
        orders.push(release("8"));
        orders.end();
        assert_eq!(
            orders.next(None),
            NextLeaseOrder::Order(release("8")),
            "somebody waits for it"
        );
        assert_eq!(orders.next(None), NextLeaseOrder::Ended);
    }
}
