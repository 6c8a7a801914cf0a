//! A region that hosts no more although its node stays, because its user said so: its shards are moved, and
//! then it forwards messages as a proxy does. Ends nothing but shards: whoever is to hear of the end of the
//! node hears of that in `drain`. Spec: sharding 1.3 (graceful shutdown).

use alloc::vec::Vec;
use core::time::Duration;

use super::{RegionLifecycle, ShardRegion};
use crate::effect::{Answer, CommandError, ShardingAnswer, ShardingCommandError};
use crate::event::ShardingEvent;
use crate::ident::UniqueAddress;
use crate::input::Token;
use crate::ordered::OrderedSet;
use crate::reject::Rejection;
use crate::sharding::Cx;
use crate::sharding::pending_message::RegionContext;
use crate::sharding::protocol::RegionShutdown;
use crate::sharding::state::ids::ShardId;
use crate::timer::RegionTimer;

/// Callers that wait for one shutdown: a program has a few reasons to end a region, each with one caller.
const CALLERS_MAX: usize = 16;

/// How long killed entities may take to end before callers hear that they have not: one that only waits for
/// something ends in the next turn of its executor.
const KILL_PATIENCE: Duration = Duration::from_secs(1);

/// The range of a caller's time limit.
const TIMEOUT_MIN: Duration = Duration::from_millis(1);
const TIMEOUT_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// How far a shutdown is. Empty while nobody waits for one.
#[derive(Clone, Debug, Default)]
pub(super) struct RegionRetirement {
    callers: Vec<Token>,
    /// Shards that ran here when it began, and whose next home is not known here yet.
    homeless: OrderedSet<ShardId>,
    /// Its time was over before everything had stopped; what was left was killed.
    killed: bool,
}

impl RegionRetirement {
    /// Shards whose next home somebody waits for.
    pub(super) fn waits_for(&self) -> impl Iterator<Item = ShardId> {
        self.homeless.iter().copied()
    }

    /// A shard lives somewhere else.
    pub(super) fn has_home(&mut self, shard: ShardId) {
        self.homeless.remove(&shard);
    }

    /// Says what has become of everything.
    pub(super) fn answer(&mut self, cx: &mut Cx<'_>) {
        let outcome = if self.killed {
            RegionShutdown::Killed
        } else if self.homeless.is_empty() {
            RegionShutdown::HandedOver
        } else {
            let shards = self.homeless.len();
            RegionShutdown::WithoutHome { shards }
        };
        self.say(cx, outcome);
    }

    /// The node ends before.
    pub(super) fn give_up(&mut self, cx: &mut Cx<'_>) {
        for token in core::mem::take(self).callers {
            cx.reply(token, Answer::Refused(CommandError::Stopped));
        }
    }

    /// Something does not end although it was killed.
    fn say_late(&mut self, cx: &mut Cx<'_>) {
        self.say(cx, RegionShutdown::StillRuns);
        self.killed = true;
    }

    fn say(&mut self, cx: &mut Cx<'_>, outcome: RegionShutdown) {
        for token in core::mem::take(self).callers {
            let answer = ShardingAnswer::ShutDown(outcome);
            cx.reply(token, Answer::Sharding(answer));
        }
    }
}

impl ShardRegion {
    /// This node is to host nothing of the kind any more. `caller` hears when nothing of it runs here and
    /// every shard that did has a new home, or that this cannot be. A region that is being emptied already
    /// has one more who waits for that; of their times the shortest counts.
    pub(crate) fn retire(
        &mut self,
        shared: &mut RegionContext<'_, '_>,
        caller: Token,
        timeout: Option<Duration>,
    ) {
        if self.retirement.callers.len() >= CALLERS_MAX {
            let error = CommandError::Sharding(ShardingCommandError::ShutdownPending);
            return shared.cx.reply(caller, Answer::Refused(error));
        }
        if self.lifecycle == RegionLifecycle::Stopped {
            let stopped = Answer::Refused(CommandError::Stopped);
            return shared.cx.reply(caller, stopped);
        }
        self.retirement.callers.push(caller);
        let shutdown = &shared.cx.config().shutdown;
        let timeout = timeout.unwrap_or(shutdown.cluster_sharding_shutdown_region_timeout);
        let at = shared.cx.mono() + timeout.clamp(TIMEOUT_MIN, TIMEOUT_MAX);
        match self.lifecycle {
            RegionLifecycle::Retiring if self.retirement.killed => {
                if !self.is_set(shared.cx, RegionTimer::Drain) {
                    self.retirement.say_late(shared.cx);
                }
                return;
            }
            RegionLifecycle::Retiring | RegionLifecycle::Draining => return self.end_by(shared.cx, at),
            RegionLifecycle::Working | RegionLifecycle::Stopped => {}
        }
        if self.hosts {
            self.end_by(shared.cx, at);
            self.lifecycle = RegionLifecycle::Retiring;
            self.retirement.homeless = self.shards.hosted_ids().into_iter().collect();
            if self.hands_over(shared.cx) {
                self.request_shutdown(shared.cx);
                self.rearm_retry(shared.cx);
            } else {
                self.stop_all(shared);
            }
            self.try_finish(shared);
        } else {
            self.answer_if_moved(shared);
        }
    }

