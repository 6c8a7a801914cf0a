//! The shards on this node: starting them when the coordinator says so, stopping them when it wants them
//! elsewhere. A shard is reported stopped only after its last entity is. Spec: sharding 1.2, 1.3, 1.4
//! (hand-off).

use core::time::Duration;

use super::{RegionLifecycle, ShardRegion};
use crate::effect::PlacementToken;
use crate::event::ShardingEvent;
use crate::ident::UniqueAddress;
use crate::message::ShardingBody;
use crate::sharding::Cx;
use crate::sharding::pending_message::RegionContext;
use crate::sharding::shard::{AfterStop, Shard, ShardLifecycle, ShardStop};
use crate::sharding::state::ids::{EntityId, ShardId, Term};
use crate::timer::RegionTimer;
use crate::token::Token;

/// How much sooner than a hand-off would be given up a shard that stops for another reason is stopped by
/// force.
const STOP_SLACK: Duration = Duration::from_secs(5);

/// Entities that an event names: enough to see what they have in common.
const NAMES_MAX: usize = 16;

impl ShardRegion {
    /// The coordinator wants a shard here.
    pub(crate) fn on_host_shard(
        &mut self,
        shared: &mut RegionContext<'_, '_>,
        from: &UniqueAddress,
        term: Term,
        (shard, token): (ShardId, Token),
    ) {
        if !self.accept_for(shared, from, &term, shard)
            || !self.take_token(shared.cx, from, &term, (shard, token))
        {
            return;
        }
        if self.host(shared, from, &term, shard) {
            self.say(shared.cx, from, ShardingBody::ShardStarted { term, shard });
        }
        self.flush(shared);
    }

    /// The coordinator wants a shard to stop here. What others sent here since the hand-off began is given
    /// back to them, before they hear of the new home; what this node's users sent goes on waiting.
    pub(crate) fn on_hand_off(
        &mut self,
        shared: &mut RegionContext<'_, '_>,
        from: &UniqueAddress,
        term: Term,
        (shard, by_force): (ShardId, bool),
    ) {
        if !self.accept_for(shared, from, &term, shard) {
            return;
        }
        self.forget_home(shared.cx, shard);
        self.shards.take_wanted(shard);
        self.shards.forget_token(shard);
        self.hand_back_foreign(shared, shard);
        if self.shards.hosted(shard).is_none() {
            return self.say(shared.cx, from, ShardingBody::ShardStopped { term, shard });
        }
        self.stop_shard(shared, shard, ShardStop::for_hand_off(term.clone()));
        if let Some(here) = self.shards.hosted_mut(shard)
            && here.stops_for(&term, by_force)
        {
            self.limit_stop(shared, shard);
        }
    }

    /// An entity of this kind runs no more: because it was told to, or by itself.
    pub(crate) fn on_entity_stopped(
        &mut self,
        shared: &mut RegionContext<'_, '_>,
        shard: ShardId,
        entity: &EntityId,
    ) {
        let after = match self.shards.hosted_mut(shard) {
            Some(here) => here.on_stopped(shared.cx, entity),
            None => AfterStop::Gone,
        };
        self.resume(shard, entity);
        match after {
            AfterStop::Gone => {}
            AfterStop::Restarts => self.restart_later(shared, shard, entity),
        }
        self.tend(shared, shard);
        self.end_if_stopped(shared, shard);
        self.flush(shared);
    }

