//! Messages of this node's callers on their way to the node: to entities and to singletons, with an answer or without. Decides nothing.
//! Spec: sharding 10.2.

use quorate_core::input::{Command, Input, ShardingCommand, SingletonCommand};
use quorate_core::sharding::ids::Payload;

use super::Pump;
use super::machine::Machine;
use super::replies::Waiting;
use crate::commands::UserCommand;
use crate::recipient::Recipient;

impl<M: Machine> Pump<M> {
    /// A message from one of this node's callers.
    pub(crate) fn user(&mut self, command: UserCommand) {
        let input = match command {
            UserCommand::Tell { to, payload } => self.tell(to, payload),
            UserCommand::TellInTime { to, payload, reply } => Input::Command {
                token: self.replies.insert(Waiting::Owner(reply)),
                command: match to {
                    Recipient::Entity(kind, entity) => Command::Sharding(ShardingCommand::Tell {
                        kind,
                        entity,
                        payload,
                    }),
                    Recipient::Singleton(singleton) => {
                        Command::Singleton(SingletonCommand::Tell { singleton, payload })
                    }
                },
            },
            UserCommand::Ask {
                to,
                payload,
                timeout,
                chain,
                reply,
            } => Input::Command {
                token: self.replies.insert(Waiting::Ask(reply)),
                command: match to {
                    Recipient::Entity(kind, entity) => Command::Sharding(ShardingCommand::Ask {
                        kind,
                        entity,
                        payload,
                        timeout,
                        chain,
                    }),
                    Recipient::Singleton(singleton) => Command::Singleton(SingletonCommand::Ask {
                        singleton,
                        payload,
                        timeout,
                        chain,
                    }),
                },
            },
        };
        self.linked.handle(input);
        self.drive_node();
    }

    fn tell(&mut self, to: Recipient, payload: Payload) -> Input<'static> {
        match to {
            Recipient::Entity(kind, entity) => Input::Tell {
                kind,
                entity,
                payload,
            },
            Recipient::Singleton(singleton) => Input::Command {
                token: self.replies.insert(Waiting::Told(singleton)),
                command: Command::Singleton(SingletonCommand::Tell { singleton, payload }),
            },
        }
    }

    /// Whether messages of this node's callers may come in now.
    pub(crate) fn takes_user_commands(&mut self) -> bool {
        !self.linked.links.slows_senders()
    }
}
