//! Logs that several stores keep, between their owners and the node. Decides nothing.

use quorate_core::input::Command;

use super::Pump;
use super::machine::Machine;
use super::replies::ReplyWaiter;
use crate::commands::LogCommand;

impl<M: Machine> Pump<M> {
    /// Something for a log.
    pub(crate) fn journal(&mut self, LogCommand { command, reply }: LogCommand) {
        let token = self.replies.insert(ReplyWaiter::Owner(reply));
        self.hand_in(token, Command::Journal(command));
    }
}
