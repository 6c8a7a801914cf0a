//! The wall of truth: what every process really did, which no process can know of the others. Records and
//! answers questions; judges nothing (the invariants do). Spec: reliability 2 ("H").

use std::collections::{BTreeMap, BTreeSet, HashSet};

use quorate_core::effect::HaltReason;
use quorate_core::ident::UniqueAddress;
use quorate_core::membership::gossip::Gossip;
use quorate_core::membership::vector_clock::{ClockOrder, VectorClock};
use quorate_core::sharding::errors::AskFailure;
use quorate_core::sharding::ids::{EntityId, KindId, ShardId, Slot};
use quorate_core::singleton::state::SingletonId;
use quorate_core::token::Token;

use super::digest;

/// A process: its position in the list of all processes ever started in a run.
pub type ProcessId = u32;

/// Where a process is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// It runs.
    Running,
    /// Its node halted, and the process with it.
    Halted(HaltReason),
    /// It was killed.
    Crashed,
}

/// What one process did.
#[derive(Clone, Debug)]
pub struct ProcessHistory {
    /// Its incarnation.
    pub node: UniqueAddress,
    /// The position of its address.
    pub index: usize,
    /// Whether it lives.
    pub life: Life,
    /// When it ended; `u64::MAX` while it lives.
    pub ended_at: u64,
    /// The highest own clock entry it ever published.
    pub own_counter: u64,
    /// Members that told it that they are done exiting.
    pub exiting_confirmed: BTreeSet<UniqueAddress>,
    /// Messages without an asker that it gave up.
    pub dead_letters: u64,
    /// How often it said that it is no longer a member.
    pub self_removed: u32,
    /// The shards it hosts, as it said.
    pub shards: BTreeSet<(KindId, ShardId)>,
    clocks: Vec<VectorClock>,
    clock_digests: HashSet<u64>,
}

impl ProcessHistory {
    /// Whether it held a state with exactly this clock, or a later one.
    #[must_use]
    pub fn held(&self, clock: &VectorClock, clock_digest: u64) -> bool {
        self.clock_digests.contains(&clock_digest)
            || self
                .clocks
                .iter()
                .rev()
                .any(|held| matches!(held.compare(clock), ClockOrder::After | ClockOrder::Same))
    }
}

/// Where a message to an entity is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whereabouts {
    /// In the node of this process: buffered, being routed, or given up.
    At(ProcessId),
    /// Between two processes.
    InFlight,
    /// In the mailbox of an entity of this process.
    Mailbox(ProcessId),
    /// The entity has handled it.
    Handled,
    /// A fault, or the end of the process that had it, destroyed it.
    Destroyed,
}

/// One message to an entity.
#[derive(Clone, Debug)]
pub struct MessageRecord {
    /// Who sent it.
    pub sender: ProcessId,
    /// To which entity.
    pub entity: EntityId,
    /// Whether an answer is expected.
    pub ask: bool,
    /// When it was sent.
    pub sent_at: u64,
    /// How long its asker waits, in microseconds; `None` without an asker.
    pub timeout: Option<u64>,
    /// When it left the last process that had it.
    pub left_at: u64,
    /// How long it was between processes since it left its sender, the rounding of what its asker still waits
    /// included.
    pub in_transit: u64,
    /// Where it is.
    pub whereabouts: Whereabouts,
    /// How often an entity handled it.
    pub handled: u32,
    /// How the ask ended.
    pub outcome: Option<Result<(), AskFailure>>,
}

/// One instance of a singleton that was started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceRecord {
    /// Of which singleton.
    pub singleton: SingletonId,
    /// Where.
    pub process: ProcessId,
    /// In which slot of its process.
    pub slot: Slot,
    /// Its token.
    pub token: Token,
    /// When it was ordered.
    pub started_at: u64,
    /// Whether it was told to stop, or to end at once.
    pub told_to_stop: bool,
    /// When the last of it ended.
    pub ended_at: Option<u64>,
}

/// What remembers a promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Keeper {
    /// The disk of this address.
    Disk(usize),
    /// The memory of this process.
    Memory(ProcessId),
}

