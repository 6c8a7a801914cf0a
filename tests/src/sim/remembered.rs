//! Entities that are remembered, in replicated data or, in a third of the seeds, in logs: they crash, stop
//! themselves, ask to be passivated or to be forgotten. Only the last two are forgotten, and all others have
//! to run again. I-47: an id is stored before its first message is handled, unless an earlier home that is no
//! more had begun to forget it, which may arrive between the reading of the store and the start; at rest what
//! is remembered runs, once, unless the same reached a later home too late: one that gave the shard up before
//! it had looked at its store again (10.15). Spec: sharding 1.5, 10.15; reliability I-47.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use quorate_core::config::Config;
use quorate_core::ddata::crdt::DataValue;
use quorate_core::ddata::state::key::{Key, Pattern};
use quorate_core::input::HostReport;
use quorate_core::sharding::ids::{EntityId, KindId, ShardId, Slot};
use quorate_core::sharding::remember::RememberStore;
use quorate_core::store::memory::MemoryMap;

use super::chance::{Chance, Purpose};
use super::engine::Sim;
use super::history::ProcessId;
use super::plan::SECOND;
use super::watches::End;
use super::work::{KIND, SHARDS};

/// Of a thousand messages so many crash their entity, have it stop itself, or end it and have it forgotten.
const CRASHES_PER_MILLE: u64 = 15;
const STOPS_PER_MILLE: u64 = 15;
const FORGETS_PER_MILLE: u64 = 15;
/// Of a thousand messages so many have their entity ask to be passivated.
const ASKS_PER_MILLE: u64 = 30;
/// At rest all of them run after this long: a failed shard and a crashed entity begin again after a second, a
/// read of the store takes fifteen attempts of two seconds, and what was moved or told late is found within
/// ten.
const REST_MAX: u64 = 60 * SECOND;

/// How a remembered entity ends without having been told to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OwnEnd {
    /// Without a word.
    Crash,
    /// Because it wants to: it begins again.
    Stop,
    /// Because it is not needed any more.
    Forget,
}

/// What must run.
#[derive(Debug)]
pub(crate) struct Remembered {
    chance: Chance,
    store: Option<RememberStore>,
    is_in_logs: bool,
    /// How many addresses there are, and how many stores vote about a log.
    nodes: usize,
    voters: usize,
    /// Handed a message, and neither passivated nor forgotten as far as anybody knows.
    required: BTreeSet<EntityId>,
    /// Instances that have asked to be passivated or forgotten: whether they are forgotten is the node's
    /// affair.
    leaving: BTreeMap<ProcessId, BTreeSet<Slot>>,
    /// Where an entity that has to run handled its last message.
    last_home: BTreeMap<EntityId, ProcessId>,
    /// Where an entity has ever asked for that: an earlier home may be forgetting it still.
    left: BTreeMap<EntityId, BTreeSet<ProcessId>>,
    /// Who was stored when it began on a process, whose shard has been there since, and that was not
    /// forgotten there.
    stored_once: BTreeSet<(ProcessId, EntityId)>,
    /// Runs in which all of them ran at rest, and how many those were.
    pub(crate) at_rest: u64,
    /// Those among them that a home which is no more has forgotten under the one that ran them since.
    pub(crate) lost_to_late_removals: u64,
}

