//! Singletons of the simulated nodes: four of two roles, half of them with a lease, which everybody may ask.
//! Instances take their time to start and to stop, fail now and then, hold their threads, and write every
//! message that they handle to a database through their token. Brings it about and writes down what happened;
//! what must hold is in `invariants` and in `checks`. Spec: reliability 1c, sharding 1.10, 10.7.

mod checks;
mod faults;
mod instance;
mod ledger;
mod work;

use std::collections::BTreeSet;
use std::time::Duration;

use quorate_core::config::Config;
use quorate_core::effect::Answer;
use quorate_core::event::SingletonEvent;
use quorate_core::ident::{Role, UniqueAddress};
use quorate_core::input::{Command, HostReport, SingletonCommand, SingletonSettings};
use quorate_core::owner::Requester;
use quorate_core::sharding::ids::Slot;
use quorate_core::singleton::protocol::{SingletonBody, SingletonStatement};
use quorate_core::singleton::state::SingletonId;
use quorate_core::store::{StoreAnswer, StoreOrder};
use quorate_core::token::Token;

use self::ledger::{Call, Ledger};
use super::chance::{Chance, Purpose};
use super::engine::Sim;
use super::history::{Keeper, ProcessId, Whereabouts};
use super::process::Open;
use super::work::role_of_one;

pub(crate) use self::instance::Instance;

/// One of the singletons.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    role: &'static str,
    pub(crate) lease: bool,
}

impl Kind {
    pub(crate) fn id(&self) -> SingletonId {
        SingletonId::of(self.name)
    }

    pub(crate) fn role(&self) -> Role {
        role(self.role)
    }

    /// The name of its lease in a cluster named `sim`.
    pub(crate) fn lease_name(&self) -> String {
        format!("sim-singleton-{}", self.name)
    }

    pub(crate) fn of(id: SingletonId) -> Option<&'static Self> {
        KINDS.iter().find(|kind| kind.id() == id)
    }
}

/// The name of a singleton's lease; `None` for one that needs none.
pub(crate) fn lease_of(singleton: SingletonId) -> Option<String> {
    Kind::of(singleton)
        .filter(|kind| kind.lease)
        .map(Kind::lease_name)
}

/// All of them.
pub(crate) const KINDS: [Kind; 4] = [
    Kind {
        name: "billing",
        role: "blue",
        lease: false,
    },
    Kind {
        name: "clock",
        role: "blue",
        lease: true,
    },
    Kind {
        name: "audit",
        role: "green",
        lease: false,
    },
    Kind {
        name: "mail",
        role: "green",
        lease: true,
    },
];

/// A lease outlives its owner for so long; shorter than its successor waits anyway, so that it does not
/// decide everything.
const LEASE_TIME_TO_LIVE: Duration = Duration::from_secs(3);

fn role(name: &str) -> Role {
    Role::new(name).expect("invariant: a short name is legal")
}

/// Of three nodes one has both roles, and each of the others one of them.
pub(crate) fn roles_of(index: usize) -> Vec<Role> {
    match index % 3 {
        0 => vec![role("blue"), role("green")],
        1 => vec![role("blue")],
        _ => vec![role("green")],
    }
}

/// What happens to an instance.
#[derive(Debug)]
pub(crate) enum InstanceHappening {
    /// It has time.
    Turn { process: ProcessId, slot: Slot },
    /// The database gets what it asked for. The database stands still for nobody.
    Called {
        process: ProcessId,
        slot: Slot,
        /// Its position in the history.
        record: usize,
        call: Call,
    },
    /// The database has answered it.
    Answered {
        process: ProcessId,
        slot: Slot,
        answer: ledger::Answer,
    },
    /// Its host reports something to the node.
    Reported { process: ProcessId, report: HostReport },
}

impl InstanceHappening {
    /// The process that has to run for it to happen.
    pub(crate) const fn waits_for(&self) -> Option<ProcessId> {
        match self {
            Self::Turn { process, .. } | Self::Answered { process, .. } | Self::Reported { process, .. } => {
                Some(*process)
            }
            Self::Called { .. } => None,
        }
    }
}

