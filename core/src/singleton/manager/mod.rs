//! One singleton's manager on one node: hears who is the oldest, asks and answers for the hand-over, and has
//! the instance started and stopped. What follows from what is `handover`'s, a pure function; this file finds
//! out what happened and does what it says. It starts nothing while the process may have been left behind,
//! the cluster prepares to stop, or this node is on its way out. Spec: sharding 1.10, 10.12, 10.13.

mod asking;
pub(super) mod instance;
mod leasing;
mod retirement;
mod succession;

use alloc::vec::Vec;

use self::instance::SingletonInstance;
use self::retirement::ManagerRetirement;
use super::handover::{
    self, HandOverEvent as Happened, HandOverFacts, HandOverRetries, HandOverStage, HandOverStep,
};
use super::protocol::{Event, Rejection, SingletonBody, SingletonSettings, Timer};
use super::state::{SingletonId, SingletonPhase};
use super::{Cx, say};
use crate::ident::UniqueAddress;
use crate::membership::state::member::{Member, Status};
use crate::oldest::state::{RoleStanding, may_act};
use crate::ordered::{OrderedMap, OrderedSet};
use crate::reject::Rejection as AnyRejection;
use crate::sharding::state::ids::Slot;

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct SingletonManager {
    id: SingletonId,
    settings: SingletonSettings,
    stage: HandOverStage,
    /// Whom it was told last to be the oldest that stays.
    head: Option<UniqueAddress>,
    /// Whether it has been told who is older.
    begun: bool,
    /// This node hands over before it ends.
    exited: bool,
    paused: bool,
    halted: bool,
    /// The user of this node wants it to host this singleton no more.
    retired: Option<ManagerRetirement>,
    /// Counts the attempts to be handed over to; answers to an earlier one are not heard.
    epoch: u64,
    /// The number of the next retry.
    retry: u32,
    /// Who asked for the hand-over, with the number of its attempt.
    askers: OrderedMap<UniqueAddress, u64>,
    /// Older members that have said, in this attempt, that nothing of it runs there.
    done: OrderedSet<UniqueAddress>,
    /// To whom this node has handed over.
    handed_to: Option<UniqueAddress>,
    /// The lease is given back once the instance has ended.
    release_due: bool,
    /// The keeper has not confirmed yet that the lease was given back.
    releasing: bool,
    pub(super) instance: SingletonInstance,
}

impl SingletonManager {
    /// A manager that does nothing yet. `index` is the singleton's own on this node.
    pub(super) fn new(id: SingletonId, index: u32, settings: SingletonSettings, paused: bool) -> Self {
        Self {
            id,
            settings,
            stage: HandOverStage::Start,
            head: None,
            begun: false,
            exited: false,
            paused,
            halted: false,
            retired: None,
            epoch: 0,
            retry: 0,
            askers: OrderedMap::new(),
            done: OrderedSet::new(),
            handed_to: None,
            release_due: false,
            releasing: false,
            instance: SingletonInstance::new(id, index),
        }
    }

    pub(super) const fn phase(&self) -> SingletonPhase {
        match &self.stage {
            HandOverStage::Start => SingletonPhase::Start,
            HandOverStage::Younger { .. } => SingletonPhase::Younger,
            HandOverStage::BecomingOldest { .. } => SingletonPhase::BecomingOldest,
            HandOverStage::AcquiringLease { .. } => SingletonPhase::AcquiringLease,
            HandOverStage::Oldest { .. } => SingletonPhase::Oldest,
            HandOverStage::WasOldest { .. } => SingletonPhase::WasOldest,
            HandOverStage::HandingOver { .. } => SingletonPhase::HandingOver,
            HandOverStage::Stopping | HandOverStage::Stuck => SingletonPhase::Stopping,
            HandOverStage::End => SingletonPhase::End,
            HandOverStage::Stopped => SingletonPhase::Stopped,
        }
    }

    /// Whether nothing of it runs here and nobody has to be told so.
    pub(super) const fn is_drained(&self) -> bool {
        match &self.stage {
            HandOverStage::Start
            | HandOverStage::Younger { .. }
            | HandOverStage::End
            | HandOverStage::Stopped => self.instance.is_absent(),
            HandOverStage::BecomingOldest { .. }
            | HandOverStage::AcquiringLease { .. }
            | HandOverStage::Oldest { .. }
            | HandOverStage::WasOldest { .. }
            | HandOverStage::HandingOver { .. }
            | HandOverStage::Stopping
            | HandOverStage::Stuck => false,
        }
    }

