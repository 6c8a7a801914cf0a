//! Leases in the memory of one process: for tests, and for nodes that share a process. Spec: reliability
//! I-26.

use std::fmt;
use std::io;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use quorate_core::ident::UniqueAddress;
use quorate_core::ordered::OrderedMap;

use super::LeaseKeeper;
use crate::sync::lock;

/// A lease keeper in memory. Share one between the nodes with an `Arc`.
pub struct MemoryLeases {
    now: Box<dyn Fn() -> Duration + Send + Sync>,
    leases: Mutex<OrderedMap<String, MemoryLease>>,
}

struct MemoryLease {
    /// Nobody after a release.
    owner: Option<UniqueAddress>,
    token: u64,
    time_to_live: Duration,
    expires_at: Duration,
}

impl MemoryLeases {
    /// A keeper without leases, on the process's clock.
    #[must_use]
    pub fn new() -> Self {
        let start = Instant::now();
        Self::with_clock(move || start.elapsed())
    }

    /// Like [`Self::new`], with a clock that counts from any moment and never goes back.
    #[must_use]
    pub fn with_clock(now: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        Self {
            now: Box::new(now),
            leases: Mutex::default(),
        }
    }
}

impl Default for MemoryLeases {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for MemoryLeases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryLeases").finish_non_exhaustive()
    }
}

impl LeaseKeeper for MemoryLeases {
    fn acquire(&self, name: &str, owner: &UniqueAddress, time_to_live: Duration) -> io::Result<Option<u64>> {
        let mut leases = lock(&self.leases);
        let now = (self.now)();
        let held = leases.entry(name.to_owned()).or_insert(MemoryLease {
            owner: None,
            token: 0,
            time_to_live,
            expires_at: Duration::ZERO,
        });
        let is_taken = held.owner.is_some() && now < held.expires_at;
        if is_taken && held.owner.as_ref() != Some(owner) {
            return Ok(None);
        }
        if !is_taken {
            held.token += 1;
        }
        held.owner = Some(owner.clone());
        held.time_to_live = time_to_live;
        held.expires_at = now + time_to_live;
        Ok(Some(held.token))
    }

    fn renew(&self, name: &str, owner: &UniqueAddress, token: u64) -> io::Result<bool> {
        let mut leases = lock(&self.leases);
        let now = (self.now)();
        let is_mine = |held: &&mut MemoryLease| {
            held.owner.as_ref() == Some(owner) && held.token == token && now < held.expires_at
        };
        let Some(held) = leases.get_mut(name).filter(is_mine) else {
            return Ok(false);
        };
        held.expires_at = now + held.time_to_live;
        Ok(true)
    }

    fn release(&self, name: &str, owner: &UniqueAddress) -> io::Result<()> {
        if let Some(held) = lock(&self.leases).get_mut(name) {
            held.owner = held.owner.take().filter(|holder| holder != owner);
        }
        Ok(())
    }
}
