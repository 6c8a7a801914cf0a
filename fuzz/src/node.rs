//! A whole node among peers that may send anything: bytes, ticks, links, commands in; after each, its
//! invariants hold, what it wants to say can be written, and it neither spins nor speaks after its end.

use std::collections::BTreeMap;

use arbitrary::{Arbitrary, Unstructured};
use quorate_core::admission::PeerProof;
use quorate_core::agreement::{Setting, Settings};
use quorate_core::config::{Config, DowningStrategy};
use quorate_core::effect::{Effect, HostOrder, Output};
use quorate_core::ident::{Address, ClusterName, Roles, UniqueAddress};
use quorate_core::input::MessageCommand;
use quorate_core::input::Recipient;
use quorate_core::input::{
    Command, DownTarget, DropReason, HostReport, Input, KindSettings, LinkEvent, MembershipCommand,
    SendTarget, ShardingCommand,
};
use quorate_core::kv::state::bucket::BucketName;
use quorate_core::kv::state::settings::{BucketFields, BucketSettings};
use quorate_core::lease::protocol::{LeaseOrder, LeaseOutcome, LeaseReport};
use quorate_core::membership::app_version::AppVersion;
use quorate_core::membership::gossip::Gossip;
use quorate_core::membership::member::{Member, Status, UpNumber};
use quorate_core::membership::reachability::ReachabilityStatus;
use quorate_core::message::{
    AskReply, AskTicket, DetectorMsg, EntityEnvelope, GossipDelta, GossipEnvelope, GossipSeen, GossipStatus,
    Heartbeat, InitJoin, InitJoinAck, Join, Lane, MembershipMsg, Message, ShardingBody, ShardingMessage,
    ShardingMsg, StateDigest, StateSteps, Welcome,
};
use quorate_core::node::Node;
use quorate_core::owner::Requester;
use quorate_core::sharding::chain::AskChain;
use quorate_core::sharding::errors::AskFailure;
use quorate_core::sharding::fields::{KindFields, KindKeeping, StoreMode};
use quorate_core::sharding::ids::{AskRef, EntityId, KindId, ShardId, Slot, Term};
use quorate_core::sharding::protocol::ListPart;
use quorate_core::sharding::protocol::registry::{
    Announcement, RegistrationFields, RegistrationId, RegistrationVerdict, RegistryMsg,
};
use quorate_core::singleton::state::SingletonId;
use quorate_core::singleton::state::fields::{SingletonFields, SingletonHosting};
use quorate_core::store::memory::MemoryMap;
use quorate_core::store::{StoreError, StoreReport, StoreRequest};
use quorate_core::time::{Instant, Now};
use quorate_core::wire::{Encoder, HEADER_BYTES, kind};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

use crate::paths;
use crate::{KINDS, LIMITS};

/// Inputs of one run; more would only make runs slow.
const INPUTS_MAX: usize = 200;
/// Effects that one input may cause in a cluster of this size.
const EFFECTS_MAX: usize = 5_000;
/// Ticks at one point of time before a node counts as spinning.
const TICKS_MAX: usize = 1_000;

/// Positions in [`PEERS`]; any number will do.
type Peer = u8;

/// Me, five others, a second incarnation at my address and one at a peer's.
const PEERS: [(&str, u64); 8] = [
    ("a", 1),
    ("b", 2),
    ("c", 3),
    ("d", 4),
    ("e", 5),
    ("f", 6),
    ("a", 7),
    ("b", 8),
];

#[derive(Arbitrary, Debug)]
struct Run {
    fast: bool,
    strategy: u8,
    /// How many of the others are members when the run begins; none, and I am not either.
    members: u8,
    inputs: Vec<Act>,
}

