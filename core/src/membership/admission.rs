//! Whom this node hears: everything of members, of others what a join needs. Decided by the kind alone, before a body is decoded or
//! inflated, so that a stranger costs no more than its header. Never changes the state. Spec: membership 2.1, reliability
//! 3a, 3b.

use crate::ident::UniqueAddress;
use crate::membership::Cx;
use crate::membership::join::Joining;
use crate::membership::machine::Membership;
use crate::membership::protocol::Msg;
use crate::reject::{MembershipRejection, Rejection};

/// What a sender is to this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// A member.
    Member,
    /// It was one, and was removed.
    Former,
    /// Neither: a joiner, a member of whom this node has not heard, or nobody.
    Stranger,
}

impl Membership {
    /// What a sender is to this node.
    pub(crate) fn standing(&self, of: &UniqueAddress) -> Standing {
        if self.gossip.contains(of) {
            Standing::Member
        } else if self.gossip.tombstones().contains(of) {
            Standing::Former
        } else {
            Standing::Stranger
        }
    }

    /// Whether a message of membership is decoded for a sender that is no member: what a join needs is, changes of the membership
    /// and gossip are not.
    pub(crate) fn hears_of_strangers(&self, from: &UniqueAddress, kind: u16) -> bool {
        // Large, and inflated: only the one that was asked for.
        if kind == Msg::WELCOME.kind {
            return matches!(&self.joining, Joining::Waiting { target, .. } if target == from);
        }
        let of_joins = [
            Msg::INIT_JOIN,
            Msg::INIT_JOIN_ACK,
            Msg::INIT_JOIN_NACK,
            Msg::JOIN,
            Msg::JOIN_REFUSED,
        ];
        of_joins.iter().any(|tag| tag.kind == kind)
    }

    /// Counts a message that was not heard. Who was a member and does not know that it is none any more is told.
    pub(crate) fn turn_away(&self, cx: &mut Cx<'_>, from: &UniqueAddress, kind: u16) {
        cx.counters().rejected_strangers += 1;
        if kind == Msg::WELCOME.kind {
            return cx.reject(from, Rejection::Unexpected { what: "Welcome" });
        }
        if !self.is_member() {
            return;
        }
        cx.reject(from, Rejection::Membership(MembershipRejection::NotMember));
        let is_gossip = kind == Msg::GOSSIP.kind || kind == Msg::GOSSIP_STATUS.kind;
        if is_gossip && self.standing(from) == Standing::Former {
            self.tell_removed(cx, from);
        }
    }
}
