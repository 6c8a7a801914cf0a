//! The membership machine: this node's own copy of the gossip state, its phase, and the one way to change
//! either. Never judges silence (the detector does) and never decides who has to go (the resolver or an
//! operator does). Spec: membership 2.0; `ARCHITECTURE.md`.

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::buffered::{BufferedLoad, BufferingMachine};
use crate::drain::Drain;
use crate::effect::{Answer, CommandError, HaltReason, MembershipCommandError};
use crate::event::MembershipEvent;
use crate::ident::{Address, UniqueAddress};
use crate::input::{DownTarget, MembershipCommand, Token};
use crate::membership::Cx;
use crate::membership::doubts::EntryClaims;
use crate::membership::joining::{JoinStage, ToldDiffering};
use crate::membership::state::convergence;
use crate::membership::state::events::{self, MembershipChange};
use crate::membership::state::gossip::{Gossip, GossipError};
use crate::membership::state::leader;
use crate::membership::state::member::Status;
use crate::membership::strangers::Strangers;
use crate::membership::told::News;
use crate::message::MembershipMsg;
use crate::ordered::{OrderedMap, OrderedSet};
use crate::reject::Rejection;
use crate::signal::Verdicts;
use crate::time::Instant;
use crate::timer::MembershipTimer;
use crate::view::{MembershipPhase, View};

/// This node's membership.
#[derive(Clone, Debug)]
pub(crate) struct Membership {
    pub(super) joining: JoinStage,
    pub(super) gossip: Arc<Gossip>,
    /// My clock entry never goes below this, even if a peer claimed more of my changes than I made (8.9).
    pub(super) own_clock: u64,
    /// Members to whom no link gets through, because one of its ends refuses it.
    pub(super) cut: OrderedSet<UniqueAddress>,
    pub(super) claims: EntryClaims,
    pub(super) news: News,
    pub(crate) exiting_confirmed: OrderedSet<UniqueAddress>,
    /// Those of them that had said so when the leader looked last.
    pub(super) confirmed_before: OrderedSet<UniqueAddress>,
    pub(super) exit: ExitStage,
    pub(super) drain: Drain,
    pub(super) ticks_without_convergence: u64,
    pub(super) self_down_ticks: u32,
    /// Whether users heard that this node is Up; its number may still be settled after that.
    told_up: bool,
    /// When this node first saw each tombstone, on its own clock (8.3).
    pub(super) tombstones_since: OrderedMap<UniqueAddress, Instant>,
    /// When this node first saw each member Leaving, on its own clock (sharding 10.17).
    pub(super) leaving_since: OrderedMap<UniqueAddress, Instant>,
    /// Joiners whose settings differ, of whom users have heard.
    pub(super) told_differing: ToldDiffering,
    pub(super) strangers: Strangers,
    /// Whether news had to spread fast in the state that was looked at last.
    pub(super) haste: Option<(Arc<Gossip>, bool)>,
    halt: Option<HaltReason>,
}

/// How far this node's own way out has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExitStage {
    /// Not asked for.
    Staying,
    /// The other machines hand their work over.
    Draining,
    /// They have: nothing runs here any more.
    Drained,
    /// Their time is up: something may still run here.
    TimedOut,
}

impl Membership {
    pub(crate) fn new() -> Self {
        Self {
            joining: JoinStage::Idle,
            gossip: Arc::new(Gossip::new()),
            own_clock: 0,
            cut: OrderedSet::new(),
            claims: EntryClaims::default(),
            news: News::default(),
            exiting_confirmed: OrderedSet::new(),
            confirmed_before: OrderedSet::new(),
            exit: ExitStage::Staying,
            drain: Drain::default(),
            ticks_without_convergence: 0,
            self_down_ticks: 0,
            told_up: false,
            tombstones_since: OrderedMap::new(),
            leaving_since: OrderedMap::new(),
            told_differing: ToldDiffering::default(),
            strangers: Strangers::default(),
            haste: None,
            halt: None,
        }
    }

