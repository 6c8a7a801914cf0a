//! The thread that asks the keeper of leases, so that the loop never waits for one: takes orders, renews what is held, and
//! reports what was lost. Decides nothing else. Spec: membership 3.6, reliability I-26.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, TrySendError, channel, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use quorate_core::ident::UniqueAddress;
use quorate_core::lease::protocol::{LeaseName, LeaseOrder, LeaseOutcome, LeaseReport};
use quorate_core::owner::Owner;

use super::LeaseKeeper;
use crate::sync::Notify;

/// Orders that wait for a slow keeper. The core has one under way per lease, and repeats a release every second.
const ORDERS_MAX: usize = 16;

/// A lease is renewed so often in its time to live, so that two renewals may fail.
const RENEWALS: u32 = 4;

/// A renewal that failed is tried again so often in the time to live.
const RETRIES: u32 = 16;

/// The loop's end: orders go in, reports come out, nothing waits.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    thread: Option<(SyncSender<LeaseOrder>, Receiver<LeaseReport>)>,
    /// Who asked for which lease; as many as the core has names for.
    owners: BTreeMap<LeaseName, Owner>,
}

/// A lease that this node holds.
#[derive(Debug)]
struct Held {
    owner: UniqueAddress,
    token: u64,
    time_to_live: Duration,
    renew_at: Instant,
    lost_at: Instant,
}

struct Clerk {
    keeper: Arc<dyn LeaseKeeper>,
    reports: Sender<LeaseReport>,
    wake: Arc<Notify>,
    held: BTreeMap<LeaseName, Held>,
}

impl Leases {
    /// Starts the thread; `wake` is called for each report. It ends when this is dropped, and leaves what is held to
    /// expire.
    pub(crate) fn start(keeper: Arc<dyn LeaseKeeper>, wake: Arc<Notify>) -> std::io::Result<Self> {
        let (orders_in, orders) = sync_channel(ORDERS_MAX);
        let (reports, reports_out) = channel();
        let clerk = Clerk {
            keeper,
            reports,
            wake,
            held: BTreeMap::new(),
        };
        thread::Builder::new()
            .name("quorate-leases".to_owned())
            .spawn(move || clerk.run(&orders))?;
        Ok(Self {
            thread: Some((orders_in, reports_out)),
            owners: BTreeMap::new(),
        })
    }

    /// Hands an order in. `Some`: the answer, because nobody can be asked.
    pub(crate) fn order(&mut self, owner: Owner, order: LeaseOrder) -> Option<LeaseReport> {
        let (LeaseOrder::Acquire { name, .. } | LeaseOrder::Release { name, .. }) = &order;
        self.owners.insert(LeaseName::clone(name), owner);
        let (why, order) = match &self.thread {
            None => ("there is no keeper", order),
            Some((orders, _)) => match orders.try_send(order) {
                Ok(()) => return None,
                Err(TrySendError::Full(order)) => ("the keeper does not answer", order),
                Err(TrySendError::Disconnected(order)) => ("the keeper has panicked", order),
            },
        };
        match order {
            // Whoever cannot ask must not go on as if it were the only one.
            LeaseOrder::Acquire { name, .. } => {
                tracing::error!(target: "cluster::sbr", event = "lease_without_keeper", %name, why);
                Some(report(name, LeaseOutcome::Denied))
            }
            // Not confirmed by a keeper that is slow: the core asks again.
            LeaseOrder::Release { name, .. } => self
                .thread
                .is_none()
                .then(|| report(name, LeaseOutcome::Released)),
        }
    }

    /// The next report, and whom it is for.
    pub(crate) fn next_report(&self) -> Option<(Owner, LeaseReport)> {
        let report = self.thread.as_ref()?.1.try_recv().ok()?;
        let owner = self.owners.get(&report.name)?;
        Some((*owner, report))
    }

    /// Ends the thread. What is held is not renewed any more.
    pub(crate) fn stop(&mut self) {
        self.thread = None;
    }
}

