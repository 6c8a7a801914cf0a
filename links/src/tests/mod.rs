//! Links without a transport: a scripted node at one side, the test as the hands at the other.
//! Spec: reliability 3b, 3c, I-44, I-92, I-93, I-95.

mod aging;
mod bulk;
mod datagram;
mod leak;
mod offers;
mod pair;
mod questions;
mod renewal;
mod stranger;
mod unsent;

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::net::Ipv4Addr;
use core::time::Duration;

use quorate_core::config::{Config, Limits};
use quorate_core::effect::{Effect, HaltReason, Output};
use quorate_core::event::{Event, JoinFailure, MembershipEvent, SeedCause, SeedFailure};
use quorate_core::ident::{Address, ClusterName, UniqueAddress};
use quorate_core::input::{DropReason, Input, LinkEvent, SendTarget};
use quorate_core::membership::gossip::Gossip;
use quorate_core::message::{
    DetectorMsg, EntityEnvelope, GossipEnvelope, Heartbeat, Lane, MembershipMsg, Message, ShardingMsg,
};
use quorate_core::reject::Rejection;
use quorate_core::sharding::ids::{EntityId, KindId, ShardId};
use quorate_core::time::{Instant, Now};
use quorate_core::view::View;
use quorate_core::wire::encode_message;
use quorate_core::wire::handshake::{
    HandshakeDecoded, Hello, HelloAck, HelloAnswer, HelloReject, LinkKind, RejectReason, decode_answer,
    decode_hello, encode_answer, encode_hello,
};
use rand_chacha::ChaCha8Rng;
use rand_core::SeedableRng;

use crate::authentication::{LinkAuthentication, LinkEnd, PeerIdentity};
use crate::crowd::Source;
use crate::first_bytes::PLAINTEXT_TO_TLS;
use crate::limits::{OUT_BYTES_MAX, READ_BYTES_MAX, READ_BYTES_MIN, SLOW_PEER_PATIENCE};
use crate::links::Links;
use crate::order::{LinkId, LinkInput, LinkOrder, ReadChunk};
use crate::recipient::LinkRecipient;
use crate::settings::LinkLimits;

/// The defaults.
const CHECKSUM_FAILURES_MAX: u32 = 3;
const CONTROL_QUEUE_MAX: usize = 20_000;
const GOSSIP_QUEUE_MAX: usize = 16;
const PENDING_PER_SOURCE_MAX: usize = 16;
const USER_QUEUE_MAX: usize = 3_072;
const USER_QUEUE_SLOW: usize = USER_QUEUE_MAX / 2;

/// What the scripted node was told.
#[derive(Debug, PartialEq)]
pub(super) enum Heard {
    Frame(UniqueAddress, Lane),
    Link(LinkEvent),
}

/// A node that says what the test wants and writes down what it hears.
#[derive(Debug)]
pub(super) struct Script {
    says: VecDeque<Effect>,
    heard: Vec<Heard>,
    pub(super) capacity: bool,
    view: Arc<View>,
    /// Who is no member, and how often that has changed.
    pub(super) strangers: Vec<UniqueAddress>,
    pub(super) revision: u64,
    /// What it hears of those.
    pub(super) hears: Vec<u16>,
}

impl LinkRecipient for Script {
    fn handle(&mut self, _: Now, input: Input<'_>) {
        match input {
            Input::Frame { from, lane, .. } => self.heard.push(Heard::Frame(from.clone(), lane)),
            _ => unreachable!("links hand in frames alone"),
        }
    }

    fn poll(&mut self) -> Output {
        self.says.pop_front().map_or(Output::Sleep(None), Output::Effect)
    }

    fn view(&self) -> &Arc<View> {
        &self.view
    }

    fn hears(&self, from: &UniqueAddress, kind: u16) -> bool {
        self.is_member(from) || self.hears.contains(&kind)
    }

    fn revision(&self) -> u64 {
        self.revision
    }

    fn is_member(&self, node: &UniqueAddress) -> bool {
        !self.strangers.contains(node)
    }
}

pub(super) fn node(port: u16, uid: u64) -> UniqueAddress {
    UniqueAddress::new(Address::new("h", port).unwrap(), uid)
}

pub(super) fn me() -> UniqueAddress {
    node(1, 1)
}

pub(super) fn peer() -> UniqueAddress {
    node(2, 2)
}

pub(super) struct Bench {
    pub(super) links: Links,
    pub(super) node: Script,
    halted: bool,
    millis: u64,
}

/// Proofs that name hosts: nobody has to be asked whose a link is.
struct Bound;

impl LinkAuthentication for Bound {
    fn covers(&self, _: Option<&PeerIdentity>, _: &Address) -> Result<(), RejectReason> {
        Ok(())
    }

    fn binds_addresses(&self) -> bool {
        true
    }

    fn believes(&self, _: Option<&PeerIdentity>, _: LinkEnd, _: &Address, _: u64) -> Result<(), String> {
        Err("never".into())
    }
}

impl Bench {
    pub(super) fn new() -> Self {
        Self::limited(|_, _| {})
    }

    /// The same where proofs name hosts.
    pub(super) fn bound() -> Self {
        let mut bench = Self::new();
        bench.links.base.authentication = Box::new(Bound);
        bench
    }

    pub(super) fn limited(change: impl FnOnce(&mut Limits, &mut LinkLimits)) -> Self {
        let mut config = Config::lan(ClusterName::new("c").unwrap());
        let mut limits = LinkLimits::default();
        change(&mut config.limits, &mut limits);
        let limits = limits.validate(&config.limits).unwrap();
        // Two values at their limit fit a frame, whatever the test made of frames.
        let most = config.limits.bulk_frame_bytes_max / 2;
        config.ddata.value_bytes_max = config.ddata.value_bytes_max.min(most);
        let config = config.validate().unwrap();
        let rng = ChaCha8Rng::seed_from_u64(1);
        Self {
            links: Links::new(config, me(), rng, Now::default()).limited(limits),
            node: Script {
                says: VecDeque::new(),
                heard: Vec::new(),
                capacity: true,
                view: Arc::new(View::idle(me())),
                strangers: Vec::new(),
                revision: 0,
                hears: Vec::new(),
            },
            halted: false,
            millis: 0,
        }
    }

