//! Leases as a host keeps them: orders go to a keeper outside of the network, what is held is renewed four
//! times in its time to live, and what could not be renewed in time is lost, by the process's own clock. The
//! keeper has faults of its own (F-32). Decides nothing about who wants a lease. Spec: membership 3.6,
//! reliability I-26, I-34.

use std::collections::{BTreeMap, BTreeSet};

use quorate_core::effect::{Effect, Output};
use quorate_core::input::{HostReport, Input};
use quorate_core::lease::protocol::{LeaseName, LeaseOrder, LeaseOutcome, LeaseReport};
use quorate_core::owner::Requester;

use super::engine::{Happening, Sim};
use super::history::{Life, ProcessId};
use super::singletons::{Instance, lease_of};
use crate::invariants::Cause;

/// How long the keeper takes, in microseconds.
const ANSWER_AFTER: u64 = 1_000;

/// A lease is renewed so often in its time to live, and one that could not be so much more often, as the
/// hosts do.
const RENEWALS: u64 = 4;
const RETRIES: u64 = 16;

/// How the lease keeper is (F-32).
#[derive(Clone, Debug, Default)]
pub(crate) struct LeaseKeeper {
    /// It answers nobody.
    pub(crate) is_down: bool,
    /// It answers so many microseconds later.
    pub(crate) late: u64,
    /// Addresses that do not reach it.
    pub(crate) cut_off: BTreeSet<usize>,
    /// It grants nobody anything.
    pub(crate) refuses: bool,
}

impl LeaseKeeper {
    fn is_reached_by(&self, index: usize) -> bool {
        !self.is_down && !self.cut_off.contains(&index)
    }
}

/// The leases that one process holds, as it believes.
pub(crate) type HeldLeases = BTreeMap<LeaseName, HeldLease>;

/// A lease that a process holds, in microseconds of its own clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeldLease {
    owner: Requester,
    time_to_live: u64,
    lost_at: u64,
    /// Tells its renewals from those of an earlier time.
    number: u64,
}

/// An answer of the keeper on its way.
#[derive(Debug)]
pub(crate) struct LeaseAnswer {
    owner: Requester,
    report: LeaseReport,
    /// When it was asked, by the process's own clock, and for how long; nothing for a release.
    asked: Option<(u64, u64)>,
}

impl Sim {
    /// A node wants something of the keeper. What does not reach it is answered by nobody.
    pub(crate) fn on_lease_order(&mut self, process: ProcessId, owner: Requester, order: LeaseOrder) {
        self.trace.begin(self.now, process, b'A');
        self.trace.debug(&order);
        let host = &mut self.processes[process as usize];
        let asked_at = host.now(self.now).mono.as_micros();
        let asked = match &order {
            LeaseOrder::Acquire { time_to_live, .. } => {
                let time_to_live = u64::try_from(time_to_live.as_micros()).unwrap_or(u64::MAX);
                Some((asked_at, time_to_live))
            }
            LeaseOrder::Release { name, .. } => {
                host.leases.remove(name);
                None
            }
        };
        let index = host.index;
        if let LeaseOrder::Release { name, .. } = &order {
            if let Err((invariant, what)) = self.checks.i34.on_release(process, name, &self.history) {
                return self.violated(invariant, process, what);
            }
            self.judge_end_of_lease(process, name, "gives back");
        }
        let keeper = self.keeper_for(owner);
        let (late, refuses) = (keeper.late, keeper.refuses);
        if !keeper.is_reached_by(index) {
            self.lives.leases.counts.unanswered += u64::from(owner == Requester::Sharding);
            return;
        }
        let report = match order {
            LeaseOrder::Acquire { name, .. } if refuses => LeaseReport {
                name,
                outcome: LeaseOutcome::Denied,
            },
            LeaseOrder::Acquire { .. } | LeaseOrder::Release { .. } => self.leases.obey(self.now, order),
        };
        let answer = Box::new(LeaseAnswer { owner, report, asked });
        let at = self.now + ANSWER_AFTER + late;
        self.queue.push(at, Happening::LeaseAnswered { process, answer });
    }