/// The history of a run.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// All processes ever started.
    pub processes: Vec<ProcessHistory>,
    /// All messages to entities; the position is what their payload begins with.
    pub messages: Vec<MessageRecord>,
    /// Running entities, by name.
    pub active: BTreeMap<(KindId, EntityId), Vec<(ProcessId, Slot)>>,
    /// All instances of singletons ever started.
    pub instances: Vec<InstanceRecord>,
    /// To whom each term of a singleton was promised, by whoever keeps the promise: the disk of an address,
    /// or a process.
    pub promises: BTreeMap<(SingletonId, Keeper), BTreeMap<u64, UniqueAddress>>,
    /// When a process said last that nothing of a singleton runs there any more.
    pub handed_over: BTreeMap<(SingletonId, ProcessId), u64>,
    /// Members that an operator wanted removed at once.
    pub removed_by_hand: BTreeSet<UniqueAddress>,
    /// The links of which an end reported the other to whoever downed somebody first.
    pub known_broken: Option<BTreeSet<(UniqueAddress, UniqueAddress)>>,
    /// Who lies, or has lied: what runs there, and what it places as a coordinator, is its own.
    pub liar: Option<ProcessId>,
    /// Shards that somebody started because the liar's node, as their coordinator, said so.
    pub placed_by_liar: BTreeSet<(KindId, ShardId)>,
    /// Messages that each process was given by others.
    pub given_to: BTreeMap<ProcessId, BTreeSet<usize>>,
    /// Copies of messages that are written down nowhere: so many more may be given up.
    pub copies: u64,
    /// Messages that were given up are counted from this time on.
    pub letters_from: u64,
    by_node: BTreeMap<UniqueAddress, ProcessId>,
}

impl History {
    /// Whether somebody gave the message to the liar, also before it lied: what its asker hears is the liar's
    /// own too.
    pub fn is_given_to_liar(&self, message: usize) -> bool {
        let given = self.liar.and_then(|liar| self.given_to.get(&liar));
        given.is_some_and(|given| given.contains(&message))
    }

    /// A process has started.
    pub(crate) fn started(&mut self, node: UniqueAddress, index: usize) -> ProcessId {
        let process = ProcessId::try_from(self.processes.len()).unwrap_or(ProcessId::MAX);
        self.by_node.insert(node.clone(), process);
        self.processes.push(ProcessHistory {
            node,
            index,
            life: Life::Running,
            ended_at: u64::MAX,
            own_counter: 0,
            exiting_confirmed: BTreeSet::new(),
            dead_letters: 0,
            self_removed: 0,
            shards: BTreeSet::new(),
            clocks: Vec::new(),
            clock_digests: HashSet::new(),
        });
        process
    }

    /// A process has ended; what it had in memory is gone. Unless its node only says that it has ended:
    /// handlers that nobody could stop run on then, until [`Self::handlers_ended`].
    pub(crate) fn ended(&mut self, process: ProcessId, life: Life, handlers_run_on: bool) {
        let record = &mut self.processes[process as usize];
        record.life = life;
        record.shards.clear();
        if !handlers_run_on {
            self.handlers_ended(process);
        }
        for message in &mut self.messages {
            let here = [Whereabouts::At(process), Whereabouts::Mailbox(process)];
            if here.contains(&message.whereabouts) {
                message.whereabouts = Whereabouts::Destroyed;
            }
        }
    }

    /// Nothing of a process runs any more.
    pub(crate) fn handlers_ended(&mut self, process: ProcessId) {
        self.active.retain(|_, instances| {
            instances.retain(|(host, _)| *host != process);
            !instances.is_empty()
        });
    }

    /// Whether a keeper of promises knows that an instance of this node had a term: it promised that one to
    /// that node, or a higher one to anybody.
    #[must_use]
    pub fn knows_of(&self, keeper: (SingletonId, Keeper), term: u64, node: &UniqueAddress) -> bool {
        let promised = self.promises.get(&keeper);
        promised.is_some_and(|terms| {
            terms.get(&term) == Some(node) || terms.keys().next_back().is_some_and(|last| *last > term)
        })
    }