#[derive(Arbitrary, Debug)]
enum Act {
    /// Time passes, in steps of 10 ms.
    Tick(u16),
    /// To the next deadline.
    Wake,
    /// A long pause of the process, in seconds.
    Pause(u8),
    /// The second value keeps the committed inputs what they are.
    Quarantined(
        Peer,
        #[expect(dead_code, reason = "it is read from the input and nowhere else")] u8,
    ),
    LinkDown(Peer),
    Wrong(Peer, Peer),
    QuarantinedBy(Peer),
    /// What was sent last did not go out.
    Dropped(u8),
    Raw(Peer, u8, Vec<u8>),
    Say(Peer, Word),
    /// A state made of mine.
    Gossip(Peer, Forged),
    Welcome(Peer, Forged),
    /// A status, what differs, or that it was seen: of states that I have named.
    Status(Peer, Vec<(Peer, u8)>, u8),
    Ask(Order),
    Stopped(u8),
    Answered(u8),
    Refused(u8),
    /// Answers the lease keeper and the store, whoever was asked.
    Lease(u8),
}

#[derive(Arbitrary, Debug)]
struct Forged {
    /// From nothing, or from what I hold.
    fresh: bool,
    changes: Vec<Change>,
    to: Peer,
}

#[derive(Arbitrary, Debug)]
enum Change {
    Add(Peer, u8),
    Status(Peer, u8),
    Number(Peer, u8),
    Observe(Peer, Peer, u8),
    Remove(Peer),
    Forget(Peer),
    Seen(Peer),
    NobodySaw,
    Stamp(Peer),
    Count(Peer, u32),
    Paths(u8, Peer, Peer, u8),
}

#[derive(Arbitrary, Debug)]
enum Word {
    InitJoin(u64, Vec<(u8, u8)>),
    InitJoinAck(bool, Vec<(u8, u8)>),
    InitJoinNack,
    Join(Peer),
    Leave(Peer),
    Down(Peer),
    Beat(Peer, u64),
    Echo(Peer, u64),
    Confirmed(Peer),
    Removed(Peer),
    Shard(u8, Vec<u8>, u8, Peer),
    Entity(u8, Option<(Peer, u8)>),
    Reply(u8, Peer),
}

#[derive(Arbitrary, Debug)]
enum Order {
    JoinSeeds(Vec<Peer>),
    Join(Peer),
    Leave,
    LeaveMember(Peer),
    Down(Peer, bool),
    Remove(Peer),
    Prepare,
    Register(bool),
    Ask(u8, u16),
    Tell(u8),
}

/// One run.
pub fn node(data: &[u8]) {
    if let Ok(run) = Run::arbitrary(&mut Unstructured::new(data)) {
        let mut world = World::new(&run);
        for act in run.inputs.iter().take(INPUTS_MAX) {
            world.act(act);
        }
    }
}

fn peer(at: Peer) -> UniqueAddress {
    let (host, uid) = PEERS[usize::from(at) % PEERS.len()];
    UniqueAddress::new(Address::new(host, 2551).expect("a legal name"), uid)
}

/// The kind's fields, as this node has them with ten shards.
/// Settings of a joiner or of who answers it: of the node's own keys, of others, and of none.
fn settings(all: &[(u8, u8)]) -> Settings {
    const KEYS: [&str; 6] = [
        "app.a",
        "app.b",
        "ddata.role",
        "downing.rule",
        "downing.strategy",
        "downing.strategy.role",
    ];
    const VALUES: [&str; 6] = [
        "",
        "keep-majority",
        "keep-oldest",
        "cascade-safe",
        "#00c0ffee",
        "\u{1b}\n\"",
    ];
    let mut by_key = BTreeMap::new();
    for (key, value) in all {
        let setting = Setting::new(KEYS[usize::from(*key) % 6], VALUES[usize::from(*value) % 6]);
        let optional = key & 0x80 != 0;
        by_key.insert(*key % 6, if optional { setting.if_known() } else { setting });
    }
    Settings::new(by_key.into_values()).expect("a few short ones")
}

/// One of the registrations that come in parts, now and then.
fn part(what: u8, node: Peer) -> ListPart {
    if what < 200 {
        return ListPart::WHOLE;
    }
    let (list, index) = (u64::from(what / 10), u16::from(node % 2));
    ListPart {
        list,
        index,
        count: 2,
    }
}

