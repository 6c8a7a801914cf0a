//! Asks that this node passed on as the old host of a slot: whose they are, so that the answer finds its way
//! back. An asker takes answers only from the node to which it gave its message. Spec: sharding 5.4, B-48.

use super::Cx;
use crate::ident::UniqueAddress;
use crate::messaging::answer;
use crate::messaging::protocol::{AskReply, AskTicket};
use crate::ordered::OrderedMap;
use crate::sharding::state::errors::AskFailure;
use crate::sharding::state::ids::AskRef;
use crate::time::Instant;

/// Numbers of asks that were passed on have this bit; those of this node's own users do not.
const PASSED: u64 = 1 << 63;

#[derive(Clone, Debug)]
struct PassedAsk {
    asker: AskRef,
    to: UniqueAddress,
    deadline: Instant,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct PassedAsks {
    open: OrderedMap<u64, PassedAsk>,
    last: u64,
}

impl PassedAsks {
    /// Whether the number is of an ask that was passed on.
    pub(super) const fn is_of(id: u64) -> bool {
        id & PASSED != 0
    }

    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// An ask is passed on to `to`: its ticket from now on; `None` if there are too many.
    pub(super) fn pass(
        &mut self,
        cx: &Cx<'_>,
        ticket: &AskTicket,
        deadline: Instant,
        to: &UniqueAddress,
    ) -> Option<AskTicket> {
        if self.open.len() >= cx.config().paths.forwarded_asks_max {
            return None;
        }
        self.last += 1;
        let id = PASSED | self.last;
        let passed = PassedAsk {
            asker: ticket.ask.clone(),
            to: to.clone(),
            deadline,
        };
        self.open.insert(id, passed);
        Some(AskTicket {
            ask: AskRef {
                asker: cx.me().clone(),
                id,
            },
            remaining_ms: AskTicket::remaining_ms(deadline.since(cx.mono())),
            chain: ticket.chain.clone(),
        })
    }

    /// The new host answers.
    pub(super) fn on_reply(&mut self, cx: &mut Cx<'_>, from: &UniqueAddress, reply: AskReply) {
        match self.open.get(&reply.id) {
            Some(passed) if passed.to == *from => {}
            Some(_) | None => {
                cx.counters().answers_stale += 1;
                return;
            }
        }
        if let Some(passed) = self.open.remove(&reply.id) {
            answer(cx, passed.asker, reply.result);
        }
    }

    /// One was not sent, or not handled.
    pub(super) fn fail(&mut self, cx: &mut Cx<'_>, id: u64, reason: AskFailure) {
        if let Some(passed) = self.open.remove(&id) {
            answer(cx, passed.asker, Err(reason));
        }
    }

    /// What was passed on to this node may be lost.
    pub(super) fn give_up_on(&mut self, cx: &mut Cx<'_>, node: &UniqueAddress) {
        let lost = self.open.iter().filter(|(_, passed)| passed.to == *node);
        let lost: alloc::vec::Vec<u64> = lost.map(|(id, _)| *id).collect();
        for id in lost {
            self.fail(cx, id, AskFailure::PeerLost);
        }
    }

    /// Nobody waits for these any more.
    pub(super) fn forget_expired(&mut self, now: Instant) {
        self.open.retain(|_, passed| passed.deadline > now);
    }
}
