//! What the membership machine says and hears: messages between nodes, commands, timers, events, refusals.
//! Types only: what is done about them is decided in the machine's files, how they are written in `wire`. A
//! message carries no sender (the link it came over has a checked peer) and names its receiver's incarnation
//! wherever a late one could be mistaken. Spec: membership 5, 8.6.

pub mod counters;
pub(crate) mod news;
mod progress;

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

pub use self::news::{GossipDelta, GossipSeen, GossipStatus, StateDigest, StateSteps};
pub use self::progress::ShutdownProgress;
use crate::agreement::{Differences, Settings};
use crate::bytes::WireError;
use crate::ident::{Address, Roles, UniqueAddress};
use crate::lane::{MessageTag, tags};
use crate::membership::state::app_version::AppVersion;
use crate::membership::state::body::GossipBody;
use crate::membership::state::events::MembershipChange;
use crate::view::View;

/// One message of membership between two nodes.
#[derive(Clone, Debug, PartialEq)]
pub enum Msg {
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
    /// An exiting member has handed over its work; said to the leader.
    ExitingConfirmed {
        /// The receiver.
        to: UniqueAddress,
    },
    /// Which state I hold, instead of the state.
    GossipStatus(GossipStatus),
    /// The state I hold.
    Gossip(GossipEnvelope),
    /// The state I hold, as what differs from another one.
    GossipDelta(GossipDelta),
    /// I have seen this state; said to the leader.
    GossipSeen(GossipSeen),
}

impl Msg {
    tags! {
        /// `InitJoin`.
        INIT_JOIN = 1 on Control;
        /// `InitJoinAck`.
        INIT_JOIN_ACK = 2 on Control;
        /// `InitJoinNack`.
        INIT_JOIN_NACK = 3 on Control;
        /// `Join`.
        JOIN = 4 on Control;
        /// `Welcome`.
        WELCOME = 5 on Gossip;
        /// `Leave`.
        LEAVE = 6 on Control;
        /// `Down`.
        DOWN = 7 on Control;
        /// `ExitingConfirmed`.
        EXITING_CONFIRMED = 10 on Control;
        /// `GossipStatus`.
        GOSSIP_STATUS = 11 on Gossip;
        /// `Gossip`.
        GOSSIP = 12 on Gossip;
        /// `GossipDelta`.
        GOSSIP_DELTA = 13 on Gossip;
        /// `GossipSeen`.
        GOSSIP_SEEN = 14 on Gossip;
        /// `JoinRefused`.
        JOIN_REFUSED = 15 on Control;
        /// `Removed`.
        REMOVED = 16 on Control;
    }

    /// The message's tag.
    #[must_use]
    pub const fn tag(&self) -> MessageTag {
        match self {
            Self::InitJoin(_) => Self::INIT_JOIN,
            Self::InitJoinAck(_) => Self::INIT_JOIN_ACK,
            Self::InitJoinNack => Self::INIT_JOIN_NACK,
            Self::Join(_) => Self::JOIN,
            Self::Welcome(_) => Self::WELCOME,
            Self::JoinRefused(_) => Self::JOIN_REFUSED,
            Self::Removed { .. } => Self::REMOVED,
            Self::Leave(_) => Self::LEAVE,
            Self::Down(_) => Self::DOWN,
            Self::ExitingConfirmed { .. } => Self::EXITING_CONFIRMED,
            Self::GossipStatus(_) => Self::GOSSIP_STATUS,
            Self::Gossip(_) => Self::GOSSIP,
            Self::GossipDelta(_) => Self::GOSSIP_DELTA,
            Self::GossipSeen(_) => Self::GOSSIP_SEEN,
        }
    }
}

/// The joiner's question, with what must agree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InitJoin {
    /// The joiner's settings that all members share.
    pub settings: Settings,
}

/// A seed's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InitJoinAck {
    /// Whether the settings that must agree do, as the seed sees it.
    pub compatible: bool,
    /// The seed's settings, as far as the joiner named them or must have them; none if both lists are the
    /// same.
    pub settings: Settings,
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

/// The state a new member starts with.
#[derive(Clone, Debug, PartialEq)]
pub struct Welcome {
    /// The incarnation that was admitted.
    pub to: UniqueAddress,
    /// The state, with the receiver in it.
    pub gossip: GossipBody,
}

/// The whole state.
#[derive(Clone, Debug, PartialEq)]
pub struct GossipEnvelope {
    /// The receiver.
    pub to: UniqueAddress,
    /// The sender's state.
    pub gossip: GossipBody,
}

