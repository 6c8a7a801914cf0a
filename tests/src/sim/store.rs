//! The stores of the simulated machines, one per address: what a process made durable is there for the next
//! one on its address, and what it only asked for is not. Has faults of its own; decides nothing. Spec:
//! sharding 10.10; reliability F-04, F-20, F-22, F-23, I-80 to I-84.

use quorate_core::input::Input;
use quorate_core::owner::Requester;
use quorate_core::store::memory::MemoryMap;
use quorate_core::store::{StoreError, StoreReport, StoreRequest};

use super::chance::{Chance, Purpose};
use super::engine::{Happening, Sim};
use super::faults::FaultKind;
use super::history::ProcessId;
use crate::invariants::Cause;

/// A commit takes from half a millisecond to three: an ordinary disk.
const COMMIT: (u64, u64) = (500, 3_000);

/// How long a store that failed takes to be opened and verified.
const REOPEN: u64 = 200_000;

/// Something wrong with the store of an address. Lasts until another is set, but for those that happen once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StoreFault {
    /// Nothing.
    #[default]
    None,
    /// F-23: what is asked for takes so many microseconds longer.
    Slow(u64),
    /// F-20: there is no room; what is there can be read.
    Full,
    /// F-22: the next commit fails, and is there or not. Happens once.
    FailsOnce,
}

/// How often the stores did what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreCounts {
    /// Orders that were done or refused by the rules.
    pub obeyed: u64,
    /// Orders of processes that crashed before the answer: durable all the same.
    pub durable_without_answer: u64,
    /// The same, and lost.
    pub lost_in_crash: u64,
    /// Commits that failed.
    pub failed: u64,
    /// Orders turned away because there was no room, or because the store was being opened.
    pub turned_away: u64,
}

/// All stores.
#[derive(Debug)]
pub(crate) struct Stores {
    disks: Vec<Disk>,
    chance: Chance,
    counts: StoreCounts,
}

#[derive(Clone, Debug, Default)]
struct Disk {
    map: MemoryMap,
    opened_by: Option<ProcessId>,
    /// Orders are done one after the other.
    busy_until: u64,
    /// Closed until then, because it failed.
    opens_at: u64,
    fault: StoreFault,
}

/// A request on its way through the disk. What chance decides about it is drawn when it is asked, needed or
/// not.
#[derive(Debug)]
pub(crate) struct Storing {
    owner: Requester,
    request: StoreRequest,
    /// Whether it is on the disk if nobody is there any more to hear of it, or if its commit fails.
    survives: bool,
}

impl Stores {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            disks: Vec::new(),
            chance: Chance::new(seed, Purpose::Stores),
            counts: StoreCounts::default(),
        }
    }

    fn disk(&mut self, index: usize) -> &mut Disk {
        if self.disks.len() <= index {
            self.disks.resize_with(index + 1, Disk::default);
        }
        &mut self.disks[index]
    }
}

impl Sim {
    /// What is on the disk of an address; `None` if nobody asked it for anything yet.
    #[must_use]
    pub fn stored(&self, index: usize) -> Option<&MemoryMap> {
        self.stores.disks.get(index).map(|disk| &disk.map)
    }

    /// Something is wrong with the store of an address from now on.
    pub fn store_fault(&mut self, index: usize, fault: StoreFault) {
        self.stores.disk(index).fault = fault;
    }

    /// Ends every process without a word, all at once.
    pub fn blackout(&mut self, nodes: usize) {
        let why = "all crashed at once";
        if self.keyed.enabled {
            // What buckets keep their stores have, who owns what included.
            self.assumptions.fault(self.now, why);
        } else {
            self.assumptions.breaks(self.now, why);
        }
        self.faults.add(FaultKind::Blackout);
        for index in 0..nodes {
            if let Some(process) = self.running_at(index) {
                self.kill(process);
            }
        }
    }

    /// When the last of what the stores were asked for is done.
    pub(crate) fn stores_busy_until(&self) -> u64 {
        self.stores
            .disks
            .iter()
            .map(|disk| disk.busy_until)
            .max()
            .unwrap_or(0)
    }

    /// Nothing is wrong with any store from now on.
    pub(crate) fn repair_stores(&mut self, nodes: usize) {
        for index in 0..nodes.min(self.stores.disks.len()) {
            self.store_fault(index, StoreFault::None);
        }
    }

    /// F-04: the disk of an address is as it was at an earlier time, or empty.
    pub fn replace_store(&mut self, index: usize, map: MemoryMap) {
        let disk = self.stores.disk(index);
        disk.map = map;
        disk.opened_by = None;
    }

    /// How often the stores did what.
    #[must_use]
    pub const fn store_counts(&self) -> StoreCounts {
        self.stores.counts
    }

    /// A node asks its store: the answer comes when a disk would have written it.
    pub(crate) fn on_store_order(&mut self, process: ProcessId, owner: Requester, request: StoreRequest) {
        self.trace.begin(self.now, process, b'D');
        self.trace.debug(&request);
        let index = self.processes[process as usize].index;
        let takes = self.stores.chance.between(COMMIT.0, COMMIT.1);
        let survives = self.stores.chance.per_mille(500);
        let now = self.now;
        let disk = self.stores.disk(index);
        let slower = match disk.fault {
            StoreFault::Slow(micros) => micros,
            StoreFault::None | StoreFault::Full | StoreFault::FailsOnce => 0,
        };
        disk.busy_until = disk.busy_until.max(now) + takes + slower;
        let at = disk.busy_until;
        let storing = Box::new(Storing {
            owner,
            request,
            survives,
        });
        self.queue.push(at, Happening::Stored { process, storing });
    }