    /// Takes a shard in; `false` if it does not run here (yet).
    pub(super) fn host(
        &mut self,
        shared: &mut RegionContext<'_, '_>,
        from: &UniqueAddress,
        term: &Term,
        shard: ShardId,
    ) -> bool {
        if !self.hosts {
            self.on_unwanted_shard(shared, from);
            return false;
        }
        let takes = match self.lifecycle {
            RegionLifecycle::Working => true,
            // Its hand-off was cancelled: it goes on here until there is another one.
            RegionLifecycle::Retiring | RegionLifecycle::Draining => self.goes_on(shared.cx, shard),
            RegionLifecycle::Stopped => false,
        };
        if !takes || self.contact.acceptance.is_refused() {
            self.request_shutdown(shared.cx);
            return false;
        }
        let me = shared.cx.me().clone();
        let token = self.placement(shard);
        if self.is_reopened(shard, token) {
            // What runs writes with an earlier token, and would be refused.
            self.set_home(shared.cx, shard, me);
            self.stop_shard(shared, shard, ShardStop::to_begin_again(term.clone()));
            return false;
        }
        match self.shards.hosted_mut(shard).map(|here| &mut here.lifecycle) {
            Some(ShardLifecycle::Loading | ShardLifecycle::Running | ShardLifecycle::Failed) => {}
            None | Some(ShardLifecycle::Stopping(_)) if self.paused => {
                self.shards.want(shard, term.clone());
                return false;
            }
            Some(ShardLifecycle::Stopping(stop)) => {
                stop.again = Some(term.clone());
                if !self.take_back(shared, shard) {
                    self.set_home(shared.cx, shard, me);
                    return false;
                }
            }
            None => self.begin_shard(shared, term.clone(), shard, token),
        }
        self.set_home(shared.cx, shard, me);
        self.sought.remove(&shard);
        if self.buffers.has(shard) {
            self.flushing.insert(shard);
        }
        true
    }

    fn begin_shard(
        &mut self,
        shared: &mut RegionContext<'_, '_>,
        term: Term,
        shard: ShardId,
        token: PlacementToken,
    ) {
        let remembered = self.remembered(shard);
        let mut here = Shard::new(shard, &self.passivating.settings, remembered);
        here.token = token;
        if self.kind.settings.lease {
            here.lifecycle = ShardLifecycle::Loading;
        }
        self.shards.begin(shard, here);
        shared.cx.counters().shards_started += 1;
        self.notify(shared.cx, ShardingEvent::ShardStarted { shard, term });
        self.share_entity_limit(shared, Some(shard));
        self.watch_idle(shared);
        self.load(shared, shard);
    }

    /// Whether a region that is being emptied may still be told to go on with a shard: it runs, or stops for
    /// a hand-off that may be cancelled, while there is somebody to hand it to.
    fn goes_on(&self, cx: &Cx<'_>, shard: ShardId) -> bool {
        self.shards.hosted(shard).is_some_and(|here| {
            !here.is_stopping() || (here.stops_for_hand_off() && !self.hurries && self.hands_over(cx))
        })
    }

    /// The hand-off of a shard that stops was cancelled: it is served again, although some of its entities
    /// may not have stopped. `false` if only its next incarnation can.
    fn take_back(&mut self, shared: &mut RegionContext<'_, '_>, shard: ShardId) -> bool {
        let token = self.placement(shard);
        let Some(here) = self.shards.hosted_mut(shard) else {
            return false;
        };
        // What runs with an earlier token may write nothing any more.
        if here.token != token || !here.take_back() {
            return false;
        }
        let running = here.told_to_stop().take(NAMES_MAX).cloned().collect();
        let more = here.told_to_stop().skip(NAMES_MAX).count();
        let event = ShardingEvent::HandOffCancelled { shard, running, more };
        let unstarted = here.unstarted();
        self.cancel(shared.cx, RegionTimer::ShardStop(shard));
        self.notify(shared.cx, event);
        self.recover(shared, shard, unstarted);
        true
    }

    /// Asks a running shard's entities to stop. Has them killed if that takes too long, unless it is for a
    /// hand-off: then it is the coordinator who gives up. When it has stopped, whoever coordinates is told,
    /// or wants the shard here again.
    pub(super) fn stop_shard(&mut self, shared: &mut RegionContext<'_, '_>, shard: ShardId, stop: ShardStop) {
        let Some(here) = self.shards.hosted_mut(shard).filter(|here| !here.is_stopping()) else {
            return;
        };
        here.stop(shared.cx, stop);
        let has_stopped = here.has_stopped();
        self.buffers.gather(shard);
        self.remembering.forget(shard);
        self.tend(shared, shard);
        if !has_stopped {
            self.limit_stop(shared, shard);
        }
        self.end_if_stopped(shared, shard);
    }

