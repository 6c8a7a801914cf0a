//! The part of this node in the life of a slot. Types only. Spec: sharding 5.4.

use super::buffer::HeldMessages;
use crate::handoff::Barrier;
use crate::ident::UniqueAddress;
use crate::ordered::{OrderedMap, OrderedSet};
use crate::paths::protocol::AbortReason;
use crate::paths::state::table::SlotMove;
use crate::sharding::state::ids::Payload;
use crate::time::Instant;

/// What this node does with a slot.
#[derive(Clone, Debug)]
pub(super) enum SlotPart {
    /// It hosts it, and nothing changes.
    Serving,
    /// It hosts it and gives it away.
    Giving(Giving),
    /// It is to host it.
    Taking(Taking),
    /// It hosts it no more; the instance has not ended.
    Ending,
}

/// How far an old host is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GivingStage {
    /// The instance stops first (options 2b, 2c).
    Stopping,
    /// Its state goes to the new host.
    Sending,
    /// The new host is asked to begin.
    Offering,
    /// The new host is ready; the instance handles what it has (option 2a).
    Draining,
    /// The move is complete; late messages are passed on until all senders have marked.
    Forwarding,
    /// All have; a slot that is given up waits for its instance to end.
    Closing,
}

/// The old host's part of a move.
#[derive(Clone, Debug)]
pub(super) struct Giving {
    pub(super) change: SlotMove,
    pub(super) stage: GivingStage,
    /// When it is given up if it is not complete.
    pub(super) deadline: Instant,
    pub(super) held: HeldMessages,
    /// What the instance left, how many bytes of it the new host has, and how many were sent.
    pub(super) state: Option<Payload>,
    pub(super) state_received: usize,
    pub(super) state_sent: usize,
    /// How many it had when it was looked at last.
    pub(super) state_looked_at: usize,
    /// Who has not marked, once it is complete.
    pub(super) barrier: Option<Barrier<UniqueAddress>>,
    /// Senders whose marks were passed on.
    pub(super) passed_marks: OrderedSet<UniqueAddress>,
    /// Whether the new host knows that it is complete.
    pub(super) begun: bool,
    /// Why it is given up once its instance has stopped, and has left its state.
    pub(super) given_up: Option<AbortReason>,
    /// Whether users heard that marks are missing.
    pub(super) reported: bool,
}

/// How far a new host is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TakingStage {
    /// The old host has not asked to begin, or the state is not all here.
    Waiting,
    /// The instance starts.
    Starting,
    /// It runs, and handles nothing.
    Ready,
    /// The move is complete.
    Begun,
}

/// The new host's part of a move.
#[derive(Clone, Debug)]
pub(super) struct Taking {
    pub(super) change: SlotMove,
    pub(super) stage: TakingStage,
    /// The state so far.
    pub(super) state: alloc::vec::Vec<u8>,
    /// Whether nobody's messages are kept any more.
    pub(super) all_open: bool,
    /// Senders of whom all that they gave the old host has come over.
    pub(super) opened: OrderedSet<UniqueAddress>,
    pub(super) kept: OrderedMap<UniqueAddress, HeldMessages>,
}

impl Giving {
    pub(super) fn new(change: SlotMove, deadline: Instant) -> Self {
        Self {
            change,
            stage: GivingStage::Offering,
            deadline,
            held: HeldMessages::default(),
            state: None,
            state_received: 0,
            state_sent: 0,
            state_looked_at: 0,
            barrier: None,
            passed_marks: OrderedSet::new(),
            begun: false,
            given_up: None,
            reported: false,
        }
    }

    pub(super) const fn is_complete(&self) -> bool {
        matches!(self.stage, GivingStage::Forwarding | GivingStage::Closing)
    }
}

impl Taking {
    pub(super) fn new(change: SlotMove) -> Self {
        Self {
            change,
            stage: TakingStage::Waiting,
            state: alloc::vec::Vec::new(),
            all_open: false,
            opened: OrderedSet::new(),
            kept: OrderedMap::new(),
        }
    }
}
