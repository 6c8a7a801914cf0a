//! The pump without a runtime and without a socket: a scripted node inside, the test as the hands outside.
//! What its links do is tested where they live, in `quorate-links`. Spec: reliability 3b, I-44.

use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::time::Duration;

use super::*;
use crate::lease::MemoryLeases;
use crate::security::Authentication;
use crate::stats::{BucketState, KindState, PathState};
use crate::sync::Notify;
use crate::testing::block_on;
use quorate_core::config::{Config, Limits};
use quorate_core::effect::{Effect, Output};
use quorate_core::event::{Event, MembershipEvent};
use quorate_core::ident::{Address, ClusterName};
use quorate_core::input::HostReport;
use quorate_core::input::{LinkEvent, SendTarget};
use quorate_core::lease::protocol::LeaseOrder;
use quorate_core::message::{AskTicket, DetectorMsg, EntityEnvelope, Heartbeat, Lane, Message, ShardingMsg};
use quorate_core::owner::Requester;
use quorate_core::sharding::chain::AskChain;
use quorate_core::sharding::ids::{AskRef, EntityId, KindId, ShardId};
use quorate_core::stats::Stats;
use quorate_core::wire::encode_message;
use quorate_core::wire::handshake::{
    HandshakeDecoded, Hello, HelloAck, HelloAnswer, LinkKind, decode_answer, decode_hello, encode_answer,
    encode_hello,
};
use quorate_links::{LinkLimits, LinkOrder, LinkRecipient, ReadChunk};

/// What the scripted node was told.
#[derive(Debug, PartialEq)]
pub(super) enum Heard {
    Frame(UniqueAddress, Lane),
    Link(LinkEvent),
    Stored(quorate_core::owner::Requester, quorate_core::store::StoreReport),
    Instance(HostReport),
    Stop,
    Other,
}

/// A node that says what the test wants and writes down what it hears.
#[derive(Debug)]
pub(super) struct Script {
    pub(super) says: VecDeque<Effect>,
    heard: Vec<Heard>,
    view: Arc<View>,
    stats: Stats,
    /// Who is no member, and how often that has changed.
    pub(super) strangers: Vec<UniqueAddress>,
    pub(super) revision: u64,
    /// What it hears of those.
    pub(super) hears: Vec<u16>,
}

