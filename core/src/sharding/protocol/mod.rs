//! What regions, coordinators and the ask table say and hear: messages between nodes, commands, orders to the
//! host of the entities and its reports, timers, events. Types only. Spec: sharding 2.1, 10.1.

mod allocation;
mod command_error;
pub mod counters;
mod entity;
mod event;
mod kind_settings;
mod mark;
mod part;
pub mod registry;
mod rejection;
mod shutdown;
mod start;
pub mod stop;
mod store_ask;
pub mod survey;
mod timers;
pub mod watch;

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

use crate::ident::UniqueAddress;
use crate::lane::{MessageTag, tags};
use crate::messaging::protocol::AskReply;
use crate::sharding::protocol::registry::RegistryMsg;
use crate::sharding::protocol::stop::{StopMsg, StoppedShards};
use crate::sharding::protocol::survey::{EntityPage, EntityPosition, Explained, Survey, SurveyMsg};
use crate::sharding::protocol::watch::{TerminationReason, WatchId, WatchMsg, WatchTarget};
use crate::sharding::state::fields::KindFields;
use crate::sharding::state::ids::{EntityId, KindId, ShardId, Term};
use crate::sharding::state::wish::Wish;
use crate::token::Token;

pub use allocation::{
    AllocationAnswer, AllocationDecided, AllocationNeed, AllocationQuestion, HomeWanted, RegionShards,
};
pub use command_error::ShardingCommandError;
pub use entity::EntityEnvelope;
pub use event::Event;
pub use kind_settings::KindSettings;
pub use mark::ShardMark;
pub use part::ListPart;
pub use rejection::Rejection;
pub use shutdown::RegionShutdown;
pub use start::{EntityStarts, STARTS_MAX};
pub(crate) use store_ask::{StoreAsk, StoreUser};
pub use timers::{CoordinatorTimer, RegionTimer, Timer};

/// One message of sharding between two nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Msg {
    /// Between regions and coordinators of one entity kind.
    Kind(ShardingMessage),
    /// A message to an entity.
    Entity(EntityEnvelope),
    /// The answer to an ask.
    AskReply(AskReply),
    /// Between a node and the oldest member, about which kinds there are.
    Registry(RegistryMsg),
    /// A message to an entity, unhandled, from a region that does not serve its shard to the node whose user
    /// sent it.
    HandBack(EntityEnvelope),
    /// What nodes host of a kind, for people to read.
    Survey(SurveyMsg),
    /// Behind all messages to entities of a shard that one region has sent to another.
    Mark(ShardMark),
    /// Everything before the mark has been delivered, or handed back before this.
    MarkAck(ShardMark),
    /// Between who watches entities and who hosts them.
    Watch(WatchMsg),
    /// A region that remembers entities of another one's shard to that one.
    Start(EntityStarts),
    /// They are remembered there.
    Started(EntityStarts),
}

impl Msg {
    tags! {
        /// `Sharding`; unstable.
        SHARDING = 0x0100 on Control;
        /// `Entity`; unstable.
        ENTITY = 0x0101 on User;
        /// `AskReply`; unstable.
        ASK_REPLY = 0x0102 on Reply;
        /// `Registry`; unstable.
        REGISTRY = 0x0103 on Control;
        /// `HandBack`; unstable.
        HAND_BACK = 0x0104 on Reply;
        /// `Survey`; unstable.
        SURVEY = 0x0105 on Control;
        /// `Mark`; unstable.
        MARK = 0x0106 on User;
        /// `MarkAck`; unstable.
        MARK_ACK = 0x0107 on Reply;
        /// `Watch`; unstable.
        WATCH = 0x0108 on Control;
        /// `Start`; unstable.
        START = 0x0109 on Control;
        /// `Started`; unstable.
        STARTED = 0x010a on Control;
    }

