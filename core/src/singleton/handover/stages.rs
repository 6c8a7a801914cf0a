//! What each stage makes of each event. Reads nothing but the facts. Spec: sharding 1.10.

use alloc::vec::Vec;

use super::{Event, Facts, Stage, Step};
use crate::ident::UniqueAddress;

impl Facts<'_> {
    fn are_all_removed(&self, nodes: &[UniqueAddress]) -> bool {
        nodes.iter().all(|node| self.removed.contains(node))
    }

    /// Nothing stands in the way: start, the lease first.
    fn start(&self) -> (Stage, Vec<Step>) {
        if self.lease {
            acquire()
        } else {
            (Stage::Oldest { instance: true }, alloc::vec![Step::StartInstance])
        }
    }

    /// The instance, if there is one, is told to stop; `to` waits for that.
    fn hand_over(&self, to: Option<UniqueAddress>, instance: bool) -> (Stage, Vec<Step>) {
        let mut steps: Vec<Step> = to.iter().cloned().map(Step::HandOverInProgress).collect();
        if instance {
            steps.push(Step::StopInstance);
            return (Stage::HandingOver { to }, steps);
        }
        let (stage, done) = self.handed_over(to);
        steps.extend(done);
        (stage, steps)
    }

    /// The instance has ended.
    fn handed_over(&self, to: Option<UniqueAddress>) -> (Stage, Vec<Step>) {
        let mut steps = Vec::new();
        if self.lease {
            steps.push(Step::ReleaseLease);
        }
        let Some(to) = to else {
            return (Stage::Younger { previous: Vec::new() }, steps);
        };
        steps.push(Step::HandOverDone(to));
        let stage = if self.self_removed {
            Stage::Stopped
        } else {
            Stage::End
        };
        (stage, steps)
    }

    /// Ends the instance, for nobody.
    fn stop(&self, instance: bool) -> (Stage, Vec<Step>) {
        let mut steps = Vec::new();
        if instance {
            steps.push(Step::StopInstance);
        }
        if self.lease {
            steps.push(Step::ReleaseLease);
        }
        let stage = if instance { Stage::Stopping } else { Stage::Stopped };
        (stage, steps)
    }
}

fn without(mut nodes: Vec<UniqueAddress>, gone: &UniqueAddress) -> Vec<UniqueAddress> {
    nodes.retain(|node| node != gone);
    nodes
}

pub(super) fn start(event: Event, facts: &Facts<'_>) -> (Stage, Vec<Step>) {
    match event {
        Event::Initial { oldest_first, safe } => {
            let is_oldest = oldest_first.first() == Some(facts.me);
            let others = without(oldest_first, facts.me);
            if facts.preparing || !is_oldest {
                return (Stage::Younger { previous: others }, Vec::new());
            }
            if safe {
                return facts.start();
            }
            let steps = others
                .first()
                .cloned()
                .map(Step::HandOverToMe)
                .into_iter()
                .collect();
            (Stage::BecomingOldest { previous: others }, steps)
        }
        Event::SelfRemoved | Event::SelfDowned => (Stage::Stopped, Vec::new()),
        Event::OldestChanged(_)
        | Event::RemovedAfterMargin(_)
        | Event::HandOverToMe(_)
        | Event::HandOverInProgress(_)
        | Event::HandOverDone(_)
        | Event::TakeOverFromMe(_)
        | Event::HandOverRetry(_)
        | Event::TakeOverRetry(_)
        | Event::InstanceTerminated
        | Event::LeaseGranted
        | Event::LeaseDenied
        | Event::LeaseLost => (Stage::Start, Vec::new()),
    }
}

pub(super) fn younger(
    mut previous: Vec<UniqueAddress>,
    event: Event,
    facts: &Facts<'_>,
) -> (Stage, Vec<Step>) {
    let mut steps = Vec::new();
    match event {
        Event::OldestChanged(Some(node)) if node == *facts.me => return became_oldest(previous, facts),
        Event::OldestChanged(Some(node)) => {
            if !previous.contains(&node) {
                previous.insert(0, node);
            }
        }
        Event::RemovedAfterMargin(node) => previous = without(previous, &node),
        // A quick restart: the successor asks who was started anew, and nothing runs here.
        Event::HandOverToMe(from) if !facts.leaving && !facts.preparing => {
            steps.push(Step::HandOverDone(from))
        }
        Event::SelfRemoved | Event::SelfDowned => return (Stage::Stopped, steps),
        Event::OldestChanged(None)
        | Event::Initial { .. }
        | Event::HandOverToMe(_)
        | Event::HandOverInProgress(_)
        | Event::HandOverDone(_)
        | Event::TakeOverFromMe(_)
        | Event::HandOverRetry(_)
        | Event::TakeOverRetry(_)
        | Event::InstanceTerminated
        | Event::LeaseGranted
        | Event::LeaseDenied
        | Event::LeaseLost => {}
    }
    (Stage::Younger { previous }, steps)
}

