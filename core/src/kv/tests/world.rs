//! Some machines in one process, in virtual time: messages arrive a millisecond later unless a link is cut.

use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use super::logs::Logs;
use super::settings::Registry;
use crate::config::Config;
use crate::ddata::state::key::Key;
use crate::drain::DrainPart;
use crate::effect::{Answer as AnyAnswer, CommandError, Effect};
use crate::event::Event as AnyEvent;
use crate::fixture::{Fixture, member, node, picture};
use crate::ident::{ClusterName, UniqueAddress};
use crate::input::SendTarget;
use crate::journal::state::StoreId;
use crate::kv::protocol::ranges::RangeCommand;
use crate::kv::protocol::{Answer, BucketBody, Command, Event, KvCommandError, Msg};
use crate::kv::state::bucket::BucketName;
use crate::kv::state::clock::VersionClock;
use crate::kv::state::entry::KvEntry;
use crate::kv::state::exchange::KvChange;
use crate::kv::state::level::Level;
use crate::kv::state::outcome::{CallAnswer, CallError, CallGoal};
use crate::kv::state::settings::BucketSettings;
use crate::kv::state::table::RangeId;
use crate::kv::{Cx, KeyedStore};
use crate::membership::state::member::Status;
use crate::message::Message;
use crate::ordered::{OrderedMap, OrderedSet};
use crate::owner::Requester;
use crate::sharding::protocol::registry::RegistrationFields;
use crate::signal::Signal;
use crate::store::memory::MemoryMap;
use crate::store::{Bytes, StoreError, StoreOrder, StoreReport, StoreRequest};
use crate::time::Instant;
use crate::timer::Timer;
use crate::wire;

const STEP: Duration = Duration::from_millis(1);

pub(super) struct Peer {
    pub(super) fixture: Fixture,
    pub(super) machine: KeyedStore,
    pub(super) events: Vec<Event>,
    /// What peers did wrong, as this node says.
    pub(super) rejections: usize,
    pub(super) answers: OrderedMap<u64, AnyAnswer>,
    pub(super) store: MemoryMap,
    /// What the node's store has been asked and has not done.
    waiting: Vec<StoreRequest>,
    /// It has said that it has handed over.
    pub(super) is_drained: bool,
    is_dead: bool,
}

pub(super) struct World {
    /// Of those that start from now on.
    pub(super) config: Config,
    pub(super) peers: Vec<Peer>,
    /// Directed links that lose everything.
    pub(super) cut: OrderedSet<(usize, usize)>,
    on_the_way: Vec<(usize, usize, Msg)>,
    tokens: u64,
    /// Messages that a test wants to lose.
    pub(super) lose: fn(&BucketBody) -> bool,
    /// Nodes whose stores do nothing, and those whose stores are full.
    pub(super) stalled: OrderedSet<usize>,
    pub(super) failing: OrderedSet<usize>,
    unreachable: Vec<usize>,
    gone: OrderedSet<usize>,
    /// What voters keep.
    pub(super) logs: Logs,
    pub(super) registry: Registry,
}

pub(super) fn carts() -> BucketName {
    BucketName::new("carts").unwrap()
}

pub(super) fn key(name: &str) -> Key {
    Key::new(name).unwrap()
}

pub(super) fn settings() -> BucketSettings {
    BucketSettings {
        ranges: 8,
        is_durable: false,
        ..BucketSettings::default()
    }
}

pub(super) fn put(value: &str, context: VersionClock) -> CallGoal {
    CallGoal::Write {
        change: change(value),
        context,
        level: Level::Quorum,
    }
}

pub(super) fn change(value: &str) -> KvChange {
    KvChange::Put {
        bytes: Bytes::from(value.as_bytes()),
        ttl_ms: None,
    }
}

pub(super) fn get() -> CallGoal {
    CallGoal::Get { level: Level::Quorum }
}

pub(super) fn values(entry: &KvEntry) -> Vec<&str> {
    let decided = entry.accepted().map(|accepted| &accepted.decision);
    if let Some(crate::kv::state::entry::KeyDecision::Value(decided)) = decided {
        let value = decided.content.value();
        return value
            .into_iter()
            .map(|bytes| core::str::from_utf8(bytes).unwrap())
            .collect();
    }
    let values = entry.siblings.values();
    values.map(|bytes| core::str::from_utf8(bytes).unwrap()).collect()
}

