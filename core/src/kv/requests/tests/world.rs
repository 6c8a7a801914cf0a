//! Stores, calls and messages between them, of one range: everything that a host does for the keyed store, in
//! one place and without time.

use alloc::vec::Vec;

use crate::ddata::state::key::Key;
use crate::journal::state::StoreId;
use crate::kv::replica::{Adoption, RangeReplica, ReplicaSettings};
use crate::kv::requests::{
    Call, CallAnswer, CallError, CallGoal, CallOutput, CallPlace, Settling, SettlingAnswer,
};
use crate::kv::state::call::{Ballot, CallId};
use crate::kv::state::clock::{VersionClock, VersionDot};
use crate::kv::state::configuration::{Configuration, Owners};
use crate::kv::state::entry::KvEntry;
use crate::kv::state::exchange::{KvAnswer, KvAsk, KvChange, SettleStep};
use crate::kv::state::level::Level;
use crate::kv::state::table::RangeLevels;
use crate::ordered::OrderedMap;
use crate::store::Bytes;

pub(super) const GRACE_MS: u64 = 170;

/// A store: what is durable, and the replica while it runs.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) id: StoreId,
    settings: ReplicaSettings,
    pub(super) boot: u64,
    pub(super) is_up: bool,
    head: Vec<u8>,
    pub(super) replica: RangeReplica,
    pub(super) entries: OrderedMap<Key, KvEntry>,
}

impl Node {
    pub(super) fn new(id: u128, copies: usize) -> Self {
        let settings = ReplicaSettings {
            copies,
            grace_ms: GRACE_MS,
        };
        let id = StoreId(id);
        Self {
            id,
            settings,
            boot: 1,
            is_up: true,
            head: Vec::new(),
            replica: RangeReplica::open(settings, id, 1, None).unwrap(),
            entries: OrderedMap::new(),
        }
    }

    pub(super) fn adopt(&mut self, configuration: &Configuration) {
        if let Ok(adoption) = self.replica.adopt(configuration) {
            if adoption == Adoption::Dropped {
                self.entries.clear();
            }
            self.head = self.replica.head();
        }
    }

    pub(super) fn epoch(&self) -> u64 {
        self.replica.configuration().map_or(0, |known| known.epoch)
    }

    pub(super) fn answer(&mut self, key: &Key, epoch: u64, ask: &KvAsk, now_ms: u64) -> KvAnswer {
        let mut entry = self.entries.get(key).cloned().unwrap_or_default();
        let before = entry.clone();
        let answered = self.replica.answer((key, &mut entry), epoch, ask, now_ms);
        assert_eq!(answered.is_changed, before != entry);
        self.keep(key, entry);
        answered.answer
    }

    pub(super) fn keep(&mut self, key: &Key, entry: KvEntry) {
        if entry.is_empty() {
            self.entries.remove(key);
        } else {
            let bytes = entry.encode().unwrap();
            assert_eq!(KvEntry::decode(&bytes).unwrap(), entry);
            self.entries.insert(key.clone(), entry);
        }
    }

    /// Ends, and begins again with what is durable.
    pub(super) fn restart_anew(&mut self) {
        self.boot += 1;
        let head = (!self.head.is_empty()).then_some(&*self.head);
        self.replica = RangeReplica::open(self.settings, self.id, self.boot, head).unwrap();
        for (key, entry) in &self.entries {
            self.replica.on_loaded(key, entry);
        }
        self.is_up = true;
    }

    /// The same; the tree is what it was.
    pub(super) fn restart(&mut self) {
        let tree = self.replica.tree().clone();
        self.restart_anew();
        let sum = |of: &crate::kv::merkle::MerkleTree| of.sum(crate::kv::state::node::MerkleNode::ROOT);
        assert_eq!(sum(self.replica.tree()), sum(&tree), "the tree was kept up");
    }

    pub(super) fn entry(&self, key: &Key) -> KvEntry {
        self.entries.get(key).cloned().unwrap_or_default()
    }
}

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asker {
    Call(usize),
    Settling(usize),
}

/// A question or an answer on its way.
#[derive(Clone, Debug)]
pub(super) struct Flight {
    asker: Asker,
    pub(super) sent_ms: u64,
    store: StoreId,
    step: u32,
    word: Word,
}

#[derive(Clone, Debug)]
enum Word {
    Ask(Configuration, KvAsk),
    Answer(u64, KvAnswer),
}

/// A call that was begun.
#[derive(Clone, Debug)]
pub(super) struct OpenCall {
    pub(super) key: Key,
    pub(super) call: Option<Call>,
    pub(super) answer: Option<Result<CallAnswer, CallError>>,
}

/// A key that is settled.
#[derive(Clone, Debug)]
pub(super) struct OpenSettling {
    pub(super) key: Key,
    settling: Option<Settling>,
    configuration: Configuration,
    /// When all have been alike for the grace.
    due_ms: Option<u64>,
}