fn fields(shards: u32, hosts: bool) -> KindFields {
    KindFields {
        name: "files".into(),
        role: None,
        shards,
        extractor: "siphash-1-3".into(),
        keeping: hosts.then_some(KindKeeping {
            store: StoreMode::Memory,
            remember_entities: None,
            lease: false,
        }),
    }
}

fn billing(hosts: bool, lease: bool) -> RegistrationFields {
    let durable = lease;
    RegistrationFields::Singleton(SingletonFields {
        name: "billing".into(),
        role: None,
        hosting: hosts.then_some(SingletonHosting { lease, durable }),
    })
}

/// What the oldest member or another one says about kinds, singletons and buckets.
fn registry((what, node, term): (u8, u8, Term)) -> RegistryMsg {
    let number = u64::from(node);
    let round = u32::from(what / 9);
    let hosts = node % 2 == 0;
    let (id, standing, said) = if what % 7 == 3 {
        let carts = |copies| {
            RegistrationFields::Bucket(BucketFields {
                name: BucketName::new("carts").expect("a short name is legal"),
                settings: BucketSettings {
                    copies,
                    ..BucketSettings::default()
                },
            })
        };
        let id = BucketName::new("carts").expect("a short name is legal");
        (RegistrationId::Bucket(id), carts(3), carts(2 + node % 3))
    } else if what % 2 == 0 {
        let id = RegistrationId::Kind(files());
        let said = RegistrationFields::Kind(fields(10 + u32::from(what % 3), hosts));
        (id, RegistrationFields::Kind(fields(12, true)), said)
    } else {
        let id = RegistrationId::Singleton(SingletonId::of("billing"));
        (id, billing(true, false), billing(hosts, what % 3 == 0))
    };
    match what % 9 {
        0 => RegistryMsg::Query { term },
        1..=3 => RegistryMsg::Announce {
            round,
            all: vec![Announcement {
                fields: said,
                accepted: (node % 3 == 0).then_some(number),
                running: node % 5 == 0,
            }],
        },
        4 => RegistryMsg::Verdicts {
            term,
            round,
            verdicts: vec![(id, RegistrationVerdict::Refused { standing })],
        },
        _ => RegistryMsg::Verdicts {
            term,
            round,
            verdicts: vec![(id, RegistrationVerdict::Accepted { number })],
        },
    }
}

fn files() -> KindId {
    KindId::of("files")
}

fn entity(at: u8) -> EntityId {
    EntityId::from(["x", "y", "z", "w"][usize::from(at) % 4])
}

/// A node, and what it has asked its host for.
pub(crate) struct World {
    pub(crate) node: Node<ChaCha8Rng>,
    now: u64,
    encoder: Encoder,
    wake: Option<Instant>,
    sent: Vec<(SendTarget, Message)>,
    pub(crate) slots: Vec<Slot>,
    asks: Vec<AskRef>,
    leases: Vec<(Requester, LeaseOrder)>,
    pub(crate) stores: Vec<(Requester, StoreRequest)>,
    pub(crate) disk: MemoryMap,
    pub(crate) halted: bool,
    token: u64,
}

impl World {
    fn new(run: &Run) -> Self {
        let name = ClusterName::new("fuzz").expect("a legal name");
        let mut config = if run.fast {
            Config::fast(name)
        } else {
            Config::lan(name)
        };
        config.downing.strategy = match run.strategy % 6 {
            0 => DowningStrategy::Off,
            1 => "keep-majority".parse().expect("a strategy"),
            2 => "keep-oldest".parse().expect("a strategy"),
            3 => "down-all".parse().expect("a strategy"),
            4 => "lease-majority".parse().expect("a strategy"),
            _ => "auto-down".parse().expect("a strategy"),
        };
        let mut world = Self::of(config, &peer(0), 0);
        world.order(&Order::Register(true));
        world.form(run.members % 6);
        world
    }

    /// A node that begins at this time, with an empty disk.
    pub(crate) fn of(config: Config, me: &UniqueAddress, now: u64) -> Self {
        let config = config.validate().expect("a preset is legal");
        Self {
            node: Node::new(config, me.clone(), ChaCha8Rng::seed_from_u64(1), at(now)),
            now,
            encoder: Encoder::new(),
            wake: None,
            sent: Vec::new(),
            slots: Vec::new(),
            asks: Vec::new(),
            leases: Vec::new(),
            stores: Vec::new(),
            disk: MemoryMap::new(),
            halted: false,
            token: 0,
        }
    }