fn became_oldest(previous: Vec<UniqueAddress>, facts: &Facts<'_>) -> (Stage, Vec<Step>) {
    if facts.preparing {
        return (Stage::Younger { previous }, Vec::new());
    }
    if facts.are_all_removed(&previous) {
        return facts.start();
    }
    let steps = previous
        .first()
        .cloned()
        .map(Step::HandOverToMe)
        .into_iter()
        .collect();
    (Stage::BecomingOldest { previous }, steps)
}

pub(super) fn becoming(
    mut previous: Vec<UniqueAddress>,
    event: Event,
    facts: &Facts<'_>,
) -> (Stage, Vec<Step>) {
    let mut steps = Vec::new();
    match event {
        Event::HandOverInProgress(from) if previous.first() == Some(&from) => steps.push(Step::CancelRetry),
        Event::HandOverDone(from) if previous.first() == Some(&from) && !facts.preparing => {
            return facts.start();
        }
        Event::RemovedAfterMargin(node) if !facts.exited => {
            if previous.contains(&node)
                && facts.are_all_removed(&without(previous.clone(), &node))
                && !facts.preparing
            {
                return facts.start();
            }
            previous = without(previous, &node);
        }
        Event::TakeOverFromMe(from) => {
            if previous.is_empty() {
                previous.push(from.clone());
            }
            if previous.first() == Some(&from) && !facts.preparing {
                steps.push(Step::HandOverToMe(from));
            }
        }
        // Nobody is asked any more: whatever runs ends with its node.
        Event::HandOverRetry(_) if facts.preparing && facts.exited => return (Stage::Stopped, steps),
        Event::HandOverRetry(_) if facts.preparing => return (Stage::Younger { previous }, steps),
        Event::HandOverRetry(number) if number <= facts.retries_max => {
            steps.extend(previous.first().cloned().map(Step::HandOverToMe));
            steps.push(Step::Retry(number.saturating_add(1)));
        }
        Event::HandOverRetry(_) => {
            if facts.are_all_removed(&previous) && !facts.preparing {
                return facts.start();
            }
            let stage = if facts.exited || facts.self_removed {
                Stage::Stopped
            } else {
                Stage::Stuck
            };
            return (stage, steps);
        }
        Event::SelfRemoved | Event::SelfDowned => return (Stage::Stopped, steps),
        Event::Initial { .. }
        | Event::OldestChanged(_)
        | Event::RemovedAfterMargin(_)
        | Event::HandOverToMe(_)
        | Event::HandOverInProgress(_)
        | Event::HandOverDone(_)
        | Event::TakeOverRetry(_)
        | Event::InstanceTerminated
        | Event::LeaseGranted
        | Event::LeaseDenied
        | Event::LeaseLost => {}
    }
    (Stage::BecomingOldest { previous }, steps)
}

/// Nothing runs: the lease is asked for.
fn acquire() -> (Stage, Vec<Step>) {
    let stage = Stage::AcquiringLease { instance: false };
    (stage, alloc::vec![Step::AcquireLease])
}

pub(super) fn acquiring(instance: bool, event: Event, facts: &Facts<'_>) -> (Stage, Vec<Step>) {
    let mut steps = Vec::new();
    match event {
        Event::LeaseGranted if !instance => {
            return (Stage::Oldest { instance: true }, alloc::vec![Step::StartInstance]);
        }
        // The last instance had to end first, for the lease was lost.
        Event::InstanceTerminated => return acquire(),
        Event::SelfRemoved | Event::SelfDowned => return facts.stop(instance),
        Event::OldestChanged(Some(node)) if node == *facts.me => {}
        Event::HandOverToMe(_) if facts.preparing => {}
        Event::OldestChanged(_) | Event::HandOverToMe(_) => return oldest(instance, event, facts),
        Event::TakeOverFromMe(_) if facts.preparing => {}
        Event::TakeOverFromMe(from) => steps.push(Step::HandOverToMe(from)),
        Event::LeaseGranted
        | Event::LeaseDenied
        | Event::LeaseLost
        | Event::Initial { .. }
        | Event::RemovedAfterMargin(_)
        | Event::HandOverInProgress(_)
        | Event::HandOverDone(_)
        | Event::HandOverRetry(_)
        | Event::TakeOverRetry(_) => {}
    }
    (Stage::AcquiringLease { instance }, steps)
}

