//! Joining: the seed process, the wait for a Welcome, and what a member answers to joiners. Only the first seed may form
//! a cluster. Never admits two live incarnations at one address. Spec: membership 2.1, 2.2, 8.10.

use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use crate::cx::Cx;
use crate::effect::{Answer, CommandError, HaltReason, MembershipCommandError};
use crate::event::{Event, JoinFailure, MembershipEvent, SeedCause, SeedFailure};
use crate::ident::{Address, UniqueAddress};
use crate::input::Token;
use crate::membership::leader_actions::is_shutting_down;
use crate::membership::machine::Membership;
use crate::membership::state::gossip::Gossip;
use crate::membership::state::member::{Member, Status};
use crate::membership::targets;
use crate::message::{
    GossipBody, GossipEnvelope, InitJoin, InitJoinAck, Join, JoinRefused, MembershipMsg, Message, Welcome,
};
use crate::reject::{JoinRefusal, MembershipRejection, Rejection};
use crate::rng;
use crate::time::Instant;
use crate::timer::{MembershipTimer, Timer};
use crate::wire;

/// Seeds that have not answered are asked this often, or five times within the timeout if that is shorter: the first answer
/// may be lost with a link to the node that was at this address before.
const SEED_RETRY_MAX: Duration = Duration::from_secs(1);
/// A member that has not answered a Join is asked again this often: a node that is restarted at its address is back soon
/// after the one before it is gone.
const JOIN_AGAIN: Duration = Duration::from_secs(1);

/// Where this node is on its way into a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Joining {
    /// Nobody has asked for it.
    Idle,
    /// Asking seeds.
    Seeding(Seeding),
    /// A member was asked; its Welcome has not come.
    Waiting {
        /// Who was asked.
        target: UniqueAddress,
        /// Whom to ask again if it does not come.
        contacts: Vec<Address>,
        /// Times the contacts were asked.
        attempt: u32,
        /// When all contacts are asked anew. Until then the target is asked again and again: an older incarnation of this
        /// address may have to go first, and nobody says when it has.
        until: Instant,
    },
    /// In a cluster.
    Done,
    /// Finished.
    Over,
}

/// The seed process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seeding {
    /// The contacts as given; the first one may form a cluster.
    contacts: Vec<Address>,
    /// Contacts other than me that did not say that they are in no cluster.
    unanswered: BTreeSet<Address>,
    /// Whether I am the first contact.
    first: bool,
    /// Times the contacts were asked.
    attempt: u32,
    /// When the user is told that nobody answered. The first contact forms a cluster then.
    until: Instant,
}

impl Membership {
    /// Somebody wants this node to join through these contacts.
    pub(crate) fn on_join_command(&mut self, cx: &mut Cx<'_>, token: Token, contacts: Vec<Address>) {
        let refusal = match &self.joining {
            Joining::Done => Some(CommandError::Membership(MembershipCommandError::AlreadyJoined)),
            Joining::Over => Some(CommandError::Stopped),
            Joining::Idle | Joining::Seeding(_) | Joining::Waiting { .. } => contacts
                .is_empty()
                .then_some(CommandError::Membership(MembershipCommandError::NoSeeds)),
        };
        if let Some(error) = refusal {
            return cx.reply(token, Answer::Refused(error));
        }
        cx.reply(token, Answer::Done);
        if let Some(after) = cx.config.membership.shutdown_after_unsuccessful_join {
            let at = cx.mono() + after;
            cx.wake(Timer::Membership(MembershipTimer::JoinAbort), at);
        }
        self.ask_contacts(cx, contacts, 1);
    }

    fn ask_contacts(&mut self, cx: &mut Cx<'_>, contacts: Vec<Address>, attempt: u32) {
        Self::cancel_process_timers(cx);
        let me = cx.me.address();
        let first = contacts.first() == Some(me);
        let others: BTreeSet<Address> = contacts.iter().filter(|a| *a != me).cloned().collect();
        if others.is_empty() {
            return self.form_cluster(cx);
        }
        let seeding = Seeding {
            contacts,
            unanswered: others,
            first,
            attempt,
            until: cx.mono() + cx.config.membership.seed_node_timeout,
        };
        if first && attempt == 1 {
            cx.wake(Timer::Membership(MembershipTimer::SeedSelfJoin), seeding.until);
        }
        self.ask_unanswered(cx, seeding);
        self.publish(cx);
    }