    /// Another node (or this one itself) speaks.
    pub(crate) fn on_message(&mut self, cx: &mut Cx<'_>, from: &UniqueAddress, msg: MembershipMsg) {
        match msg {
            MembershipMsg::InitJoin(ask) => self.on_init_join(cx, from, &ask),
            MembershipMsg::InitJoinAck(ack) => self.on_init_join_ack(cx, from, &ack),
            MembershipMsg::InitJoinNack => self.on_init_join_nack(cx, from),
            MembershipMsg::Join(join) => self.on_join(cx, from, &join),
            MembershipMsg::JoinRefused(refused) => self.on_join_refused(cx, from, &refused),
            MembershipMsg::Removed { to } => self.on_removed(cx, from, &to),
            MembershipMsg::Welcome(welcome) => self.on_welcome(cx, from, &welcome),
            MembershipMsg::Leave(node) => self.on_leave(cx, from, &node),
            MembershipMsg::Down(node) => self.on_down(cx, from, &node),
            MembershipMsg::ExitingConfirmed { to } => self.on_exiting_confirmed(cx, from, &to),
            MembershipMsg::GossipStatus(status) => {
                self.on_gossip_status(cx, from, &status);
                cx.say_gossip_heard(from.clone());
            }
            MembershipMsg::Gossip(envelope) => {
                self.on_gossip(cx, from, &envelope);
                cx.say_gossip_heard(from.clone());
            }
            MembershipMsg::GossipDelta(delta) => {
                self.on_gossip_delta(cx, from, &delta);
                cx.say_gossip_heard(from.clone());
            }
            MembershipMsg::GossipSeen(seen) => {
                self.on_gossip_seen(cx, from, &seen);
                cx.say_gossip_heard(from.clone());
            }
        }
    }

    /// A caller wants something.
    pub(crate) fn on_command(&mut self, cx: &mut Cx<'_>, token: Token, command: MembershipCommand) {
        match command {
            MembershipCommand::JoinSeeds(seeds) => self.on_join_command(cx, token, seeds),
            MembershipCommand::Join(contact) => {
                self.on_join_command(cx, token, alloc::vec![contact]);
            }
            MembershipCommand::Leave => self.on_leave_command(cx, token, None),
            MembershipCommand::LeaveMember(address) => self.on_leave_command(cx, token, Some(&address)),
            MembershipCommand::Down(target) => self.on_down_command(cx, token, &target),
            MembershipCommand::Remove(target) => self.on_remove_command(cx, token, &target),
            MembershipCommand::PrepareForShutdown => self.on_prepare_command(cx, token),
            MembershipCommand::PaceExit => self.on_pace_command(cx, token),
            MembershipCommand::HandOver(part) => self.on_hand_over_command(cx, token, part),
        }
    }

    /// A periodic or one-off task is due.
    pub(crate) fn on_timer(&mut self, cx: &mut Cx<'_>, timer: &MembershipTimer) {
        match timer {
            MembershipTimer::Gossip => self.on_gossip_tick(cx),
            MembershipTimer::GossipExtraFirst | MembershipTimer::GossipExtraSecond => {
                self.on_extra_gossip(cx)
            }
            MembershipTimer::News => self.on_news(cx),
            MembershipTimer::LeaderActions => self.on_leader_tick(cx),
            MembershipTimer::Converged => self.on_converged(cx),
            MembershipTimer::JoinRetry => self.on_join_retry(cx),
            MembershipTimer::SeedRetry => self.on_seed_retry(cx),
            MembershipTimer::SeedSelfJoin => self.on_seed_timeout(cx),
            MembershipTimer::JoinAbort => self.on_join_abort(cx),
            MembershipTimer::ExitDrain => self.on_drain_timeout(cx),
            MembershipTimer::ExitLeaving => self.on_leaving_timeout(cx),
            MembershipTimer::Quarantine(node) => cx.quarantine(node.clone()),
        }
    }

    /// The detector found members silent or back.
    pub(crate) fn on_verdicts(&mut self, cx: &mut Cx<'_>, verdicts: &Verdicts) {
        if !self.is_member() {
            return;
        }
        let mut next = Gossip::clone(&self.gossip);
        let mut changed = false;
        for node in verdicts
            .unreachable
            .iter()
            .filter(|n| *n != cx.me() && self.gossip.contains(n))
        {
            changed |= next.reachability_mut().unreachable(cx.me(), node);
        }
        for node in verdicts.reachable.iter().filter(|n| self.gossip.contains(n)) {
            changed |= next.reachability_mut().reachable(cx.me(), node);
        }
        if changed {
            self.update(cx, next);
        }
    }

    /// A peer hears nothing any more of what it has to: its links are refused, and it is downed as one that
    /// is silent.
    pub(crate) fn on_quarantine(&mut self, cx: &mut Cx<'_>, node: UniqueAddress) {
        if node != *cx.me() && self.gossip.member(&node).is_some() {
            cx.quarantine(node);
        }
    }

    /// The resolver decided; this node goes last, so that the others still hear of it.
    pub(crate) fn on_down_decided(&mut self, cx: &mut Cx<'_>, nodes: &OrderedSet<UniqueAddress>) {
        let me = cx.me().clone();
        self.down_others(cx, nodes.iter().filter(|node| **node != me));
        if nodes.contains(&me) {
            self.down(cx, &me);
        }
    }

