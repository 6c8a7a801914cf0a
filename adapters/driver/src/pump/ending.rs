//! How the node's part of a host ends: what is said to callers, in which order things are let go. Decides
//! nothing else. Spec: I-44, sharding 3.

use quorate_core::input::{Command, HostReport, Input, MembershipCommand};

use super::Pump;
use super::machine::Machine;
use crate::commands::ControlCommand;
use crate::sync;

impl<M: Machine> Pump<M> {
    /// The node's end is a part of its application's (`shutdown`): from now on the node waits for the phases.
    pub(crate) fn with_paced_exit(mut self) -> Self {
        let (reply, _) = sync::oneshot();
        let command = Command::Membership(MembershipCommand::PaceExit);
        self.control(ControlCommand::Core { command, reply });
        self
    }

    /// Ends everything without a word to other nodes: for a host that goes away. The asker gets how far that
    /// has come.
    pub(crate) fn stop(&mut self) {
        if self.halted.is_none() {
            self.linked.node.stop(self.base.now);
            self.linked.take_back_unsent();
            self.take_back();
            self.drive_node();
        }
        self.linked.links.stop();
        self.hosted.kill_all();
        self.stores.stop();
        self.load.sampler.stop();
        self.load.ask_at = None;
        self.replies.clear();
    }

    /// The node has ended and says next how far each ask has come. It has heard which of them no writer has,
    /// and hears before which ones their entities have not begun with, and which ones are answered.
    pub(super) fn take_back(&mut self) {
        let left = self.hosted.kill_all();
        let mut said = self.hosted.all_reports();
        for feedback in self.base.feedback.drain(..) {
            // Nobody is there any more for whom the node asked for anything else.
            if let Input::Host(owner, report) = feedback {
                said.push((owner, report));
            }
        }
        for (owner, report) in said.into_iter().chain(left) {
            self.linked.handle(Input::Host(owner, report));
        }
    }

    /// Whether all entities have ended, and all instances of singletons. The node hears of each end, and
    /// gives the leases back that nothing needs any more; until then they are renewed.
    pub(crate) fn forget_ended_entities(&mut self) -> bool {
        for (owner, report) in self.hosted.all_reports() {
            if matches!(report, HostReport::Stopped { .. }) {
                self.linked.handle(Input::Host(owner, report));
            }
        }
        self.drive_node();
        let have_ended = self.hosted.live() == 0;
        if have_ended {
            self.leases.stop();
        }
        have_ended
    }
}
