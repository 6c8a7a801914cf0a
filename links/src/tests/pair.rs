//! Two nodes whose links play against each other, without I/O: what one writes the other reads, in pieces of
//! any size, and the network ends links as it likes. Spec: I-44, I-92, I-93.

use alloc::vec;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr};
use core::time::Duration;
use std::collections::VecDeque;

use quorate_core::config::Config;
use quorate_core::effect::{Effect, Output};
use quorate_core::ident::{Address, ClusterName, UniqueAddress};
use quorate_core::input::{Command, Input, MembershipCommand};
use quorate_core::membership::member::Status;
use quorate_core::node::Node;
use quorate_core::ordered::OrderedMap;
use quorate_core::time::{Instant, Now};
use rand_chacha::ChaCha8Rng;
use rand_core::SeedableRng;

use crate::crowd::Source;
use crate::links::Links;
use crate::order::{LinkId, LinkInput, LinkOrder, ReadChunk};

/// Less than what is taken for silence.
const GOSSIP_TIME_TO_LIVE: Duration = Duration::from_millis(500);

/// One direction of a link, at the end that reads it.
struct Pipe {
    bytes: VecDeque<u8>,
    /// The buffer that its reader may fill.
    buffer: Option<Vec<u8>>,
    ended: bool,
    /// Who writes, and which link it is there.
    from: (usize, LinkId),
}

pub(super) struct Place {
    pub(super) node: Node<ChaCha8Rng>,
    pub(super) links: Links,
    wake: Option<Instant>,
    pipes: OrderedMap<LinkId, Pipe>,
    /// What was written of links and their peers have not read: the next write waits for that.
    unread: Vec<(LinkId, Vec<u8>)>,
    /// What the node ordered beside what its links do.
    pub(super) ordered: Vec<Effect>,
}

pub(super) struct World {
    pub(super) places: Vec<Place>,
    millis: u64,
    /// Most bytes of a read.
    piece: usize,
}

impl World {
    pub(super) fn of_two(piece: usize) -> Self {
        let mut config = Config::fast(ClusterName::new("pair").unwrap());
        config.membership.gossip_time_to_live = GOSSIP_TIME_TO_LIVE;
        let config = config.validate().unwrap();
        let place = |number: u16| {
            let me = UniqueAddress::new(Address::new("h", number).unwrap(), number.into());
            let rng = |stream: u64| ChaCha8Rng::seed_from_u64(stream * 100 + u64::from(number));
            Place {
                node: Node::new(config.clone(), me.clone(), rng(1), Now::default()),
                links: Links::new(config.clone(), me, rng(2), Now::default()),
                wake: None,
                pipes: OrderedMap::new(),
                unread: Vec::new(),
                ordered: Vec::new(),
            }
        };
        let mut world = Self {
            places: vec![place(1), place(2)],
            millis: 0,
            piece,
        };
        let seed = Address::new("h", 1).unwrap();
        for at in 0..2 {
            let join = MembershipCommand::JoinSeeds(vec![seed.clone()]);
            let command = Command::Membership(join);
            let place = &mut world.places[at];
            place
                .node
                .handle(Now::default(), Input::Command { token: 1, command });
            place.drive();
        }
        world
    }

    pub(super) fn now(&self) -> Now {
        Now {
            mono: Instant::from_millis(self.millis),
            unix_ms: 0,
        }
    }

    /// A millisecond of everything.
    fn step(&mut self) {
        self.millis += 1;
        for at in 0..self.places.len() {
            let read = self.read(at);
            self.turn(at, read);
        }
    }

    /// One node stands still for so long: its sockets are read meanwhile, as far as there are buffers.
    fn stall(&mut self, stalled: usize, millis: u64) {
        let mut held = Vec::new();
        for _ in 0..millis {
            self.millis += 1;
            held.extend(self.read(stalled));
            let read = self.read(1 - stalled);
            self.turn(1 - stalled, read);
        }
        self.turn(stalled, held);
    }

    fn turn(&mut self, at: usize, read: Vec<LinkInput>) {
        let now = self.now();
        let place = &mut self.places[at];
        place.links.set_time(now);
        if place.wake.is_some_and(|wake| wake <= now.mono) {
            place.node.handle(now, Input::Tick);
            place.drive();
        }
        while place.links.tick(&mut place.node) {
            place.drive();
        }
        for input in read {
            place.input(input);
        }
        while place.links.next_frame(&mut place.node, true) {
            place.drive();
        }
        self.take_written(at);
        let place = &mut self.places[at];
        place.links.flush(&place.node);
        while let Some(order) = self.places[at].links.next_order() {
            self.obey(at, order);
        }
    }

