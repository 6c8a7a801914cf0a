//! Which senders this node accepts, and who may ask what of it. Pure: what the sender is to this node, what
//! its link has proved and what it asks come in, an answer comes out. Nothing here changes a state, keeps
//! one, or decodes a message. Spec: membership 2.1, reliability 3a (join policy, admin), 3b.

pub mod state;

use crate::ddata::protocol::Msg as DdataMsg;
use crate::detector::protocol::Msg as DetectorMsg;
use crate::journal::protocol::Msg as JournalMsg;
use crate::kv::protocol::Msg as KvMsg;
use crate::lane::MessageTag;
use crate::load::protocol::Msg as LoadMsg;
use crate::membership::protocol::Msg as MembershipMsg;
use crate::paths::protocol::Msg as PathMsg;
use crate::sharding::protocol::Msg as ShardingMsg;
use crate::singleton::protocol::Msg as SingletonMsg;

pub use state::{
    Admission, AdmissionPolicy, AdmitEverybody, Denied, PeerAsk, PeerProof, PeerRequest, SenderStanding,
};

impl<'a> PeerAsk<'a> {
    /// What a message asks, if it asks anything of the kind.
    #[must_use]
    pub const fn of(message: &'a MembershipMsg) -> Option<Self> {
        match message {
            MembershipMsg::Join(join) => Some(Self::Join {
                roles: &join.roles,
                app_version: &join.app_version,
            }),
            MembershipMsg::Leave(node) => Some(Self::Leave(node)),
            MembershipMsg::Down(node) => Some(Self::Down(node)),
            MembershipMsg::InitJoin(_)
            | MembershipMsg::InitJoinAck(_)
            | MembershipMsg::InitJoinNack
            | MembershipMsg::Welcome(_)
            | MembershipMsg::JoinRefused(_)
            | MembershipMsg::Removed { .. }
            | MembershipMsg::ExitingConfirmed { .. }
            | MembershipMsg::GossipStatus(_)
            | MembershipMsg::Gossip(_)
            | MembershipMsg::GossipDelta(_)
            | MembershipMsg::GossipSeen(_) => None,
        }
    }
}

/// What a joiner asks: its link is not closed for keeping silent.
const OF_JOINERS: [MessageTag; 2] = [MembershipMsg::INIT_JOIN, MembershipMsg::JOIN];

/// What a join needs besides: answers to it.
const ANSWERS: [MessageTag; 3] = [
    MembershipMsg::INIT_JOIN_ACK,
    MembershipMsg::INIT_JOIN_NACK,
    MembershipMsg::JOIN_REFUSED,
];

/// The one large thing that is heard of a stranger, if it was asked: the state that a joiner is answered
/// with. A host gives room to no other large frame before its sender is a member;
/// [`crate::node::Node::hears`] says whether this one is heard.
pub const WELCOME: MessageTag = MembershipMsg::WELCOME;

fn is_one_of(tags: &[MessageTag], kind: u16) -> bool {
    tags.iter().any(|tag| tag.kind == kind)
}

/// Whether a frame of this kind asks to join.
#[must_use]
pub fn asks_to_join(kind: u16) -> bool {
    is_one_of(&OF_JOINERS, kind)
}

/// Whether a frame of this kind is a [`WELCOME`].
#[must_use]
pub const fn is_welcome(kind: u16) -> bool {
    kind == WELCOME.kind
}

/// Whether a frame of this kind is decoded for such a sender: everything of members, of others what a join
/// needs. Decided by the kind alone, before a body is decoded or inflated, so that a stranger costs no more
/// than its header.
#[must_use]
pub fn is_heard(kind: u16, of: SenderStanding) -> bool {
    let is_former = match of {
        SenderStanding::Member => return true,
        SenderStanding::Former => true,
        SenderStanding::Stranger { .. } => false,
    };
    if kind == WELCOME.kind {
        return of == SenderStanding::Stranger { was_asked: true };
    }
    if is_one_of(MembershipMsg::TAGS, kind) {
        // Changes of the membership and gossip are said by members.
        is_one_of(&OF_JOINERS, kind) || is_one_of(&ANSWERS, kind)
    } else if is_one_of(DetectorMsg::TAGS, kind) {
        // A newcomer is watched, and watches, before everybody has heard of it.
        true
    } else if is_one_of(ShardingMsg::TAGS, kind) {
        // Its host lets a link for entities wait until this node has heard of the sender. The rest of it is
        // said to members; answers and ends of hand-offs are the last words of one that has left.
        kind == ShardingMsg::ENTITY.kind || is_former
    } else if is_one_of(SingletonMsg::TAGS, kind) {
        // The same of messages to instances and of answers. A manager hears members only.
        kind == SingletonMsg::SINGLETON_MESSAGE.kind || is_former
    } else if is_one_of(PathMsg::TAGS, kind) {
        // And of those to instances of paths.
        kind == PathMsg::PATH_MESSAGE.kind || is_former
    } else {
        // Replicas are members, and so is whoever has a bucket or tells how loaded it is. What nobody knows
        // is counted as that.
        ![DdataMsg::TAGS, JournalMsg::TAGS, LoadMsg::TAGS, KvMsg::TAGS]
            .iter()
            .any(|tags| is_one_of(tags, kind))
    }
}

#[cfg(test)]
mod tests;
