//! The workload of replicated data: random operations of all types and levels from all nodes, what became of
//! each, and what subscribers were told. The books only; what must hold is in `checks`. Spec: reliability 1c.

mod checks;
mod ops;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use quorate_core::config::Config;
use quorate_core::ddata::crdt::{DataValue, Element};
use quorate_core::ddata::protocol::{Answer, Command as DdataCommand, DataChange, Event, WriteError};
use quorate_core::ddata::state::consistency::Consistency;
use quorate_core::ddata::state::key::{Key, Pattern};
use quorate_core::ident::UniqueAddress;
use quorate_core::input::Command;
use quorate_core::membership::member::Status;
use quorate_core::view::View;

use self::ops::{Drawer, What};
use super::engine::Sim;
use super::history::ProcessId;
use super::process::Open;

/// Of a thousand operations so many are reads.
const READS_PER_MILLE: u64 = 250;

/// One operation and what became of it.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    process: ProcessId,
    key: Key,
    /// Nothing: it is a read.
    what: Option<What>,
    level: Consistency,
    issued_at: u64,
    /// Who counted for the consistency at the one who asked, when it asked.
    electors: Vec<UniqueAddress>,
    /// Whether its value has it, from what is known.
    fate: Fate,
    /// When it was confirmed as asked, who counted then, and who held it.
    acked: Option<Acked>,
}

#[derive(Clone, Debug)]
struct Acked {
    at: u64,
    electors: Vec<UniqueAddress>,
    /// Those that counted when it was asked for and were about to leave, without the one who asked.
    exiting: usize,
    holders: Vec<ProcessId>,
}

/// Whether a write took place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// Nobody was told.
    Unknown,
    Applied,
    Refused,
}

/// All operations of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Books {
    drawer: Drawer,
    records: Vec<Record>,
    by_key: BTreeMap<Key, Vec<usize>>,
    /// Elements that somebody wanted to have removed.
    removed: BTreeSet<(Key, Element)>,
    /// What the subscriber of each process was told last of each key; nothing: it is gone.
    told: BTreeMap<(ProcessId, Key), Option<Arc<DataValue>>>,
    /// Operations that wait for their answer.
    open: usize,
    pub(crate) counts: Counts,
}

/// What happened, for the report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) confirmed: u64,
    pub(crate) unconfirmed: u64,
    pub(crate) refused: u64,
    pub(crate) reads: u64,
    /// Confirmed writes that a majority read had to include (I-63).
    pub(crate) included: u64,
    pub(crate) store_failures: u64,
    pub(crate) compared: u64,
}

/// Settings with which a minute has as much in it as an hour has otherwise.
pub(super) fn configure(config: &mut Config) {
    let ddata = &mut config.ddata;
    ddata.gossip_interval = Duration::from_millis(500);
    ddata.notify_subscribers_interval = Duration::from_millis(300);
    ddata.pruning_interval = Some(Duration::from_secs(1));
    ddata.max_pruning_dissemination = Duration::from_secs(4);
    ddata.pruning_marker_time_to_live = Duration::from_secs(3);
    ddata.durable_keys = vec![Pattern::parse("d*").expect("invariant: a short pattern is legal")];
}

/// Who counts for consistency in a picture, sorted.
fn electors(view: &View) -> Vec<UniqueAddress> {
    let me = view.me();
    let counts = |status: Status| match status {
        Status::Up
        | Status::PreparingForShutdown
        | Status::ReadyForShutdown
        | Status::Leaving
        | Status::Exiting
        | Status::Down => true,
        Status::Joining | Status::WeaklyUp | Status::Removed => false,
    };
    let members = view.members().iter();
    let nodes = members.filter(|member| member.node == *me || counts(member.status));
    nodes.map(|member| member.node.clone()).collect()
}

impl Sim {
    /// A new process hears of every key.
    pub(crate) fn subscribe_to_data(&mut self, process: ProcessId) {
        for prefix in ["c*", "dc*", "s*", "ds*", "r*"] {
            let pattern = Pattern::parse(prefix).expect("invariant: a short pattern is legal");
            let command = Command::Ddata(DdataCommand::Subscribe { pattern });
            self.command(process, Open::Subscription, command);
        }
    }

    /// One operation of the random workload, at a random node.
    pub(crate) fn random_data(&mut self, nodes: usize) {
        let index = self.workload.index(nodes);
        let reads = self.workload.per_mille(READS_PER_MILLE);
        let level = ops::level(&mut self.workload);
        let timeout = Duration::from_millis(self.workload.between(200, 4_000));
        let drawn = self.data.drawer.draw(&mut self.workload);
        let Some(process) = self.running_at(index) else {
            return;
        };
        let Ok(key) = Key::new(&drawn.key) else {
            return;
        };
        let (what, command) = match drawn.op {
            _ if reads => {
                let (key, consistency) = (key.clone(), level);
                let get = DdataCommand::Get {
                    key,
                    consistency,
                    timeout,
                };
                (None, get)
            }
            None => {
                let (key, consistency) = (key.clone(), level);
                let delete = DdataCommand::Delete {
                    key,
                    consistency,
                    timeout,
                };
                (Some(drawn.what), delete)
            }
            Some(op) => {
                let update = DdataCommand::Update {
                    key: key.clone(),
                    initial: drawn.initial,
                    op,
                    consistency: level,
                    timeout,
                };
                (Some(drawn.what), update)
            }
        };
        self.note_operation(process, key, what, level, command);
    }