    /// Somebody wants a member to leave.
    pub(crate) fn on_leave_command(&mut self, cx: &mut Cx<'_>, token: Token, address: Option<&Address>) {
        if self.halt.is_some() {
            return cx.reply(token, Answer::Refused(CommandError::Stopped));
        }
        let me = cx.me().clone();
        let node = match address {
            Some(address) => self.node_at(cx.me(), address),
            None => Some(me.clone()),
        };
        match node {
            None => cx.reply(
                token,
                Answer::Refused(CommandError::Membership(MembershipCommandError::UnknownMember)),
            ),
            Some(node) if node == me && !self.is_member() => {
                cx.reply(token, Answer::Done);
                self.halt(cx, HaltReason::Left);
            }
            Some(node) => {
                cx.reply(token, Answer::Done);
                self.leave(cx, &node);
            }
        }
    }

    /// Somebody wants a member down.
    pub(crate) fn on_down_command(&mut self, cx: &mut Cx<'_>, token: Token, target: &DownTarget) {
        let Some(node) = self.target(cx.me(), target) else {
            return cx.reply(
                token,
                Answer::Refused(CommandError::Membership(MembershipCommandError::UnknownMember)),
            );
        };
        cx.reply(token, Answer::Done);
        self.down(cx, &node);
    }

    /// The member that is meant.
    pub(super) fn target(&self, me: &UniqueAddress, target: &DownTarget) -> Option<UniqueAddress> {
        let node = match target {
            DownTarget::Address(address) => self.node_at(me, address),
            DownTarget::Node(node) => Some(node.clone()),
        };
        node.filter(|node| self.gossip.contains(node))
    }

    /// Whom an address means: at my own address always me, whoever was there before.
    fn node_at(&self, me: &UniqueAddress, address: &Address) -> Option<UniqueAddress> {
        if address == me.address() {
            return Some(me.clone());
        }
        self.gossip.member_at(address).map(|m| m.node.clone())
    }

    /// Why the node is finished, once.
    pub(crate) fn take_halt(&mut self) -> Option<HaltReason> {
        self.halt.take()
    }

    /// Whether this node is in the member table and not finished.
    pub(crate) fn is_member(&self) -> bool {
        matches!(self.joining, JoinStage::Done)
    }

    /// What must hold after every input.
    pub(crate) fn check_invariants(&self, me: &UniqueAddress) -> Result<(), GossipError> {
        self.gossip.check_invariants()?;
        debug_assert!(
            !self.is_member() || self.gossip.contains(me) || self.halt.is_some(),
            "a member is in its own table"
        );
        debug_assert!(
            self.gossip.version().get(me) <= self.own_clock,
            "nobody ticks my clock entry but me"
        );
        Ok(())
    }

    /// One local change: counts my clock entry up, resets who has seen the state, installs it (2.0).
    pub(super) fn update(&mut self, cx: &mut Cx<'_>, mut next: Gossip) {
        next.stamp(cx.me(), self.exit != ExitStage::Draining, self.own_clock);
        self.own_clock = next.version().get(cx.me());
        self.install(cx, next);
    }

    /// Makes `next` this node's state: tells users what changed, publishes the picture and follows up on my
    /// own status.
    pub(super) fn install(&mut self, cx: &mut Cx<'_>, next: Gossip) {
        let before = core::mem::replace(&mut self.gossip, Arc::new(next));
        self.age_tombstones(cx, &before);
        self.age_leaving(cx, &before);
        let changes = events::diff(&before, &self.gossip, cx.me());
        self.publish(cx);
        for change in changes {
            self.tell(cx, change);
        }
        self.follow_own_status(cx, before.member(cx.me()).map(|m| m.status));
        if self.news.on_installed(&before, &self.gossip) {
            self.on_state_changed(cx);
        }
        self.end_rivals(cx);
    }

    fn tell(&mut self, cx: &mut Cx<'_>, change: MembershipChange) {
        let mut became_up = false;
        match &change {
            MembershipChange::Removed { member, previous } => {
                cx.counters().members_removed += 1;
                self.refuse_links(cx, &member.node, *previous);
            }
            MembershipChange::Up(member) => became_up = member.node == *cx.me(),
            MembershipChange::Joined(_)
            | MembershipChange::WeaklyUp(_)
            | MembershipChange::Left(_)
            | MembershipChange::Exited(_)
            | MembershipChange::Downed(_)
            | MembershipChange::PreparingForShutdown(_)
            | MembershipChange::ReadyForShutdown(_)
            | MembershipChange::Unreachable(_)
            | MembershipChange::Reachable(_)
            | MembershipChange::LeaderChanged(_)
            | MembershipChange::RoleLeaderChanged { .. }
            | MembershipChange::SeenChanged { .. }
            | MembershipChange::TombstonesChanged
            | MembershipChange::ReachabilityChanged => {}
        }
        let view = Arc::clone(cx.view());
        cx.notify(MembershipEvent::Changed { change, view });
        if became_up && !core::mem::replace(&mut self.told_up, true) {
            cx.notify(MembershipEvent::SelfUp);
        }
    }

