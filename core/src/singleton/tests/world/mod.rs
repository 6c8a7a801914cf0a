//! A few nodes' singletons without membership: the test says who is a member, messages arrive at once and in
//! order, instances echo. After each step no two live nodes run an instance, and every token is above all
//! before it.

mod run;

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use crate::config::Config;
use crate::effect::Answer;
use crate::fixture::{Fixture, member, node};
use crate::ident::{ClusterName, Role, Roles, UniqueAddress};
use crate::input::DropReason;
use crate::input::SendTarget;
use crate::input::{HostReport, SingletonCommand, SingletonSettings};
use crate::lease::protocol::{LeaseOutcome, LeaseReport};
use crate::membership::state::member::{Member, Status, UpNumber};
use crate::message::{Message, SingletonMsg};
use crate::messaging::AskWait;
use crate::messaging::protocol::{AskReply, AskTicket};
use crate::ordered::{OrderedMap, OrderedSet};
use crate::sharding::protocol::registry::Judgement;
use crate::sharding::state::chain::AskChain;
use crate::sharding::state::errors::AskFailure;
use crate::sharding::state::ids::{AskRef, Payload, Slot};
use crate::singleton::protocol::{
    Event as SingletonEvent, InstanceMessage, SingletonBody, SingletonStatement,
};
use crate::singleton::state::StoredPromise;
use crate::singleton::state::{SingletonId, SingletonPhase, SingletonState};
use crate::singleton::{Singletons, ask_promise, lower_promise};
use crate::stats::SingletonCounters;
use crate::store::{Bytes, Change, StoreAnswer, StoreOrder};
use crate::time::Instant;
use crate::token::Token;
use crate::wire::StoredForm;

pub(super) const MARGIN: Duration = secs(20);

pub(super) const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn role() -> Role {
    Role::new("worker").unwrap()
}

/// As all nodes register it, but for the lease.
pub(super) fn settings(hosts: bool) -> SingletonSettings {
    SingletonSettings {
        name: Arc::from("billing"),
        role: Some(role()),
        hosts,
        lease: false,
        durable: false,
    }
}

fn id() -> SingletonId {
    SingletonId::of("billing")
}

fn address(at: usize) -> UniqueAddress {
    node(&alloc::format!("n{at:02}"), at as u64 + 1)
}

/// What runs an instance, keeps the lease and the store of one node.
#[derive(Default)]
pub(super) struct Host {
    /// Ignores Stop and Kill until the test ends the instance.
    pub(super) slow_to_stop: bool,
    /// Answers no ask.
    pub(super) silent: bool,
    pub(super) store_fails: bool,
    pub(super) told_to_stop: usize,
    pub(super) killed: usize,
    pub(super) delivered: usize,
    pub(super) leases_asked: usize,
    pub(super) leases_released: usize,
    running: Option<Slot>,
    store: OrderedMap<Bytes, Bytes>,
}

struct Peer {
    fixture: Fixture,
    singletons: Singletons,
    host: Host,
    answers: OrderedMap<u64, Result<Payload, AskFailure>>,
    registered: Option<Answer>,
    events: Vec<SingletonEvent>,
    heard: Vec<(UniqueAddress, u64, SingletonBody)>,
    rejected: usize,
    drained: bool,
    alive: bool,
}

pub(super) struct World {
    peers: Vec<Peer>,
    config: Config,
    lease: bool,
    members: OrderedMap<usize, Member>,
    removed: OrderedSet<UniqueAddress>,
    gone: OrderedSet<UniqueAddress>,
    cut: OrderedSet<usize>,
    held: bool,
    wire: VecDeque<(usize, usize, Message)>,
    now: Instant,
    asks: u64,
    starts: usize,
    highest: Token,
    may_overlap: bool,
    /// What the registry says at once of what is registered; `None`: nothing yet.
    pub(super) judgement: Option<Judgement>,
}

impl World {
    /// Nodes with the role that have registered; nobody is a member.
    pub(super) fn new(nodes: usize) -> Self {
        Self::with_config(nodes, |_| {})
    }

