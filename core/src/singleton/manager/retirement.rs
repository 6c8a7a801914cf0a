//! A node that stays and hosts a singleton no more, because its user said so or the cluster has refused it:
//! the instance stops, within a time limit, and whoever becomes the oldest hears at once that nothing runs
//! here. Begins nothing. Spec: sharding 1.10.

use alloc::vec::Vec;
use core::time::Duration;

use super::SingletonManager;
use crate::effect::{Answer as AnyAnswer, CommandError as AnyError};
use crate::ident::UniqueAddress;
use crate::input::Token;
use crate::singleton::handover::HandOverStage;
use crate::singleton::protocol::{Answer, SingletonBody, SingletonSettings, StopOutcome, Timer};
use crate::singleton::{Cx, say};

/// How long a killed instance may take to end before its caller hears that it has not: one that only waits
/// for something ends in the next turn of its executor.
const KILL_PATIENCE: Duration = Duration::from_secs(1);

/// How far it is.
#[derive(Clone, Debug, Default)]
pub(super) struct ManagerRetirement {
    /// Who waits for the instance to end.
    caller: Option<Token>,
    /// Its time was over.
    late: bool,
}

impl SingletonManager {
    /// Whether this node is to host it no more.
    pub(in crate::singleton) const fn is_retired(&self) -> bool {
        self.retired.is_some()
    }

    /// Whether it is, and its instance has not ended.
    pub(in crate::singleton) const fn is_stopping(&self) -> bool {
        self.is_retired() && !self.instance.is_absent()
    }

    /// This node is to host it no more, because its user says so or the cluster has it with other fields;
    /// `caller` hears when nothing of it runs here.
    pub(in crate::singleton) fn retire(&mut self, cx: &mut Cx<'_>, caller: Option<Token>, timeout: Duration) {
        let gives_back = self.settings.lease && !self.wants_no_lease();
        let waits_for_it = match core::mem::replace(&mut self.stage, HandOverStage::Stopped) {
            HandOverStage::HandingOver { to } => to,
            HandOverStage::Start
            | HandOverStage::Younger { .. }
            | HandOverStage::BecomingOldest { .. }
            | HandOverStage::AcquiringLease { .. }
            | HandOverStage::Oldest { .. }
            | HandOverStage::WasOldest { .. }
            | HandOverStage::Stopping
            | HandOverStage::End
            | HandOverStage::Stopped
            | HandOverStage::Stuck => None,
        };
        self.askers.retain(|node, _| waits_for_it.as_ref() == Some(node));
        cx.cancel(Timer::Retry(self.id));
        cx.cancel(Timer::Lease(self.id));
        let mut retired = ManagerRetirement::default();
        if self.instance.stop_within(cx, timeout) {
            if gives_back {
                self.order_release(cx);
            }
            if let Some(caller) = caller {
                cx.reply(caller, answer(StopOutcome::NothingRan));
            }
        } else {
            self.release_due |= gives_back;
            self.stage = HandOverStage::Stopping;
            retired.caller = caller;
        }
        self.retired = Some(retired);
    }

    /// This node is to host it again: it looks anew who is older.
    pub(in crate::singleton) fn begin_again(&mut self, cx: &mut Cx<'_>, settings: SingletonSettings) {
        self.settings = settings;
        self.retired = None;
        self.stage = HandOverStage::Start;
        self.begun = false;
        self.head = None;
        self.look(cx);
    }

    /// Another manager speaks. Who asks for the hand-over need not wait for this node's removal, and who
    /// leaves need not wait for this one.
    pub(super) fn on_hand_over_retired(
        &mut self,
        cx: &mut Cx<'_>,
        from: &UniqueAddress,
        epoch: u64,
        body: SingletonBody,
    ) {
        match body {
            SingletonBody::HandOverToMe => {
                self.askers.insert(from.clone(), epoch);
                if self.instance.is_absent() {
                    self.say_done(cx, from);
                } else {
                    say(cx, from, self.id, epoch, SingletonBody::HandOverInProgress);
                }
            }
            SingletonBody::HandOverDone { term } if epoch == self.epoch => self.instance.note_told(term),
            SingletonBody::TakeOverFromMe => say(cx, from, self.id, self.epoch, SingletonBody::HandOverToMe),
            SingletonBody::HandOverInProgress
            | SingletonBody::HandOverDone { .. }
            | SingletonBody::Identify
            | SingletonBody::Identified { .. }
            | SingletonBody::Gone { .. }
            | SingletonBody::Claim { .. }
            | SingletonBody::Promised { .. }
            | SingletonBody::Refused { .. } => {}
        }
    }

    /// The instance has ended.
    pub(super) fn on_retired_ended(&mut self, cx: &mut Cx<'_>) {
        self.stage = HandOverStage::Stopped;
        let askers: Vec<UniqueAddress> = self.askers.keys().cloned().collect();
        for node in askers {
            self.say_done(cx, &node);
        }
        let outcome = if self.instance.was_killed() {
            StopOutcome::Killed
        } else {
            StopOutcome::Stopped
        };
        if let Some(caller) = self.retired.as_mut().and_then(|retired| retired.caller.take()) {
            cx.reply(caller, answer(outcome));
        }
    }

    /// The instance has not stopped in time. Whoever waits for it is not kept for ever: a handler that blocks
    /// its thread cannot be ended.
    pub(in crate::singleton) fn on_stop_late(&mut self, cx: &mut Cx<'_>) {
        if let Some(retired) = &mut self.retired {
            if core::mem::replace(&mut retired.late, true) {
                if let Some(caller) = retired.caller.take() {
                    cx.reply(caller, answer(StopOutcome::StillRuns));
                }
                return;
            }
            cx.wake(Timer::StopLate(self.id), cx.mono() + KILL_PATIENCE);
        }
        self.instance.on_stop_late(cx);
    }

    /// This node has ended.
    pub(super) fn on_retired_halted(&mut self, cx: &mut Cx<'_>) {
        if let Some(caller) = self.retired.as_mut().and_then(|retired| retired.caller.take()) {
            cx.reply(caller, AnyAnswer::Refused(AnyError::Stopped));
        }
    }
}

const fn answer(outcome: StopOutcome) -> AnyAnswer {
    AnyAnswer::Singleton(Answer::Stopped(outcome))
}
