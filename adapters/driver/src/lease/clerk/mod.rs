//! The thread that asks the lease keeper, so that the loop never waits for one: takes orders, renews what is
//! held, and reports what was lost. What could not be renewed in time is lost by the loop's own look, however
//! long the keeper takes to answer. Decides nothing else. Spec: membership 3.6, reliability I-26.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use quorate_core::ident::UniqueAddress;
use quorate_core::lease::protocol::{LeaseName, LeaseOrder, LeaseOutcome, LeaseReport};
use quorate_core::ordered::OrderedMap;
use quorate_core::owner::Requester;

use super::LeaseKeeper;
use super::orders::{LeaseOrders, NextLeaseOrder};
use crate::sync::{Notify, lock};

/// A lease is renewed so often in its time to live, so that two renewals may fail.
const RENEWALS: u32 = 4;

/// A renewal that failed is tried again so often in the time to live.
const RETRIES: u32 = 16;

/// The loop's end: orders go in, reports come out, nothing waits.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    thread: Option<RunningLeaseClerk>,
    /// A thread that was told to end.
    ending: Option<Arc<ThreadEnd>>,
    /// Who asked for which lease; as many as the core has names for.
    owners: OrderedMap<LeaseName, Requester>,
}

#[derive(Debug)]
struct RunningLeaseClerk {
    orders: Arc<LeaseOrders>,
    reports: Receiver<LeaseReport>,
    held: Arc<Mutex<Table>>,
    end: Arc<ThreadEnd>,
}

/// Whether the thread has ended, however that came.
#[derive(Debug, Default)]
struct ThreadEnd(AtomicBool);

impl ThreadEnd {
    fn has_come(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// Says so when it is dropped.
struct SaysEnd(Arc<ThreadEnd>, Arc<Notify>);

impl Drop for SaysEnd {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::SeqCst);
        self.1.notify();
    }
}

/// The leases that this node holds: the thread enters and renews them, and either side strikes out what is
/// lost.
type Table = OrderedMap<LeaseName, ClerkLease>;

/// A lease that this node holds.
#[derive(Clone, Debug)]
struct ClerkLease {
    owner: UniqueAddress,
    token: u64,
    time_to_live: Duration,
    renew_at: Instant,
    lost_at: Instant,
}

struct LeaseClerk {
    keeper: Arc<dyn LeaseKeeper>,
    orders: Arc<LeaseOrders>,
    reports: Sender<LeaseReport>,
    wake: Arc<Notify>,
    held: Arc<Mutex<Table>>,
}

impl Leases {
    /// Starts the thread; `wake` is called for each report, and at its end. It ends when this is stopped or
    /// dropped, and leaves what is held to expire.
    pub(crate) fn start(keeper: Arc<dyn LeaseKeeper>, wake: Arc<Notify>) -> std::io::Result<Self> {
        let orders = Arc::<LeaseOrders>::default();
        let held = Arc::<Mutex<Table>>::default();
        let (reports, reports_out) = channel();
        let clerk = LeaseClerk {
            keeper,
            orders: Arc::clone(&orders),
            reports,
            wake,
            held: Arc::clone(&held),
        };
        let end = Arc::<ThreadEnd>::default();
        let says_end = SaysEnd(Arc::clone(&end), Arc::clone(&clerk.wake));
        thread::Builder::new()
            .name("quorate-leases".to_owned())
            .spawn(move || {
                let _says_end = says_end;
                clerk.run();
            })?;
        Ok(Self {
            thread: Some(RunningLeaseClerk {
                orders,
                reports: reports_out,
                held,
                end,
            }),
            ending: None,
            owners: OrderedMap::new(),
        })
    }

    /// Whether there is somebody to ask.
    pub(crate) const fn has_keeper(&self) -> bool {
        self.thread.is_some()
    }

    /// Hands an order in. `Some`: the answer, because nobody can be asked.
    pub(crate) fn order(&mut self, owner: Requester, order: LeaseOrder) -> Option<LeaseReport> {
        let (LeaseOrder::Acquire { name, .. } | LeaseOrder::Release { name, .. }) = &order;
        self.owners.insert(LeaseName::clone(name), owner);
        let why = match &self.thread {
            None => "there is no keeper",
            Some(running) if running.end.has_come() => "the keeper has panicked",
            Some(running) => {
                if matches!(order, LeaseOrder::Release { .. }) {
                    // Whatever is being asked about it at the moment: it is not this node's any more.
                    lock(&running.held).remove(name);
                }
                running.orders.push(order);
                return None;
            }
        };
        match order {
            // Whoever cannot ask must not go on as if it were the only one.
            LeaseOrder::Acquire { name, .. } => {
                tracing::error!(target: "cluster::lease", event = "lease_without_keeper", %name, why);
                Some(report(name, LeaseOutcome::Denied))
            }
            LeaseOrder::Release { name, .. } => Some(report(name, LeaseOutcome::Released)),
        }
    }

    /// The next report, and whom it is for.
    pub(crate) fn next_report(&self) -> Option<(Requester, LeaseReport)> {
        let running = self.thread.as_ref()?;
        let report = running.reports.try_recv().ok().or_else(|| running.overdue())?;
        let owner = self.owners.get(&report.name)?;
        Some((*owner, report))
    }

