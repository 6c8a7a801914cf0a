//! How the node's part of a host ends: what is said to callers, in which order things are let go. Decides nothing else.
//! Spec: I-44, sharding 3.

use std::collections::VecDeque;

use quorate_core::input::EntityReport;

use super::Pump;
use super::machine::Machine;

impl<M: Machine> Pump<M> {
    /// Ends everything without a word to other nodes: for a host that goes away. Whoever asked hears how far that has come.
    pub(crate) fn stop(&mut self) {
        if self.halted.is_none() {
            self.links.return_waiting_asks();
            // Ends: what comes back is given to callers, and no ask is sent again.
            while self.links.has_events() || !self.base.feedback.is_empty() {
                self.drive_node();
            }
            self.node.stop(self.base.now);
            self.drive_node();
        }
        self.links.stop();
        self.entities.kill_all();
        self.leases.stop();
        self.stores.stop();
        self.replies.clear();
    }

    /// Whether all entities have ended.
    pub(crate) fn forget_ended_entities(&mut self) -> bool {
        let mut later = VecDeque::new();
        self.entities.take_reports(&mut later);
        for report in self.reports.drain(..).chain(later) {
            if let EntityReport::Stopped { slot } = report {
                self.entities.stopped(slot);
            }
        }
        self.entities.live() == 0
    }
}
