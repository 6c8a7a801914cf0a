//! A lease kept in memory, for tests and the simulator: exclusive by name, with a time to live and a token
//! that grows with every change of hands. Its keeper says who is heard of; it decides nothing else. Spec:
//! membership 3.6, reliability I-26.

use std::collections::BTreeMap;

use quorate_core::ident::UniqueAddress;
use quorate_core::lease::protocol::{LeaseName, LeaseOrder, LeaseOutcome, LeaseReport};

/// All leases of one keeper. Times are microseconds of whatever clock the caller goes by.
#[derive(Clone, Debug, Default)]
pub struct MemoryLeases {
    leases: BTreeMap<LeaseName, Held>,
}

#[derive(Clone, Debug)]
struct Held {
    /// Nobody after a release.
    owner: Option<UniqueAddress>,
    token: u64,
    expires_at: u64,
    time_to_live: u64,
}

impl MemoryLeases {
    /// Does what is asked and answers.
    pub fn obey(&mut self, now: u64, order: LeaseOrder) -> LeaseReport {
        match order {
            LeaseOrder::Acquire {
                name,
                owner,
                time_to_live,
            } => {
                let time_to_live = u64::try_from(time_to_live.as_micros()).unwrap_or(u64::MAX);
                let outcome = self.acquire(now, &name, owner, time_to_live);
                LeaseReport { name, outcome }
            }
            LeaseOrder::Release { name, owner } => {
                if let Some(held) = self.leases.get_mut(&name) {
                    held.owner = held.owner.take().filter(|holder| *holder != owner);
                }
                LeaseReport {
                    name,
                    outcome: LeaseOutcome::Released,
                }
            }
        }
    }

    /// The owner is alive: what it holds and has not lost yet lives on. Whether it holds it.
    pub fn renew(&mut self, now: u64, owner: &UniqueAddress, name: &str) -> bool {
        let mine = |held: &&mut Held| held.owner.as_ref() == Some(owner) && now < held.expires_at;
        let Some(held) = self.leases.get_mut(name).filter(mine) else {
            return false;
        };
        held.expires_at = now.saturating_add(held.time_to_live);
        true
    }

    /// Somebody ends a lease in its owner's place, who hears of it when it renews it. Whether anybody had it.
    pub fn take_away(&mut self, name: &str) -> bool {
        let held = self.leases.get_mut(name);
        held.is_some_and(|held| held.owner.take().is_some())
    }

    /// Who holds a lease, and with which token.
    #[must_use]
    pub fn holder(&self, now: u64, name: &str) -> Option<(&UniqueAddress, u64)> {
        let held = self.leases.get(name).filter(|held| now < held.expires_at)?;
        Some((held.owner.as_ref()?, held.token))
    }

    fn acquire(
        &mut self,
        now: u64,
        name: &LeaseName,
        owner: UniqueAddress,
        time_to_live: u64,
    ) -> LeaseOutcome {
        let held = self.leases.entry(LeaseName::clone(name)).or_insert(Held {
            owner: None,
            token: 0,
            expires_at: 0,
            time_to_live,
        });
        let is_taken = held.owner.is_some() && now < held.expires_at;
        if is_taken && held.owner.as_ref() != Some(&owner) {
            return LeaseOutcome::Denied;
        }
        if !is_taken {
            held.token += 1;
        }
        held.owner = Some(owner);
        held.time_to_live = time_to_live;
        held.expires_at = now.saturating_add(time_to_live);
        LeaseOutcome::Granted { token: held.token }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use quorate_core::ident::Address;

    use super::*;

    const SECOND: u64 = 1_000_000;

    fn node(uid: u64) -> UniqueAddress {
        UniqueAddress::new(Address::new("host", 7355).unwrap(), uid)
    }

    fn acquire(leases: &mut MemoryLeases, now: u64, uid: u64) -> LeaseOutcome {
        let order = LeaseOrder::Acquire {
            name: "sbr".into(),
            owner: node(uid),
            time_to_live: Duration::from_secs(10),
        };
        leases.obey(now, order).outcome
    }

    fn release(leases: &mut MemoryLeases, now: u64, uid: u64) {
        let order = LeaseOrder::Release {
            name: "sbr".into(),
            owner: node(uid),
        };
        assert_eq!(leases.obey(now, order).outcome, LeaseOutcome::Released);
    }

    #[test]
    fn i_26_one_holder_at_a_time_and_a_token_that_grows_with_every_change_of_hands() {
        let mut leases = MemoryLeases::default();
        assert_eq!(acquire(&mut leases, 0, 1), LeaseOutcome::Granted { token: 1 });
        assert_eq!(
            acquire(&mut leases, SECOND, 1),
            LeaseOutcome::Granted { token: 1 }
        );
        assert_eq!(acquire(&mut leases, SECOND, 2), LeaseOutcome::Denied);
        // Only its holder gives it back.
        release(&mut leases, SECOND, 2);
        assert_eq!(leases.holder(SECOND, "sbr"), Some((&node(1), 1)));
        release(&mut leases, SECOND, 1);
        assert_eq!(leases.holder(SECOND, "sbr"), None);
        assert_eq!(
            acquire(&mut leases, SECOND, 2),
            LeaseOutcome::Granted { token: 2 }
        );
    }

    #[test]
    fn a_stopped_holder_does_not_block_for_ever_and_a_resumed_one_has_lost_it() {
        let mut leases = MemoryLeases::default();
        assert_eq!(acquire(&mut leases, 0, 1), LeaseOutcome::Granted { token: 1 });
        assert!(leases.renew(5 * SECOND, &node(1), "sbr"));
        assert_eq!(acquire(&mut leases, 15 * SECOND - 1, 2), LeaseOutcome::Denied);
        assert_eq!(
            acquire(&mut leases, 15 * SECOND, 2),
            LeaseOutcome::Granted { token: 2 }
        );
        assert!(!leases.renew(16 * SECOND, &node(1), "sbr"));
        assert_eq!(acquire(&mut leases, 16 * SECOND, 1), LeaseOutcome::Denied);
        assert_eq!(leases.holder(16 * SECOND, "sbr"), Some((&node(2), 2)));
    }
}
