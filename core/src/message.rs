//! What nodes say to each other, as the core knows it. The bytes are `wire`'s business. A message carries no sender: the
//! link it came over has a checked peer. It carries its receiver's incarnation wherever a late one could be mistaken.
//! Spec: membership 5, 8.6; sharding 2.1, 10.1.

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::ident::{Roles, UniqueAddress};
use crate::membership::app_version::AppVersion;
use crate::membership::gossip::Gossip;
use crate::membership::merge;
use crate::membership::vector_clock::{ClockOrder, VectorClock};
use crate::reject::JoinRefusal;
use crate::sharding::errors::AskFailure;
use crate::sharding::ids::{AskRef, EntityId, KindId, Payload, ShardId, Term};
use crate::wire::{About, PackedGossip};

/// What is delivered in order with what. FIFO holds within one lane and one link epoch; nothing is promised between
/// lanes. Control, gossip and replies travel on one link, user messages on another, the only one that is ever paused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lane {
    /// Heartbeats, membership, shard control. Never shed: overflow ends the link.
    Control,
    /// Gossip states and statuses. May be shed, oldest first, and is counted.
    Gossip,
    /// Answers to asks: bounded by the asker's open asks, therefore always admitted.
    Reply,
    /// Messages to entities. Past its bound the newest is rejected with a typed error.
    User,
}

impl Lane {
    /// All lanes, in the order in which a link's writer serves them.
    pub const ALL: [Self; 4] = [Self::Control, Self::Gossip, Self::Reply, Self::User];
}

/// One message between two nodes.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// Joiner to seed: are you in a cluster, and would I fit?
    InitJoin(InitJoin),
    /// Seed to joiner: yes.
    InitJoinAck(InitJoinAck),
    /// Seed to joiner: I am in no cluster.
    InitJoinNack,
    /// Joiner to member: take me in.
    Join(Join),
    /// Member to joiner: you are in, this is the state.
    Welcome(Welcome),
    /// Member to joiner: not you, and why.
    JoinRefused(JoinRefused),
    /// Member to one that was a member: you were removed; stop.
    Removed {
        /// The receiver.
        to: UniqueAddress,
    },
    /// Move a member to Leaving, said to a member on behalf of an operator or the member itself.
    Leave(UniqueAddress),
    /// Move a member to Down, said to a member on behalf of an operator.
    Down(UniqueAddress),
    /// Are you alive?
    Heartbeat(Heartbeat),
    /// Yes.
    HeartbeatRsp(Heartbeat),
    /// An exiting member has handed over its work; said to the leader.
    ExitingConfirmed {
        /// The receiver.
        to: UniqueAddress,
    },
    /// The version of the state I hold, instead of the state.
    GossipStatus(GossipStatus),
    /// The state I hold.
    Gossip(GossipEnvelope),
    /// Between regions and coordinators of one entity kind.
    Sharding(ShardingMessage),
    /// A message to an entity.
    Entity(EntityEnvelope),
    /// The answer to an ask.
    AskReply(AskReply),
}

impl Message {
    /// The lane this kind of message travels on.
    #[must_use]
    pub const fn lane(&self) -> Lane {
        match self {
            Self::InitJoin(_)
            | Self::InitJoinAck(_)
            | Self::InitJoinNack
            | Self::Join(_)
            | Self::JoinRefused(_)
            | Self::Removed { .. }
            | Self::Leave(_)
            | Self::Down(_)
            | Self::Heartbeat(_)
            | Self::HeartbeatRsp(_)
            | Self::ExitingConfirmed { .. }
            | Self::Sharding(_) => Lane::Control,
            Self::Welcome(_) | Self::GossipStatus(_) | Self::Gossip(_) => Lane::Gossip,
            Self::AskReply(_) => Lane::Reply,
            Self::Entity(_) => Lane::User,
        }
    }
}

/// The joiner's question, with what must agree: the settings that all members share, as a digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InitJoin {
    /// [`crate::config::ValidConfig::compatibility_digest`] of the joiner.
    pub config_digest: u64,
}

/// A seed's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InitJoinAck {
    /// Whether the settings that must agree do.
    pub compatible: bool,
}

