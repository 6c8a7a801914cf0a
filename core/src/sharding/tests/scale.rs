//! Sharding as large as it may be: as many shards as a kind can have, a thousand nodes with the longest names
//! that are legal, and registrations that take several frames. Every message between nodes is written as a
//! frame and read again. Spec: sharding 1.1 to 1.3, 10.1, 10.4.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::string::ToString;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use super::world::config;
use crate::config::{Config, Limits};
use crate::effect::{Answer, Effect, HostOrder, ShardingAnswer};
use crate::event::{Event, ShardingEvent};
use crate::fixture::{Fixture, member, picture_of};
use crate::ident::{Address, HOST_BYTES_MAX, UniqueAddress};
use crate::input::{HostReport, KindSettings, SendTarget, ShardingCommand};
use crate::membership::state::app_version::AppVersion;
use crate::membership::state::gossip::Gossip;
use crate::membership::state::member::{Member, Status};
use crate::message::Message;
use crate::oldest::Oldest;
use crate::ordered::OrderedMap;
use crate::owner::Requester;
use crate::sharding::Sharding;
use crate::sharding::protocol::survey::Survey;
use crate::sharding::state::ids::{EntityId, KindId, Payload, SHARDS_MAX, ShardId};
use crate::time::Instant;
use crate::timer::Timer;
use crate::wire::{DecodedFrame, Encoder, decode_frame, decode_message};

/// Tags of what regions and coordinators say, as `docs/WIRE.md` 4.2 has them.
const REGISTER: u8 = 1;
const SHARD_HOMES: u8 = 7;
const HOST_SHARD: u8 = 8;
const SHARD_STARTED: u8 = 9;
const HAND_OFF: u8 = 12;
const SHARD_STOPPED: u8 = 13;
const BEGIN_HAND_OFF: u8 = 10;
const BEGIN_HAND_OFF_ACK: u8 = 11;

fn kind() -> KindId {
    KindId::of("files")
}

struct Peer {
    fixture: Fixture,
    sharding: Sharding,
    alive: bool,
}

/// Nodes that all are members, by age, without membership.
struct Wide {
    peers: Vec<Peer>,
    nodes: Vec<UniqueAddress>,
    places: OrderedMap<UniqueAddress, usize>,
    shards: u32,
    removed: Vec<usize>,
    limits: Limits,
    encoder: Encoder,
    wire: VecDeque<(usize, usize, Message)>,
    /// Messages of regions and coordinators between nodes by tag: how many, and the longest body.
    said: OrderedMap<u8, (u64, usize)>,
    surveys: Vec<Survey>,
    recovered: Vec<usize>,
    now: Instant,
}

/// The longest name there is; nodes are sorted as they are numbered.
fn address(at: usize) -> UniqueAddress {
    let number = alloc::format!("node-{at:04}.");
    let host = number.clone() + &"x".repeat(HOST_BYTES_MAX - number.len());
    UniqueAddress::new(Address::new(&host, 7355).unwrap(), at as u64 + 1)
}

impl Wide {
    /// So many members, the first being the oldest; only the first `with_kind` have the kind.
    fn new(nodes: usize, with_kind: usize, shards: u32, config: &Config) -> Self {
        let nodes: Vec<UniqueAddress> = (0..nodes).map(address).collect();
        let peers: Vec<Peer> = nodes
            .iter()
            .map(|node| Peer {
                fixture: Fixture::with_config(node.clone(), config.clone()),
                sharding: Sharding::new(),
                alive: true,
            })
            .collect();
        let now = peers[0].fixture.mono();
        let mut wide = Self {
            peers,
            places: nodes.iter().cloned().zip(0..).collect(),
            nodes,
            shards,
            removed: Vec::new(),
            limits: config.limits.clone(),
            encoder: Encoder::new(),
            wire: VecDeque::new(),
            said: OrderedMap::new(),
            surveys: Vec::new(),
            recovered: Vec::new(),
            now,
        };
        wide.publish(None);
        for at in 0..with_kind {
            wide.register(at);
        }
        wide.run_for(super::secs(3));
        wide
    }

    fn register(&mut self, at: usize) {
        let settings = KindSettings::new("files", self.shards, true);
        self.with(at, |peer| {
            let command = ShardingCommand::RegisterKind(Box::new(settings));
            peer.sharding.on_command(&mut peer.fixture.cx(), 0, command);
        });
    }

