//! Where entities report to, and what each is given when it starts. Decides nothing.

use std::collections::VecDeque;
use std::fmt;
use std::future::{Future, pending};
use std::sync::Arc;

use quorate_core::input::HostReport;
use quorate_core::owner::Requester;
use quorate_core::sharding::errors::AskFailure;
use quorate_core::sharding::ids::{AskRef, Payload, Slot};
use quorate_core::time::Instant;

use super::budget::MailboxBudget;
use super::gate::MailboxGate;
use super::holding::ThreadHolding;
use super::queue::Mailbox;
use super::who::Who;
use crate::counters::{DurableCounters, FailureCounters};
use crate::runtime::Runtime;
use crate::shortcut::ShortcutPlace;
use crate::sync::{Notify, Pile, Task};

/// Waits for a time of the users' runtime.
#[derive(Clone)]
pub(crate) struct SleepUntil(Arc<dyn Fn(Instant) -> Task + Send + Sync>);

impl SleepUntil {
    pub(crate) fn new<R: Runtime>(runtime: R) -> Self {
        Self(Arc::new(move |at| Box::pin(runtime.sleep_until(at))))
    }

    pub(crate) fn at(&self, at: Instant) -> Task {
        (self.0)(at)
    }
}

impl fmt::Debug for SleepUntil {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SleepUntil")
    }
}

/// What something that runs here has said, and who ordered it.
pub(crate) type Reported = (Requester, HostReport);

/// Where entities report to. Bounded by what the pump has ordered: two reports per delivery and two per slot.
#[derive(Debug, Default)]
pub(crate) struct Reports {
    queue: Pile<HostReport>,
    /// Who orders what reports here; nobody where there is no node.
    owner: Option<Requester>,
    /// The way past the queue.
    pub(crate) shortcut: Arc<ShortcutPlace<Reported>>,
    /// What waits in all mailboxes of the node.
    pub(crate) budget: Arc<MailboxBudget>,
    pub(crate) wake: Arc<Notify>,
    /// Whether entities may begin with a message.
    pub(crate) gate: Arc<MailboxGate>,
    /// Who holds threads of the executor.
    pub(crate) holding: ThreadHolding,
    /// What durable entities have done.
    pub(crate) durable: DurableCounters,
    /// How often entities failed.
    pub(crate) failures: FailureCounters,
    /// The users' runtime waits.
    pub(crate) sleep: Option<SleepUntil>,
}

impl Reports {
    pub(crate) fn new(wake: Arc<Notify>, gate: MailboxGate, sleep: SleepUntil) -> Self {
        Self {
            owner: Some(Requester::Sharding),
            wake,
            gate: Arc::new(gate),
            sleep: Some(sleep),
            ..Self::default()
        }
    }

    /// The same for another table of the same node: slots and reports of its own, one room and one gate for
    /// both.
    pub(crate) fn beside(&self, owner: Requester) -> Self {
        Self {
            owner: Some(owner),
            shortcut: Arc::clone(&self.shortcut),
            budget: Arc::clone(&self.budget),
            wake: Arc::clone(&self.wake),
            gate: Arc::clone(&self.gate),
            sleep: self.sleep.clone(),
            ..Self::default()
        }
    }

    /// Waits for a time of the users' runtime; for ever where there is none.
    pub(crate) fn until(&self, at: Instant) -> impl Future<Output = ()> + Send + 'static {
        let sleeping = self.sleep.as_ref().map(|sleep| sleep.at(at));
        async move {
            match sleeping {
                Some(sleeping) => sleeping.await,
                None => pending().await,
            }
        }
    }

    pub(crate) fn push(&self, report: HostReport) {
        self.queue.push(report);
        self.wake.notify();
    }

    /// What became of an ask.
    pub(crate) fn answered(&self, ask: AskRef, result: Result<Payload, AskFailure>) {
        self.push(HostReport::Answered { ask, result });
    }

    /// The same, said by whoever holds no lock of this crate: at once, if it is the only thing that is to be
    /// said.
    pub(crate) fn answers(&self, ask: AskRef, result: Result<Payload, AskFailure>) {
        let report = HostReport::Answered { ask, result };
        let owner = self.owner.filter(|_| self.is_quiet());
        let left = match owner {
            Some(owner) => self.shortcut.say((owner, report)).map_err(|(_, report)| report),
            None => Err(report),
        };
        if let Err(report) = left {
            self.push(report);
        }
    }

    /// Whether nothing waits to be handled here, nor to be heard.
    pub(crate) fn is_quiet(&self) -> bool {
        self.queue.is_empty() && self.budget.is_empty()
    }

    /// An entity has failed, and all of its shard with it.
    pub(crate) fn escalated(&self, slot: Slot) {
        self.push(HostReport::Escalated { slot });
    }

    /// An entity ends because it wants to.
    pub(crate) fn ending(&self, slot: Slot, forget: bool) {
        self.push(HostReport::Ending { slot, forget });
    }

    /// An instance of a path runs.
    pub(crate) fn running(&self, slot: Slot) {
        self.push(HostReport::Running { slot });
    }

    /// An instance of a path leaves this to the next one.
    pub(crate) fn left(&self, slot: Slot, state: Payload) {
        self.push(HostReport::State { slot, state });
    }

    /// An entity wants to be passivated.
    pub(crate) fn passivate(&self, slot: Slot) {
        self.push(HostReport::Passivate { slot });
    }

    /// Several at once: nobody sees the first without the last.
    pub(crate) fn push_all(&self, reports: impl IntoIterator<Item = HostReport>) {
        self.queue.push_all(reports);
        self.wake.notify();
    }

    /// The first of what was reported.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn take_one(&self) -> Option<HostReport> {
        self.queue.take_one()
    }

    /// Whether something was reported.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn has_any(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Moves what was reported to an empty `into`.
    pub(crate) fn take(&self, into: &mut VecDeque<HostReport>) {
        self.queue.take(into);
    }
}

/// One entity to be started.
#[derive(Debug)]
pub(crate) struct EntityStart {
    pub(crate) who: Who,
    pub(crate) slot: Slot,
    pub(crate) mailbox: Arc<Mailbox>,
    /// What the one before it, on another node, has left to it.
    pub(crate) state: Option<Payload>,
    pub(crate) reports: Arc<Reports>,
}

/// Starts entities of one kind without knowing their types.
pub(crate) trait Starter: Send + Sync {
    /// The entity's task. Users' code first runs when it is polled.
    fn start(&self, start: EntityStart) -> Task;
}
