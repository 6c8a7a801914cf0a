//! Leases of shards, of a kind that wants them: no entity of a shard starts before its lease is granted, a
//! lost one stops all of them at once, and it is given back when the shard has stopped. Who keeps leases is
//! the host's. Spec: sharding 1.4 (AwaitingLease), 1.16.

use alloc::format;
use alloc::vec::Vec;

use super::ShardRegion;
use crate::event::ShardingEvent;
use crate::lease::protocol::{LeaseName, LeaseOrder, LeaseOutcome};
use crate::sharding::Cx;
use crate::sharding::pending_message::RegionContext;
use crate::sharding::shard::{Shard, ShardLifecycle, ShardStop};
use crate::sharding::state::ids::ShardId;
use crate::timer::RegionTimer;

/// What is known of a shard's lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ShardLease {
    /// It was asked for; nobody has said that this node has it.
    Asked,
    /// This node has it.
    Held,
    /// It was given back; nobody has confirmed that.
    Releasing,
}

/// The name of a shard's lease.
fn lease_name(cx: &Cx<'_>, kind: &str, shard: ShardId) -> LeaseName {
    LeaseName::from(format!("{}-shard-{kind}-{}", cx.config().cluster, shard.0))
}

/// The kind and the shard of a lease with this name, if it is a shard's.
pub(in crate::sharding) fn leased<'n>(cx: &Cx<'_>, name: &'n str) -> Option<(&'n str, ShardId)> {
    let name = name.strip_prefix(cx.config().cluster.as_str())?;
    let (kind, shard) = name.strip_prefix("-shard-")?.rsplit_once('-')?;
    Some((kind, ShardId(shard.parse().ok()?)))
}

impl ShardRegion {
    /// Whether a shard has to wait before anything of it begins. It is asked for once it does.
    pub(super) fn awaits_lease(&mut self, cx: &mut Cx<'_>, shard: ShardId) -> bool {
        if !self.kind.settings.lease {
            return false;
        }
        match self.lease(shard) {
            Some(ShardLease::Held) => return false,
            Some(ShardLease::Asked) => return true,
            Some(ShardLease::Releasing) | None => {}
        }
        self.order_acquire(cx, shard);
        true
    }

    /// The keeper of a shard's lease says something.
    pub(crate) fn on_lease(
        &mut self,
        shared: &mut RegionContext<'_, '_>,
        shard: ShardId,
        outcome: LeaseOutcome,
    ) {
        match outcome {
            LeaseOutcome::Granted { .. } => {
                let Some(here) = self.shards.hosted(shard) else {
                    return self.order_release(shared.cx, shard);
                };
                // Of one that stops this answers an earlier question. Something may run still: it is given
                // back when the shard has stopped.
                let is_stopping = here.is_stopping();
                let before = self.shards.entry(shard).lease.replace(ShardLease::Held);
                if is_stopping || before != Some(ShardLease::Held) {
                    self.cancel(shared.cx, RegionTimer::Lease(shard));
                }
                if !is_stopping && before != Some(ShardLease::Held) {
                    self.load(shared, shard);
                    self.flush(shared);
                }
            }
            // It is asked for again.
            LeaseOutcome::Denied => {}
            LeaseOutcome::Lost => self.lose_lease(shared, shard),
            LeaseOutcome::Released => {
                if self.lease(shard) == Some(ShardLease::Releasing) {
                    self.shards.entry(shard).lease = None;
                    self.cancel(shared.cx, RegionTimer::Lease(shard));
                }
            }
        }
    }

    /// A lease was not granted for a while, or nobody confirmed that it was given back.
    pub(super) fn on_lease_timer(&mut self, cx: &mut Cx<'_>, shard: ShardId) {
        match self.lease(shard) {
            Some(ShardLease::Asked) => self.order_acquire(cx, shard),
            Some(ShardLease::Releasing) => self.order_release(cx, shard),
            Some(ShardLease::Held) | None => {}
        }
    }

    /// A shard has ended here, and does not begin again.
    pub(super) fn give_back_lease(&mut self, cx: &mut Cx<'_>, shard: ShardId) {
        match self.lease(shard) {
            Some(ShardLease::Asked | ShardLease::Held) => self.order_release(cx, shard),
            Some(ShardLease::Releasing) | None => {}
        }
    }

    /// Somebody else may have it by now: what runs is stopped at once, and begins again when the lease is
    /// granted once more.
    fn lose_lease(&mut self, shared: &mut RegionContext<'_, '_>, shard: ShardId) {
        match self.lease(shard) {
            Some(ShardLease::Held) => {}
            Some(ShardLease::Asked | ShardLease::Releasing) | None => return,
        }
        self.shards.entry(shard).lease = None;
        shared.cx.counters().shard_leases_lost += 1;
        self.notify(shared.cx, ShardingEvent::ShardLeaseLost { shard });
        let Some(here) = self.shards.hosted_mut(shard) else {
            return;
        };
        if !here.is_stopping() {
            here.lifecycle = ShardLifecycle::Stopping(ShardStop::by_force(self.contact.seen.clone()));
            self.buffers.gather(shard);
            self.remembering.forget(shard);
        }
        here.kill_entities(shared.cx);
        self.end_if_stopped(shared, shard);
        self.flush(shared);
    }

    fn order_acquire(&mut self, cx: &mut Cx<'_>, shard: ShardId) {
        self.shards.entry(shard).lease = Some(ShardLease::Asked);
        cx.order_lease(LeaseOrder::Acquire {
            name: lease_name(cx, &self.kind.settings.name, shard),
            owner: cx.me().clone(),
            time_to_live: self.kind.config.lease_time_to_live,
        });
        let after = self.kind.config.lease_retry_interval;
        self.wake(cx, RegionTimer::Lease(shard), after);
    }

    fn order_release(&mut self, cx: &mut Cx<'_>, shard: ShardId) {
        self.shards.entry(shard).lease = Some(ShardLease::Releasing);
        cx.order_lease(LeaseOrder::Release {
            name: lease_name(cx, &self.kind.settings.name, shard),
            owner: cx.me().clone(),
        });
        let after = self.kind.config.lease_retry_interval;
        self.wake(cx, RegionTimer::Lease(shard), after);
    }

    /// This node is finished: what was asked for is given back, at once where nothing runs and otherwise with
    /// the end of the last entity, and nobody waits for a word about it.
    pub(super) fn give_back_leases(&mut self, cx: &mut Cx<'_>) {
        let leased = self.shards.iter().filter(|(_, entry)| entry.lease.is_some());
        for shard in leased.map(|(shard, _)| shard).collect::<Vec<_>>() {
            self.cancel(cx, RegionTimer::Lease(shard));
            if self.shards.hosted(shard).is_none_or(Shard::runs_nothing) {
                self.give_back_lease(cx, shard);
                self.cancel(cx, RegionTimer::Lease(shard));
            }
        }
    }

    fn lease(&self, shard: ShardId) -> Option<ShardLease> {
        self.shards.known(shard)?.lease
    }
}