    /// I form a cluster and take so many others in, who say that they saw it.
    fn form(&mut self, others: Peer) {
        if others == 0 {
            return;
        }
        self.order(&Order::Join(0));
        for at in 1..others {
            self.act(&Act::Say(at, Word::Join(0)));
        }
        for _ in 0..3 {
            self.pass(1_000_000);
            for at in 1..others {
                let forged = Forged {
                    fresh: false,
                    changes: (1..others).map(Change::Seen).collect(),
                    to: 0,
                };
                self.act(&Act::Gossip(at, forged));
            }
        }
    }

    fn act(&mut self, act: &Act) {
        match act {
            Act::Tick(steps) => self.pass(u64::from(*steps) * 10_000),
            Act::Wake => {
                let until = self.wake.map_or(0, Instant::as_micros);
                self.pass(until.saturating_sub(self.now));
            }
            Act::Pause(seconds) => {
                self.now += u64::from(*seconds) * 1_000_000;
                self.feed(Input::Tick);
            }
            Act::LinkDown(at) => self.feed(Input::Link(LinkEvent::Down { peer: peer(*at) })),
            Act::Wrong(expected, found) => {
                let (expected, found) = (peer(*expected), peer(*found));
                self.feed(Input::Link(LinkEvent::WrongIncarnation { expected, found }));
            }
            Act::Quarantined(at, _) => self.feed(Input::Link(LinkEvent::Quarantined { peer: peer(*at) })),
            Act::QuarantinedBy(at) => self.feed(Input::Link(LinkEvent::QuarantinedBy { peer: peer(*at) })),
            Act::Dropped(pick) => self.drop_sent(*pick),
            Act::Raw(from, pick, body) => {
                let kind = KINDS[usize::from(*pick) % KINDS.len()];
                self.receive(&peer(*from), kind, body);
            }
            Act::Say(from, word) => {
                let message = self.word(word);
                self.hear(&peer(*from), &message);
            }
            Act::Gossip(from, forged) => {
                let gossip = self.forge(forged).into();
                let to = peer(forged.to);
                self.hear(
                    &peer(*from),
                    &Message::Membership(MembershipMsg::Gossip(GossipEnvelope { to, gossip })),
                );
            }
            Act::Welcome(from, forged) => {
                let gossip = self.forge(forged).into();
                let to = peer(forged.to);
                self.hear(
                    &peer(*from),
                    &Message::Membership(MembershipMsg::Welcome(Welcome { to, gossip })),
                );
            }
            Act::Status(from, entries, digest) => {
                let message = self.status(entries, *digest);
                self.hear(&peer(*from), &Message::Membership(message));
            }
            Act::Ask(order) => self.order(order),
            Act::Stopped(pick) => {
                if let Some(slot) = take(&mut self.slots, *pick) {
                    self.feed(Input::Host(Requester::Sharding, HostReport::Stopped { slot }));
                }
            }
            Act::Answered(pick) => {
                if let Some(ask) = take(&mut self.asks, *pick) {
                    let result = Ok((*b"answer").into());
                    self.feed(Input::Host(
                        Requester::Sharding,
                        HostReport::Answered { ask, result },
                    ));
                }
            }
            Act::Refused(pick) => {
                if let Some(slot) = take(&mut self.slots.clone(), *pick) {
                    let reason = AskFailure::MailboxFull;
                    // An entity that refuses a message, or one that wants to be taken out of memory.
                    let report = match *pick % 4 {
                        0 => HostReport::Refused {
                            slot,
                            ask: None,
                            reason,
                        },
                        1 => HostReport::Escalated { slot },
                        2 if *pick < 128 => HostReport::Ending {
                            slot,
                            forget: *pick < 64,
                        },
                        2 => HostReport::Failed { slot },
                        _ => HostReport::Passivate { slot },
                    };
                    self.feed(Input::Host(Requester::Sharding, report));
                }
            }
            Act::Lease(pick) => {
                self.answer_lease(*pick);
                self.answer_store(*pick);
            }
        }
    }

