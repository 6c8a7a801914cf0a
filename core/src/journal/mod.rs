//! Quorum logs: append logs that are kept on a majority of fixed stores, each a node's own, and owned by
//! whoever holds the highest token. Found again after their owner has moved, after a store is lost for good,
//! and after all nodes were killed. What one node's own store cannot: a file orders the incarnations of one
//! node, and claims nothing beyond it. This file holds the logs that this node owns and hands each message to
//! its part; it decides nothing. Spec: sharding 10.7, 10.10, 10.15, 10.16; reliability I-80 to I-84.
//!
//! * `electorate`: which stores vote, agreed once and for good.
//! * [`writer`]: opens a log, appends to it, keeps snapshots of it. A state machine without a clock, a
//!   network or a store of its own.
//! * [`replica`]: one voter, in this node's store. Likewise.
//! * [`erasure`]: empties logs in a store that no node uses.
//!
//! Why an acknowledged record is never lost: it is one entry, which a majority accepted with the owner's
//! token. Who opens the log later has a higher token, which a majority promised before it said what it holds;
//! the two majorities share a replica. That one accepted the entry before it promised, so it names it; or it
//! promised first, and then refused the entry. Whatever was written at that place with a higher token was
//! written by somebody who had seen the entry, so the highest token has the right one.

pub mod erasure;
pub mod protocol;
pub mod replica;
pub mod state;
pub mod writer;

mod commands;
mod electorate;
mod layout;
mod logs;
#[cfg(test)]
mod tests;

use alloc::string::String;
use alloc::vec::Vec;

use self::electorate::{FIRST_REQUEST, StoreElectorate};
use self::logs::LocalLog;
use self::protocol::{
    Event, Msg, Rejection, ReplicaAnswer, ReplicaReply, ReplicaRequest, Timer, VoterBody, VoterMsg,
};
use self::replica::{LogReplica, ReplicaOutput};
use self::state::StoreId;
use crate::cx::OfJournal;
use crate::ident::UniqueAddress;
use crate::ordered::OrderedMap;
use crate::reject::Rejection as AnyRejection;
use crate::store::{LogName, StoreError, StoreReport};
use crate::view::View;

/// What the machine may touch outside itself.
pub(crate) type Cx<'a> = crate::cx::Cx<'a, OfJournal>;

/// Everything a node knows about quorum logs.
#[derive(Clone, Debug, Default)]
pub struct Journals {
    electorate: StoreElectorate,
    /// This node's vote; `None` while its store is none of the voters, or that is not settled.
    replica: Option<LogReplica<UniqueAddress>>,
    logs: OrderedMap<LogName, LocalLog>,
    halted: bool,
}

impl Journals {
    /// The stores that vote about logs, once that is settled.
    #[must_use]
    pub fn voters(&self) -> Option<&[StoreId]> {
        self.electorate.settled().map(|stores| &**stores)
    }

    /// Whether this node's store is one of them.
    #[must_use]
    pub const fn votes(&self) -> bool {
        self.replica.is_some()
    }

    /// Logs that this node owns, or tries to own.
    #[must_use]
    pub fn owned(&self) -> usize {
        self.logs.len()
    }

    /// The members have changed.
    pub(crate) fn on_view_changed(&mut self, cx: &mut Cx<'_>, after: &View) {
        let is_member = after
            .self_member()
            .is_some_and(|me| electorate::takes_part(me.status));
        if cx.config().journal.voters > 0 && is_member && !self.halted {
            self.with_electorate(cx, |electorate, cx| electorate.on_view_changed(cx, after));
        }
    }

