//! Two nodes and all that is between them: frames are written, read and handed over in this process. No
//! sockets, no links, no runtime, and a clock that is a number, so that every run takes the same
//! instructions.

use std::collections::VecDeque;
use std::time::Duration;

use quorate_core::admission::PeerProof;
use quorate_core::config::{Config, Limits};
use quorate_core::effect::{Answer, Effect, HostOrder, Output};
use quorate_core::ident::{Address, ClusterName, UniqueAddress};
use quorate_core::input::{
    Command, HostReport, Input, KindSettings, MembershipCommand, MessageCommand, PathCommand, Recipient,
    ShardingCommand, SingletonCommand, SingletonSettings, Token,
};
use quorate_core::membership::member::Status;
use quorate_core::message::Message;
use quorate_core::node::Node;
use quorate_core::owner::Requester;
use quorate_core::paths::state::name::{PathId, PathName};
use quorate_core::paths::state::settings::{PathPick, PathSettings};
use quorate_core::sharding::chain::AskChain;
use quorate_core::sharding::ids::{EntityId, KindId};
use quorate_core::singleton::state::SingletonId;
use quorate_core::time::{Instant, Now};
use quorate_core::wire::{DecodedFrame, Encoder, decode_frame};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

/// What both nodes call the kind, the singleton and the path; the first node hosts all three.
const NAME: &str = "echo";
const SHARDS: u32 = 16;
const ENTITIES: usize = 100;
/// Bytes of a payload.
const PAYLOAD: [u8; 16] = *b"sixteen bytes it";
/// Longest wait of an ask.
const TIMEOUT: Duration = Duration::from_secs(10);
/// What the nodes may take, by their clock, until all is where it stays.
const PATIENCE: Duration = Duration::from_secs(120);

/// The host of everything.
pub(crate) const HOST: usize = 0;
/// The one that reaches it.
pub(crate) const OTHER: usize = 1;

/// What came of what was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Arrived {
    /// Commands that were done.
    pub(crate) done: usize,
    /// Asks that were answered with what they said.
    pub(crate) answered: usize,
    /// Messages that came to whom they were for.
    pub(crate) delivered: usize,
    /// Commands and asks that came to nothing.
    pub(crate) failed: usize,
}

/// Both nodes.
pub(crate) struct Pair {
    sides: [Side; 2],
    now: Now,
    token: Token,
    entities: Vec<EntityId>,
    kind: KindId,
    singleton: SingletonId,
    path: PathId,
    arrived: Arrived,
}

/// One node, and its host.
struct Side {
    node: Node<ChaCha8Rng>,
    me: UniqueAddress,
    limits: Limits,
    encoder: Encoder,
    /// Frames for the other one.
    wire: Vec<u8>,
    /// What its entities, its instances and the store that it does not have say.
    reports: VecDeque<Input<'static>>,
    wake: Option<Instant>,
}

impl Pair {
    /// Two members, of which the first hosts the kind and the singleton; every entity runs, and both nodes
    /// know where.
    pub(crate) fn new() -> Result<Self, String> {
        let side = |at| Side::new(at).map_err(|error| error.to_string());
        let mut pair = Self {
            sides: [side(HOST)?, side(OTHER)?],
            now: Now::default(),
            token: 0,
            entities: (0..ENTITIES)
                .map(|at| EntityId::from(format!("entity-{at}").as_str()))
                .collect(),
            kind: KindId::of(NAME),
            singleton: SingletonId::of(NAME),
            path: PathId::of(NAME),
            arrived: Arrived::default(),
        };
        pair.form()?;
        pair.find_all()?;
        Ok(pair)
    }

    fn form(&mut self) -> Result<(), String> {
        let seed = self.sides[HOST].me.address().clone();
        for side in [HOST, OTHER] {
            let join = Command::Membership(MembershipCommand::Join(seed.clone()));
            self.command(side, join);
            self.settle("both are members", |pair| {
                pair.arrived.done > side && pair.are_up(side + 1)
            })?;
        }
        for side in [HOST, OTHER] {
            let kind = KindSettings::new(NAME, SHARDS, side == HOST);
            self.command(
                side,
                Command::Sharding(ShardingCommand::RegisterKind(Box::new(kind))),
            );
            let singleton = SingletonSettings {
                name: NAME.into(),
                role: None,
                hosts: side == HOST,
                lease: false,
                durable: false,
            };
            self.command(side, Command::Singleton(SingletonCommand::Register(singleton)));
            self.settle("all is registered", |pair| pair.arrived.done == 4 + 2 * side)?;
        }
        Ok(())
    }

