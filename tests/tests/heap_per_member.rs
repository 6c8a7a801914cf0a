//! What a node keeps for each member of a cluster of 1,000 and of 9,000, without its links: it is the oldest,
//! coordinates and hosts three kinds that all members host, decides about everybody's kinds, runs a
//! singleton, and has ten keys of replicated data, each with a write to a majority that waits. The heap is
//! measured, so the test is a program of its own. `docs/limits.md` has the bound.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use cap::Cap;
use quorate_core::admission::PeerProof;
use quorate_core::config::Config;
use quorate_core::ddata::crdt::{DataOp, DataType, DataValue, GCounterOp};
use quorate_core::ddata::state::consistency::Consistency;
use quorate_core::ddata::state::key::Key;
use quorate_core::effect::{Effect, Output};
use quorate_core::ident::{Address, ClusterName, Roles, UniqueAddress};
use quorate_core::input::Recipient;
use quorate_core::input::{
    Command, DdataCommand, Input, KindSettings, MembershipCommand, ShardingCommand, SingletonCommand,
    SingletonSettings,
};
use quorate_core::membership::app_version::AppVersion;
use quorate_core::membership::gossip::{Gossip, GossipParts};
use quorate_core::membership::member::{Member, Status, UpNumber};
use quorate_core::membership::member_set::MemberSet;
use quorate_core::membership::vector_clock::VectorClock;
use quorate_core::message::{GossipEnvelope, MembershipMsg, Message, ShardingMsg};
use quorate_core::node::Node;
use quorate_core::sharding::ids::{EntityId, KindId};
use quorate_core::sharding::protocol::ShardingBody;
use quorate_core::time::{Instant, Now};
use quorate_core::wire::{self, DecodedFrame};
use quorate_tests::sim::Purpose;
use rand_chacha::ChaCha8Rng;

#[global_allocator]
static HEAP: Cap<std::alloc::System> = Cap::new(std::alloc::System, usize::MAX);

const BYTES_PER_MEMBER_MAX: usize = 4 << 10;
const KINDS: [&str; 3] = ["orders", "carts", "users"];
const KEYS: usize = 10;
/// Of each kind: enough for each shard to have a home.
const ENTITIES: usize = 500;

struct World {
    nodes: BTreeMap<UniqueAddress, Node<ChaCha8Rng>>,
    under_way: Vec<(UniqueAddress, UniqueAddress, Message)>,
    /// What the second node told the first of its kinds.
    of_kinds: Vec<ShardingMsg>,
    millis: u64,
}

fn unique(name: &str) -> UniqueAddress {
    UniqueAddress::new(Address::new(name, 2_551).expect("legal"), 7)
}

fn oldest() -> UniqueAddress {
    unique("a-node")
}

fn second() -> UniqueAddress {
    unique("b-node")
}

impl World {
    /// Two nodes that host all this.
    fn new() -> Self {
        let mut world = Self {
            nodes: BTreeMap::new(),
            under_way: Vec::new(),
            of_kinds: Vec::new(),
            millis: 1_000,
        };
        for me in [oldest(), second()] {
            world.start(&me);
            world.run(5_000);
        }
        assert_eq!(world.up(), 2);
        world
    }

    fn now(&self) -> Now {
        Now {
            mono: Instant::from_millis(self.millis),
            unix_ms: 1_750_000_000_000 + self.millis,
        }
    }

    fn up(&self) -> usize {
        let members = self.nodes[&oldest()].view().members().iter();
        members.filter(|member| member.status == Status::Up).count()
    }

    fn start(&mut self, me: &UniqueAddress) {
        let config = Config::lan(ClusterName::new("test").expect("legal"));
        let config = config.validate().expect("legal");
        let node = Node::new(config, me.clone(), Purpose::Node(0).rng(1), self.now());
        self.nodes.insert(me.clone(), node);
        let join = MembershipCommand::Join(oldest().address().clone());
        self.command(me, Command::Membership(join));
        for kind in KINDS {
            let kind = ShardingCommand::RegisterKind(Box::new(KindSettings::new(kind, 300, true)));
            self.command(me, Command::Sharding(kind));
        }
        let singleton = SingletonCommand::Register(SingletonSettings {
            name: Arc::from("accounts"),
            role: None,
            hosts: true,
            lease: false,
            durable: false,
        });
        self.command(me, Command::Singleton(singleton));
    }

    fn command(&mut self, to: &UniqueAddress, command: Command) {
        self.handle(to, Input::Command { token: 1, command });
    }

    fn handle(&mut self, to: &UniqueAddress, input: Input<'_>) {
        let now = self.now();
        let Some(node) = self.nodes.get_mut(to) else {
            return;
        };
        node.handle(now, input);
        while let Output::Effect(effect) = node.poll() {
            let (Effect::Send { to: target, message } | Effect::Offer { to: target, message }) = effect
            else {
                continue;
            };
            for other in [oldest(), second()] {
                if *target.address() != *other.address() || other == *to {
                    continue;
                }
                if other == oldest()
                    && let Message::Sharding(message) = &message
                {
                    self.of_kinds.push(message.clone());
                }
                self.under_way.push((to.clone(), other, message.clone()));
            }
        }
    }

