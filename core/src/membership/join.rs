//! Joining: the wait for a Welcome, and what a member answers to joiners. Never admits two live incarnations
//! at one address. Spec: membership 2.1, 8.10.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use crate::effect::HaltReason;
use crate::event::{JoinFailure, MembershipEvent};
use crate::ident::{Address, UniqueAddress};
use crate::membership::Cx;
use crate::membership::joining::JoinStage;
use crate::membership::machine::Membership;
use crate::membership::state::gossip::Gossip;
use crate::membership::state::member::{Member, Status};
use crate::message::{GossipBody, Join, JoinRefused, MembershipMsg, Welcome};
use crate::reject::{JoinRefusal, MembershipRejection, Rejection};
use crate::time::Instant;
use crate::timer::MembershipTimer;
use crate::wire;

/// A member that has not answered a Join is asked again this often: a node that is restarted at its address
/// is back soon after the one before it is gone.
const JOIN_AGAIN: Duration = Duration::from_secs(1);

impl Membership {
    /// The whole process took too long.
    pub(super) fn on_join_abort(&mut self, cx: &mut Cx<'_>) {
        match self.joining {
            JoinStage::Idle | JoinStage::Done | JoinStage::Over => {}
            JoinStage::Seeding(_) | JoinStage::Waiting { .. } => {
                Self::cancel_join_timers(cx);
                cx.notify(MembershipEvent::JoinFailed {
                    reason: JoinFailure::Aborted,
                });
                self.halt(cx, HaltReason::JoinAborted);
            }
        }
    }

    /// The Welcome did not come: start over. Or it came, but this node is still Joining: whoever admitted it
    /// may have been removed before anybody else heard, and to all others it is a stranger. Asking one of
    /// them again mends that, and changes nothing for one that knows it.
    pub(super) fn on_join_retry(&mut self, cx: &mut Cx<'_>) {
        if self.is_member() {
            return self.ask_again_while_joining(cx);
        }
        let JoinStage::Waiting {
            target,
            contacts,
            attempt,
            until,
        } = &self.joining
        else {
            return;
        };
        if cx.mono() < *until {
            Self::send_join(cx, target);
            return Self::wake_join_again(cx, *until);
        }
        let (contacts, attempt) = (contacts.clone(), attempt.saturating_add(1));
        cx.notify(MembershipEvent::JoinFailed {
            reason: JoinFailure::NoWelcome,
        });
        self.ask_contacts(cx, contacts, attempt);
    }

    fn ask_again_while_joining(&self, cx: &mut Cx<'_>) {
        if !self.is_joining_still(cx) {
            return;
        }
        if let Some(target) = self.some_targets(cx, 1, false).first() {
            Self::send_join(cx, target);
        }
        Self::wake_join_retry(cx);
    }

    fn send_join(cx: &mut Cx<'_>, target: &UniqueAddress) {
        let join = Join {
            to: target.clone(),
            roles: cx.config().node_roles().clone(),
            app_version: cx.config().app_version.clone(),
        };
        cx.send(target, MembershipMsg::Join(join));
    }

    /// A member has agreed to take this node in.
    pub(super) fn wait_for_welcome(
        &mut self,
        cx: &mut Cx<'_>,
        target: &UniqueAddress,
        contacts: Vec<Address>,
        attempt: u32,
    ) {
        Self::cancel_process_timers(cx);
        let until = cx.mono() + cx.config().membership.retry_unsuccessful_join_after;
        self.joining = JoinStage::Waiting {
            target: target.clone(),
            contacts,
            attempt,
            until,
        };
        Self::send_join(cx, target);
        Self::wake_join_again(cx, until);
    }

    fn wake_join_again(cx: &mut Cx<'_>, until: Instant) {
        let at = until.min(cx.mono() + JOIN_AGAIN);
        cx.wake(MembershipTimer::JoinRetry, at);
    }

    fn wake_join_retry(cx: &mut Cx<'_>) {
        let retry = cx.mono() + cx.config().membership.retry_unsuccessful_join_after;
        cx.wake(MembershipTimer::JoinRetry, retry);
    }

    /// A node asks to be taken in.
    pub(crate) fn on_join(&mut self, cx: &mut Cx<'_>, from: &UniqueAddress, join: &Join) {
        if !Self::meant_for_me(cx, from, &join.to) || !self.is_member() {
            return;
        }
        cx.counters().joins_received += 1;
        if let Some(refusal) = self.join_refusal(cx, from) {
            return Self::refuse_join(cx, from, refusal);
        }
        if self.gossip.contains(from) {
            cx.counters().welcomes_resent += 1;
            return self.welcome(cx, from);
        }
        if let Some(old) = self.incarnation_before(from) {
            return self.end_old_incarnation(cx, &old);
        }
        if let Some(refusal) = self.no_room(cx) {
            return Self::refuse_join(cx, from, refusal);
        }
        self.end_waits_for(cx, from.address());
        let mut next = Gossip::clone(&self.gossip);
        next.upsert_member(Member::joining(
            from.clone(),
            join.roles.clone(),
            join.app_version.clone(),
        ));
        self.update(cx, next);
        self.welcome(cx, from);
        // Joiners that start at once are admitted by several members: the leader waits for all of them, so it
        // should know.
        self.tell_leader(cx);
    }

    /// Says no, to the joiner and to the users here.
    fn refuse_join(cx: &mut Cx<'_>, joiner: &UniqueAddress, reason: JoinRefusal) {
        cx.counters().joins_refused += 1;
        cx.reject(
            joiner,
            Rejection::Membership(MembershipRejection::JoinRefused(reason)),
        );
        let to = joiner.clone();
        cx.send(joiner, MembershipMsg::JoinRefused(JoinRefused { to, reason }));
    }