pub(super) fn oldest(instance: bool, event: Event, facts: &Facts<'_>) -> (Stage, Vec<Step>) {
    let mut steps = Vec::new();
    match event {
        Event::OldestChanged(Some(node)) if node == *facts.me => {}
        Event::OldestChanged(Some(node)) if facts.removed.contains(&node) && !facts.exited => {
            return facts.hand_over(None, instance);
        }
        // Nobody takes it over: it ends with its node (10.12).
        Event::OldestChanged(_) if facts.preparing && facts.exited => return facts.stop(instance),
        Event::OldestChanged(new) => {
            if !facts.preparing {
                steps.extend(new.clone().map(Step::TakeOverFromMe));
            }
            steps.push(Step::Retry(1));
            return (Stage::WasOldest { new, instance }, steps);
        }
        // Who asked did not know yet that the cluster prepares to stop, and would not start.
        Event::HandOverToMe(_) | Event::TakeOverFromMe(_) if facts.preparing => {}
        Event::HandOverToMe(from) => return facts.hand_over(Some(from), instance),
        Event::TakeOverFromMe(from) => steps.push(Step::HandOverToMe(from)),
        Event::InstanceTerminated => return (Stage::Oldest { instance: false }, steps),
        Event::LeaseLost if instance => {
            steps.push(Step::StopInstance);
            return (Stage::AcquiringLease { instance }, steps);
        }
        Event::LeaseLost => return acquire(),
        Event::SelfRemoved | Event::SelfDowned => return facts.stop(instance),
        Event::Initial { .. }
        | Event::RemovedAfterMargin(_)
        | Event::HandOverInProgress(_)
        | Event::HandOverDone(_)
        | Event::HandOverRetry(_)
        | Event::TakeOverRetry(_)
        | Event::LeaseGranted
        | Event::LeaseDenied => {}
    }
    (Stage::Oldest { instance }, steps)
}

pub(super) fn was_oldest(
    new: Option<UniqueAddress>,
    instance: bool,
    event: Event,
    facts: &Facts<'_>,
) -> (Stage, Vec<Step>) {
    let mut steps = Vec::new();
    match event {
        Event::TakeOverRetry(_) if facts.preparing && !facts.exited => steps.push(Step::Retry(1)),
        Event::HandOverToMe(_) if facts.preparing => {}
        Event::TakeOverRetry(number) => {
            let is_over = facts.exited || facts.self_removed;
            if is_over && (facts.preparing || new.is_none() || number > facts.retries_max) {
                return facts.stop(instance);
            }
            if number > facts.retries_max {
                return (Stage::Stuck, steps);
            }
            steps.extend(new.clone().map(Step::TakeOverFromMe));
            steps.push(Step::Retry(number.saturating_add(1)));
        }
        Event::HandOverToMe(from) => return facts.hand_over(Some(from), instance),
        Event::RemovedAfterMargin(node) if Some(&node) == new.as_ref() && !facts.exited => {
            return facts.hand_over(None, instance);
        }
        Event::InstanceTerminated => return (Stage::WasOldest { new, instance: false }, steps),
        Event::LeaseLost if instance => steps.push(Step::StopInstance),
        Event::SelfDowned => return facts.stop(instance),
        Event::SelfRemoved if !facts.exited => return facts.stop(instance),
        Event::Initial { .. }
        | Event::OldestChanged(_)
        | Event::RemovedAfterMargin(_)
        | Event::HandOverInProgress(_)
        | Event::HandOverDone(_)
        | Event::TakeOverFromMe(_)
        | Event::HandOverRetry(_)
        | Event::LeaseGranted
        | Event::LeaseDenied
        | Event::LeaseLost
        | Event::SelfRemoved => {}
    }
    (Stage::WasOldest { new, instance }, steps)
}

pub(super) fn handing_over(to: Option<UniqueAddress>, event: Event, facts: &Facts<'_>) -> (Stage, Vec<Step>) {
    let mut steps = Vec::new();
    match event {
        Event::HandOverToMe(from) if Some(&from) == to.as_ref() => steps.push(Step::HandOverInProgress(from)),
        Event::InstanceTerminated => return facts.handed_over(to),
        Event::Initial { .. }
        | Event::OldestChanged(_)
        | Event::RemovedAfterMargin(_)
        | Event::HandOverToMe(_)
        | Event::HandOverInProgress(_)
        | Event::HandOverDone(_)
        | Event::TakeOverFromMe(_)
        | Event::HandOverRetry(_)
        | Event::TakeOverRetry(_)
        | Event::LeaseGranted
        | Event::LeaseDenied
        | Event::LeaseLost
        | Event::SelfDowned
        | Event::SelfRemoved => {}
    }
    (Stage::HandingOver { to }, steps)
}