    /// All are Up, the first is the oldest, and its instance runs.
    pub(super) fn formed(nodes: usize) -> Self {
        let mut world = Self::new(nodes);
        world.all_up();
        assert_eq!(world.running(), [0]);
        world
    }

    pub(super) fn with_lease(nodes: usize) -> Self {
        Self::build(nodes, true, |_| {})
    }

    pub(super) fn with_config(nodes: usize, change: impl FnOnce(&mut Config)) -> Self {
        Self::build(nodes, false, change)
    }

    pub(super) fn build(nodes: usize, lease: bool, change: impl FnOnce(&mut Config)) -> Self {
        let mut config = Config::lan(ClusterName::new("test").unwrap());
        config.downing.down_removal_margin = Some(MARGIN);
        config.roles = alloc::vec![role()];
        change(&mut config);
        let mut world = Self {
            peers: Vec::new(),
            config,
            lease,
            members: OrderedMap::new(),
            removed: OrderedSet::new(),
            gone: OrderedSet::new(),
            cut: OrderedSet::new(),
            held: false,
            wire: VecDeque::new(),
            now: Instant::ZERO,
            asks: 0,
            starts: 0,
            highest: Token::NONE,
            may_overlap: false,
            judgement: Some(Judgement::Accepted),
        };
        for at in 0..nodes {
            let peer = world.peer(at, Host::default());
            world.now = peer.fixture.mono();
            world.peers.push(peer);
            assert!(world.register(at, true));
        }
        world
    }

    fn peer(&self, at: usize, host: Host) -> Peer {
        Peer {
            fixture: Fixture::with_config(address(at), self.config.clone()),
            singletons: Singletons::default(),
            host,
            answers: OrderedMap::new(),
            registered: None,
            events: Vec::new(),
            heard: Vec::new(),
            rejected: 0,
            drained: false,
            alive: true,
        }
    }

    /// The same nodes with the same stores, before they are members again.
    pub(super) fn restart_all(&mut self) {
        self.members.clear();
        self.removed.clear();
        self.gone.clear();
        for at in 0..self.peers.len() {
            let store = core::mem::take(&mut self.peers[at].host.store);
            let host = Host {
                store,
                ..Host::default()
            };
            self.peers[at] = self.peer(at, host);
            self.peers[at].fixture.now.mono = self.now;
            assert!(self.register(at, true));
        }
    }

    /// Its store holds what another's does.
    pub(super) fn has_store_of(&mut self, at: usize, other: usize) {
        self.peers[at].host.store = self.peers[other].host.store.clone();
    }

    pub(super) fn register(&mut self, at: usize, hosts: bool) -> bool {
        let settings = SingletonSettings {
            lease: self.lease,
            ..settings(hosts)
        };
        self.register_as(at, settings) == Some(Answer::Done)
    }

    /// What a node's user is told at once.
    pub(super) fn register_as(&mut self, at: usize, settings: SingletonSettings) -> Option<Answer> {
        self.command(at, 0, SingletonCommand::Register(settings));
        self.told(at)
    }

    /// The registry of a node says what the cluster makes of it.
    pub(super) fn judge(&mut self, at: usize, judgement: Judgement) {
        let peer = &mut self.peers[at];
        peer.singletons.on_judged(&mut peer.fixture.cx(), id(), judgement);
        self.settle();
    }

    /// Has a node host it no more; what it is told at once.
    pub(super) fn stop(&mut self, at: usize, timeout: Duration) -> Option<Answer> {
        let singleton = id();
        self.command(at, 0, SingletonCommand::Stop { singleton, timeout });
        self.told(at)
    }

    /// What a node's user was told last, but for asks.
    pub(super) fn told(&mut self, at: usize) -> Option<Answer> {
        self.peers[at].registered.take()
    }

    /// This node has not registered it.
    pub(super) fn forget(&mut self, at: usize) {
        self.peers[at].singletons = Singletons::default();
    }