/// What arrives of a message: the same.
fn through_the_wire(msg: Msg) -> Msg {
    let mut frame = Vec::new();
    let limits = config().limits;
    let message = Message::Kv(msg);
    wire::encode_message(&message, 1, &limits, &mut frame).unwrap();
    let tag = message.tag();
    let body = &frame[wire::HEADER_BYTES..];
    let read = wire::decode_message(tag.kind, tag.lane, body, &limits).unwrap();
    assert_eq!(read, message);
    match read {
        Message::Kv(msg) => msg,
        other => panic!("unexpected {other:?}"),
    }
}

pub(super) fn config() -> Config {
    let mut config = Config::lan(ClusterName::new("test").unwrap());
    config.downing.down_removal_margin = Some(Duration::ZERO);
    config.kv.move_timeout = Duration::from_secs(20);
    config.kv.tombstone_grace = Duration::from_secs(30);
    config
}

impl World {
    /// So many members that are Up and know each other, the first one the oldest.
    pub(super) fn new(count: usize) -> Self {
        Self::with_config(count, config())
    }

    pub(super) fn with_config(count: usize, config: Config) -> Self {
        let mut world = Self {
            config,
            peers: Vec::new(),
            cut: OrderedSet::new(),
            on_the_way: Vec::new(),
            tokens: 0,
            lose: |_| false,
            stalled: OrderedSet::new(),
            failing: OrderedSet::new(),
            unreachable: Vec::new(),
            gone: OrderedSet::new(),
            logs: Logs::default(),
            registry: Registry::default(),
        };
        for _ in 0..count {
            world.start();
        }
        world.see();
        world
    }

    /// One more node, which nobody has seen yet; which one it is.
    pub(super) fn start(&mut self) -> usize {
        let host = alloc::format!("n{}", self.peers.len());
        self.start_with(host, MemoryMap::new())
    }

    fn start_with(&mut self, host: String, mut store: MemoryMap) -> usize {
        let index = self.peers.len();
        let me = node(&host, index as u64 + 1);
        store.boot(index as u128 + 1_000);
        let mut fixture = Fixture::with_config(me, self.config.clone());
        if let Some(first) = self.peers.first() {
            fixture.now = first.fixture.now;
        }
        // The same chance on all nodes would draw the same stores.
        for _ in 0..index {
            rand_core::Rng::next_u64(&mut fixture.rng);
        }
        self.peers.push(Peer {
            fixture,
            machine: KeyedStore::default(),
            events: Vec::new(),
            rejections: 0,
            answers: OrderedMap::new(),
            store,
            waiting: Vec::new(),
            is_drained: false,
            is_dead: false,
        });
        index
    }

    /// A process begins anew with the store of one that has ended, at its address; which one it is.
    pub(super) fn restart(&mut self, ended: usize) -> usize {
        let store = self.peers[ended].store.clone();
        let host = self.peers[ended].fixture.me.address().host().into();
        self.start_with(host, store)
    }

    /// Has the node's store do what it was asked.
    fn run_store(&mut self, index: usize) {
        if self.peers[index].is_dead || self.stalled.contains(&index) {
            return;
        }
        for StoreRequest { id, order } in core::mem::take(&mut self.peers[index].waiting) {
            let space = Requester::Kv.space();
            let outcome = match &order {
                StoreOrder::Write { .. } if self.failing.contains(&index) => Err(StoreError::Full),
                order => self.peers[index].store.obey(space, order),
            };
            let report = StoreReport { id, outcome };
            self.with(index, |machine, cx| machine.on_stored(cx, report));
        }
    }

    /// Has the voters do what the node asked of their logs.
    fn run_logs(&mut self, index: usize) {
        if self.peers[index].is_dead {
            return;
        }
        for (opener, command) in core::mem::take(&mut self.peers[index].fixture.outbox.log_asked) {
            self.logs.ask(index, opener, command);
        }
        while let Some((opener, answer)) = self.logs.answer(index) {
            self.with(index, |machine, cx| machine.on_log_answer(cx, opener, answer));
        }
    }

    /// Its process ends.
    pub(super) fn kill(&mut self, index: usize) {
        self.peers[index].is_dead = true;
    }

    /// Everybody sees that it is silent.
    pub(super) fn lose_sight_of(&mut self, index: usize) {
        self.unreachable.push(index);
        self.see();
    }

    /// Everybody sees that it is there again.
    pub(super) fn find_again(&mut self, index: usize) {
        self.unreachable.retain(|unreachable| *unreachable != index);
        self.see();
    }