    pub(super) fn pass(&mut self, millis: u64) {
        self.millis += millis;
        self.links.set_time(Now {
            mono: Instant::from_millis(self.millis),
            unix_ms: 0,
        });
        while self.links.tick(&mut self.node) {
            self.drive_node();
        }
    }

    /// What a host does between two inputs.
    pub(super) fn drive_node(&mut self) {
        loop {
            if let Some(effect) = self.node.says.pop_front() {
                let view = Arc::clone(&self.node.view);
                if let Some(Effect::Halt(_)) = self.links.perform(&view, effect) {
                    self.halted = true;
                    self.links.stop();
                }
            } else if let Some(event) = self.links.next_event() {
                self.node.heard.push(Heard::Link(event));
            } else {
                return;
            }
        }
    }

    pub(super) fn link(&mut self, input: LinkInput) {
        self.links.handle(&mut self.node, input);
        while self.links.next_urgent_frame(&mut self.node) {
            self.drive_node();
        }
        self.drive_node();
    }

    pub(super) fn read_users(&mut self, frames: usize) {
        for _ in 0..frames {
            let has_room = self.node.capacity;
            if !self.links.next_frame(&mut self.node, has_room) {
                return;
            }
            self.drive_node();
        }
    }

    pub(super) fn has_work(&self) -> bool {
        self.links.has_events() || self.links.has_unread(self.node.capacity)
    }

    pub(super) fn takes_user_commands(&mut self) -> bool {
        !self.links.slows_senders()
    }

    pub(super) fn flush(&mut self) {
        self.drive_node();
        self.links.flush(&self.node);
        while self.links.next_urgent_frame(&mut self.node) {
            self.drive_node();
        }
    }

    pub(super) fn actions(&mut self) -> Vec<LinkOrder> {
        self.flush();
        core::iter::from_fn(|| self.links.next_order()).collect()
    }

    pub(super) fn heard(&mut self) -> Vec<Heard> {
        core::mem::take(&mut self.node.heard)
    }

    pub(super) fn send(&mut self, to: &UniqueAddress, message: Message) {
        let to = SendTarget::Node(to.clone());
        self.says(Effect::Send { to, message });
    }

    pub(super) fn says(&mut self, effect: Effect) {
        self.node.says.push_back(effect);
        self.drive_node();
    }

    /// A read that left a byte of its buffer free.
    pub(super) fn receive(&mut self, link: LinkId, bytes: &[u8]) {
        let mut buffer = bytes.to_vec();
        buffer.push(0);
        let chunk = ReadChunk {
            len: bytes.len(),
            buffer,
            read_at: None,
        };
        self.link(LinkInput::Received(link, chunk));
    }

    pub(super) fn knock(&mut self) -> Option<LinkId> {
        self.knock_from(Ipv4Addr::LOCALHOST)
    }

    pub(super) fn knock_from(&mut self, source: Ipv4Addr) -> Option<LinkId> {
        self.links.accepted(Source::of(source.into()))
    }

    /// An accepted link whose handshake is complete.
    pub(super) fn accepted(&mut self, link: LinkKind, epoch: u32) -> LinkId {
        let id = self.knock().unwrap();
        self.receive(
            id,
            &hello(Hello {
                link,
                epoch,
                ..plain_hello()
            }),
        );
        let answer = self.actions().into_iter().find_map(|action| match action {
            LinkOrder::Write { link, bytes } if link == id => Some(bytes),
            _ => None,
        });
        assert!(matches!(
            decode_answer(&answer.unwrap()),
            HandshakeDecoded::Done {
                value: HelloAnswer::Ack(_),
                ..
            }
        ));
        id
    }

    /// A control link of this node, from there: `None` if it is refused.
    pub(super) fn member(&mut self, from: UniqueAddress, source: Ipv4Addr) -> Option<LinkId> {
        self.greeted(from, source, LinkKind::Control)
    }

    pub(super) fn greeted(
        &mut self,
        from: UniqueAddress,
        source: Ipv4Addr,
        link: LinkKind,
    ) -> Option<LinkId> {
        let id = self.knock_from(source)?;
        self.greet(id, from, link).then_some(id)
    }

    /// Says hello; whether that was welcome.
    pub(super) fn greet(&mut self, id: LinkId, from: UniqueAddress, link: LinkKind) -> bool {
        self.actions();
        self.receive(
            id,
            &hello(Hello {
                link,
                from,
                ..plain_hello()
            }),
        );
        let answers = self.writes();
        let answer = answers.into_iter().find(|(to, _)| *to == id);
        answer.is_some_and(|(_, bytes)| {
            matches!(
                decode_answer(&bytes),
                HandshakeDecoded::Done {
                    value: HelloAnswer::Ack(_),
                    ..
                }
            )
        })
    }

    /// The dial that a message causes.
    pub(super) fn dial(&mut self) -> LinkId {
        let dials: Vec<LinkId> = self
            .actions()
            .into_iter()
            .filter_map(|action| match action {
                LinkOrder::Dial { link, .. } => Some(link),
                _ => None,
            })
            .collect();
        assert_eq!(dials.len(), 1, "{dials:?}");
        dials[0]
    }

    /// Completes the handshake of a dialed link, as `peer`.
    pub(super) fn answer(&mut self, link: LinkId, as_peer: &UniqueAddress) -> Hello {
        self.link(LinkInput::Dialed(link));
        let hello = self.actions().into_iter().find_map(|action| match action {
            LinkOrder::Write { bytes, .. } => Some(bytes),
            _ => None,
        });
        let HandshakeDecoded::Done { value: hello, .. } = decode_hello(&hello.unwrap()) else {
            panic!("no hello");
        };
        self.consent(link, as_peer);
        hello
    }