    fn keeper_for(&self, owner: Requester) -> &LeaseKeeper {
        if owner == Requester::Sharding {
            &self.lives.leases.keeper
        } else {
            &self.lease_keeper
        }
    }

    pub(crate) fn on_lease_answered(&mut self, process: ProcessId, answer: LeaseAnswer) {
        let LeaseAnswer {
            owner,
            mut report,
            asked,
        } = answer;
        if !self.processes[process as usize].runs() {
            return;
        }
        if let (LeaseOutcome::Granted { .. }, Some((asked_at, time_to_live))) = (report.outcome, asked) {
            let lost_at = asked_at.saturating_add(time_to_live);
            // The process may have stood still, or the keeper been slow.
            if self.processes[process as usize].now(self.now).mono.as_micros() < lost_at {
                self.hold(process, &report.name, (owner, time_to_live, lost_at));
            } else {
                report.outcome = LeaseOutcome::Denied;
            }
        }
        self.report_lease(process, owner, report);
    }

    fn hold(&mut self, process: ProcessId, name: &LeaseName, lease: (Requester, u64, u64)) {
        let (owner, time_to_live, lost_at) = lease;
        let number = self.next_lease;
        self.next_lease += 1;
        let held = HeldLease {
            owner,
            time_to_live,
            lost_at,
            number,
        };
        let leases = &mut self.processes[process as usize].leases;
        leases.insert(LeaseName::clone(name), held);
        self.renew_after(process, name, (number, time_to_live / RENEWALS));
    }

    fn renew_after(&mut self, process: ProcessId, name: &LeaseName, (number, wait): (u64, u64)) {
        let name = LeaseName::clone(name);
        let renewal = Happening::LeaseRenewal {
            process,
            name,
            number,
        };
        self.queue.push(self.now + wait.max(1), renewal);
    }

    /// It is time to renew a lease.
    pub(crate) fn on_lease_renewal(&mut self, process: ProcessId, name: &LeaseName, number: u64) {
        let host = &mut self.processes[process as usize];
        let now = host.now(self.now).mono.as_micros();
        let (runs, index, me) = (host.runs(), host.index, host.me.clone());
        let held = host.leases.get(name).filter(|held| held.number == number);
        let Some(owner) = held.map(|held| held.owner).filter(|_| runs) else {
            return;
        };
        let is_reached = self.keeper_for(owner).is_reached_by(index);
        let Some(held) = self.processes[process as usize].leases.get_mut(name) else {
            return;
        };
        // Whatever the keeper says: somebody else may have had it meanwhile.
        let is_lost = now >= held.lost_at || (is_reached && !self.leases.renew(self.now, &me, name));
        if is_lost {
            return self.lose(process, LeaseName::clone(name), owner);
        }
        let wait = if is_reached {
            held.lost_at = now.saturating_add(held.time_to_live);
            held.time_to_live / RENEWALS
        } else {
            (held.time_to_live / RETRIES).min(held.lost_at - now)
        };
        self.renew_after(process, name, (number, wait));
    }

    /// A host looks at its clock before it hands its node anything: what is over by it is lost, whatever the
    /// keeper would say.
    pub(crate) fn lose_overdue_leases(&mut self, process: ProcessId) {
        let host = &mut self.processes[process as usize];
        if host.leases.is_empty() || !host.runs() {
            return;
        }
        let now = host.now(self.now).mono.as_micros();
        let overdue = host.leases.iter().find(|(_, held)| now >= held.lost_at);
        if let Some((name, owner)) = overdue.map(|(name, held)| (LeaseName::clone(name), held.owner)) {
            self.lose(process, name, owner);
            self.lose_overdue_leases(process);
        }
    }

