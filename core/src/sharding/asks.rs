//! The asks this node has open: when each must be answered at the latest, and whether its message has left the region's
//! buffer. Answers each exactly once. Never sends a message. Spec: `README.md`, sharding 10.2.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use crate::effect::{Answer, ShardingAnswer};
use crate::ident::UniqueAddress;
use crate::input::Token;
use crate::sharding::Cx;
use crate::sharding::state::errors::AskFailure;
use crate::sharding::state::ids::{KindId, Payload, ShardId};
use crate::time::Instant;
use crate::timer::ShardingTimer;

/// Shortest and longest time an ask may wait; anything else is clamped.
const TIMEOUT_MIN: Duration = Duration::from_millis(1);
const TIMEOUT_MAX: Duration = Duration::from_secs(24 * 3600);

/// How long an ask of a node that is no member any more is kept open: the host has its turn, and gives back what of it it has
/// not sent, before anything else is due.
const GIVEN_BACK_WITHIN: Duration = Duration::from_micros(1);

/// How far an ask's message has come. What the caller hears on a timeout depends on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// In this node's buffer: cannot have been handled.
    Buffered,
    /// Given to this node's region or entities: may have been handled.
    Sent(UniqueAddress),
    /// The same, and the node is no member any more: answered in a moment, unless the host gives the message back.
    Lost(UniqueAddress),
}

impl Stage {
    /// Whether the message was given to this node.
    pub(crate) fn is_with(&self, node: &UniqueAddress) -> bool {
        match self {
            Self::Sent(to) | Self::Lost(to) => to == node,
            Self::Buffered => false,
        }
    }
}

#[derive(Clone, Debug)]
struct Open {
    token: Token,
    deadline: Instant,
    kind: KindId,
    shard: ShardId,
    stage: Stage,
}

/// An ask that timed out in the buffer; its message must be taken out, because the caller was told that it was not
/// handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Expired {
    pub(crate) id: u64,
    pub(crate) kind: KindId,
    pub(crate) shard: ShardId,
}

/// The open asks of one node, at most `sharding.open_asks_max`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asks {
    open: BTreeMap<u64, Open>,
    deadlines: BTreeSet<(Instant, u64)>,
    last_id: u64,
    armed: Option<Instant>,
}

impl Asks {
    /// Opens an ask whose message is still here, and gives its number and deadline.
    pub(crate) fn open(
        &mut self,
        cx: &mut Cx<'_>,
        token: Token,
        kind: KindId,
        shard: ShardId,
        timeout: Duration,
    ) -> Result<(u64, Instant), AskFailure> {
        if self.open.len() >= cx.config().sharding.open_asks_max {
            return Err(AskFailure::TooManyOpenAsks);
        }
        self.last_id += 1;
        let id = self.last_id;
        let deadline = cx.mono() + timeout.clamp(TIMEOUT_MIN, TIMEOUT_MAX);
        self.open.insert(
            id,
            Open {
                token,
                deadline,
                kind,
                shard,
                stage: Stage::Buffered,
            },
        );
        self.deadlines.insert((deadline, id));
        cx.counters().asks_opened += 1;
        self.arm(cx);
        Ok((id, deadline))
    }

    /// Notes that an ask's message has been given away.
    pub(crate) fn sent(&mut self, id: u64, to: &UniqueAddress) {
        if let Some(open) = self.open.get_mut(&id) {
            open.stage = Stage::Sent(to.clone());
        }
    }