    /// The last words of the handshake.
    pub(super) fn consent(&mut self, link: LinkId, as_peer: &UniqueAddress) {
        self.consent_with(link, as_peer, 0);
    }

    /// The same, with features.
    pub(super) fn consent_with(&mut self, link: LinkId, as_peer: &UniqueAddress, features: u64) {
        let ack = HelloAck {
            version: 1,
            from: as_peer.clone(),
            features,
            auth_method: 0,
            nonce: [0; 16],
        };
        self.receive(link, &answer_bytes(&HelloAnswer::Ack(ack)));
    }

    pub(super) fn fail_dial(&mut self, link: LinkId) {
        self.link(LinkInput::DialFailed(link, SeedCause::Refused));
    }

    /// Frames of the next write, by link.
    pub(super) fn writes(&mut self) -> Vec<(LinkId, Vec<u8>)> {
        self.actions()
            .into_iter()
            .filter_map(|action| match action {
                LinkOrder::Write { link, bytes } => Some((link, bytes)),
                _ => None,
            })
            .collect()
    }
}

/// A control link that the peer has opened, with epoch 1.
pub(super) fn accepted_control(bench: &mut Bench) -> LinkId {
    bench.accepted(LinkKind::Control, 1)
}

/// The same with another epoch.
pub(super) fn hello_with_epoch(bench: &mut Bench, epoch: u32) -> LinkId {
    bench.accepted(LinkKind::Control, epoch)
}

pub(super) fn plain_hello() -> Hello {
    Hello {
        versions: (1, 1),
        cluster: ClusterName::new("c").unwrap(),
        from: peer(),
        to: me().address().clone(),
        expected_uid: Some(1),
        link: LinkKind::Control,
        epoch: 1,
        features: 0,
        auth_method: 0,
        nonce: [0; 16],
    }
}

fn hello(hello: Hello) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_hello(&hello, &mut bytes).unwrap();
    bytes
}

pub(super) fn answer_bytes(answer: &HelloAnswer) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_answer(answer, &mut bytes).unwrap();
    bytes
}

pub(super) fn heartbeat(to: UniqueAddress) -> Message {
    Message::Detector(DetectorMsg::Heartbeat(Heartbeat::new(&to, 1)))
}

pub(super) fn entity(bytes: usize) -> Message {
    Message::Sharding(ShardingMsg::Entity(EntityEnvelope {
        kind: KindId::of("k"),
        shard: ShardId(0),
        entity: EntityId::from("e"),
        payload: vec![7; bytes].into(),
        ask: None,
        hops: 0,
    }))
}

pub(super) fn gossip(to: UniqueAddress) -> Message {
    Message::Membership(MembershipMsg::Gossip(GossipEnvelope {
        to,
        gossip: Arc::new(Gossip::new()).into(),
    }))
}

pub(super) fn frame(message: &Message, epoch: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_message(message, epoch, &Limits::default(), &mut bytes).unwrap();
    bytes
}

pub(super) fn dropped(heard: &[Heard], why: DropReason) -> usize {
    heard
        .iter()
        .filter(|h| matches!(h, Heard::Link(LinkEvent::Dropped { reason, .. }) if *reason == why))
        .count()
}

pub(super) fn aborts(actions: &[LinkOrder], id: LinkId) -> bool {
    actions
        .iter()
        .any(|action| matches!(action, LinkOrder::Abort(link) | LinkOrder::Finish(link) if *link == id))
}

#[test]
fn i_92_a_link_says_nothing_before_its_handshake_and_everything_after_it() {
    let mut bench = Bench::new();
    let link = bench.knock().unwrap();
    let mut early = hello(plain_hello());
    early.extend(frame(&heartbeat(me()), 1));
    bench.receive(link, &early);
    assert!(aborts(&bench.actions(), link));
    assert_eq!(bench.heard(), []);

    let link = bench.accepted(LinkKind::Control, 1);
    bench.receive(link, &frame(&heartbeat(me()), 1));
    assert_eq!(bench.heard(), [Heard::Frame(peer(), Lane::Control)]);
}

#[test]
fn strangers_are_refused_counted_and_never_reach_the_node() {
    let mut bench = Bench::new();
    let mut refused = |bytes: &[u8]| {
        let link = bench.knock().unwrap();
        bench.receive(link, bytes);
        let actions = bench.actions();
        assert!(aborts(&actions, link));
        let answer = actions.into_iter().find_map(|action| match action {
            // A TLS client is told in its own words.
            LinkOrder::Write { bytes, .. } if bytes != PLAINTEXT_TO_TLS => Some(bytes),
            _ => None,
        });
        answer.map(|bytes| match decode_answer(&bytes) {
            HandshakeDecoded::Done {
                value: HelloAnswer::Reject(HelloReject { reason, .. }),
                ..
            } => reason,
            other => panic!("{other:?}"),
        })
    };
    assert_eq!(refused(b"\x16\x03\x01\x02\x00"), None);
    let mut long = hello(plain_hello());
    long[6..8].copy_from_slice(&u16::MAX.to_le_bytes());
    assert_eq!(refused(&long), None);
    let cluster = ClusterName::new("other").unwrap();
    assert_eq!(
        refused(&hello(Hello {
            cluster,
            ..plain_hello()
        })),
        Some(RejectReason::WrongCluster)
    );
    let versions = (8, 9);
    assert_eq!(
        refused(&hello(Hello {
            versions,
            ..plain_hello()
        })),
        Some(RejectReason::Version)
    );
    let expected_uid = Some(9);
    assert_eq!(
        refused(&hello(Hello {
            expected_uid,
            ..plain_hello()
        })),
        Some(RejectReason::WrongIncarnation { found: 1 })
    );
    let stats = bench.links.stats();
    assert_eq!(stats.handshakes_refused, 5);
    assert_eq!((stats.refused_bad_magic, stats.refused_too_large), (1, 1));
    assert_eq!(
        (
            stats.refused_cluster,
            stats.refused_version,
            stats.refused_incarnation
        ),
        (1, 1, 1)
    );
    assert_eq!(bench.heard(), []);
    assert_eq!(stats.links_open, 0);
}