    fn command(&mut self, at: usize, token: u64, command: SingletonCommand) {
        let peer = &mut self.peers[at];
        peer.singletons.on_command(&mut peer.fixture.cx(), token, command);
        self.settle();
    }

    pub(super) fn ask(&mut self, at: usize, timeout: Duration) -> (usize, u64) {
        self.ask_with(at, b"?", timeout)
    }

    pub(super) fn ask_with(&mut self, at: usize, payload: &[u8], timeout: Duration) -> (usize, u64) {
        self.asks += 1;
        let token = self.asks;
        let chain = AskChain::default();
        let (payload, wait) = (Payload::from(payload), AskWait { timeout, chain });
        let peer = &mut self.peers[at];
        peer.singletons
            .ask(&mut peer.fixture.cx(), token, id(), payload, wait);
        self.settle();
        (at, token)
    }

    pub(super) fn answered(&self, (at, token): (usize, u64)) -> Option<Result<Payload, AskFailure>> {
        self.peers[at].answers.get(&token).cloned()
    }

    pub(super) fn all_up(&mut self) {
        let all: Vec<(usize, Status)> = (0..self.peers.len()).map(|at| (at, Status::Up)).collect();
        self.set(&all);
    }

    /// Gives members their status, in one step.
    pub(super) fn set(&mut self, changes: &[(usize, Status)]) {
        for (at, status) in changes {
            let mut member = member(&address(*at), *status);
            member.roles = Roles::new([role()], "default").unwrap();
            self.members.insert(*at, member);
        }
        self.publish();
    }

    /// Both halves of a split took in their first member.
    pub(super) fn as_old_as_the_first(&mut self, at: usize) {
        self.members.get_mut(&at).expect("a member").up_number = UpNumber::FIRST;
        self.publish();
    }

    /// These nodes leave: they are asked to hand over, and soon are Exiting.
    pub(super) fn leave(&mut self, nodes: &[usize]) {
        let to = |status| nodes.iter().map(|at| (*at, status)).collect::<Vec<_>>();
        self.set(&to(Status::Leaving));
        for at in nodes {
            self.drain(*at);
        }
        self.set(&to(Status::Exiting));
    }

    /// This node is asked to hand over.
    pub(super) fn drain(&mut self, at: usize) {
        let peer = &mut self.peers[at];
        peer.singletons.on_drain_requested(&mut peer.fixture.cx());
        self.settle();
    }

    /// Both in one step.
    pub(super) fn remove_and_set(&mut self, gone: &[usize], changes: &[(usize, Status)]) {
        self.forget_members(gone);
        self.set(changes);
    }

    pub(super) fn remove(&mut self, nodes: &[usize]) {
        self.forget_members(nodes);
        self.publish();
    }

    fn forget_members(&mut self, nodes: &[usize]) {
        for at in nodes {
            let was = self.members.remove(at);
            if self.peers[*at].drained && was.is_some_and(|member| member.status == Status::Exiting) {
                self.gone.insert(address(*at));
            }
            self.peers[*at].alive = false;
            self.peers[*at].host.running = None;
            self.removed.insert(address(*at));
        }
    }

    pub(super) fn crash(&mut self, nodes: &[usize]) {
        for at in nodes {
            self.peers[*at].alive = false;
            self.peers[*at].host.running = None;
        }
    }

    /// What these nodes say and hear is lost.
    pub(super) fn cut(&mut self, nodes: &[usize]) {
        self.cut.extend(nodes);
    }

    pub(super) fn heal(&mut self) {
        self.cut.clear();
    }

    pub(super) fn hold_wire(&mut self) {
        self.held = true;
    }

    pub(super) fn release_wire(&mut self) {
        self.held = false;
        self.settle();
    }

    /// From now on two nodes may run an instance: the test forges what they say.
    pub(super) fn forgive_two(&mut self) {
        self.may_overlap = true;
    }

    pub(super) fn pause(&mut self, at: usize) {
        self.peers[at].singletons.on_paused();
    }