/// What happened, for the report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Instances that failed over a message.
    pub(crate) failures: u64,
    /// Instances that were killed and ran on.
    pub(crate) ran_on: u64,
    /// Leases that could not be renewed in time.
    pub(crate) leases_lost: u64,
    /// Answers of the database that nobody got.
    pub(crate) unknown_outcomes: u64,
    /// Instances whose token nobody could have known to be too low.
    pub(crate) unordered_tokens: u64,
    /// The same, in runs in which every node has a store.
    pub(crate) unordered_with_stores: u64,
    /// Starts on a node that had lost the singleton before.
    pub(crate) returns: u64,
    /// Runs at whose end every singleton answered everybody.
    pub(crate) answered_at_rest: u64,
    /// Registrations that the cluster has with other fields.
    pub(crate) refused: u64,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Singletons {
    /// Whether nodes register them.
    pub(crate) enabled: bool,
    /// The quiet phase: instances do nothing odd any more.
    calm: bool,
    /// Handlers may hold their threads for longer than the removal margin.
    long_handlers: bool,
    /// Addresses without a store: what was promised there dies with the process.
    storeless: BTreeSet<usize>,
    /// Who was told to host a singleton no more, and until when.
    retired: Vec<faults::Retired>,
    chance: Chance,
    pub(crate) ledger: Ledger,
    pub(crate) counts: Counts,
}

impl Singletons {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            enabled: false,
            calm: false,
            long_handlers: false,
            storeless: BTreeSet::new(),
            retired: Vec::new(),
            chance: Chance::new(seed, Purpose::Singletons),
            ledger: Ledger::default(),
            counts: Counts::default(),
        }
    }

    /// The quiet phase begins: instances do nothing odd any more, and everybody hosts what it may.
    pub(crate) fn calm_down(&mut self) {
        self.calm = true;
        for retired in &mut self.retired {
            retired.until = 0;
        }
    }

    pub(crate) fn all_have_stores(&self) -> bool {
        self.storeless.is_empty()
    }

    /// Nodes have them from now on. Half of the runs have a store on every node, a quarter on none, the
    /// others on some.
    pub(crate) fn enable(&mut self, nodes: usize, orderly: bool) {
        self.enabled = true;
        self.long_handlers = self.chance.per_mille(300) && !orderly;
        let shape = self.chance.below(4);
        for index in 0..nodes {
            let without = self.chance.per_mille(500);
            if shape == 0 || (shape == 1 && without) {
                self.storeless.insert(index);
            }
        }
    }
}

/// Settings with which a minute has in it what an hour has otherwise.
pub(crate) fn configure(config: &mut Config) {
    config.singleton.lease_time_to_live = LEASE_TIME_TO_LIVE;
    // Small, so that they are met.
    config.singleton.buffer_messages_max = 100;
    config.singleton.open_asks_max = 200;
}

impl Sim {
    /// Nodes host the two singletons of their roles, besides their entities.
    #[must_use]
    pub fn with_singletons(mut self, nodes: usize) -> Self {
        self.singletons.enable(nodes, true);
        self
    }

    /// How many registrations of singletons were refused because others have them with other fields.
    #[must_use]
    pub const fn singletons_refused(&self) -> u64 {
        self.singletons.counts.refused
    }

    /// A new process hosts the singletons of its roles, and reaches the others.
    pub(crate) fn register_singletons(&mut self, process: ProcessId) {
        if !self.singletons.enabled {
            return;
        }
        for kind in KINDS {
            self.register_singleton(process, &kind, Open::Command("register"));
        }
    }

    fn register_singleton(&mut self, process: ProcessId, kind: &Kind, open: Open) {
        let differs = self.differs == Some(self.processes[process as usize].index);
        let settings = SingletonSettings {
            name: kind.name.into(),
            role: Some(if differs { role_of_one() } else { kind.role() }),
            hosts: differs || self.may_host(process, kind),
            lease: kind.lease,
            durable: false,
        };
        let command = Command::Singleton(SingletonCommand::Register(settings));
        self.command(process, open, command);
    }

    fn may_host(&self, process: ProcessId, kind: &Kind) -> bool {
        roles_of(self.processes[process as usize].index).contains(&kind.role())
    }

