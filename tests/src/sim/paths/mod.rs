//! Paths of the simulated nodes: one for each preset of a hand-off, one with bounds, one that is removed.
//! Everybody may ask them, somebody moves their slots and changes their settings all the time. Their
//! instances take their time to run and to stop, sometimes never run, fail now and then, and leave a state
//! that has to arrive whole. Brings it about; what must hold is in `invariants` and in `checks`. Spec:
//! sharding 5, reliability I-50, I-51.

mod checks;
mod commands;
mod instance;
pub mod steps;

mod work;

use std::collections::BTreeMap;

use quorate_core::event::PathEvent;
use quorate_core::ident::Role;
use quorate_core::input::{Command, HostReport, PathCommand};
use quorate_core::paths::protocol::{Msg, PathBody};
use quorate_core::paths::state::instances::FaultTolerance;
use quorate_core::paths::state::name::{PathId, PathName};
use quorate_core::paths::state::options::HandoffOptions;
use quorate_core::paths::state::settings::{INSTANCES_MAX, PathSettings};
use quorate_core::sharding::ids::Slot;

use super::chance::{Chance, Purpose};
use super::engine::Sim;
use super::history::ProcessId;
use super::process::Open;

pub(crate) use self::instance::PathInstance;

/// One of the paths.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PathKind {
    pub(crate) name: &'static str,
    pub(crate) handoff: HandoffOptions,
    role: Option<&'static str>,
    spare: u16,
    /// Least and most instances.
    bounds: (u16, u16),
}

const fn kind(name: &'static str, handoff: HandoffOptions, spare: u16) -> PathKind {
    PathKind {
        name,
        handoff,
        role: None,
        spare,
        bounds: (1, INSTANCES_MAX),
    }
}

/// All of them.
pub(crate) const PATHS: [PathKind; 7] = [
    kind("free", HandoffOptions::STATELESS, 1),
    kind("in/order", HandoffOptions::ORDERED, 1),
    kind("news", HandoffOptions::LOSSY, 1),
    kind("with/state", HandoffOptions::STATEFUL, 1),
    PathKind {
        role: Some("blue"),
        ..kind("in/store", HandoffOptions::DURABLE, 0)
    },
    PathKind {
        bounds: (2, 3),
        ..kind("some", HandoffOptions::ORDERED, 0)
    },
    kind(REMOVED, HandoffOptions::STATEFUL, 0),
];

/// The path that is removed and registered again.
const REMOVED: &str = "at/times";

impl PathKind {
    pub(crate) fn of(path: PathId) -> Option<&'static Self> {
        PATHS.iter().find(|kind| kind.id() == path)
    }

    pub(crate) fn id(&self) -> PathId {
        PathId::of(self.name)
    }

    pub(crate) fn path(&self) -> PathName {
        PathName::new(self.name).expect("invariant: a short name is legal")
    }

    fn settings(&self) -> PathSettings {
        PathSettings {
            role: self.role.map(role),
            fault_tolerance: FaultTolerance::Constant(self.spare),
            instances_min: self.bounds.0,
            instances_max: self.bounds.1,
            handoff: self.handoff,
            ..PathSettings::new(self.path())
        }
    }
}

fn role(name: &str) -> Role {
    Role::new(name).expect("invariant: a short name is legal")
}

/// Every second node has the role.
pub(crate) fn roles_of(index: usize) -> Vec<Role> {
    if index.is_multiple_of(2) {
        vec![role("blue")]
    } else {
        Vec::new()
    }
}

/// What happens to an instance.
#[derive(Debug)]
pub(crate) enum PathHappening {
    /// It has time.
    Turn { process: ProcessId, slot: Slot },
    /// Its host reports something to the node.
    Reported { process: ProcessId, report: HostReport },
}

impl PathHappening {
    /// The process that has to run for it to happen.
    pub(crate) const fn waits_for(&self) -> ProcessId {
        match self {
            Self::Turn { process, .. } | Self::Reported { process, .. } => *process,
        }
    }
}