    fn ask_unanswered(&mut self, cx: &mut Cx<'_>, seeding: Seeding) {
        let config_digest = cx.config.compatibility_digest();
        for contact in &seeding.unanswered {
            cx.send_to_address(
                contact,
                Message::Membership(MembershipMsg::InitJoin(InitJoin { config_digest })),
            );
        }
        let pause = SEED_RETRY_MAX.min(cx.config.membership.seed_node_timeout / 5);
        cx.wake(Timer::Membership(MembershipTimer::SeedRetry), cx.mono() + pause);
        self.joining = Joining::Seeding(seeding);
    }

    /// The whole process took too long.
    pub(super) fn on_join_abort(&mut self, cx: &mut Cx<'_>) {
        match self.joining {
            Joining::Idle | Joining::Done | Joining::Over => {}
            Joining::Seeding(_) | Joining::Waiting { .. } => {
                Self::cancel_join_timers(cx);
                cx.notify(Event::Membership(MembershipEvent::JoinFailed {
                    reason: JoinFailure::Aborted,
                }));
                self.halt(cx, HaltReason::JoinAborted);
            }
        }
    }

    /// Nobody answered for a while: ask again.
    pub(super) fn on_seed_retry(&mut self, cx: &mut Cx<'_>) {
        let Joining::Seeding(seeding) = &self.joining else {
            return;
        };
        let mut seeding = seeding.clone();
        if !seeding.first && cx.mono() >= seeding.until {
            let me = cx.me.address();
            let others = || seeding.contacts.iter().filter(|a| *a != me);
            let failure = |seed: &Address| SeedFailure {
                seed: seed.clone(),
                cause: if seeding.unanswered.contains(seed) {
                    SeedCause::NoAnswer
                } else {
                    SeedCause::InNoCluster
                },
            };
            let reason = JoinFailure::NoSeedAnswered {
                attempt: seeding.attempt,
                seeds: others().map(failure).collect(),
            };
            seeding.unanswered = others().cloned().collect();
            seeding.until = cx.mono() + cx.config.membership.seed_node_timeout;
            seeding.attempt = seeding.attempt.saturating_add(1);
            cx.notify(Event::Membership(MembershipEvent::JoinFailed { reason }));
        }
        self.ask_unanswered(cx, seeding);
    }

    /// The first seed has waited long enough for the others.
    pub(super) fn on_seed_timeout(&mut self, cx: &mut Cx<'_>) {
        if matches!(&self.joining, Joining::Seeding(seeding) if seeding.first) {
            self.form_cluster(cx);
        }
    }

