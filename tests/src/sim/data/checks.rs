//! What must hold of replicated data: while it runs at every answer, and at rest over all replicas. Spec:
//! reliability I-61 to I-68.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use quorate_core::ddata::crdt::DataValue;
use quorate_core::ddata::protocol::ReadError;
use quorate_core::ddata::state::consistency::{Consistency, OperationElectorate};
use quorate_core::ddata::state::key::Key;
use quorate_core::ddata::state::{DataEnvelope, Pruning};
use quorate_core::ident::UniqueAddress;
use quorate_core::wire::encode_data;

use super::super::engine::Sim;
use super::super::history::ProcessId;
use super::ops::{What, digits};
use super::{Books, Fate, Record, electors};

/// Keys of one round of gossip: ten chunks of five hundred.
const KEYS_PER_ROUND: usize = 5_000;
/// Bytes of a living element of a set here, and of a node that a value names (I-65): twice what they take.
const BYTES_PER_ELEMENT: usize = 96;
const BYTES_PER_NODE: usize = 96;
/// Bytes of a value without either.
const BYTES_EMPTY: usize = 64;
/// After that everybody has been told of a change that was merged before, and what removed nodes contributed
/// to keys in memory is nobody's: the dissemination time, the marker's way to everybody and its life, and the
/// dissemination time once more, each with a tick and a few rounds.
const PRUNED_AFTER: u64 = 26_000_000;

/// A marker that has ended is settled after the dissemination time, with two looks and a few rounds.
const SETTLED_AFTER_MS: u64 = 8_000;

/// Replicas that differ because a marker has just ended are looked at again so often.
const LOOKS_MAX: usize = 2;