    pub(super) fn still_member(&mut self, at: usize) {
        let peer = &mut self.peers[at];
        peer.singletons.on_still_member(&mut peer.fixture.cx());
        self.settle();
    }

    /// Lets a node hear a statement out of the blue.
    pub(super) fn says(&mut self, from: usize, to: usize, epoch: u64, body: SingletonBody) {
        self.says_about(from, to, (id(), epoch), body);
    }

    /// Lets a node hear an answer out of the blue.
    pub(super) fn answers(&mut self, from: usize, to: usize, id: u64) {
        let reply = AskReply {
            id,
            to: address(to),
            result: Ok(Payload::from(b"forged".as_slice())),
        };
        self.receive(from, to, Message::Singleton(SingletonMsg::Reply(reply)));
        self.settle();
    }

    /// The host of this node gives a message of its ask back that it has not sent.
    pub(super) fn gives_back(&mut self, (at, id_of_ask): (usize, u64), to: usize) {
        let peer = &mut self.peers[at];
        let delivery = InstanceMessage {
            singleton: id(),
            token: Token::new(1, 1),
            ask: Some(AskTicket::of(&address(at), id_of_ask, AskChain::default())),
            payload: Payload::from(b"?".as_slice()),
        };
        let (to, msg) = (SendTarget::Node(address(to)), SingletonMsg::Delivery(delivery));
        let cx = &mut peer.fixture.cx();
        peer.singletons.on_dropped(cx, &to, msg, DropReason::Unreachable);
        self.settle();
    }

    /// The node says its last words.
    pub(super) fn speaks_last(&mut self, at: usize) {
        let peer = &mut self.peers[at];
        peer.singletons.answer_the_rest(&mut peer.fixture.cx());
        self.settle();
    }

    /// Lets a node hear a message out of the blue that is for the instance with this token, and an ask of
    /// this node.
    pub(super) fn delivers(&mut self, from: usize, to: usize, ask: (usize, u64), token: Token) {
        let (asker, id_of_ask) = ask;
        let delivery = InstanceMessage {
            singleton: id(),
            token,
            ask: Some(AskTicket {
                ask: AskRef {
                    asker: address(asker),
                    id: id_of_ask,
                },
                remaining_ms: 1_000,
                chain: AskChain::default(),
            }),
            payload: Payload::from(b"forged".as_slice()),
        };
        self.receive(from, to, Message::Singleton(SingletonMsg::Delivery(delivery)));
        self.settle();
    }

    /// The same of another singleton.
    pub(super) fn says_of(&mut self, from: usize, to: usize, singleton: SingletonId, body: SingletonBody) {
        self.says_about(from, to, (singleton, 1), body);
    }

    /// The highest term of any singleton that a node has promised.
    pub(super) fn promised(&self, at: usize, singleton: SingletonId) -> u64 {
        self.peers[at].singletons.promised(singleton)
    }

    fn says_about(
        &mut self,
        from: usize,
        to: usize,
        (singleton, epoch): (SingletonId, u64),
        body: SingletonBody,
    ) {
        let statement = SingletonStatement {
            singleton,
            to: address(to),
            epoch,
            body,
        };
        self.receive(from, to, Message::Singleton(SingletonMsg::Statement(statement)));
        self.settle();
    }

    pub(super) fn lease(&mut self, at: usize, outcome: LeaseOutcome) {
        let name = Arc::from("test-singleton-billing");
        let peer = &mut self.peers[at];
        let report = LeaseReport { name, outcome };
        peer.singletons.on_lease(&mut peer.fixture.cx(), &report);
        self.settle();
    }

    /// The instance of this node, which was told to, ends.
    pub(super) fn ends(&mut self, at: usize) {
        self.peers[at].host.slow_to_stop = false;
        self.fails(at);
    }

    /// The instance of this node ends.
    pub(super) fn fails(&mut self, at: usize) {
        let peer = &mut self.peers[at];
        let slot = peer.host.running.take().expect("it runs");
        let report = HostReport::Stopped { slot };
        peer.singletons.on_report(&mut peer.fixture.cx(), report);
        self.settle();
    }

