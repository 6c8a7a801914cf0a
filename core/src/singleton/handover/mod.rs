//! Who may start the instance and when: the stages of a singleton's manager and every step between them, as a
//! pure function of stage, event and facts. Sends nothing, waits for nothing, reads no time; the manager does
//! what the steps say. Spec: sharding 1.10.

mod stages;

use alloc::vec::Vec;

use crate::ident::UniqueAddress;
use crate::ordered::OrderedSet;

/// How often questions of a hand-over are repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandOverRetries {
    /// Of the successor, for the hand-over.
    pub hand_over_max: u32,
    /// Of the predecessor, for being asked.
    pub take_over_max: u32,
}

impl HandOverRetries {
    /// At least `min`, and long enough for the removal margin to pass at one question per interval: a
    /// predecessor that is gone is known to be gone only after it. The predecessor gives up a little earlier
    /// than its successor. A margin that is no multiple of the interval counts its last part as nothing.
    #[must_use]
    pub fn new(min: u32, interval_ms: u64, removal_margin_ms: u64) -> Self {
        let of_margin = removal_margin_ms.checked_div(interval_ms).unwrap_or(0);
        let of_margin = u32::try_from(of_margin).unwrap_or(u32::MAX);
        let hand_over_max = min.max(of_margin.saturating_add(3));
        Self {
            hand_over_max,
            take_over_max: hand_over_max.saturating_sub(3).max(1),
        }
    }
}

/// Where a manager is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HandOverStage {
    /// This node is not Up yet.
    Start,
    /// Somebody older is responsible.
    Younger {
        /// Older members, the one that was the oldest last in front, whose removal is not over.
        previous: Vec<UniqueAddress>,
    },
    /// This node is the oldest and asks its predecessor to hand over. Who enters this stage waits one
    /// interval, then says [`HandOverEvent::HandOverRetry`] with 1.
    BecomingOldest {
        /// As in [`HandOverStage::Younger`].
        previous: Vec<UniqueAddress>,
    },
    /// Nothing stands in the way but the lease.
    AcquiringLease {
        /// Whether the instance whose lease was lost has not ended.
        instance: bool,
    },
    /// This node is responsible.
    Oldest {
        /// Whether the instance lives; one that ended is started again by who supervises it.
        instance: bool,
    },
    /// Somebody else is the oldest now, and is asked to ask for the hand-over.
    WasOldest {
        /// Who, if anybody is left.
        new: Option<UniqueAddress>,
        /// Whether the instance lives.
        instance: bool,
    },
    /// The instance is told to stop; then its successor may start.
    HandingOver {
        /// Who waits for it.
        to: Option<UniqueAddress>,
    },
    /// The instance is told to stop, and nobody waits for it.
    Stopping,
    /// Handed over; this node leaves.
    End,
    /// Finished.
    Stopped,
    /// Nobody answered for too long, and nobody is known to be gone: begin anew.
    Stuck,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HandOverEvent {
    /// This node is Up.
    Initial {
        /// The members of the role that are not younger, oldest first; this node is one of them.
        oldest_first: Vec<UniqueAddress>,
        /// Whether none of the others is on its way out, so that nobody older can have an instance.
        safe: bool,
    },
    /// Another member is the oldest.
    OldestChanged(Option<UniqueAddress>),
    /// A member's removal margin is over; it is among [`HandOverFacts::removed`] from now on.
    RemovedAfterMargin(UniqueAddress),
    /// A successor asks for the hand-over.
    HandOverToMe(UniqueAddress),
    /// The predecessor is at it.
    HandOverInProgress(UniqueAddress),
    /// The predecessor's instance has ended.
    HandOverDone(UniqueAddress),
    /// A predecessor wants to be asked.
    TakeOverFromMe(UniqueAddress),
    /// Time to ask for the hand-over again.
    HandOverRetry(u32),
    /// Time to ask to be asked again.
    TakeOverRetry(u32),
    /// The instance of this node has ended.
    InstanceTerminated,
    /// The lease was granted.
    LeaseGranted,
    /// The lease was denied; it is asked for again later.
    LeaseDenied,
    /// The lease was lost.
    LeaseLost,
    /// This node was declared Down.
    SelfDowned,
    /// This node was removed.
    SelfRemoved,
}

/// What a step has to know besides.
#[derive(Clone, Copy, Debug)]
pub struct HandOverFacts<'a> {
    /// This node.
    pub me: &'a UniqueAddress,
    /// Whether a lease is asked for.
    pub lease: bool,
    /// Whether this node is Leaving or Exiting.
    pub leaving: bool,
    /// Whether the cluster prepares to shut down: nothing is started, and no hand-over is asked for.
    pub preparing: bool,
    /// Whether this node has exited or ends.
    pub exited: bool,
    /// Whether this node is removed already.
    pub self_removed: bool,
    /// How often a question is repeated.
    pub retries_max: u32,
    /// Nodes whose removal margin is over.
    pub removed: &'a OrderedSet<UniqueAddress>,
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HandOverStep {
    /// Start an instance.
    StartInstance,
    /// Stop it.
    StopInstance,
    /// Ask for the lease.
    AcquireLease,
    /// Give the lease back.
    ReleaseLease,
    /// Ask again later, with this number.
    Retry(u32),
    /// Ask no more.
    CancelRetry,
    /// Say [`HandOverEvent::HandOverToMe`].
    HandOverToMe(UniqueAddress),
    /// Say [`HandOverEvent::HandOverInProgress`].
    HandOverInProgress(UniqueAddress),
    /// Say [`HandOverEvent::HandOverDone`].
    HandOverDone(UniqueAddress),
    /// Say [`HandOverEvent::TakeOverFromMe`].
    TakeOverFromMe(UniqueAddress),
}

/// The next stage, and what to do. An event that says nothing to a stage leaves it as it is: late messages
/// are normal.
///
/// O(members), allocates for what it returns.
#[must_use]
pub fn step(
    stage: HandOverStage,
    event: HandOverEvent,
    facts: &HandOverFacts<'_>,
) -> (HandOverStage, Vec<HandOverStep>) {
    match stage {
        HandOverStage::Start => stages::start(event, facts),
        HandOverStage::Younger { previous } => stages::younger(previous, event, facts),
        HandOverStage::BecomingOldest { previous } => stages::becoming(previous, event, facts),
        HandOverStage::AcquiringLease { instance } => stages::acquiring(instance, event, facts),
        HandOverStage::Oldest { instance } => stages::oldest(instance, event, facts),
        HandOverStage::WasOldest { new, instance } => stages::was_oldest(new, instance, event, facts),
        HandOverStage::HandingOver { to } => stages::handing_over(to, event, facts),
        HandOverStage::Stopping => (
            if event == HandOverEvent::InstanceTerminated {
                HandOverStage::Stopped
            } else {
                HandOverStage::Stopping
            },
            Vec::new(),
        ),
        HandOverStage::End => (
            if event == HandOverEvent::SelfRemoved {
                HandOverStage::Stopped
            } else {
                HandOverStage::End
            },
            Vec::new(),
        ),
        HandOverStage::Stopped => (HandOverStage::Stopped, Vec::new()),
        HandOverStage::Stuck => (HandOverStage::Stuck, Vec::new()),
    }
}

#[cfg(test)]
mod tests;