    /// Lets time pass, tick by tick as a host would.
    pub(crate) fn pass(&mut self, micros: u64) {
        let until = self.now.saturating_add(micros);
        for _ in 0..TICKS_MAX {
            match self.wake.map(Instant::as_micros).filter(|wake| *wake <= until) {
                Some(wake) => {
                    self.now = self.now.max(wake);
                    self.feed(Input::Tick);
                }
                None => {
                    self.now = until;
                    return self.feed(Input::Tick);
                }
            }
        }
        // So many deadlines are legal over a long time, not at one point of it.
        assert!(micros > 1_000_000, "the node spins");
        self.now = until;
    }

    pub(crate) fn feed(&mut self, input: Input<'_>) {
        self.node.handle(at(self.now), input);
        for effects in 0.. {
            assert!(effects < EFFECTS_MAX, "one input, too many effects");
            match self.node.poll() {
                Output::Effect(effect) => self.obey(effect),
                Output::Sleep(wake) => {
                    self.wake = wake.map(|wake| wake.at);
                    break;
                }
            }
        }
        self.node.check_invariants().expect("a rule of a machine");
        if let Some(member) = self.node.view().self_member() {
            assert!(member.status != Status::Removed, "nobody is a removed member");
        }
    }

    fn obey(&mut self, effect: Effect) {
        // What has ended gives its leases back.
        let speaks = !matches!(
            effect,
            Effect::Reply { .. } | Effect::Lease(_, LeaseOrder::Release { .. })
        );
        assert!(!self.halted || !speaks, "after the end: {effect:?}");
        match effect {
            Effect::Send { to, message } | Effect::Offer { to, message } => {
                let mut frame = Vec::new();
                let written = self.encoder.encode(&message, 0, &LIMITS, &mut frame);
                written.expect("what a node of eight says fits a frame");
                self.sent.push((to, message));
                if self.sent.len() > 64 {
                    self.sent.remove(0);
                }
            }
            Effect::Host(Requester::Sharding, HostOrder::Start { slot, .. }) => self.slots.push(slot),
            Effect::Host(
                Requester::Sharding,
                HostOrder::Deliver {
                    reply_to: Some(ask), ..
                },
            ) => self.asks.push(ask),
            Effect::Lease(owner, order) => self.leases.push((owner, order)),
            Effect::Store(owner, request) => self.stores.push((owner, request)),
            Effect::Halt(_) => self.halted = true,
            Effect::Host(..)
            | Effect::Notify(_)
            | Effect::Reply { .. }
            | Effect::Allocate(_)
            | Effect::Quarantine(_) => {}
        }
    }

    fn hear(&mut self, from: &UniqueAddress, message: &Message) {
        let mut frame = Vec::new();
        // Some of what is made up here has no form.
        if self.encoder.encode(message, 0, &LIMITS, &mut frame).is_ok() {
            self.receive(from, kind::of(message), &frame[HEADER_BYTES..]);
        }
    }

    fn receive(&mut self, from: &UniqueAddress, kind: u16, body: &[u8]) {
        let lane = kind::lane_of(kind).unwrap_or(Lane::Control);
        self.feed(Input::Frame {
            proof: PeerProof::Nothing,
            from,
            lane,
            kind,
            body,
        });
    }

    fn drop_sent(&mut self, pick: u8) {
        if let Some((to, message)) = take(&mut self.sent, pick) {
            let reasons = [
                DropReason::QueueFull,
                DropReason::Unreachable,
                DropReason::TooLarge,
                DropReason::NoRoom,
            ];
            let reason = reasons[usize::from(pick) % reasons.len()];
            let address = to.address().clone();
            self.feed(Input::Link(LinkEvent::Dropped { to, message, reason }));
            if pick & 16 != 0 {
                self.feed(Input::Link(LinkEvent::Room { to: address }));
            }
        }
    }