#[test]
fn b_12_a_handshake_that_dribbles_is_cut_at_its_limit() {
    let mut bench = Bench::new();
    let link = bench.knock().unwrap();
    let whole = hello(plain_hello());
    for byte in &whole[..4] {
        bench.receive(link, &[*byte]);
        bench.pass(1_000);
    }
    assert!(!aborts(&bench.actions(), link));
    bench.pass(1_000);
    assert!(aborts(&bench.actions(), link));
    assert_eq!(bench.links.stats().refused_timeout, 1);
}

#[test]
fn b_52_one_source_may_have_sixteen_pending_handshakes() {
    let mut bench = Bench::new();
    for _ in 0..PENDING_PER_SOURCE_MAX {
        assert!(bench.knock().is_some());
    }
    bench.actions();
    assert!(bench.knock().is_some(), "one of the others goes");
    let gone = |bench: &mut Bench| {
        let actions = bench.actions();
        let aborts = actions.iter().filter(|a| matches!(a, LinkOrder::Abort(_)));
        aborts.count()
    };
    assert_eq!(gone(&mut bench), 1);
    assert!(bench.knock_from(Ipv4Addr::new(10, 0, 0, 1)).is_some());
    assert_eq!(gone(&mut bench), 0);
    let stats = bench.links.stats();
    assert_eq!((stats.handshakes_pending, stats.refused_too_many), (17, 1));
    bench.pass(5_000);
    assert_eq!(bench.links.stats().handshakes_pending, 0);
}

#[test]
fn i_93_frames_and_links_of_an_older_epoch_are_dropped() {
    let mut bench = Bench::bound();
    let old = bench.accepted(LinkKind::Control, 3);
    bench.receive(old, &frame(&heartbeat(me()), 2));
    assert_eq!(bench.heard(), []);
    assert_eq!(bench.links.stats().frames_of_old_epoch, 1);
    let new = bench.accepted(LinkKind::Control, 4);
    // A dialer that renews its link lets the old one be read to its end before it speaks on the new one.
    bench.receive(old, &frame(&heartbeat(me()), 3));
    assert_eq!(bench.heard(), [Heard::Frame(peer(), Lane::Control)]);
    bench.receive(new, &frame(&heartbeat(me()), 4));
    let (heard, superseded) = (
        Heard::Frame(peer(), Lane::Control),
        LinkEvent::Down { peer: peer() },
    );
    assert_eq!(bench.heard(), [heard, Heard::Link(superseded)]);
    assert!(aborts(&bench.actions(), old));
    bench.receive(old, &frame(&heartbeat(me()), 3));
    assert_eq!(bench.heard(), []);
    let late = bench.knock().unwrap();
    bench.receive(late, &hello(plain_hello()));
    assert!(aborts(&bench.actions(), late));
}

#[test]
fn b_14_three_wrong_checksums_close_a_link_and_one_does_not() {
    let mut bench = Bench::new();
    let link = bench.accepted(LinkKind::Control, 1);
    let good = frame(&heartbeat(me()), 1);
    let mut bad = good.clone();
    *bad.last_mut().unwrap() ^= 1;
    bench.receive(link, &[bad.clone(), good].concat());
    assert_eq!(bench.heard(), [Heard::Frame(peer(), Lane::Control)]);
    for _ in 1..CHECKSUM_FAILURES_MAX {
        assert!(!aborts(&bench.actions(), link));
        bench.receive(link, &bad);
    }
    assert!(aborts(&bench.actions(), link));
}

#[test]
fn b_11_half_a_frame_and_silence_closes_the_link_and_a_growing_frame_does_not() {
    let mut bench = Bench::new();
    let link = bench.accepted(LinkKind::Control, 1);
    let whole = frame(&heartbeat(me()), 1);
    bench.receive(link, &whole[..whole.len() - 1]);
    bench.pass(4_999);
    assert!(!aborts(&bench.actions(), link));
    bench.pass(1);
    assert!(aborts(&bench.actions(), link));

    let link = bench.accepted(LinkKind::User, 2);
    let large = frame(&entity(200 << 10), 2);
    for piece in large.chunks(50 << 10) {
        bench.receive(link, piece);
        bench.read_users(8);
        assert!(!aborts(&bench.actions(), link));
        bench.pass(4_000);
    }
    let frames = bench
        .heard()
        .into_iter()
        .filter(|h| matches!(h, Heard::Frame(..)));
    assert_eq!(frames.count(), 1);
}

#[test]
fn m_421_a_user_link_is_paused_while_there_is_no_room_and_the_control_link_is_not() {
    let mut bench = Bench::new();
    let control = bench.accepted(LinkKind::Control, 1);
    let user = bench.accepted(LinkKind::User, 2);
    bench.node.capacity = false;
    bench.receive(user, &frame(&entity(10), 2));
    bench.receive(control, &frame(&heartbeat(me()), 1));
    bench.read_users(100);
    assert_eq!(bench.heard(), [Heard::Frame(peer(), Lane::Control)]);
    let resumed = |actions: Vec<LinkOrder>| -> Vec<LinkId> {
        actions
            .into_iter()
            .filter_map(|action| match action {
                LinkOrder::Resume { link, .. } => Some(link),
                _ => None,
            })
            .collect()
    };
    assert_eq!(resumed(bench.actions()), [control]);
    assert!(!bench.has_work());
    bench.node.capacity = true;
    assert!(bench.has_work());
    bench.read_users(100);
    assert_eq!(bench.heard(), [Heard::Frame(peer(), Lane::User)]);
    assert_eq!(resumed(bench.actions()), [user]);
    assert_eq!(bench.links.stats().user_reads_paused, 1);
}