    /// Looks again at a shard whose entities take too long to stop.
    pub(super) fn limit_stop(&self, shared: &mut RegionContext<'_, '_>, shard: ShardId) {
        let whole = self.kind.config.handoff_timeout;
        let waits = self.shards.hosted(shard).is_some_and(Shard::stops_for_hand_off);
        let limit = if waits {
            // The coordinator's limit began before.
            whole
        } else {
            whole.saturating_sub(STOP_SLACK).max(whole / 2)
        };
        self.wake(shared.cx, RegionTimer::ShardStop(shard), limit);
    }

    /// Asks everything that runs here to stop, for nobody in particular.
    pub(super) fn stop_all(&mut self, shared: &mut RegionContext<'_, '_>) {
        for shard in self.shards.hosted_ids() {
            self.forget_home(shared.cx, shard);
            self.hand_back_foreign(shared, shard);
            self.stop_shard(shared, shard, ShardStop::default());
        }
    }

    /// Ends every shard that has stopped.
    pub(super) fn end_all_stopped(&mut self, shared: &mut RegionContext<'_, '_>) {
        for shard in self.shards.hosted_ids() {
            self.end_if_stopped(shared, shard);
        }
    }

    /// Entities did not stop in time. In a hand-off nothing is killed (10.14 g): whoever coordinates is asked
    /// where the shard lives, and if it says here, because the hand-off was cancelled or was an earlier
    /// coordinator's, the shard goes on.
    pub(super) fn on_stop_timeout(&mut self, shared: &mut RegionContext<'_, '_>, shard: ShardId) {
        let Some(here) = self.shards.hosted_mut(shard).filter(|here| !here.is_running()) else {
            return;
        };
        if here.stops_for_hand_off() {
            self.ask_home(shared.cx, shard);
            let again = self.kind.config.retry_interval;
            return self.wake(shared.cx, RegionTimer::ShardStop(shard), again);
        }
        here.kill_entities(shared.cx);
        self.notify(shared.cx, ShardingEvent::ShardStopTimeout { shard });
    }

    /// Ends a shard that has stopped: tells who waits for it, and starts its next incarnation if one is
    /// wanted.
    pub(super) fn end_if_stopped(&mut self, shared: &mut RegionContext<'_, '_>, shard: ShardId) {
        if !self.shards.hosted(shard).is_some_and(Shard::has_stopped) {
            return;
        }
        let Some(mut gone) = self.shards.end(shard) else {
            return;
        };
        gone.give_up_store(shared.cx);
        if self.lives_here(shared.cx, shard) {
            self.forget_home(shared.cx, shard);
        }
        self.cancel_timers_of(shared, shard);
        self.remembering.starts.take_all(shard);
        shared.cx.counters().shards_stopped += 1;
        self.ended.insert(shard);
        self.notify(shared.cx, ShardingEvent::ShardStopped { shard });
        self.share_entity_limit(shared, None);
        let stop = match gone.lifecycle {
            ShardLifecycle::Stopping(stop) => stop,
            ShardLifecycle::Loading | ShardLifecycle::Running | ShardLifecycle::Failed => {
                ShardStop::default()
            }
        };
        if let Some(term) = stop.again {
            self.shards.entry(shard).token.get_or_insert(gone.token.token);
            let from = term.node.clone();
            if self.host(shared, &from, &term, shard) {
                self.say(shared.cx, &from, ShardingBody::ShardStarted { term, shard });
            }
        } else {
            self.give_back_lease(shared.cx, shard);
            self.shards.forget_token(shard);
            if let Some(term) = stop.tell {
                let to = term.node.clone();
                self.say(shared.cx, &to, ShardingBody::ShardStopped { term, shard });
            }
        }
        if self.buffers.has(shard) && !self.shards.has_home(shard) {
            self.ask_home(shared.cx, shard);
        }
        if self.contact.acceptance.is_refused() && self.shards.hosted_len() == 0 {
            self.register(shared.cx);
        }
        self.try_finish(shared);
    }
}