    /// This node may host again: `false` while it is being emptied.
    pub(crate) fn host_again(&mut self, shared: &mut RegionContext<'_, '_>) -> bool {
        match self.lifecycle {
            RegionLifecycle::Retiring => return false,
            RegionLifecycle::Working if self.kind.settings.hosts && !self.hosts => {}
            RegionLifecycle::Working | RegionLifecycle::Draining | RegionLifecycle::Stopped => return true,
        }
        self.end_retirement(shared.cx);
        self.hosts = true;
        self.say_what_it_is(shared.cx);
        true
    }

    /// Nothing runs here any more: from now on messages are forwarded only. The coordinator hears so until it
    /// says that it has heard; what it still believes to be here gets another home then.
    pub(super) fn become_proxy(&mut self, shared: &mut RegionContext<'_, '_>) {
        self.lifecycle = RegionLifecycle::Working;
        self.hosts = false;
        for timer in [RegionTimer::Idle, RegionTimer::Shrink] {
            self.cancel(shared.cx, timer);
        }
        self.notify(shared.cx, ShardingEvent::Drained);
        self.say_what_it_is(shared.cx);
        if self.retirement.killed {
            self.end_retirement(shared.cx);
        } else {
            self.answer_if_moved(shared);
        }
    }

    /// Answers whoever waits once every shard has a new home, or if none will get one.
    pub(super) fn answer_if_moved(&mut self, shared: &mut RegionContext<'_, '_>) {
        if self.lifecycle != RegionLifecycle::Working || self.retirement.callers.is_empty() {
            return;
        }
        let no_home = || {
            self.contact.nobody_hosts || self.contact.acceptance.is_refused() || !self.hands_over(shared.cx)
        };
        if self.retirement.homeless.is_empty() || no_home() {
            self.end_retirement(shared.cx);
        }
    }

    /// The time is over: what still runs is killed, and nobody waits for new homes any longer.
    pub(super) fn on_retirement_timeout(&mut self, shared: &mut RegionContext<'_, '_>) {
        if self.lifecycle == RegionLifecycle::Working {
            return self.end_retirement(shared.cx);
        }
        if core::mem::replace(&mut self.retirement.killed, true) {
            // It goes on being emptied, and nobody is kept for ever: a handler that blocks its thread cannot
            // be ended.
            return self.retirement.say_late(shared.cx);
        }
        self.wake(shared.cx, RegionTimer::Drain, KILL_PATIENCE);
        for shard in self.shards.hosted_ids() {
            self.forget_home(shared.cx, shard);
            self.hand_back_foreign(shared, shard);
            if let Some(here) = self.shards.hosted_mut(shard) {
                here.kill(shared.cx);
            }
            self.notify(shared.cx, ShardingEvent::ShardStopTimeout { shard });
        }
        self.end_all_stopped(shared);
        self.try_finish(shared);
    }

    /// A coordinator wants a shard here, and nothing is hosted here.
    pub(super) fn on_unwanted_shard(&mut self, shared: &mut RegionContext<'_, '_>, from: &UniqueAddress) {
        if self.kind.settings.hosts {
            return self.say_what_it_is(shared.cx);
        }
        let what = "shard for a proxy region";
        shared.cx.reject(from, Rejection::Unexpected { what });
    }

    fn end_retirement(&mut self, cx: &mut Cx<'_>) {
        self.cancel(cx, RegionTimer::Drain);
        self.retirement.answer(cx);
        self.rearm_retry(cx);
    }

    fn say_what_it_is(&mut self, cx: &mut Cx<'_>) {
        self.contact.registered = None;
        self.contact.retry_delay = Duration::ZERO;
        self.register(cx);
    }
}