    /// Everybody sees that it is no member any more.
    pub(super) fn remove(&mut self, index: usize) {
        self.unreachable.retain(|unreachable| *unreachable != index);
        self.gone.insert(index);
        self.see();
    }

    /// It is no member any more, which the next picture says.
    pub(super) fn forget(&mut self, index: usize) {
        self.gone.insert(index);
    }

    /// Everybody sees who is a member.
    pub(super) fn see(&mut self) {
        self.see_as(|_| Status::Up);
    }

    pub(super) fn see_as(&mut self, status: impl Fn(usize) -> Status) {
        let nodes: Vec<UniqueAddress> = self.peers.iter().map(|peer| peer.fixture.me.clone()).collect();
        let here = |index: &usize| !self.gone.contains(index);
        let members: Vec<_> = (0..nodes.len())
            .filter(here)
            .map(|index| member(&nodes[index], status(index)))
            .collect();
        let living: Vec<usize> = (0..nodes.len())
            .filter(|index| here(index) && !self.peers[*index].is_dead)
            .collect();
        for index in living {
            let rows: Vec<_> = self
                .unreachable
                .iter()
                .filter(|subject| **subject != index)
                .map(|subject| (&nodes[index], &nodes[*subject]))
                .collect();
            let view = picture(&nodes[index], members.clone(), &rows);
            self.peers[index].fixture.see(view);
            self.hear_signals(index);
        }
    }

    fn hear_signals(&mut self, index: usize) {
        for signal in self.peers[index].fixture.heard() {
            match signal {
                Signal::AgesChanged { before, after } => {
                    self.with(index, |machine, cx| machine.on_ages_changed(cx, &before, &after));
                }
                Signal::MarginOver => self.with(index, |machine, cx| machine.on_margin_over(cx)),
                Signal::Drained(DrainPart::Kv) => self.peers[index].is_drained = true,
                Signal::Registered(_, Some(RegistrationFields::Bucket(fields))) => {
                    self.on_registered(index, fields);
                }
                Signal::Registered(_, None) => {}
                other => panic!("unexpected {other:?}"),
            }
        }
    }

