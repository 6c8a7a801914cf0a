//! The asks of this node to singletons: when each must be answered at the latest, and whether its message has left the proxy.
//! Answers each exactly once. Sends nothing. Spec: sharding 1.11, 10.2.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::time::Duration;

use super::Cx;
use super::protocol::{Answer, Timer};
use super::state::SingletonId;
use crate::effect::Answer as AnyAnswer;
use crate::ident::UniqueAddress;
use crate::input::Token;
use crate::sharding::state::errors::AskFailure;
use crate::sharding::state::ids::Payload;
use crate::time::Instant;

/// Shortest and longest time a caller may wait; anything else is clamped.
pub(super) const TIMEOUT_MIN: Duration = Duration::from_millis(1);
pub(super) const TIMEOUT_MAX: Duration = Duration::from_secs(24 * 3600);

#[derive(Clone, Debug)]
struct Open {
    token: Token,
    deadline: Instant,
    singleton: SingletonId,
    /// Where its message went; `None` while it waits here.
    sent: Option<UniqueAddress>,
}

/// The open asks of one node, at most `singleton.open_asks_max`.
#[derive(Clone, Debug, Default)]
pub(super) struct Asks {
    open: BTreeMap<u64, Open>,
    deadlines: BTreeSet<(Instant, u64)>,
    last_id: u64,
}

impl Asks {
    /// Opens an ask whose message is still here, and gives its number.
    pub(super) fn open(
        &mut self,
        cx: &mut Cx<'_>,
        token: Token,
        singleton: SingletonId,
        timeout: Duration,
    ) -> Result<u64, AskFailure> {
        if self.open.len() >= cx.config().singleton.open_asks_max {
            return Err(AskFailure::TooManyOpenAsks);
        }
        self.last_id += 1;
        let id = self.last_id;
        let deadline = cx.mono() + timeout.clamp(TIMEOUT_MIN, TIMEOUT_MAX);
        let open = Open {
            token,
            deadline,
            singleton,
            sent: None,
        };
        self.open.insert(id, open);
        self.deadlines.insert((deadline, id));
        cx.counters().asks_opened += 1;
        self.arm(cx);
        Ok(id)
    }

    /// Notes that an ask's message leaves this node's proxy, and says how much time is left; `None` if nobody waits any more, or
    /// hears in this very turn that it was not sent.
    pub(super) fn sent(&mut self, now: Instant, id: u64, to: &UniqueAddress) -> Option<Duration> {
        let open = self.open.get_mut(&id).filter(|open| open.deadline > now)?;
        open.sent = Some(to.clone());
        Some(open.deadline.since(now))
    }

    /// Whether somebody waits for this ask, and its message went to this node.
    pub(super) fn awaits(&self, id: u64, node: &UniqueAddress) -> bool {
        self.open
            .get(&id)
            .is_some_and(|open| open.sent.as_ref() == Some(node))
    }

    /// Whether somebody waits for this ask.
    pub(super) fn is_open(&self, id: u64) -> bool {
        self.open.contains_key(&id)
    }

    /// Answers an ask; nothing happens if it is not open.
    pub(super) fn close(&mut self, cx: &mut Cx<'_>, id: u64, result: Result<Payload, AskFailure>) {
        let Some(open) = self.open.remove(&id) else {
            return;
        };
        self.deadlines.remove(&(open.deadline, id));
        match result {
            Ok(_) => cx.counters().asks_answered += 1,
            Err(_) => cx.counters().asks_failed += 1,
        }
        cx.reply(open.token, AnyAnswer::Singleton(Answer::Asked(result)));
    }

    /// Answers every ask whose time has come. `nobody_hosts` says of which singletons no member could have an instance. Gives
    /// the singletons in whose buffers messages nobody waits for are left.
    pub(super) fn on_deadline(
        &mut self,
        cx: &mut Cx<'_>,
        nobody_hosts: impl Fn(SingletonId) -> bool,
    ) -> BTreeSet<SingletonId> {
        let mut buffers = BTreeSet::new();
        while let Some((deadline, id)) = self.deadlines.first().copied() {
            let due = deadline <= cx.mono();
            let Some(open) = self.open.get(&id).filter(|_| due) else {
                break;
            };
            let singleton = open.singleton;
            let reason = if open.sent.is_some() {
                AskFailure::TimeoutSent
            } else {
                buffers.insert(singleton);
                if nobody_hosts(singleton) {
                    AskFailure::NobodyHosts
                } else {
                    AskFailure::TimeoutBuffered
                }
            };
            self.close(cx, id, Err(reason));
        }
        self.arm(cx);
        buffers
    }

    /// Answers at once every ask whose message went to a node that is lost. Linear in the open asks.
    pub(super) fn on_node_lost(&mut self, cx: &mut Cx<'_>, node: &UniqueAddress) {
        let lost = |open: &Open| open.sent.as_ref() == Some(node);
        let ids: Vec<u64> = self
            .open
            .iter()
            .filter(|(_, open)| lost(open))
            .map(|(id, _)| *id)
            .collect();
        for id in ids {
            self.close(cx, id, Err(AskFailure::PeerLost));
        }
    }

    /// Answers everything: this node has stopped.
    pub(super) fn stop(&mut self, cx: &mut Cx<'_>) {
        let reason = |open: &Open| match open.sent {
            Some(_) => AskFailure::NodeStopped,
            None => AskFailure::NodeStoppedUnsent,
        };
        let all: Vec<(u64, AskFailure)> = self.open.iter().map(|(id, open)| (*id, reason(open))).collect();
        for (id, reason) in all {
            self.close(cx, id, Err(reason));
        }
        cx.cancel(Timer::AskDeadline);
    }

    /// Waits for the earliest deadline. A timer left over from an answered ask fires for nothing, which is cheaper than moving it
    /// with every answer.
    fn arm(&self, cx: &mut Cx<'_>) {
        if let Some((due, _)) = self.deadlines.first()
            && cx.due(Timer::AskDeadline).is_none_or(|set| set > *due)
        {
            cx.wake(Timer::AskDeadline, *due);
        }
    }
}