#[test]
fn a_lane_on_the_wrong_link_closes_it() {
    let mut bench = Bench::new();
    let user = bench.accepted(LinkKind::User, 1);
    bench.receive(user, &frame(&heartbeat(me()), 1));
    bench.read_users(100);
    assert!(aborts(&bench.actions(), user));
    assert_eq!(bench.heard(), []);
}

#[test]
fn a_peer_that_keeps_sending_nonsense_is_quarantined() {
    use quorate_core::wire::WireError;
    let mut bench = Bench::bound();
    let say = |bench: &mut Bench, error: WireError, epoch: u32| {
        let link = bench.accepted(LinkKind::Control, epoch);
        bench.node.says.push_back(Effect::Notify(Event::Rejected {
            peer: peer(),
            rejection: Rejection::Wire(error),
        }));
        bench.drive_node();
        aborts(&bench.actions(), link)
    };
    assert!(!say(&mut bench, WireError::UnknownKind { kind: 9 }, 1));
    for epoch in 2..5 {
        assert!(!bench.links.quarantine.contains(&peer()));
        assert!(say(&mut bench, WireError::TrailingBytes, epoch));
    }
    assert!(bench.links.quarantine.contains(&peer()));
    let told = Heard::Link(LinkEvent::Quarantined { peer: peer() });
    assert!(
        bench.heard().contains(&told),
        "the node knows why it hears nothing of it"
    );
}

#[test]
fn a_message_dials_greets_and_is_written_once_per_turn() {
    let mut bench = Bench::new();
    bench.send(&peer(), heartbeat(peer()));
    let link = bench.dial();
    let hello = bench.answer(link, &peer());
    assert_eq!((hello.expected_uid, hello.link), (Some(2), LinkKind::Control));
    assert_eq!(bench.heard(), []);
    for _ in 0..3 {
        bench.send(&peer(), heartbeat(peer()));
    }
    let one = frame(&heartbeat(peer()), hello.epoch);
    assert_eq!(bench.writes(), [(link, one.repeat(4))]);
    bench.send(&peer(), heartbeat(peer()));
    // The first write is still under way.
    assert_eq!(bench.writes(), []);
    bench.link(LinkInput::Written(link, one.repeat(4)));
    assert_eq!(bench.writes(), [(link, one)]);
}

#[test]
fn i_44_what_waits_for_an_unreachable_peer_comes_back_after_three_dials() {
    let mut bench = Bench::new();
    for _ in 0..100 {
        bench.send(&peer(), heartbeat(peer()));
    }
    for attempt in 1..=3 {
        let link = bench.dial();
        assert_eq!(
            dropped(&bench.heard(), DropReason::Unreachable),
            0,
            "dial {attempt}"
        );
        bench.fail_dial(link);
        if attempt < 3 {
            bench.pass(1_300);
        }
    }
    let heard = bench.heard();
    assert_eq!(dropped(&heard, DropReason::Unreachable), 100);
    assert_eq!(
        heard.last(),
        Some(&Heard::Link(LinkEvent::Down { peer: peer() })),
        "what was not sent comes first"
    );
    // Nothing waits: nobody is dialed until something does.
    bench.pass(1_300);
    let dials = |action: &LinkOrder| matches!(action, LinkOrder::Dial { .. });
    assert!(!bench.actions().iter().any(dials));
    bench.send(&peer(), heartbeat(peer()));
    let link = bench.dial();
    bench.fail_dial(link);
    assert_eq!(dropped(&bench.heard(), DropReason::Unreachable), 1);
}

#[test]
fn a_peer_that_never_answers_the_dial_is_unreachable_at_the_handshake_limit() {
    let mut bench = Bench::new();
    bench.send(&peer(), heartbeat(peer()));
    let link = bench.dial();
    bench.pass(4_999);
    assert!(!aborts(&bench.actions(), link));
    bench.pass(1);
    assert!(aborts(&bench.actions(), link));
    assert_eq!(dropped(&bench.heard(), DropReason::Unreachable), 1);
}

#[test]
fn i_44_messages_for_an_incarnation_that_is_gone_come_back_and_others_do_not() {
    let mut bench = Bench::new();
    let gone = node(2, 99);
    bench.send(&gone, heartbeat(gone.clone()));
    bench.send(&peer(), heartbeat(peer()));
    let link = bench.dial();
    bench.link(LinkInput::Dialed(link));
    bench.actions();
    let reject = HelloReject {
        reason: RejectReason::WrongIncarnation { found: 2 },
        versions: (1, 1),
    };
    bench.receive(link, &answer_bytes(&HelloAnswer::Reject(reject)));
    let heard = bench.heard();
    assert_eq!(
        heard.last(),
        Some(&Heard::Link(LinkEvent::WrongIncarnation {
            expected: gone.clone(),
            found: peer()
        }))
    );
    assert_eq!(dropped(&heard, DropReason::Unreachable), 1);
    bench.actions();
    bench.pass(1_300);
    let link = bench.dial();
    let hello = bench.answer(link, &peer());
    assert_eq!(hello.expected_uid, Some(2));
    assert_eq!(bench.writes(), [(link, frame(&heartbeat(peer()), hello.epoch))]);
    bench.heard();
    // On an open link as well.
    bench.send(&gone, heartbeat(gone.clone()));
    assert_eq!(dropped(&bench.heard(), DropReason::Unreachable), 1);
}