type Broken = (&'static str, String);

/// Whether a replica has what an operation did; later ones that hide it count as having it.
fn has(books: &Books, key: &Key, what: &What, envelope: Option<&DataEnvelope>) -> bool {
    let Some(envelope) = envelope else {
        return matches!(what, What::Remove(_) | What::Other);
    };
    let Some(data) = &envelope.data else {
        // It was deleted, which ends everything.
        return true;
    };
    shows(books, key, what, data)
}

fn shows(books: &Books, key: &Key, what: &What, data: &DataValue) -> bool {
    match (what, data) {
        (What::Digit { place, is_up }, DataValue::GCounter(_) | DataValue::PnCounter(_)) => {
            let wanted = if *is_up { 1 } else { -1 };
            digits(count(data)).is_ok_and(|digits| digits.get(*place as usize) == Some(&wanted))
        }
        (What::Add(element), DataValue::OrSet(set)) => {
            set.contains(element) || books.removed.contains(&(key.clone(), Arc::clone(element)))
        }
        (What::Add(element), DataValue::GSet(set)) => set.contains(element),
        (What::Remove(element), DataValue::OrSet(set)) => !set.contains(element),
        (What::On, DataValue::Flag(flag)) => flag.is_on(),
        (What::Set(_) | What::Other, _) => true,
        (What::Delete, _) => false,
        (What::Digit { .. } | What::Add(_) | What::Remove(_) | What::On, _) => false,
    }
}

fn count(data: &DataValue) -> i128 {
    if let DataValue::GCounter(counter) = data {
        i128::try_from(counter.value()).unwrap_or(i128::MAX)
    } else if let DataValue::PnCounter(counter) = data {
        counter.value()
    } else {
        0
    }
}

impl Record {
    /// Whether it is confirmed by more than half of the members that count.
    const fn is_by_majority(&self) -> bool {
        match self.level {
            Consistency::Majority | Consistency::MajorityPlus(_) | Consistency::All => true,
            Consistency::Local | Consistency::Replicas(_) => false,
        }
    }

    fn is_durable(&self) -> bool {
        is_durable(&self.key)
    }
}

fn is_durable(key: &Key) -> bool {
    key.as_str().starts_with('d')
}

impl Sim {
    fn envelope(&self, process: ProcessId, key: &Key) -> Option<&DataEnvelope> {
        self.processes[process as usize].node.ddata().envelope(key)
    }

    /// The processes whose replica has it.
    pub(super) fn holders(&self, at: usize) -> Vec<ProcessId> {
        let Record { key, what, .. } = &self.data.records[at];
        let Some(what) = what else {
            return Vec::new();
        };
        let running = self.last_at.iter().flatten().copied();
        running
            .filter(|process| self.processes[*process as usize].runs())
            .filter(|process| has(&self.data, key, what, self.envelope(*process, key)))
            .collect()
    }

    /// What is confirmed is held by as many as were asked for, those that have ended since it began included.
    pub(super) fn check_holders(&self, at: usize) -> Result<(), Broken> {
        let record = &self.data.records[at];
        let Some(acked) = &record.acked else {
            return Ok(());
        };
        // A node that is slow, or still reads its store, begins later than it was asked: who was removed
        // until it answered may not have counted any more.
        let is_gone = |node: &&UniqueAddress| !acked.electors.contains(node) && self.lives(node).is_some();
        let electorate = OperationElectorate {
            members: record.electors.len() - record.electors.iter().filter(is_gone).count(),
            exiting: acked.exiting,
        };
        let required = record.level.required(electorate, 0);
        let ended = record.electors.iter().filter(|node| self.lives(node).is_none());
        let held = acked.holders.len() + ended.count();
        if held < required {
            let what = format!(
                "{:?} of {} is confirmed by {:?}, and {held} of {required} hold it",
                record.what, record.key, record.level
            );
            return Err(("I-63", what));
        }
        Ok(())
    }

    /// A read finds what this process wrote before, and one by majority what a majority confirmed before it
    /// began, while the members were the same and all of them ran.
    pub(super) fn check_read(
        &mut self,
        process: ProcessId,
        at: usize,
        outcome: &Result<Arc<DataValue>, ReadError>,
    ) -> Result<(), Broken> {
        let found = match outcome {
            Ok(data) => Some(data),
            Err(ReadError::NotFound) => None,
            Err(_) => return Ok(()),
        };
        let read = &self.data.records[at];
        let now = electors(self.processes[process as usize].node.view());
        let all_run = now.iter().all(|node| self.lives(node).is_some());
        let is_steady = read.is_by_majority() && all_run && read.electors == now;
        let mut included = 0;
        for &other in self.data.by_key.get(&read.key).into_iter().flatten() {
            let write = &self.data.records[other];
            let (Some(what), Some(acked)) = (&write.what, &write.acked) else {
                continue;
            };
            let is_mine = write.process == process && acked.at <= read.issued_at;
            let is_majority = is_steady
                && write.is_by_majority()
                && acked.at <= read.issued_at
                && write.electors == now
                && acked.electors == now;
            if !is_mine && !is_majority {
                continue;
            }
            included += u64::from(is_majority);
            let shown = match found {
                Some(data) => shows(&self.data, &read.key, what, data),
                None => matches!(what, What::Remove(_) | What::Other),
            };
            if !shown {
                let what = format!(
                    "a read of {} finds {found:?}, without the confirmed {write:?}",
                    read.key
                );
                return Err(("I-63", what));
            }
        }
        self.data.counts.included += included;
        Ok(())
    }

    /// After the last fault: replicas become equal in time, and then everything that was done is there once.
    pub(crate) fn rest_of_data(&mut self) {
        let running: Vec<ProcessId> = self.last_at.iter().flatten().copied().collect();
        let running: Vec<ProcessId> = running
            .into_iter()
            .filter(|process| self.processes[*process as usize].runs())
            .collect();
        let keys = running
            .iter()
            .map(|process| self.processes[*process as usize].node.ddata().keys().count())
            .max()
            .unwrap_or(0);
        let rounds =
            keys.div_ceil(KEYS_PER_ROUND).max(1) as f64 * ((running.len().max(1) as f64).log2() + 3.0);
        let interval = self.config.ddata.gossip_interval;
        let bound = micros(interval.mul_f64(rounds));
        self.advance(self.now + bound);
        self.stop_at(|sim| sim.check_values(&running));
        self.stop_at(|sim| sim.check_exact(&running));
        // What removed nodes contributed is taken over, and nothing changes by it.
        self.advance(self.now + PRUNED_AFTER);
        // A marker that ends at this very time is a change of its own, of which the others hear in the next
        // rounds.
        for _ in 0..LOOKS_MAX {
            if self.check_equal(&running).is_ok() && self.check_told(&running).is_ok() {
                break;
            }
            self.advance(self.now + bound);
        }
        self.stop_at(|sim| sim.check_equal(&running));
        self.stop_at(|sim| sim.check_exact(&running));
        self.stop_at(|sim| sim.check_told(&running));
        self.stop_at(|sim| sim.check_pruned(&running));
        self.stop_at(Self::check_nobody_is_accused);
        self.data.counts.compared += 1;
    }

    fn stop_at(&mut self, check: impl FnOnce(&Self) -> Result<(), (ProcessId, Broken)>) {
        if self.violation.is_some() {
            return;
        }
        if let Err((process, (invariant, what))) = check(self) {
            self.violated(invariant, process, what);
        }
    }

    /// All values are equal, but for those whose pruning is being announced or done at this very time: that
    /// is a change of its own, of which the others hear in the next rounds.
    fn check_values(&self, running: &[ProcessId]) -> Result<(), (ProcessId, Broken)> {
        for key in self.data.by_key.keys() {
            let held = |process: &ProcessId| self.envelope(*process, key);
            let Some((first, others)) = running.split_first() else {
                return Ok(());
            };
            for process in others {
                let (mine, theirs) = (held(process), held(first));
                let markers = |envelope: Option<&DataEnvelope>| {
                    envelope.map(|held| (held.settled_ms, held.pruning.clone()))
                };
                let data = |envelope: Option<&DataEnvelope>| envelope.map(|held| held.data.clone());
                if markers(mine).unwrap_or_default() == markers(theirs).unwrap_or_default()
                    && data(mine) != data(theirs)
                {
                    let what = format!("{key} differs from the first replica's: {mine:?}, there {theirs:?}");
                    return Err((*process, ("I-62", what)));
                }
            }
        }
        Ok(())
    }

    fn check_equal(&self, running: &[ProcessId]) -> Result<(), (ProcessId, Broken)> {
        let digests = |process: ProcessId| self.processes[process as usize].node.ddata().digests();
        let Some((&first, others)) = running.split_first() else {
            return Ok(());
        };
        let wanted = digests(first);
        for &process in others {
            let held = digests(process);
            if held == wanted {
                continue;
            }
            let keys: BTreeSet<&Key> = wanted.keys().chain(held.keys()).collect();
            let differs = keys.into_iter().find(|key| wanted.get(*key) != held.get(*key));
            let key = differs.expect("invariant: maps that differ differ in a key");
            let (mine, theirs) = (self.envelope(process, key), self.envelope(first, key));
            let what = format!("{key} differs from the first replica's: {mine:?}, there {theirs:?}");
            return Err((process, ("I-61", what)));
        }
        Ok(())
    }

    /// Every write that must be there is there, once; nothing is there that nobody did; sets are no larger
    /// than they must be.
    fn check_exact(&self, running: &[ProcessId]) -> Result<(), (ProcessId, Broken)> {
        let Some(&process) = running.first() else {
            return Ok(());
        };
        for (key, records) in &self.data.by_key {
            let envelope = self.envelope(process, key);
            self.check_key(key, records, envelope, running)
                .map_err(|broken| (process, broken))?;
        }
        Ok(())
    }

    fn check_key(
        &self,
        key: &Key,
        records: &[usize],
        envelope: Option<&DataEnvelope>,
        running: &[ProcessId],
    ) -> Result<(), Broken> {
        let data = envelope.and_then(|envelope| envelope.data.as_ref());
        if let Some(data) = data {
            self.check_digits(key, records, data)?;
            check_size(key, data)?;
        }
        let mut own: std::collections::BTreeMap<ProcessId, &What> = std::collections::BTreeMap::new();
        for record in records.iter().map(|at| &self.data.records[*at]) {
            let Some(what) = &record.what else {
                continue;
            };
            if record.fate == Fate::Applied && matches!(what, What::Set(_)) {
                own.insert(record.process, what);
            }
            if self.must_be_there(record, running) && !has(&self.data, key, what, envelope) {
                let what = format!("{key} is {data:?}, without {record:?}");
                return Err(("I-63", what));
            }
        }
        // Of a process that still runs the last write of a register counts, whatever its clock did (I-68).
        if let Some(DataValue::LwwRegister(register)) = data.map(|data| &**data)
            && let Some(written) = register.get()
        {
            let by = |record: &&Record| record.what == Some(What::Set(Arc::clone(&written.value)));
            let mut all = records.iter().map(|at| &self.data.records[*at]);
            let Some(record) = all.find(by) else {
                return Err(("I-61", format!("{key} is {written:?}, which nobody wrote")));
            };
            let last = own.get(&record.process);
            if running.contains(&record.process)
                && last.is_some_and(|last| Some(*last) != record.what.as_ref())
            {
                return Err((
                    "I-68",
                    format!("{key} is {record:?}, its writer wrote {last:?} later"),
                ));
            }
        }
        Ok(())
    }

    /// The one who wrote it runs on; or somebody who held it when it was confirmed; or it is on the disk of
    /// the one who was told so, and a process runs on that address.
    fn must_be_there(&self, record: &Record, running: &[ProcessId]) -> bool {
        let writer_runs = running.contains(&record.process);
        let is_remove = matches!(record.what, Some(What::Remove(_)));
        let Some(acked) = &record.acked else {
            return record.fate == Fate::Applied && writer_runs;
        };
        let index = self.processes[record.process as usize].index;
        let is_on_disk = record.is_durable() && self.running_at(index).is_some();
        let is_held = !is_remove && acked.holders.iter().any(|holder| running.contains(holder));
        writer_runs || is_on_disk || is_held
    }

    fn check_digits(&self, key: &Key, records: &[usize], data: &DataValue) -> Result<(), Broken> {
        if !matches!(data, DataValue::GCounter(_) | DataValue::PnCounter(_)) {
            return Ok(());
        }
        let value = count(data);
        let found = digits(value)
            .map_err(|place| ("I-64", format!("{key} is {value}: digit {place} counts twice")))?;
        for (place, digit) in found.iter().enumerate().filter(|(_, digit)| **digit != 0) {
            let made = records.iter().map(|at| &self.data.records[*at]).any(|record| {
                let is_digit = matches!(&record.what, Some(What::Digit { place: at, is_up })
                    if *at as usize == place && *is_up == (*digit > 0));
                is_digit && record.fate != Fate::Refused
            });
            if !made {
                let what = format!("{key} is {value}: digit {place} is {digit}, which nobody did");
                return Err(("I-64", what));
            }
        }
        Ok(())
    }

    /// Who listens knows the value.
    fn check_told(&self, running: &[ProcessId]) -> Result<(), (ProcessId, Broken)> {
        for ((process, key), told) in &self.data.told {
            if !running.contains(process) {
                continue;
            }
            let held = self.processes[*process as usize].node.ddata().get(key);
            if held != told.as_ref() {
                let what = format!("a subscriber was told {told:?} of {key}, which is {held:?}");
                return Err((*process, ("I-61", what)));
            }
        }
        Ok(())
    }

    /// No value names anybody who is no member, but for those whose marker lives, or ended a moment ago
    /// (I-66): one of a durable key outlives the run, one that was made by a clock that had jumped ahead may.
    fn check_pruned(&self, running: &[ProcessId]) -> Result<(), (ProcessId, Broken)> {
        for &process in running {
            let host = &self.processes[process as usize];
            let (node, now_ms) = (&host.node, host.now(self.now).unix_ms);
            let members: BTreeSet<&UniqueAddress> =
                node.view().members().iter().map(|member| &member.node).collect();
            for key in node.ddata().keys() {
                let named = node.ddata().get(key).map_or_else(Vec::new, |data| data.nodes());
                let envelope = node.ddata().envelope(key);
                let is_marked = |named: &&UniqueAddress| {
                    let marker = envelope.and_then(|envelope| envelope.pruning.get(*named));
                    // One that never ends is none.
                    matches!(marker, Some(Pruning::Performed { obsolete_at_ms })
                        if obsolete_at_ms.checked_add(SETTLED_AFTER_MS).is_some_and(|end| now_ms < end))
                };
                let mut strangers = named.iter().filter(|named| !members.contains(named));
                if let Some(stranger) = strangers.find(|stranger| !is_marked(stranger)) {
                    let what = format!("{key} still names {stranger}: {envelope:?}");
                    return Err((process, ("I-66", what)));
                }
            }
        }
        Ok(())
    }

    /// Among honest nodes nobody's data is rejected.
    fn check_nobody_is_accused(&self) -> Result<(), (ProcessId, Broken)> {
        for (process, host) in self.processes.iter().enumerate() {
            let before = self.liars.rejected.get(process).copied().unwrap_or(0);
            let rejected = host.node.stats().ddata.rejected - before;
            if rejected > 0 {
                let what = format!("{rejected} messages of honest replicas were rejected");
                return Err((ProcessId::try_from(process).unwrap_or(0), ("I-68", what)));
            }
        }
        Ok(())
    }
}

/// A set costs its living elements and the nodes that ever changed it, however much was removed (I-65).
fn check_size(key: &Key, data: &DataValue) -> Result<(), Broken> {
    let DataValue::OrSet(set) = data else {
        return Ok(());
    };
    let mut bytes = Vec::new();
    let _ = encode_data(data, &mut bytes);
    let nodes = data.nodes().len();
    let most = BYTES_EMPTY + BYTES_PER_ELEMENT * set.len() + BYTES_PER_NODE * nodes;
    if bytes.len() > most {
        let what = format!(
            "{key} has {} bytes for {} elements of {nodes} nodes",
            bytes.len(),
            set.len()
        );
        return Err(("I-65", what));
    }
    Ok(())
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX / 2)
}
