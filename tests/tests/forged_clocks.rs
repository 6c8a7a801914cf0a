//! A member that says of others that they have changed the state more often than they have: in one leap or in
//! small steps, to the member itself or behind its back, of one or of several, and to one that it takes in.
//! Whatever it says, the honest nodes agree within ten rounds of its removal, without a restart, and take
//! another one in. Spec: membership 8.9, reliability I-100; `SECURITY.md` ("Forged state").

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use quorate_core::admission::PeerProof;
use quorate_core::config::Config;
use quorate_core::effect::{Effect, Output};
use quorate_core::ident::{Address, ClusterName, UniqueAddress};
use quorate_core::input::{Command, DownTarget, Input, MembershipCommand, SendTarget};
use quorate_core::membership::gossip::{Gossip, GossipParts};
use quorate_core::membership::member::Status;
use quorate_core::membership::member_set::MemberSet;
use quorate_core::membership::vector_clock::VectorClock;
use quorate_core::message::{GossipEnvelope, MembershipMsg, Message, Welcome};
use quorate_core::node::Node;
use quorate_core::time::{Instant, Now};
use quorate_core::wire::{self, COUNTER_MAX, DecodedFrame};
use quorate_tests::sim::Purpose;
use rand_chacha::ChaCha8Rng;

/// Virtual milliseconds between two looks at every node; a message takes as long.
const STEP: u64 = 10;
/// Virtual seconds that anything may take but what is measured.
const PATIENCE: u64 = 60;
/// Of the liar's removal.
const ROUNDS: u64 = 10;
/// How many changes a member of such a cluster may have made in the end, lies that it went above included.
const CHANGES_MAX: u64 = 1 << 24;
const LIAR: &str = "liar";
/// What is told in one step if it is to be believed.
const SMALL: u64 = 60_000;

struct World {
    nodes: BTreeMap<Address, Node<ChaCha8Rng>>,
    refused: BTreeSet<(Address, UniqueAddress)>,
    under_way: VecDeque<(UniqueAddress, SendTarget, Message)>,
    millis: u64,
    /// How often the liar has changed the state, as it says.
    lies: u64,
    /// What it says to those whom it takes in of everybody but itself.
    welcomes_with: Option<u64>,
}

fn at(host: &str) -> Address {
    Address::new(host, 2_551).expect("legal")
}

fn unique(host: &str) -> UniqueAddress {
    UniqueAddress::new(at(host), u64::from(host.as_bytes()[0]))
}

/// The state with other numbers of changes.
fn forged(state: &Gossip, says: impl Fn(&UniqueAddress, u64) -> u64) -> Gossip {
    let counted = |node: &UniqueAddress| says(node, state.version().get(node));
    let nodes = state.members().iter().map(|member| member.node.clone());
    let entries = nodes.map(|node| (node.clone(), counted(&node)));
    let entries = entries.filter(|(_, counter)| *counter > 0).collect();
    Gossip::from_parts(GossipParts {
        members: state.members().to_vec(),
        reachability: state.reachability().clone(),
        version: VectorClock::from_entries(entries).expect("each once"),
        seen: MemberSet::new(),
        tombstones: state.tombstones().clone(),
        paths: Arc::clone(state.paths()),
    })
    .expect("well formed")
}

impl World {
    /// Honest nodes `a`, `b` and `c`, and the liar, all Up.
    fn new() -> Self {
        let mut world = Self {
            nodes: BTreeMap::new(),
            refused: BTreeSet::new(),
            under_way: VecDeque::new(),
            millis: 1_000,
            lies: 0,
            welcomes_with: None,
        };
        for host in ["a", "b", "c", LIAR] {
            world.start(host, "a");
        }
        world.until("four members to be Up", |world| {
            world.are_up(&["a", "b", "c", LIAR])
        });
        world
    }

    fn now(&self) -> Now {
        Now {
            mono: Instant::from_millis(self.millis),
            unix_ms: 1_750_000_000_000 + self.millis,
        }
    }

    fn start(&mut self, host: &str, contact: &str) {
        let config = Config::lan(ClusterName::new("test").expect("legal"));
        let rng = Purpose::Node(u32::from(host.as_bytes()[0])).rng(1);
        let node = Node::new(config.validate().expect("legal"), unique(host), rng, self.now());
        self.nodes.insert(at(host), node);
        let join = MembershipCommand::JoinSeeds(vec![at(contact)]);
        self.command(host, join);
    }

    fn command(&mut self, host: &str, command: MembershipCommand) {
        let command = Command::Membership(command);
        self.handle(&at(host), Input::Command { token: 1, command });
    }

