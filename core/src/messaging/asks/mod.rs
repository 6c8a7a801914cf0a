//! The asks a machine of this node has open: when each must be answered at the latest, and whether its
//! message has left this node's buffers. Answers each exactly once. Never sends a message. Spec: `README.md`,
//! sharding 1.11, 10.2.

use alloc::collections::btree_map::Entry;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use super::protocol::{AskReply, AskTicket};
use super::{AskCount, AskingMachine, answer, count};
use crate::cx::Cx;
use crate::effect::Answer;
use crate::ident::UniqueAddress;
use crate::input::Token;
use crate::reject::Rejection;
use crate::sharding::state::errors::AskFailure;
use crate::sharding::state::ids::Payload;
use crate::time::Instant;

/// Shortest and longest time a caller may wait; anything else is clamped.
pub(crate) const TIMEOUT_MIN: Duration = Duration::from_millis(1);
pub(crate) const TIMEOUT_MAX: Duration = Duration::from_secs(24 * 3600);

/// How long an ask of a node that is no member any more is kept open: the host has its turn, and gives back
/// what of it it has not sent, before anything else is due.
const GIVEN_BACK_WITHIN: Duration = Duration::from_micros(1);

/// How far an ask's message has come. What the caller hears on a timeout depends on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AskStage {
    /// In this node's buffer: cannot have been handled.
    Buffered,
    /// Given to what this node hosts: may have been handled.
    Sent(UniqueAddress),
    /// The same, and the node is no member any more: answered in a moment, unless the host gives the message
    /// back.
    Lost(UniqueAddress),
}

impl AskStage {
    /// Whether the message was given to this node.
    pub(crate) fn is_with(&self, node: &UniqueAddress) -> bool {
        match self {
            Self::Sent(to) | Self::Lost(to) => to == node,
            Self::Buffered => false,
        }
    }
}

#[derive(Clone, Debug)]
struct OpenAsk<P> {
    token: Token,
    deadline: Instant,
    place: P,
    stage: AskStage,
}

/// An ask that timed out in the buffer; its message must be taken out, because the caller was told that it
/// was not handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ExpiredAsk<P> {
    pub(crate) id: u64,
    pub(crate) place: P,
}

/// The open asks of one machine, at most as many as its `open_asks_max`; `P` is what their messages wait for.
#[derive(Clone, Debug)]
pub(crate) struct Asks<P> {
    open: BTreeMap<u64, OpenAsk<P>>,
    deadlines: BTreeSet<(Instant, u64)>,
    last_id: u64,
    armed: Option<Instant>,
}

impl<P> Default for Asks<P> {
    fn default() -> Self {
        Self {
            open: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            last_id: 0,
            armed: None,
        }
    }
}

impl<P: Copy> Asks<P> {
    /// Opens an ask whose message is still here, and gives its number and deadline.
    pub(crate) fn open<W: AskingMachine<Place = P>>(
        &mut self,
        cx: &mut Cx<'_, W>,
        token: Token,
        place: P,
        timeout: Duration,
    ) -> Result<(u64, Instant), AskFailure> {
        if self.open.len() >= W::open_asks_max(cx.config()) {
            return Err(AskFailure::TooManyOpenAsks);
        }
        self.last_id += 1;
        let id = self.last_id;
        let deadline = cx.mono() + timeout.clamp(TIMEOUT_MIN, TIMEOUT_MAX);
        let open = OpenAsk {
            token,
            deadline,
            place,
            stage: AskStage::Buffered,
        };
        self.open.insert(id, open);
        self.deadlines.insert((deadline, id));
        count(cx, AskCount::Opened);
        self.arm(cx);
        Ok((id, deadline))
    }

    /// Notes that an ask's message has been given away.
    pub(crate) fn sent(&mut self, id: u64, to: &UniqueAddress) {
        if let Some(open) = self.open.get_mut(&id) {
            open.stage = AskStage::Sent(to.clone());
        }
    }

