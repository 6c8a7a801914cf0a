//! Some replicators in one process, in virtual time: messages arrive a millisecond later unless a link is
//! cut.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use super::super::Replicator;
use super::super::crdt::{DataOp, DataType, DataValue, GCounterOp, GSetOp, OrSetOp, PnCounterMapOp};
use super::super::protocol::{Answer, Command, DdataBody, Event as DdataEvent, Msg};
use super::super::state::consistency::Consistency;
use super::super::state::key::Key;
use crate::config::Config;
use crate::ddata::Cx;
use crate::effect::{self, Effect};
use crate::event::Event;
use crate::fixture::{Fixture, member, node, picture};
use crate::ident::{ClusterName, UniqueAddress};
use crate::input::SendTarget;
use crate::membership::state::member::Status;
use crate::message::Message;
use crate::ordered::{OrderedMap, OrderedSet};
use crate::reject;
use crate::store::memory::MemoryMap;
use crate::store::{Outcome, StoreError, StoreOrder, StoreReport, StoreRequest};
use crate::time::Instant;
use crate::timer::Timer;
use crate::wire;

pub(super) const SECOND: Duration = Duration::from_secs(1);
const STEP: Duration = Duration::from_millis(1);

/// What a node's store does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Disk {
    Works,
    Fails,
    /// Is being opened again, or cannot be reached.
    Away,
    /// Keeps requests until it works again.
    Stalls,
}

pub(super) struct Peer {
    pub(super) fixture: Fixture,
    pub(super) machine: Replicator,
    pub(super) store: MemoryMap,
    pub(super) disk: Disk,
    stalled: Vec<StoreRequest>,
    /// How far its wall clock has jumped.
    pub(super) ahead_ms: u64,
    /// How often the store was asked for something.
    pub(super) requests: usize,
    /// How many changes the store was given.
    pub(super) written: usize,
    pub(super) events: Vec<Event>,
    pub(super) answers: OrderedMap<u64, Answer>,
}

pub(super) struct World {
    pub(super) peers: Vec<Peer>,
    /// Directed links that lose everything.
    pub(super) cut: OrderedSet<(usize, usize)>,
    /// Nodes that stand still: they hear nothing, do nothing and see no clock.
    pub(super) frozen: OrderedSet<usize>,
    on_the_way: Vec<(usize, usize, Msg)>,
    tokens: u64,
    /// Messages that a test wants to lose.
    pub(super) lose: fn(&DdataBody) -> bool,
    /// Everything that was sent, in order.
    pub(super) sent: Vec<(usize, usize, DdataBody)>,
    /// The most bytes that a message was said to take.
    pub(super) heaviest: usize,
    /// Bytes of the frames that each node sent.
    pub(super) sent_bytes: Vec<usize>,
    /// Whether a machine is checked after every input, which costs by the keys that it holds.
    pub(super) checks: bool,
}

pub(super) fn key(name: &str) -> Key {
    Key::new(name).unwrap()
}

pub(super) fn config() -> Config {
    Config::lan(ClusterName::new("test").unwrap())
}

pub(super) fn increment(by: u64) -> (DataValue, DataOp) {
    let op = DataOp::GCounter(GCounterOp::Increment(by));
    (DataValue::empty(DataType::GCounter).unwrap(), op)
}

/// Counts in a map, under the key `k`.
pub(super) fn increment_in_map(by: u64) -> (DataValue, DataOp) {
    let op = PnCounterMapOp::Increment {
        key: b"k"[..].into(),
        by,
    };
    let initial = DataValue::empty(DataType::PnCounterMap).unwrap();
    (initial, DataOp::PnCounterMap(op))
}

pub(super) fn add(element: &str) -> (DataValue, DataOp) {
    let op = DataOp::OrSet(OrSetOp::Add(Arc::from(element.as_bytes())));
    (DataValue::empty(DataType::OrSet).unwrap(), op)
}

pub(super) fn remove(element: &str) -> (DataValue, DataOp) {
    let op = DataOp::OrSet(OrSetOp::Remove(Arc::from(element.as_bytes())));
    (DataValue::empty(DataType::OrSet).unwrap(), op)
}

