//! What each stage makes of each event. Reads nothing but the facts. Spec: sharding 1.10.

use alloc::vec::Vec;

use super::{HandOverEvent, HandOverFacts, HandOverStage, HandOverStep};
use crate::ident::UniqueAddress;

impl HandOverFacts<'_> {
    fn are_all_removed(&self, nodes: &[UniqueAddress]) -> bool {
        nodes.iter().all(|node| self.removed.contains(node))
    }

    /// Nothing stands in the way: start, the lease first.
    fn start(&self) -> (HandOverStage, Vec<HandOverStep>) {
        if self.lease {
            acquire()
        } else {
            (
                HandOverStage::Oldest { instance: true },
                alloc::vec![HandOverStep::StartInstance],
            )
        }
    }

    /// The instance, if there is one, is told to stop; `to` waits for that.
    fn hand_over(&self, to: Option<UniqueAddress>, instance: bool) -> (HandOverStage, Vec<HandOverStep>) {
        let mut steps: Vec<HandOverStep> = to.iter().cloned().map(HandOverStep::HandOverInProgress).collect();
        if instance {
            steps.push(HandOverStep::StopInstance);
            return (HandOverStage::HandingOver { to }, steps);
        }
        let (stage, done) = self.handed_over(to);
        steps.extend(done);
        (stage, steps)
    }

    /// The instance has ended.
    fn handed_over(&self, to: Option<UniqueAddress>) -> (HandOverStage, Vec<HandOverStep>) {
        let mut steps = Vec::new();
        if self.lease {
            steps.push(HandOverStep::ReleaseLease);
        }
        let Some(to) = to else {
            return (HandOverStage::Younger { previous: Vec::new() }, steps);
        };
        steps.push(HandOverStep::HandOverDone(to));
        let stage = if self.self_removed {
            HandOverStage::Stopped
        } else {
            HandOverStage::End
        };
        (stage, steps)
    }

    /// Ends the instance, for nobody.
    fn stop(&self, instance: bool) -> (HandOverStage, Vec<HandOverStep>) {
        let mut steps = Vec::new();
        if instance {
            steps.push(HandOverStep::StopInstance);
        }
        if self.lease {
            steps.push(HandOverStep::ReleaseLease);
        }
        let stage = if instance {
            HandOverStage::Stopping
        } else {
            HandOverStage::Stopped
        };
        (stage, steps)
    }
}

fn without(mut nodes: Vec<UniqueAddress>, gone: &UniqueAddress) -> Vec<UniqueAddress> {
    nodes.retain(|node| node != gone);
    nodes
}

pub(super) fn start(event: HandOverEvent, facts: &HandOverFacts<'_>) -> (HandOverStage, Vec<HandOverStep>) {
    match event {
        HandOverEvent::Initial { oldest_first, safe } => {
            let is_oldest = oldest_first.first() == Some(facts.me);
            let others = without(oldest_first, facts.me);
            if facts.preparing || !is_oldest {
                return (HandOverStage::Younger { previous: others }, Vec::new());
            }
            if safe {
                return facts.start();
            }
            let steps = others
                .first()
                .cloned()
                .map(HandOverStep::HandOverToMe)
                .into_iter()
                .collect();
            (HandOverStage::BecomingOldest { previous: others }, steps)
        }
        HandOverEvent::SelfRemoved | HandOverEvent::SelfDowned => (HandOverStage::Stopped, Vec::new()),
        HandOverEvent::OldestChanged(_)
        | HandOverEvent::RemovedAfterMargin(_)
        | HandOverEvent::HandOverToMe(_)
        | HandOverEvent::HandOverInProgress(_)
        | HandOverEvent::HandOverDone(_)
        | HandOverEvent::TakeOverFromMe(_)
        | HandOverEvent::HandOverRetry(_)
        | HandOverEvent::TakeOverRetry(_)
        | HandOverEvent::InstanceTerminated
        | HandOverEvent::LeaseGranted
        | HandOverEvent::LeaseDenied
        | HandOverEvent::LeaseLost => (HandOverStage::Start, Vec::new()),
    }
}

