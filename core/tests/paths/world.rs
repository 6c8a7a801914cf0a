//! Nodes, links and instances in virtual time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use quorate_core::admission::PeerProof;
use quorate_core::config::Config;
use quorate_core::effect::{Answer, CommandError, Effect, HaltReason, HostOrder, Output};
use quorate_core::event::{Event, PathEvent};
use quorate_core::ident::{Address, ClusterName, Role, UniqueAddress};
use quorate_core::input::{
    Command, DropReason, HostReport, Input, LinkEvent, LoadMeasure, MembershipCommand, MessageCommand,
    PathCommand, Recipient, SendTarget,
};
use quorate_core::membership::member::Status;
use quorate_core::message::{Lane, Message};
use quorate_core::messaging::protocol::HostedInstance;
use quorate_core::node::Node;
use quorate_core::owner::Requester;
use quorate_core::paths::protocol::PathPick;
use quorate_core::paths::state::name::{PathId, PathName};
use quorate_core::paths::state::settings::PathSettings;
use quorate_core::sharding::chain::AskChain;
use quorate_core::sharding::ids::Slot;
use quorate_core::time::{Instant, Now};
use quorate_core::token::Token;
use quorate_core::wire::{DecodedFrame, Encoder, decode_frame};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use crate::parts::Parts;

/// A message of a test: who sent it, and its number for its slot.
pub(crate) type Sent = (usize, u64);

/// An instance that runs.
struct Instance {
    path: PathId,
    slot: u16,
    token: Token,
    /// The last number of each sender.
    seen: Vec<u64>,
    had_state: bool,
    /// What it has not handled yet, and whether it stops then (and says its state).
    mailbox: VecDeque<(Vec<u8>, Option<quorate_core::sharding::ids::AskRef>)>,
    stops: Option<bool>,
}

/// One message handled.
#[derive(Clone, Debug)]
pub(crate) struct Handled {
    pub(crate) path: PathId,
    pub(crate) slot: u16,
    pub(crate) by: usize,
    pub(crate) token: Token,
    pub(crate) sent: Sent,
    pub(crate) at: Instant,
}

pub(crate) struct WorldHost {
    pub(crate) node: Node<ChaCha8Rng>,
    encoder: Encoder,
    inputs: VecDeque<Input<'static>>,
    instances: BTreeMap<Slot, Instance>,
    pub(crate) answers: BTreeMap<u64, Answer>,
    pub(crate) events: Vec<PathEvent>,
    wake: Option<Instant>,
    pub(crate) end: Option<HaltReason>,
    pub(crate) crashed: bool,
}

/// What a link carries together.
pub(crate) fn link_of(lane: Lane) -> u8 {
    match lane {
        Lane::Control | Lane::Gossip | Lane::Reply => 0,
        Lane::User => 1,
        Lane::Bulk => 2,
    }
}

struct Flight {
    at: Instant,
    bytes: Vec<u8>,
}

pub(crate) struct World {
    pub(crate) now: Now,
    pub(crate) hosts: Vec<WorldHost>,
    flights: BTreeMap<(usize, usize, u8), VecDeque<Flight>>,
    pub(crate) rng: ChaCha8Rng,
    tokens: u64,
    numbers: BTreeMap<(usize, PathId, u16), u64>,
    pub(crate) handled: Vec<Handled>,
    /// Tokens of asks: what was sent to which slot.
    pub(crate) asks: BTreeMap<(usize, u64), (PathId, u16, Sent)>,
    latency_max: u64,
    /// Nodes whose instances take their time to start, and what these have not said.
    pub(crate) slow: BTreeSet<usize>,
    starting: Vec<(usize, Slot)>,
    /// Links on which nothing arrives for now; see `link_of`.
    pub(crate) clogged: BTreeSet<(usize, usize, u8)>,
    /// Nodes whose instances handle nothing.
    pub(crate) busy: BTreeSet<usize>,
    /// What goes over of states.
    pub(crate) parts: Parts,
    change: fn(&mut Config),
}

impl World {
    pub(crate) fn new(nodes: usize, seed: u64) -> Self {
        Self::with(nodes, seed, |_| {})
    }