    fn note_operation(
        &mut self,
        process: ProcessId,
        key: Key,
        what: Option<What>,
        level: Consistency,
        command: DdataCommand,
    ) {
        let host = &self.processes[process as usize];
        if self.now < host.paused_until {
            return;
        }
        let electors = electors(host.node.view());
        let what = self.as_seen(process, &key, what);
        let at = self.data.records.len();
        self.data.by_key.entry(key.clone()).or_default().push(at);
        self.data.records.push(Record {
            process,
            key,
            what,
            level,
            issued_at: self.now,
            electors,
            fate: Fate::Unknown,
            acked: None,
        });
        self.data.open += 1;
        self.command(process, Open::Data(at), Command::Ddata(command));
    }

    /// A removal of what a replica does not hold does nothing.
    fn as_seen(&mut self, process: ProcessId, key: &Key, what: Option<What>) -> Option<What> {
        let Some(What::Remove(element)) = what else {
            return what;
        };
        self.data.removed.insert((key.clone(), Arc::clone(&element)));
        let held = self.processes[process as usize].node.ddata().get(key);
        let is_held =
            held.is_some_and(|data| matches!(&**data, DataValue::OrSet(set) if set.contains(&element)));
        if !is_held {
            return Some(What::Other);
        }
        Some(What::Remove(element))
    }

    /// Operations that wait for an answer of a process that runs.
    pub(crate) const fn open_data(&self) -> usize {
        self.data.open
    }

    /// A process has ended: what it was asked is answered by nobody.
    pub(crate) fn data_asker_is_gone(&mut self, process: ProcessId) {
        let open = self.processes[process as usize].open.values();
        self.data.open -= open.filter(|open| matches!(open, Open::Data(_))).count();
    }

    /// An operation is answered.
    pub(crate) fn on_data_answer(&mut self, process: ProcessId, at: usize, answer: Answer) {
        self.data.open -= 1;
        let result = match (&self.data.records[at].what, answer) {
            (Some(_), Answer::Written(outcome)) => self.on_written(process, at, outcome),
            (None, Answer::Value(outcome)) => {
                self.data.counts.reads += 1;
                self.check_read(process, at, &outcome)
            }
            (_, answer) => Err(("I-44", format!("operation {at} is answered with {answer:?}"))),
        };
        if let Err((invariant, what)) = result {
            self.violated(invariant, process, what);
        }
    }

    fn on_written(
        &mut self,
        process: ProcessId,
        at: usize,
        outcome: Result<(), WriteError>,
    ) -> Result<(), (&'static str, String)> {
        let counts = &mut self.data.counts;
        match &outcome {
            Ok(()) => counts.confirmed += 1,
            Err(WriteError::StoreFailed) => counts.store_failures += 1,
            Err(error) if error.may_have_been_handled() => counts.unconfirmed += 1,
            Err(_) => counts.refused += 1,
        }
        let may_have_been_handled = outcome
            .as_ref()
            .map_or_else(WriteError::may_have_been_handled, |()| true);
        self.data.records[at].fate = if may_have_been_handled {
            Fate::Applied
        } else {
            Fate::Refused
        };
        if outcome.is_err() {
            return Ok(());
        }
        let view = self.processes[process as usize].node.view();
        let electors = electors(view);
        let is_exiting = |node: &&UniqueAddress| {
            let member = view.member(node);
            *node != view.me() && member.is_some_and(|member| member.status == Status::Exiting)
        };
        let exiting = self.data.records[at].electors.iter().filter(is_exiting).count();
        let holders = self.holders(at);
        self.data.records[at].acked = Some(Acked {
            at: self.now,
            electors,
            exiting,
            holders,
        });
        self.check_holders(at)
    }

    /// What a subscriber is told.
    pub(crate) fn on_data_event(&mut self, process: ProcessId, event: &Event) {
        match event {
            Event::Changed { key, change, .. } => {
                let told = match change {
                    DataChange::Value(data) => Some(Arc::clone(data)),
                    DataChange::Deleted | DataChange::Expired => None,
                };
                self.data.told.insert((process, key.clone()), told);
            }
            Event::StoreLost | Event::StoreOutdated { .. } => {
                let what = format!("a store that works now and then is lost for good: {event:?}");
                self.violated("I-82", process, what);
            }
            Event::LargeValue { .. }
            | Event::Pruned { .. }
            | Event::StoreAwaited { .. }
            | Event::StoreRead
            | Event::AwayForLong { .. }
            | Event::StillReplica => {}
            // A later version's.
            _ => {}
        }
    }
}
