//! Who may ask what of this node, and who is heard at all. Pure: what the sender is to this node, what its link has proved and what
//! it asks come in, an answer comes out. Nothing here changes a state, keeps one, or decodes a message. Spec: membership 2.1,
//! reliability 3a (join policy, admin), 3b.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt::{self, Debug, Formatter};

use crate::ddata::protocol::Msg as DdataMsg;
use crate::detector::protocol::Msg as DetectorMsg;
use crate::ident::{Roles, UniqueAddress};
use crate::lane::Tag;
use crate::membership::protocol::Msg as MembershipMsg;
use crate::membership::state::app_version::AppVersion;
use crate::sharding::protocol::Msg as ShardingMsg;

/// What a sender is to this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// A member.
    Member,
    /// It was one, and was removed.
    Former,
    /// Neither: a joiner, a member of whom this node has not heard, or nobody.
    Stranger {
        /// This node has asked it to take it in.
        was_asked: bool,
    },
}

/// What the peer of a link has proved to the host, which has checked it. Nothing where the host checks nothing.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub enum Proof<'a> {
    /// Nothing: whoever reaches the port gets so far.
    #[default]
    Nothing,
    /// That it has a pre-shared key that is listed.
    Key {
        /// What the key is called among the host's; not the key.
        name: &'a [u8],
    },
    /// That a certificate of a trusted authority is its own. The names in it are the host's to read.
    Certificate {
        /// The certificate.
        der: &'a [u8],
        /// Those between it and the authority.
        intermediates: &'a [Vec<u8>],
    },
}

impl Debug for Proof<'_> {
    /// A weak key could be found out by trying what gives its name.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nothing => "Nothing",
            Self::Key { .. } => "Key",
            Self::Certificate { .. } => "Certificate",
        })
    }
}

/// What a peer asks that changes who is a member. Nobody asks for a removal from elsewhere: that is this node's own program's to
/// do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ask<'a> {
    /// To be taken in.
    Join {
        /// The roles it says it has.
        roles: &'a Roles,
        /// The version of the application that it says it runs.
        app_version: &'a AppVersion,
    },
    /// That a member leaves in good order.
    Leave(&'a UniqueAddress),
    /// That a member goes at once, as if it had crashed.
    Down(&'a UniqueAddress),
}

impl<'a> Ask<'a> {
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
            | MembershipMsg::Gossip(_) => None,
        }
    }

    /// In one word, for the audit line.
    #[must_use]
    pub const fn what(&self) -> &'static str {
        match self {
            Self::Join { .. } => "join",
            Self::Leave(_) => "leave",
            Self::Down(_) => "down",
        }
    }
}

/// A peer that asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Request<'a> {
    /// The incarnation. How much is proved of it is the host's.
    pub by: &'a UniqueAddress,
    /// What its link has proved.
    pub proof: Proof<'a>,
    /// What it asks.
    pub ask: Ask<'a>,
}

impl<'a> Request<'a> {
    /// A request, for a host that asks its policy itself, and for tests of a policy.
    #[must_use]
    pub const fn new(by: &'a UniqueAddress, proof: Proof<'a>, ask: Ask<'a>) -> Self {
        Self { by, proof, ask }
    }

    /// Whom it is about.
    #[must_use]
    pub const fn whom(&self) -> &'a UniqueAddress {
        match self.ask {
            Ask::Join { .. } => self.by,
            Ask::Leave(node) | Ask::Down(node) => node,
        }
    }
}

/// Why a policy says no: words for the audit line. The peer hears only that it does.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Denied(pub String);

/// Who may change who is a member, from elsewhere. Like a strategy it is a pure function, called on the node's loop: it answers
/// at once, by nothing but the request.
pub trait AdmissionPolicy: Debug + Send + Sync {
    /// Whether a peer may have what it asks.
    ///
    /// # Errors
    /// [`Denied`] says why not.
    fn allows(&self, request: &Request<'_>) -> Result<(), Denied>;
}

/// Lets everybody who gets a link: the default.
#[derive(Clone, Copy, Debug, Default)]
pub struct Everybody;

impl AdmissionPolicy for Everybody {
    fn allows(&self, _: &Request<'_>) -> Result<(), Denied> {
        Ok(())
    }
}

/// A policy, shared by all clones of a configuration.
#[derive(Clone, Debug)]
pub struct Admission(pub Arc<dyn AdmissionPolicy>);

impl Default for Admission {
    fn default() -> Self {
        Self(Arc::new(Everybody))
    }
}

/// What a joiner asks: its link is not closed for keeping silent.
const OF_JOINERS: [Tag; 2] = [MembershipMsg::INIT_JOIN, MembershipMsg::JOIN];

/// What a join needs besides: answers to it.
const ANSWERS: [Tag; 3] = [
    MembershipMsg::INIT_JOIN_ACK,
    MembershipMsg::INIT_JOIN_NACK,
    MembershipMsg::JOIN_REFUSED,
];

/// The one large thing that is heard of a stranger, if it was asked: the state that a joiner is answered with. A host gives room to
/// no other large frame before its sender is a member; [`crate::node::Node::hears`] says whether this one is heard.
pub const WELCOME: Tag = MembershipMsg::WELCOME;

fn is_one_of(tags: &[Tag], kind: u16) -> bool {
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

/// Whether a frame of this kind is decoded for such a sender: everything of members, of others what a join needs. Decided by
/// the kind alone, before a body is decoded or inflated, so that a stranger costs no more than its header.
#[must_use]
pub fn is_heard(kind: u16, of: Standing) -> bool {
    let is_former = match of {
        Standing::Member => return true,
        Standing::Former => true,
        Standing::Stranger { .. } => false,
    };
    if kind == WELCOME.kind {
        return of == Standing::Stranger { was_asked: true };
    }
    if is_one_of(MembershipMsg::TAGS, kind) {
        // Changes of the membership and gossip are said by members.
        is_one_of(&OF_JOINERS, kind) || is_one_of(&ANSWERS, kind)
    } else if is_one_of(DetectorMsg::TAGS, kind) {
        // A newcomer is watched, and watches, before everybody has heard of it.
        true
    } else if is_one_of(ShardingMsg::TAGS, kind) {
        // Its host lets a link for entities wait until this node has heard of the sender. The rest of it is said to members;
        // answers and ends of hand-offs are the last words of one that has left.
        kind == ShardingMsg::ENTITY.kind || is_former
    } else {
        // Replicas are members. What nobody knows is counted as that.
        !is_one_of(DdataMsg::TAGS, kind)
    }
}

#[cfg(test)]
mod tests;