/// Why a join was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JoinRefusal {
    /// The cluster is preparing to shut down.
    #[error("the cluster is shutting down")]
    ShuttingDown,
    /// The receiver is on its way out.
    #[error("the member that was asked is Down or Exiting")]
    ReceiverLeaving,
    /// The joiner has my own address (B-43).
    #[error("the joining node has the address of the member it asked")]
    AddressConflict,
    /// This incarnation was removed before (B-44).
    #[error("this incarnation was removed before")]
    UidRemoved,
    /// The cluster is full.
    #[error("the cluster has reached its member limit")]
    TooManyMembers,
    /// The tombstone table is full.
    #[error("too many members were removed recently")]
    TooManyTombstones,
    /// The receiver's policy does not admit the joiner.
    #[error("the join policy does not admit this node")]
    NotAdmitted,
    /// With one more member the state might not fit a gossip frame.
    #[error("the cluster's state would become too large to be sent")]
    StateTooLarge,
    /// A reason this version does not know.
    #[error("unknown reason {code}, of a later version")]
    Other {
        /// Its number on the wire.
        code: u8,
    },
}

impl JoinRefusal {
    /// Whether this very incarnation can never be admitted, however often it asks.
    #[must_use]
    pub const fn is_final(self) -> bool {
        match self {
            Self::UidRemoved | Self::AddressConflict => true,
            Self::ShuttingDown
            | Self::NotAdmitted
            | Self::ReceiverLeaving
            | Self::TooManyMembers
            | Self::TooManyTombstones
            | Self::StateTooLarge
            | Self::Other { .. } => false,
        }
    }
}

/// What a caller wants of membership.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Become a member through these seeds; the first seed may form a new cluster. Answered when the process
    /// started.
    JoinSeeds(Vec<Address>),
    /// Become a member through this node; my own address forms a cluster of one.
    Join(Address),
    /// Leave gracefully: this node hands its work over, then halts.
    Leave,
    /// Move another member to Leaving.
    LeaveMember(Address),
    /// Move a member to Down.
    Down(DownTarget),
    /// Remove a member at once, without convergence and without waiting for proof that it stopped. The last
    /// resort of an operator: if it still runs, it stops when it learns of its removal, but until then it may
    /// do what others now do too.
    Remove(DownTarget),
    /// Prepare the whole cluster for a full shutdown: nobody joins or rises any more. There is no way back.
    PrepareForShutdown,
    /// The host has work of its own on this node's way out (`shutdown`): from now on no part hands over
    /// before the host says so, and the host hears when one has ([`Event::HandedOver`]). It must say so in
    /// the end, or the node never ends.
    PaceExit,
    /// The host lets this part hand over, and those before it; one before it that is still at it is waited
    /// for no longer. With the last one the node goes, Exiting or not. Only after [`Command::PaceExit`].
    HandOver(crate::drain::DrainPart),
}

/// Whom to down or remove.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DownTarget {
    /// The live incarnation at this address.
    Address(Address),
    /// Exactly this incarnation.
    Node(UniqueAddress),
}

/// Why membership refused a command. The caller's mistake, never the peer's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MembershipCommandError {
    /// The node is already a member or joining.
    #[error("this node has already joined or is joining a cluster")]
    AlreadyJoined,
    /// No seeds were given.
    #[error("the list of seeds is empty")]
    NoSeeds,
    /// No member has this address.
    #[error("no such member")]
    UnknownMember,
    /// The node has not joined yet.
    #[error("this node is not a member of a cluster")]
    NotAMember,
    /// A node cannot remove itself while there are others; it leaves.
    #[error("a node cannot remove itself while there are other members; let it leave instead")]
    NotMyself,
    /// No member is Up: there is nothing yet whose shutdown could be prepared.
    #[error("no member of the cluster is Up yet")]
    NobodyIsUp,
}

/// Timers of the membership machine.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// A gossip round.
    Gossip,
    /// The first extra round of a sped-up interval.
    GossipExtraFirst,
    /// The second extra round of a sped-up interval.
    GossipExtraSecond,
    /// News to be pushed.
    News,
    /// Leader actions.
    LeaderActions,
    /// The state has just been converged at the leader.
    Converged,
    /// The join target did not answer with a Welcome.
    JoinRetry,
    /// The seed process asks again.
    SeedRetry,
    /// The first seed gives up waiting for the others and forms the cluster.
    SeedSelfJoin,
    /// The join process as a whole takes too long; give up.
    JoinAbort,
    /// The local work was not handed over in time; go on anyway.
    ExitDrain,
    /// The leader did not move this leaving node on in time; go anyway.
    ExitLeaving,
    /// Links of a gracefully removed incarnation are refused from now on.
    Quarantine(UniqueAddress),
}