    /// What comes of each link now.
    fn read(&mut self, at: usize) -> Vec<LinkInput> {
        let read_at = Some(self.now().mono);
        let mut read = Vec::new();
        let links: Vec<LinkId> = self.places[at].pipes.keys().copied().collect();
        for link in links {
            let place = &mut self.places[at];
            let Some(pipe) = place.pipes.get_mut(&link) else {
                continue;
            };
            if pipe.bytes.is_empty() && pipe.ended {
                place.pipes.remove(&link);
                read.push(LinkInput::Closed(link));
            } else if !pipe.bytes.is_empty()
                && let Some(mut buffer) = pipe.buffer.take()
            {
                let len = pipe.bytes.len().min(self.piece).min(buffer.len());
                buffer
                    .iter_mut()
                    .zip(pipe.bytes.drain(..len))
                    .for_each(|(place, byte)| *place = byte);
                let chunk = ReadChunk { buffer, len, read_at };
                read.push(LinkInput::Received(link, chunk));
            }
        }
        read
    }

    fn obey(&mut self, at: usize, order: LinkOrder) {
        match order {
            LinkOrder::Dial { link, to, .. } => {
                let other = usize::from(to.port()) - 1;
                let source = Source::of(IpAddr::V4(Ipv4Addr::LOCALHOST));
                let theirs = self.places[other].links.accepted(source).unwrap();
                let pipe = |from| Pipe {
                    bytes: VecDeque::new(),
                    buffer: Some(vec![0; 4 << 10]),
                    ended: false,
                    from,
                };
                self.places[other].pipes.insert(theirs, pipe((at, link)));
                self.places[at].pipes.insert(link, pipe((other, theirs)));
                self.places[at].input(LinkInput::Dialed(link));
            }
            LinkOrder::Write { link, bytes } => {
                if let Some(pipe) = self.other_end(at, link) {
                    pipe.bytes.extend(&bytes);
                }
                self.places[at].unread.push((link, bytes));
            }
            LinkOrder::Resume { link, chunk } => {
                if let Some(pipe) = self.places[at].pipes.get_mut(&link) {
                    pipe.buffer = Some(chunk.buffer);
                }
            }
            LinkOrder::Datagram { .. } => panic!("nobody has said that there are datagrams"),
            LinkOrder::Drain(link) | LinkOrder::Finish(link) | LinkOrder::Abort(link) => {
                if let Some(pipe) = self.other_end(at, link) {
                    pipe.ended = true;
                }
                self.places[at].pipes.remove(&link);
            }
        }
    }

    /// Writes end when the other side has read them.
    fn take_written(&mut self, at: usize) {
        for (link, bytes) in core::mem::take(&mut self.places[at].unread) {
            let is_read = self.other_end(at, link).is_none_or(|pipe| pipe.bytes.is_empty());
            let place = &mut self.places[at];
            if is_read {
                place.input(LinkInput::Written(link, bytes));
            } else {
                place.unread.push((link, bytes));
            }
        }
    }

    fn other_end(&mut self, at: usize, link: LinkId) -> Option<&mut Pipe> {
        let (other, theirs) = self.places[at].pipes.get(&link)?.from;
        self.places[other].pipes.get_mut(&theirs)
    }

    /// The network ends every link, with whatever is on its way.
    fn cut(&mut self) {
        for place in &mut self.places {
            for link in core::mem::take(&mut place.pipes).into_keys() {
                place.input(LinkInput::Broken(link));
            }
        }
    }

    /// The links that one node dialed end for that node alone: the other one hears nothing of it.
    pub(super) fn cut_at(&mut self, at: usize) {
        let place = &mut self.places[at];
        for link in place.pipes.keys().copied().collect::<Vec<_>>() {
            if place.links.outbound.is_mine(link) {
                place.pipes.remove(&link);
                place.input(LinkInput::Broken(link));
            }
        }
    }

    pub(super) fn until(&mut self, what: &str, done: impl Fn(&Self) -> bool) {
        let begun = self.millis;
        while !done(self) {
            assert!(self.millis - begun < 60_000, "waited for {what}");
            self.step();
        }
    }