    /// A process held this state: it published it, or sent it.
    pub(crate) fn held(&mut self, process: ProcessId, gossip: &Gossip) {
        let record = &mut self.processes[process as usize];
        if record.clock_digests.insert(digest::clock(gossip.version())) {
            record.clocks.push(gossip.version().clone());
        }
        record.own_counter = record.own_counter.max(gossip.version().get(&record.node));
    }

    /// An entity runs.
    pub(crate) fn runs(&mut self, process: ProcessId, slot: Slot, name: (KindId, EntityId)) {
        self.active.entry(name).or_default().push((process, slot));
    }

    /// An entity runs no more.
    pub(crate) fn stopped(&mut self, process: ProcessId, slot: Slot, name: &(KindId, EntityId)) {
        if let Some(instances) = self.active.get_mut(name) {
            instances.retain(|instance| *instance != (process, slot));
            if instances.is_empty() {
                self.active.remove(name);
            }
        }
    }

    /// Whether this is the liar's incarnation.
    #[must_use]
    pub fn is_liar(&self, node: &UniqueAddress) -> bool {
        self.liar.is_some() && self.process_of(node) == self.liar
    }

    /// The liar has placed nothing any more, and what was sent before this time and given up in its time is
    /// not waited for.
    pub(crate) fn forget_lies(&mut self, before: u64, now: u64) {
        self.placed_by_liar.clear();
        self.letters_from = now;
        for message in &mut self.messages {
            let is_lost = Some(message.sender) == self.liar || message.sent_at < before;
            let was_handled = matches!(
                message.whereabouts,
                Whereabouts::Handled | Whereabouts::Mailbox(_)
            );
            if is_lost && !was_handled {
                message.whereabouts = Whereabouts::Destroyed;
            }
        }
        for process in &mut self.processes {
            process.dead_letters = 0;
        }
    }

    /// The process of an incarnation.
    #[must_use]
    pub fn process_of(&self, node: &UniqueAddress) -> Option<ProcessId> {
        self.by_node.get(node).copied()
    }

    /// What the process of an incarnation did; `None` if there never was such a process.
    #[must_use]
    pub fn of(&self, node: &UniqueAddress) -> Option<&ProcessHistory> {
        self.process_of(node).map(|id| &self.processes[id as usize])
    }

    /// A message leaves a process for another one.
    pub(crate) fn leaves(&mut self, payload: &[u8], now: u64) {
        if let Some(message) = message_number(payload).and_then(|at| self.messages.get_mut(at)) {
            message.whereabouts = Whereabouts::InFlight;
            message.left_at = now;
        }
    }

    /// A message comes to a process, or back to it. Its sender knows for how long it waits for the answer;
    /// others are told what is left in whole milliseconds, and count from now on.
    pub(crate) fn arrives(&mut self, at: usize, process: ProcessId, now: u64) {
        let message = &mut self.messages[at];
        message.whereabouts = Whereabouts::At(process);
        if process == message.sender {
            message.in_transit = 0;
        } else {
            message.in_transit += now - message.left_at + 1_000;
        }
    }

    /// The same, of one that was passed on to its sender: that one does not know it for its own.
    pub(crate) fn has_travelled(&mut self, at: usize, now: u64) {
        let message = &mut self.messages[at];
        if message.in_transit == 0 {
            message.in_transit = now - message.sent_at + 1_000;
        }
    }

    /// Notes where a message is; messages that are not from the workload are ignored.
    pub(crate) fn message_is(&mut self, payload: &[u8], whereabouts: Whereabouts) {
        if let Some(message) = message_number(payload).and_then(|at| self.messages.get_mut(at)) {
            message.whereabouts = whereabouts;
        }
    }
}

/// The position in [`History::messages`] that a payload names.
#[must_use]
pub fn message_number(payload: &[u8]) -> Option<usize> {
    let first = payload.first_chunk::<8>()?;
    usize::try_from(u64::from_le_bytes(*first)).ok()
}