    pub(crate) fn with(nodes: usize, seed: u64, change: fn(&mut Config)) -> Self {
        let mut world = Self {
            now: Now {
                mono: Instant::from_millis(1_000),
                unix_ms: 1_750_000_000_000,
            },
            hosts: Vec::new(),
            flights: BTreeMap::new(),
            rng: ChaCha8Rng::seed_from_u64(seed),
            tokens: 0,
            numbers: BTreeMap::new(),
            handled: Vec::new(),
            asks: BTreeMap::new(),
            latency_max: 20_000,
            slow: BTreeSet::new(),
            starting: Vec::new(),
            clogged: BTreeSet::new(),
            busy: BTreeSet::new(),
            parts: Parts::default(),
            change,
        };
        for _ in 0..nodes {
            world.add();
        }
        world.run_until(Duration::from_secs(60), |world| world.is_formed(nodes));
        world
    }

    /// One more node, which joins the first.
    pub(crate) fn add(&mut self) -> usize {
        let at = self.hosts.len();
        let me = UniqueAddress::new(
            Address::new(&format!("n{at}"), 7355).unwrap(),
            4 * (at as u64 + 1),
        );
        let mut config = Config::fast(ClusterName::new("paths").unwrap());
        config.roles = vec![Role::new("worker").unwrap()];
        (self.change)(&mut config);
        let node = Node::new(
            config.validate().unwrap(),
            me,
            ChaCha8Rng::seed_from_u64(at as u64 + 77),
            self.now,
        );
        self.hosts.push(WorldHost {
            node,
            encoder: Encoder::new(),
            inputs: VecDeque::new(),
            instances: BTreeMap::new(),
            answers: BTreeMap::new(),
            events: Vec::new(),
            wake: None,
            end: None,
            crashed: false,
        });
        let seed = self.hosts[0].node.me().address().clone();
        self.command(at, Command::Membership(MembershipCommand::Join(seed)));
        at
    }

    pub(crate) fn is_formed(&self, nodes: usize) -> bool {
        self.live().all(|host| {
            let view = host.node.view();
            view.is_converged() && view.members_in(Status::Up).count() == nodes
        })
    }

    fn live(&self) -> impl Iterator<Item = &WorldHost> {
        self.hosts
            .iter()
            .filter(|host| !host.crashed && host.end.is_none())
    }

    pub(crate) fn is_live(&self, at: usize) -> bool {
        !self.hosts[at].crashed && self.hosts[at].end.is_none()
    }

    pub(crate) fn address(&self, at: usize) -> UniqueAddress {
        self.hosts[at].node.me().clone()
    }

    pub(crate) fn command(&mut self, at: usize, command: Command) -> u64 {
        self.tokens += 1;
        let token = self.tokens;
        self.hosts[at]
            .node
            .handle(self.now, Input::Command { token, command });
        self.work(at);
        token
    }

    /// All nodes register a path; the first is waited for.
    pub(crate) fn register(&mut self, settings: &PathSettings) {
        let mut tokens = Vec::new();
        for at in 0..self.hosts.len() {
            if self.is_live(at) {
                let settings = settings.clone();
                let command = PathCommand::Register {
                    settings,
                    hosts: true,
                };
                tokens.push((at, self.command(at, Command::Path(command))));
            }
        }
        self.run_until(Duration::from_secs(60), |world| {
            let is_done =
                |(at, token): &(usize, u64)| world.hosts[*at].answers.get(token) == Some(&Answer::Done);
            tokens.iter().all(is_done)
        });
    }

    /// What a node is told of a command about paths.
    pub(crate) fn told(&mut self, at: usize, command: PathCommand) -> Result<(), CommandError> {
        let token = self.command(at, Command::Path(command));
        self.run_until(Duration::from_secs(60), |world| {
            world.hosts[at].answers.contains_key(&token)
        });
        match self.hosts[at].answers.remove(&token) {
            Some(Answer::Done) => Ok(()),
            Some(Answer::Refused(error)) => Err(error),
            other => panic!("{other:?}"),
        }
    }

    /// Who runs each slot of a path, as the members' tables say.
    pub(crate) fn hosts_of(&self, name: &PathName) -> Vec<Option<UniqueAddress>> {
        let host = self.live().next().unwrap();
        let table = host.node.view().gossip().paths();
        let entry = table.get(name);
        entry.map_or(Vec::new(), |entry| {
            (0..entry.slots())
                .map(|slot| entry.target(slot).cloned())
                .collect()
        })
    }

    /// The epoch of the last move of a path's first slot.
    pub(crate) fn token_of(&self, name: &PathName) -> u64 {
        let table = self.live().next().unwrap().node.view().gossip().paths();
        let change = table.get(name).and_then(|entry| entry.last_move(0));
        change.map_or(0, |change| change.id.counter)
    }

