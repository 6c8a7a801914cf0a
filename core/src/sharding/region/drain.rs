//! How a region ends: in good order, by having its shards moved first, or at once when the node is lost.
//! Spec: sharding 1.3 (graceful shutdown).

use core::time::Duration;

use super::{RegionLifecycle, ShardRegion, timers_of};
use crate::event::ShardingEvent;
use crate::ident::UniqueAddress;
use crate::membership::state::member::Status;
use crate::message::ShardingBody;
use crate::sharding::Cx;
use crate::sharding::pending_message::RegionContext;
use crate::sharding::shard::Shard;
use crate::sharding::state::errors::AskFailure;
use crate::time::Instant;
use crate::timer::RegionTimer;

/// What is kept of the exit's time limit for the entities' last reports.
const DRAIN_SLACK: Duration = Duration::from_secs(1);

impl ShardRegion {
    /// This node leaves: hand everything over.
    pub(crate) fn drain(&mut self, shared: &mut RegionContext<'_, '_>) {
        match self.lifecycle {
            RegionLifecycle::Working | RegionLifecycle::Retiring => {}
            RegionLifecycle::Draining | RegionLifecycle::Stopped => return,
        }
        self.lifecycle = RegionLifecycle::Draining;
        let limit = shared
            .cx
            .config()
            .shutdown
            .cluster_sharding_shutdown_region_timeout;
        let at = shared.cx.mono() + limit.saturating_sub(DRAIN_SLACK).max(limit / 2);
        self.end_by(shared.cx, at);
        if self.hands_over(shared.cx) {
            self.request_shutdown(shared.cx);
            self.rearm_retry(shared.cx);
        } else {
            self.hurries = true;
            self.give_up_all(shared);
            self.stop_all(shared);
        }
        self.try_finish(shared);
    }

    /// Whether nothing runs and nothing waits here any more.
    pub(crate) fn is_drained(&self) -> bool {
        self.lifecycle == RegionLifecycle::Stopped && self.runs_nothing()
    }

    /// Its time is over then, or before if that was said before.
    pub(super) fn end_by(&self, cx: &mut Cx<'_>, at: Instant) {
        let timer = self.timer(RegionTimer::Drain);
        let at = cx.due(timer.clone()).map_or(at, |due| due.min(at));
        cx.wake(timer, at);
    }

    /// This node is lost, or halts: everything stops at once. Nothing is sent, nobody would listen.
    pub(crate) fn halt(&mut self, shared: &mut RegionContext<'_, '_>) {
        self.lifecycle = RegionLifecycle::Stopped;
        self.contact.registered = None;
        self.shards.forget_placements();
        self.order.forget_all();
        self.remembering.forget_moves();
        self.fail_all(shared, AskFailure::NodeStoppedUnsent);
        self.retirement.give_up(shared.cx);
        for id in self.shards.hosted_ids() {
            if let Some(here) = self.shards.hosted_mut(id) {
                here.stop_for_good(shared.cx);
            }
            for timer in timers_of(id) {
                self.cancel(shared.cx, timer);
            }
        }
        for timer in [
            RegionTimer::Retry,
            RegionTimer::Flush,
            RegionTimer::Drain,
            RegionTimer::Idle,
            RegionTimer::Shrink,
            RegionTimer::Recover,
            RegionTimer::Marks,
            RegionTimer::Look,
            RegionTimer::Moves,
        ] {
            self.cancel(shared.cx, timer);
        }
        for id in self.shards.hosted_ids() {
            if self.shards.hosted(id).is_some_and(Shard::has_stopped) {
                self.shards.end(id);
            }
        }
        self.give_back_leases(shared.cx);
    }

    /// Says that this region wants to be emptied, to everybody who coordinates or soon will.
    pub(super) fn request_shutdown(&self, cx: &mut Cx<'_>) {
        self.tell_candidates(cx, &ShardingBody::GracefulShutdownReq);
    }

    /// The time for handing over is up: what is left is stopped here.
    pub(super) fn on_drain_timeout(&mut self, shared: &mut RegionContext<'_, '_>) {
        match self.lifecycle {
            RegionLifecycle::Draining => {}
            RegionLifecycle::Working | RegionLifecycle::Retiring => {
                return self.on_retirement_timeout(shared);
            }
            RegionLifecycle::Stopped => return,
        }
        self.hurries = true;
        self.give_up_all(shared);
        for id in self.shards.hosted_ids() {
            let (home, here) = self.shards.entry(id).parts();
            // Nothing of this node's is sent to itself, so there is nothing to acknowledge.
            if let Some(node) = home.node().cloned() {
                home.lose(&node);
            }
            if let Some(here) = here {
                here.kill(shared.cx);
            }
            self.notify(shared.cx, ShardingEvent::ShardStopTimeout { shard: id });
        }
        self.end_all_stopped(shared);
        self.try_finish(shared);
    }

    /// Ends a draining region that hosts nothing and buffers nothing, and to which nothing that it sent can
    /// come back; makes a proxy of a retiring one that hosts nothing.
    pub(super) fn try_finish(&mut self, shared: &mut RegionContext<'_, '_>) {
        if !self.runs_nothing() {
            return;
        }
        match self.lifecycle {
            RegionLifecycle::Retiring => return self.become_proxy(shared),
            RegionLifecycle::Draining if self.buffers.is_empty() => {}
            RegionLifecycle::Draining | RegionLifecycle::Working | RegionLifecycle::Stopped => return,
        }
        if !self.hurries && !self.is_acknowledged(shared.cx) {
            return;
        }
        self.lifecycle = RegionLifecycle::Stopped;
        let cx = &mut *shared.cx;
        self.tell_candidates(cx, &ShardingBody::RegionStopped);
        self.contact.registered = None;
        for timer in [
            RegionTimer::Retry,
            RegionTimer::Drain,
            RegionTimer::Idle,
            RegionTimer::Shrink,
            RegionTimer::Recover,
            RegionTimer::Marks,
            RegionTimer::Look,
        ] {
            self.cancel(cx, timer);
        }
        self.notify(cx, ShardingEvent::Drained);
        self.retirement.answer(cx);
    }

    fn tell_candidates(&self, cx: &mut Cx<'_>, body: &ShardingBody) {
        let view = alloc::sync::Arc::clone(cx.view());
        for candidate in self.kind.coordinator_candidates(&view) {
            self.say(cx, &candidate, body.clone());
        }
    }

    /// The cluster prepares to stop: a region that waits for its shards to be moved waits no longer, they
    /// stop here.
    pub(super) fn on_cluster_ends(&mut self, shared: &mut RegionContext<'_, '_>) {
        match self.lifecycle {
            RegionLifecycle::Draining => {
                self.hurries = true;
                self.give_up_all(shared);
            }
            RegionLifecycle::Retiring => {}
            RegionLifecycle::Working | RegionLifecycle::Stopped => return,
        }
        self.stop_all(shared);
        self.try_finish(shared);
    }

    /// Whether this region's shards are to go on elsewhere: somebody stays, and the cluster does not prepare
    /// to stop (10.12).
    pub(super) fn hands_over(&self, cx: &Cx<'_>) -> bool {
        if cx.view().is_shutting_down() {
            return false;
        }
        let other = |node: &UniqueAddress| node != cx.me();
        let members = cx.view().by_age(self.kind.settings.role.as_ref());
        members
            .iter()
            .any(|member| member.status == Status::Up && other(&member.node))
    }
}