/// A request to become a member. The incarnation that joins is the link's peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Join {
    /// The member that is asked; another incarnation of its address ignores the request.
    pub to: UniqueAddress,
    /// The joiner's roles.
    pub roles: Roles,
    /// The joiner's application version.
    pub app_version: AppVersion,
}

/// Why a member does not take a joiner in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinRefused {
    /// The incarnation that asked.
    pub to: UniqueAddress,
    /// Why.
    pub reason: JoinRefusal,
}

/// The state inside a message: as its sender holds it, or as it came over the wire, checked and still in its columns. Most
/// states that arrive are equal to the receiver's own or older, and those are never opened.
#[derive(Clone, Debug)]
pub enum GossipBody {
    /// As a node holds it.
    Held(Arc<Gossip>),
    /// As it was read.
    Packed(Arc<PackedGossip>),
}

impl GossipBody {
    /// The state; parts that are equal to parts of `base` are shared with it.
    #[must_use]
    pub fn open(&self, base: &Gossip) -> Gossip {
        match self {
            Self::Held(gossip) => Gossip::clone(gossip),
            Self::Packed(packed) => packed.open(base),
        }
    }

    /// What the state says about `node`; `None` if it is no member.
    #[must_use]
    pub fn about(&self, node: &UniqueAddress) -> Option<About> {
        match self {
            Self::Held(gossip) => gossip.contains(node).then(|| About {
                seen: gossip.has_seen(node),
                counter: gossip.version().get(node),
            }),
            Self::Packed(packed) => packed.about(node),
        }
    }

    /// How the state's clock relates to that of `held`, if receiving the state can change nothing in `held`: it is the same
    /// state, seen by nobody else, or an older one. `None` if it has to be opened. Linear; allocates nothing.
    #[must_use]
    pub fn without_news(&self, held: &Gossip) -> Option<ClockOrder> {
        let (order, settled) = match self {
            Self::Held(gossip) => {
                let order = gossip.version().compare(held.version());
                let settled = match order {
                    ClockOrder::Same => merge::is_covered(gossip, held),
                    ClockOrder::Before => !merge::misses(held, gossip),
                    ClockOrder::After | ClockOrder::Concurrent => false,
                };
                (order, settled)
            }
            Self::Packed(packed) => {
                let order = packed.clock_order(held.version());
                let settled = match order {
                    ClockOrder::Same => packed.is_covered_by(held),
                    ClockOrder::Before => !packed.adds_member_to(held),
                    ClockOrder::After | ClockOrder::Concurrent => false,
                };
                (order, settled)
            }
        };
        settled.then_some(order)
    }
}

impl PartialEq for GossipBody {
    /// Whether both are the same state, in whatever form.
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Held(left), Self::Held(right)) => left == right,
            (Self::Packed(left), Self::Packed(right)) => left == right,
            (Self::Held(held), Self::Packed(packed)) | (Self::Packed(packed), Self::Held(held)) => {
                packed.open(held) == **held
            }
        }
    }
}

impl From<Arc<Gossip>> for GossipBody {
    fn from(gossip: Arc<Gossip>) -> Self {
        Self::Held(gossip)
    }
}

/// The state a new member starts with.
#[derive(Clone, Debug, PartialEq)]
pub struct Welcome {
    /// The incarnation that was admitted.
    pub to: UniqueAddress,
    /// The state, with the receiver in it.
    pub gossip: GossipBody,
}

/// A heartbeat or its echo.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heartbeat {
    /// The receiver; answered only by this incarnation.
    pub to: UniqueAddress,
    /// Counts the sender's heartbeat rounds from 1.
    pub sequence: u64,
    /// The sender's monotonic clock in microseconds when it asked; echoed.
    pub sent_at_micros: u64,
}

/// Which version of the state the sender holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GossipStatus {
    /// The receiver.
    pub to: UniqueAddress,
    /// The state's version.
    pub version: VectorClock,
    /// Digest of the set of nodes that have seen it.
    pub seen_digest: u64,
}