/// What happened, for the report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PathCounts {
    pub(crate) failures: u64,
    pub(crate) never_ran: u64,
    pub(crate) stopped_late: u64,
    pub(crate) states_left: u64,
    pub(crate) to_all: u64,
    pub(crate) overlaps: u64,
    pub(crate) let_go: u64,
    pub(crate) answered_at_rest: u64,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Paths {
    /// Whether nodes register them.
    pub(crate) enabled: bool,
    /// The quiet phase: instances do nothing odd any more, and nobody commands anything.
    calm: bool,
    chance: Chance,
    /// Chance for commands.
    commands: Chance,
    next_command: u64,
    /// The number of the last message in the order in which all were sent.
    last_sent: u64,
    /// When something last happened to a slot at a process, after which it may not run for a while.
    unrest: BTreeMap<(ProcessId, PathId, u16), u64>,
    /// What was said first about hand-offs since this was cleared, in order.
    pub(crate) said: Vec<&'static str>,
    pub(crate) counts: PathCounts,
}

impl Paths {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            enabled: false,
            calm: false,
            chance: Chance::new(seed, Purpose::Paths),
            commands: Chance::new(seed, Purpose::PathCommands),
            next_command: 0,
            last_sent: 0,
            unrest: BTreeMap::new(),
            said: Vec::new(),
            counts: PathCounts::default(),
        }
    }

    /// The quiet phase begins.
    pub(crate) fn calm_down(&mut self) {
        self.calm = true;
    }

    /// Whether something odd happens, of a thousand times so many; never in the quiet phase. Always drawn.
    fn oddly(&mut self, per_mille: u64) -> bool {
        self.chance.per_mille(per_mille) && !self.calm
    }
}

impl Sim {
    /// Nodes have paths from now on.
    pub(crate) fn enable_paths(&mut self) {
        self.paths.enabled = true;
        // Small, so that it is met.
        self.config.paths.buffer_messages_max = 20;
    }

    /// A new process has the code of all paths.
    pub(crate) fn register_paths(&mut self, process: ProcessId) {
        if !self.paths.enabled {
            return;
        }
        for kind in PATHS {
            self.register_path(process, &kind);
        }
    }

    fn register_path(&mut self, process: ProcessId, kind: &PathKind) {
        let command = PathCommand::Register {
            settings: kind.settings(),
            hosts: true,
        };
        self.command(process, Open::Command("register path"), Command::Path(command));
    }

    /// A node said something about one of its paths.
    pub(crate) fn on_path_event(&mut self, process: ProcessId, path: PathId, event: &PathEvent) {
        match event {
            PathEvent::DeadLetter { .. } => {
                self.history.processes[process as usize].dead_letters += 1;
            }
            PathEvent::MovedAway { slot, to } => {
                let host = &self.processes[process as usize];
                let entry = host.node.view().gossip().paths().by_id(path);
                let change = entry.and_then(|entry| entry.last_move(usize::from(*slot)));
                if let (Some(to), Some(change)) = (to, change) {
                    let token = change.token(to);
                    self.checks.i51.on_moved(path, *slot, token);
                }
            }
            PathEvent::MoveAborted { slot, .. } => self.unrest_at(process, path, *slot),
            PathEvent::Started { .. }
            | PathEvent::Stopped { .. }
            | PathEvent::Failed { .. }
            | PathEvent::MoveBegun { .. }
            | PathEvent::MarksMissing { .. }
            | PathEvent::CodeMissing { .. }
            | PathEvent::ToleranceClamped { .. } => {}
            // A later version's.
            _ => {}
        }
    }

    fn unrest_at(&mut self, process: ProcessId, path: PathId, slot: u16) {
        self.paths.unrest.insert((process, path, slot), self.now);
    }

    /// A node says something about a hand-off.
    pub(crate) fn note_path_message(&mut self, message: &Msg) {
        let what = match message {
            Msg::Statement(statement) => match statement.body {
                PathBody::Init(_) => "Init",
                PathBody::Ready(_) => "Ready",
                PathBody::Begin(_) => "Begin",
                PathBody::Begun(_) => "Begun",
                PathBody::ForwardMarked { .. } => "ForwardMarked",
                PathBody::Marked(_) => "Marked",
                PathBody::StateReceived { .. } => "StateReceived",
                PathBody::Request { .. }
                | PathBody::Answer { .. }
                | PathBody::Failed(_)
                | PathBody::GiveUp(_) => return,
            },
            Msg::Mark(mark) if mark.origin.is_some() => "PassedMark",
            Msg::Mark(_) => "Mark",
            Msg::State(_) => "State",
            Msg::Delivery(delivery) => {
                self.history.leaves(&delivery.payload, self.now);
                return;
            }
            Msg::Reply(_) => return,
        };
        if !self.paths.said.contains(&what) {
            self.paths.said.push(what);
        }
    }
}
