//! A first host, written from `docs/embedding.md` and the reference alone: three nodes in one program,
//! connected by queues in memory, on a clock that is a number. They form a cluster, count in entities,
//! answer
//! each other's asks, and one of them leaves.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::error::Error;
use std::time::Duration;

use quorate_core::admission::PeerProof;
use quorate_core::config::Config;
use quorate_core::effect::{Answer, Effect, HaltReason, HostOrder, Output};
use quorate_core::ident::{Address, ClusterName, UniqueAddress};
use quorate_core::input::{
    Command, DropReason, HostReport, Input, KindSettings, LinkEvent, MembershipCommand, MessageCommand,
    Recipient, SendTarget, ShardingCommand,
};
use quorate_core::message::Message;
use quorate_core::node::Node;
use quorate_core::owner::Requester;
use quorate_core::sharding::chain::AskChain;
use quorate_core::sharding::ids::{EntityId, KindId, Slot};
use quorate_core::time::{Instant, Now};
use quorate_core::wire::{DecodedFrame, Encoder, decode_frame};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

const KIND: &str = "counter";
/// How long a frame is under way, and what is written for the epoch of the only link that there ever is.
const LATENCY_MICROS: u64 = 500;
const EPOCH: u32 = 1;

/// A node, what runs on it, and what it was answered.
struct Host {
    node: Node<ChaCha8Rng>,
    encoder: Encoder,
    inputs: VecDeque<Input<'static>>,
    counters: BTreeMap<Slot, u8>,
    answers: BTreeMap<u64, Answer>,
    wake: Option<Instant>,
    end: Option<HaltReason>,
}

/// Bytes on their way: when they arrive, from whom, and to which host.
struct Flight {
    at: Instant,
    from: UniqueAddress,
    to: usize,
    bytes: Vec<u8>,
}

struct World {
    now: Now,
    hosts: Vec<Host>,
    flights: VecDeque<Flight>,
    tokens: u64,
}

impl Host {
    fn new(number: u16, now: Now) -> Result<Self, Box<dyn Error>> {
        let me = UniqueAddress::new(Address::new("board", number)?, u64::from(number));
        let config = Config::fast(ClusterName::new("first")?).validate()?;
        Ok(Self {
            node: Node::new(config, me, ChaCha8Rng::seed_from_u64(u64::from(number)), now),
            encoder: Encoder::new(),
            inputs: VecDeque::new(),
            counters: BTreeMap::new(),
            answers: BTreeMap::new(),
            wake: None,
            end: None,
        })
    }

    /// An entity counts its messages, and answers with the count and the number of its node.
    fn obey(&mut self, order: HostOrder) {
        let report = match order {
            HostOrder::Start { slot, .. } => {
                self.counters.insert(slot, 0);
                return;
            }
            HostOrder::Deliver { slot, reply_to, .. } => {
                let count = self.counters.get_mut(&slot).unwrap();
                *count += 1;
                let Some(ask) = reply_to else { return };
                let node = self.node.me().uid() as u8;
                HostReport::Answered {
                    ask,
                    result: Ok([*count, node].into()),
                }
            }
            HostOrder::Stop { slot } | HostOrder::StopWithState { slot } | HostOrder::Kill { slot } => {
                self.counters.remove(&slot);
                HostReport::Stopped { slot }
            }
        };
        self.inputs.push_back(Input::Host(Requester::Sharding, report));
    }
}

impl World {
    /// Puts a message on the way, or hands it back.
    fn send(&mut self, from: usize, to: SendTarget, message: Message) {
        let is_meant = |host: &UniqueAddress| match &to {
            SendTarget::Address(address) => host.address() == address,
            SendTarget::Node(node) => host == node, // this incarnation and no other
        };
        let is_there = |host: &Host| host.end.is_none() && is_meant(host.node.me());
        let found = self.hosts.iter().position(is_there);
        let sender = &mut self.hosts[from];
        let Some(found) = found else {
            let reason = DropReason::Unreachable;
            let dropped = LinkEvent::Dropped { to, message, reason };
            return sender.inputs.push_back(Input::Link(dropped));
        };
        let (limits, mut bytes) = (&sender.node.config().limits, Vec::new());
        let encoded = sender.encoder.encode(&message, EPOCH, limits, &mut bytes);
        encoded.unwrap();
        let at = Instant::from_micros(self.now.mono.as_micros() + LATENCY_MICROS);
        self.flights.push_back(Flight {
            at,
            from: sender.node.me().clone(),
            to: found,
            bytes,
        });
    }