pub(super) fn add_for_good(element: &[u8]) -> (DataValue, DataOp) {
    let op = DataOp::GSet(GSetOp::Add(Arc::from(element)));
    (DataValue::empty(DataType::GSet).unwrap(), op)
}

/// What arrives of a message: the same; and how many bytes its frame has.
fn through_the_wire(msg: Msg) -> (Msg, usize) {
    let mut frame = Vec::new();
    let limits = config().limits;
    let message = Message::Ddata(msg);
    wire::encode_message(&message, 1, &limits, &mut frame).unwrap();
    let body = &frame[wire::HEADER_BYTES..];
    let tag = message.tag();
    let read = wire::decode_message(tag.kind, tag.lane, body, &limits).unwrap();
    assert_eq!(read, message);
    match read {
        Message::Ddata(msg) => (msg, frame.len()),
        other => panic!("unexpected {other:?}"),
    }
}

impl World {
    /// `count` members that are Up and know each other, with the lowest address first.
    pub(super) fn new(count: usize, change: impl Fn(&mut Config)) -> Self {
        let mut world = Self {
            peers: Vec::new(),
            cut: OrderedSet::new(),
            frozen: OrderedSet::new(),
            on_the_way: Vec::new(),
            tokens: 0,
            lose: |_| false,
            sent: Vec::new(),
            heaviest: 0,
            sent_bytes: Vec::new(),
            checks: true,
        };
        for index in 0..count {
            let mut config = config();
            change(&mut config);
            world.add_peer(
                node(&alloc::format!("n{index}"), index as u64 + 1),
                config,
                MemoryMap::new(),
            );
        }
        world.all_up();
        world
    }

    pub(super) fn add_peer(&mut self, me: UniqueAddress, config: Config, store: MemoryMap) {
        let mut fixture = Fixture::with_config(me.clone(), config);
        if let Some(first) = self.peers.first() {
            fixture.now = first.fixture.now;
        }
        self.sent_bytes.push(0);
        self.peers.push(Peer {
            fixture,
            machine: Replicator::new(&me),
            store,
            disk: Disk::Works,
            ahead_ms: 0,
            requests: 0,
            written: 0,
            stalled: Vec::new(),
            events: Vec::new(),
            answers: OrderedMap::new(),
        });
    }

    /// Everybody sees everybody that is not in `gone` as Up and reachable.
    pub(super) fn all_up(&mut self) {
        self.see(|_| Some(Status::Up), &[]);
    }

    /// Everybody sees these statuses and these unreachable members.
    pub(super) fn see(&mut self, status: impl Fn(usize) -> Option<Status>, unreachable: &[usize]) {
        let all: Vec<usize> = (0..self.peers.len()).collect();
        self.see_at(&all, status, unreachable);
    }

    /// Some see these statuses and these unreachable members.
    pub(super) fn see_at(
        &mut self,
        who: &[usize],
        status: impl Fn(usize) -> Option<Status>,
        unreachable: &[usize],
    ) {
        let nodes: Vec<UniqueAddress> = self.peers.iter().map(|peer| peer.fixture.me.clone()).collect();
        let members: Vec<_> = nodes
            .iter()
            .enumerate()
            .filter_map(|(index, node)| status(index).map(|status| member(node, status)))
            .collect();
        for &index in who {
            let me = nodes[index].clone();
            let rows: Vec<_> = unreachable
                .iter()
                .filter(|subject| **subject != index)
                .map(|subject| (&nodes[index], &nodes[*subject]))
                .collect();
            let view = picture(&me, members.clone(), &rows);
            let peer = &mut self.peers[index];
            let before = core::mem::replace(&mut peer.fixture.view, Arc::new(view));
            let after = Arc::clone(&peer.fixture.view);
            self.with(index, |machine, cx| machine.on_view_changed(cx, &before, &after));
        }
    }