    /// The Welcome did not come: start over. Or it came, but this node is still Joining: whoever admitted it may have been
    /// removed before anybody else heard, and to all others it is a stranger. Asking one of them again mends that, and
    /// changes nothing for one that knows it.
    pub(super) fn on_join_retry(&mut self, cx: &mut Cx<'_>) {
        if self.is_member() {
            return self.ask_again_while_joining(cx);
        }
        let Joining::Waiting {
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
        cx.notify(Event::Membership(MembershipEvent::JoinFailed {
            reason: JoinFailure::NoWelcome,
        }));
        self.ask_contacts(cx, contacts, attempt);
    }

    fn ask_again_while_joining(&self, cx: &mut Cx<'_>) {
        if !self.is_joining_still(cx) {
            return;
        }
        let candidates = targets::gossip_targets(&self.gossip, cx.me, false);
        if !candidates.is_empty() {
            let target = &candidates[rng::below(cx.rng, candidates.len())];
            Self::send_join(cx, target);
        }
        Self::wake_join_retry(cx);
    }

    fn send_join(cx: &mut Cx<'_>, target: &UniqueAddress) {
        let join = Join {
            to: target.clone(),
            roles: cx.config.node_roles().clone(),
            app_version: cx.config.app_version.clone(),
        };
        cx.send(target, Message::Membership(MembershipMsg::Join(join)));
    }

    fn wake_join_again(cx: &mut Cx<'_>, until: Instant) {
        let at = until.min(cx.mono() + JOIN_AGAIN);
        cx.wake(Timer::Membership(MembershipTimer::JoinRetry), at);
    }

    fn wake_join_retry(cx: &mut Cx<'_>) {
        let retry = cx.mono() + cx.config.membership.retry_unsuccessful_join_after;
        cx.wake(Timer::Membership(MembershipTimer::JoinRetry), retry);
    }

    /// A joiner asks whether it could join here.
    pub(crate) fn on_init_join(&mut self, cx: &mut Cx<'_>, from: &UniqueAddress, ask: InitJoin) {
        let own = self.gossip.member(cx.me).map(|m| m.status);
        let answer = match own {
            Some(status) if self.is_member() && !status.is_terminal() => {
                let compatible = ask.config_digest == cx.config.compatibility_digest();
                Message::Membership(MembershipMsg::InitJoinAck(InitJoinAck { compatible }))
            }
            Some(_) | None => Message::Membership(MembershipMsg::InitJoinNack),
        };
        cx.send(from, answer);
    }

    /// A contact is in a cluster.
    pub(crate) fn on_init_join_ack(&mut self, cx: &mut Cx<'_>, from: &UniqueAddress, ack: InitJoinAck) {
        let seeding = match &self.joining {
            Joining::Seeding(seeding) if seeding.contacts.contains(from.address()) => seeding,
            // All contacts were asked and the first answer was taken: the others' answers are late, not wrong.
            Joining::Waiting { contacts, .. } if contacts.contains(from.address()) => return,
            Joining::Done | Joining::Over => return,
            Joining::Idle | Joining::Seeding(_) | Joining::Waiting { .. } => {
                return Self::unexpected(cx, from, "InitJoinAck");
            }
        };
        if !ack.compatible {
            cx.notify(Event::Membership(MembershipEvent::JoinFailed {
                reason: JoinFailure::IncompatibleConfig,
            }));
            if cx.config.membership.enforce_config_on_join {
                return self.halt(cx, HaltReason::IncompatibleConfig);
            }
        }
        let (contacts, attempt) = (seeding.contacts.clone(), seeding.attempt);
        Self::cancel_process_timers(cx);
        let until = cx.mono() + cx.config.membership.retry_unsuccessful_join_after;
        self.joining = Joining::Waiting {
            target: from.clone(),
            contacts,
            attempt,
            until,
        };
        Self::send_join(cx, from);
        Self::wake_join_again(cx, until);
    }

    /// A contact is in no cluster. If no other contact is left, the first seed forms one at once.
    pub(crate) fn on_init_join_nack(&mut self, cx: &mut Cx<'_>, from: &UniqueAddress) {
        let Joining::Seeding(seeding) = &mut self.joining else {
            return;
        };
        seeding.unanswered.remove(from.address());
        if seeding.first && seeding.unanswered.is_empty() {
            self.form_cluster(cx);
        }
    }

    fn form_cluster(&mut self, cx: &mut Cx<'_>) {
        Self::cancel_join_timers(cx);
        self.joining = Joining::Done;
        let mut next = Gossip::new();
        let (roles, version) = (cx.config.node_roles().clone(), cx.config.app_version.clone());
        next.upsert_member(Member::joining(cx.me.clone(), roles, version));
        self.update(cx, next);
        Self::start_periodic_tasks(cx);
        self.act_as_leader(cx);
    }

    /// A node asks to be taken in.
    pub(crate) fn on_join(&mut self, cx: &mut Cx<'_>, from: &UniqueAddress, join: &Join) {
        if !Self::meant_for_me(cx, from, &join.to) || !self.is_member() {
            return;
        }
        cx.stats.joins_received += 1;
        if let Some(refusal) = self.join_refusal(cx, from) {
            return Self::refuse_join(cx, from, refusal);
        }
        if self.gossip.contains(from) {
            cx.stats.welcomes_resent += 1;
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
    }

    /// Says no, to the joiner and to the users here.
    fn refuse_join(cx: &mut Cx<'_>, joiner: &UniqueAddress, reason: JoinRefusal) {
        cx.stats.joins_refused += 1;
        cx.reject(
            joiner,
            Rejection::Membership(MembershipRejection::JoinRefused(reason)),
        );
        let to = joiner.clone();
        cx.send(
            joiner,
            Message::Membership(MembershipMsg::JoinRefused(JoinRefused { to, reason })),
        );
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
            let timer = Timer::Membership(MembershipTimer::Quarantine(node.clone()));
            if cx.timers.is_set(&timer) {
                cx.timers.cancel(&timer);
                cx.quarantine(node);
            }
        }
    }

    /// The member that was asked said no. Some reasons pass, and this node goes on asking; to others only a new
    /// incarnation is the answer.
    pub(crate) fn on_join_refused(&mut self, cx: &mut Cx<'_>, from: &UniqueAddress, refused: &JoinRefused) {
        let expected = matches!(&self.joining, Joining::Waiting { target, .. } if target == from);
        if !expected && !self.is_member() {
            return Self::unexpected(cx, from, "JoinRefused");
        }
        if !Self::meant_for_me(cx, from, &refused.to) {
            return;
        }
        let reason = refused.reason;
        if expected {
            cx.notify(Event::Membership(MembershipEvent::JoinFailed {
                reason: JoinFailure::Refused { reason },
            }));
            if reason.is_final() {
                Self::cancel_join_timers(cx);
                self.halt(cx, HaltReason::JoinRefused);
            }
        } else if reason == JoinRefusal::UidRemoved && self.is_joining_still(cx) {
            // Whoever took this node in was removed before anybody else heard, and somebody removed it with them.
            self.halt(cx, HaltReason::Removed);
        }
    }

    fn is_joining_still(&self, cx: &Cx<'_>) -> bool {
        self.gossip
            .member(cx.me)
            .is_some_and(|m| m.status == Status::Joining)
    }

    fn join_refusal(&self, cx: &Cx<'_>, from: &UniqueAddress) -> Option<JoinRefusal> {
        let own = self.gossip.member(cx.me).map_or(Status::Removed, |m| m.status);
        if own.is_terminal() {
            Some(JoinRefusal::ReceiverLeaving)
        } else if from.address() == cx.me.address() {
            Some(JoinRefusal::AddressConflict)
        } else if self.gossip.tombstones().contains(from) {
            Some(JoinRefusal::UidRemoved)
        } else if self.gossip.contains(from) {
            None
        } else if is_shutting_down(&self.gossip) {
            Some(JoinRefusal::ShuttingDown)
        } else {
            None
        }
    }

    /// Limits on newcomers. An old incarnation of the joiner is ended first, for that makes room.
    fn no_room(&self, cx: &Cx<'_>) -> Option<JoinRefusal> {
        let limits = &cx.config.limits;
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
            Message::Membership(MembershipMsg::Welcome(Welcome {
                to: to.clone(),
                gossip,
            })),
        );
    }