    /// Says something of states by names that the node has told, or by none.
    fn status(&self, entries: &[(Peer, u8)], digest: u8) -> MembershipMsg {
        let told = self.sent.iter().filter_map(|(_, message)| match message {
            Message::Membership(MembershipMsg::GossipStatus(status)) => Some(status.state),
            Message::Membership(MembershipMsg::GossipDelta(delta)) => Some(delta.result),
            Message::Membership(MembershipMsg::GossipSeen(seen)) => Some(seen.state),
            _ => None,
        });
        let told: Vec<StateDigest> = told.collect();
        let name = |pick: usize| told.get(pick % 8).copied().unwrap_or_default();
        let (to, picks) = (peer(0), entries.iter().map(|(pick, _)| usize::from(*pick)));
        match digest % 4 {
            0 | 1 => MembershipMsg::GossipStatus(GossipStatus {
                to_uid: to.uid(),
                state: name(entries.len()),
                seen_digest: u64::from(digest),
                is_answer: digest.is_multiple_of(4),
            }),
            2 => MembershipMsg::GossipDelta(GossipDelta {
                to,
                is_push: digest > 127,
                base: name(entries.len()),
                result: name(usize::from(digest >> 2)),
                seen: picks.filter(|at| *at < 16).collect(),
                steps: StateSteps::new(entries.iter().map(|(_, byte)| *byte).collect()),
            }),
            _ => MembershipMsg::GossipSeen(GossipSeen {
                to,
                state: name(entries.len()),
            }),
        }
    }

    fn forge(&self, forged: &Forged) -> std::sync::Arc<Gossip> {
        let mut gossip = if forged.fresh {
            Gossip::new()
        } else {
            Gossip::clone(self.node.view().gossip())
        };
        forged
            .changes
            .iter()
            .take(24)
            .for_each(|change| apply(&mut gossip, change));
        gossip.into()
    }

    fn word(&self, word: &Word) -> Message {
        let term = |node| Term {
            up_number: self
                .node
                .view()
                .member(&peer(node))
                .map_or(UpNumber::FIRST, |member| member.up_number),
            node: peer(node),
        };
        match word {
            Word::InitJoin(_, all) => Message::Membership(MembershipMsg::InitJoin(InitJoin {
                settings: settings(all),
            })),
            Word::InitJoinAck(compatible, all) => {
                Message::Membership(MembershipMsg::InitJoinAck(InitJoinAck {
                    compatible: *compatible,
                    settings: settings(all),
                }))
            }
            Word::InitJoinNack => Message::Membership(MembershipMsg::InitJoinNack),
            Word::Join(to) => Message::Membership(MembershipMsg::Join(Join {
                to: peer(*to),
                roles: Roles::default(),
                app_version: AppVersion::default(),
            })),
            Word::Leave(who) => Message::Membership(MembershipMsg::Leave(peer(*who))),
            Word::Down(who) => Message::Membership(MembershipMsg::Down(peer(*who))),
            Word::Beat(to, sequence) => Message::Detector(DetectorMsg::Heartbeat(beat(*to, *sequence))),
            Word::Echo(to, sequence) => Message::Detector(DetectorMsg::HeartbeatRsp(beat(*to, *sequence))),
            Word::Confirmed(to) => Message::Membership(MembershipMsg::ExitingConfirmed { to: peer(*to) }),
            Word::Removed(to) => Message::Membership(MembershipMsg::Removed { to: peer(*to) }),
            Word::Shard(what, shards, shard, node) => {
                let hosted = shards
                    .iter()
                    .take(8)
                    .map(|at| ShardId(u32::from(*at % 12)))
                    .collect::<Vec<_>>();
                let shard = ShardId(u32::from(*shard));
                let term = term(what / 10);
                let token = quorate_core::token::Token::new(u64::from(*what / 40), u64::from(*node));
                if *what >= 220 {
                    let about = (what - 220, *node, term);
                    return Message::Sharding(ShardingMsg::Registry(registry(about)));
                }
                let body = match what % 10 {
                    0 => ShardingBody::Register {
                        fields: fields(10, *what % 20 != 10),
                        hosted,
                        draining: *what % 30 == 20,
                        part: part(*what, *node),
                    },
                    1 => ShardingBody::RegisterAck { term },
                    2 => ShardingBody::RegisterRefused {
                        term,
                        fields: fields(12, true),
                    },
                    3 => ShardingBody::RegionQuery { term },
                    // Needs no shards: with some it is about paths, one of the table's or none.
                    4 if !shards.is_empty() => {
                        return paths::said(&shards[..shards.len().min(8)], what / 10, [peer(0), term.node]);
                    }
                    4 => ShardingBody::NoRegion { term },
                    5 => ShardingBody::GetShardHome { shard },
                    6 => ShardingBody::ShardHomes {
                        term,
                        homes: vec![(peer(*node), hosted)],
                    },
                    7 if *what % 20 == 17 => ShardingBody::ShardTokens {
                        tokens: hosted.into_iter().map(|shard| (shard, token)).collect(),
                    },
                    7 => ShardingBody::HostShard { term, shard, token },
                    8 => ShardingBody::ShardStarted { term, shard },
                    _ => ShardingBody::BeginHandOff {
                        term,
                        shard,
                        number: u64::from(*what),
                    },
                };
                Message::Sharding(ShardingMsg::Kind(ShardingMessage { kind: files(), body }))
            }
            Word::Entity(at, asker) => {
                let entity = entity(*at);
                let envelope = EntityEnvelope {
                    kind: files(),
                    shard: ShardId(u32::from(*at % 10)),
                    entity,
                    payload: (*b"hello").into(),
                    ask: asker.map(|(node, id)| AskTicket {
                        ask: AskRef {
                            asker: peer(node),
                            id: u64::from(id),
                        },
                        remaining_ms: 1_000,
                        chain: AskChain::default(),
                    }),
                    hops: at / 32,
                };
                // The inputs there are go on meaning what they did, but for these few.
                let comes_back = at / 32 == 7;
                Message::Sharding(if comes_back {
                    ShardingMsg::HandBack(envelope)
                } else {
                    ShardingMsg::Entity(envelope)
                })
            }
            Word::Reply(id, to) => Message::Sharding(ShardingMsg::AskReply(AskReply {
                id: u64::from(*id),
                to: peer(*to),
                result: Ok((*b"reply").into()),
            })),
        }
    }

