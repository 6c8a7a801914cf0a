//! The ways out: leaving, exiting with confirmation, being downed. An exiting node says goodbye, upon which
//! it is removed, once the other machines have handed over their work, within a time limit. Spec: membership
//! 2.9, 2.10.

use alloc::vec::Vec;

use crate::drain::{DrainPart, DrainStep};
use crate::effect::{Answer, CommandError, HaltReason, MembershipCommandError};
use crate::event::{MembershipEvent, ShutdownProgress};
use crate::ident::UniqueAddress;
use crate::input::{DownTarget, Token};
use crate::membership::Cx;
use crate::membership::machine::{ExitStage, Membership};
use crate::membership::spread::FAREWELL_TARGETS;
use crate::membership::state::convergence;
use crate::membership::state::gossip::Gossip;
use crate::membership::state::leader;
use crate::membership::state::member::{Member, Status};
use crate::membership::state::reachability::ReachabilityStatus;
use crate::message::MembershipMsg;
use crate::reject::{MembershipRejection, Rejection};
use crate::timer::MembershipTimer;

/// Leader candidates that hear that an exiting node is done, because the first may itself be on its way out.
const CONFIRMED_TO: usize = 2;
/// Downed members that hear it at once, each by a whole state: one side of most partitions. The others hear
/// it by gossip, and where they are not reached by their own resolver.
const DOWN_HINTS: usize = 64;
/// Leader ticks a downed node waits for the other downed nodes to learn of it (a constant of Akka).
const SELF_DOWN_TICKS: u32 = 4;

impl Membership {
    /// A member asks that somebody be moved to Leaving.
    pub(crate) fn on_leave(&mut self, cx: &mut Cx<'_>, from: &UniqueAddress, node: &UniqueAddress) {
        if self.is_said_by_member(cx, from) {
            self.leave(cx, node);
        }
    }

    /// A member asks that somebody be moved to Down.
    pub(crate) fn on_down(&mut self, cx: &mut Cx<'_>, from: &UniqueAddress, node: &UniqueAddress) {
        if self.is_said_by_member(cx, from) {
            self.down(cx, node);
        }
    }

    fn is_said_by_member(&self, cx: &mut Cx<'_>, from: &UniqueAddress) -> bool {
        let known = self.is_member() && self.gossip.contains(from);
        if !known && self.is_member() {
            cx.reject(from, Rejection::Membership(MembershipRejection::NotMember));
        }
        known
    }

    /// Moves a member to Leaving and says so at once; nothing happens to one that is already on its way out.
    pub(super) fn leave(&mut self, cx: &mut Cx<'_>, node: &UniqueAddress) {
        let Some(status) = self.gossip.member(node).map(|m| m.status) else {
            return;
        };
        if !self.is_member() || status == Status::Leaving || !status.allows(Status::Leaving) {
            return;
        }
        let mut next = Gossip::clone(&self.gossip);
        next.set_status(node, Status::Leaving);
        self.update(cx, next);
        self.gossip_round(cx);
    }

    /// Moves a member to Down and says so at once: to the member itself, or to a few others if it is this
    /// node.
    pub(super) fn down(&mut self, cx: &mut Cx<'_>, node: &UniqueAddress) {
        if node != cx.me() {
            return self.down_others(cx, [node]);
        }
        let mut next = Gossip::clone(&self.gossip);
        if self.is_member() && next.mark_down(node) {
            self.update(cx, next);
            if self.is_member() {
                // Not gone at once, because other downed members have to hear of it.
                self.push_to_random(cx, FAREWELL_TARGETS);
            }
        }
    }