    /// Whether nothing moves, and every live node's table says so.
    pub(crate) fn is_quiet(&self) -> bool {
        self.live().all(|host| {
            let view = host.node.view();
            let entries = view.gossip().paths().entries();
            let moves = entries.iter().flat_map(|entry| entry.moves.iter().flatten());
            view.is_converged() && moves.into_iter().all(|change| !change.is_pending())
        })
    }

    /// Whether an instance of a path runs on a node with what an earlier one left.
    pub(crate) fn has_state(&self, at: usize, name: &PathName) -> bool {
        let of_path = |instance: &&Instance| instance.path == name.id();
        let mut instances = self.hosts[at].instances.values().filter(of_path);
        instances.any(|instance| instance.had_state)
    }

    pub(crate) fn running(&self, name: &PathName) -> usize {
        let id = name.id();
        let instances = self.live().flat_map(|host| host.instances.values());
        instances.filter(|instance| instance.path == id).count()
    }

    pub(crate) fn runs_at(&self, at: usize, name: &PathName) -> bool {
        let mut instances = self.hosts[at].instances.values();
        instances.any(|instance| instance.path == name.id())
    }

    /// Asks one slot; the answer is looked for at the end.
    pub(crate) fn ask(&mut self, at: usize, path: PathId, slot: u16) {
        let number = self.numbers.entry((at, path, slot)).or_insert(0);
        *number += 1;
        let sent = (at, *number);
        let mut payload = vec![at as u8];
        payload.extend(sent.1.to_le_bytes());
        let token = self.command(
            at,
            Command::Message(MessageCommand::Ask {
                to: Recipient::Path(path, PathPick::Slot(slot)),
                payload: payload.into(),
                timeout: Duration::from_secs(20),
                chain: AskChain::default(),
            }),
        );
        self.asks.insert((at, token), (path, slot, sent));
    }

    /// A message to one slot for which nobody waits.
    pub(crate) fn tell(&mut self, at: usize, path: PathId, slot: u16) {
        let to = Recipient::Path(path, PathPick::Slot(slot));
        let payload = vec![15; 9].into();
        self.input(at, Input::Tell { to, payload });
    }

    /// What was slow to start runs now.
    pub(crate) fn say_running(&mut self) {
        for (at, slot) in std::mem::take(&mut self.starting) {
            if self.is_live(at) && self.hosts[at].instances.contains_key(&slot) {
                self.input(at, Input::Host(Requester::Path, HostReport::Running { slot }));
            }
        }
    }

    pub(crate) fn crash(&mut self, at: usize) {
        self.hosts[at].crashed = true;
        self.hosts[at].instances.clear();
        for ((from, to, _), queue) in &mut self.flights {
            if *from == at || *to == at {
                queue.clear();
            }
        }
    }

    pub(crate) fn leave(&mut self, at: usize) {
        self.command(at, Command::Membership(MembershipCommand::Leave));
    }

    /// What is on the way from one to the other over the link of users' messages is lost.
    pub(crate) fn reset(&mut self, from: usize, to: usize) {
        self.flights.remove(&(from, to, 1));
        let peer = self.address(to);
        if self.is_live(from) {
            self.input(from, Input::Link(LinkEvent::Down { peer }));
        }
    }

    /// A node's host says how loaded it is.
    pub(crate) fn measure(&mut self, at: usize, measure: LoadMeasure) {
        if self.is_live(at) {
            self.input(at, Input::Load(measure));
        }
    }

    fn input(&mut self, at: usize, input: Input<'static>) {
        self.hosts[at].node.handle(self.now, input);
        self.work(at);
    }

    fn send(&mut self, from: usize, to: SendTarget, message: Message) {
        let is_meant = |node: &UniqueAddress| match &to {
            SendTarget::Address(address) => node.address() == address,
            SendTarget::Node(wanted) => node == wanted,
        };
        let found = (0..self.hosts.len()).find(|at| self.is_live(*at) && is_meant(self.hosts[*at].node.me()));
        let Some(found) = found else {
            let reason = DropReason::Unreachable;
            let dropped = LinkEvent::Dropped { to, message, reason };
            return self.hosts[from].inputs.push_back(Input::Link(dropped));
        };
        if self.parts.loses(&message) {
            return;
        }
        let sender = &mut self.hosts[from];
        let mut bytes = Vec::new();
        let lane = message.tag().lane;
        sender
            .encoder
            .encode(&message, 1, &sender.node.config().limits, &mut bytes)
            .unwrap();
        let queue = self.flights.entry((from, found, link_of(lane))).or_default();
        let after = queue
            .back()
            .map_or(self.now.mono, |last| last.at)
            .max(self.now.mono);
        let delay = self.rng.next_u64() % self.latency_max + 100;
        let at = Instant::from_micros(after.as_micros().max(self.now.mono.as_micros() + delay));
        queue.push_back(Flight { at, bytes });
    }