    fn hear(&mut self, from: &UniqueAddress, to: &UniqueAddress, message: &Message) {
        let Some(node) = self.nodes.get(to) else {
            return;
        };
        let limits = node.config().limits.clone();
        let mut bytes = Vec::new();
        wire::encode_message(message, 1, &limits, &mut bytes).expect("it fits");
        let DecodedFrame::Frame { frame, .. } = wire::decode_frame(&bytes, &limits) else {
            panic!("the frame is whole and legal");
        };
        let input = Input::Frame {
            from,
            proof: PeerProof::Nothing,
            lane: frame.lane,
            kind: frame.kind,
            body: frame.body,
        };
        self.handle(to, input);
    }

    fn run(&mut self, millis: u64) {
        for _ in 0..millis / 100 {
            for (from, to, message) in core::mem::take(&mut self.under_way) {
                self.hear(&from, &to, &message);
            }
            self.millis += 100;
            for me in [oldest(), second()] {
                self.handle(&me, Input::Tick);
            }
        }
    }

    /// The second node ends, without a word. What it said of its kinds stays.
    fn leave_the_oldest_alone(&mut self) {
        self.nodes.remove(&second());
        self.under_way = Vec::new();
        let mut last: BTreeMap<usize, ShardingMsg> = BTreeMap::new();
        for message in core::mem::take(&mut self.of_kinds) {
            if matches!(message, ShardingMsg::Registry(_)) {
                last.insert(0, message);
            } else if let ShardingMsg::Kind(said) = &message
                && matches!(said.body, ShardingBody::Register { .. })
            {
                let is_same = |(at, kind): &(usize, &str)| (KindId::of(kind) == said.kind).then_some(*at);
                let at = KINDS.iter().copied().enumerate().find_map(|kind| is_same(&kind));
                last.insert(1 + at.expect("one of these"), message);
            }
        }
        self.of_kinds = last.into_values().collect();
        assert_eq!(self.of_kinds.len(), 1 + KINDS.len());
    }

    /// So many members are there, and host what the second node hosts.
    fn grow_to(&mut self, count: usize) {
        let state = self.nodes[&oldest()].view().gossip();
        let mut members = state.members().to_vec();
        let newcomers: Vec<UniqueAddress> = (members.len()..count)
            .map(|index| unique(&format!("node-{index}.rack-{}.example", index % 40)))
            .collect();
        members.extend(newcomers.iter().enumerate().map(|(index, node)| Member {
            node: node.clone(),
            status: Status::Up,
            up_number: UpNumber::new(index as u32 + 3),
            roles: Roles::default(),
            app_version: AppVersion::default(),
        }));
        members.sort_by(|left, right| left.node.cmp(&right.node));
        let version = state.version().entries().iter().cloned();
        let version = version.map(|(node, counter)| {
            let more = u64::from(node == second());
            (node, counter + more)
        });
        // A tenth of them has changed the state.
        let entries = version.chain(newcomers.iter().step_by(10).map(|node| (node.clone(), 5)));
        let gossip = Gossip::from_parts(GossipParts {
            members,
            reachability: state.reachability().clone(),
            version: VectorClock::from_entries(entries.collect()).expect("each once"),
            seen: (0..count).collect::<MemberSet>(),
            tombstones: state.tombstones().clone(),
            paths: Arc::default(),
        });
        let envelope = GossipEnvelope {
            to: oldest(),
            gossip: Arc::new(gossip.expect("well formed")).into(),
        };
        self.hear(
            &second(),
            &oldest(),
            &Message::Membership(MembershipMsg::Gossip(envelope)),
        );
        assert_eq!(self.up(), count);
        for message in self.of_kinds.clone() {
            for node in &newcomers {
                self.hear(node, &oldest(), &Message::Sharding(message.clone()));
            }
        }
    }

    /// Entities of all kinds are asked for, wherever they are, and each key is written.
    fn is_used(&mut self) {
        for kind in KINDS {
            for entity in 0..ENTITIES {
                let input = Input::Tell {
                    to: Recipient::Entity(
                        KindId::of(kind),
                        EntityId::from(format!("entity-{entity}").as_str()),
                    ),
                    payload: [7_u8; 32].into(),
                };
                self.handle(&oldest(), input);
            }
        }
        for key in 0..KEYS {
            let update = DdataCommand::Update {
                key: Key::new(&format!("key-{key}")).expect("legal"),
                initial: DataValue::empty(DataType::GCounter).expect("it has one"),
                op: DataOp::GCounter(GCounterOp::Increment(1)),
                consistency: Consistency::Majority,
                timeout: Duration::from_secs(60),
            };
            self.command(&oldest(), Command::Ddata(update));
        }
    }
}

/// Bytes of the oldest node in a cluster of so many.
fn heap_of(count: usize) -> usize {
    let before = HEAP.allocated();
    let mut world = World::new();
    world.leave_the_oldest_alone();
    world.grow_to(count);
    world.is_used();
    // Its heartbeats are not answered here, and are not missed yet.
    world.run(2_000);
    let (used, of_kinds) = (HEAP.allocated() - before, world.of_kinds.len());
    assert_eq!((world.up(), of_kinds), (count, 4));
    used
}

#[test]
fn a_node_keeps_at_most_four_kib_for_each_of_a_thousand_and_of_nine_thousand_members() {
    let alone = heap_of(2);
    for count in [1_000, 9_000] {
        let each = heap_of(count).saturating_sub(alone) / (count - 2);
        println!(
            "{count} members: {each} bytes for each; with one other {} KiB",
            alone >> 10
        );
        assert!(each <= BYTES_PER_MEMBER_MAX, "{count} members: {each} bytes each");
    }
}
