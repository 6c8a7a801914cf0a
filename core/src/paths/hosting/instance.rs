//! The instance of a slot on this node: begins, carries the token, rests after a failure, is killed when it
//! does not stop. Whether there is to be one is decided elsewhere. Spec: sharding 5.4, 10.15.

use core::time::Duration;

use crate::messaging::protocol::{HostOrder, HostedInstance};
use crate::paths::Cx;
use crate::paths::protocol::{Event, Timer};
use crate::paths::state::name::PathId;
use crate::sharding::state::ids::{Payload, Slot};
use crate::time::Instant;
use crate::token::Token;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SlotInstanceStage {
    /// There is none.
    Absent,
    /// It was ordered and is not known to run.
    Starting,
    Running,
    /// It is told to stop.
    Stopping,
    /// It failed; the next one begins after a rest.
    Resting,
}

/// What became of an instance that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InstanceEnd {
    /// It was told to.
    Stopped,
    /// It was not.
    Failed,
}

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct SlotInstance {
    path: PathId,
    number: u16,
    /// Its place in the host's table.
    index: u32,
    generation: u32,
    pub(super) stage: SlotInstanceStage,
    pub(super) token: Token,
    since: Instant,
    failures: u32,
}

impl SlotInstance {
    pub(super) const fn new(path: PathId, number: u16, index: u32) -> Self {
        Self {
            path,
            number,
            index,
            generation: 0,
            stage: SlotInstanceStage::Absent,
            token: Token::NONE,
            since: Instant::ZERO,
            failures: 0,
        }
    }

    /// Whether nothing of it runs.
    pub(super) const fn is_absent(&self) -> bool {
        matches!(self.stage, SlotInstanceStage::Absent | SlotInstanceStage::Resting)
    }

    /// Whether it takes messages.
    pub(super) const fn takes_messages(&self) -> bool {
        matches!(
            self.stage,
            SlotInstanceStage::Starting | SlotInstanceStage::Running
        )
    }

    pub(super) const fn index(&self) -> u32 {
        self.index
    }

    pub(super) const fn slot(&self) -> Slot {
        Slot {
            index: self.index,
            generation: self.generation,
        }
    }

    /// Starts one, unless one runs. `state` is what an earlier one elsewhere left.
    pub(super) fn start(&mut self, cx: &mut Cx<'_>, token: Token, state: Option<Payload>) {
        if !self.is_absent() {
            return;
        }
        cx.cancel(Timer::Restart(self.path, self.number));
        self.generation = self.generation.wrapping_add(1);
        self.stage = SlotInstanceStage::Starting;
        self.token = token;
        self.since = cx.mono();
        cx.counters().instances_started += 1;
        let instance = HostedInstance::Path {
            path: self.path,
            slot: self.number,
            token,
            state,
        };
        let slot = self.slot();
        cx.order(HostOrder::Start { slot, instance });
        cx.notify((
            self.path,
            Event::Started {
                slot: self.number,
                token,
            },
        ));
    }

    /// It is to stop once it has handled what it has; `with_state`: and to say what it leaves. Says whether
    /// there was none to stop.
    pub(super) fn stop(&mut self, cx: &mut Cx<'_>, with_state: bool) -> bool {
        match self.stage {
            SlotInstanceStage::Absent | SlotInstanceStage::Resting => {
                cx.cancel(Timer::Restart(self.path, self.number));
                self.stage = SlotInstanceStage::Absent;
                return true;
            }
            SlotInstanceStage::Stopping => return false,
            SlotInstanceStage::Starting | SlotInstanceStage::Running => {}
        }
        self.stage = SlotInstanceStage::Stopping;
        let slot = self.slot();
        cx.order(if with_state {
            HostOrder::StopWithState { slot }
        } else {
            HostOrder::Stop { slot }
        });
        let at = cx.mono() + cx.config().paths.stop_timeout;
        cx.wake(Timer::StopLate(self.path, self.number), at);
        false
    }

    /// It is to stop at once.
    pub(super) fn kill(&mut self, cx: &mut Cx<'_>) {
        cx.cancel(Timer::StopLate(self.path, self.number));
        cx.cancel(Timer::Restart(self.path, self.number));
        match self.stage {
            SlotInstanceStage::Absent | SlotInstanceStage::Resting => self.stage = SlotInstanceStage::Absent,
            SlotInstanceStage::Starting | SlotInstanceStage::Running | SlotInstanceStage::Stopping => {
                self.stage = SlotInstanceStage::Stopping;
                cx.order(HostOrder::Kill { slot: self.slot() });
            }
        }
    }

    /// It has not stopped in time.
    pub(super) fn on_stop_late(&mut self, cx: &mut Cx<'_>) {
        if self.stage == SlotInstanceStage::Stopping {
            cx.counters().instances_killed += 1;
            cx.order(HostOrder::Kill { slot: self.slot() });
        }
    }

    /// It runs; says whether that is news.
    pub(super) fn on_running(&mut self, slot: Slot) -> bool {
        let is_news = self.stage == SlotInstanceStage::Starting && self.slot() == slot;
        if is_news {
            self.stage = SlotInstanceStage::Running;
        }
        is_news
    }

    /// It has ended; `None` if that was said of an earlier one.
    pub(super) fn on_stopped(&mut self, cx: &mut Cx<'_>, slot: Slot) -> Option<InstanceEnd> {
        if self.slot() != slot || self.is_absent() {
            return None;
        }
        let was_told = self.stage == SlotInstanceStage::Stopping;
        self.stage = SlotInstanceStage::Absent;
        cx.cancel(Timer::StopLate(self.path, self.number));
        cx.counters().instances_stopped += 1;
        Some(if was_told {
            let (slot, token) = (self.number, self.token);
            cx.notify((self.path, Event::Stopped { slot, token }));
            InstanceEnd::Stopped
        } else {
            cx.counters().instances_failed += 1;
            InstanceEnd::Failed
        })
    }

    /// After a failure the next one begins later: after twice the time of the last failure, unless this one
    /// ran for long.
    pub(super) fn rest(&mut self, cx: &mut Cx<'_>) {
        let config = &cx.config().paths;
        let (min, max): (Duration, Duration) = (config.restart_backoff_min, config.restart_backoff_max);
        if cx.mono().since(self.since) >= max {
            self.failures = 0;
        }
        // 2^20 times a microsecond is a second: beyond, the longest rest is reached by any setting.
        let restart_after = min.saturating_mul(1 << self.failures.min(20)).min(max);
        self.failures = self.failures.saturating_add(1);
        self.stage = SlotInstanceStage::Resting;
        cx.wake(Timer::Restart(self.path, self.number), cx.mono() + restart_after);
        let (slot, token) = (self.number, self.token);
        cx.notify((
            self.path,
            Event::Failed {
                slot,
                token,
                restart_after,
            },
        ));
    }
}
