//! One state of a lying member that names nine thousand more, into a node that hosts a kind: it costs
//! megabytes, then and for as long as they are silent, are downed and are removed. The heap is measured, so
//! the test is a program of its own. Spec: membership 8.9, reliability 3b; `SECURITY.md` ("Forged state").

use std::sync::Arc;

use cap::Cap;
use quorate_core::admission::PeerProof;
use quorate_core::config::Config;
use quorate_core::effect::Output;
use quorate_core::ident::{Address, ClusterName, Roles, UniqueAddress};
use quorate_core::input::{Command, Input, KindSettings, MembershipCommand, ShardingCommand};
use quorate_core::membership::app_version::AppVersion;
use quorate_core::membership::gossip::{Gossip, GossipParts};
use quorate_core::membership::member::{Member, Status, UpNumber};
use quorate_core::membership::member_set::MemberSet;
use quorate_core::membership::reachability::Reachability;
use quorate_core::membership::vector_clock::VectorClock;
use quorate_core::message::{GossipEnvelope, Join, MembershipMsg, Message};
use quorate_core::node::Node;
use quorate_core::ordered::OrderedSet;
use quorate_core::time::{Instant, Now};
use quorate_core::wire::{self, DecodedFrame};
use quorate_tests::sim::Purpose;
use rand_chacha::ChaCha8Rng;

#[global_allocator]
static HEAP: Cap<std::alloc::System> = Cap::new(std::alloc::System, usize::MAX);

const FORGED: usize = 9_000;
/// What a node may take for them at any time, with all effects of an input that its host has not taken yet.
const BYTES_MAX: usize = 24 << 20;
/// Here the test ends at once: a list for each of them would not fit into the machine.
const BYTES_MAX_EVER: usize = 256 << 20;
/// Virtual seconds: they are found silent, the resolver decides, and what is removed is forgotten by the
/// machines.
const SECONDS: u64 = 60;

/// Where the forged members say that they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    /// Each at an address of its own.
    Anywhere,
    /// All of them at the address of the node that is lied to.
    Mine,
}

struct Victim {
    node: Node<ChaCha8Rng>,
    me: UniqueAddress,
    millis: u64,
    heap_before: usize,
    heap_max: usize,
}

fn unique(host: &str, uid: u64) -> UniqueAddress {
    UniqueAddress::new(Address::new(host, 2_551).expect("legal"), uid)
}

impl Victim {
    /// Alone in its cluster, with a kind.
    fn new() -> Self {
        let me = unique("victim", 1);
        let config = Config::lan(ClusterName::new("test").expect("legal"));
        let mut victim = Self {
            node: Node::new(
                config.validate().expect("legal"),
                me.clone(),
                Purpose::Node(0).rng(1),
                now(0),
            ),
            millis: 0,
            heap_before: 0,
            heap_max: 0,
            me,
        };
        let join = MembershipCommand::Join(victim.me.address().clone());
        victim.handle(Input::Command {
            token: 1,
            command: Command::Membership(join),
        });
        let kind = ShardingCommand::RegisterKind(Box::new(KindSettings::new("kind", 64, true)));
        victim.handle(Input::Command {
            token: 2,
            command: Command::Sharding(kind),
        });
        victim.run(5);
        victim
    }

    fn handle(&mut self, input: Input<'_>) {
        self.node.handle(now(self.millis), input);
        self.heap_max = self.heap_max.max(HEAP.allocated());
        while let Output::Effect(effect) = self.node.poll() {
            drop(effect);
        }
    }

    /// As it comes over a link.
    fn hear(&mut self, from: &UniqueAddress, message: MembershipMsg) {
        let limits = self.node.config().limits.clone();
        let mut bytes = Vec::new();
        wire::encode_message(&Message::Membership(message), 1, &limits, &mut bytes).expect("it fits");
        let DecodedFrame::Frame { frame, .. } = wire::decode_frame(&bytes, &limits) else {
            panic!("the frame is whole and legal");
        };
        self.handle(Input::Frame {
            from,
            proof: PeerProof::Nothing,
            lane: frame.lane,
            kind: frame.kind,
            body: frame.body,
        });
    }

    fn run(&mut self, seconds: u64) {
        for _ in 0..seconds * 2 {
            self.millis += 500;
            self.handle(Input::Tick);
        }
    }

    /// A member whose one state names all these.
    fn is_lied_to(&mut self, status: Status, at: At) {
        let liar = unique("liar", 7);
        let join = Join {
            to: self.me.clone(),
            roles: Roles::default(),
            app_version: AppVersion::default(),
        };
        self.hear(&liar, MembershipMsg::Join(join));
        let gossip = Arc::new(self.lie(&liar, status, at));
        self.heap_before = HEAP.allocated();
        self.heap_max = self.heap_before;
        let envelope = GossipEnvelope {
            to: self.me.clone(),
            gossip: gossip.into(),
        };
        self.hear(&liar, MembershipMsg::Gossip(envelope));
    }

    fn lie(&self, liar: &UniqueAddress, status: Status, at: At) -> Gossip {
        let member = |node: UniqueAddress, status, up_number| Member {
            node,
            status,
            up_number: UpNumber::new(up_number),
            roles: Roles::default(),
            app_version: AppVersion::default(),
        };
        let forged = (0..FORGED).map(|index| {
            let node = match at {
                At::Anywhere => unique(&format!("forged-{index}"), 3),
                At::Mine => unique("victim", index as u64 + 2),
            };
            // Older than all honest ones.
            member(node, status, u32::from(status != Status::Joining))
        });
        let honest = [
            member(self.me.clone(), Status::Up, 1),
            member(liar.clone(), Status::Up, 2),
        ];
        let mut members: Vec<Member> = forged.chain(honest).collect();
        members.sort_by(|left, right| left.node.cmp(&right.node));
        Gossip::from_parts(GossipParts {
            members,
            reachability: Reachability::new(),
            version: VectorClock::from_entries(vec![(liar.clone(), 1)]).expect("one entry"),
            seen: MemberSet::new(),
            tombstones: OrderedSet::new(),
            paths: Arc::default(),
        })
        .expect("well formed")
    }
}

fn now(millis: u64) -> Now {
    Now {
        mono: Instant::from_millis(millis),
        unix_ms: 1_750_000_000_000 + millis,
    }
}

#[test]
fn a_state_with_nine_thousand_forged_members_costs_megabytes_and_no_list_for_each() {
    let limited = HEAP.allocated() + BYTES_MAX_EVER;
    HEAP.set_limit(limited).expect("more than is taken");
    for status in [
        Status::Joining,
        Status::WeaklyUp,
        Status::Up,
        Status::Leaving,
        Status::Exiting,
        Status::Down,
    ] {
        for at in [At::Anywhere, At::Mine] {
            let mut victim = Victim::new();
            victim.is_lied_to(status, at);
            let heard = victim.node.view().members().len();
            assert_eq!(heard, FORGED + 2, "{status} {at:?}: the lie is believed");
            victim.run(SECONDS);
            let taken = victim.heap_max - victim.heap_before;
            println!("{status}, {at:?}: {} KiB at most", taken >> 10);
            assert!(taken < BYTES_MAX, "{status} {at:?}: {taken} bytes");
        }
    }
}