    /// A node has ended, and so does what runs there: it gives the leases of that back, and says nothing
    /// else. I-34, I-54: none is left but the resolver's own (M-368), and those of what holds its thread and
    /// cannot be ended.
    pub(crate) fn give_leases_back(&mut self, process: ProcessId, life: Life) {
        self.end_instances(process, life);
        let host = &self.processes[process as usize];
        let is_stuck = host.is_stuck;
        let running = if is_stuck { Vec::new() } else { host.entities.all() };
        for (slot, name) in &running {
            self.history.stopped(process, *slot, name);
        }
        let unheard = &mut self.processes[process as usize].unheard;
        let ended = core::mem::take(&mut unheard.entities);
        for slot in running.into_iter().map(|(slot, _)| slot).chain(ended) {
            let host = &mut self.processes[process as usize];
            let now = host.now(self.now);
            host.node.handle(
                now,
                Input::Host(Requester::Sharding, HostReport::Stopped { slot }),
            );
        }
        while let Output::Effect(effect) = self.processes[process as usize].node.poll() {
            match effect {
                Effect::Lease(..) => self.carry_out(process, effect),
                other @ (Effect::Send { .. }
                | Effect::Offer { .. }
                | Effect::Notify(_)
                | Effect::Reply { .. }
                | Effect::Host(..)
                | Effect::Store(..)
                | Effect::Allocate(_)
                | Effect::Quarantine(_)
                | Effect::Halt(_)) => {
                    return self.violated("I-34", process, format!("says {other:?} after its end"));
                }
            }
        }
        if let Some((invariant, name)) = self.lease_left(process) {
            let what = format!("has ended and does not give {name} back");
            self.violated(invariant, process, what);
        }
    }

    /// A lease of an ended node that nothing there needs any more.
    fn lease_left(&self, process: ProcessId) -> Option<(&'static str, LeaseName)> {
        let host = &self.processes[process as usize];
        let needs = |instance: &Instance, name: &LeaseName| {
            let singleton = self.history.instances[instance.record].singleton;
            lease_of(singleton).as_deref() == Some(&**name)
        };
        let left = |(name, held): (&LeaseName, &HeldLease)| {
            let (invariant, runs_on) = match held.owner {
                Requester::Singleton => (
                    "I-34",
                    host.instances.values().any(|instance| needs(instance, name)),
                ),
                Requester::Sharding => ("I-54", host.is_stuck),
                Requester::Resolver | Requester::Ddata | Requester::Journal => return None,
                // A later version's.
                Requester::Path | Requester::Kv | _ => return None,
            };
            (!runs_on).then(|| (invariant, LeaseName::clone(name)))
        };
        host.leases.iter().find_map(left)
    }

    fn lose(&mut self, process: ProcessId, name: LeaseName, owner: Requester) {
        self.processes[process as usize].leases.remove(&name);
        self.singletons.counts.leases_lost += u64::from(owner == Requester::Singleton);
        let outcome = LeaseOutcome::Lost;
        self.report_lease(process, owner, LeaseReport { name, outcome });
    }

    fn report_lease(&mut self, process: ProcessId, owner: Requester, report: LeaseReport) {
        self.trace.begin(self.now, process, b'A');
        self.trace.debug(&report);
        let lost = (report.outcome == LeaseOutcome::Lost).then(|| LeaseName::clone(&report.name));
        self.fact(
            process,
            format_args!("lease {}: {:?}", report.name, report.outcome),
        );
        if owner == Requester::Sharding {
            self.lives.leases.count(report.outcome);
        }
        self.feed(process, &Cause::Command, Input::Lease(owner, report));
        let Some(name) = lost else { return };
        if let Err((invariant, what)) = self.checks.i34.on_lost(process, &name, &self.history) {
            return self.violated(invariant, process, what);
        }
        self.judge_end_of_lease(process, &name, "lost");
    }
}