pub(super) fn younger(
    mut previous: Vec<UniqueAddress>,
    event: HandOverEvent,
    facts: &HandOverFacts<'_>,
) -> (HandOverStage, Vec<HandOverStep>) {
    let mut steps = Vec::new();
    match event {
        HandOverEvent::OldestChanged(Some(node)) if node == *facts.me => {
            return became_oldest(previous, facts);
        }
        HandOverEvent::OldestChanged(Some(node)) => {
            if !previous.contains(&node) {
                previous.insert(0, node);
            }
        }
        HandOverEvent::RemovedAfterMargin(node) => previous = without(previous, &node),
        // A quick restart: the successor asks who was started anew, and nothing runs here.
        HandOverEvent::HandOverToMe(from) if !facts.leaving && !facts.preparing => {
            steps.push(HandOverStep::HandOverDone(from))
        }
        HandOverEvent::SelfRemoved | HandOverEvent::SelfDowned => return (HandOverStage::Stopped, steps),
        HandOverEvent::OldestChanged(None)
        | HandOverEvent::Initial { .. }
        | HandOverEvent::HandOverToMe(_)
        | HandOverEvent::HandOverInProgress(_)
        | HandOverEvent::HandOverDone(_)
        | HandOverEvent::TakeOverFromMe(_)
        | HandOverEvent::HandOverRetry(_)
        | HandOverEvent::TakeOverRetry(_)
        | HandOverEvent::InstanceTerminated
        | HandOverEvent::LeaseGranted
        | HandOverEvent::LeaseDenied
        | HandOverEvent::LeaseLost => {}
    }
    (HandOverStage::Younger { previous }, steps)
}

fn became_oldest(
    previous: Vec<UniqueAddress>,
    facts: &HandOverFacts<'_>,
) -> (HandOverStage, Vec<HandOverStep>) {
    if facts.preparing {
        return (HandOverStage::Younger { previous }, Vec::new());
    }
    if facts.are_all_removed(&previous) {
        return facts.start();
    }
    let steps = previous
        .first()
        .cloned()
        .map(HandOverStep::HandOverToMe)
        .into_iter()
        .collect();
    (HandOverStage::BecomingOldest { previous }, steps)
}

pub(super) fn becoming(
    mut previous: Vec<UniqueAddress>,
    event: HandOverEvent,
    facts: &HandOverFacts<'_>,
) -> (HandOverStage, Vec<HandOverStep>) {
    let mut steps = Vec::new();
    match event {
        HandOverEvent::HandOverInProgress(from) if previous.first() == Some(&from) => {
            steps.push(HandOverStep::CancelRetry)
        }
        HandOverEvent::HandOverDone(from) if previous.first() == Some(&from) && !facts.preparing => {
            return facts.start();
        }
        HandOverEvent::RemovedAfterMargin(node) if !facts.exited => {
            if previous.contains(&node)
                && facts.are_all_removed(&without(previous.clone(), &node))
                && !facts.preparing
            {
                return facts.start();
            }
            previous = without(previous, &node);
        }
        HandOverEvent::TakeOverFromMe(from) => {
            if previous.is_empty() {
                previous.push(from.clone());
            }
            if previous.first() == Some(&from) && !facts.preparing {
                steps.push(HandOverStep::HandOverToMe(from));
            }
        }
        // Nobody is asked any more: whatever runs ends with its node.
        HandOverEvent::HandOverRetry(_) if facts.preparing && facts.exited => {
            return (HandOverStage::Stopped, steps);
        }
        HandOverEvent::HandOverRetry(_) if facts.preparing => {
            return (HandOverStage::Younger { previous }, steps);
        }
        HandOverEvent::HandOverRetry(number) if number <= facts.retries_max => {
            steps.extend(previous.first().cloned().map(HandOverStep::HandOverToMe));
            steps.push(HandOverStep::Retry(number.saturating_add(1)));
        }
        HandOverEvent::HandOverRetry(_) => {
            if facts.are_all_removed(&previous) && !facts.preparing {
                return facts.start();
            }
            let stage = if facts.exited || facts.self_removed {
                HandOverStage::Stopped
            } else {
                HandOverStage::Stuck
            };
            return (stage, steps);
        }
        HandOverEvent::SelfRemoved | HandOverEvent::SelfDowned => return (HandOverStage::Stopped, steps),
        HandOverEvent::Initial { .. }
        | HandOverEvent::OldestChanged(_)
        | HandOverEvent::RemovedAfterMargin(_)
        | HandOverEvent::HandOverToMe(_)
        | HandOverEvent::HandOverInProgress(_)
        | HandOverEvent::HandOverDone(_)
        | HandOverEvent::TakeOverRetry(_)
        | HandOverEvent::InstanceTerminated
        | HandOverEvent::LeaseGranted
        | HandOverEvent::LeaseDenied
        | HandOverEvent::LeaseLost => {}
    }
    (HandOverStage::BecomingOldest { previous }, steps)
}

