//! What is kept outside the node's memory: leases and the store. Orders go to their threads, answers come
//! back as inputs; nothing here waits and nothing is decided. Spec: reliability I-26, I-83.

use quorate_core::input::Input;
use quorate_core::owner::Requester;
use quorate_core::store::{StoreError, StoreReport};

use super::Pump;
use super::limits::STORED_PER_TURN;
use super::machine::Machine;
use crate::lease::Leases;
use crate::store::Stores;

impl<M: Machine> Pump<M> {
    /// The same pump with somebody to ask for leases.
    pub(crate) fn with_leases(mut self, leases: Leases) -> Self {
        self.leases = leases;
        self
    }

    /// The same pump with a store.
    pub(crate) fn with_stores(mut self, stores: Stores) -> Self {
        self.stores = stores;
        self
    }

    /// Hands what the lease keeper said to the node: as many reports as there were orders, and losses.
    pub(crate) fn take_leases(&mut self) {
        while let Some((owner, report)) = self.leases.next_report() {
            self.linked.handle(Input::Lease(owner, report));
            self.drive_node();
        }
    }

    /// Hands what the store said to the node, at most a batch per turn.
    pub(crate) fn take_stored(&mut self) {
        for _ in 0..STORED_PER_TURN {
            let Some((owner, report)) = self.stores.next_report() else {
                return;
            };
            self.linked.handle(Input::Stored(owner, report));
            self.drive_node();
        }
    }

    /// An order that the store did not take, if it did not: its owner hears why.
    pub(super) fn not_stored(&mut self, answer: Option<(Requester, StoreReport)>) {
        let Some((owner, report)) = answer else {
            return;
        };
        if report.outcome == Err(StoreError::Busy) {
            self.base.stats.store_orders_turned_away += 1;
        }
        self.base.feedback.push_back(Input::Stored(owner, report));
    }

    /// Whether the store was closed, leases were given back and nothing is measured any more, after
    /// [`Self::stop`].
    pub(crate) fn has_let_go(&self) -> bool {
        self.stores.has_ended() && self.leases.has_ended() && self.load.sampler.has_ended()
    }
}