    /// The message of an ask leaves this node's buffers for `to`, with what is left of the time until its
    /// deadline.
    pub(crate) fn leaves<W: AskingMachine<Place = P>>(
        &mut self,
        cx: &Cx<'_, W>,
        ticket: &mut AskTicket,
        deadline: Instant,
        to: &UniqueAddress,
    ) {
        ticket.remaining_ms = AskTicket::remaining_ms(deadline.since(cx.mono()));
        if ticket.ask.asker == *cx.me() {
            self.sent(ticket.ask.id, to);
        }
    }

    /// Notes that an ask's message has come back from `node`, and gives the ask's deadline. `Err(None)` if
    /// the ask is not open any more, and what is wrong if its message is not there.
    pub(crate) fn take_back(
        &mut self,
        id: u64,
        node: &UniqueAddress,
    ) -> Result<Instant, Option<&'static str>> {
        let Some(open) = self.open.get_mut(&id) else {
            return Err(None);
        };
        if !open.stage.is_with(node) {
            return Err(Some("message of an ask that was not sent there"));
        }
        open.stage = AskStage::Buffered;
        Ok(open.deadline)
    }

    /// An answer to an ask of this node: only from the node that was given the message.
    pub(crate) fn on_reply<W: AskingMachine<Place = P>>(
        &mut self,
        cx: &mut Cx<'_, W>,
        from: &UniqueAddress,
        reply: AskReply,
    ) {
        let AskReply { id, to, result } = reply;
        if to != *cx.me() {
            return cx.reject(from, Rejection::WrongReceiver { to });
        }
        match self.open.entry(id) {
            Entry::Vacant(_) => count(cx, AskCount::Late),
            // Nobody passes a message on (10.14 b): nobody else can have handled it.
            Entry::Occupied(open) if open.get().stage.is_with(from) => {
                let open = open.remove();
                self.finish(cx, id, open, result);
            }
            Entry::Occupied(_) => {
                let what = "answer to an ask that was not sent there";
                cx.reject(from, Rejection::Unexpected { what });
            }
        }
    }

    /// Ends an ask's message undelivered: its asker hears why, wherever it is.
    pub(crate) fn end<W: AskingMachine<Place = P>>(
        &mut self,
        cx: &mut Cx<'_, W>,
        ticket: AskTicket,
        reason: AskFailure,
    ) {
        if ticket.ask.asker == *cx.me() {
            self.close(cx, ticket.ask.id, Err(reason));
        } else {
            answer(cx, ticket.ask, Err(reason));
        }
    }

    /// Answers an ask; `false` if it is not open (it was answered before).
    pub(crate) fn close<W: AskingMachine<Place = P>>(
        &mut self,
        cx: &mut Cx<'_, W>,
        id: u64,
        result: Result<Payload, AskFailure>,
    ) -> bool {
        let Some(open) = self.open.remove(&id) else {
            return false;
        };
        self.finish(cx, id, open, result);
        true
    }

    /// Answers an ask that was taken out.
    fn finish<W: AskingMachine<Place = P>>(
        &mut self,
        cx: &mut Cx<'_, W>,
        id: u64,
        open: OpenAsk<P>,
        result: Result<Payload, AskFailure>,
    ) {
        self.deadlines.remove(&(open.deadline, id));
        let of = if result.is_ok() {
            AskCount::Answered
        } else {
            AskCount::Failed
        };
        count(cx, of);
        cx.reply(open.token, Answer::Asked(result));
    }

    /// Answers every ask whose time has come, and returns those whose message is still in a buffer.
    /// `nobody_hosts` says for whom that is certain as far as this node knows.
    pub(crate) fn on_deadline<W: AskingMachine<Place = P>>(
        &mut self,
        cx: &mut Cx<'_, W>,
        nobody_hosts: impl Fn(P) -> bool,
    ) -> Vec<ExpiredAsk<P>> {
        self.armed = None;
        let mut buffered = Vec::new();
        while let Some((deadline, id)) = self.deadlines.first().copied() {
            if deadline > cx.mono() {
                break;
            }
            let Some(open) = self.open.get(&id) else { break };
            let place = open.place;
            let reason = match open.stage {
                AskStage::Buffered => {
                    buffered.push(ExpiredAsk { id, place });
                    if nobody_hosts(place) {
                        AskFailure::NobodyHosts
                    } else {
                        AskFailure::TimeoutBuffered
                    }
                }
                AskStage::Sent(_) => AskFailure::TimeoutSent,
                AskStage::Lost(_) => AskFailure::PeerLost,
            };
            self.close(cx, id, Err(reason));
        }
        self.arm(cx);
        buffered
    }

    /// Answers at once every ask whose message went to a node that is lost. Linear in the open asks.
    pub(crate) fn on_node_lost<W: AskingMachine<Place = P>>(
        &mut self,
        cx: &mut Cx<'_, W>,
        node: &UniqueAddress,
    ) {
        let ids: Vec<u64> = self
            .open
            .iter()
            .filter(|(_, open)| open.stage.is_with(node))
            .map(|(id, _)| *id)
            .collect();
        for id in ids {
            self.close(cx, id, Err(AskFailure::PeerLost));
        }
    }

    /// A node is no member any more: asks whose messages went there are answered as soon as the host has said
    /// which of them it has not sent. Linear in the open asks.
    pub(crate) fn give_up_on<W: AskingMachine<Place = P>>(
        &mut self,
        cx: &mut Cx<'_, W>,
        node: &UniqueAddress,
    ) {
        let at = cx.mono() + GIVEN_BACK_WITHIN;
        for (id, open) in self.open.iter_mut().filter(|(_, open)| open.stage.is_with(node)) {
            self.deadlines.remove(&(open.deadline, *id));
            open.deadline = open.deadline.min(at);
            open.stage = AskStage::Lost(node.clone());
            self.deadlines.insert((open.deadline, *id));
        }
        self.arm(cx);
    }

    /// Answers every ask whose message has not left this node: it stops. Linear in the open asks.
    pub(crate) fn give_up_unsent<W: AskingMachine<Place = P>>(&mut self, cx: &mut Cx<'_, W>) {
        let unsent = |open: &OpenAsk<P>| open.stage == AskStage::Buffered;
        let all = self.open.iter().filter(|(_, open)| unsent(open));
        let ids: Vec<u64> = all.map(|(id, _)| *id).collect();
        for id in ids {
            self.close(cx, id, Err(AskFailure::NodeStoppedUnsent));
        }
    }

    /// Answers everything: this node has stopped, and what it had not sent has come back.
    pub(crate) fn stop<W: AskingMachine<Place = P>>(&mut self, cx: &mut Cx<'_, W>) {
        self.give_up_unsent(cx);
        let ids: Vec<u64> = self.open.keys().copied().collect();
        for id in ids {
            self.close(cx, id, Err(AskFailure::NodeStopped));
        }
        self.armed = None;
        cx.cancel(W::deadline());
    }

    /// Asks without an answer.
    pub(crate) fn len(&self) -> usize {
        self.open.len()
    }

    /// Asks whose message is in a buffer of this node.
    pub(crate) fn buffered(&self) -> usize {
        self.open
            .values()
            .filter(|open| open.stage == AskStage::Buffered)
            .count()
    }

    /// What must hold between the calls.
    pub(crate) fn check_invariants(&self) -> Result<(), String> {
        let listed = |(id, open): (&u64, &OpenAsk<P>)| self.deadlines.contains(&(open.deadline, *id));
        if self.deadlines.len() != self.open.len() || !self.open.iter().all(listed) {
            return Err(String::from("asks: the deadlines do not mirror the open asks"));
        }
        let due = self.deadlines.first().map(|(at, _)| *at);
        if due.is_some_and(|due| self.armed.is_none_or(|armed| armed > due)) {
            return Err(String::from("asks: the earliest deadline is not waited for"));
        }
        Ok(())
    }

    /// Waits for the earliest deadline. A timer left over from an answered ask fires for nothing, which is
    /// cheaper than moving it with every answer.
    fn arm<W: AskingMachine<Place = P>>(&mut self, cx: &mut Cx<'_, W>) {
        let Some((due, _)) = self.deadlines.first() else {
            return;
        };
        if self.armed.is_none_or(|armed| armed > *due) {
            self.armed = Some(*due);
            cx.wake(W::deadline(), *due);
        }
    }
}

#[cfg(test)]
mod tests;