    /// A removed incarnation never comes back: one that was Down is refused at once. Any other left
    /// gracefully, or was downed while this node looked away; it may still have something to say, for a
    /// while.
    fn refuse_links(&self, cx: &mut Cx<'_>, node: &UniqueAddress, previous: Status) {
        if previous == Status::Down {
            cx.quarantine(node.clone());
        } else {
            let at = cx.mono() + cx.config().membership.quarantine_removed_node_after;
            let timer = MembershipTimer::Quarantine(node.clone());
            cx.wake(timer, at);
        }
    }

    fn follow_own_status(&mut self, cx: &mut Cx<'_>, before: Option<Status>) {
        let Some(now) = self.gossip.member(cx.me()).map(|m| m.status) else {
            return;
        };
        if before == Some(now) {
            return;
        }
        match now {
            Status::Leaving => self.begin_leaving(cx),
            Status::Exiting => self.begin_exit(cx),
            Status::Down => self.check_self_down(cx),
            Status::Joining
            | Status::WeaklyUp
            | Status::Up
            | Status::PreparingForShutdown
            | Status::ReadyForShutdown
            | Status::Removed => {}
        }
    }

    /// Publishes the picture of the present state.
    pub(super) fn publish(&self, cx: &mut Cx<'_>) {
        let dc = cx.config().node_roles().data_center();
        let mut unreachable = if self.gossip.reachability().is_all_reachable() {
            Vec::new()
        } else {
            convergence::dc_reachability_no_outside_nodes(&self.gossip, dc).all_unreachable_or_terminated()
        };
        unreachable.retain(|node| node != cx.me());
        let view = View {
            me: cx.me().clone(),
            revision: cx.view().revision + 1,
            phase: self.phase(),
            leader: leader::leader(&self.gossip, cx.me()),
            converged: self.is_member()
                && convergence::converged(&self.gossip, cx.me(), &self.exiting_confirmed),
            unreachable,
            shutting_down: cx.view().shutting_down || leader::is_shutting_down(&self.gossip),
            gossip: Arc::clone(&self.gossip),
        };
        cx.publish(view);
    }

    const fn phase(&self) -> MembershipPhase {
        match self.joining {
            JoinStage::Idle => MembershipPhase::Idle,
            JoinStage::Seeding(_) | JoinStage::Waiting { .. } => MembershipPhase::Joining,
            JoinStage::Done => MembershipPhase::Member,
            JoinStage::Over => MembershipPhase::Halted,
        }
    }

    /// Ends this node. The effect follows when all machines have heard of it.
    pub(super) fn halt(&mut self, cx: &mut Cx<'_>, reason: HaltReason) {
        if matches!(self.joining, JoinStage::Over) {
            return;
        }
        self.joining = JoinStage::Over;
        self.halt = Some(reason);
        cx.cancel(MembershipTimer::News);
        self.publish(cx);
    }

    /// Drops what a peer said unless it was meant for this very incarnation.
    pub(super) fn meant_for_me(cx: &mut Cx<'_>, from: &UniqueAddress, to: &UniqueAddress) -> bool {
        if to == cx.me() {
            return true;
        }
        cx.reject(from, Rejection::WrongReceiver { to: to.clone() });
        false
    }

    fn age_tombstones(&mut self, cx: &Cx<'_>, before: &Gossip) {
        if Arc::ptr_eq(before.tombstones_arc(), self.gossip.tombstones_arc()) {
            return;
        }
        let tombstones = self.gossip.tombstones();
        self.tombstones_since.retain(|node, _| tombstones.contains(node));
        for node in tombstones {
            self.tombstones_since.entry(node.clone()).or_insert(cx.mono());
        }
    }

    /// Starts the periodic tasks; this node has just become a member.
    pub(super) fn start_periodic_tasks(cx: &mut Cx<'_>) {
        let m = &cx.config().membership;
        let delay = |interval: core::time::Duration| interval.max(m.periodic_tasks_initial_delay);
        let gossip = cx.mono() + delay(m.gossip_interval);
        let leader = cx.mono() + delay(m.leader_actions_interval);
        cx.wake(MembershipTimer::Gossip, gossip);
        cx.wake(MembershipTimer::LeaderActions, leader);
    }
}

impl BufferingMachine for Membership {
    fn buffered(&self) -> BufferedLoad {
        // What it hears is merged or answered at once.
        BufferedLoad::NOTHING
    }
}