    pub(crate) fn command(&mut self, command: Command) {
        self.token += 1;
        let token = self.token;
        self.feed(Input::Command { token, command });
    }

    fn order(&mut self, order: &Order) {
        let command = match order {
            Order::JoinSeeds(seeds) => Command::Membership(MembershipCommand::JoinSeeds(
                seeds
                    .iter()
                    .take(4)
                    .map(|at| peer(*at).address().clone())
                    .collect(),
            )),
            Order::Join(at) => Command::Membership(MembershipCommand::Join(peer(*at).address().clone())),
            Order::Leave => Command::Membership(MembershipCommand::Leave),
            Order::LeaveMember(at) => {
                Command::Membership(MembershipCommand::LeaveMember(peer(*at).address().clone()))
            }
            Order::Down(at, false) => {
                Command::Membership(MembershipCommand::Down(DownTarget::Node(peer(*at))))
            }
            Order::Down(at, true) => Command::Membership(MembershipCommand::Down(DownTarget::Address(
                peer(*at).address().clone(),
            ))),
            Order::Remove(at) => Command::Membership(MembershipCommand::Remove(DownTarget::Node(peer(*at)))),
            Order::Prepare => Command::Membership(MembershipCommand::PrepareForShutdown),
            Order::Register(hosts) => Command::Sharding(ShardingCommand::RegisterKind(Box::new(
                KindSettings::new("files", 10, *hosts),
            ))),
            Order::Ask(at, ms) => Command::Message(MessageCommand::Ask {
                to: Recipient::Entity(files(), entity(*at)),
                payload: (*b"ask").into(),
                timeout: std::time::Duration::from_millis(u64::from(*ms)),
                chain: AskChain::default(),
            }),
            Order::Tell(at) => {
                return self.feed(Input::Tell {
                    to: Recipient::Entity(files(), entity(*at)),
                    payload: (*b"tell").into(),
                });
            }
        };
        self.command(command);
    }