    /// Does all that a node wants, until it sleeps.
    fn work(&mut self, at: usize) {
        loop {
            match self.hosts[at].node.poll() {
                Output::Effect(Effect::Send { to, message } | Effect::Offer { to, message }) => {
                    self.send(at, to, message);
                }
                Output::Effect(Effect::Reply { token, answer }) => {
                    self.hosts[at].answers.insert(token, answer);
                }
                Output::Effect(Effect::Host(_, order)) => self.hosts[at].obey(order),
                Output::Effect(Effect::Store(owner, request)) => {
                    self.hosts[at]
                        .inputs
                        .push_back(Input::Stored(owner, request.without_a_store()));
                }
                Output::Effect(Effect::Halt(reason)) => self.end(at, reason),
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

    /// A node has ended: the others find its links down.
    fn end(&mut self, at: usize, reason: HaltReason) {
        self.hosts[at].end = Some(reason);
        let peer = self.hosts[at].node.me().clone();
        for host in self.hosts.iter_mut().filter(|host| host.end.is_none()) {
            host.inputs
                .push_back(Input::Link(LinkEvent::Down { peer: peer.clone() }));
        }
    }

    /// Lets time pass until something is so, at most for half a minute of virtual time.
    fn until(&mut self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let limit = Instant::from_micros(self.now.mono.as_micros() + 30_000_000);
        loop {
            for at in 0..self.hosts.len() {
                self.work(at);
            }
            if is_so(self) {
                return;
            }
            let wakes = self.hosts.iter().filter_map(|host| host.wake);
            let next = wakes
                .chain(self.flights.front().map(|flight| flight.at))
                .min()
                .unwrap();
            self.now.mono = next.max(self.now.mono);
            assert!(self.now.mono < limit, "not so in time: {what}");
            while self
                .flights
                .front()
                .is_some_and(|flight| flight.at <= self.now.mono)
            {
                let flight = self.flights.pop_front().unwrap();
                self.arrive(&flight);
            }
            for at in 0..self.hosts.len() {
                if self.hosts[at].wake.is_some_and(|wake| wake <= self.now.mono) {
                    self.hosts[at].node.handle(self.now, Input::Tick);
                    self.work(at);
                }
            }
        }
    }

    fn arrive(&mut self, flight: &Flight) {
        let host = &mut self.hosts[flight.to];
        let decoded = decode_frame(&flight.bytes, &host.node.config().limits);
        let DecodedFrame::Frame { frame, .. } = decoded else {
            panic!("no frame")
        };
        let (from, proof) = (&flight.from, PeerProof::Nothing);
        let input = Input::Frame {
            from,
            proof,
            lane: frame.lane,
            kind: frame.kind,
            body: frame.body,
        };
        host.node.handle(self.now, input);
        self.work(flight.to);
    }

    fn command(&mut self, at: usize, command: Command) -> u64 {
        self.tokens += 1;
        self.hosts[at].inputs.push_back(Input::Command {
            token: self.tokens,
            command,
        });
        self.tokens
    }

    /// Asks an entity from a node: its count, and the number of the node that it is on.
    fn ask(&mut self, at: usize, entity: &str) -> (u8, u8) {
        let to = Recipient::Entity(KindId::of(KIND), EntityId::new(entity.as_bytes()));
        let ask = MessageCommand::Ask {
            to,
            payload: [].into(),
            timeout: Duration::from_secs(5),
            chain: AskChain::default(), // asked from outside of all handlers
        };
        let token = self.command(at, Command::Message(ask));
        self.until("an answer", |world| world.hosts[at].answers.contains_key(&token));
        let Some(Answer::Asked(Ok(answer))) = self.hosts[at].answers.remove(&token) else {
            panic!("no answer")
        };
        (answer[0], answer[1])
    }
}

#[test]
fn three_nodes_count_and_one_leaves() -> Result<(), Box<dyn Error>> {
    let now = Now::default();
    let hosts = (1..=3)
        .map(|number| Host::new(number, now))
        .collect::<Result<_, _>>()?;
    let mut world = World {
        now,
        hosts,
        flights: VecDeque::new(),
        tokens: 0,
    };
    for at in 0..3 {
        let kind = KindSettings::new(KIND, 12, true);
        world.command(
            at,
            Command::Sharding(ShardingCommand::RegisterKind(Box::new(kind))),
        );
        world.command(
            at,
            Command::Membership(MembershipCommand::Join(Address::new("board", 1)?)),
        );
    }
    let members = |world: &World, at: usize| world.hosts[at].node.view().members().len();
    world.until("three members", |world| (0..3).all(|at| members(world, at) == 3));

    let names: Vec<String> = (0..24).map(|number| format!("counter {number}")).collect();
    let first: Vec<_> = names
        .iter()
        .enumerate()
        .map(|(index, name)| world.ask(index % 3, name))
        .collect();
    assert!(first.iter().all(|(count, _)| *count == 1));
    assert_eq!(
        first.iter().map(|(_, node)| *node).collect::<BTreeSet<_>>(),
        BTreeSet::from([1, 2, 3])
    );

    world.command(0, Command::Membership(MembershipCommand::Leave));
    world.until("two members", |world| {
        world.hosts[0].end.is_some() && (1..3).all(|at| members(world, at) == 2)
    });
    assert_eq!(world.hosts[0].end, Some(HaltReason::Left));
    assert!(world.hosts[0].counters.is_empty(), "what it hosted has stopped");
    for (index, (name, (_, node))) in names.iter().zip(first).enumerate() {
        let (count, now_on) = world.ask(1 + index % 2, name);
        assert_eq!(
            count,
            if node == now_on { 2 } else { 1 },
            "{name}: state is in memory"
        );
        assert!(
            now_on == node || (node == 1 && now_on != 1),
            "{name} has moved from {node} to {now_on}"
        );
    }
    for host in &world.hosts {
        host.node.check_invariants()?;
    }
    Ok(())
}