    /// The message's tag.
    #[must_use]
    pub const fn tag(&self) -> MessageTag {
        match self {
            Self::Kind(_) => Self::SHARDING,
            Self::Entity(_) => Self::ENTITY,
            Self::AskReply(_) => Self::ASK_REPLY,
            Self::Registry(_) => Self::REGISTRY,
            Self::HandBack(_) => Self::HAND_BACK,
            Self::Survey(_) => Self::SURVEY,
            Self::Mark(_) => Self::MARK,
            Self::MarkAck(_) => Self::MARK_ACK,
            Self::Watch(_) => Self::WATCH,
            Self::Start(_) => Self::START,
            Self::Started(_) => Self::STARTED,
        }
    }

    /// The user's bytes in it.
    #[must_use]
    pub fn payload_bytes(&self) -> usize {
        match self {
            Self::Kind(_)
            | Self::Registry(_)
            | Self::Survey(_)
            | Self::Mark(_)
            | Self::MarkAck(_)
            | Self::Watch(_)
            | Self::Start(_)
            | Self::Started(_) => 0,
            Self::Entity(envelope) | Self::HandBack(envelope) => envelope.payload.len(),
            Self::AskReply(reply) => reply.result.as_ref().map_or(0, |payload| payload.len()),
        }
    }
}

/// A message between the sharding machines of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardingMessage {
    /// The entity kind.
    pub kind: KindId,
    /// What is said.
    pub body: ShardingBody,
}

/// What regions and coordinators say. Everything a coordinator says carries its term; regions reject a lower
/// one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShardingBody {
    /// Region to coordinator: I exist.
    Register {
        /// What I believe the kind to be; without anything kept, I am a proxy and host nothing, ever.
        fields: KindFields,
        /// Shards I host, starting and stopping ones included; empty for a proxy.
        hosted: Vec<ShardId>,
        /// I am leaving: give me nothing new.
        draining: bool,
        /// Which part of `hosted` this is: more shards than fit into a frame are named one part after the
        /// other.
        part: ListPart,
    },
    /// Region to coordinator, before it registers: with these tokens I was given the shards that I host.
    ShardTokens {
        /// Shards and their tokens; there may be several messages of it.
        tokens: Vec<(ShardId, Token)>,
    },
    /// Coordinator to region: I know you now.
    RegisterAck {
        /// The coordinator's term.
        term: Term,
    },
    /// Coordinator to region: our kinds differ.
    RegisterRefused {
        /// The coordinator's term.
        term: Term,
        /// What the kind is here.
        fields: KindFields,
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
        /// The placement's token; [`Token::NONE`] where a region has not said with which one it hosts the
        /// shard: it goes on with that.
        token: Token,
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
        /// Which of its hand-offs, counted from 1.
        number: u64,
    },
    /// Region to coordinator: forgotten, and everything I sent has arrived; from now on I buffer.
    BeginHandOffAck {
        /// The term under which it was asked.
        term: Term,
        /// The shard.
        shard: ShardId,
        /// The hand-off.
        number: u64,
    },
    /// Coordinator to the owner: stop this shard.
    HandOff {
        /// The coordinator's term.
        term: Term,
        /// The shard.
        shard: ShardId,
        /// Several regions run it: kill what does not stop in time.
        by_force: bool,
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
    /// Between a region whose user wants shards stopped and the coordinator.
    Stop(StopMsg),
    /// To a region that looks for a home: there is no region that could be one, or not even this kind where
    /// its coordinator would be.
    NobodyHosts,
}

