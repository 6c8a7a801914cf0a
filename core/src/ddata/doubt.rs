//! Doubt after a long absence. Whoever stood still for longer than a marker lives may have been removed
//! meanwhile, and what removed nodes contributed may be nobody's by now: what it holds would count twice
//! wherever it tells it. So it tells nothing and answers nothing until everybody who could have gone on
//! without it has said that it is still a member. Lets go of nothing: nothing is settled while a member is
//! silent, so a member holds what all hold. Spec: sharding 10.8; `docs/adr/0012`.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use super::protocol::{DdataBody, Event, Msg, Timer};
use super::replicas::Replicas;
use super::{Replicator, ReplicatorStage, arm, send};
use crate::ddata::Cx;
use crate::ident::UniqueAddress;
use crate::ordered::OrderedSet;
use crate::time::Instant;
use crate::view::View;

/// When this replica last ran, and what it asks since it was away.
#[derive(Clone, Debug, Default)]
pub(super) struct Doubt {
    /// By both clocks: a process that is stopped sees both go on, a machine that is suspended often only the
    /// wall clock.
    ran: Option<(Instant, u64)>,
    question: Option<DoubtQuestion>,
}

#[derive(Clone, Debug)]
struct DoubtQuestion {
    /// The number that answers name: one from before this node was away means nothing.
    number: u64,
    /// Members from before it was away that have not answered.
    unheard: OrderedSet<UniqueAddress>,
}

impl Doubt {
    pub(super) const fn is_open(&self) -> bool {
        self.question.is_some()
    }

    pub(super) fn end(&mut self) {
        self.question = None;
    }

    /// It runs; for how long it did not.
    fn run(&mut self, now: (Instant, u64)) -> Duration {
        let Some((mono, wall_ms)) = self.ran.replace(now) else {
            return Duration::ZERO;
        };
        let by_wall = Duration::from_millis(now.1.saturating_sub(wall_ms));
        now.0.since(mono).max(by_wall)
    }
}

impl Replicator {
    /// Whether it tells and answers.
    pub(super) const fn takes_part(&self) -> bool {
        matches!(self.stage, ReplicatorStage::Serving) && !self.doubt.is_open()
    }

    /// Whether what applications ask for waits.
    pub(super) const fn keeps_waiting(&self) -> bool {
        match self.stage {
            ReplicatorStage::Loading => true,
            ReplicatorStage::Serving => self.doubt.is_open(),
            ReplicatorStage::Idle | ReplicatorStage::Stopped => false,
        }
    }

    /// Before every input, so that nothing is done by what was known before this node was away; `before` is
    /// the picture of then. A replica that holds something has timers that are due far more often than a
    /// marker ends.
    pub(super) fn notice_absence(&mut self, cx: &mut Cx<'_>, before: &View) {
        let away = self.doubt.run((cx.mono(), cx.now().unix_ms));
        if away <= cx.config().ddata.marker_life_min() {
            return;
        }
        let is_affected = match self.stage {
            ReplicatorStage::Loading => true,
            ReplicatorStage::Serving => self.entries.len() > 0,
            ReplicatorStage::Idle | ReplicatorStage::Stopped => false,
        };
        let unheard: OrderedSet<UniqueAddress> =
            Replicas::new(before, &cx.config().ddata).anybody().collect();
        if !is_affected || unheard.is_empty() {
            return;
        }
        self.departed.skip(cx.mono());
        let number = self.operations.number();
        self.doubt.question = Some(DoubtQuestion { number, unheard });
        cx.counters().absences += 1;
        cx.notify(Event::AwayForLong { away });
        self.ask_whether_still_member(cx);
    }

    /// A write of nothing: who counts this node in confirms it, whatever it holds. Asked again with every
    /// gossip tick.
    pub(super) fn ask_whether_still_member(&self, cx: &mut Cx<'_>) {
        let Some(DoubtQuestion { number, unheard }) = &self.doubt.question else {
            return;
        };
        for node in unheard {
            let (operation, entries) = (Some(*number), Vec::new());
            send(cx, node, DdataBody::Deltas { operation, entries });
        }
        let interval = cx.config().ddata.gossip_interval;
        arm(cx, true, Timer::Gossip, interval);
    }

    /// Answers who asks whether it is still a member, and hears the answers. Says whether the message was one
    /// of these.
    pub(super) fn on_doubt(&mut self, cx: &mut Cx<'_>, from: &UniqueAddress, message: &Msg) -> bool {
        match &message.body {
            DdataBody::Deltas {
                operation: Some(operation),
                entries,
            } if entries.is_empty() => {
                let operation = *operation;
                if Replicas::new(cx.view(), &cx.config().ddata).includes_me() {
                    send(cx, from, DdataBody::WriteAck { operation });
                }
                true
            }
            DdataBody::WriteAck { operation } => {
                let Some(question) = &mut self.doubt.question else {
                    return false;
                };
                let is_answer = question.number == *operation;
                if is_answer {
                    question.unheard.remove(from);
                    self.end_doubt_if_heard(cx);
                }
                is_answer
            }
            DdataBody::Read { .. }
            | DdataBody::ReadResult { .. }
            | DdataBody::Write { .. }
            | DdataBody::WriteNack { .. }
            | DdataBody::Repair { .. }
            | DdataBody::Status { .. }
            | DdataBody::Request { .. }
            | DdataBody::Gossip { .. }
            | DdataBody::Deltas { .. } => false,
        }
    }

    /// Who was removed is not waited for.
    pub(super) fn forget_unheard(&mut self, cx: &mut Cx<'_>, after: &View) {
        if let Some(question) = &mut self.doubt.question {
            question.unheard.retain(|node| after.member(node).is_some());
            self.end_doubt_if_heard(cx);
        }
    }

    fn end_doubt_if_heard(&mut self, cx: &mut Cx<'_>) {
        let is_heard = |question: &mut DoubtQuestion| question.unheard.is_empty();
        if self.doubt.question.take_if(is_heard).is_none() {
            return;
        }
        cx.notify(Event::StillReplica);
        self.departed.skip(cx.mono());
        if self.stage == ReplicatorStage::Serving {
            self.begin_early(cx);
        }
        self.after_input(cx);
    }

    /// [`Self::notice_absence`], where the picture is the one of before.
    pub(super) fn notice_absence_now(&mut self, cx: &mut Cx<'_>) {
        let view = Arc::clone(cx.view());
        self.notice_absence(cx, &view);
    }
}