    /// Every member sees this one as Down, and knows who was removed.
    fn publish(&mut self, down: Option<usize>) {
        let mut gossip = Gossip::new();
        let version = AppVersion::default();
        for at in 0..self.peers.len() {
            let node = self.nodes[at].clone();
            if self.removed.contains(&at) {
                gossip.remove(&node);
                continue;
            }
            let status = if down == Some(at) {
                Status::Down
            } else {
                Status::Up
            };
            gossip.upsert_member(Member {
                app_version: version.clone(),
                ..member(&node, status)
            });
        }
        let gossip = gossip.with_gone(Arc::default());
        for at in 0..self.peers.len() {
            if !self.peers[at].alive {
                continue;
            }
            let view = picture_of(&self.nodes[at], gossip.clone());
            self.with(at, |peer| {
                let (before, after) = peer.fixture.see(view);
                peer.sharding
                    .on_view_changed(&mut peer.fixture.cx(), &before, &after);
            });
        }
    }

    /// Ends a node without a word, until it is removed and the margin is over.
    fn lose(&mut self, at: usize) {
        self.peers[at].alive = false;
        self.publish(Some(at));
        self.removed.push(at);
        self.publish(None);
        self.run_for(super::MARGIN + super::secs(5));
    }

    fn with(&mut self, at: usize, act: impl FnOnce(&mut Peer)) {
        act(&mut self.peers[at]);
        self.collect(at);
        while let Some((from, to, message)) = self.wire.pop_front() {
            if self.peers[to].alive {
                let from = self.nodes[from].clone();
                self.peers[to].hear(&from, message);
                self.collect(to);
            }
        }
    }

    /// Takes what a node wants to have done; what it says to others becomes a frame.
    fn collect(&mut self, at: usize) {
        let me = self.nodes[at].clone();
        loop {
            let peer = &mut self.peers[at];
            peer.fixture.heard();
            if let Some(message) = peer.fixture.outbox.loopback.pop_front() {
                peer.hear(&me, message);
                continue;
            }
            let effects = peer.fixture.effects();
            if effects.is_empty() {
                return;
            }
            for effect in effects {
                match effect {
                    Effect::Send {
                        to: SendTarget::Node(to),
                        message,
                    }
                    | Effect::Offer {
                        to: SendTarget::Node(to),
                        message,
                    } => {
                        let message = self.through_a_frame(&message);
                        self.wire.push_back((at, self.places[&to], message));
                    }
                    Effect::Host(
                        Requester::Sharding,
                        HostOrder::Stop { slot } | HostOrder::Kill { slot },
                    ) => {
                        let peer = &mut self.peers[at];
                        let report = HostReport::Stopped { slot };
                        peer.sharding.on_report(&mut peer.fixture.cx(), report);
                    }
                    Effect::Reply {
                        answer: Answer::Sharding(ShardingAnswer::Surveyed(survey)),
                        ..
                    } => self.surveys.push(survey),
                    Effect::Notify(Event::Sharding {
                        event: ShardingEvent::CoordinatorRecovered { shards, .. },
                        ..
                    }) => self.recovered.push(shards),
                    Effect::Notify(Event::Rejected { rejection, .. }) => panic!("{rejection:?}"),
                    Effect::Notify(_) | Effect::Reply { .. } | Effect::Host(..) => {}
                    other => panic!("{other:?}"),
                }
            }
        }
    }

    fn through_a_frame(&mut self, message: &Message) -> Message {
        let mut bytes = Vec::new();
        let written = self.encoder.encode(message, 1, &self.limits, &mut bytes);
        assert_eq!(written, Ok(()), "{:.200}", alloc::format!("{message:?}"));
        let DecodedFrame::Frame { frame, .. } = decode_frame(&bytes, &self.limits) else {
            panic!("no frame")
        };
        if frame.kind == 0x0100 {
            let (count, longest) = self.said.entry(frame.body[8]).or_default();
            *count += 1;
            *longest = frame.body.len().max(*longest);
        }
        let read = decode_message(frame.kind, frame.lane, frame.body, &self.limits);
        read.unwrap()
    }

    fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            let live = self.peers.iter().enumerate().filter(|(_, peer)| peer.alive);
            let due = live.filter_map(|(at, peer)| peer.fixture.timers.next().map(|(when, _)| (when, at)));
            let Some((when, at)) = due.min().filter(|(when, _)| *when <= end) else {
                break;
            };
            self.now = self.now.max(when);
            self.tell_the_time();
            let now = self.now;
            if let Some(timer) = self.peers[at].fixture.timers.pop_due(now) {
                self.with(at, |peer| peer.on_timer(timer));
            }
        }
        self.now = end;
        self.tell_the_time();
    }

    fn tell_the_time(&mut self) {
        for peer in &mut self.peers {
            peer.fixture.now.mono = self.now;
        }
    }

    /// Tells one entity of every shard without a home something, from one node after the other.
    fn touch_homeless(&mut self, from: &[usize]) {
        let mut untouched: Vec<bool> = (0..self.shards).map(|_| true).collect();
        let mut left = untouched.len();
        for peer in self.peers.iter().filter(|peer| peer.alive) {
            let region = peer.sharding.region(kind());
            for (shard, _) in region.into_iter().flat_map(|region| region.hosted) {
                untouched[shard.0 as usize] = false;
                left -= 1;
            }
        }
        let mut number = 0_u32;
        while left > 0 {
            let entity = EntityId::from(number.to_string().as_str());
            number += 1;
            let shard = ShardId::of(&entity, self.shards);
            let place = shard.0 as usize;
            if !core::mem::take(&mut untouched[place]) {
                continue;
            }
            left -= 1;
            let payload = Payload::from(b"touch".as_slice());
            self.with(from[place % from.len()], |peer| {
                peer.sharding
                    .tell(&mut peer.fixture.cx(), kind(), entity, payload);
            });
        }
    }

    /// How many shards each node hosts; no shard is on two.
    fn counts(&self) -> Vec<usize> {
        let mut homes = OrderedMap::new();
        let mut counts = Vec::new();
        for (at, peer) in self.peers.iter().enumerate() {
            peer.sharding.check_invariants(&self.nodes[at]).unwrap();
            let region = peer.sharding.region(kind()).filter(|_| peer.alive);
            let hosted = region.map(|region| region.hosted).unwrap_or_default();
            for (shard, _) in &hosted {
                assert_eq!(homes.insert(*shard, at), None, "{shard:?} is on two nodes");
            }
            counts.push(hosted.len());
        }
        counts
    }

    fn count_of(&self, tag: u8) -> u64 {
        self.said.get(&tag).map_or(0, |(count, _)| *count)
    }

    /// Runs until the coordinator of the oldest node has moved something; how many shards.
    fn until_moved(&mut self) -> u64 {
        let moved = |wide: &Self| wide.peers[0].fixture.stats.sharding.hand_offs_completed;
        let before = moved(self);
        for _ in 0..60 {
            self.run_for(super::secs(1));
            if moved(self) > before {
                break;
            }
        }
        moved(self) - before
    }

    fn survey(&mut self, at: usize) -> Survey {
        self.with(at, |peer| {
            let command = ShardingCommand::Survey {
                kind: kind(),
                timeout: super::secs(3),
            };
            peer.sharding.on_command(&mut peer.fixture.cx(), 1, command);
        });
        self.surveys.pop().unwrap()
    }
}

impl Peer {
    fn hosted(&self) -> usize {
        self.sharding
            .region(kind())
            .map_or(0, |region| region.hosted.len())
    }

    fn hear(&mut self, from: &UniqueAddress, message: Message) {
        let cx = &mut self.fixture.cx();
        match message {
            Message::Sharding(msg) => self.sharding.on_message(cx, from, msg),
            other => panic!("{other:?}"),
        }
    }

    fn on_timer(&mut self, timer: Timer) {
        let (fixture, sharding) = (&mut self.fixture, &mut self.sharding);
        match timer {
            Timer::Sharding(timer) => sharding.on_timer(&mut fixture.cx(), timer),
            Timer::Oldest(timer) => {
                Oldest.on_timer(&mut fixture.cx(), &timer);
                sharding.on_margin_over(&mut fixture.cx());
            }
            other => panic!("{other:?}"),
        }
    }
}

