//! A store whose next write of an account can be held up: what lies between a process and its database when
//! both stand still and go on later. Says what the database made of it. Decides nothing.

use std::fmt;
use std::sync::{Condvar, Mutex, PoisonError};

use quorate_driver::store::{Outcome, Space, StoreError, StoreIdentity, StoreOrder};
use quorate_driver::store::{Store, StoreFault, StoreScope};

use super::entity::account_of;
use crate::program::say;

/// What is to be done with the next write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Passes,
    IsHeld,
    /// Somebody waits.
    Waits,
}

static NEXT: Mutex<Next> = Mutex::new(Next::Passes);
static CHANGED: Condvar = Condvar::new();

fn set(next: Next) {
    *NEXT.lock().unwrap_or_else(PoisonError::into_inner) = next;
    CHANGED.notify_all();
}

/// Holds the next write of an account up. Other entities write too: what wakes accounts up again has logs of
/// its own.
pub(super) fn hold() {
    set(Next::IsHeld);
}

/// Lets it go on.
pub(super) fn release() {
    set(Next::Passes);
}

/// Whether a write waits.
pub(super) fn holds() -> bool {
    *NEXT.lock().unwrap_or_else(PoisonError::into_inner) == Next::Waits
}

/// See the module.
pub(super) struct Stalled<S>(pub(super) S);

impl<S> fmt::Debug for Stalled<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Stalled")
    }
}

impl<S: Store> Store for Stalled<S> {
    fn open(&mut self) -> Result<StoreIdentity, StoreFault> {
        self.0.open()
    }

    fn commit(&mut self, orders: &[(Space, &StoreOrder)]) -> Result<Vec<Outcome>, StoreFault> {
        let account = orders.iter().find_map(|(_, order)| {
            let StoreOrder::Append { log, .. } = order else {
                return None;
            };
            account_of(log)
        });
        let mut next = NEXT.lock().unwrap_or_else(PoisonError::into_inner);
        let (Some(account), Next::IsHeld) = (account, *next) else {
            drop(next);
            return self.0.commit(orders);
        };
        *next = Next::Waits;
        say(format_args!("held {account}"));
        while *next == Next::Waits {
            next = CHANGED.wait(next).unwrap_or_else(PoisonError::into_inner);
        }
        *next = Next::Waits;
        drop(next);
        let outcomes = self.0.commit(orders);
        let refused = outcomes.iter().flatten();
        let refused = refused.filter(|outcome| matches!(outcome, Err(StoreError::Fenced { .. })));
        say(format_args!("released {}", refused.count()));
        set(Next::Passes);
        outcomes
    }

    fn scope(&self) -> StoreScope {
        self.0.scope()
    }
}