    /// For how long nothing that is held can be lost for want of an answer.
    pub(crate) fn safe_for(&self) -> Option<Duration> {
        let held = lock(&self.thread.as_ref()?.held);
        let lost_at = held.values().map(|held| held.lost_at).min()?;
        Some(lost_at.saturating_duration_since(Instant::now()))
    }

    /// Ends the thread, once it has given back what it was told to. What is held is not renewed any more.
    pub(crate) fn stop(&mut self) {
        if let Some(running) = self.thread.take() {
            running.orders.end();
            self.ending = Some(running.end);
        }
    }

    /// Whether the thread has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.thread.is_none() && self.ending.as_ref().is_none_or(|end| end.has_come())
    }
}

impl Drop for Leases {
    fn drop(&mut self) {
        self.stop();
    }
}

impl RunningLeaseClerk {
    /// A lease that could not be renewed in time: the keeper may hang, and somebody else may have it by now.
    fn overdue(&self) -> Option<LeaseReport> {
        let now = Instant::now();
        let mut held = lock(&self.held);
        let overdue = held.iter().find(|(_, held)| held.lost_at <= now);
        let name = LeaseName::clone(overdue?.0);
        held.remove(&name);
        drop(held);
        tracing::error!(target: "cluster::lease", event = "lease_lost", %name, "it could not be renewed in time");
        Some(report(name, LeaseOutcome::Lost))
    }
}

impl LeaseClerk {
    fn run(self) {
        loop {
            let due = lock(&self.held).values().map(|held| held.renew_at).min();
            match self.orders.next(due) {
                NextLeaseOrder::Order(order) => self.obey(order),
                NextLeaseOrder::Due => {}
                NextLeaseOrder::Ended => return,
            }
            self.renew();
        }
    }

    fn obey(&self, order: LeaseOrder) {
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
                lock(&self.held).remove(&name);
                match self.keeper.release(&name, &owner) {
                    Ok(()) => self.report(name, LeaseOutcome::Released),
                    Err(error) => {
                        tracing::warn!(target: "cluster::lease", event = "lease_not_released", %name, %error);
                    }
                }
            }
        }
    }

    fn acquire(&self, name: &LeaseName, owner: UniqueAddress, time_to_live: Duration) -> LeaseOutcome {
        let asked_at = Instant::now();
        let token = match self.keeper.acquire(name, &owner, time_to_live) {
            Ok(Some(token)) => token,
            Ok(None) => return LeaseOutcome::Denied,
            Err(error) => {
                tracing::warn!(target: "cluster::lease", event = "lease_not_acquired", %name, %error);
                return LeaseOutcome::Denied;
            }
        };
        // This process may have stood still since it asked.
        if asked_at.elapsed() >= time_to_live {
            return LeaseOutcome::Denied;
        }
        let held = ClerkLease {
            owner,
            token,
            time_to_live,
            renew_at: asked_at + time_to_live / RENEWALS,
            lost_at: asked_at + time_to_live,
        };
        lock(&self.held).insert(LeaseName::clone(name), held);
        LeaseOutcome::Granted { token }
    }

    /// Renews what is due, and reports what the keeper says is somebody else's. What is overdue, the loop
    /// says.
    fn renew(&self) {
        let now = Instant::now();
        let is_due = |(_, held): &(&LeaseName, &ClerkLease)| held.renew_at <= now;
        let due: Vec<(LeaseName, ClerkLease)> = lock(&self.held)
            .iter()
            .filter(is_due)
            .map(|(name, held)| (LeaseName::clone(name), held.clone()))
            .collect();
        for (name, held) in due {
            let renewed = held.renewed(&*self.keeper, &name);
            let mut table = lock(&self.held);
            // Given back, or lost, while the keeper was asked: then it stays so.
            let Some(entry) = table.get_mut(&name).filter(|entry| entry.token == held.token) else {
                continue;
            };
            match renewed {
                Some(renewed) => *entry = renewed,
                None => {
                    table.remove(&name);
                    drop(table);
                    tracing::error!(target: "cluster::lease", event = "lease_lost", %name);
                    self.report(name, LeaseOutcome::Lost);
                }
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

impl ClerkLease {
    /// The lease after it was to be renewed; `None` if it is not held any more.
    fn renewed(&self, keeper: &dyn LeaseKeeper, name: &LeaseName) -> Option<Self> {
        let asked_at = Instant::now();
        // Whatever the keeper says: somebody else may have had it meanwhile.
        if asked_at >= self.lost_at {
            return None;
        }
        match keeper.renew(name, &self.owner, self.token) {
            Ok(true) => Some(Self {
                renew_at: asked_at + self.time_to_live / RENEWALS,
                lost_at: asked_at + self.time_to_live,
                ..self.clone()
            }),
            Ok(false) => None,
            Err(error) => {
                tracing::warn!(target: "cluster::lease", event = "lease_not_renewed", %name, %error);
                let renew_at = (asked_at + self.time_to_live / RETRIES).min(self.lost_at);
                Some(Self {
                    renew_at,
                    ..self.clone()
                })
            }
        }
    }
}

fn report(name: LeaseName, outcome: LeaseOutcome) -> LeaseReport {
    LeaseReport { name, outcome }
}

#[cfg(test)]
mod tests;
