//! Replicated data and the keyed store between callers and the node: hands operations in, and changes out to
//! who listens. Decides nothing.

use std::sync::Arc;

use quorate_core::input::{Command, DdataCommand, Input, KvCommand, ShardingCommand, Token};

use super::Pump;
use super::machine::Machine;
use super::replies::ReplyWaiter;
use crate::commands::DataCommand;

impl<M: Machine> Pump<M> {
    /// Something for the replicator or the keyed store, or about watches.
    pub(crate) fn data(&mut self, command: DataCommand) {
        let (token, command) = match command {
            DataCommand::Watch { watch, target, reply } => {
                let token = self.replies.insert(ReplyWaiter::Owner(reply));
                let command = ShardingCommand::Watch { watch, target };
                return self.hand_in(token, Command::Sharding(command));
            }
            DataCommand::Keyed { command, reply } => {
                let token = self.replies.insert(ReplyWaiter::Owner(reply));
                return self.hand_in(token, Command::Kv(command));
            }
            DataCommand::Follow {
                bucket,
                pattern,
                inbox,
            } => {
                let token = self.replies.insert(ReplyWaiter::Follower(Arc::clone(&inbox)));
                self.followers.insert(token, inbox);
                return self.hand_in(token, Command::Kv(KvCommand::Watch { bucket, pattern }));
            }
            DataCommand::Unfollow(inbox) => {
                let Some(watch) = self.followers.remove(&inbox) else {
                    return;
                };
                let token = self.replies.insert(ReplyWaiter::Nobody);
                return self.hand_in(token, Command::Kv(KvCommand::Unwatch { watch }));
            }
            DataCommand::Unwatch(watch, place) => {
                drop(place);
                let token = self.replies.insert(ReplyWaiter::Nobody);
                let command = ShardingCommand::Unwatch { watch };
                return self.hand_in(token, Command::Sharding(command));
            }
            DataCommand::Operation { command, reply } => {
                (self.replies.insert(ReplyWaiter::Data(reply)), command)
            }
            DataCommand::Subscribe { pattern, inbox } => {
                let token = self.replies.insert(ReplyWaiter::Subscription(Arc::clone(&inbox)));
                self.subscriptions.insert(token, inbox);
                (token, DdataCommand::Subscribe { pattern })
            }
            DataCommand::Unsubscribe(inbox) => {
                let Some(subscriber) = self.subscriptions.token_of(&inbox) else {
                    return;
                };
                self.subscriptions.remove(subscriber);
                let token = self.replies.insert(ReplyWaiter::Nobody);
                (token, DdataCommand::Unsubscribe { subscriber })
            }
        };
        self.hand_in(token, Command::Ddata(command));
    }

    pub(super) fn hand_in(&mut self, token: Token, command: Command) {
        self.linked.handle(Input::Command { token, command });
        self.drive_node();
    }

    /// The node has ended: nobody hears anything any more.
    pub(crate) fn end_subscriptions(&mut self) {
        self.subscriptions.clear();
        self.followers.clear();
    }
}
