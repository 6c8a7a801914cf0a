//! The way of messages to the instance of this node: who has been told where it is, what waits while this
//! process does not know whether it is still a member, and what no instance gets. Spec: sharding 1.11, 10.13.

use super::{InstanceRun, InstanceStage, SingletonInstance};
use crate::buffered::BufferedLoad;
use crate::ident::UniqueAddress;
use crate::messaging::answer;
use crate::messaging::protocol::{AskTicket, HostOrder};
use crate::sharding::state::chain::AskChain;
use crate::sharding::state::errors::AskFailure;
use crate::singleton::protocol::{InstanceMessage, SingletonBody};
use crate::singleton::proxy::dead_letter;
use crate::singleton::{Cx, say};
use crate::token::Token;

impl SingletonInstance {
    pub(in crate::singleton) fn buffered(&self) -> BufferedLoad {
        BufferedLoad {
            messages: self.held.len(),
            bytes: self.held_bytes,
        }
    }

    /// Tells proxies that it takes nothing any more, and gives back what it did not get.
    pub(super) fn leave(&mut self, cx: &mut Cx<'_>, token: Token) {
        for (node, epoch) in core::mem::take(&mut self.watchers) {
            say(cx, &node, self.id, epoch, SingletonBody::Gone { token });
        }
        self.held_bytes = 0;
        for (_, delivery) in core::mem::take(&mut self.held) {
            refuse(cx, delivery, AskFailure::EntityStoppedUnhandled);
        }
    }

    /// A proxy asks where it is. If it is not there yet, the answer follows when it is.
    pub(in crate::singleton) fn on_identify(&mut self, cx: &mut Cx<'_>, from: &UniqueAddress, epoch: u64) {
        self.watchers.insert(from.clone(), epoch);
        if let InstanceStage::Running(InstanceRun { token, .. }) = self.life {
            say(cx, from, self.id, epoch, SingletonBody::Identified { token });
        }
    }

    /// A message for it.
    pub(in crate::singleton) fn deliver(
        &mut self,
        cx: &mut Cx<'_>,
        from: &UniqueAddress,
        delivery: InstanceMessage,
        paused: bool,
    ) {
        let InstanceStage::Running(run) = self.life else {
            return not_here(cx, from, delivery);
        };
        if run.token != delivery.token {
            return not_here(cx, from, delivery);
        }
        if paused {
            return self.hold(cx, delivery);
        }
        cx.counters().messages_delivered += 1;
        let deadline = delivery.ask.as_ref().map(|ticket| cx.mono() + ticket.remaining());
        let (reply_to, chain) = match delivery.ask {
            Some(ticket) => (Some(ticket.ask), ticket.chain),
            None => (None, AskChain::default()),
        };
        cx.order(HostOrder::Deliver {
            slot: run.slot,
            payload: delivery.payload,
            reply_to,
            deadline,
            chain,
        });
    }

    /// Keeps a message while this process does not know whether it is still a member.
    fn hold(&mut self, cx: &mut Cx<'_>, delivery: InstanceMessage) {
        let limits = &cx.config().singleton;
        let bytes = self.held_bytes.saturating_add(delivery.payload.len());
        if self.held.len() >= limits.buffer_messages_max || bytes > limits.buffer_bytes_max {
            return refuse(cx, delivery, AskFailure::MailboxFull);
        }
        self.held_bytes = bytes;
        let left = delivery.ask.as_ref().map(AskTicket::remaining);
        let until = left.map(|left| cx.mono() + left);
        self.held.push_back((until, delivery));
    }

    /// The pause did no harm: it gets what was kept and is still waited for. At most
    /// `singleton.buffer_messages_max`.
    pub(in crate::singleton::manager) fn deliver_held(&mut self, cx: &mut Cx<'_>) {
        self.held_bytes = 0;
        let me = cx.me().clone();
        for (until, mut delivery) in core::mem::take(&mut self.held) {
            if until.is_some_and(|until| until <= cx.mono()) {
                cx.counters().messages_expired += 1;
                continue;
            }
            if let (Some(until), Some(ticket)) = (until, &mut delivery.ask) {
                ticket.remaining_ms = AskTicket::remaining_ms(until.since(cx.mono()));
            }
            self.deliver(cx, &me, delivery, false);
        }
    }
}

/// There is no such instance here: the proxy has to look for it anew.
pub(in crate::singleton) fn not_here(cx: &mut Cx<'_>, from: &UniqueAddress, delivery: InstanceMessage) {
    let (singleton, token) = (delivery.singleton, delivery.token);
    refuse(cx, delivery, AskFailure::EntityStoppedUnhandled);
    say(cx, from, singleton, 0, SingletonBody::Gone { token });
}

/// Ends a message that no instance got: its asker hears why, or it is a dead letter.
pub(in crate::singleton) fn refuse(cx: &mut Cx<'_>, delivery: InstanceMessage, reason: AskFailure) {
    match delivery.ask {
        Some(ticket) => answer(cx, ticket.ask, Err(reason)),
        None => dead_letter(cx, delivery.singleton, reason),
    }
}
