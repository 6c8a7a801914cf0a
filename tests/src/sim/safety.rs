//! Whether the run so far is one in which the cluster promises a single owner for everything ("A-SAFE"):
//! clean partitions of a settled cluster, one fault at a time around them, and no live member declared dead.
//! Outside of it overlaps are counted, not asserted. Spec: reliability 2 (A-SAFE), membership 3.9.

use std::sync::Arc;

use quorate_core::ident::UniqueAddress;
use quorate_core::membership::member::Status;
use quorate_core::view::{MembershipPhase, View};

use super::engine::{Happening, Sim};
use super::history::ProcessId;
use super::process::Process;

/// A removed member that still runs this long before its margin is over (microseconds) is taken to outlive
/// it.
const MARGIN_SLACK: u64 = 1_000;

/// What holds so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Assumptions {
    /// Why the run left the safe shapes, and when (microseconds); `None` while it has not.
    pub broken: Option<(u64, &'static str)>,
    /// A partition has begun and the cluster has not settled since it was healed.
    pub(crate) unsettled_partition: bool,
    /// Overlaps of owners outside the safe shapes: counted, not asserted.
    pub overlaps: u64,
}

impl Assumptions {
    /// Whether single ownership must hold.
    #[must_use]
    pub const fn safe(&self) -> bool {
        self.broken.is_none()
    }

    pub(crate) fn breaks(&mut self, at: u64, why: &'static str) {
        self.broken.get_or_insert((at, why));
    }

    /// A fault that is harmless on its own.
    pub(crate) fn fault(&mut self, at: u64, why: &'static str) {
        if self.unsettled_partition {
            self.breaks(at, why);
        }
    }
}

impl Sim {
    /// A node that forms a cluster of its own while there is one takes the run out of the safe shapes: its
    /// seeds did not answer in time, which is documented to lead to this.
    pub(crate) fn watch_births(&mut self, before: &View, after: &View) {
        let born = before.members().is_empty() && after.members().len() == 1;
        let other = |host: &Process| host.runs() && host.me != *after.me();
        let member = |host: &Process| host.node.view().phase() == MembershipPhase::Member;
        if born && self.processes.iter().any(|host| other(host) && member(host)) {
            self.assumptions.breaks(self.now, "a second cluster was formed");
        } else if born {
            self.checks.i51.begins_anew();
        }
    }

    /// A live member that is connected and declared Down takes the run out of the safe shapes; so does one
    /// that was removed and outlives the margin.
    pub(crate) fn watch_removals(&mut self, before: &Arc<View>, after: &Arc<View>) {
        if !self.assumptions.safe() {
            return;
        }
        let is_liar = |node: &UniqueAddress| self.history.is_liar(node);
        let downed = after.members().iter().filter(|m| m.status == Status::Down);
        let downed: Vec<_> = downed.filter(|member| !is_liar(&member.node)).collect();
        for member in downed {
            let new = before
                .member(&member.node)
                .is_none_or(|m| m.status != Status::Down);
            if new && self.lives(&member.node).is_some() && !self.assumptions.unsettled_partition {
                self.assumptions
                    .breaks(self.now, "a live member was declared Down");
            }
        }
        if before.gossip().tombstones() == after.gossip().tombstones() {
            return;
        }
        let members = before.members().len().max(after.members().len());
        let margin = self.valid_config().removal_margin(members);
        let margin = u64::try_from(margin.as_micros()).unwrap_or(u64::MAX);
        for node in after.gossip().tombstones() {
            if let (Some(process), false) = (
                self.works(node),
                before.is_removed(node) || self.history.is_liar(node),
            ) {
                let nearly = self.now + margin.saturating_sub(MARGIN_SLACK);
                self.queue.push(nearly, Happening::Margin(process));
            }
        }
    }

    pub(crate) fn on_margin(&mut self, process: ProcessId) {
        if self.processes[process as usize].works() {
            self.assumptions
                .breaks(self.now, "a removed member outlived the margin");
        }
    }

    /// The process of an incarnation, if it runs, or has ended and left a handler behind that holds its
    /// thread.
    fn works(&self, node: &UniqueAddress) -> Option<ProcessId> {
        let process = self.history.process_of(node)?;
        self.processes[process as usize].works().then_some(process)
    }
}