    pub(super) fn with(&mut self, index: usize, act: impl FnOnce(&mut Replicator, &mut Cx<'_>)) {
        let peer = &mut self.peers[index];
        act(&mut peer.machine, &mut peer.fixture.cx());
        self.collect(index);
    }

    fn collect(&mut self, index: usize) {
        for effect in self.peers[index].fixture.effects() {
            match effect {
                Effect::Send {
                    to: SendTarget::Node(to),
                    message: Message::Ddata(msg),
                } => {
                    let to = self.peers.iter().position(|peer| peer.fixture.me == to);
                    self.heaviest = self.heaviest.max(msg.payload_bytes());
                    let (msg, bytes) = through_the_wire(msg);
                    self.sent_bytes[index] += bytes;
                    if let Some(to) = to {
                        self.sent.push((index, to, msg.body.clone()));
                        if !self.cut.contains(&(index, to)) && !(self.lose)(&msg.body) {
                            self.on_the_way.push((index, to, msg));
                        }
                    }
                }
                Effect::Reply {
                    token,
                    answer: effect::Answer::Ddata(answer),
                } => {
                    let earlier = self.peers[index].answers.insert(token, answer);
                    assert!(earlier.is_none(), "answered twice");
                }
                Effect::Notify(event) => self.peers[index].events.push(event),
                Effect::Store(_, request) => {
                    self.peers[index].requests += 1;
                    if let StoreOrder::Write { batch } = &request.order {
                        self.peers[index].written += batch.len();
                    }
                    self.peers[index].stalled.push(request);
                }
                other => panic!("unexpected {other:?}"),
            }
        }
        if self.checks {
            self.check(index);
        }
    }

    /// Checks a machine's rules. Linear.
    pub(super) fn check(&self, index: usize) {
        let keys_max = self.peers[index].fixture.config.ddata.keys_max;
        self.peers[index].machine.check_invariants(keys_max).unwrap();
    }

    fn run_store(&mut self, index: usize) {
        let peer = &mut self.peers[index];
        if peer.disk == Disk::Stalls {
            return;
        }
        for StoreRequest { id, order } in core::mem::take(&mut peer.stalled) {
            let peer = &mut self.peers[index];
            let outcome: Outcome = match peer.disk {
                Disk::Fails => Err(StoreError::OutcomeUnknown),
                Disk::Away => Err(StoreError::Unavailable),
                Disk::Works | Disk::Stalls => peer.store.obey(crate::owner::Requester::Ddata.space(), &order),
            };
            self.with(index, |machine, cx| {
                machine.on_stored(cx, StoreReport { id, outcome })
            });
        }
    }

    /// Lets time pass.
    pub(super) fn run(&mut self, duration: Duration) {
        let until = self.now() + duration;
        while self.now() < until {
            for (from, to, msg) in core::mem::take(&mut self.on_the_way) {
                if self.frozen.contains(&to) {
                    continue;
                }
                let from = self.peers[from].fixture.me.clone();
                self.with(to, |machine, cx| machine.on_message(cx, &from, msg));
            }
            let awake: Vec<usize> = (0..self.peers.len())
                .filter(|index| !self.frozen.contains(index))
                .collect();
            for &index in &awake {
                self.run_store(index);
            }
            let idle = self.on_the_way.is_empty()
                && self
                    .peers
                    .iter()
                    .all(|peer| peer.stalled.is_empty() || peer.disk == Disk::Stalls);
            let timers = awake.iter().map(|index| &self.peers[*index].fixture.timers);
            let due = timers.filter_map(|timers| timers.next().map(|(at, _)| at)).min();
            let next = match due {
                Some(due) if idle => due.max(self.now() + Duration::from_micros(1)).min(until),
                Some(_) | None => (self.now() + STEP).min(until),
            };
            for index in awake {
                let ahead_ms = self.peers[index].ahead_ms;
                let now = &mut self.peers[index].fixture.now;
                now.mono = next;
                now.unix_ms = 1_700_000_000_000 + next.as_millis() - 100_003 + ahead_ms;
                while let Some(timer) = self.peers[index].fixture.timers.pop_due(next) {
                    match timer {
                        Timer::Ddata(timer) => self.with(index, |machine, cx| machine.on_timer(cx, timer)),
                        other => panic!("unexpected {other:?}"),
                    }
                }
            }
        }
    }

    pub(super) fn now(&self) -> Instant {
        self.peers[0].fixture.now.mono
    }

    pub(super) fn command(&mut self, index: usize, command: Command) -> u64 {
        self.tokens += 1;
        let token = self.tokens;
        self.with(index, |machine, cx| machine.on_command(cx, token, command));
        token
    }

    /// Starts an update; its token.
    pub(super) fn update(
        &mut self,
        index: usize,
        name: &str,
        change: (DataValue, DataOp),
        consistency: Consistency,
    ) -> u64 {
        let (initial, op) = change;
        let command = Command::Update {
            key: key(name),
            initial,
            op,
            consistency,
            timeout: SECOND,
        };
        self.command(index, command)
    }

    pub(super) fn get(&mut self, index: usize, name: &str, consistency: Consistency) -> u64 {
        let command = Command::Get {
            key: key(name),
            consistency,
            timeout: SECOND,
        };
        self.command(index, command)
    }

    pub(super) fn answer(&self, index: usize, token: u64) -> &Answer {
        let answers = &self.peers[index].answers;
        answers.get(&token).expect("the command was answered")
    }

    pub(super) fn is_open(&self, index: usize, token: u64) -> bool {
        !self.peers[index].answers.contains_key(&token)
    }

    /// The counter's value here; 0 if there is none.
    pub(super) fn count(&self, index: usize, name: &str) -> u128 {
        match self.peers[index].machine.get(&key(name)).map(|data| &**data) {
            Some(DataValue::GCounter(counter)) => counter.value(),
            Some(other) => panic!("no counter: {other:?}"),
            None => 0,
        }
    }

    /// What a map has counted under the key `k`.
    pub(super) fn mapped(&self, index: usize, name: &str) -> i128 {
        match self.peers[index].machine.get(&key(name)).map(|data| &**data) {
            Some(DataValue::PnCounterMap(map)) => map.get(b"k").unwrap_or(0),
            _ => 0,
        }
    }

    pub(super) fn counts(&self, name: &str) -> Vec<u128> {
        (0..self.peers.len())
            .map(|index| self.count(index, name))
            .collect()
    }

    pub(super) fn changes(&self, index: usize) -> Vec<DdataEvent> {
        let events = self.peers[index].events.iter();
        let of_ddata = events.filter_map(|event| match event {
            Event::Ddata(event) => Some(event.clone()),
            Event::Membership(_)
            | Event::Detector(_)
            | Event::Downing(_)
            | Event::Sharding { .. }
            | Event::Singleton { .. }
            | Event::Path { .. }
            | Event::Journal(_)
            | Event::Kv { .. }
            | Event::Rejected { .. } => None,
        });
        of_ddata.collect()
    }

    pub(super) fn rejections(&self, index: usize) -> Vec<reject::DdataRejection> {
        let events = self.peers[index].events.iter();
        let rejected = events.filter_map(|event| match event {
            Event::Rejected {
                rejection: reject::Rejection::Ddata(rejection),
                ..
            } => Some(rejection.clone()),
            Event::Rejected { .. }
            | Event::Ddata(_)
            | Event::Membership(_)
            | Event::Detector(_)
            | Event::Downing(_)
            | Event::Singleton { .. }
            | Event::Path { .. }
            | Event::Journal(_)
            | Event::Kv { .. }
            | Event::Sharding { .. } => None,
        });
        rejected.collect()
    }

    /// Cuts both ways between two sides.
    pub(super) fn partition(&mut self, left: &[usize], right: &[usize]) {
        for one in left {
            for other in right {
                self.cut.insert((*one, *other));
                self.cut.insert((*other, *one));
            }
        }
    }

    pub(super) fn heal(&mut self) {
        self.cut.clear();
    }

    pub(super) fn is_equal(&self) -> bool {
        let first = self.peers[0].machine.digests();
        let mut others = self.peers.iter().skip(1);
        others.all(|peer| peer.machine.digests() == first)
    }

    pub(super) fn assert_equal(&self) {
        let first = self.peers[0].machine.digests();
        for (index, peer) in self.peers.iter().enumerate().skip(1) {
            assert_eq!(peer.machine.digests(), first, "replica {index} differs");
        }
    }
}