    /// A store that does what it is asked, or fails in one of its ways.
    fn answer_store(&mut self, pick: u8) {
        let Some((owner, request)) = take(&mut self.stores, pick) else {
            return;
        };
        let outcome = match pick % 8 {
            0 => Err(StoreError::Full),
            1 => Err(StoreError::OutcomeUnknown),
            2 => Err(StoreError::Corrupt),
            _ => self.disk.obey(owner.space(), &request.order),
        };
        let report = StoreReport {
            id: request.id,
            outcome,
        };
        self.feed(Input::Stored(owner, report));
    }

    fn answer_lease(&mut self, pick: u8) {
        let Some((owner, order)) = take(&mut self.leases, pick) else {
            return;
        };
        let (LeaseOrder::Acquire { name, .. } | LeaseOrder::Release { name, .. }) = order;
        let outcome = match pick % 4 {
            0 => LeaseOutcome::Denied,
            1 => LeaseOutcome::Granted {
                token: u64::from(pick),
            },
            2 => LeaseOutcome::Lost,
            _ => LeaseOutcome::Released,
        };
        let report = LeaseReport { name, outcome };
        self.feed(Input::Lease(owner, report));
    }
}

fn at(micros: u64) -> Now {
    Now {
        mono: Instant::from_micros(micros),
        unix_ms: 1_750_000_000_000 + micros / 1_000,
    }
}

fn beat(to: Peer, sequence: u64) -> Heartbeat {
    Heartbeat::new(&peer(to), sequence)
}

fn take<T>(all: &mut Vec<T>, pick: u8) -> Option<T> {
    let at = usize::from(pick).checked_rem(all.len())?;
    Some(all.remove(at))
}

fn apply(gossip: &mut Gossip, change: &Change) {
    match change {
        Change::Add(who, status) => {
            let mut member = Member::joining(peer(*who), Roles::default(), AppVersion::default());
            member.status = stored(*status);
            gossip.upsert_member(member);
        }
        Change::Status(who, status) => {
            // A liar needs no legal transition.
            if let Some(mut member) = gossip.member(&peer(*who)).cloned() {
                member.status = stored(*status);
                gossip.upsert_member(member);
            }
        }
        Change::Number(who, number) => {
            let number = UpNumber::new(u32::from(*number));
            gossip.set_up_number(&peer(*who), number);
        }
        Change::Observe(observer, subject, reach) => {
            if gossip.contains(&peer(*observer)) && gossip.contains(&peer(*subject)) {
                let reach = [
                    ReachabilityStatus::Reachable,
                    ReachabilityStatus::Unreachable,
                    ReachabilityStatus::Terminated,
                ][usize::from(*reach) % 3];
                gossip
                    .reachability_mut()
                    .change(&peer(*observer), &peer(*subject), reach);
            }
        }
        Change::Remove(who) => {
            gossip.remove(&peer(*who));
        }
        Change::Forget(who) => {
            gossip.prune_tombstones(&[peer(*who)]);
        }
        Change::Seen(who) => {
            gossip.add_seen(&peer(*who));
        }
        Change::NobodySaw => gossip.clear_seen(),
        Change::Stamp(who) => {
            if gossip.contains(&peer(*who)) {
                gossip.stamp(&peer(*who), true, 0);
            }
        }
        Change::Count(who, above) => {
            if gossip.contains(&peer(*who)) {
                gossip.stamp(&peer(*who), true, u64::from(*above));
            }
        }
        Change::Paths(counter, host, other, status) => {
            gossip.set_paths(paths::table(*counter, [peer(*host), peer(*other)], *status));
        }
    }
}

fn stored(status: u8) -> Status {
    Status::ALL[usize::from(status) % (Status::ALL.len() - 1)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_begin_with_the_members_they_ask_for() {
        for members in 0..6 {
            let world = World::new(&Run {
                fast: false,
                strategy: 1,
                members,
                inputs: Vec::new(),
            });
            let up = world.node.view().members_in(Status::Up).count();
            assert_eq!(up, usize::from(members));
        }
    }
}
