//! Whether this node is a member still: in doubt after an own pause, and when a member refuses it for good.
//! Meanwhile it starts nothing new. Members that answer a heartbeat and then gossip with this node count it
//! in; a node that was refused ends if too few do in time. Spec: membership 8.5, 8.11.

use alloc::sync::Arc;
use core::time::Duration;

use super::{Detector, MonitorStage, own_nodes};
use crate::config::{DowningStrategy, ValidConfig};
use crate::detector::Cx;
use crate::detector::revalidation::Revalidation;
use crate::event::DetectorEvent;
use crate::ident::UniqueAddress;
use crate::membership::state::member::{Member, Status};
use crate::timer::DetectorTimer;
use crate::view::View;

/// At most one pause in this time is forgiven: a process that stands still again and again is too slow to
/// judge others kindly, and must not hide real silence for ever.
const COMPENSATION_INTERVAL: Duration = Duration::from_secs(60);

impl Detector {
    /// A round this late means that this process stood still, and with it everything that was to answer it.
    /// The node asks before it handles any input, so that nothing is concluded from what was known before.
    /// Says whether it was one.
    pub(crate) fn notice_pause(&mut self, cx: &mut Cx<'_>) -> bool {
        let Some(since) = self.stage.round_due() else {
            return false;
        };
        let now = cx.mono();
        // Nearly always: this is asked with every input.
        if now <= since {
            return false;
        }
        let excess = now.since(since);
        let config = &cx.config().failure_detector;
        // A round is due one interval after the last: later by the acceptable pause is an interval plus that
        // pause. An acceptable pause of zero must not make every late wake-up a pause.
        if excess <= config.acceptable_heartbeat_pause.max(config.heartbeat_interval) {
            return false;
        }
        self.stage = MonitorStage::Revalidating {
            round_due: now,
            revalidation: Revalidation::after(self.sequence, false),
        };
        if self
            .compensated_at
            .is_none_or(|last| now.since(last) >= COMPENSATION_INTERVAL)
        {
            self.compensated_at = Some(now);
            self.registry.shift(excess, now);
            cx.counters().pauses_compensated += 1;
        }
        cx.notify(DetectorEvent::Paused { excess });
        cx.say_paused(since);
        let view = Arc::clone(cx.view());
        if self.nobody_could_tell(cx.config(), &view) {
            self.believe(cx);
        }
        true
    }

    /// This node is a member still.
    pub(super) fn believe(&mut self, cx: &mut Cx<'_>) {
        if let Some(round_due) = self.stage.round_due() {
            self.stage = MonitorStage::Monitoring { round_due };
        }
        cx.cancel(DetectorTimer::Refused);
        cx.say_still_member();
        cx.notify(DetectorEvent::StillMember);
    }

    /// This node refuses a peer's links from now on, which is its own affair: the peer has to show itself to
    /// others.
    pub(crate) fn on_quarantined(&mut self, cx: &mut Cx<'_>, peer: &UniqueAddress) {
        let is_watching = self.stage != MonitorStage::Stopped && cx.view().member(peer).is_some();
        if is_watching && self.refusals.cut(peer, cx.mono()) {
            cx.say_links_cut(self.refusals.cut_off());
            cx.say_roll_call();
        }
    }

    /// A peer refuses this node's links for good, as those of one that was removed.
    pub(crate) fn on_quarantined_by(&mut self, cx: &mut Cx<'_>, peer: &UniqueAddress) {
        self.on_quarantined(cx, peer);
        self.on_told_removed(cx, peer);
    }

    /// A peer says that this node was removed. A stranger's word does not matter, nor that of a member on its
    /// way out. Of a member it may be true, and then others run at the end of the removal margin what this
    /// node runs: it has to have ended by then.
    pub(crate) fn on_told_removed(&mut self, cx: &mut Cx<'_>, peer: &UniqueAddress) {
        let view = Arc::clone(cx.view());
        let is_sound = |member: &Member| member.status < Status::Leaving;
        let is_told = self.stage != MonitorStage::Stopped && view.member(peer).is_some_and(is_sound);
        if !is_told || !self.refusals.refused_by(peer, cx.mono()) {
            return;
        }
        cx.counters().refused_by_members += 1;
        let ends_at = cx.mono() + patience(cx.config(), view.members().len());
        let ends_at = cx
            .due(DetectorTimer::Refused)
            .map_or(ends_at, |due| due.min(ends_at));
        cx.wake(DetectorTimer::Refused, ends_at);
        cx.notify(DetectorEvent::Refused {
            by: peer.clone(),
            ends_in: ends_at.since(cx.mono()),
        });
        cx.say_paused(cx.mono());
        if self.refusals.is_beyond_hope(&view) {
            return cx.say_disowned();
        }
        let has_others_here = view.self_member().is_some_and(|own| {
            let others = own_nodes(&view, own.data_center());
            others.into_iter().any(|node| node != view.me())
        });
        self.stage = MonitorStage::Revalidating {
            round_due: cx.mono(),
            revalidation: Revalidation::after(self.sequence, !has_others_here),
        };
        self.send_heartbeats(cx);
        if !has_others_here {
            cx.say_roll_call();
        }
    }

    /// A member answered a heartbeat. After a refusal as many have to as refuse this node; the last of them
    /// makes it ask for gossip at once, because little time may be left.
    pub(super) fn revalidate(&mut self, cx: &mut Cx<'_>, from: &UniqueAddress, round: u64) {
        let Some(revalidation) = self.stage.revalidation().copied() else {
            return;
        };
        let is_refused = cx.is_set(DetectorTimer::Refused);
        if self.refusals.is_refused_by(from)
            || !revalidation.is_later(round)
            || (is_refused && !self.refusals.counted_in_by(from))
        {
            return;
        }
        let is_first = self.stage.revalidation().is_some_and(Revalidation::on_answer);
        if is_first && is_refused {
            cx.say_roll_call();
        }
    }

    /// Whether there is nobody who could have taken over this node's work, or nobody in reach where only an
    /// operator downs: waiting for a word would never end.
    pub(super) fn nobody_could_tell(&self, config: &ValidConfig, view: &View) -> bool {
        let Some(own) = view.self_member().filter(|_| self.refusals.refusing() == 0) else {
            return false;
        };
        let others = own_nodes(view, own.data_center()).filter(|node| *node != view.me());
        let by_hand = matches!(config.downing.strategy, DowningStrategy::Off);
        others.into_iter().all(|node| by_hand && !view.is_reachable(node))
    }
}

/// How long a node that was refused waits to be counted in: so that it has ended before others start what it
/// runs, where they wait with that at all.
fn patience(config: &ValidConfig, members: usize) -> Duration {
    match config.removal_margin(members) {
        Duration::ZERO => config.stable_after(members) / 2,
        margin => margin / 2,
    }
}
