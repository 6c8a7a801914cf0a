//! What nodes say to each other: one arm per machine. What each says is in its `protocol`; the bytes are
//! `wire`'s business. Spec: membership 5, sharding 2.1.

use alloc::boxed::Box;
use core::convert::Infallible;

pub use crate::ddata::protocol::Msg as DdataMsg;
pub use crate::detector::protocol::{Heartbeat, Msg as DetectorMsg};
pub use crate::journal::protocol::Msg as JournalMsg;
pub use crate::kv::protocol::Msg as KvMsg;
pub use crate::lane::{Lane, MessageTag};
pub use crate::load::protocol::{ChordProbe, ChordReply, Msg as LoadMsg, SampleTold};
pub use crate::membership::protocol::{
    GossipDelta, GossipEnvelope, GossipSeen, GossipStatus, InitJoin, InitJoinAck, Join, JoinRefused,
    Msg as MembershipMsg, StateDigest, StateSteps, Welcome,
};
pub use crate::membership::state::body::GossipBody;
pub use crate::messaging::protocol::{AskReply, AskTicket};
pub use crate::paths::protocol::Msg as PathMsg;
pub use crate::sharding::protocol::{
    EntityEnvelope, Msg as ShardingMsg, ShardMark, ShardingBody, ShardingMessage,
};
pub use crate::singleton::protocol::Msg as SingletonMsg;

/// One message between two nodes.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// Of the membership machines.
    Membership(MembershipMsg),
    /// Of the failure detectors.
    Detector(DetectorMsg),
    /// Of the sharding machines.
    Sharding(ShardingMsg),
    /// Of the replicators.
    Ddata(DdataMsg),
    /// Of the singletons.
    Singleton(SingletonMsg),
    /// Of the quorum logs. In a box: a third larger than any other, and each message is as large as the
    /// largest.
    Journal(Box<JournalMsg>),
    /// Of load.
    Load(LoadMsg),
    /// Of paths.
    Path(PathMsg),
    /// Of the keyed store.
    Kv(KvMsg),
}

impl From<MembershipMsg> for Message {
    fn from(msg: MembershipMsg) -> Self {
        Self::Membership(msg)
    }
}

impl From<DetectorMsg> for Message {
    fn from(msg: DetectorMsg) -> Self {
        Self::Detector(msg)
    }
}

impl From<ShardingMsg> for Message {
    fn from(msg: ShardingMsg) -> Self {
        Self::Sharding(msg)
    }
}

impl From<DdataMsg> for Message {
    fn from(msg: DdataMsg) -> Self {
        Self::Ddata(msg)
    }
}

impl From<SingletonMsg> for Message {
    fn from(msg: SingletonMsg) -> Self {
        Self::Singleton(msg)
    }
}

impl From<JournalMsg> for Message {
    fn from(msg: JournalMsg) -> Self {
        Self::Journal(Box::new(msg))
    }
}

impl From<LoadMsg> for Message {
    fn from(msg: LoadMsg) -> Self {
        Self::Load(msg)
    }
}

impl From<PathMsg> for Message {
    fn from(msg: PathMsg) -> Self {
        Self::Path(msg)
    }
}

impl From<KvMsg> for Message {
    fn from(msg: KvMsg) -> Self {
        Self::Kv(msg)
    }
}

impl From<Infallible> for Message {
    /// Of a machine that says nothing.
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

impl Message {
    /// The tags of all messages, machine by machine.
    pub const TAGS: [&'static [MessageTag]; 9] = [
        MembershipMsg::TAGS,
        DetectorMsg::TAGS,
        ShardingMsg::TAGS,
        DdataMsg::TAGS,
        SingletonMsg::TAGS,
        JournalMsg::TAGS,
        LoadMsg::TAGS,
        PathMsg::TAGS,
        KvMsg::TAGS,
    ];

    /// The message's tag, as its protocol states it.
    #[must_use]
    pub const fn tag(&self) -> MessageTag {
        match self {
            Self::Membership(msg) => msg.tag(),
            Self::Detector(msg) => msg.tag(),
            Self::Sharding(msg) => msg.tag(),
            Self::Ddata(msg) => msg.tag(),
            Self::Singleton(msg) => msg.tag(),
            Self::Journal(msg) => msg.tag(),
            Self::Load(msg) => msg.tag(),
            Self::Path(msg) => msg.tag(),
            Self::Kv(msg) => msg.tag(),
        }
    }

    /// The user's bytes in it: what a queue of messages can grow large by.
    #[must_use]
    pub fn payload_bytes(&self) -> usize {
        match self {
            Self::Membership(_) | Self::Detector(_) | Self::Load(_) => 0,
            Self::Sharding(msg) => msg.payload_bytes(),
            Self::Ddata(msg) => msg.payload_bytes(),
            Self::Singleton(msg) => msg.payload_bytes(),
            Self::Journal(msg) => msg.payload_bytes(),
            Self::Path(msg) => msg.payload_bytes(),
            Self::Kv(msg) => msg.payload_bytes(),
        }
    }

    /// The lane this kind of message travels on.
    #[must_use]
    pub const fn lane(&self) -> Lane {
        self.tag().lane
    }
}