/// 65,536 shards on 1,000 nodes, whose names are as long as they may be: all get a home, a node that dies is
/// replaced, the oldest one too, and a shard moves; everything that is said fits its frame.
#[test]
fn as_many_shards_as_there_may_be_on_a_thousand_nodes() {
    const NODES: usize = 1_000;
    let mut config = config();
    config.sharding.rebalance_absolute_limit = 1;
    // The last one has no region yet.
    let mut wide = Wide::new(NODES + 1, NODES, SHARDS_MAX, &config);
    wide.touch_homeless(&(0..NODES).collect::<Vec<_>>());
    let counts = wide.counts();
    assert_eq!(counts.iter().sum::<usize>(), SHARDS_MAX as usize);
    assert!(counts[..NODES].iter().all(|count| [65, 66].contains(count)));
    // All but those that the oldest one hosts itself have been ordered in a message.
    let orders = (SHARDS_MAX as usize - counts[0]) as u64;
    assert_eq!(
        [HOST_SHARD, SHARD_STARTED].map(|tag| wide.count_of(tag)),
        [orders, orders]
    );

    let lost = NODES / 2;
    wide.lose(lost);
    let counts = wide.counts();
    assert_eq!(
        (counts[lost], counts.iter().sum::<usize>()),
        (0, SHARDS_MAX as usize)
    );
    assert!(
        counts.iter().all(|count| *count <= 67),
        "{:?}",
        counts.iter().max()
    );

    // A region comes: one shard a round moves there. Everybody has forgotten its home before, the new region
    // included.
    wide.register(NODES);
    wide.run_for(super::secs(1));
    wide.said.clear();
    let moved = wide.until_moved();
    let live = NODES as u64;
    assert_eq!((moved, wide.peers[NODES].hosted()), (1, 1));
    // One fewer each where the oldest one speaks to itself.
    assert_eq!(
        [BEGIN_HAND_OFF, BEGIN_HAND_OFF_ACK].map(|tag| wide.count_of(tag)),
        [live - 1; 2]
    );
    // It was the oldest one's, which tells itself to stop it.
    let owners = [HAND_OFF, SHARD_STOPPED, HOST_SHARD, SHARD_STARTED].map(|tag| wide.count_of(tag));
    assert_eq!(owners, [0, 0, 1, 1]);

    // The oldest one: its successor is told of every home that is left, and gives the others away when
    // somebody asks.
    let theirs = wide.peers[0].hosted();
    wide.said.clear();
    wide.lose(0);
    assert_eq!(wide.recovered.last(), Some(&(SHARDS_MAX as usize - theirs)));
    let counts = wide.counts();
    assert_eq!(counts.iter().sum::<usize>(), SHARDS_MAX as usize - theirs);
    wide.touch_homeless(&[1, NODES]);
    let counts = wide.counts();
    assert_eq!(counts.iter().sum::<usize>(), SHARDS_MAX as usize);
    assert!(wide.count_of(REGISTER) >= NODES as u64 - 3);
    let (_, longest) = wide.said[&SHARD_HOMES];
    assert!(longest <= config.limits.control_frame_bytes_max, "{longest}");
}

/// As many shards on three nodes, in frames of 4 KiB: registrations, homes and answers to questions come in
/// parts, and nothing is missing.
#[test]
fn many_shards_on_a_few_nodes_in_small_frames() {
    const SHARDS: u32 = 30_000;
    let mut config = config();
    config.limits.control_frame_bytes_max = 4 << 10;
    let mut wide = Wide::new(3, 3, SHARDS, &config);
    wide.touch_homeless(&[0, 1, 2]);
    assert_eq!(wide.counts(), [10_000; 3]);
    let survey = wide.survey(0);
    for region in survey.regions.values() {
        let region = region.as_ref().unwrap();
        let entities: u64 = region.shards.iter().map(|(_, running)| u64::from(*running)).sum();
        assert_eq!(
            (region.shards.len(), region.shards_total, entities),
            (10_000, 10_000, 10_000)
        );
    }
    wide.said.clear();
    wide.lose(0);
    assert_eq!(
        wide.recovered.last(),
        Some(&20_000),
        "two registrations were whole"
    );
    assert_eq!(wide.counts(), [0, 10_000, 10_000]);
    wide.touch_homeless(&[1, 2]);
    assert_eq!(wide.counts(), [0, 15_000, 15_000]);
    let (parts, longest) = wide.said[&REGISTER];
    // Five parts, as often as the successor was not ready for them.
    assert!(
        parts >= 10 && parts % 5 == 0 && longest <= 4 << 10,
        "{parts}, {longest}"
    );
    let (homes, longest) = wide.said[&SHARD_HOMES];
    assert!(homes > 10 && longest <= 4 << 10, "{homes}, {longest}");
}