/// Nothing runs: the lease is asked for.
fn acquire() -> (HandOverStage, Vec<HandOverStep>) {
    let stage = HandOverStage::AcquiringLease { instance: false };
    (stage, alloc::vec![HandOverStep::AcquireLease])
}

pub(super) fn acquiring(
    instance: bool,
    event: HandOverEvent,
    facts: &HandOverFacts<'_>,
) -> (HandOverStage, Vec<HandOverStep>) {
    let mut steps = Vec::new();
    match event {
        HandOverEvent::LeaseGranted if !instance => {
            return (
                HandOverStage::Oldest { instance: true },
                alloc::vec![HandOverStep::StartInstance],
            );
        }
        // The last instance had to end first, for the lease was lost.
        HandOverEvent::InstanceTerminated => return acquire(),
        HandOverEvent::SelfRemoved | HandOverEvent::SelfDowned => return facts.stop(instance),
        HandOverEvent::OldestChanged(Some(node)) if node == *facts.me => {}
        HandOverEvent::HandOverToMe(_) if facts.preparing => {}
        HandOverEvent::OldestChanged(_) | HandOverEvent::HandOverToMe(_) => {
            return oldest(instance, event, facts);
        }
        HandOverEvent::TakeOverFromMe(_) if facts.preparing => {}
        HandOverEvent::TakeOverFromMe(from) => steps.push(HandOverStep::HandOverToMe(from)),
        HandOverEvent::LeaseGranted
        | HandOverEvent::LeaseDenied
        | HandOverEvent::LeaseLost
        | HandOverEvent::Initial { .. }
        | HandOverEvent::RemovedAfterMargin(_)
        | HandOverEvent::HandOverInProgress(_)
        | HandOverEvent::HandOverDone(_)
        | HandOverEvent::HandOverRetry(_)
        | HandOverEvent::TakeOverRetry(_) => {}
    }
    (HandOverStage::AcquiringLease { instance }, steps)
}

pub(super) fn oldest(
    instance: bool,
    event: HandOverEvent,
    facts: &HandOverFacts<'_>,
) -> (HandOverStage, Vec<HandOverStep>) {
    let mut steps = Vec::new();
    match event {
        HandOverEvent::OldestChanged(Some(node)) if node == *facts.me => {}
        HandOverEvent::OldestChanged(Some(node)) if facts.removed.contains(&node) && !facts.exited => {
            return facts.hand_over(None, instance);
        }
        // Nobody takes it over: it ends with its node (10.12).
        HandOverEvent::OldestChanged(_) if facts.preparing && facts.exited => return facts.stop(instance),
        HandOverEvent::OldestChanged(new) => {
            if !facts.preparing {
                steps.extend(new.clone().map(HandOverStep::TakeOverFromMe));
            }
            steps.push(HandOverStep::Retry(1));
            return (HandOverStage::WasOldest { new, instance }, steps);
        }
        // Who asked did not know yet that the cluster prepares to stop, and would not start.
        HandOverEvent::HandOverToMe(_) | HandOverEvent::TakeOverFromMe(_) if facts.preparing => {}
        HandOverEvent::HandOverToMe(from) => return facts.hand_over(Some(from), instance),
        HandOverEvent::TakeOverFromMe(from) => steps.push(HandOverStep::HandOverToMe(from)),
        HandOverEvent::InstanceTerminated => return (HandOverStage::Oldest { instance: false }, steps),
        HandOverEvent::LeaseLost if instance => {
            steps.push(HandOverStep::StopInstance);
            return (HandOverStage::AcquiringLease { instance }, steps);
        }
        HandOverEvent::LeaseLost => return acquire(),
        HandOverEvent::SelfRemoved | HandOverEvent::SelfDowned => return facts.stop(instance),
        HandOverEvent::Initial { .. }
        | HandOverEvent::RemovedAfterMargin(_)
        | HandOverEvent::HandOverInProgress(_)
        | HandOverEvent::HandOverDone(_)
        | HandOverEvent::HandOverRetry(_)
        | HandOverEvent::TakeOverRetry(_)
        | HandOverEvent::LeaseGranted
        | HandOverEvent::LeaseDenied => {}
    }
    (HandOverStage::Oldest { instance }, steps)
}