    /// An address is used again: an old incarnation of it that left in good order has nothing more to say.
    fn end_waits_for(&self, cx: &mut Cx<'_>, address: &Address) {
        let old: Vec<UniqueAddress> = self
            .gossip
            .tombstones()
            .iter()
            .filter(|node| node.address() == address)
            .cloned()
            .collect();
        for node in old {
            if cx.cancel(MembershipTimer::Quarantine(node.clone())) {
                cx.quarantine(node);
            }
        }
    }

    /// The member that was asked said no. Some reasons pass, and this node goes on asking; to others only a
    /// new incarnation is the answer.
    pub(crate) fn on_join_refused(&mut self, cx: &mut Cx<'_>, from: &UniqueAddress, refused: &JoinRefused) {
        let expected = matches!(&self.joining, JoinStage::Waiting { target, .. } if target == from);
        if !expected && !self.is_member() {
            return Self::unexpected(cx, from, "JoinRefused");
        }
        if !Self::meant_for_me(cx, from, &refused.to) {
            return;
        }
        let reason = refused.reason;
        if expected {
            cx.notify(MembershipEvent::JoinFailed {
                reason: JoinFailure::Refused { reason },
            });
            if reason.is_final() {
                Self::cancel_join_timers(cx);
                self.halt(cx, HaltReason::JoinRefused);
            }
        } else if reason == JoinRefusal::UidRemoved && self.is_joining_still(cx) {
            // Whoever took this node in was removed before anybody else heard, and somebody removed it with
            // them.
            self.halt(cx, HaltReason::Removed);
        }
    }

    fn is_joining_still(&self, cx: &Cx<'_>) -> bool {
        self.gossip
            .member(cx.me())
            .is_some_and(|m| m.status == Status::Joining)
    }

    fn join_refusal(&self, cx: &Cx<'_>, from: &UniqueAddress) -> Option<JoinRefusal> {
        let own = self.gossip.member(cx.me()).map_or(Status::Removed, |m| m.status);
        if own.is_terminal() {
            Some(JoinRefusal::ReceiverLeaving)
        } else if from.address() == cx.me().address() {
            Some(JoinRefusal::AddressConflict)
        } else if self.gossip.tombstones().contains(from) {
            Some(JoinRefusal::UidRemoved)
        } else if self.gossip.contains(from) {
            None
        } else if cx.view().is_shutting_down() {
            Some(JoinRefusal::ShuttingDown)
        } else {
            None
        }
    }

    /// Limits on newcomers. An old incarnation of the joiner is ended first, for that makes room.
    fn no_room(&self, cx: &Cx<'_>) -> Option<JoinRefusal> {
        let limits = &cx.config().limits;
        if self.gossip.members().len() >= limits.members_max {
            Some(JoinRefusal::TooManyMembers)
        } else if self.gossip.tombstones().len() >= limits.tombstones_max {
            Some(JoinRefusal::TooManyTombstones)
        } else if !wire::has_room(&self.gossip, limits) {
            Some(JoinRefusal::StateTooLarge)
        } else {
            None
        }
    }

    fn welcome(&self, cx: &mut Cx<'_>, to: &UniqueAddress) {
        let gossip = GossipBody::from(Arc::clone(&self.gossip));
        cx.send(
            to,
            MembershipMsg::Welcome(Welcome {
                to: to.clone(),
                gossip,
            }),
        );
    }

    /// The state of the cluster that took this node in.
    pub(crate) fn on_welcome(&mut self, cx: &mut Cx<'_>, from: &UniqueAddress, welcome: &Welcome) {
        let expected = matches!(&self.joining, JoinStage::Waiting { target, .. } if target == from);
        if self.is_member() && self.gossip.contains(from) {
            // The answer to a Join that was sent again: nothing new.
            return;
        }
        if !expected {
            return Self::unexpected(cx, from, "Welcome");
        }
        if !Self::meant_for_me(cx, from, &welcome.to) {
            return;
        }
        let Some(about_me) = welcome.gossip.about(cx.me()) else {
            return cx.reject(from, Rejection::Membership(MembershipRejection::NotInGossip));
        };
        let mut next = welcome.gossip.open(&self.gossip);
        if !self.hear_claim(cx, from, about_me.counter) {
            let mut version = next.version().clone();
            version.set(cx.me(), 0);
            next.set_version(version);
        }
        Self::cancel_join_timers(cx);
        self.joining = JoinStage::Done;
        Self::start_periodic_tasks(cx);
        Self::wake_join_retry(cx);
        if about_me.counter > 0 {
            // I have changed nothing yet: my first change has to outdate what was said.
            self.update(cx, next);
        } else {
            next.add_seen(cx.me());
            self.install(cx, next);
            // Whoever welcomed this node pushes that state. Here no earlier one is known: it would go whole.
            self.news.leave_to_others();
        }
        self.send_gossip(cx, from);
    }

    pub(super) fn cancel_join_timers(cx: &mut Cx<'_>) {
        Self::cancel_process_timers(cx);
        cx.cancel(MembershipTimer::JoinAbort);
    }

    /// Cancels what the present attempt waits for; the limit of the whole process stays.
    pub(super) fn cancel_process_timers(cx: &mut Cx<'_>) {
        for timer in [
            MembershipTimer::SeedRetry,
            MembershipTimer::SeedSelfJoin,
            MembershipTimer::JoinRetry,
        ] {
            cx.cancel(timer);
        }
    }

    pub(super) fn unexpected(cx: &mut Cx<'_>, from: &UniqueAddress, what: &'static str) {
        cx.reject(from, Rejection::Unexpected { what });
    }
}
