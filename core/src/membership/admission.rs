//! The machine's part of admission: what a sender is to this node, what becomes of what is not heard, and of
//! a request that the user's policy refuses. Which senders are accepted and who may ask is decided in
//! `admission`, purely. Spec: membership 2.1, reliability 3a, 3b.

use crate::admission::{PeerAsk, PeerProof, PeerRequest, SenderStanding, is_welcome};
use crate::event::{Audit, MembershipEvent};
use crate::ident::UniqueAddress;
use crate::membership::Cx;
use crate::membership::joining::JoinStage;
use crate::membership::machine::Membership;
use crate::membership::protocol::Msg;
use crate::message::JoinRefused;
use crate::reject::{JoinRefusal, MembershipRejection, Rejection};

impl Membership {
    /// What a sender is to this node.
    pub(crate) fn standing(&self, of: &UniqueAddress) -> SenderStanding {
        if self.gossip.contains(of) {
            SenderStanding::Member
        } else if self.gossip.tombstones().contains(of) {
            SenderStanding::Former
        } else {
            let was_asked = matches!(&self.joining, JoinStage::Waiting { target, .. } if target == of);
            SenderStanding::Stranger { was_asked }
        }
    }

    /// Asks the policy about what a peer wants, if it is anything of its kind; `false` if the message goes no
    /// further. A joiner that is refused hears so.
    pub(crate) fn permits(cx: &mut Cx<'_>, from: &UniqueAddress, proof: PeerProof<'_>, msg: &Msg) -> bool {
        let Some(ask) = PeerAsk::of(msg) else {
            return true;
        };
        let request = PeerRequest::new(from, proof, ask);
        let refused = cx.config().membership.admission.0.allows(&request).err();
        let is_allowed = refused.is_none();
        cx.notify(MembershipEvent::Asked(Audit {
            what: ask.what(),
            by: from.clone(),
            whom: request.whom().clone(),
            refused: refused.map(|denied| denied.0),
        }));
        if is_allowed {
            return true;
        }
        cx.counters().requests_refused_by_policy += 1;
        if matches!(ask, PeerAsk::Join { .. }) {
            let (to, reason) = (from.clone(), JoinRefusal::NotAdmitted);
            let refused = JoinRefused { to, reason };
            cx.send(from, Msg::JoinRefused(refused));
        }
        false
    }

    /// Counts a message that was not heard. Who was a member and does not know that it is none any more is
    /// told.
    pub(crate) fn turn_away(&self, cx: &mut Cx<'_>, from: &UniqueAddress, kind: u16) {
        cx.counters().rejected_strangers += 1;
        if is_welcome(kind) {
            return cx.reject(from, Rejection::Unexpected { what: "Welcome" });
        }
        if !self.is_member() {
            return;
        }
        cx.reject(from, Rejection::Membership(MembershipRejection::NotMember));
        let is_gossip = kind == Msg::GOSSIP.kind || kind == Msg::GOSSIP_STATUS.kind;
        if is_gossip && self.standing(from) == SenderStanding::Former {
            self.tell_removed(cx, from);
        }
    }
}