    /// A node hears a message, whoever wrote it.
    pub(crate) fn hear(&mut self, from: usize, to: usize, message: &Message) {
        let limits = self.hosts[to].node.config().limits.clone();
        let mut bytes = Vec::new();
        Encoder::new().encode(message, 1, &limits, &mut bytes).unwrap();
        self.read(from, to, &bytes);
    }

    /// A node reads a frame.
    fn read(&mut self, from: usize, to: usize, bytes: &[u8]) {
        let from = self.address(from);
        let host = &mut self.hosts[to];
        let limits = host.node.config().limits.clone();
        let DecodedFrame::Frame { frame, .. } = decode_frame(bytes, &limits) else {
            panic!("a whole frame");
        };
        host.node.handle(
            self.now,
            Input::Frame {
                from: &from,
                proof: PeerProof::Nothing,
                lane: frame.lane,
                kind: frame.kind,
                body: frame.body,
            },
        );
        self.work(to);
    }

    fn obey(&mut self, at: usize, order: HostOrder) {
        let host = &mut self.hosts[at];
        match order {
            HostOrder::Start { slot, instance } => {
                let HostedInstance::Path {
                    path,
                    slot: number,
                    token,
                    state,
                } = instance
                else {
                    return;
                };
                let had_state = state.is_some();
                let seen = match state {
                    Some(state) => state
                        .chunks(8)
                        .map(|chunk| u64::from_le_bytes(chunk.try_into().unwrap()))
                        .collect(),
                    None => vec![0; 16],
                };
                host.instances.insert(
                    slot,
                    Instance {
                        path,
                        slot: number,
                        token,
                        seen,
                        had_state,
                        mailbox: VecDeque::new(),
                        stops: None,
                    },
                );
                if self.slow.contains(&at) {
                    return self.starting.push((at, slot));
                }
                let report = HostReport::Running { slot };
                host.inputs.push_back(Input::Host(Requester::Path, report));
            }
            HostOrder::Deliver {
                slot,
                payload,
                reply_to,
                ..
            } => {
                if let Some(instance) = host.instances.get_mut(&slot) {
                    instance.mailbox.push_back((payload.into_vec(), reply_to));
                }
            }
            HostOrder::Stop { slot } => {
                if let Some(instance) = host.instances.get_mut(&slot) {
                    instance.stops = Some(false);
                }
            }
            HostOrder::StopWithState { slot } => {
                if let Some(instance) = host.instances.get_mut(&slot) {
                    instance.stops = Some(true);
                }
            }
            HostOrder::Kill { slot } => {
                if host.instances.remove(&slot).is_some() {
                    let report = HostReport::Stopped { slot };
                    host.inputs.push_back(Input::Host(Requester::Path, report));
                }
            }
        }
    }

    /// Instances of a node handle one message each, some of the time.
    fn let_instances_work(&mut self, at: usize) {
        let slots: Vec<Slot> = self.hosts[at].instances.keys().copied().collect();
        for slot in slots {
            let lazy = self.rng.next_u64().is_multiple_of(3) || self.busy.contains(&at);
            let host = &mut self.hosts[at];
            let Some(instance) = host.instances.get_mut(&slot) else {
                continue;
            };
            if lazy {
                continue;
            }
            if let Some((payload, reply_to)) = instance.mailbox.pop_front() {
                let sender = usize::from(payload[0]);
                let number = u64::from_le_bytes(payload[1..9].try_into().unwrap());
                instance.seen[sender] = number;
                self.handled.push(Handled {
                    path: instance.path,
                    slot: instance.slot,
                    by: at,
                    token: instance.token,
                    sent: (sender, number),
                    at: self.now.mono,
                });
                if let Some(ask) = reply_to {
                    let result = Ok(payload.into());
                    let report = HostReport::Answered { ask, result };
                    host.inputs.push_back(Input::Host(Requester::Path, report));
                }
            } else if let Some(with_state) = instance.stops {
                if with_state {
                    let mut state: Vec<u8> = instance.seen.iter().flat_map(|n| n.to_le_bytes()).collect();
                    state.resize(state.len().max(self.parts.state_bytes), 0);
                    let state = state.into();
                    let report = HostReport::State { slot, state };
                    host.inputs.push_back(Input::Host(Requester::Path, report));
                }
                host.instances.remove(&slot);
                let report = HostReport::Stopped { slot };
                host.inputs.push_back(Input::Host(Requester::Path, report));
            }
        }
        self.work(at);
    }