    /// Both say the same, and know of each other that they do.
    fn agree(&self) -> bool {
        self.are_up() && self.places.iter().all(|place| place.node.view().is_converged())
    }

    pub(super) fn are_up(&self) -> bool {
        let is_up = |place: &Place| {
            let members = place.node.view().members();
            members.len() == 2 && members.iter().all(|member| member.status == Status::Up)
        };
        self.places.iter().all(is_up)
    }
}

impl Place {
    fn input(&mut self, input: LinkInput) {
        self.links.handle(&mut self.node, input);
        while self.links.next_urgent_frame(&mut self.node) {
            self.drive();
        }
        self.drive();
    }

    pub(super) fn drive(&mut self) {
        loop {
            match self.node.poll() {
                Output::Effect(effect) => {
                    let other = self.links.perform(self.node.view(), effect);
                    self.ordered.extend(other);
                }
                Output::Sleep(wake) => {
                    self.wake = wake.map(|wake| wake.at);
                    match self.links.next_event() {
                        Some(event) => self.node.handle(self.links.now(), Input::Link(event)),
                        None => return,
                    }
                }
            }
        }
    }
}

#[test]
fn two_nodes_become_a_cluster_over_nothing_but_bytes_however_they_are_cut() {
    for piece in [1, 7, 64, 4_096] {
        let mut world = World::of_two(piece);
        world.until("two members to be Up", World::are_up);
        for place in &world.places {
            let stats = place.links.stats();
            assert!(stats.handshakes_completed >= 2, "one each way: {stats:?}");
            assert_eq!(
                (
                    stats.frames_skipped,
                    stats.links_closed_for_violation,
                    stats.dials_failed
                ),
                (0, 0, 0),
                "in pieces of {piece}"
            );
        }
    }
}

#[test]
fn a_network_that_ends_all_links_costs_new_handshakes_and_nobody_its_place() {
    let mut world = World::of_two(4_096);
    world.until("two members to be Up", World::are_up);
    let dials = |world: &World| world.places.iter().map(|place| place.links.stats().dials).sum();
    for _ in 0..5 {
        let before: u64 = dials(&world);
        world.cut();
        world.until("new links", |world| dials(world) > before + 1);
        for _ in 0..2_000 {
            world.step();
        }
        assert!(world.are_up());
    }
    for place in &world.places {
        assert_eq!(place.links.stats().links_open, 2, "one each way");
    }
}

#[test]
fn a_quarantined_peer_hears_that_it_is_refused_and_gets_no_link() {
    let mut world = World::of_two(4_096);
    world.until("two members to be Up", World::are_up);
    let (first, second) = (1, UniqueAddress::new(Address::new("h", 2).unwrap(), 2));
    let place = &mut world.places[first - 1];
    let effect = quorate_core::effect::Effect::Quarantine(second.clone());
    let _ = place.links.perform(place.node.view(), effect);
    assert!(place.links.is_quarantined(&second));
    let refused = |world: &World| world.places[0].links.stats().refused_quarantined > 0;
    world.until("a refusal", refused);
    assert_eq!(world.places[0].links.stats().links_open, 0);
}

/// What waits is the one buffer of each link that was read when the node stood still, so not each time there
/// is gossip in it.
#[test]
fn a_node_that_stalls_drops_gossip_that_has_waited_counts_it_and_agrees_afterwards() {
    let mut world = World::of_two(4_096);
    world.until("two members that agree", World::agree);
    let stale = |world: &World, at: usize| world.places[at].links.stats().gossip_frames_stale;
    for _ in 0..20 {
        world.stall(1, 700);
        world.until("both to agree again", World::agree);
    }
    assert!(stale(&world, 1) > 0, "nothing has waited");
    assert_eq!(stale(&world, 0), 0, "nothing waits where nobody stalls");
    let command = Command::Membership(MembershipCommand::Leave);
    let place = &mut world.places[0];
    place
        .node
        .handle(place.links.now(), Input::Command { token: 2, command });
    place.drive();
    let is_alone = |world: &World| {
        let members = world.places[1].node.view().members();
        members.len() == 1 && members.iter().all(|member| member.status == Status::Up)
    };
    world.until("the other one to leave", is_alone);
}