impl LinkRecipient for Script {
    fn handle(&mut self, _: Now, input: Input<'_>) {
        self.heard.push(match input {
            Input::Frame { from, lane, .. } => Heard::Frame(from.clone(), lane),
            Input::Link(event) => Heard::Link(event),
            Input::Stored(owner, report) => Heard::Stored(owner, report),
            Input::Host(Requester::Singleton, report) => Heard::Instance(report),
            Input::Tick
            | Input::Message { .. }
            | Input::Command { .. }
            | Input::Tell { .. }
            | Input::Host(..)
            | Input::Lease(..)
            | Input::Load(_) => Heard::Other,
        });
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

impl Machine for Script {
    fn stop(&mut self, _: Now) {
        self.heard.push(Heard::Stop);
    }

    fn stats(&self) -> &Stats {
        &self.stats
    }

    fn paths(&self) -> Vec<PathState> {
        Vec::new()
    }

    fn buckets(&self, _: Instant) -> Vec<BucketState> {
        Vec::new()
    }

    fn kinds(&self) -> Vec<KindState> {
        Vec::new()
    }

    fn hosted_shards(&self) -> Vec<(KindId, u32)> {
        Vec::new()
    }

    fn own_load(&self) -> quorate_core::load::state::sample::LoadSample {
        quorate_core::load::state::sample::LoadSample::default()
    }

    fn singleton(
        &self,
        _: quorate_core::singleton::state::SingletonId,
    ) -> Option<quorate_core::singleton::state::SingletonState> {
        None
    }

    fn explain(&self) -> quorate_core::explain::Explanation {
        quorate_core::explain::Explanation {
            node: self.view.me().clone(),
            findings: Vec::new(),
        }
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
    pub(super) pump: Pump<Script>,
    /// It has said so.
    halted: bool,
    millis: u64,
    /// The wall clock, which stands still.
    pub(super) unix_ms: u64,
}

impl Bench {
    pub(super) fn new() -> Self {
        Self::limited(|_| {})
    }

    pub(super) fn limited(change: impl FnOnce(&mut LinkLimits)) -> Self {
        Self::with(me(), Authentication::None, change)
    }

    /// A node of this name that asks for this proof.
    pub(super) fn of(me: UniqueAddress, authentication: Authentication) -> Self {
        Self::with(me, authentication, |_| {})
    }

    pub(super) fn with(
        me: UniqueAddress,
        authentication: Authentication,
        change: impl FnOnce(&mut LinkLimits),
    ) -> Self {
        Self::seeded(1, me, authentication, change)
    }

    /// The same with other nonces.
    pub(super) fn seeded(
        seed: u64,
        me: UniqueAddress,
        authentication: Authentication,
        change: impl FnOnce(&mut LinkLimits),
    ) -> Self {
        Self::configured(
            seed,
            me,
            Config::lan(ClusterName::new("c").unwrap()),
            authentication,
            change,
        )
    }

    /// The same with other settings.
    pub(super) fn configured(
        seed: u64,
        me: UniqueAddress,
        config: Config,
        authentication: Authentication,
        change: impl FnOnce(&mut LinkLimits),
    ) -> Self {
        let config = config.validate().unwrap();
        let mut limits = LinkLimits::default();
        change(&mut limits);
        let mut parts = Parts {
            limits: limits.validate(&config.limits).unwrap(),
            config,
            me: me.clone(),
            rng: ChaCha8Rng::seed_from_u64(seed),
            reports: Arc::new(Reports::default()),
            authentication,
        };
        let links = parts.links(Now::default());
        let base = PumpBase::new(parts.config, me.clone(), Now::default());
        let script = Script {
            says: VecDeque::new(),
            heard: Vec::new(),
            view: Arc::new(View::idle(me)),
            stats: Stats::default(),
            strangers: Vec::new(),
            revision: 0,
            hears: Vec::new(),
        };
        Self {
            pump: Pump::around(script, links, base, parts.reports),
            halted: false,
            millis: 0,
            unix_ms: 0,
        }
    }

    pub(super) fn pass(&mut self, millis: u64) {
        self.millis += millis;
        self.pump.set_time(Now {
            mono: Instant::from_millis(self.millis),
            unix_ms: self.unix_ms,
        });
        self.pump.tick();
    }

    /// What there is to do with links. Whether the pump has halted is noted.
    pub(super) fn actions(&mut self) -> Vec<LinkOrder> {
        self.pump.flush();
        let mut orders = Vec::new();
        while let Some(action) = self.pump.next_action() {
            assert!(!self.halted, "a halt is the last of all");
            match action {
                LoopAction::Link(order) => orders.push(order),
                LoopAction::Halt(_) => self.halted = true,
                LoopAction::Answer(reply, answer) => reply.send(answer),
                LoopAction::Start(_) | LoopAction::Publish(_) => {}
            }
        }
        orders
    }

    pub(super) fn heard(&mut self) -> Vec<Heard> {
        std::mem::take(&mut self.pump.linked.node.heard)
    }

    pub(super) fn send(&mut self, to: &UniqueAddress, message: Message) {
        let to = SendTarget::Node(to.clone());
        self.says(Effect::Send { to, message });
    }

    pub(super) fn says(&mut self, effect: Effect) {
        self.pump.linked.node.says.push_back(effect);
        self.pump.drive_node();
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
        self.pump.link(LinkInput::Received(link, chunk));
    }

    pub(super) fn knock(&mut self) -> Option<LinkId> {
        self.knock_from(Ipv4Addr::LOCALHOST)
    }

    pub(super) fn knock_from(&mut self, source: Ipv4Addr) -> Option<LinkId> {
        self.pump.accepted(Source::of(source.into()))
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
        self.pump.link(LinkInput::Dialed(link));
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

    /// Nobody is at the other end.
    #[cfg(feature = "psk")]
    pub(super) fn fail_dial(&mut self, link: LinkId) {
        let cause = quorate_core::event::SeedCause::Refused;
        self.pump.link(LinkInput::DialFailed(link, cause));
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

    /// Frames of the next write, by link.
    #[cfg(feature = "psk")]
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

pub(super) fn frame(message: &Message, epoch: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_message(message, epoch, &Limits::default(), &mut bytes).unwrap();
    bytes
}

#[cfg(feature = "psk")]
pub(super) fn aborts(actions: &[LinkOrder], id: LinkId) -> bool {
    actions
        .iter()
        .any(|action| matches!(action, LinkOrder::Abort(link) | LinkOrder::Finish(link) if *link == id))
}

#[test]
fn a_node_that_halts_writes_what_waits_and_closes() {
    let mut bench = Bench::new();
    bench.send(&peer(), heartbeat(peer()));
    let link = bench.dial();
    bench.answer(link, &peer());
    bench.send(&peer(), heartbeat(peer()));
    bench
        .pump
        .linked
        .node
        .says
        .push_back(Effect::Halt(HaltReason::Left));
    let actions = bench.actions();
    let wrote = actions
        .iter()
        .position(|a| matches!(a, LinkOrder::Write { link: l, .. } if *l == link));
    let finished = actions
        .iter()
        .position(|a| matches!(a, LinkOrder::Finish(l) if *l == link));
    assert!(
        wrote.is_some() && wrote < finished && bench.halted,
        "{wrote:?} {finished:?}"
    );
    assert!(bench.knock().is_none());
}

/// An ask of this node to an entity over there.
fn own_ask(id: u64) -> Message {
    Message::Sharding(ShardingMsg::Entity(EntityEnvelope {
        kind: KindId::of("files"),
        shard: ShardId(0),
        entity: EntityId::from("e"),
        payload: vec![7; 10].into(),
        ask: Some(AskTicket {
            ask: AskRef { asker: me(), id },
            remaining_ms: 5_000,
            chain: AskChain::default(),
        }),
        hops: 0,
    }))
}

#[test]
fn i_44_a_node_that_ends_hears_what_no_writer_has_before_it_answers_the_rest() {
    for stops in [false, true] {
        let mut bench = Bench::new();
        bench.send(&peer(), own_ask(1));
        bench.send(&peer(), own_ask(2));
        bench.pump.hosted.is_told(
            Requester::Sharding,
            HostReport::Answered {
                ask: AskRef { asker: me(), id: 3 },
                result: Ok(Box::from([1])),
            },
        );
        bench.heard();
        if stops {
            bench.pump.stop();
        } else {
            let ends = MembershipEvent::SelfRemoved;
            bench.says(Effect::Notify(Event::Membership(ends)));
        }
        let heard = bench.heard();
        let heard = heard.strip_prefix([Heard::Stop].as_slice()).unwrap_or(&heard);
        let dropped = |heard: &Heard| matches!(heard, Heard::Link(LinkEvent::Dropped { .. }));
        assert!(
            heard.len() == 3 && heard[..2].iter().all(dropped) && heard[2] == Heard::Other,
            "stops: {stops}, {heard:?}"
        );
    }
}

#[test]
fn i_26_the_loop_wakes_for_the_end_of_a_lease() {
    const TIME: Duration = Duration::from_secs(5);
    let mut bench = Bench::new();
    let keeper = Arc::new(MemoryLeases::new());
    let wake = Arc::new(Notify::default());
    let leases = Leases::start(keeper, Arc::clone(&wake)).unwrap();
    bench.pump = bench.pump.with_leases(leases);
    bench.pass(1_000);
    let ends = Instant::from_millis(1_000) + TIME;
    assert!(
        bench.pump.deadline().is_none_or(|at| at > ends),
        "nothing is held"
    );
    let order = LeaseOrder::Acquire {
        name: "lease".into(),
        owner: me(),
        time_to_live: TIME,
    };
    bench.says(Effect::Lease(quorate_core::owner::Requester::Resolver, order));
    block_on(wake.notified());
    let at = bench.pump.deadline().unwrap();
    assert!(at <= ends, "{at:?}");
}

#[test]
fn reports_of_entities_come_in_batches() {
    let mut bench = Bench::new();
    let report = || HostReport::Refused {
        slot: quorate_core::sharding::ids::Slot {
            index: 0,
            generation: 0,
        },
        ask: None,
        reason: quorate_core::sharding::errors::AskFailure::EntityStopped,
    };
    for _ in 0..REPORTS_PER_TURN + 10 {
        bench.pump.hosted.is_told(Requester::Sharding, report());
    }
    bench.pump.take_reports();
    assert_eq!(bench.heard().len(), REPORTS_PER_TURN);
    assert!(bench.pump.has_work());
    bench.pump.take_reports();
    assert_eq!(bench.heard().len(), 10);
    assert!(!bench.pump.has_work());
}

#[test]
fn i_43_what_found_no_room_comes_back_before_what_peers_sent_is_read() {
    let mut bench = Bench::new();
    let link = bench.accepted(LinkKind::User, 1);
    bench.receive(link, &frame(&own_ask(1), 1));
    let offer = |id| Effect::Offer {
        to: SendTarget::Node(peer()),
        message: own_ask(id),
    };
    bench.heard();
    let kept = LinkLimits::default().user_queue_messages_max as u64;
    let refused = limits::FEEDBACK_PER_TURN as u64 + 10;
    bench.pump.linked.node.says.extend((0..kept + refused).map(offer));
    for _ in 0..3 {
        bench.pump.flush();
        bench.pump.read_users(1);
    }
    let heard = bench.heard();
    let came_back = |heard: &&Heard| matches!(heard, Heard::Link(LinkEvent::Dropped { .. }));
    let before_it = heard.iter().take_while(came_back).count() as u64;
    assert_eq!((before_it, heard.len() as u64), (refused, refused + 1));
}