#[test]
fn i_44_a_successor_is_answered_although_messages_for_its_predecessor_keep_coming() {
    let mut bench = Bench::new();
    let gone = node(2, 99);
    let refuse = |bench: &mut Bench| {
        let link = bench.dial();
        bench.link(LinkInput::Dialed(link));
        bench.actions();
        let reject = HelloReject {
            reason: RejectReason::WrongIncarnation { found: 2 },
            versions: (1, 1),
        };
        bench.receive(link, &answer_bytes(&HelloAnswer::Reject(reject)));
        let lost = dropped(&bench.heard(), DropReason::Unreachable);
        bench.actions();
        lost
    };
    // Something always waits, for longer and more often than what waits at an address where nobody answers is
    // kept.
    bench.send(&gone, heartbeat(gone.clone()));
    for _ in 0..8 {
        assert_eq!(refuse(&mut bench), 1);
        bench.send(&gone, heartbeat(gone.clone()));
        bench.pass(4_000);
    }
    bench.send(&peer(), heartbeat(peer()));
    assert_eq!(refuse(&mut bench), 1, "what waits for the successor stays");
    bench.pass(1_300);
    let link = bench.dial();
    assert_eq!(bench.answer(link, &peer()).expected_uid, Some(2));
}

#[test]
fn i_95_each_lane_has_its_bound_and_its_rule() {
    let mut bench = Bench::new();
    for _ in 0..USER_QUEUE_MAX + 5 {
        bench.send(&peer(), entity(1));
    }
    assert_eq!(dropped(&bench.heard(), DropReason::QueueFull), 5);
    for _ in 0..GOSSIP_QUEUE_MAX + 5 {
        bench.send(&peer(), gossip(peer()));
    }
    let queued = |bench: &Bench, lane| bench.links.outbound.queued(peer().address(), lane);
    assert_eq!(queued(&bench, Lane::Gossip), GOSSIP_QUEUE_MAX);
    assert_eq!(queued(&bench, Lane::User), USER_QUEUE_MAX);
    assert_eq!(bench.links.stats().gossip_shed, 5);
    for _ in 0..=CONTROL_QUEUE_MAX {
        bench.send(&peer(), heartbeat(peer()));
    }
    // All of the link's messages, the gossip included, are accounted for.
    while bench.has_work() {
        bench.flush();
    }
    let heard = bench.heard();
    assert_eq!(
        dropped(&heard, DropReason::QueueFull),
        CONTROL_QUEUE_MAX + 1 + GOSSIP_QUEUE_MAX
    );
    assert_eq!(bench.links.stats().links_closed_for_control_overflow, 1);
    assert_eq!(queued(&bench, Lane::User), USER_QUEUE_MAX);
}

#[test]
fn a_slow_peer_slows_senders_down_and_a_dead_one_does_not() {
    let mut bench = Bench::new();
    bench.send(&peer(), entity(1));
    let link = bench.dial();
    bench.answer(link, &peer());
    bench.actions();
    let mut sent = 0;
    while bench.links.outbound.queued(peer().address(), Lane::User) < USER_QUEUE_SLOW {
        assert!(bench.takes_user_commands());
        bench.send(&peer(), entity(100));
        sent += 1;
    }
    assert!(sent * 100 > OUT_BYTES_MAX / 2);
    assert!(!bench.takes_user_commands());
    bench.pass(u64::try_from(SLOW_PEER_PATIENCE.as_millis()).unwrap());
    assert!(bench.takes_user_commands());
    assert_eq!(dropped(&bench.heard(), DropReason::QueueFull), 0);
}

#[test]
fn a_message_that_fits_no_frame_comes_back() {
    let mut bench = Bench::new();
    bench.send(&peer(), entity(1));
    let link = bench.dial();
    bench.answer(link, &peer());
    bench.send(&peer(), entity(5 << 20));
    assert_eq!(dropped(&bench.heard(), DropReason::TooLarge), 1);
    assert_eq!(bench.writes().len(), 1);
}

#[test]
fn a_quarantined_incarnation_is_cut_off_both_ways() {
    let mut bench = Bench::new();
    let inbound = bench.accepted(LinkKind::Control, 1);
    bench.send(&peer(), heartbeat(peer()));
    let outbound = bench.dial();
    bench.answer(outbound, &peer());
    bench.heard();
    bench.node.says.push_back(Effect::Quarantine(peer()));
    bench.drive_node();
    let actions = bench.actions();
    assert!(aborts(&actions, inbound) && aborts(&actions, outbound));
    bench.heard();
    bench.send(&peer(), heartbeat(peer()));
    assert_eq!(dropped(&bench.heard(), DropReason::Unreachable), 1);
    let link = bench.knock().unwrap();
    bench.receive(link, &hello(plain_hello()));
    assert!(aborts(&bench.actions(), link));
    assert_eq!(bench.links.stats().refused_quarantined, 1);
}

#[test]
fn a_node_is_told_that_a_peer_refuses_it_for_good_once_it_is_sure_which_peer() {
    for (expected, told) in [(Some(peer()), true), (None, false)] {
        let mut bench = Bench::new();
        match &expected {
            Some(node) => bench.send(node, heartbeat(node.clone())),
            None => {
                let to = SendTarget::Address(peer().address().clone());
                let message = Message::Membership(MembershipMsg::InitJoinNack);
                bench.node.says.push_back(Effect::Send { to, message });
                bench.drive_node();
            }
        }
        let link = bench.dial();
        bench.link(LinkInput::Dialed(link));
        bench.actions();
        let reject = HelloReject {
            reason: RejectReason::Quarantined,
            versions: (1, 1),
        };
        bench.receive(link, &answer_bytes(&HelloAnswer::Reject(reject)));
        let by = Heard::Link(LinkEvent::QuarantinedBy { peer: peer() });
        assert_eq!(bench.heard().contains(&by), told, "{expected:?}");
    }
}