    /// Where the instance of this node runs.
    pub(super) fn slot(&self, at: usize) -> Slot {
        self.peers[at].host.running.expect("it runs")
    }

    /// The host says that something has ended, which may be long ago.
    pub(super) fn reports_end(&mut self, at: usize, slot: Slot) {
        let peer = &mut self.peers[at];
        let report = HostReport::Stopped { slot };
        peer.singletons.on_report(&mut peer.fixture.cx(), report);
        self.settle();
    }

    /// The store of this node has a promise of an earlier life.
    pub(super) fn has_promised(&mut self, at: usize, term: u64) {
        let key = Arc::from(id().raw().to_be_bytes().as_slice());
        let promised = StoredPromise { term, to: None };
        let value = promised.to_bytes().unwrap();
        self.peers[at].host.store.insert(key, value);
    }

    /// What an operator does to all stores while no node runs.
    pub(super) fn lower_terms(&mut self, term: u64) {
        for peer in &mut self.peers {
            let StoreOrder::Read { key } = ask_promise("billing") else {
                panic!("a key")
            };
            let held = Ok(StoreAnswer::Value(peer.host.store.get(&key).cloned()));
            let Some(StoreOrder::Write { batch }) = lower_promise("billing", &held, term).unwrap() else {
                continue;
            };
            for change in batch {
                match change {
                    Change::Put { key, value } => drop(peer.host.store.insert(key, value)),
                    other => panic!("{other:?}"),
                }
            }
        }
    }

    /// What this node's instance writes to has refused its token.
    pub(super) fn token_refused(&mut self, at: usize, held: Token) -> Option<Answer> {
        let singleton = id();
        self.command(at, 0, SingletonCommand::TokenRefused { singleton, held });
        self.told(at)
    }

    pub(super) fn wipe_store(&mut self, at: usize) {
        self.peers[at].host.store.clear();
    }

    pub(super) fn host(&mut self, at: usize) -> &mut Host {
        &mut self.peers[at].host
    }

    pub(super) fn state(&self, at: usize) -> SingletonState {
        self.peers[at].singletons.state(id()).expect("registered")
    }

    /// Whether an explanation names it among what both sides of a partition would run.
    pub(super) fn may_run_twice(&self, at: usize) -> bool {
        self.peers[at].singletons.may_run_twice().next().is_some()
    }

    pub(super) fn phase(&self, at: usize) -> SingletonPhase {
        self.state(at).phase.expect("it hosts")
    }

    pub(super) fn token(&self, at: usize) -> Option<Token> {
        self.state(at).running
    }

    pub(super) fn stats(&self, at: usize) -> SingletonCounters {
        self.peers[at].fixture.stats.singleton
    }

    pub(super) fn said(&self, at: usize, what: impl Fn(&SingletonEvent) -> bool) -> usize {
        self.peers[at].events.iter().filter(|event| what(event)).count()
    }

    pub(super) fn rejected(&self, at: usize) -> usize {
        self.peers[at].rejected
    }

    pub(super) fn drained(&self, at: usize) -> bool {
        self.peers[at].drained
    }

    pub(super) fn starts(&self) -> usize {
        self.starts
    }

    /// Which node said such things to this one, and in which epoch.
    pub(super) fn heard_by(&self, at: usize, what: impl Fn(&SingletonBody) -> bool) -> Vec<(usize, u64)> {
        let heard = self.peers[at].heard.iter().filter(|(_, _, body)| what(body));
        heard.map(|(from, epoch, _)| (self.index(from), *epoch)).collect()
    }

    /// Live nodes on which an instance runs.
    pub(super) fn running(&self) -> Vec<usize> {
        let runs = |(at, peer): (usize, &Peer)| (peer.alive && peer.host.running.is_some()).then_some(at);
        self.peers.iter().enumerate().filter_map(runs).collect()
    }
}