    fn handle(&mut self, to: &Address, input: Input<'_>) {
        let now = self.now();
        let Some(node) = self.nodes.get_mut(to) else {
            return;
        };
        let me = node.view().me().clone();
        node.handle(now, input);
        let mut halted = false;
        while let Output::Effect(effect) = node.poll() {
            match effect {
                Effect::Send { to, message } | Effect::Offer { to, message } => {
                    self.under_way.push_back((me.clone(), to, message));
                }
                Effect::Quarantine(node) => {
                    self.refused.insert((to.clone(), node));
                }
                Effect::Halt(_) => halted = true,
                Effect::Notify(_)
                | Effect::Host(..)
                | Effect::Reply { .. }
                | Effect::Lease(..)
                | Effect::Store(..)
                | Effect::Allocate(_) => {}
            }
        }
        node.check_invariants().expect("a well-formed node");
        if halted {
            self.nodes.remove(to);
        }
    }

    /// A message arrives, as a frame.
    fn deliver(&mut self, from: &UniqueAddress, to: &SendTarget, message: &Message) {
        let Some(node) = self.nodes.get(to.address()) else {
            return;
        };
        let other = matches!(to, SendTarget::Node(node) if !self.nodes[to.address()].view().me().eq(node));
        if other || self.refused.contains(&(to.address().clone(), from.clone())) {
            return;
        }
        let limits = node.config().limits.clone();
        let mut bytes = Vec::new();
        wire::encode_message(message, 1, &limits, &mut bytes).expect("nobody's counter is at its end");
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
        self.handle(to.address(), input);
    }

    /// What is under way arrives, and time passes.
    fn step(&mut self) {
        for (from, to, message) in core::mem::take(&mut self.under_way) {
            let message = self.told_by(&from, message);
            self.deliver(&from, &to, &message);
        }
        self.millis += STEP;
        let hosts: Vec<Address> = self.nodes.keys().cloned().collect();
        for host in hosts {
            self.handle(&host, Input::Tick);
        }
    }

    /// What the liar makes of a Welcome.
    fn told_by(&self, from: &UniqueAddress, message: Message) -> Message {
        match (message, self.welcomes_with) {
            (Message::Membership(MembershipMsg::Welcome(welcome)), Some(counter))
                if *from == unique(LIAR) =>
            {
                let state = welcome.gossip.open(&Gossip::new());
                let state = forged(&state, |node, own| if node == from { own } else { counter });
                Message::Membership(MembershipMsg::Welcome(Welcome {
                    to: welcome.to,
                    gossip: Arc::new(state).into(),
                }))
            }
            (message, _) => message,
        }
    }

    fn run(&mut self, millis: u64) {
        for _ in 0..millis / STEP {
            self.step();
        }
    }

    fn until(&mut self, what: &str, holds: impl Fn(&Self) -> bool) {
        let last = self.millis + PATIENCE * 1_000;
        while !holds(self) {
            assert!(self.millis < last, "waited for {what}: {}", self.shown());
            self.step();
        }
    }

    /// The liar tells a node the state that this node has, with numbers of its own.
    fn lie(&mut self, to: &str, says: impl Fn(&UniqueAddress, u64) -> u64) {
        let Some(node) = self.nodes.get(&at(to)) else {
            return;
        };
        let liar = unique(LIAR);
        self.lies += 1;
        let changes = node.view().gossip().version().get(&liar) + self.lies;
        let says = |node: &UniqueAddress, own| if *node == liar { changes } else { says(node, own) };
        let gossip = Arc::new(forged(node.view().gossip(), says)).into();
        let envelope = GossipEnvelope {
            to: unique(to),
            gossip,
        };
        let message = Message::Membership(MembershipMsg::Gossip(envelope));
        self.deliver(&liar, &SendTarget::Node(unique(to)), &message);
    }

    /// The liar raises what a node holds of `about` in so many small steps, in no time.
    fn raise(&mut self, to: &str, about: &str, steps: usize) {
        let about = unique(about);
        for _ in 0..steps {
            self.lie(to, |node, own| own + if *node == about { SMALL } else { 0 });
        }
    }

    fn gossip(&self, host: &str) -> Option<&Gossip> {
        self.nodes.get(&at(host)).map(|node| &**node.view().gossip())
    }

    /// Whether each of these sees exactly these, all Up.
    fn are_up(&self, hosts: &[&str]) -> bool {
        hosts.iter().all(|host| {
            self.gossip(host).is_some_and(|state| {
                let up = |other: &&str| {
                    let member = state.member(&unique(other));
                    member.is_some_and(|member| member.status == Status::Up)
                };
                state.members().len() == hosts.len() && hosts.iter().all(up)
            })
        })
    }

    /// Whether all of these have one state, and all have seen it.
    fn agree(&self, hosts: &[&str]) -> bool {
        let first = self.gossip(hosts[0]);
        let all = |host: &&str| {
            let state = self.gossip(host);
            state.map(Gossip::version) == first.map(Gossip::version)
                && state.is_some_and(|state| state.seen_count() == hosts.len())
        };
        hosts.iter().all(all)
    }