/// The whole state.
#[derive(Clone, Debug, PartialEq)]
pub struct GossipEnvelope {
    /// The receiver.
    pub to: UniqueAddress,
    /// The sender's state.
    pub gossip: GossipBody,
}

/// A message between the sharding machines of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardingMessage {
    /// The entity kind.
    pub kind: KindId,
    /// What is said.
    pub body: ShardingBody,
}

/// What regions and coordinators say. Everything a coordinator says carries its term; regions reject a lower one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShardingBody {
    /// Region to coordinator: I exist.
    Register {
        /// How many shards I believe the kind has.
        shard_count: u32,
        /// Shards I host, starting and stopping ones included; empty for a proxy.
        hosted: Vec<ShardId>,
        /// I host nothing, ever.
        proxy: bool,
        /// I am leaving: give me nothing new.
        draining: bool,
    },
    /// Coordinator to region: I know you now.
    RegisterAck {
        /// The coordinator's term.
        term: Term,
    },
    /// Coordinator to region: our shard counts differ.
    RegisterRefused {
        /// The coordinator's term.
        term: Term,
        /// The shard count all others use.
        shard_count: u32,
    },
    /// Coordinator to a member of the role that has not registered: do you host anything?
    RegionQuery {
        /// The coordinator's term.
        term: Term,
    },
    /// Node without this kind to a coordinator that asked: I host nothing of it.
    NoRegion {
        /// The term asked under.
        term: Term,
    },
    /// Region to coordinator: where does this shard live?
    GetShardHome {
        /// The shard.
        shard: ShardId,
    },
    /// Coordinator to region: these shards live there.
    ShardHomes {
        /// The coordinator's term.
        term: Term,
        /// Homes, each node once.
        homes: Vec<(UniqueAddress, Vec<ShardId>)>,
    },
    /// Coordinator to region: host this shard.
    HostShard {
        /// The coordinator's term.
        term: Term,
        /// The shard.
        shard: ShardId,
    },
    /// Region to coordinator: I host it.
    ShardStarted {
        /// The term under which it was asked.
        term: Term,
        /// The shard.
        shard: ShardId,
    },
    /// Coordinator to every region: forget where this shard lives, it will move.
    BeginHandOff {
        /// The coordinator's term.
        term: Term,
        /// The shard.
        shard: ShardId,
    },
    /// Region to coordinator: forgotten; from now on I buffer.
    BeginHandOffAck {
        /// The term under which it was asked.
        term: Term,
        /// The shard.
        shard: ShardId,
    },
    /// Coordinator to the owner: stop this shard.
    HandOff {
        /// The coordinator's term.
        term: Term,
        /// The shard.
        shard: ShardId,
    },
    /// Owner to coordinator: stopped, nothing of it runs here.
    ShardStopped {
        /// The term under which it was asked.
        term: Term,
        /// The shard.
        shard: ShardId,
    },
    /// Region to coordinator: I am leaving, move my shards.
    GracefulShutdownReq,
    /// Region to coordinator: I am gone in good order; no margin is needed.
    RegionStopped,
    /// To a region that looks for a home: there is no region that could be one, or not even this kind where its coordinator
    /// would be.
    NobodyHosts,
}

/// A message to an entity on its way to the entity's home.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntityEnvelope {
    /// The entity's kind.
    pub kind: KindId,
    /// The entity's shard, computed by the sender.
    pub shard: ShardId,
    /// The entity.
    pub entity: EntityId,
    /// The user's bytes.
    pub payload: Payload,
    /// Set if an answer is expected.
    pub ask: Option<AskTicket>,
    /// Times this message was forwarded by a region that was not the home (bounded, so that stale homes cannot loop it).
    pub hops: u8,
}

/// What travels with an ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskTicket {
    /// Who waits.
    pub ask: AskRef,
    /// Time left when the message was sent, in milliseconds; clocks of nodes are never compared.
    pub remaining_ms: u32,
}

/// The answer to an ask, sent straight to the asker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskReply {
    /// The asker's number of the ask.
    pub id: u64,
    /// The asker's incarnation.
    pub to: UniqueAddress,
    /// The entity's answer, or why there is none.
    pub result: Result<Payload, AskFailure>,
}