    /// The state of the cluster that took this node in.
    pub(crate) fn on_welcome(&mut self, cx: &mut Cx<'_>, from: &UniqueAddress, welcome: &Welcome) {
        let expected = matches!(&self.joining, Joining::Waiting { target, .. } if target == from);
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
        let Some(about_me) = welcome.gossip.about(cx.me) else {
            return cx.reject(from, Rejection::Membership(MembershipRejection::NotInGossip));
        };
        if self.is_forged(cx, from, about_me.counter) {
            return;
        }
        Self::cancel_join_timers(cx);
        self.joining = Joining::Done;
        let mut next = welcome.gossip.open(&self.gossip);
        next.add_seen(cx.me);
        Self::start_periodic_tasks(cx);
        Self::wake_join_retry(cx);
        self.install(cx, next);
        let gossip = GossipBody::from(Arc::clone(&self.gossip));
        cx.stats.gossips_sent += 1;
        cx.send(
            from,
            Message::Membership(MembershipMsg::Gossip(GossipEnvelope {
                to: from.clone(),
                gossip,
            })),
        );
    }

    fn cancel_join_timers(cx: &mut Cx<'_>) {
        Self::cancel_process_timers(cx);
        cx.timers.cancel(&Timer::Membership(MembershipTimer::JoinAbort));
    }

    /// Cancels what the present attempt waits for; the limit of the whole process stays.
    fn cancel_process_timers(cx: &mut Cx<'_>) {
        for timer in [
            MembershipTimer::SeedRetry,
            MembershipTimer::SeedSelfJoin,
            MembershipTimer::JoinRetry,
        ] {
            cx.timers.cancel(&Timer::Membership(timer));
        }
    }

    fn unexpected(cx: &mut Cx<'_>, from: &UniqueAddress, what: &'static str) {
        cx.reject(from, Rejection::Unexpected { what });
    }
}