    /// Notes that an ask's message has come back from `node`, and gives the ask's deadline. `Err(None)` if the ask is not open
    /// any more, and what is wrong if its message is not there.
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
        open.stage = Stage::Buffered;
        Ok(open.deadline)
    }

    /// How far an ask's message has come; `None` for one that is not open.
    pub(crate) fn stage(&self, id: u64) -> Option<&Stage> {
        self.open.get(&id).map(|open| &open.stage)
    }

    /// Answers an ask; `false` if it is not open (it was answered before).
    pub(crate) fn close(&mut self, cx: &mut Cx<'_>, id: u64, result: Result<Payload, AskFailure>) -> bool {
        let Some(open) = self.open.remove(&id) else {
            return false;
        };
        self.deadlines.remove(&(open.deadline, id));
        match result {
            Ok(_) => cx.counters().asks_answered += 1,
            Err(_) => cx.counters().asks_failed += 1,
        }
        cx.reply(open.token, Answer::Sharding(ShardingAnswer::Asked(result)));
        true
    }

    /// Answers every ask whose time has come, and returns those whose message is still in a buffer. `nobody_hosts` says of
    /// which kinds that is certain as far as this node knows.
    pub(crate) fn on_deadline(
        &mut self,
        cx: &mut Cx<'_>,
        nobody_hosts: impl Fn(KindId) -> bool,
    ) -> Vec<Expired> {
        self.armed = None;
        let mut buffered = Vec::new();
        while let Some((deadline, id)) = self.deadlines.first().copied() {
            if deadline > cx.mono() {
                break;
            }
            let Some(open) = self.open.get(&id) else { break };
            let (kind, shard) = (open.kind, open.shard);
            let reason = match open.stage {
                Stage::Buffered => {
                    buffered.push(Expired { id, kind, shard });
                    if nobody_hosts(kind) {
                        AskFailure::NobodyHosts
                    } else {
                        AskFailure::TimeoutBuffered
                    }
                }
                Stage::Sent(_) => AskFailure::TimeoutSent,
                Stage::Lost(_) => AskFailure::PeerLost,
            };
            self.close(cx, id, Err(reason));
        }
        self.arm(cx);
        buffered
    }

    /// Answers at once every ask whose message went to a node that is lost. Linear in the open asks.
    pub(crate) fn on_node_lost(&mut self, cx: &mut Cx<'_>, node: &UniqueAddress) {
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

    /// A node is no member any more: asks whose messages went there are answered as soon as the host has said which of them it
    /// has not sent. Linear in the open asks.
    pub(crate) fn give_up_on(&mut self, cx: &mut Cx<'_>, node: &UniqueAddress) {
        let at = cx.mono() + GIVEN_BACK_WITHIN;
        for (id, open) in self.open.iter_mut().filter(|(_, open)| open.stage.is_with(node)) {
            self.deadlines.remove(&(open.deadline, *id));
            open.deadline = open.deadline.min(at);
            open.stage = Stage::Lost(node.clone());
            self.deadlines.insert((open.deadline, *id));
        }
        self.arm(cx);
    }

    /// Answers every ask whose message has not left this node: it stops. Linear in the open asks.
    pub(crate) fn give_up_unsent(&mut self, cx: &mut Cx<'_>) {
        let unsent = |open: &Open| open.stage == Stage::Buffered;
        let all = self.open.iter().filter(|(_, open)| unsent(open));
        let ids: Vec<u64> = all.map(|(id, _)| *id).collect();
        for id in ids {
            self.close(cx, id, Err(AskFailure::NodeStoppedUnsent));
        }
    }

    /// Answers everything: this node has stopped, and what it had not sent has come back.
    pub(crate) fn stop(&mut self, cx: &mut Cx<'_>) {
        self.give_up_unsent(cx);
        let ids: Vec<u64> = self.open.keys().copied().collect();
        for id in ids {
            self.close(cx, id, Err(AskFailure::NodeStopped));
        }
        self.armed = None;
        cx.cancel(ShardingTimer::AskDeadline);
    }

    /// Asks without an answer.
    pub(crate) fn len(&self) -> usize {
        self.open.len()
    }

    /// Asks whose message is in a buffer of this node.
    pub(crate) fn buffered(&self) -> usize {
        self.open
            .values()
            .filter(|open| open.stage == Stage::Buffered)
            .count()
    }

    /// What must hold between the calls.
    pub(crate) fn check_invariants(&self) -> Result<(), String> {
        let listed = |(id, open): (&u64, &Open)| self.deadlines.contains(&(open.deadline, *id));
        if self.deadlines.len() != self.open.len() || !self.open.iter().all(listed) {
            return Err(String::from("asks: the deadlines do not mirror the open asks"));
        }
        let due = self.deadlines.first().map(|(at, _)| *at);
        if due.is_some_and(|due| self.armed.is_none_or(|armed| armed > due)) {
            return Err(String::from("asks: the earliest deadline is not waited for"));
        }
        Ok(())
    }

    /// Waits for the earliest deadline. A timer left over from an answered ask fires for nothing, which is cheaper than
    /// moving it with every answer.
    fn arm(&mut self, cx: &mut Cx<'_>) {
        let Some((due, _)) = self.deadlines.first() else {
            return;
        };
        if self.armed.is_none_or(|armed| armed > *due) {
            self.armed = Some(*due);
            cx.wake(ShardingTimer::AskDeadline, *due);
        }
    }
}

#[cfg(test)]
mod tests;
