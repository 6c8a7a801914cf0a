//! A singleton's lease: asked for before an instance begins, asked for again while it is denied, given back
//! once nothing runs. Who keeps it is the host's. Spec: sharding 1.10, 1.16.

use alloc::format;

use super::SingletonManager;
use crate::lease::protocol::{LeaseName, LeaseOrder, LeaseOutcome};
use crate::singleton::Cx;
use crate::singleton::handover::{HandOverEvent as Happened, HandOverStage};
use crate::singleton::protocol::{Event, SingletonSettings, Timer};

/// The name of a singleton's lease.
pub(in crate::singleton) fn lease_name(cx: &Cx<'_>, settings: &SingletonSettings) -> LeaseName {
    LeaseName::from(format!("{}-singleton-{}", cx.config().cluster, settings.name))
}

impl SingletonManager {
    /// Whether this is its lease.
    pub(in crate::singleton) fn has_lease(&self, cx: &Cx<'_>, name: &LeaseName) -> bool {
        self.settings.lease && lease_name(cx, &self.settings) == *name
    }

    /// The keeper of the lease says something.
    pub(in crate::singleton) fn on_lease(&mut self, cx: &mut Cx<'_>, outcome: LeaseOutcome) {
        if self.halted {
            return;
        }
        match outcome {
            LeaseOutcome::Granted { .. } if self.wants_no_lease() => self.order_release(cx),
            LeaseOutcome::Granted { .. } => self.tell(cx, Happened::LeaseGranted),
            LeaseOutcome::Denied => self.tell(cx, Happened::LeaseDenied),
            LeaseOutcome::Lost => {
                cx.notify((self.id, Event::LeaseLost));
                self.tell(cx, Happened::LeaseLost);
                // Somebody else may have it by now: nothing of what waits is begun with.
                self.instance.kill_running(cx);
            }
            LeaseOutcome::Released => {
                if core::mem::take(&mut self.releasing) {
                    cx.cancel(Timer::Lease(self.id));
                }
            }
        }
    }

    /// The lease was not granted in time, or was denied a while ago; or nobody confirmed that it was given
    /// back.
    pub(in crate::singleton) fn on_lease_timer(&mut self, cx: &mut Cx<'_>) {
        if matches!(self.stage, HandOverStage::AcquiringLease { .. }) && self.instance.is_absent() {
            self.order_acquire(cx);
        } else if self.releasing {
            self.order_release(cx);
        }
    }

    /// It was granted to who does not want it any more.
    pub(super) const fn wants_no_lease(&self) -> bool {
        match self.stage {
            HandOverStage::Start
            | HandOverStage::Younger { .. }
            | HandOverStage::BecomingOldest { .. }
            | HandOverStage::End
            | HandOverStage::Stopped => true,
            HandOverStage::AcquiringLease { .. }
            | HandOverStage::Oldest { .. }
            | HandOverStage::WasOldest { .. }
            | HandOverStage::HandingOver { .. }
            | HandOverStage::Stopping
            | HandOverStage::Stuck => false,
        }
    }

    pub(super) fn order_acquire(&mut self, cx: &mut Cx<'_>) {
        self.releasing = false;
        cx.order_lease(LeaseOrder::Acquire {
            name: lease_name(cx, &self.settings),
            owner: cx.me().clone(),
            time_to_live: cx.config().singleton.lease_time_to_live,
        });
        let at = cx.mono() + cx.config().singleton.lease_retry_interval;
        cx.wake(Timer::Lease(self.id), at);
    }

    pub(super) fn order_release(&mut self, cx: &mut Cx<'_>) {
        self.releasing = true;
        cx.order_lease(LeaseOrder::Release {
            name: lease_name(cx, &self.settings),
            owner: cx.me().clone(),
        });
        if self.halted {
            // Nobody waits for a word about it.
            return;
        }
        let at = cx.mono() + cx.config().singleton.lease_retry_interval;
        cx.wake(Timer::Lease(self.id), at);
    }
}