    /// Moves members to Down and says so to them at once. One change, however many they are: each change is a
    /// picture of its own, with all members in it, and whoever has not read the news yet keeps it.
    pub(super) fn down_others<'n>(
        &mut self,
        cx: &mut Cx<'_>,
        nodes: impl IntoIterator<Item = &'n UniqueAddress>,
    ) {
        if !self.is_member() {
            return;
        }
        let mut next = Gossip::clone(&self.gossip);
        let downed: Vec<&UniqueAddress> = nodes.into_iter().filter(|node| next.mark_down(node)).collect();
        if downed.is_empty() {
            return;
        }
        self.update(cx, next);
        self.tell_downed(cx, downed);
    }

    /// Lets members know at once that they are Down, as many as a node tells at once.
    pub(super) fn tell_downed<'n>(
        &mut self,
        cx: &mut Cx<'_>,
        downed: impl IntoIterator<Item = &'n UniqueAddress>,
    ) {
        for node in downed.into_iter().take(DOWN_HINTS) {
            self.push_to(cx, node);
        }
    }

    /// If this node is Down: goes, as soon as every other downed member knows or cannot be reached, or after
    /// a few ticks.
    pub(super) fn check_self_down(&mut self, cx: &mut Cx<'_>) {
        let down = self
            .gossip
            .member(cx.me())
            .is_some_and(|m| m.status == Status::Down);
        if !down || !self.is_member() {
            return;
        }
        let dc = cx.config().node_roles().data_center();
        let reach = convergence::dc_reachability(&self.gossip, dc);
        let informed = |m: &Member| {
            self.gossip.has_seen(&m.node)
                || m.node == *cx.me()
                || reach.aggregate(&m.node) != ReachabilityStatus::Reachable
        };
        let in_dc = |m: &&Member| m.data_center() == dc && m.status == Status::Down;
        let all_informed = self.gossip.members().iter().filter(in_dc).all(informed);
        if self.self_down_ticks >= SELF_DOWN_TICKS || all_informed {
            self.push_to_random(cx, FAREWELL_TARGETS);
            self.halt(cx, HaltReason::Downed);
        } else {
            self.self_down_ticks += 1;
        }
    }

    /// Somebody wants a member removed at once.
    pub(crate) fn on_remove_command(&mut self, cx: &mut Cx<'_>, token: Token, target: &DownTarget) {
        let refusal = if !self.is_member() {
            CommandError::Membership(MembershipCommandError::NotAMember)
        } else {
            match self.target(cx.me(), target) {
                Some(node) if node == *cx.me() && self.gossip.members().len() > 1 => {
                    CommandError::Membership(MembershipCommandError::NotMyself)
                }
                Some(node) => {
                    cx.reply(token, Answer::Done);
                    return self.remove(cx, &node);
                }
                // It is gone already: the command may be repeated.
                None if matches!(target, DownTarget::Node(node) if self.gossip.tombstones().contains(node)) =>
                {
                    return cx.reply(token, Answer::Done);
                }
                None => CommandError::Membership(MembershipCommandError::UnknownMember),
            }
        };
        cx.reply(token, Answer::Refused(refusal));
    }

    fn remove(&mut self, cx: &mut Cx<'_>, node: &UniqueAddress) {
        if node == cx.me() {
            return self.halt(cx, HaltReason::Removed);
        }
        // Said before the host refuses its links; gossip that does not contain it would be dropped there.
        self.tell_removed(cx, node);
        let mut next = Gossip::clone(&self.gossip);
        next.remove(node);
        self.update(cx, next);
        self.push_to_random(cx, FAREWELL_TARGETS);
    }

    /// Lets one that was a member know that it is not any more.
    pub(super) fn tell_removed(&self, cx: &mut Cx<'_>, node: &UniqueAddress) {
        cx.counters().removed_told += 1;
        cx.send(node, MembershipMsg::Removed { to: node.clone() });
    }

    /// A member says that this node was removed. One member's word ends nobody: whether others count this
    /// node in is for the detector to find out.
    pub(crate) fn on_removed(&mut self, cx: &mut Cx<'_>, from: &UniqueAddress, to: &UniqueAddress) {
        if !Self::meant_for_me(cx, from, to) || !self.is_said_by_member(cx, from) {
            return;
        }
        let sound = |m: &Member| m.status < Status::Leaving;
        if !self.gossip.member(from).is_some_and(sound) {
            return cx.reject(from, Rejection::Unexpected { what: "Removed" });
        }
        cx.say_told_removed(from.clone());
    }

    /// A member refused this node, and no other counts it in: it is taken for removed.
    pub(crate) fn on_disowned(&mut self, cx: &mut Cx<'_>) {
        if self.is_member() {
            self.halt(cx, HaltReason::Removed);
        }
    }

    /// Who lives shows by marking a new state as seen: makes one, and has some answer at once.
    pub(crate) fn on_roll_call(&mut self, cx: &mut Cx<'_>) {
        if self.is_member() {
            self.update(cx, Gossip::clone(&self.gossip));
            self.push_to_random(cx, FAREWELL_TARGETS);
        }
    }

    /// Somebody wants the whole cluster to prepare for its shutdown.
    pub(crate) fn on_prepare_command(&mut self, cx: &mut Cx<'_>, token: Token) {
        if !self.is_member() {
            return cx.reply(
                token,
                Answer::Refused(CommandError::Membership(MembershipCommandError::NotAMember)),
            );
        }
        let is_up = |member: &Member| member.status == Status::Up;
        if !cx.view().is_shutting_down() && !self.gossip.members().iter().any(is_up) {
            let nobody = CommandError::Membership(MembershipCommandError::NobodyIsUp);
            return cx.reply(token, Answer::Refused(nobody));
        }
        cx.reply(token, Answer::Done);
        self.prepare_for_shutdown(cx);
    }

    /// From now on this node does not count as having seen the state: it is still busy.
    pub(super) fn enter_exit(&mut self) {
        if self.exit == ExitStage::Staying {
            self.exit = ExitStage::Draining;
        }
    }

    /// This node sees itself Exiting: the other machines hand over, within a time limit.
    pub(super) fn begin_exit(&mut self, cx: &mut Cx<'_>) {
        if matches!(self.exit, ExitStage::Drained | ExitStage::TimedOut) {
            return self.complete_exit(cx);
        }
        self.exit = ExitStage::Draining;
        self.begin_leaving(cx);
    }

    /// This node sees itself Leaving: the other machines begin to hand over, one part after the other, each
    /// within a time limit. Nothing happens if they do already.
    pub(super) fn begin_leaving(&mut self, cx: &mut Cx<'_>) {
        let step = self.drain.begin();
        self.go_on_draining(cx, step);
    }

    /// A part did not hand over in time: this node goes on without waiting for it. If something of it may
    /// still be running, it does not say that nothing runs here.
    pub(super) fn on_drain_timeout(&mut self, cx: &mut Cx<'_>) {
        if !self.is_member() {
            return;
        }
        if let Some((part, step)) = self.drain.on_timeout() {
            Self::say_late(cx, part);
            self.go_on_draining(cx, step);
        }
    }

    /// From now on the host says when a part may hand over.
    pub(crate) fn on_pace_command(&mut self, cx: &mut Cx<'_>, token: Token) {
        self.drain.pace();
        cx.reply(token, Answer::Done);
    }

    /// The host has done what comes before this part, and waits for those before it no longer.
    pub(crate) fn on_hand_over_command(&mut self, cx: &mut Cx<'_>, token: Token, part: DrainPart) {
        cx.reply(token, Answer::Done);
        let (late, step) = self.drain.release(part);
        if !self.is_member() {
            return;
        }
        if let Some(late) = late {
            Self::say_late(cx, late);
        }
        self.go_on_draining(cx, step);
    }

    fn say_late(cx: &mut Cx<'_>, part: DrainPart) {
        let phase = ShutdownProgress::of(part);
        cx.notify(MembershipEvent::ShutdownPhaseTimedOut { phase });
    }

    /// A part has handed over. If that comes after its time it is true all the same.
    pub(crate) fn on_drained(&mut self, cx: &mut Cx<'_>, part: DrainPart) {
        if self.drain.is_paced() {
            let phase = ShutdownProgress::of(part);
            cx.notify(MembershipEvent::HandedOver { phase });
        }
        let step = self.drain.on_done(part);
        self.go_on_draining(cx, step);
    }

    fn go_on_draining(&mut self, cx: &mut Cx<'_>, step: Option<DrainStep>) {
        match step {
            Some(DrainStep::Ask(part)) => {
                let limit = cx.mono() + part.limit(cx.config());
                cx.wake(MembershipTimer::ExitDrain, limit);
                cx.request_drain(part);
            }
            Some(DrainStep::Over { clean: true }) => self.stop_waiting(cx, ExitStage::Drained),
            Some(DrainStep::Over { clean: false }) => self.stop_waiting(cx, ExitStage::TimedOut),
            None => {}
        }
    }

    /// Goes on with the exit. A node that is only Leaving waits for the leader, but
    /// not for ever: a leader that cannot act must not keep a process from ending.
    fn stop_waiting(&mut self, cx: &mut Cx<'_>, exit: ExitStage) {
        self.exit = exit;
        cx.cancel(MembershipTimer::ExitDrain);
        let own = self.gossip.member(cx.me()).map(|m| m.status);
        if !self.is_member() {
            return;
        }
        if own == Some(Status::Exiting) {
            self.complete_exit(cx);
        } else if own == Some(Status::Leaving) && self.drain.is_paced() {
            // The host has given the leader its time, and lets nothing begin again.
            self.on_leaving_timeout(cx);
        } else if own == Some(Status::Leaving) {
            let limit = cx.mono() + cx.config().shutdown.cluster_exiting_timeout;
            cx.wake(MembershipTimer::ExitLeaving, limit);
        }
    }

    /// The leader did not move this leaving node on in time: it goes all the same. The others find it
    /// unreachable, and it is for them to down it.
    pub(super) fn on_leaving_timeout(&mut self, cx: &mut Cx<'_>) {
        let leaving = |m: &Member| m.status == Status::Leaving;
        if !self.is_member() || !self.gossip.member(cx.me()).is_some_and(leaving) {
            return;
        }
        cx.notify(MembershipEvent::ShutdownPhaseTimedOut {
            phase: ShutdownProgress::Exiting,
        });
        self.push_to_random(cx, FAREWELL_TARGETS);
        self.halt(cx, HaltReason::Left);
    }

    fn complete_exit(&mut self, cx: &mut Cx<'_>) {
        cx.cancel(MembershipTimer::ExitLeaving);
        let mut last = Gossip::clone(&self.gossip);
        if self.exit == ExitStage::Drained && last.mark_gone(cx.me()) {
            self.update(cx, last);
        } else if last.add_seen(cx.me()) {
            self.install(cx, last);
        }
        let leaders = self.leaders_without_me(cx);
        self.push_to_random_and(cx, FAREWELL_TARGETS, &leaders);
        for node in leaders {
            let confirmed = MembershipMsg::ExitingConfirmed { to: node.clone() };
            cx.send(&node, confirmed);
        }
        self.halt(cx, HaltReason::Left);
    }

    /// The two best leader candidates without this node, which must hear that it is done.
    fn leaders_without_me(&self, cx: &Cx<'_>) -> Vec<UniqueAddress> {
        let mut found: Vec<UniqueAddress> = Vec::new();
        for _ in 0..CONFIRMED_TO {
            let others = self
                .gossip
                .members()
                .iter()
                .filter(|m| m.node != *cx.me() && !found.contains(&m.node));
            match leader::acting_leader_of(&self.gossip, cx.me(), others) {
                Some(member) => found.push(member.node.clone()),
                None => break,
            }
        }
        found
    }

    /// An exiting member has handed over its work.
    pub(crate) fn on_exiting_confirmed(&mut self, cx: &mut Cx<'_>, from: &UniqueAddress, to: &UniqueAddress) {
        if !Self::meant_for_me(cx, from, to) || !self.is_said_by_member(cx, from) {
            return;
        }
        // The confirmation may overtake the gossip that shows the member Exiting; it only counts once it
        // does.
        if self.exiting_confirmed.insert(from.clone()) {
            self.publish(cx);
            self.wake_if_converged(cx);
        }
    }
}