/// What a caller wants of sharding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Host or reach entities of a kind.
    RegisterKind(Box<KindSettings>),
    /// May somebody say from outside where this shard of the kind should be? To be asked before a wish is
    /// kept, which [`SetDesiredHomes`](Self::SetDesiredHomes) would pass over. Refused by what this node
    /// knows of the kind: [`NoSuchShard`](ShardingCommandError::NoSuchShard),
    /// [`NotPlaced`](ShardingCommandError::NotPlaced) where its allocation on this node is another one. Of a
    /// kind that is not registered here only a shard that no kind has is refused, and a proxy without an
    /// allocation leaves that to those who host.
    CheckPlace {
        /// The kind.
        kind: KindId,
        /// The shard.
        shard: ShardId,
    },
    /// Where shards of a kind with external allocation should be, from now on: all that is wanted, what is
    /// not named may be anywhere. Heard by the coordinator of this node, so every node that may become the
    /// oldest has to be told. Shards that the kind does not have are passed over.
    SetDesiredHomes {
        /// The kind.
        kind: KindId,
        /// Shards and where they should be, each shard once.
        homes: Vec<(ShardId, Wish)>,
    },
    /// The answer to an [`AllocationQuestion`]. One that comes too late is counted and changes nothing.
    AnswerAllocation(AllocationAnswer),
    /// How many entities of a kind this node may run, from now on. Those that are too many are passivated.
    SetEntityLimit {
        /// The kind.
        kind: KindId,
        /// All its shards together; each has its equal part of it, at least one.
        per_region: usize,
    },
    /// Hand over all shards of a kind that this node hosts, and host none of it until it is registered again.
    /// Answered with [`Answer::ShutDown`] when every shard has a new home, or at the end of the time.
    ShutDownRegion {
        /// The kind.
        kind: KindId,
        /// How long it may take before what still runs is killed (1 ms to 24 h; clamped). `None`:
        /// `shutdown.cluster_sharding_shutdown_region_timeout`.
        timeout: Option<Duration>,
    },
    /// Say when something ends. Answered with [`Answer::Terminated`], exactly once: at its end, or at once if
    /// it is over.
    Watch {
        /// The watch's number; none is used again while it is open.
        watch: WatchId,
        /// What.
        target: WatchTarget,
    },
    /// Say so no more: the watch, if it is open, is answered as done.
    Unwatch {
        /// The watch.
        watch: WatchId,
    },
    /// What hosts a kind, node by node. Answered with [`Answer::Surveyed`], when all members that may host it
    /// have said so or at the end of the time, and then it says who has not.
    Survey {
        /// The kind.
        kind: KindId,
        /// How long to wait (1 ms to 60 s; clamped).
        timeout: Duration,
    },
    /// Which entities of a kind run, shard by shard, a page at a time. Answered with [`Answer::Entities`],
    /// when all members that may host it have said so or at the end of the time, and then it says which
    /// shards and nodes have not.
    ListEntities {
        /// The kind.
        kind: KindId,
        /// Only those behind this: the end of the page before.
        after: Option<EntityPosition>,
        /// How long to wait (1 ms to 60 s; clamped).
        timeout: Duration,
    },
    /// Stop shards of a kind, wherever they are: their entities stop as in a hand-off, and they begin again
    /// with their next messages. Each is acknowledged, one that has stopped at once. Answered with
    /// [`Answer::ShardsStopped`], when all are or at the end of the time. Refused of a kind that remembers
    /// its entities.
    StopShards {
        /// The kind.
        kind: KindId,
        /// The shards.
        shards: Vec<ShardId>,
        /// How long to wait (1 ms to 24 h; clamped).
        timeout: Duration,
    },
    /// Where an entity's shard is and why. Answered with [`Answer::Explained`], when the coordinator has said
    /// so or at the end of the time.
    Explain {
        /// The kind.
        kind: KindId,
        /// The entity.
        entity: EntityId,
        /// How long to wait (1 ms to 60 s; clamped).
        timeout: Duration,
    },
}

/// What sharding answers a command with, beyond that it is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// What nodes host of a kind.
    Surveyed(Survey),
    /// Where an entity's shard is and why.
    Explained(Explained),
    /// Which entities of a kind run.
    Entities(EntityPage),
    /// Which shards have stopped.
    ShardsStopped(StoppedShards),
    /// This node hosts nothing of a kind any more, or cannot end what it hosts.
    ShutDown(RegionShutdown),
    /// What was watched is no more.
    Terminated(TerminationReason),
}
