//! Open operations: whom each waits for, and until when. Decides when an operation has what it asked for.
//! Never sends and never touches a value. Spec: sharding 1.12 (write flow, read flow).

use alloc::vec::Vec;

use super::protocol::Nack;
use super::state::consistency::ReplicaTargets;
use super::state::key::Key;
use super::state::{DataEnvelope, Digest};
use crate::ddata::crdt::DataType;
use crate::ident::UniqueAddress;
use crate::input::Caller;
use crate::ordered::{OrderedMap, OrderedSet};
use crate::time::Instant;

/// Whether a store has been asked to keep something, and does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeepState {
    NotAsked,
    Waits,
    Done,
}

/// What an operation does when its quorum answered.
#[derive(Clone, Debug)]
pub(super) enum OperationWork {
    /// Merges what replicas hold.
    Read {
        /// Merged so far.
        merged: Option<DataEnvelope>,
        /// What each replica holds, to repair those that lack something.
        held: Vec<(UniqueAddress, Option<Digest>)>,
        /// Whether the store of this node keeps what was found.
        kept: KeepState,
    },
    /// Has replicas merge.
    Write {
        /// Whether the store of this node has it, or need not.
        stored: bool,
        /// Whether the first messages carried only the change.
        as_delta: bool,
        /// Replicas whose store failed.
        store_nacks: usize,
        /// Whether the key is durable.
        durable: bool,
        /// What replicas hold that hold another type.
        other_type: Option<DataType>,
    },
}

/// One operation.
#[derive(Clone, Debug)]
pub(super) struct Operation {
    pub(super) caller: Caller,
    pub(super) key: Key,
    pub(super) work: OperationWork,
    /// Replicas that have to answer, this node included.
    pub(super) required: usize,
    /// Replicas that did, this node included.
    pub(super) answered: usize,
    /// Asked, and not answered yet.
    pub(super) waiting: OrderedSet<UniqueAddress>,
    /// To be asked later.
    pub(super) secondary: Vec<UniqueAddress>,
    pub(super) deadline: Instant,
    /// When the others are asked; `None` once they were.
    pub(super) retry_at: Option<Instant>,
}

impl Operation {
    pub(super) const fn has_quorum(&self) -> bool {
        self.answered >= self.required
    }

    fn due(&self) -> Instant {
        self.retry_at.unwrap_or(self.deadline)
    }

    /// Whether so many stores failed, or so many replicas hold another type, that the quorum cannot be
    /// reached any more.
    pub(super) fn is_lost(&self) -> bool {
        match self.work {
            OperationWork::Read { .. } => false,
            OperationWork::Write {
                durable,
                store_nacks,
                other_type,
                ..
            } => {
                let left = self.answered + self.waiting.len() + self.secondary.len();
                let is_final = (durable && store_nacks > 0) || other_type.is_some();
                is_final && left < self.required
            }
        }
    }

    /// A replica says no.
    pub(super) fn on_nack(&mut self, from: &UniqueAddress, reason: Nack) {
        match reason {
            // The whole value follows.
            Nack::Gap => {}
            Nack::Store => {
                if let OperationWork::Write { store_nacks, .. } = &mut self.work
                    && self.waiting.remove(from)
                {
                    *store_nacks += 1;
                }
            }
            Nack::WrongType { held } => {
                if let OperationWork::Write { other_type, .. } = &mut self.work
                    && self.waiting.remove(from)
                {
                    *other_type = Some(held);
                }
            }
            Nack::Limit | Nack::NotServing => {}
        }
    }
}

/// All open operations.
#[derive(Clone, Debug, Default)]
pub(super) struct Operations {
    last: u64,
    open: OrderedMap<u64, Operation>,
    due: OrderedSet<(Instant, u64)>,
}

/// What is open about `targets`.
pub(super) struct OpenTargets {
    pub(super) required: usize,
    pub(super) targets: ReplicaTargets,
    pub(super) deadline: Instant,
    pub(super) retry_at: Instant,
}

impl Operations {
    pub(super) fn len(&self) -> usize {
        self.open.len()
    }

    /// A number that no operation has.
    pub(super) const fn number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Opens an operation that this node has answered already.
    pub(super) fn open(&mut self, caller: Caller, key: Key, work: OperationWork, plan: OpenTargets) -> u64 {
        self.last += 1;
        let operation = Operation {
            caller,
            key,
            work,
            required: plan.required,
            answered: 1,
            waiting: plan.targets.primary.into_iter().collect(),
            secondary: plan.targets.secondary,
            deadline: plan.deadline,
            retry_at: Some(plan.retry_at),
        };
        self.due.insert((operation.due(), self.last));
        self.open.insert(self.last, operation);
        self.last
    }

    pub(super) fn get_mut(&mut self, id: u64) -> Option<&mut Operation> {
        self.open.get_mut(&id)
    }

    pub(super) fn close(&mut self, id: u64) -> Option<Operation> {
        let operation = self.open.remove(&id)?;
        self.due.remove(&(operation.due(), id));
        Some(operation)
    }

    /// The next time something is due.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    /// The next operation that is due by now.
    pub(super) fn pop_due(&mut self, now: Instant) -> Option<u64> {
        let (at, id) = *self.due.first()?;
        (at <= now).then(|| {
            self.due.pop_first();
            id
        })
    }

    /// The others are asked from now on: only the deadline is left.
    pub(super) fn wait_until_deadline(&mut self, id: u64) {
        if let Some(operation) = self.open.get_mut(&id) {
            operation.retry_at = None;
            self.due.insert((operation.deadline, id));
        }
    }

    /// Ends all, oldest first.
    pub(super) fn take_all(&mut self) -> Vec<Operation> {
        self.due.clear();
        core::mem::take(&mut self.open).into_values().collect()
    }

    /// Whether both tables agree.
    pub(super) fn is_consistent(&self) -> bool {
        self.open.len() == self.due.len()
            && self
                .due
                .iter()
                .all(|(at, id)| self.open.get(id).is_some_and(|open| open.due() == *at))
    }
}