    /// Asks everybody once from everywhere.
    fn find_all(&mut self) -> Result<(), String> {
        for side in [HOST, OTHER] {
            for at in 0..ENTITIES {
                self.ask(side, self.entity(at));
            }
            self.ask(side, self.singleton());
            let all = (side + 1) * (ENTITIES + 1);
            self.settle("all are found", |pair| pair.arrived.answered == all)?;
        }
        Ok(())
    }

    /// Hosts a path on the first node, until both know that its instance runs: not before it is needed,
    /// because a path has timers of its own.
    pub(crate) fn host_path(&mut self) -> Result<(), String> {
        let settings = PathSettings::new(PathName::new(NAME).map_err(|error| error.to_string())?);
        let hosts = true;
        self.command(HOST, Command::Path(PathCommand::Register { settings, hosts }));
        self.settle("the path has an instance", |pair| {
            pair.sides.iter().all(Side::knows_the_instance)
        })
    }

    /// Whom a message to this entity is for.
    pub(crate) fn entity(&self, at: usize) -> Recipient {
        Recipient::Entity(self.kind, self.entities[at % ENTITIES].clone())
    }

    /// Whom a message to the singleton is for.
    pub(crate) const fn singleton(&self) -> Recipient {
        Recipient::Singleton(self.singleton)
    }

    /// Whom a message to the path is for.
    pub(crate) const fn path(&self) -> Recipient {
        Recipient::Path(self.path, PathPick::Routed)
    }

    /// This node's user asks.
    pub(crate) fn ask(&mut self, side: usize, to: Recipient) {
        let ask = MessageCommand::Ask {
            to,
            payload: PAYLOAD.into(),
            timeout: TIMEOUT,
            chain: AskChain::default(),
        };
        self.command(side, Command::Message(ask));
    }

    /// This node's user says something, and hears no answer.
    pub(crate) fn tell(&mut self, side: usize, to: Recipient) {
        let payload = PAYLOAD.into();
        self.handle(side, Input::Tell { to, payload });
    }

    /// Until nobody has anything to say; then a microsecond passes.
    pub(crate) fn run(&mut self) {
        loop {
            let is_quiet = self
                .sides
                .iter()
                .all(|side| side.wire.is_empty() && side.reports.is_empty());
            if is_quiet {
                break;
            }
            for side in [HOST, OTHER] {
                while let Some(report) = self.sides[side].reports.pop_front() {
                    self.handle(side, report);
                }
                self.carry(side);
            }
        }
        self.now.mono = self.now.mono + Duration::from_micros(1);
        self.tick();
    }

    /// What has come of everything so far.
    pub(crate) const fn arrived(&self) -> Arrived {
        self.arrived
    }

    fn are_up(&self, members: usize) -> bool {
        let is_up = |side: &Side| side.node.view().members_in(Status::Up).count() == members;
        self.sides.iter().take(members).all(is_up)
    }

    fn command(&mut self, side: usize, command: Command) {
        self.token += 1;
        let token = self.token;
        self.handle(side, Input::Command { token, command });
    }

    fn handle(&mut self, side: usize, input: Input<'_>) {
        let Self {
            sides, now, arrived, ..
        } = self;
        sides[side].handle(*now, input, arrived);
    }

    /// Hands what one side has written to the other.
    fn carry(&mut self, from: usize) {
        let Self {
            sides: [host, other],
            now,
            arrived,
            ..
        } = self;
        let (from, to) = if from == HOST {
            (host, other)
        } else {
            (other, host)
        };
        let mut at = 0;
        while let DecodedFrame::Frame { frame, consumed } = decode_frame(&from.wire[at..], &to.limits) {
            at += consumed;
            let input = Input::Frame {
                from: &from.me,
                proof: PeerProof::Nothing,
                lane: frame.lane,
                kind: frame.kind,
                body: frame.body,
            };
            to.handle(*now, input, arrived);
        }
        arrived.failed += usize::from(at < from.wire.len());
        from.wire.clear();
    }

    fn tick(&mut self) {
        for side in [HOST, OTHER] {
            if self.sides[side].wake.is_some_and(|at| at <= self.now.mono) {
                self.handle(side, Input::Tick);
            }
        }
    }

