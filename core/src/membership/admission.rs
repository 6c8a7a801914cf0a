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

    /// Counts a message that was not heard. Who gossips as a member does hears that it is none.
    pub(crate) fn turn_away(&mut self, cx: &mut Cx<'_>, from: &UniqueAddress, kind: u16) {
        cx.counters().rejected_strangers += 1;
        if is_welcome(kind) {
            return cx.reject(from, Rejection::Unexpected { what: "Welcome" });
        }
        if !self.is_member() {
            return;
        }
        cx.reject(from, Rejection::Membership(MembershipRejection::NotMember));
        if (Msg::GOSSIP_STATUS.kind..=Msg::GOSSIP_SEEN.kind).contains(&kind) {
            self.disown(cx, from);
        }
    }

    /// Tells one that gossips and is no member that it is none: at once if it was one, and otherwise when it
    /// has gossiped for longer than a partition and the removals after it take, while everybody was reached.
    /// Who is out of reach may have let it in; whom others count in goes on (8.11).
    pub(super) fn disown(&mut self, cx: &mut Cx<'_>, from: &UniqueAddress) {
        if self.gossip.tombstones().contains(from) {
            return self.tell_removed(cx, from);
        }
        if !self.gossip.reachability().is_all_reachable() {
            return self.strangers.forget();
        }
        let members = self.gossip.members().len();
        let patience = cx.config().stable_after(members) + cx.config().removal_margin(members);
        if self.strangers.has_gossiped_for(from, cx.mono(), patience) {
            self.tell_removed(cx, from);
        }
    }
}