#[test]
fn a_broken_link_is_told_and_what_waits_goes_over_the_next_one() {
    let mut bench = Bench::new();
    bench.send(&peer(), heartbeat(peer()));
    let first = bench.dial();
    let before = bench.answer(first, &peer());
    bench.actions();
    bench.heard();
    bench.link(LinkInput::Closed(first));
    assert_eq!(bench.heard(), [Heard::Link(LinkEvent::Down { peer: peer() })]);
    bench.actions();
    bench.send(&peer(), heartbeat(peer()));
    bench.pass(100);
    let second = bench.dial();
    let after = bench.answer(second, &peer());
    assert!(after.epoch > before.epoch);
    assert_eq!(bench.writes(), [(second, frame(&heartbeat(peer()), after.epoch))]);
}

#[test]
fn a_node_that_halts_writes_what_waits_and_closes() {
    let mut bench = Bench::new();
    bench.send(&peer(), heartbeat(peer()));
    let link = bench.dial();
    bench.answer(link, &peer());
    bench.send(&peer(), heartbeat(peer()));
    bench.node.says.push_back(Effect::Halt(HaltReason::Left));
    let actions = bench.actions();
    let wrote = actions
        .iter()
        .position(|a| matches!(a, LinkOrder::Write { link: l, .. } if *l == link));
    let finished = actions
        .iter()
        .position(|a| matches!(a, LinkOrder::Finish(l) if *l == link));
    assert!(wrote.is_some() && wrote < finished, "{wrote:?} {finished:?}");
}

#[test]
fn links_of_silent_strangers_are_swept_away() {
    let mut bench = Bench::new();
    let link = bench.accepted(LinkKind::Control, 1);
    for _ in 0..5 {
        bench.pass(10_000);
    }
    bench.receive(link, &frame(&heartbeat(me()), 1));
    for _ in 0..5 {
        bench.pass(10_000);
        assert!(!aborts(&bench.actions(), link));
    }
    bench.pass(10_000);
    assert!(aborts(&bench.actions(), link));
}

#[test]
fn the_deadline_is_the_earliest_of_all() {
    let mut bench = Bench::new();
    let sweep = bench.links.deadline().unwrap();
    bench.knock().unwrap();
    assert!(bench.links.deadline().unwrap() < sweep);
    bench.pass(5_000);
    assert_eq!(bench.links.deadline(), Some(sweep));
    assert_eq!(sweep, Instant::ZERO + Duration::from_secs(10));
}

fn resumed(actions: &[LinkOrder], wanted: LinkId) -> bool {
    actions
        .iter()
        .any(|action| matches!(action, LinkOrder::Resume { link, .. } if *link == wanted))
}

/// A frame in reads of at most so many bytes; says how many frames the node heard.
fn deliver(bench: &mut Bench, link: LinkId, bytes: &[u8], read: usize) -> usize {
    for piece in bytes.chunks(read) {
        bench.receive(link, piece);
        bench.read_users(64);
    }
    let heard = bench.heard();
    heard
        .iter()
        .filter(|heard| matches!(heard, Heard::Frame(..)))
        .count()
}

#[test]
fn gossip_that_has_waited_for_longer_than_its_time_to_live_is_dropped_and_counted() {
    let mut bench = Bench::new();
    let link = bench.accepted(LinkKind::Control, 1);
    bench.pass(3_000);
    let bytes = [frame(&gossip(me()), 1), frame(&heartbeat(me()), 1)].concat();
    let mut heard_of = |read_at| {
        let mut chunk = ReadChunk::from(&bytes[..]);
        chunk.buffer.push(0);
        chunk.read_at = read_at;
        bench.link(LinkInput::Received(link, chunk));
        let heard = bench.heard();
        let frames = heard.iter().filter(|heard| matches!(heard, Heard::Frame(..)));
        (frames.count(), bench.links.stats().gossip_frames_stale)
    };
    let at = |millis| Some(Instant::from_millis(millis));
    assert_eq!(heard_of(None), (2, 0));
    assert_eq!(heard_of(at(1_000)), (2, 0), "two seconds old");
    assert_eq!(heard_of(at(999)), (1, 1), "the heartbeat is handled all the same");
    assert_eq!(heard_of(at(3_000)), (2, 1));
}

#[test]
fn b_51_gossip_beyond_the_rate_is_dropped_and_counted_and_ten_seconds_of_it_end_the_link() {
    let mut bench = Bench::new();
    let link = bench.accepted(LinkKind::Control, 1);
    let flood = frame(&gossip(me()), 1).repeat(1_000);
    assert_eq!(deliver(&mut bench, link, &flood, 1 << 20), 200);
    assert_eq!(bench.links.stats().gossip_frames_beyond_rate, 800);
    // Heartbeats have a rate of their own.
    assert_eq!(deliver(&mut bench, link, &frame(&heartbeat(me()), 1), 1 << 20), 1);
    for _ in 0..19 {
        assert!(!aborts(&bench.actions(), link));
        bench.pass(500);
        deliver(&mut bench, link, &flood, 1 << 20);
    }
    bench.pass(500);
    deliver(&mut bench, link, &flood, 1 << 20);
    assert!(aborts(&bench.actions(), link));
    assert_eq!(bench.links.stats().links_closed_for_rate, 1);
    // A new link is no new allowance.
    let again = bench.accepted(LinkKind::Control, 2);
    let flood = frame(&gossip(me()), 2).repeat(1_000);
    assert_eq!(deliver(&mut bench, again, &flood, 1 << 20), 0);
}