    /// Lets time pass until `is_done`.
    fn settle(&mut self, what: &str, is_done: impl Fn(&Self) -> bool) -> Result<(), String> {
        let limit = self.now.mono + PATIENCE;
        while !is_done(self) {
            self.run();
            let is_quiet = self
                .sides
                .iter()
                .all(|side| side.wire.is_empty() && side.reports.is_empty());
            let next = self.sides.iter().filter_map(|side| side.wake).min();
            if is_quiet && let Some(next) = next {
                self.now.mono = self.now.mono.max(next);
                self.tick();
            }
            if self.now.mono > limit || self.arrived.failed > 0 {
                return Err(format!("waited in vain until {what}: {:?}", self.arrived));
            }
        }
        Ok(())
    }
}

impl Side {
    fn new(at: usize) -> Result<Self, Box<dyn std::error::Error>> {
        let uid = at as u64 + 1;
        let me = UniqueAddress::new(Address::new(&format!("node-{uid}"), 2551)?, uid);
        let config = Config::lan(ClusterName::new("alone")?).validate()?;
        let limits = config.limits.clone();
        let node = Node::new(config, me.clone(), ChaCha8Rng::seed_from_u64(uid), Now::default());
        Ok(Self {
            node,
            me,
            limits,
            encoder: Encoder::new(),
            wire: Vec::new(),
            reports: VecDeque::new(),
            wake: None,
        })
    }

    /// Whether messages to the path go somewhere from here, and its only slot moves no more.
    fn knows_the_instance(&self) -> bool {
        let paths = self.node.view().gossip().paths().entries();
        paths
            .iter()
            .any(|path| path.host(0).is_some() && path.pending(0).is_none())
    }

    /// One input, and everything that follows from it here.
    fn handle(&mut self, now: Now, input: Input<'_>, arrived: &mut Arrived) {
        self.node.handle(now, input);
        loop {
            match self.node.poll() {
                Output::Effect(effect) => self.act(effect, arrived),
                Output::Sleep(wake) => {
                    self.wake = wake.map(|wake| wake.at);
                    return;
                }
            }
        }
    }

    fn act(&mut self, effect: Effect, arrived: &mut Arrived) {
        match effect {
            Effect::Send { message, .. } | Effect::Offer { message, .. } => self.send(&message, arrived),
            Effect::Reply { answer, .. } => match answer {
                Answer::Done => arrived.done += 1,
                Answer::Asked(Ok(payload)) if *payload == PAYLOAD => arrived.answered += 1,
                Answer::Asked(_)
                | Answer::Refused(_)
                | Answer::Sharding(_)
                | Answer::Ddata(_)
                | Answer::Singleton(_)
                | Answer::Journal(_)
                | Answer::Kv(_) => arrived.failed += 1,
            },
            Effect::Host(
                owner,
                HostOrder::Deliver {
                    payload, reply_to, ..
                },
            ) => {
                arrived.delivered += 1;
                if let Some(ask) = reply_to {
                    let result = Ok(payload);
                    let report = HostReport::Answered { ask, result };
                    self.reports.push_back(Input::Host(owner, report));
                }
            }
            Effect::Host(
                owner,
                HostOrder::Stop { slot } | HostOrder::StopWithState { slot } | HostOrder::Kill { slot },
            ) => {
                self.reports
                    .push_back(Input::Host(owner, HostReport::Stopped { slot }));
            }
            Effect::Store(owner, request) => {
                self.reports
                    .push_back(Input::Stored(owner, request.without_a_store()));
            }
            // Who runs here needs no time to start; only of the path's instance somebody waits to hear so.
            Effect::Host(owner @ Requester::Path, HostOrder::Start { slot, .. }) => {
                self.reports
                    .push_back(Input::Host(owner, HostReport::Running { slot }));
            }
            Effect::Host(_, HostOrder::Start { .. })
            | Effect::Notify(_)
            | Effect::Lease(..)
            | Effect::Allocate(_)
            | Effect::Quarantine(_)
            | Effect::Halt(_) => {}
        }
    }

    fn send(&mut self, message: &Message, arrived: &mut Arrived) {
        let written = self.encoder.encode(message, 1, &self.limits, &mut self.wire);
        arrived.failed += usize::from(written.is_err());
    }
}