pub(super) fn was_oldest(
    new: Option<UniqueAddress>,
    instance: bool,
    event: HandOverEvent,
    facts: &HandOverFacts<'_>,
) -> (HandOverStage, Vec<HandOverStep>) {
    let mut steps = Vec::new();
    match event {
        HandOverEvent::TakeOverRetry(_) if facts.preparing && !facts.exited => {
            steps.push(HandOverStep::Retry(1))
        }
        HandOverEvent::HandOverToMe(_) if facts.preparing => {}
        HandOverEvent::TakeOverRetry(number) => {
            let is_over = facts.exited || facts.self_removed;
            if is_over && (facts.preparing || new.is_none() || number > facts.retries_max) {
                return facts.stop(instance);
            }
            if number > facts.retries_max {
                return (HandOverStage::Stuck, steps);
            }
            steps.extend(new.clone().map(HandOverStep::TakeOverFromMe));
            steps.push(HandOverStep::Retry(number.saturating_add(1)));
        }
        HandOverEvent::HandOverToMe(from) => return facts.hand_over(Some(from), instance),
        // The other one is gone, or on its way out, before it asked for anything. A lease may be lost by now.
        HandOverEvent::OldestChanged(Some(node)) if node == *facts.me && !facts.lease => {
            return (HandOverStage::Oldest { instance }, steps);
        }
        HandOverEvent::RemovedAfterMargin(node) if Some(&node) == new.as_ref() && !facts.exited => {
            return facts.hand_over(None, instance);
        }
        HandOverEvent::InstanceTerminated => {
            return (HandOverStage::WasOldest { new, instance: false }, steps);
        }
        HandOverEvent::LeaseLost if instance => steps.push(HandOverStep::StopInstance),
        HandOverEvent::SelfDowned => return facts.stop(instance),
        HandOverEvent::SelfRemoved if !facts.exited => return facts.stop(instance),
        HandOverEvent::Initial { .. }
        | HandOverEvent::OldestChanged(_)
        | HandOverEvent::RemovedAfterMargin(_)
        | HandOverEvent::HandOverInProgress(_)
        | HandOverEvent::HandOverDone(_)
        | HandOverEvent::TakeOverFromMe(_)
        | HandOverEvent::HandOverRetry(_)
        | HandOverEvent::LeaseGranted
        | HandOverEvent::LeaseDenied
        | HandOverEvent::LeaseLost
        | HandOverEvent::SelfRemoved => {}
    }
    (HandOverStage::WasOldest { new, instance }, steps)
}

pub(super) fn handing_over(
    to: Option<UniqueAddress>,
    event: HandOverEvent,
    facts: &HandOverFacts<'_>,
) -> (HandOverStage, Vec<HandOverStep>) {
    let mut steps = Vec::new();
    match event {
        HandOverEvent::HandOverToMe(from) if Some(&from) == to.as_ref() => {
            steps.push(HandOverStep::HandOverInProgress(from))
        }
        HandOverEvent::InstanceTerminated => return facts.handed_over(to),
        HandOverEvent::Initial { .. }
        | HandOverEvent::OldestChanged(_)
        | HandOverEvent::RemovedAfterMargin(_)
        | HandOverEvent::HandOverToMe(_)
        | HandOverEvent::HandOverInProgress(_)
        | HandOverEvent::HandOverDone(_)
        | HandOverEvent::TakeOverFromMe(_)
        | HandOverEvent::HandOverRetry(_)
        | HandOverEvent::TakeOverRetry(_)
        | HandOverEvent::LeaseGranted
        | HandOverEvent::LeaseDenied
        | HandOverEvent::LeaseLost
        | HandOverEvent::SelfDowned
        | HandOverEvent::SelfRemoved => {}
    }
    (HandOverStage::HandingOver { to }, steps)
}