    /// Calls the electorate. Once the voters are settled this node votes if it is one, and logs that wait are
    /// opened.
    fn with_electorate(&mut self, cx: &mut Cx<'_>, call: impl FnOnce(&mut StoreElectorate, &mut Cx<'_>)) {
        let was_settled = self.electorate.settled().is_some();
        call(&mut self.electorate, cx);
        let Some(stores) = self.electorate.settled().filter(|_| !was_settled) else {
            return;
        };
        let mine = self.electorate.store().filter(|store| stores.contains(store));
        cx.notify(Event::Settled {
            voters: stores.len(),
            votes: mine.is_some(),
        });
        let page_bytes = cx.config().journal.page_bytes;
        self.replica = mine.map(|store| LogReplica::new(store, page_bytes));
        self.open_waiting(cx);
    }

    /// Another node (or this one itself) speaks.
    pub(crate) fn on_message(&mut self, cx: &mut Cx<'_>, from: &UniqueAddress, msg: Msg) {
        // The picture may lag, and everything is said again: nothing is done for one that is no member here.
        let is_member = cx
            .view()
            .member(from)
            .is_some_and(|member| electorate::takes_part(member.status));
        if self.halted || !is_member || cx.config().journal.voters == 0 {
            return;
        }
        match msg {
            Msg::Voter(VoterMsg { to, body }) => {
                if to != *cx.me() {
                    return cx.reject(from, AnyRejection::WrongReceiver { to });
                }
                self.on_voter(cx, from, body);
            }
            Msg::Request(request) => self.on_request(cx, from, request),
            Msg::Reply(reply) => self.on_reply(cx, from, reply),
        }
    }

    fn on_voter(&mut self, cx: &mut Cx<'_>, from: &UniqueAddress, body: VoterBody) {
        self.with_electorate(cx, |electorate, cx| match body {
            VoterBody::Introduction { asks, store, voters } => {
                electorate.on_introduction(cx, from, asks, store, voters);
            }
            VoterBody::Elect { stores } => electorate.on_elect(cx, from, stores),
        });
    }

    fn on_request(&mut self, cx: &mut Cx<'_>, from: &UniqueAddress, request: ReplicaRequest) {
        let Some(replica) = &mut self.replica else {
            // Perhaps not yet: it is asked again.
            cx.counters().requests_shed += 1;
            return;
        };
        let mut out = Vec::new();
        replica.set_now(cx.mono());
        replica.on_request(from.clone(), request, &mut out);
        perform_replica(cx, out);
    }

    fn on_reply(&mut self, cx: &mut Cx<'_>, from: &UniqueAddress, reply: ReplicaReply) {
        if self.electorate.node_of(cx, reply.store).as_ref() != Some(from) {
            return cx.reject(from, AnyRejection::Journal(Rejection::OtherStore));
        }
        self.on_answer(cx, reply);
    }

    /// The store answers.
    pub(crate) fn on_stored(&mut self, cx: &mut Cx<'_>, report: StoreReport) {
        if self.halted {
            return;
        }
        if report.id >= FIRST_REQUEST {
            return self.with_electorate(cx, |electorate, cx| electorate.on_stored(cx, report));
        }
        if let Some(replica) = &mut self.replica {
            let mut out = Vec::new();
            replica.set_now(cx.mono());
            replica.on_stored(report, &mut out);
            perform_replica(cx, out);
        }
    }

    /// A timer is due.
    pub(crate) fn on_timer(&mut self, cx: &mut Cx<'_>, timer: Timer) {
        match timer {
            Timer::Introduce => self.with_electorate(cx, StoreElectorate::on_timer),
            Timer::Repeat(log) => self.repeat(cx, &log),
            Timer::TakeAgain(log) => self.take_again(cx, &log),
        }
    }

    /// What must hold between the calls.
    pub(crate) fn check_invariants(&self) -> Result<(), String> {
        if let Some(replica) = &self.replica
            && self
                .electorate
                .settled()
                .is_none_or(|stores| !stores.contains(&replica.store()))
        {
            return Err(String::from("a store votes that is no voter"));
        }
        self.logs
            .iter()
            .try_for_each(|(name, log)| log.check_invariants(name))
    }
}

fn perform_replica(cx: &mut Cx<'_>, out: Vec<ReplicaOutput<UniqueAddress>>) {
    for output in out {
        match output {
            ReplicaOutput::Store(request) => cx.order_store(request),
            ReplicaOutput::Reply(to, reply) => {
                match reply.said {
                    ReplicaAnswer::Refused { .. } => cx.counters().requests_refused += 1,
                    ReplicaAnswer::Page(_) | ReplicaAnswer::Accepted | ReplicaAnswer::Kept => {
                        cx.counters().requests_answered += 1
                    }
                }
                cx.send(&to, Msg::Reply(reply));
            }
            ReplicaOutput::Reject(from, rejection) => cx.reject(&from, AnyRejection::Journal(rejection)),
            ReplicaOutput::Shed => cx.counters().requests_shed += 1,
            ReplicaOutput::Failed(error) => {
                cx.counters().requests_failed += 1;
                if error == StoreError::Corrupt {
                    cx.notify(Event::Damaged);
                }
            }
        }
    }
}