    /// The ages changed, or a removal margin is over.
    pub(super) fn look(&mut self, cx: &mut Cx<'_>) {
        if self.halted {
            return;
        }
        let view = alloc::sync::Arc::clone(cx.view());
        self.askers.retain(|node, _| view.member(node).is_some());
        if self.is_retired() {
            return self.instance.on_members_changed(cx, true);
        }
        if self.has_outlived_its_successor(cx) {
            (self.stage, self.begun, self.handed_to) = (HandOverStage::Start, false, None);
        }
        if !self.begun {
            return self.begin(cx);
        }
        let head = self.staying(cx).into_iter().next();
        if head != self.head {
            self.head.clone_from(&head);
            self.tell(cx, Happened::OldestChanged(head));
        }
        for node in self.awaited() {
            if self.is_free(cx, &node) {
                self.tell(cx, Happened::RemovedAfterMargin(node));
            }
        }
        self.stop_if_nobody_follows(cx);
        self.say_done_to_all(cx);
        self.start_if_all_are_done(cx);
        let held_up = self.is_held_up(cx);
        self.instance.on_members_changed(cx, held_up);
    }

    /// Members of the role that stay, oldest first: those that exit hand over, this node once it is asked to.
    fn staying(&self, cx: &Cx<'_>) -> Vec<UniqueAddress> {
        let me = cx.me();
        let stays = |member: &&&Member| {
            if member.node == *me {
                !self.exited
            } else {
                member.status != Status::Exiting
            }
        };
        let members = cx.view().by_age(self.settings.role.as_ref());
        members
            .iter()
            .filter(stays)
            .map(|member| member.node.clone())
            .collect()
    }

    /// Tells it who is older, once this node is Up and, if nobody is, none of those before can be running.
    fn begin(&mut self, cx: &mut Cx<'_>) {
        let me = cx.me().clone();
        let view = alloc::sync::Arc::clone(cx.view());
        let role = self.settings.role.as_ref();
        let members = view.by_age(role);
        let Some(at) = members.iter().position(|member| member.node == me) else {
            return;
        };
        if self.exited || !may_act(view.self_status()) {
            return;
        }
        if at == 0 && cx.succession().standing(role) != Some(RoleStanding::Acting) {
            return;
        }
        let older = members.iter().take(at);
        let safe = older.clone().all(|member| match member.status {
            Status::Leaving | Status::Exiting | Status::Down | Status::Removed => false,
            Status::Joining
            | Status::WeaklyUp
            | Status::Up
            | Status::PreparingForShutdown
            | Status::ReadyForShutdown => true,
        });
        let oldest_first: Vec<UniqueAddress> = members.iter().take(at + 1).map(|m| m.node.clone()).collect();
        let first = oldest_first.first().cloned();
        self.begun = true;
        self.head.clone_from(&first);
        self.tell(cx, Happened::Initial { oldest_first, safe });
        let head = self.staying(cx).into_iter().next();
        if head != first {
            self.head.clone_from(&head);
            self.tell(cx, Happened::OldestChanged(head));
        }
    }

    /// Another manager speaks.
    pub(super) fn on_hand_over(
        &mut self,
        cx: &mut Cx<'_>,
        from: &UniqueAddress,
        epoch: u64,
        body: SingletonBody,
    ) {
        if self.halted {
            return;
        }
        if self.is_retired() {
            return self.on_hand_over_retired(cx, from, epoch, body);
        }
        let answers_me = epoch == self.epoch;
        match body {
            SingletonBody::HandOverToMe if self.is_needed_here(cx) => {}
            SingletonBody::HandOverToMe => {
                self.askers.insert(from.clone(), epoch);
                if self.stage == HandOverStage::End && self.handed_to.as_ref() == Some(from) {
                    // What was said when it was done has been lost.
                    return self.say_done(cx, from);
                }
                self.tell(cx, Happened::HandOverToMe(from.clone()));
                self.say_done_to_all(cx);
            }
            SingletonBody::HandOverInProgress if answers_me => {
                self.tell(cx, Happened::HandOverInProgress(from.clone()));
            }
            SingletonBody::HandOverDone { term } if answers_me => {
                self.instance.note_told(term);
                self.done.insert(from.clone());
                self.start_if_all_are_done(cx);
            }
            SingletonBody::HandOverInProgress | SingletonBody::HandOverDone { .. } => {
                cx.counters().answers_stale += 1;
                cx.reject(from, AnyRejection::Singleton(Rejection::StaleEpoch));
            }
            SingletonBody::TakeOverFromMe => {
                self.tell(cx, Happened::TakeOverFromMe(from.clone()));
                self.ask_unheard(cx);
            }
            SingletonBody::Identify
            | SingletonBody::Identified { .. }
            | SingletonBody::Gone { .. }
            | SingletonBody::Claim { .. }
            | SingletonBody::Promised { .. }
            | SingletonBody::Refused { .. } => {}
        }
    }