    fn shown(&self) -> String {
        let show = |(host, node): (&Address, &Node<ChaCha8Rng>)| {
            let entries = node.view().gossip().version().entries().iter();
            let entries = entries.map(|(node, counter)| format!("{}:{counter}", node.address().host()));
            let members = node.view().members().iter();
            let members = members.map(|member| format!("{} {}", member.node.address().host(), member.status));
            let (members, entries): (Vec<_>, Vec<_>) = (members.collect(), entries.collect());
            format!(
                "{} has {} by {}",
                host.host(),
                members.join(", "),
                entries.join(" ")
            )
        };
        self.nodes.iter().map(show).collect::<Vec<_>>().join("; ")
    }

    /// The liar is downed and removed, and ten rounds later the honest ones agree and `d` is Up everywhere.
    fn heals_within_ten_rounds_of_the_liars_removal(mut self) {
        let before: Vec<Address> = self.nodes.keys().cloned().collect();
        self.command("a", MembershipCommand::Down(DownTarget::Node(unique(LIAR))));
        self.until("the liar's removal", |world| {
            let mut honest = ["a", "b", "c"].iter();
            honest.all(|host| {
                world
                    .gossip(host)
                    .is_some_and(|state| !state.contains(&unique(LIAR)))
            })
        });
        let begun = self.millis;
        if !self.nodes.contains_key(&at("d")) {
            self.start("d", "a");
        }
        let all = ["a", "b", "c", "d"];
        self.until("everybody to agree", |world| {
            world.are_up(&all) && world.agree(&all)
        });
        let took = self.millis - begun;
        assert!(took <= ROUNDS * 1_000, "{took} ms: {}", self.shown());
        let stayed = before.iter().filter(|host| self.nodes.contains_key(host)).count();
        assert_eq!(stayed, before.len() - 1, "only the liar has ended");
        for host in all {
            let changes = self
                .gossip(host)
                .map_or(0, |state| state.version().get(&unique(host)));
            assert!(changes < CHANGES_MAX, "{host} counts {changes}");
        }
    }
}

#[test]
fn b_37_one_leap_of_anothers_entry_told_to_a_third_member() {
    for claimed in [SMALL, 1 << 17, 1 << 40, COUNTER_MAX] {
        let mut world = World::new();
        for _ in 0..20 {
            world.lie("c", |node, own| if *node == unique("a") { claimed } else { own });
            world.run(500);
        }
        world.heals_within_ten_rounds_of_the_liars_removal();
    }
}

#[test]
fn b_37_a_leap_told_to_whose_entry_it_is() {
    for claimed in [SMALL, 1 << 17, 1 << 40, COUNTER_MAX] {
        let mut world = World::new();
        for _ in 0..20 {
            world.lie("a", |node, own| if *node == unique("a") { claimed } else { own });
            world.run(500);
        }
        world.heals_within_ten_rounds_of_the_liars_removal();
    }
}

#[test]
fn b_37_many_small_steps_told_to_a_third_member_of_which_the_owner_hears_none() {
    for steps in [2, 200, 3_000] {
        let mut world = World::new();
        world.raise("c", "a", steps);
        let held = world
            .gossip("c")
            .map_or(0, |state| state.version().get(&unique("a")));
        assert!(held >= steps as u64 * SMALL, "each step is believed: {held}");
        world.heals_within_ten_rounds_of_the_liars_removal();
    }
}

#[test]
fn b_37_small_steps_told_to_each_for_as_long_as_the_liar_is_in() {
    let mut world = World::new();
    for round in 0..200 {
        let (to, about) = [("a", "b"), ("b", "c"), ("c", "a"), ("a", "c")][round % 4];
        world.raise(to, about, 20);
        world.run(100);
    }
    world.heals_within_ten_rounds_of_the_liars_removal();
}

#[test]
fn b_37_lies_about_several_members_at_once_told_to_different_ones() {
    let mut world = World::new();
    world.raise("c", "a", 500);
    world.raise("c", "b", 300);
    world.raise("b", "c", 900);
    world.raise("b", "a", 100);
    for host in ["a", "b", "c"] {
        world.lie(
            host,
            |node, own| if *node == unique(LIAR) { own } else { COUNTER_MAX },
        );
    }
    world.heals_within_ten_rounds_of_the_liars_removal();
}

#[test]
fn b_37_lies_told_to_one_that_the_liar_takes_in() {
    for claimed in [SMALL, 1 << 40, COUNTER_MAX] {
        let mut world = World::new();
        world.welcomes_with = Some(claimed);
        world.start("d", LIAR);
        world.until("d to be in", |world| {
            world
                .gossip("d")
                .is_some_and(|state| state.contains(&unique("d")))
        });
        let held = world.gossip("d").map(|state| state.version().get(&unique("a")));
        assert_eq!(held, Some(claimed), "it believes who took it in");
        world.heals_within_ten_rounds_of_the_liars_removal();
    }
}