#[test]
fn a_frame_that_finds_no_room_waits_unread_and_goes_on_when_there_is_room() {
    let mut bench = Bench::limited(|_, limits| limits.inbound_bytes_max = 8 << 20);
    let one = bench.accepted(LinkKind::User, 1);
    let knock = |bench: &mut Bench, link, port, epoch| {
        let id = bench.knock().unwrap();
        let from = node(port, u64::from(port));
        let hello = hello(Hello {
            link,
            epoch,
            from,
            ..plain_hello()
        });
        bench.receive(id, &hello);
        bench.actions();
        id
    };
    let other = knock(&mut bench, LinkKind::User, 3, 1);
    let control = knock(&mut bench, LinkKind::Control, 3, 2);
    let large = frame(&entity(4_000_000), 1);
    let (begin, end) = large.split_at(60_000);
    bench.receive(one, begin);
    bench.receive(other, begin);
    bench.read_users(64);
    let actions = bench.actions();
    assert!(resumed(&actions, one) && !resumed(&actions, other));
    let stats = bench.links.stats();
    assert_eq!(stats.inbound_waits, 1);
    assert!(stats.inbound_bytes_held > 4_000_000 && stats.inbound_bytes_held < 8 << 20);
    assert!(!bench.has_work(), "waiting costs nothing");

    // Heartbeats of the same peer, and of everybody else, pass meanwhile.
    assert_eq!(deliver(&mut bench, control, &frame(&heartbeat(me()), 2), 10), 1);
    // Nothing was asked of the waiting link, so its silence is no crime.
    bench.pass(4_000);
    assert_eq!(deliver(&mut bench, one, end, 60_000), 1);
    bench.read_users(64);
    assert!(resumed(&bench.actions(), other));
    assert_eq!(deliver(&mut bench, other, end, 60_000), 1);
    let idle = bench.links.stats().inbound_bytes_held;
    assert_eq!(idle, 3 * 2 * READ_BYTES_MIN as u64);
}

#[test]
fn whoever_holds_room_that_others_wait_for_has_to_be_quick() {
    let mut bench = Bench::limited(|_, limits| limits.inbound_bytes_max = 8 << 20);
    let slow = bench.accepted(LinkKind::Control, 1);
    let large = frame(&entity(4_000_000), 1);
    let user = bench.accepted(LinkKind::User, 2);
    bench.receive(slow, &gossip_header(4 << 20, 1));
    let second = frame(&entity(4_000_000), 2);
    bench.receive(user, &second[..60_000]);
    bench.read_users(64);
    assert_eq!(bench.links.stats().inbound_waits, 1);
    bench.pass(3_000);
    bench.receive(slow, &large[..20_000]);
    assert!(!aborts(&bench.actions(), slow));
    bench.pass(2_000);
    let actions = bench.actions();
    assert!(aborts(&actions, slow), "it grew, but others wait");
    assert_eq!(bench.links.stats().links_closed_for_stalled_frame, 1);
    bench.read_users(64);
    assert!(resumed(&bench.actions(), user));
}

/// The header of a gossip frame whose body is not there yet.
pub(super) fn gossip_header(bytes: u32, epoch: u32) -> Vec<u8> {
    let mut header = frame(&gossip(me()), epoch);
    header.truncate(20);
    header[8..12].copy_from_slice(&bytes.to_le_bytes());
    header
}

#[test]
fn read_buffers_grow_while_there_is_room_and_links_are_refused_when_there_is_none() {
    let mut bench = Bench::limited(|frames, limits| {
        frames.control_frame_bytes_max = 1 << 10;
        frames.gossip_frame_bytes_max = 8 << 10;
        frames.user_frame_bytes_max = 1 << 10;
        frames.bulk_frame_bytes_max = 2 << 10;
        limits.inbound_bytes_max = 1 << 20;
        limits.pending_handshakes_per_source_max = 4_096;
    });
    let link = bench.accepted(LinkKind::Control, 1);
    let mut size = READ_BYTES_MIN;
    while size < READ_BYTES_MAX {
        let mut bytes = Vec::new();
        while bytes.len() < size {
            bytes.extend(frame(&heartbeat(me()), 1));
        }
        bytes.truncate(size);
        // What is left of the last frame comes with the next read.
        let rest = size % frame(&heartbeat(me()), 1).len();
        bytes.truncate(size - rest);
        let mut buffer = bytes.clone();
        buffer.truncate(bytes.len());
        let len = buffer.len();
        bench.link(LinkInput::Received(
            link,
            ReadChunk {
                buffer,
                len,
                read_at: None,
            },
        ));
        let grown = bench.actions().into_iter().find_map(|action| match action {
            LinkOrder::Resume { chunk, .. } => Some(chunk.buffer.len()),
            _ => None,
        });
        assert_eq!(grown, Some(2 * len));
        size *= 2;
    }
    let mut links = 1;
    while bench.member(node(9, links), Ipv4Addr::LOCALHOST).is_some() {
        links += 1;
    }
    assert!((100..128).contains(&links), "{links}");
    assert_eq!(bench.links.stats().refused_too_many, 1);
}

#[test]
fn what_came_of_a_seeds_dial_is_said_until_a_control_link_to_it_is_open() {
    let cause = |bench: &mut Bench| {
        let seeds = vec![SeedFailure {
            seed: peer().address().clone(),
            cause: SeedCause::NoAnswer,
        }];
        let reason = JoinFailure::NoSeedAnswered { attempt: 1, seeds };
        let event = Event::Membership(MembershipEvent::JoinFailed { reason });
        let told = bench.links.perform(&bench.node.view, Effect::Notify(event));
        let Some(Effect::Notify(Event::Membership(MembershipEvent::JoinFailed {
            reason: JoinFailure::NoSeedAnswered { seeds, .. },
        }))) = told
        else {
            panic!("{told:?}")
        };
        seeds[0].cause.clone()
    };
    let mut bench = Bench::new();
    assert_eq!(cause(&mut bench), SeedCause::NoAnswer, "nothing was dialed");
    bench.send(&peer(), heartbeat(peer()));
    let control = bench.dial();
    bench.fail_dial(control);
    assert_eq!(cause(&mut bench), SeedCause::Refused);
    bench.send(&peer(), entity(1));
    let user = bench.dial();
    bench.answer(user, &peer());
    assert_eq!(
        cause(&mut bench),
        SeedCause::Refused,
        "joining needs another link"
    );
    bench.pass(1_300);
    let control = bench.dial();
    bench.answer(control, &peer());
    assert_eq!(cause(&mut bench), SeedCause::NoAnswer);
}