    /// Whether the instance of a node on its way out stays until it is its turn: entities of this node may
    /// ask it while they stop. Who asks for it has seen this node Exiting; when the turn has come, it is
    /// asked to ask again.
    fn is_needed_here(&self, cx: &Cx<'_>) -> bool {
        let leaves = matches!(cx.view().self_status(), Status::Leaving | Status::Exiting);
        leaves && !self.exited && self.stage == HandOverStage::Oldest { instance: true }
    }

    /// The host says that an instance has ended. One that ended by itself, or whose token was void, is
    /// followed by another one if this node is still responsible.
    pub(super) fn on_stopped(&mut self, cx: &mut Cx<'_>, slot: Slot) {
        let responsible = matches!(self.stage, HandOverStage::Oldest { .. }) && !self.exited;
        if !self.instance.on_stopped(cx, slot, responsible) {
            return;
        }
        if core::mem::take(&mut self.release_due) {
            self.order_release(cx);
        }
        if self.is_retired() {
            return self.on_retired_ended(cx);
        }
        if self.stage == HandOverStage::Stuck {
            return self.begin_anew(cx);
        }
        self.tell(cx, Happened::InstanceTerminated);
    }

    /// An instance that failed has rested.
    pub(super) fn on_restart(&mut self, cx: &mut Cx<'_>) {
        if self.stage == (HandOverStage::Oldest { instance: false }) {
            self.stage = HandOverStage::Oldest { instance: true };
            let held_up = self.is_held_up(cx);
            self.instance.want(cx, held_up);
        }
    }

    /// This process stood still: nothing begins until it is known to be a member still.
    pub(super) const fn on_paused(&mut self) {
        self.paused = true;
    }

    /// The pause did no harm.
    pub(super) fn on_still_member(&mut self, cx: &mut Cx<'_>) {
        self.paused = false;
        if self.halted {
            return;
        }
        let held_up = self.is_held_up(cx);
        self.instance.go_on(cx, held_up);
        self.instance.deliver_held(cx);
    }

    /// This node leaves: the instance is handed over.
    pub(super) fn drain(&mut self, cx: &mut Cx<'_>) {
        self.exited = true;
        self.look(cx);
    }

    /// This node is Down, removed or finished: the token is void, and what runs is stopped without waiting
    /// for it. Its lease is given back once nothing runs.
    pub(super) fn halt(&mut self, cx: &mut Cx<'_>) {
        if core::mem::replace(&mut self.halted, true) {
            return;
        }
        self.release_due |= self.settings.lease && !self.wants_no_lease();
        self.stage = HandOverStage::Stopped;
        self.instance.kill(cx);
        if self.instance.is_absent() && core::mem::take(&mut self.release_due) {
            self.order_release(cx);
        }
        self.on_retired_halted(cx);
        for timer in [Timer::Retry(self.id), Timer::Lease(self.id)] {
            cx.cancel(timer);
        }
    }

    pub(super) const fn is_paused(&self) -> bool {
        self.paused
    }

    /// Whether an instance must not begin now.
    pub(super) fn is_held_up(&self, cx: &Cx<'_>) -> bool {
        let held_up = self.paused || self.exited || self.halted || self.is_retired();
        held_up || cx.view().is_shutting_down()
    }

    /// What must hold between the calls.
    pub(super) fn check_invariants(&self) -> Result<(), alloc::string::String> {
        let may_run = match &self.stage {
            HandOverStage::Oldest { instance } | HandOverStage::WasOldest { instance, .. } => *instance,
            HandOverStage::AcquiringLease { .. }
            | HandOverStage::HandingOver { .. }
            | HandOverStage::Stopping
            | HandOverStage::Stopped
            | HandOverStage::Stuck => true,
            HandOverStage::Start
            | HandOverStage::Younger { .. }
            | HandOverStage::BecomingOldest { .. }
            | HandOverStage::End => false,
        };
        if may_run || self.instance.is_absent() {
            return Ok(());
        }
        Err(alloc::format!(
            "singleton {:?}: an instance runs in {:?}",
            self.id,
            self.stage
        ))
    }