    /// The disk has come to a request.
    pub(crate) fn on_stored(&mut self, process: ProcessId, storing: Storing) {
        let host = &self.processes[process as usize];
        let (runs, index) = (host.runs(), host.index);
        let Storing {
            owner,
            request,
            survives,
        } = storing;
        let space = owner.space();
        let now = self.now;
        if !self.has_store(owner, index) {
            if runs {
                let input = Input::Stored(owner, request.without_a_store());
                self.feed(process, &Cause::Command, input);
            }
            return;
        }
        let new_id = self.new_store_id(index, process);
        let stores = &mut self.stores;
        let disk = &mut stores.disks[index];
        // A later process has the store: what an earlier one left in its queue died with it.
        let is_owner = disk.opened_by.is_none_or(|opened_by| opened_by <= process);
        if !runs {
            if survives && is_owner && now >= disk.opens_at && !request.order.is_read() {
                drop(disk.map.obey(space, &request.order));
                stores.counts.durable_without_answer += 1;
            } else {
                stores.counts.lost_in_crash += 1;
            }
            return;
        }
        if disk.opened_by != Some(process) {
            disk.opened_by = Some(process);
            disk.map.boot(new_id);
        }
        let writes = !request.order.is_read();
        let outcome = if now < disk.opens_at {
            stores.counts.turned_away += 1;
            Err(StoreError::Unavailable)
        } else if writes && disk.fault == StoreFault::Full {
            stores.counts.turned_away += 1;
            Err(StoreError::Full)
        } else if writes && disk.fault == StoreFault::FailsOnce {
            stores.counts.failed += 1;
            disk.fault = StoreFault::None;
            disk.opens_at = now + REOPEN;
            disk.opened_by = None;
            if survives {
                drop(disk.map.obey(space, &request.order));
            }
            Err(StoreError::OutcomeUnknown)
        } else {
            stores.counts.obeyed += 1;
            disk.map.obey(space, &request.order)
        };
        let report = StoreReport {
            id: request.id,
            outcome,
        };
        self.trace.begin(now, process, b'D');
        self.trace.debug(&report);
        self.feed(process, &Cause::Command, Input::Stored(owner, report));
    }

    /// An id that no other store has: who made it, and where.
    fn new_store_id(&self, index: usize, process: ProcessId) -> u128 {
        u128::from(self.processes[process as usize].me.uid()) << 64 | index as u128
    }
}

#[cfg(test)]
mod tests {
    use quorate_core::effect::Effect;
    use quorate_core::store::{Bytes, Change, StoreOrder};

    use super::*;
    use crate::sim::secs;

    const SPACE: quorate_core::store::Space = Requester::Ddata.space();

    fn put(id: u64) -> Effect {
        let key: Bytes = id.to_be_bytes().as_slice().into();
        let change = Change::Put {
            value: key.clone(),
            key,
        };
        let order = StoreOrder::Write { batch: vec![change] };
        Effect::Store(Requester::Ddata, StoreRequest { id, order })
    }

    fn holds(sim: &Sim, id: u64) -> bool {
        let order = StoreOrder::Read {
            key: id.to_be_bytes().as_slice().into(),
        };
        let map = sim.stored(0).cloned();
        let value = map.map(|mut map| map.obey(SPACE, &order));
        !matches!(
            value,
            None | Some(Ok(quorate_core::store::StoreAnswer::Value(None)))
        )
    }

    #[test]
    fn what_was_answered_is_there_for_the_next_process_and_the_rest_is_there_or_not() {
        let (mut lost, mut kept) = (0, 0);
        for seed in 0..20 {
            let mut sim = Sim::new(seed).nodes(1);
            let first = sim.boot(0);
            sim.carry_out(first, put(1));
            sim.run_for(secs(1));
            assert_eq!(sim.store_counts().obeyed, 1);
            sim.carry_out(first, put(2));
            sim.kill(first);
            sim.run_for(secs(1));
            assert!(holds(&sim, 1));
            if holds(&sim, 2) {
                kept += 1;
            } else {
                lost += 1;
            }
        }
        assert!(lost > 0 && kept > 0, "{lost} lost, {kept} kept");
    }

    #[test]
    fn faults_of_a_store_are_brought_about_and_counted() {
        let mut sim = Sim::new(7).nodes(1);
        let process = sim.boot(0);
        let mut ask = |fault, id, micros| {
            sim.store_fault(0, fault);
            sim.carry_out(process, put(id));
            sim.advance(sim.now + micros);
            (holds(&sim, id), sim.store_counts())
        };
        assert!(!ask(StoreFault::Slow(5_000_000), 1, 4_000_000).0);
        assert!(ask(StoreFault::None, 2, 2_000_000).0);
        let (held, counts) = ask(StoreFault::Full, 3, 10_000);
        assert_eq!((held, counts.obeyed, counts.turned_away), (false, 2, 1));
        let (_, counts) = ask(StoreFault::FailsOnce, 4, 10_000);
        assert_eq!((counts.obeyed, counts.failed), (2, 1));
        let (held, counts) = ask(StoreFault::None, 5, 10_000);
        assert_eq!((held, counts.turned_away), (false, 2), "it is being opened");
        assert!(ask(StoreFault::None, 6, REOPEN).0 || ask(StoreFault::None, 7, REOPEN).0);
    }
}