    /// Whether what the node at an address promises outlives its process.
    pub(crate) fn has_store(&self, owner: Requester, index: usize) -> bool {
        owner != Requester::Singleton || !self.singletons.storeless.contains(&index)
    }

    /// The highest term of a singleton on the disk of an address.
    fn stored_term(&self, index: usize, singleton: SingletonId) -> u64 {
        let key = singleton.raw().to_be_bytes().as_slice().into();
        let mut map = self.stored(index).cloned().unwrap_or_default();
        match map.obey(Requester::Singleton.space(), &StoreOrder::Read { key }) {
            // Behind the version (WIRE.md 4.14).
            Ok(StoreAnswer::Value(Some(bytes))) => bytes
                .get(1..)
                .and_then(|rest| rest.first_chunk())
                .map_or(0, |term| u64::from_le_bytes(*term)),
            Ok(_) | Err(_) => 0,
        }
    }

    /// The highest term that a node has promised and still knows of, in its memory or on its disk.
    pub(crate) fn promised_term(&self, process: ProcessId, singleton: SingletonId) -> u64 {
        let host = &self.processes[process as usize];
        let in_memory = host.node.singletons().promised(singleton);
        if self.has_store(Requester::Singleton, host.index) {
            in_memory.max(self.stored_term(host.index, singleton))
        } else {
            in_memory
        }
    }

    /// What remembers the promises of a node.
    pub(crate) fn keeper_of(&self, process: ProcessId) -> Keeper {
        let index = self.processes[process as usize].index;
        if self.has_store(Requester::Singleton, index) {
            Keeper::Disk(index)
        } else {
            Keeper::Memory(process)
        }
    }

    fn note_promise(&mut self, process: ProcessId, singleton: SingletonId, term: u64, to: &UniqueAddress) {
        let keeper = self.keeper_of(process);
        let promises = self.history.promises.entry((singleton, keeper)).or_default();
        promises.insert(term, to.clone());
    }

    /// A node says something about a singleton to another one.
    pub(crate) fn on_statement(&mut self, process: ProcessId, statement: &SingletonStatement) {
        let singleton = statement.singleton;
        match statement.body {
            SingletonBody::HandOverDone { .. } => {
                self.history.handed_over.insert((singleton, process), self.now);
            }
            SingletonBody::Promised { term } => {
                let index = self.processes[process as usize].index;
                let is_kept = !self.has_store(Requester::Singleton, index)
                    || self.stored_term(index, singleton) >= term;
                self.note_promise(process, singleton, term, &statement.to);
                if !is_kept {
                    let what = format!("promises term {term} of {singleton:?} before it is on its disk");
                    self.violated("I-30", process, what);
                }
            }
            SingletonBody::HandOverToMe
            | SingletonBody::HandOverInProgress
            | SingletonBody::TakeOverFromMe
            | SingletonBody::Identify
            | SingletonBody::Identified { .. }
            | SingletonBody::Gone { .. }
            | SingletonBody::Claim { .. }
            | SingletonBody::Refused { .. } => {}
        }
    }

    pub(crate) fn on_singleton_event(&mut self, process: ProcessId, event: &SingletonEvent) {
        if matches!(event, SingletonEvent::DeadLetter { .. }) {
            self.history.processes[process as usize].dead_letters += 1;
        }
        if matches!(event, SingletonEvent::Refused { .. }) {
            self.singletons.counts.refused += 1;
        }
    }

    /// What became of a message without an answer.
    pub(crate) fn on_told(&mut self, process: ProcessId, at: usize, answer: &Answer) {
        match answer {
            Answer::Done => {}
            // Whoever sent it knows.
            Answer::Refused(_) => self.history.messages[at].whereabouts = Whereabouts::Destroyed,
            Answer::Asked(_)
            | Answer::Sharding(_)
            | Answer::Singleton(_)
            | Answer::Ddata(_)
            | Answer::Journal(_)
            | Answer::Kv(_) => {
                self.violated("I-44", process, format!("a tell is answered with {answer:?}"));
            }
        }
    }
}

/// An instance that is about to start.
#[derive(Clone, Copy, Debug)]
struct Starting {
    slot: Slot,
    singleton: SingletonId,
    token: Token,
}