impl Remembered {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            chance: Chance::new(seed, Purpose::Remembered),
            store: None,
            // By the seed, so that no stream of chance moves.
            is_in_logs: seed.is_multiple_of(3),
            nodes: 0,
            voters: 0,
            required: BTreeSet::new(),
            leaving: BTreeMap::new(),
            last_home: BTreeMap::new(),
            left: BTreeMap::new(),
            stored_once: BTreeSet::new(),
            at_rest: 0,
            lost_to_late_removals: 0,
        }
    }

    /// What a run with remembered entities has for settings. Nobody is a member before all are, so that no
    /// majority is one of fewer.
    pub(super) fn configure(&mut self, config: &mut Config, nodes: usize) {
        self.store = Some(RememberStore::Data);
        config.ddata.gossip_interval = Duration::from_millis(500);
        config.ddata.durable_keys =
            vec![Pattern::parse("shard-*").expect("invariant: a short pattern is legal")];
        config.membership.min_nr_of_members = nodes;
        if self.is_in_logs {
            self.store = Some(RememberStore::Events);
            (self.nodes, self.voters) = (nodes, nodes / 2 + 1);
            config.journal.voters = self.voters;
        }
    }

    /// Where the workload's kind remembers its entities.
    pub(crate) const fn store(&self) -> Option<RememberStore> {
        self.store
    }

    /// An entity has handled a message.
    fn handled(&mut self, process: ProcessId, slot: Slot, entity: &EntityId) {
        let leaves = |slots: &BTreeSet<Slot>| slots.contains(&slot);
        if !self.leaving.get(&process).is_some_and(leaves) {
            self.required.insert(entity.clone());
            self.last_home.insert(entity.clone(), process);
        }
    }

    /// An entity is about to ask to be passivated, or to be forgotten.
    pub(crate) fn may_be_forgotten(&mut self, process: ProcessId, slot: Slot, entity: &EntityId) {
        self.leaving.entry(process).or_default().insert(slot);
        self.left.entry(entity.clone()).or_default().insert(process);
        self.required.remove(entity);
        self.stored_once.remove(&(process, entity.clone()));
    }

    /// A shard lives on a process no more.
    pub(crate) fn shard_stopped(&mut self, process: ProcessId, shard: ShardId) {
        let is_of = |entity: &EntityId| ShardId::of(entity, SHARDS) == shard;
        self.stored_once
            .retain(|(of, entity)| *of != process || !is_of(entity));
    }

    /// How the entity ends that has just handled a message, if it does.
    pub(crate) fn end(&mut self) -> Option<OwnEnd> {
        self.store?;
        let shares = [
            (CRASHES_PER_MILLE, OwnEnd::Crash),
            (STOPS_PER_MILLE, OwnEnd::Stop),
            (FORGETS_PER_MILLE, OwnEnd::Forget),
        ];
        let mut at = self.chance.below(1_000);
        for (share, end) in shares {
            if at < share {
                return Some(end);
            }
            at -= share;
        }
        None
    }

    pub(crate) fn asks(&mut self) -> bool {
        self.store.is_some() && self.chance.per_mille(ASKS_PER_MILLE)
    }
}

impl Sim {
    /// An entity starts: it is stored. One that begins anew after it crashed was: that an earlier home has
    /// forgotten it may arrive here late, and is repaired by the next look at the store.
    pub(crate) fn starts_remembered(&mut self, process: ProcessId, entity: &EntityId) {
        if self.remembered.store.is_none() {
            return;
        }
        let is_new = self.remembered.stored_once.insert((process, entity.clone()));
        if is_new && !self.is_stored(process, entity) && !self.is_forgotten_late(process, entity) {
            self.violated("I-47", process, format!("{entity} starts and is not stored"));
        }
    }

    /// Whether an earlier home of an entity ended while it may have been forgetting it.
    fn is_forgotten_late(&self, process: ProcessId, entity: &EntityId) -> bool {
        let homes = self.remembered.left.get(entity);
        let ended = |home: &ProcessId| *home != process && !self.processes[*home as usize].runs();
        homes.is_some_and(|homes| homes.iter().any(ended))
    }

    /// An entity has handled a message: it has to run again from now on.
    pub(crate) fn note_remembered(&mut self, process: ProcessId, slot: Slot, entity: &EntityId) {
        if self.remembered.store.is_some() {
            self.remembered.handled(process, slot, entity);
        }
    }

    /// Whether an entity is rightly forgotten: it asked to be passivated where a home began to forget it and
    /// was declared Down, what that one had removed came back with its disk, and whoever has run it since
    /// gave its shard up, or ended, before it looked at its store again, which would have written it anew.
    fn is_lost_to_late_removal(&self, entity: &EntityId) -> bool {
        let Some(last) = self.remembered.last_home.get(entity).copied() else {
            return false;
        };
        let shard = (KindId::of(KIND), ShardId::of(entity, SHARDS));
        let keeps = self.processes[last as usize].runs()
            && self.history.processes[last as usize].shards.contains(&shard);
        let runs = self
            .history
            .active
            .contains_key(&(KindId::of(KIND), entity.clone()));
        let forgotten = || {
            !(0..self.processes.len())
                .any(|at| self.processes[at].runs() && self.is_stored(u32::try_from(at).unwrap_or(0), entity))
        };
        let rightly = self.is_forgotten_late(last, entity) || self.is_forgotten_beside(last, entity);
        !keeps && !runs && rightly && forgotten()
    }

