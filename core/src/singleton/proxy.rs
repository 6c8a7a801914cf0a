//! The way of this node's users to a singleton: asks the member where the instance should be whether it is
//! there, keeps messages until then, and sends them to exactly that instance. An answer of an earlier oldest
//! member, or to an earlier question, is never used. Starts nothing. Spec: sharding 1.11.

use alloc::collections::VecDeque;

use super::protocol::{Event, InstanceMessage, Msg, Rejection, SingletonBody, Timer};
use super::state::SingletonId;
use super::{Cx, say};
use crate::config::ValidConfig;
use crate::cx::OfSingleton;
use crate::ident::{Role, UniqueAddress};
use crate::membership::state::member::Status;
use crate::messaging::protocol::{AskReply, AskTicket};
use crate::messaging::{AskCount, AskingMachine, Asks};
use crate::reject::Rejection as AnyRejection;
use crate::sharding::state::errors::AskFailure;
use crate::sharding::state::ids::Payload;
use crate::stats::SingletonCounters;
use crate::time::Instant;
use crate::timer::SingletonTimer;
use crate::token::Token;

/// Messages sent in one step; then the machine asks to be woken at once. As for a region.
const FLUSH_PER_STEP: usize = 256;

/// A message of this node's user.
#[derive(Clone, Debug)]
pub(super) struct ProxyMessage {
    pub(super) payload: Payload,
    /// If an answer is expected: until when, by this node's clock.
    pub(super) ask: Option<(AskTicket, Instant)>,
}