impl Clerk {
    fn run(mut self, orders: &Receiver<LeaseOrder>) {
        loop {
            let next = self.held.values().map(|held| held.renew_at).min();
            let order = match next {
                None => orders.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(at) => orders.recv_timeout(at.saturating_duration_since(Instant::now())),
            };
            match order {
                Ok(order) => self.obey(order),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            self.renew();
        }
    }

    fn obey(&mut self, order: LeaseOrder) {
        match order {
            LeaseOrder::Acquire {
                name,
                owner,
                time_to_live,
            } => {
                let outcome = self.acquire(&name, owner, time_to_live);
                self.report(name, outcome);
            }
            LeaseOrder::Release { name, owner } => {
                self.held.remove(&name);
                match self.keeper.release(&name, &owner) {
                    Ok(()) => self.report(name, LeaseOutcome::Released),
                    Err(error) => {
                        tracing::warn!(target: "cluster::sbr", event = "lease_not_released", %name, %error);
                    }
                }
            }
        }
    }

    fn acquire(&mut self, name: &LeaseName, owner: UniqueAddress, time_to_live: Duration) -> LeaseOutcome {
        let asked_at = Instant::now();
        let token = match self.keeper.acquire(name, &owner, time_to_live) {
            Ok(Some(token)) => token,
            Ok(None) => return LeaseOutcome::Denied,
            Err(error) => {
                tracing::warn!(target: "cluster::sbr", event = "lease_not_acquired", %name, %error);
                return LeaseOutcome::Denied;
            }
        };
        // This process may have stood still since it asked.
        if asked_at.elapsed() >= time_to_live {
            return LeaseOutcome::Denied;
        }
        let held = Held {
            owner,
            token,
            time_to_live,
            renew_at: asked_at + time_to_live / RENEWALS,
            lost_at: asked_at + time_to_live,
        };
        self.held.insert(LeaseName::clone(name), held);
        LeaseOutcome::Granted { token }
    }

    /// Renews what is due, and reports what could not be renewed in time.
    fn renew(&mut self) {
        let now = Instant::now();
        let due: Vec<LeaseName> = self
            .held
            .iter()
            .filter(|(_, held)| held.renew_at <= now)
            .map(|(name, _)| LeaseName::clone(name))
            .collect();
        for name in due {
            let Some(held) = self.held.get_mut(&name) else {
                continue;
            };
            if !held.renew(&*self.keeper, &name) {
                self.held.remove(&name);
                tracing::error!(target: "cluster::sbr", event = "lease_lost", %name);
                self.report(name, LeaseOutcome::Lost);
            }
        }
    }

    fn report(&self, name: LeaseName, outcome: LeaseOutcome) {
        // The loop may have ended: the next look at the orders tells.
        if self.reports.send(report(name, outcome)).is_ok() {
            self.wake.notify();
        }
    }
}

impl Held {
    /// Whether it is still held.
    fn renew(&mut self, keeper: &dyn LeaseKeeper, name: &LeaseName) -> bool {
        let asked_at = Instant::now();
        // Whatever the keeper says: somebody else may have had it meanwhile.
        if asked_at >= self.lost_at {
            return false;
        }
        match keeper.renew(name, &self.owner, self.token) {
            Ok(true) => {
                self.renew_at = asked_at + self.time_to_live / RENEWALS;
                self.lost_at = asked_at + self.time_to_live;
                true
            }
            Ok(false) => false,
            Err(error) => {
                tracing::warn!(target: "cluster::sbr", event = "lease_not_renewed", %name, %error);
                self.renew_at = (asked_at + self.time_to_live / RETRIES).min(self.lost_at);
                true
            }
        }
    }
}

fn report(name: LeaseName, outcome: LeaseOutcome) -> LeaseReport {
    LeaseReport { name, outcome }
}

#[cfg(test)]
mod tests;