    /// Whether who handled its last message ran on, cut off, beside a home where it had ended, and is gone.
    fn is_forgotten_beside(&self, last: ProcessId, entity: &EntityId) -> bool {
        let mut homes = self.remembered.left.get(entity).into_iter().flatten();
        !self.assumptions.safe() && !self.processes[last as usize].runs() && homes.any(|home| *home != last)
    }

    /// An entity ends, whatever it was told.
    pub(crate) fn ends_by_itself(&mut self, process: ProcessId, slot: Slot, end: OwnEnd) {
        let entities = &self.processes[process as usize].entities;
        let Some(name) = entities.get(slot).map(|entity| entity.id.clone()) else {
            return;
        };
        let (says, was_told) = (end != OwnEnd::Crash, entities.is_stopping(slot));
        if says {
            let forget = end == OwnEnd::Forget;
            if forget {
                self.remembered.may_be_forgotten(process, slot, &name);
            }
            self.watches.ends(self.now, &name, End::Stopped);
            self.report_now(process, HostReport::Ending { slot, forget });
        }
        self.crash_entity(process, slot, (says || !was_told).then_some(End::Stopped));
    }

    /// Whether a node's own replica has it; in logs: whether a majority of the voters has been given it.
    fn is_stored(&self, process: ProcessId, entity: &EntityId) -> bool {
        if self.remembered.store == Some(RememberStore::Events) {
            return self.is_named_in_logs(entity);
        }
        let shard = ShardId::of(entity, SHARDS);
        let data = self.processes[process as usize].node.ddata();
        let holds = |part: u8| {
            let key = Key::new(&format!("shard-{}-{part}-{KIND}", shard.0));
            let held = key.ok().and_then(|key| data.get(&key).cloned());
            matches!(held.as_deref(), Some(DataValue::OrSet(set)) if set.contains(entity.as_bytes()))
        };
        (0..5).any(holds)
    }

    /// Whether the log of the entity's shard names it on the disks of a majority of the voters. A record that
    /// removes it names it too: that it is remembered still shows in who runs again, after everything stopped
    /// at once.
    fn is_named_in_logs(&self, entity: &EntityId) -> bool {
        let shard = ShardId::of(entity, SHARDS);
        let log = format!("/sharding/{KIND}/shard/{}", shard.0);
        // Behind the name of a log stands what kind of item it is; behind that of shard 12 no digit follows.
        let is_of_log = |key: &[u8]| {
            let at = key.windows(log.len()).position(|part| part == log.as_bytes());
            at.is_some_and(|at| key.get(at + log.len()).is_some_and(|next| *next <= 1))
        };
        let name = entity.as_bytes();
        let length = u16::try_from(name.len()).unwrap_or(u16::MAX).to_le_bytes();
        let named = [&length, name].concat();
        let names = |value: &[u8]| value.windows(named.len()).any(|part| part == named);
        let holds = |index: &usize| {
            let items = self.stored(*index).into_iter().flat_map(MemoryMap::entries);
            items
                .into_iter()
                .any(|(key, value)| is_of_log(key) && names(value))
        };
        (0..self.remembered.nodes).filter(holds).count() > self.remembered.voters / 2
    }

    /// Everything is at rest: whatever is remembered runs, or soon does, and nothing runs twice.
    pub(crate) fn rest_of_remembered(&mut self) {
        if self.remembered.store.is_none() {
            return;
        }
        let limit = self.now + REST_MAX;
        loop {
            let mut missing = self.not_running();
            if missing.is_empty() {
                break;
            }
            if self.now >= limit {
                missing.retain(|entity| !self.is_lost_to_late_removal(entity));
                if missing.is_empty() {
                    self.remembered.lost_to_late_removals += 1;
                    break;
                }
                let what = format!("{missing:?} are to be remembered, and do not run or are not stored");
                return self.violated("I-47", 0, what);
            }
            self.advance(self.now + SECOND / 10);
            if self.violation.is_some() {
                return;
            }
        }
        self.remembered.at_rest = self.remembered.required.len() as u64;
    }

    fn not_running(&self) -> Vec<EntityId> {
        let runs = |entity: &&EntityId| {
            let name = (KindId::of(KIND), (*entity).clone());
            let instances = self.history.active.get(&name);
            match instances.map(Vec::as_slice) {
                Some([(process, _)]) => self.is_stored(*process, entity),
                Some(_) | None => false,
            }
        };
        let required = self.remembered.required.iter();
        required.filter(|entity| !runs(entity)).cloned().collect()
    }
}