    /// Does all that a node wants, until it sleeps.
    fn work(&mut self, at: usize) {
        if !self.is_live(at) {
            return;
        }
        loop {
            self.hosts[at].node.check_invariants().unwrap();
            match self.hosts[at].node.poll() {
                Output::Effect(Effect::Send { to, message } | Effect::Offer { to, message }) => {
                    self.send(at, to, message);
                }
                Output::Effect(Effect::Reply { token, answer }) => {
                    self.hosts[at].answers.insert(token, answer);
                }
                Output::Effect(Effect::Host(_, order)) => self.obey(at, order),
                Output::Effect(Effect::Store(owner, request)) => {
                    let input = Input::Stored(owner, request.without_a_store());
                    self.hosts[at].inputs.push_back(input);
                }
                Output::Effect(Effect::Halt(reason)) => {
                    self.hosts[at].end = Some(reason);
                    return;
                }
                Output::Effect(Effect::Notify(Event::Path { event, .. })) => {
                    self.hosts[at].events.push(event);
                }
                Output::Effect(
                    Effect::Notify(_) | Effect::Lease(..) | Effect::Allocate(_) | Effect::Quarantine(_),
                ) => {}
                Output::Sleep(wake) => match self.hosts[at].inputs.pop_front() {
                    Some(input) => self.hosts[at].node.handle(self.now, input),
                    None => {
                        self.hosts[at].wake = wake.map(|wake| wake.at);
                        return;
                    }
                },
            }
        }
    }

    /// The next thing that happens; instances work in between.
    pub(crate) fn step(&mut self) {
        let flights = self
            .flights
            .iter()
            .filter(|(link, _)| !self.clogged.contains(link))
            .filter_map(|(key, queue)| Some((queue.front()?.at, *key)));
        let flight = flights.min();
        let wakes = (0..self.hosts.len()).filter(|at| self.is_live(*at));
        let wake = wakes.filter_map(|at| Some((self.hosts[at].wake?, at))).min();
        let idle = Instant::from_micros(self.now.mono.as_micros() + 2_000);
        let next = [flight.map(|f| f.0), wake.map(|w| w.0), Some(idle)];
        let next = next.into_iter().flatten().min().unwrap().max(self.now.mono);
        self.now.mono = next;
        if let Some((at, key)) = flight
            && at <= next
        {
            let bytes = self.flights.get_mut(&key).unwrap().pop_front().unwrap().bytes;
            if self.is_live(key.1) {
                self.read(key.0, key.1, &bytes);
            }
        } else if let Some((at, node)) = wake
            && at <= next
        {
            self.input(node, Input::Tick);
        } else {
            for at in 0..self.hosts.len() {
                if self.is_live(at) {
                    self.let_instances_work(at);
                }
            }
        }
    }

    pub(crate) fn run_for(&mut self, time: Duration) {
        let end = self.now.mono + time;
        while self.now.mono < end {
            self.step();
        }
    }

    /// Runs until it is so, at most for this time.
    pub(crate) fn run_until(&mut self, time: Duration, is_so: impl Fn(&Self) -> bool) {
        let end = self.now.mono + time;
        while !is_so(self) {
            if self.now.mono >= end {
                for host in self.live() {
                    let table = host.node.view().gossip().paths();
                    eprintln!("{}: {:?}", host.node.me(), host.node.explain());
                    eprintln!("{:?} {:#?}", host.node.paths().explain(), table.entries());
                }
                panic!("not so after {time:?}");
            }
            self.step();
        }
    }

    /// Whether an ask was answered, and how.
    pub(crate) fn outcome(&self, at: usize, token: u64) -> Option<&Answer> {
        self.hosts[at].answers.get(&token)
    }

    pub(crate) fn live_nodes(&self) -> BTreeSet<usize> {
        (0..self.hosts.len()).filter(|at| self.is_live(*at)).collect()
    }
}