    /// Lets something have happened, and does what follows.
    fn tell(&mut self, cx: &mut Cx<'_>, happened: Happened) {
        let mut next = Some(happened);
        // An instance that never began has ended as soon as it is told to stop: at most one more event.
        while let Some(happened) = next.take() {
            let ended = self.step(cx, happened);
            next = ended.then_some(Happened::InstanceTerminated);
        }
        if self.stage == HandOverStage::Stuck && self.instance.is_absent() {
            self.begin_anew(cx);
        } else if self.is_left_alone(cx) {
            (self.stage, self.begun) = (HandOverStage::Start, false);
            self.begin(cx);
        }
    }

    fn step(&mut self, cx: &mut Cx<'_>, happened: Happened) -> bool {
        let mut nodes = self.awaited();
        if let Happened::OldestChanged(Some(node)) | Happened::RemovedAfterMargin(node) = &happened {
            nodes.push(node.clone());
        }
        let removed: OrderedSet<UniqueAddress> =
            nodes.into_iter().filter(|node| self.is_free(cx, node)).collect();
        let status = cx.view().self_status();
        let becoming = matches!(self.stage, HandOverStage::BecomingOldest { .. });
        let facts = HandOverFacts {
            me: cx.me(),
            lease: self.settings.lease,
            leaving: matches!(status, Status::Leaving | Status::Exiting) || self.exited,
            preparing: cx.view().is_shutting_down(),
            exited: self.exited,
            self_removed: false,
            retries_max: self.retries_max(cx),
            removed: &removed,
        };
        let stage = core::mem::replace(&mut self.stage, HandOverStage::Stopped);
        let (next, steps) = handover::step(stage, happened, &facts);
        self.stage = next;
        if !becoming && matches!(self.stage, HandOverStage::BecomingOldest { .. }) {
            self.epoch += 1;
            self.done.clear();
            self.ask_unheard(cx);
            self.retry_later(cx, 1);
        }
        let mut ended = false;
        for step in steps {
            ended |= self.obey(cx, step);
        }
        if !matches!(
            self.stage,
            HandOverStage::BecomingOldest { .. } | HandOverStage::WasOldest { .. }
        ) {
            cx.cancel(Timer::Retry(self.id));
        }
        ended
    }

    /// Does one thing; says whether an instance has ended by it.
    fn obey(&mut self, cx: &mut Cx<'_>, step: HandOverStep) -> bool {
        match step {
            HandOverStep::StartInstance => {
                cx.cancel(Timer::Lease(self.id));
                let held_up = self.is_held_up(cx);
                self.instance.want(cx, held_up);
            }
            HandOverStep::StopInstance => return self.instance.stop(cx),
            HandOverStep::AcquireLease => self.order_acquire(cx),
            HandOverStep::ReleaseLease if self.instance.is_absent() => self.order_release(cx),
            HandOverStep::ReleaseLease => self.release_due = true,
            HandOverStep::Retry(number) => self.retry_later(cx, number),
            HandOverStep::CancelRetry => {
                cx.cancel(Timer::Retry(self.id));
            }
            HandOverStep::HandOverToMe(to) => say(cx, &to, self.id, self.epoch, SingletonBody::HandOverToMe),
            HandOverStep::HandOverInProgress(to) => {
                let epoch = self.askers.get(&to).copied().unwrap_or_default();
                say(cx, &to, self.id, epoch, SingletonBody::HandOverInProgress);
            }
            HandOverStep::HandOverDone(to) => {
                self.say_done(cx, &to);
                if self.stage == HandOverStage::End {
                    self.handed_to = Some(to.clone());
                    cx.notify((self.id, Event::HandedOver { to }));
                }
            }
            HandOverStep::TakeOverFromMe(to) => {
                say(cx, &to, self.id, self.epoch, SingletonBody::TakeOverFromMe)
            }
        }
        false
    }

    /// The hand-over is stuck: once nothing runs here, this node looks anew who is older.
    fn begin_anew(&mut self, cx: &mut Cx<'_>) {
        cx.counters().hand_overs_stuck += 1;
        cx.notify((self.id, Event::HandOverStuck));
        self.stage = HandOverStage::Start;
        self.begun = false;
        self.begin(cx);
    }
}