impl ProxyMessage {
    /// Ends it unhandled.
    fn fail(self, cx: &mut Cx<'_>, asks: &mut Asks<SingletonId>, id: SingletonId, reason: AskFailure) {
        fail(cx, asks, id, self.ask.map(|(ticket, _)| ticket), reason);
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct SingletonProxy {
    id: SingletonId,
    role: Option<Role>,
    /// The member where the instance should be.
    head: Option<UniqueAddress>,
    /// Counts the questions; an answer to an earlier one says nothing.
    epoch: u64,
    /// Where the instance is known to be.
    target: Option<(UniqueAddress, Token)>,
    buffer: VecDeque<ProxyMessage>,
    bytes: usize,
}

impl SingletonProxy {
    pub(super) const fn new(id: SingletonId, role: Option<Role>) -> Self {
        Self {
            id,
            role,
            head: None,
            epoch: 0,
            target: None,
            buffer: VecDeque::new(),
            bytes: 0,
        }
    }

    pub(super) const fn head(&self) -> Option<&UniqueAddress> {
        self.head.as_ref()
    }

    pub(super) const fn target(&self) -> Option<&(UniqueAddress, Token)> {
        self.target.as_ref()
    }

    pub(super) fn waiting(&self) -> usize {
        self.buffer.len()
    }

    /// The ages changed: if another member is the oldest, the instance is looked for there, at once.
    pub(super) fn on_ages_changed(&mut self, cx: &mut Cx<'_>) {
        let members = cx.view().by_age(self.role.as_ref());
        let mut staying = members.iter().filter(|member| member.status != Status::Exiting);
        let head = staying.next().map(|member| member.node.clone());
        let down = |(node, _): &(UniqueAddress, Token)| !is_heard(cx, node);
        let lost = self.target.as_ref().is_some_and(down);
        if head != self.head || lost {
            self.head = head;
            self.look_anew(cx);
        }
    }

    /// Asks anew where the instance is; answers to earlier questions are not used.
    fn look_anew(&mut self, cx: &mut Cx<'_>) {
        self.target = None;
        self.epoch += 1;
        self.identify(cx);
    }

    /// Asks, now and until there is an answer.
    pub(super) fn identify(&self, cx: &mut Cx<'_>) {
        let timer = Timer::Identify(self.id);
        match &self.head {
            Some(head) if self.target.is_none() => {
                if is_heard(cx, head) {
                    say(cx, head, self.id, self.epoch, SingletonBody::Identify);
                }
                let at = cx.mono() + cx.config().singleton.identification_interval;
                cx.wake(timer, at);
            }
            Some(_) | None => {
                cx.cancel(timer);
            }
        }
    }

    /// A node says that the instance is there.
    pub(super) fn on_identified(
        &mut self,
        cx: &mut Cx<'_>,
        asks: &mut Asks<SingletonId>,
        from: &UniqueAddress,
        epoch: u64,
        token: Token,
    ) {
        if self.head.as_ref() != Some(from) || epoch != self.epoch {
            cx.counters().answers_stale += 1;
            return cx.reject(from, AnyRejection::Singleton(Rejection::StaleEpoch));
        }
        self.target = Some((from.clone(), token));
        cx.cancel(Timer::Identify(self.id));
        self.flush(cx, asks);
    }

    /// A node says that its instance takes nothing any more. Where the next one is has to be found out.
    pub(super) fn on_gone(&mut self, cx: &mut Cx<'_>, from: &UniqueAddress, token: Token) {
        let is_meant = |(node, at): &(UniqueAddress, Token)| node == from && *at == token;
        if self.target.as_ref().is_some_and(is_meant) {
            self.look_anew(cx);
        }
    }

    /// A message of this node's user.
    pub(super) fn send(
        &mut self,
        cx: &mut Cx<'_>,
        asks: &mut Asks<SingletonId>,
        message: ProxyMessage,
    ) -> Result<(), AskFailure> {
        if self.target.is_some() && self.buffer.is_empty() {
            self.deliver(cx, asks, message);
            return Ok(());
        }
        let limits = &cx.config().singleton;
        if limits.buffer_messages_max == 0 || message.payload.len() > limits.buffer_bytes_max {
            return Err(AskFailure::BufferFull);
        }
        let bytes = message.payload.len();
        while self.buffer.len() >= limits.buffer_messages_max
            || self.bytes.saturating_add(bytes) > limits.buffer_bytes_max
        {
            self.push_out(cx, asks);
        }
        self.bytes = self.bytes.saturating_add(bytes);
        self.buffer.push_back(message);
        Ok(())
    }

    /// Drops the oldest message that waits.
    fn push_out(&mut self, cx: &mut Cx<'_>, asks: &mut Asks<SingletonId>) {
        let Some(oldest) = self.take_first() else {
            return;
        };
        cx.counters().messages_pushed_out += 1;
        oldest.fail(cx, asks, self.id, AskFailure::BufferFull);
    }

    fn take_first(&mut self) -> Option<ProxyMessage> {
        let first = self.buffer.pop_front()?;
        self.bytes = self.bytes.saturating_sub(first.payload.len());
        Some(first)
    }

    /// Sends what waits, a step's worth.
    pub(super) fn flush(&mut self, cx: &mut Cx<'_>, asks: &mut Asks<SingletonId>) {
        for _ in 0..FLUSH_PER_STEP {
            if self.target.is_none() {
                return;
            }
            let Some(message) = self.take_first() else {
                return;
            };
            self.deliver(cx, asks, message);
        }
        if !self.buffer.is_empty() {
            cx.wake(Timer::Flush(self.id), cx.mono());
        }
    }

    fn deliver(&self, cx: &mut Cx<'_>, asks: &mut Asks<SingletonId>, message: ProxyMessage) {
        let Some((node, token)) = &self.target else {
            return;
        };
        let ask = match message.ask {
            None => None,
            // Whoever asked hears in this very turn that it was not handled.
            Some((_, deadline)) if deadline <= cx.mono() => return,
            Some((mut ticket, deadline)) => {
                asks.leaves(cx, &mut ticket, deadline, node);
                Some(ticket)
            }
        };
        let delivery = InstanceMessage {
            singleton: self.id,
            token: *token,
            ask,
            payload: message.payload,
        };
        cx.send(node, Msg::Delivery(delivery));
    }

    /// An ask of this node expired while its message waited here. It takes no room from now on. Asks expire
    /// about in the order in which they came, so the search from the front is short.
    pub(super) fn on_ask_expired(&mut self, id: u64) {
        let is_it = |waiting: &ProxyMessage| {
            waiting
                .ask
                .as_ref()
                .is_some_and(|(ticket, _)| ticket.ask.id == id)
        };
        let expired = self.buffer.iter().position(is_it);
        if let Some(expired) = expired.and_then(|at| self.buffer.remove(at)) {
            self.bytes = self.bytes.saturating_sub(expired.payload.len());
        }
    }

    /// This node has stopped, or the cluster has the singleton with other fields: what waits is not sent.
    pub(super) fn end(&mut self, cx: &mut Cx<'_>, asks: &mut Asks<SingletonId>, reason: AskFailure) {
        self.head = None;
        self.target = None;
        cx.cancel(Timer::Identify(self.id));
        cx.cancel(Timer::Flush(self.id));
        while let Some(message) = self.take_first() {
            message.fail(cx, asks, self.id, reason);
        }
    }
}

/// Whether it makes sense to ask this member: one that is Down answers nothing.
fn is_heard(cx: &Cx<'_>, node: &UniqueAddress) -> bool {
    cx.view()
        .member(node)
        .is_some_and(|member| member.status != Status::Down)
}

/// Ends a message unhandled: its asker hears why, or it is a dead letter.
pub(super) fn fail(
    cx: &mut Cx<'_>,
    asks: &mut Asks<SingletonId>,
    id: SingletonId,
    ask: Option<AskTicket>,
    reason: AskFailure,
) {
    match ask {
        Some(ticket) => asks.end(cx, ticket, reason),
        None => dead_letter(cx, id, reason),
    }
}

/// A message that nobody waits for was not handled.
pub(super) fn dead_letter(cx: &mut Cx<'_>, id: SingletonId, reason: AskFailure) {
    cx.counters().dead_letters += 1;
    cx.notify((id, Event::DeadLetter { reason }));
}

impl AskingMachine for OfSingleton {
    type Place = SingletonId;

    fn deadline() -> SingletonTimer {
        SingletonTimer::AskDeadline
    }

    fn open_asks_max(config: &ValidConfig) -> usize {
        config.singleton.open_asks_max
    }

    fn counter(counters: &mut SingletonCounters, of: AskCount) -> &mut u64 {
        match of {
            AskCount::Opened => &mut counters.asks_opened,
            AskCount::Answered => &mut counters.asks_answered,
            AskCount::Failed => &mut counters.asks_failed,
            AskCount::Late => &mut counters.answers_stale,
        }
    }

    fn reply(reply: AskReply) -> Msg {
        Msg::Reply(reply)
    }
}
