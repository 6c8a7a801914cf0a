//! Messages of this node's callers on their way to the node: with an answer or without. Decides nothing.
//! Spec: sharding 10.2.

use quorate_core::input::{Command, Input, MessageCommand};

use super::Pump;
use super::machine::Machine;
use super::replies::ReplyWaiter;
use crate::commands::UserCommand;

impl<M: Machine> Pump<M> {
    /// A message from one of this node's callers.
    pub(crate) fn user(&mut self, command: UserCommand) {
        let input = match command {
            UserCommand::Tell { to, payload } => Input::Tell { to, payload },
            UserCommand::TellInTime { to, payload, reply } => Input::Command {
                token: self.replies.insert(ReplyWaiter::Owner(reply)),
                command: Command::Message(MessageCommand::Tell { to, payload }),
            },
            UserCommand::Ask {
                to,
                payload,
                timeout,
                chain,
                reply,
            } => Input::Command {
                token: self.replies.insert(ReplyWaiter::Ask(reply)),
                command: Command::Message(MessageCommand::Ask {
                    to,
                    payload,
                    timeout,
                    chain,
                }),
            },
        };
        self.linked.handle(input);
        self.drive_node();
    }

    /// Whether no caller of this node waits for an answer.
    pub(crate) const fn has_no_asks(&self) -> bool {
        self.replies.has_no_asks()
    }

    /// Somebody waits for an answer that never comes.
    #[cfg(test)]
    pub(crate) fn opens_an_ask(&mut self) {
        let (reply, _) = crate::sync::oneshot();
        self.replies.insert(ReplyWaiter::Ask(reply));
    }

    /// Whether messages of this node's callers may come in now.
    pub(crate) fn takes_user_commands(&mut self) -> bool {
        !self.linked.links.slows_senders()
    }
}