    pub(super) fn with(&mut self, index: usize, act: impl FnOnce(&mut KeyedStore, &mut Cx<'_>)) {
        let peer = &mut self.peers[index];
        if peer.is_dead {
            return;
        }
        act(&mut peer.machine, &mut peer.fixture.cx());
        peer.machine.check_invariants().unwrap();
        while let Some(message) = peer.fixture.outbox.loopback.pop_front() {
            let Message::Kv(msg) = message else {
                panic!("unexpected {message:?}")
            };
            let me = peer.fixture.me.clone();
            let msg = through_the_wire(msg);
            peer.machine.on_message(&mut peer.fixture.cx(), &me, msg);
        }
        self.collect(index);
        self.hear_signals(index);
    }

    fn collect(&mut self, index: usize) {
        for effect in self.peers[index].fixture.effects() {
            match effect {
                Effect::Send {
                    to: SendTarget::Node(to),
                    message: Message::Kv(msg),
                } => {
                    let to = self.peers.iter().position(|peer| peer.fixture.me == to).unwrap();
                    let is_lost = self.cut.contains(&(index, to)) || (self.lose)(&msg.body);
                    if !is_lost {
                        self.on_the_way.push((index, to, through_the_wire(msg)));
                    }
                }
                Effect::Reply { token, answer } => {
                    let earlier = self.peers[index].answers.insert(token, answer);
                    assert!(earlier.is_none(), "answered twice");
                }
                Effect::Store(Requester::Kv, request) => self.peers[index].waiting.push(request),
                Effect::Notify(AnyEvent::Kv { event, .. }) => self.peers[index].events.push(event),
                Effect::Notify(AnyEvent::Rejected { .. }) => self.peers[index].rejections += 1,
                other => panic!("unexpected {other:?}"),
            }
        }
    }

    pub(super) fn now(&self) -> Instant {
        self.peers[0].fixture.now.mono
    }

    /// Lets time pass.
    pub(super) fn run(&mut self, duration: Duration) {
        let until = self.now() + duration;
        while self.now() < until {
            for (from, to, msg) in core::mem::take(&mut self.on_the_way) {
                let from = self.peers[from].fixture.me.clone();
                self.with(to, |machine, cx| machine.on_message(cx, &from, msg));
            }
            for index in 0..self.peers.len() {
                self.run_store(index);
                self.run_logs(index);
            }
            let timers = self.peers.iter().filter(|peer| !peer.is_dead);
            let timers = timers.filter_map(|peer| peer.fixture.timers.next().map(|(at, _)| at));
            let next = match timers.min() {
                Some(due) if self.on_the_way.is_empty() => {
                    due.max(self.now() + Duration::from_micros(1)).min(until)
                }
                Some(_) | None => (self.now() + STEP).min(until),
            };
            for index in 0..self.peers.len() {
                let now = &mut self.peers[index].fixture.now;
                now.mono = next;
                now.unix_ms = 1_700_000_000_000 + next.as_millis() - 100_003;
                while let Some(timer) = self.peers[index].fixture.timers.pop_due(next) {
                    match timer {
                        Timer::Kv(timer) => self.with(index, |machine, cx| machine.on_timer(cx, timer)),
                        Timer::Oldest(_) => {}
                        other => panic!("unexpected {other:?}"),
                    }
                }
            }
        }
    }

    /// Gives a command; its token.
    pub(super) fn command(&mut self, index: usize, command: Command) -> u64 {
        self.tokens += 1;
        let token = self.tokens;
        self.with(index, |machine, cx| machine.on_command(cx, token, command));
        token
    }

    /// All of these nodes open the bucket, and its ranges are given.
    pub(super) fn open(&mut self, nodes: impl IntoIterator<Item = usize>) {
        for index in nodes {
            self.open_as(index, settings());
        }
        self.run(Duration::from_secs(5));
    }

    pub(super) fn open_as(&mut self, index: usize, settings: BucketSettings) -> u64 {
        let bucket = carts();
        self.command(index, Command::Open { bucket, settings })
    }

    /// Begins a call; its token.
    pub(super) fn begin(&mut self, index: usize, name: &str, goal: CallGoal) -> u64 {
        let command = Command::Call {
            bucket: carts(),
            key: key(name),
            goal,
            timeout: Duration::from_secs(10),
        };
        self.command(index, command)
    }

    /// What a call was answered.
    pub(super) fn called(&self, index: usize, token: u64) -> Option<Result<CallAnswer, CallError>> {
        match self.peers[index].answers.get(&token)? {
            AnyAnswer::Kv(Answer::Called(result)) => Some(result.clone()),
            other => panic!("unexpected {other:?}"),
        }
    }

    /// Calls, and waits for the answer.
    pub(super) fn call(&mut self, index: usize, name: &str, goal: CallGoal) -> Result<CallAnswer, CallError> {
        let token = self.begin(index, name, goal);
        let until = self.now() + Duration::from_secs(11);
        while self.now() < until {
            if let Some(result) = self.called(index, token) {
                return result;
            }
            self.run(Duration::from_millis(5));
        }
        panic!("a call without an answer")
    }

    /// What a key holds.
    pub(super) fn get(&mut self, index: usize, name: &str) -> KvEntry {
        match self.call(index, name, get()) {
            Ok(CallAnswer::Found(entry)) => entry,
            other => panic!("unexpected {other:?}"),
        }
    }

    /// Puts a value over what is there.
    pub(super) fn put(&mut self, index: usize, name: &str, value: &str) -> VersionClock {
        let context = self.get(index, name).siblings.clock().clone();
        match self.call(index, name, put(value, context)) {
            Ok(CallAnswer::Written(clock)) => clock,
            other => panic!("unexpected {other:?}"),
        }
    }

    /// The store of a node.
    pub(super) fn store(&self, index: usize) -> StoreId {
        let open = self.peers[index].machine.bucket(&carts()).unwrap();
        open.store().unwrap().id()
    }

    /// Who owns a range, by the one that coordinates.
    pub(super) fn owners(&self, lead: usize, range: RangeId) -> Vec<StoreId> {
        let lead = self.peers[lead].machine.lead(&carts()).unwrap();
        let entry = lead.table().get(range).unwrap();
        entry.configuration.owners.all().collect()
    }

    /// Commands something of ranges.
    pub(super) fn command_ranges(
        &mut self,
        index: usize,
        command: RangeCommand,
    ) -> Result<(), KvCommandError> {
        let bucket = carts();
        let token = self.command(index, Command::Ranges { bucket, command });
        match self.peers[index].answers.get(&token).unwrap() {
            AnyAnswer::Done => Ok(()),
            AnyAnswer::Refused(CommandError::Kv(error)) => Err(error.clone()),
            other => panic!("unexpected {other:?}"),
        }
    }
}