#[derive(Clone, Debug)]
pub(super) struct World {
    pub(super) levels: RangeLevels,
    pub(super) nodes: Vec<Node>,
    /// The owners as the coordinator has decided.
    pub(super) configuration: Configuration,
    pub(super) flights: Vec<Flight>,
    pub(super) calls: Vec<OpenCall>,
    pub(super) settlings: Vec<OpenSettling>,
    /// Which call was given which dot, by whatever store.
    pub(super) minted: OrderedMap<VersionDot, usize>,
    pub(super) now_ms: u64,
    /// Stores that nothing reaches.
    pub(super) cut: Vec<StoreId>,
}

pub(super) fn key(name: &str) -> Key {
    Key::new(name).unwrap()
}

pub(super) fn put(value: &str) -> KvChange {
    KvChange::Put {
        bytes: Bytes::from(value.as_bytes()),
        ttl_ms: None,
    }
}

pub(super) fn values(entry: &KvEntry) -> Vec<&str> {
    let mut values: Vec<_> = entry
        .siblings
        .values()
        .map(|bytes| str::from_utf8(bytes).unwrap())
        .collect();
    values.sort_unstable();
    values
}

impl World {
    /// Owners 0 … N − 1, and other stores.
    pub(super) fn new((copies, reads, writes): (u8, u8, u8), others: usize) -> Self {
        let levels = RangeLevels::new(copies, reads, writes).unwrap();
        let copies = usize::from(copies);
        let nodes: Vec<_> = (0..copies + others)
            .map(|id| Node::new(id as u128, copies))
            .collect();
        let owners = nodes.iter().take(copies).map(|node| node.id).collect();
        let configuration = Configuration {
            epoch: 1,
            owners: Owners::Stable(owners),
        };
        Self {
            levels,
            nodes,
            configuration,
            flights: Vec::new(),
            calls: Vec::new(),
            settlings: Vec::new(),
            minted: OrderedMap::new(),
            now_ms: 1_000,
            cut: Vec::new(),
        }
    }

    pub(super) fn node(&mut self, store: StoreId) -> &mut Node {
        self.nodes.iter_mut().find(|node| node.id == store).unwrap()
    }

    pub(super) fn is_reached(&self, store: StoreId) -> bool {
        let node = self.nodes.iter().find(|node| node.id == store);
        node.is_some_and(|node| node.is_up) && !self.cut.contains(&store)
    }

    /// Begins a call; `minters`: who may make versions, in order.
    pub(super) fn begin(
        &mut self,
        key: &Key,
        goal: CallGoal,
        configuration: Configuration,
        minters: &[StoreId],
    ) -> usize {
        let number = self.calls.len();
        let mut out = Vec::new();
        let minters = minters.iter().map(|store| (*store, None)).collect();
        let place = CallPlace {
            id: CallId {
                origin: 7,
                number: number as u64,
            },
            open_from: self
                .calls
                .iter()
                .position(|call| call.call.is_some())
                .unwrap_or(number) as u64,
            levels: self.levels,
            configuration,
            minters,
            rounds_from: self.now_ms,
            last_turn: Ballot::NONE,
        };
        let call = Call::begin(place, goal, &mut out);
        self.calls.push(OpenCall {
            key: key.clone(),
            call: Some(call),
            answer: None,
        });
        self.perform(number, out);
        number
    }

    fn perform(&mut self, number: usize, out: Vec<CallOutput>) {
        let call = self.calls[number].call.as_ref();
        let configuration = call.map(|call| call.configuration().clone());
        for output in out {
            match output {
                CallOutput::Ask { to, step, ask } => {
                    self.send(
                        Asker::Call(number),
                        (to, step),
                        configuration.clone().unwrap(),
                        ask,
                    );
                }
                CallOutput::Answer(answer) => {
                    assert_eq!(self.calls[number].answer, None, "answered once");
                    self.calls[number].answer = Some(answer);
                }
                CallOutput::Over => self.calls[number].call = None,
            }
        }
    }

    fn send(
        &mut self,
        asker: Asker,
        (store, step): (StoreId, u32),
        configuration: Configuration,
        ask: KvAsk,
    ) {
        self.flights.push(Flight {
            asker,
            sent_ms: self.now_ms,
            store,
            step,
            word: Word::Ask(configuration, ask),
        });
    }

    /// Begins to forget a key, or actors of it, as an owner holds it.
    pub(super) fn begin_settling(&mut self, key: &Key, at: StoreId, step: SettleStep) {
        let copies = self.levels.copies();
        let node = self.node(at);
        let Some(configuration) = node.replica.configuration().cloned() else {
            return;
        };
        let digest = node.entry(key).digest(key);
        let mut out = Vec::new();
        let settling = Settling::begin(configuration.clone(), copies, digest, step, &mut out);
        self.settlings.push(OpenSettling {
            key: key.clone(),
            settling: Some(settling),
            configuration,
            due_ms: None,
        });
        self.perform_settling(self.settlings.len() - 1, out);
    }

    /// Those that have waited for the grace are told to forget.
    pub(super) fn end_settlings(&mut self) {
        for number in 0..self.settlings.len() {
            let open = &mut self.settlings[number];
            if open.due_ms.is_some_and(|due_ms| due_ms <= self.now_ms)
                && let Some(settling) = open.settling.take()
            {
                let mut out = Vec::new();
                settling.end(&mut out);
                self.perform_settling(number, out);
            }
        }
    }