/// Events of membership, for users.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// The membership picture changed; the new picture comes with it.
    Changed {
        /// What changed.
        change: MembershipChange,
        /// The picture after the whole step.
        view: Arc<View>,
    },
    /// This node has become Up.
    SelfUp,
    /// This node is no longer a member. Said exactly once, after its shards were told to stop and before the
    /// answers to asks that are still open: a host that gives back now what it has not sent tells those
    /// callers that they may ask again.
    SelfRemoved,
    /// A join attempt failed; the node goes on trying.
    JoinFailed {
        /// What was wrong.
        reason: JoinFailure,
    },
    /// The leader has not been able to act for a while.
    LeaderIncapacitated {
        /// Leader ticks without convergence.
        ticks: u64,
    },
    /// A peer asked for something that changes who is a member, and the policy was asked.
    Asked(Audit),
    /// A part of this node has handed over: only for a host that says when each may ([`Command::PaceExit`]).
    HandedOver {
        /// Which phase of the node's own that was.
        phase: ShutdownProgress,
    },
    /// A member has been Leaving for [`exit_timeout`](crate::config::PathsConfig::exit_timeout) and has not
    /// handed over its instances of paths: this node, the leader, lets it go.
    PathsNotHandedOver {
        /// The member.
        node: UniqueAddress,
    },
    /// A phase of this node's way out took longer than it may; the node went on without waiting.
    ShutdownPhaseTimedOut {
        /// Which phase.
        phase: ShutdownProgress,
    },
}

/// What became of a peer's request, for the audit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Audit {
    /// What was asked: `join`, `leave` or `down`.
    pub what: &'static str,
    /// Who asked.
    pub by: UniqueAddress,
    /// Whom it is about.
    pub whom: UniqueAddress,
    /// Why the policy refused; `None` if it did not.
    pub refused: Option<String>,
}

/// A seed that this node did not get in by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeedFailure {
    /// Its address.
    pub seed: Address,
    /// Why, as far as is known.
    pub cause: SeedCause,
}

/// Why a seed was of no help. The node itself knows the first four; what came of its dials its host knows,
/// and puts in the place of [`SeedCause::NoAnswer`] before users hear of it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SeedCause {
    /// It did not answer.
    NoAnswer,
    /// It answered that it is in no cluster itself.
    InNoCluster,
    /// It would not have this node: these settings differ.
    SettingsDiffer(Differences),
    /// It would have taken this node in, had no other refused.
    Agrees,
    /// Nobody listens at its address.
    Refused,
    /// Nobody knows its name.
    Unresolvable,
    /// One of the two does not believe the other, or only one of them encrypts: in words.
    Security(String),
    /// It belongs to another cluster.
    OtherCluster,
    /// What else the host says.
    Other(String),
}

/// Why a join attempt failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum JoinFailure {
    /// No seed answered in time, or none that is in a cluster.
    NoSeedAnswered {
        /// Attempts so far.
        attempt: u32,
        /// The last cause of each seed, in the order in which they were given; not this node itself.
        seeds: Vec<SeedFailure>,
    },
    /// A seed's settings and this node's differ in a way that cannot work. With `enforce_config_on_join` the
    /// node halts; with several seeds it hears the others first, and [`JoinFailure::NoSeedAnswered`] says
    /// what each had against it.
    IncompatibleConfig {
        /// The seed.
        seed: Address,
        /// Every setting that differs, with this node's value and the seed's.
        differences: Differences,
    },
    /// No Welcome came in time.
    NoWelcome,
    /// A member refused.
    Refused {
        /// Why.
        reason: JoinRefusal,
    },
    /// It took longer than `shutdown_after_unsuccessful_join`; the node halts.
    Aborted,
}

/// What was wrong with a peer's message to membership. Catalogue: reliability 3c.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Rejection {
    /// The sender is not a member (B-41).
    #[error("the sender is not a member")]
    NotMember,
    /// I marked the sender unreachable myself and do not listen to it until it answers heartbeats again.
    #[error("this node observes the sender as unreachable")]
    SenderUnreachable,
    /// The state does not contain the receiver (B-42).
    #[error("the state does not contain the receiver")]
    NotInGossip,
    /// What was said to differ from a state that is known here does not, or leads to no legal state.
    #[error("a delta does not lead to the state it names: {0}")]
    BadDelta(WireError),
    /// The state claims more of my own changes than I made (B-37).
    #[error("the state has {claimed} changes of this node, which made {own}")]
    ForgedClock {
        /// Claimed.
        claimed: u64,
        /// Made.
        own: u64,
    },
    /// The state's clock has far more changes of another member than are known here (B-37). Said of one
    /// member, counted for each.
    #[error("the state has {claimed} changes of {node}, of which {known} are known here")]
    ClockAhead {
        /// Whose changes.
        node: UniqueAddress,
        /// Claimed.
        claimed: u64,
        /// Held here.
        known: u64,
    },
    /// The counter of the state's table of paths is far above the one held here (B-37).
    #[error("the state's table of paths is at {claimed}, and at {known} here")]
    PathsAhead {
        /// Claimed.
        claimed: u64,
        /// Held here.
        known: u64,
    },
    /// A join that cannot be accepted (B-43 to B-46).
    #[error("join refused: {0}")]
    JoinRefused(JoinRefusal),
    /// A joiner was told that its settings differ (B-47). Said once a minute of an incarnation, counted every
    /// time.
    #[error("the settings of the joining node differ: {0}")]
    SettingsDiffer(Differences),
}