    fn perform_settling(&mut self, number: usize, out: Vec<CallOutput>) {
        let configuration = self.settlings[number].configuration.clone();
        for output in out {
            if let CallOutput::Ask { to, step, ask } = output {
                self.send(Asker::Settling(number), (to, step), configuration.clone(), ask);
            }
        }
    }

    /// One message arrives.
    pub(super) fn deliver(&mut self, flight: Flight) {
        let Flight {
            asker,
            store,
            step,
            word,
            ..
        } = flight;
        if !self.is_reached(store) {
            return;
        }
        let now_ms = self.now_ms;
        match (word, asker) {
            (Word::Ask(configuration, ask), _) => {
                let key = match asker {
                    Asker::Call(number) => self.calls[number].key.clone(),
                    Asker::Settling(number) => self.settlings[number].key.clone(),
                };
                let node = self.node(store);
                node.adopt(&configuration);
                let answer = node.answer(&key, configuration.epoch, &ask, now_ms);
                let epoch = node.epoch();
                if let (KvAnswer::Minted { dot, .. }, Asker::Call(number)) = (&answer, asker) {
                    let is_new = self.minted.values().all(|call| *call != number);
                    let known = self.minted.insert(*dot, number);
                    assert_eq!(known.unwrap_or(number), number, "a dot was given twice");
                    assert!(is_new || known.is_some(), "a put was made twice");
                }
                self.flights.push(Flight {
                    asker,
                    sent_ms: now_ms,
                    store,
                    step,
                    word: Word::Answer(epoch, answer),
                });
            }
            (Word::Answer(epoch, answer), Asker::Call(number)) => {
                let mut out = Vec::new();
                if let Some(call) = &mut self.calls[number].call {
                    call.on_answer((store, epoch), step, answer, now_ms, &mut out);
                }
                self.perform(number, out);
            }
            (Word::Answer(epoch, answer), Asker::Settling(number)) => {
                let open = &mut self.settlings[number];
                let Some(settling) = open.settling.as_mut().filter(|_| step == 0) else {
                    return;
                };
                match settling.on_answer((store, epoch), &answer) {
                    SettlingAnswer::Open => {}
                    SettlingAnswer::Alike if open.due_ms.is_none() => open.due_ms = Some(now_ms + GRACE_MS),
                    SettlingAnswer::Alike => {}
                    SettlingAnswer::NotAlike => open.settling = None,
                }
            }
        }
    }

    pub(super) fn repeat(&mut self, number: usize) {
        let mut out = Vec::new();
        if let Some(call) = &mut self.calls[number].call {
            call.repeat(&mut out);
        }
        self.perform(number, out);
    }

    pub(super) fn time_out(&mut self, number: usize) {
        let mut out = Vec::new();
        if let Some(call) = &mut self.calls[number].call {
            call.on_timeout(&mut out);
        }
        self.perform(number, out);
    }

    /// Everything arrives in order, with one repetition, and then the time is over.
    pub(super) fn settle(&mut self, number: usize) -> Result<CallAnswer, CallError> {
        for _ in 0..3 {
            while !self.flights.is_empty() {
                let flight = self.flights.remove(0);
                self.deliver(flight);
            }
            self.repeat(number);
        }
        self.flights.clear();
        self.time_out(number);
        self.calls[number].answer.clone().unwrap()
    }

    pub(super) fn run(
        &mut self,
        name: &str,
        goal: CallGoal,
        minters: &[u128],
    ) -> Result<CallAnswer, CallError> {
        let minters: Vec<_> = minters.iter().copied().map(StoreId).collect();
        let number = self.begin(&key(name), goal, self.configuration.clone(), &minters);
        self.settle(number)
    }

    /// Reads with R of these stores alone.
    pub(super) fn get(&mut self, read: u16, from: &[u128]) -> Result<KvEntry, CallError> {
        let cut = core::mem::take(&mut self.cut);
        let others = self.nodes.iter().map(|node| node.id);
        self.cut = others.filter(|store| !from.contains(&store.0)).collect();
        let level = Level::Replicas(read);
        let answer = self.run("k", CallGoal::Get { level }, &[]);
        self.cut = cut;
        answer.map(|answer| match answer {
            CallAnswer::Found(entry) => entry,
            other => panic!("{other:?}"),
        })
    }

    pub(super) fn write(
        &mut self,
        change: KvChange,
        context: &VersionClock,
        write: u16,
        minters: &[u128],
    ) -> Result<VersionClock, CallError> {
        let goal = CallGoal::Write {
            change,
            context: context.clone(),
            level: Level::Replicas(write),
        };
        self.run("k", goal, minters).map(|answer| match answer {
            CallAnswer::Written(clock) => clock,
            other => panic!("{other:?}"),
        })
    }

    pub(super) fn conditional(
        &mut self,
        expected: Option<CallId>,
        change: KvChange,
    ) -> Result<CallAnswer, CallError> {
        self.run("k", CallGoal::Conditional { expected, change }, &[])
    }
}
