//! One voter of quorum logs: keeps promises, entries and snapshots in this node's store, and answers once
//! they are durable. Accepts a token that is not below its promise, which no entry's token is above; refuses
//! every other one, for ever. Never decides which entry of a log is true. Spec: sharding 10.7, 10.16;
//! reliability I-80, I-84.
//!
//! Of one log one request is done at a time; others wait, those of other logs do not. What is dropped here is
//! repeated by who asked. What it remembers of a log is a copy of what is durable, and is forgotten whenever
//! a write may have failed.

mod changes;
mod steps;

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Bound;

use self::changes::{accepted, loaded, page, put_head, replaced};
use self::steps::PromiseSteps;
use super::layout;
use super::protocol::{
    Rejection, ReplicaAnswer, ReplicaAsk, ReplicaPage, ReplicaReply, ReplicaRequest, SNAPSHOT_BYTES_MAX,
};
use super::state::{LogPlace, ReplicaHead, SnapshotHead, StoreId};
use crate::ordered::OrderedMap;
use crate::store::rules::admits_opening;
use crate::store::{Bytes, Change, StoreAnswer, StoreError, StoreOrder, StoreReport, StoreRequest};
use crate::time::Instant;
use crate::token::Token;

/// Logs whose promises are remembered: those in use on a busy node, some megabytes. Others are read from the
/// store again.
pub const LOGS_REMEMBERED_MAX: usize = 16_384;

/// Requests that wait for the store or for an earlier one of their log: one of each owner of a busy node.
pub const REQUESTS_MAX: usize = 4_096;

/// Their bytes, with parts of snapshots whose others have not come: a dozen of the largest.
pub const REQUEST_BYTES_MAX: usize = 48 << 20;

/// What the replica wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplicaOutput<A> {
    /// Ask the store.
    Store(StoreRequest),
    /// Answer this asker.
    Reply(A, ReplicaReply),
    /// This asker's request is void.
    Reject(A, Rejection),
    /// A request was dropped, because too many wait.
    Shed,
    /// The store failed: the request was dropped.
    Failed(StoreError),
}

/// See the module. `A` is the address of who asks.
#[derive(Clone, Debug)]
pub struct LogReplica<A> {
    store: StoreId,
    /// Bytes of a page, but for its first item.
    page_bytes: usize,
    slots: OrderedMap<Arc<str>, ReplicaLog<A>>,
    /// Which log each question to the store is about.
    asked: OrderedMap<u64, Arc<str>>,
    last_question: u64,
    waiting: usize,
    waiting_bytes: usize,
    /// The log that was forgotten last.
    forgotten: Arc<str>,
    now: Instant,
}

#[derive(Clone, Debug)]
struct ReplicaLog<A> {
    /// `None` while it is not known what the store holds.
    head: Option<ReplicaHead>,
    work: Option<ReplicaWork<A>>,
    waiting: VecDeque<(A, ReplicaRequest)>,
    coming: Option<ComingSnapshot>,
    steps: PromiseSteps,
}

/// A snapshot of which some parts have come.
#[derive(Clone, Debug)]
struct ComingSnapshot {
    snapshot: SnapshotHead,
    parts: OrderedMap<u32, Bytes>,
    bytes: usize,
}

#[derive(Clone, Debug)]
struct ReplicaWork<A> {
    asker: A,
    request: ReplicaRequest,
    step: ReplicaStep,
}

/// What the store is asked.
#[derive(Clone, Debug)]
enum ReplicaStep {
    Load,
    Write(ReplicaHead),
    Read,
}

impl<A: Clone> LogReplica<A> {
    /// The replica in this store, whose pages have about so many bytes.
    #[must_use]
    pub fn new(store: StoreId, page_bytes: usize) -> Self {
        Self {
            store,
            page_bytes,
            slots: OrderedMap::new(),
            asked: OrderedMap::new(),
            last_question: 0,
            waiting: 0,
            waiting_bytes: 0,
            forgotten: Arc::from(""),
            now: Instant::ZERO,
        }
    }

    /// So late it is.
    pub fn set_now(&mut self, now: Instant) {
        self.now = now;
    }

    /// The store that it keeps everything in.
    #[must_use]
    pub const fn store(&self) -> StoreId {
        self.store
    }

    /// Requests that are not answered yet, and the bytes that are held for them.
    #[must_use]
    pub const fn waiting(&self) -> (usize, usize) {
        (self.waiting, self.waiting_bytes)
    }

    /// An owner, or who wants to be one, asks.
    pub fn on_request(&mut self, asker: A, request: ReplicaRequest, out: &mut Vec<ReplicaOutput<A>>) {
        if request.store != self.store {
            return out.push(ReplicaOutput::Reject(asker, Rejection::OtherStore));
        }
        if let Err(rejection) = request.check() {
            return out.push(ReplicaOutput::Reject(asker, rejection));
        }
        let bytes = request.payload_bytes();
        if self.waiting >= REQUESTS_MAX || self.waiting_bytes.saturating_add(bytes) > REQUEST_BYTES_MAX {
            return out.push(ReplicaOutput::Shed);
        }
        self.waiting += 1;
        self.waiting_bytes += bytes;
        let log = Arc::clone(&request.log);
        if !self.slots.contains_key(&log) {
            self.make_room();
        }
        let slot = self.slots.entry(Arc::clone(&log)).or_insert_with(|| ReplicaLog {
            head: None,
            work: None,
            waiting: VecDeque::new(),
            coming: None,
            steps: PromiseSteps::default(),
        });
        slot.waiting.push_back((asker, request));
        self.go_on(&log, out);
    }

    /// The store answers.
    pub fn on_stored(&mut self, report: StoreReport, out: &mut Vec<ReplicaOutput<A>>) {
        let Some(log) = self.asked.remove(&report.id) else {
            return;
        };
        let Some(work) = self.slots.get_mut(&log).and_then(|slot| slot.work.take()) else {
            return;
        };
        let ReplicaWork { asker, request, step } = work;
        let ended = match step {
            ReplicaStep::Load => match report.outcome.and_then(loaded) {
                Ok(head) => {
                    self.remember(&log, Some(head));
                    self.decide(head, asker, request, out)
                }
                Err(error) => self.fail(&request, error, out),
            },
            ReplicaStep::Write(head) => match report.outcome {
                Ok(_) => {
                    self.remember(&log, Some(head));
                    match &request.ask {
                        ReplicaAsk::Promise | ReplicaAsk::Read { .. } => {
                            self.read(asker, request, LogPlace::START, out);
                            false
                        }
                        ReplicaAsk::Accept { .. } => {
                            self.answer(asker, &request, ReplicaAnswer::Accepted, out)
                        }
                        ReplicaAsk::Keep { .. } => self.answer(asker, &request, ReplicaAnswer::Kept, out),
                    }
                }
                Err(error) => {
                    // What was written may be there or not: nothing is known of it any more.
                    self.remember(&log, None);
                    self.fail(&request, error, out)
                }
            },
            ReplicaStep::Read => match report.outcome.and_then(|answer| self.page(&log, answer)) {
                Ok(page) => self.answer(asker, &request, ReplicaAnswer::Page(page), out),
                Err(error) => self.fail(&request, error, out),
            },
        };
        if ended {
            self.go_on(&log, out);
        }
    }

    /// Takes up what waits for a log, until the store is asked or nothing waits.
    fn go_on(&mut self, log: &Arc<str>, out: &mut Vec<ReplicaOutput<A>>) {
        while let Some(slot) = self.slots.get_mut(log) {
            if slot.work.is_some() {
                return;
            }
            let Some((asker, request)) = slot.waiting.pop_front() else {
                return;
            };
            let is_answered = match slot.head {
                Some(head) => self.decide(head, asker, request, out),
                None => {
                    let order = StoreOrder::Read {
                        key: layout::head_key(log),
                    };
                    self.ask(asker, request, ReplicaStep::Load, order, out);
                    false
                }
            };
            if !is_answered {
                return;
            }
        }
    }

    /// Does the next step of a request; says whether that was the last.
    fn decide(
        &mut self,
        head: ReplicaHead,
        asker: A,
        request: ReplicaRequest,
        out: &mut Vec<ReplicaOutput<A>>,
    ) -> bool {
        let (token, opener) = (request.token, request.opener);
        let held = head.promise;
        let is_owner = token == held && opener == head.opener;
        let promised = ReplicaHead {
            promise: token,
            opener,
            ..head
        };
        let now = self.now;
        let slot = self.slots.get_mut(&request.log);
        if token > held && !slot.is_some_and(|slot| slot.steps.takes(now, held.term, token.term)) {
            return self.answer(asker, &request, ReplicaAnswer::Refused { held }, out);
        }
        match &request.ask {
            ReplicaAsk::Promise => {
                if admits_opening(held, head.opener, token, opener).is_err() {
                    return self.answer(asker, &request, ReplicaAnswer::Refused { held }, out);
                }
                if is_owner {
                    self.read(asker, request, LogPlace::START, out);
                } else {
                    let changes = alloc::vec![put_head(&request.log, promised)];
                    self.write(asker, request, promised, changes, out);
                }
                false
            }
            ReplicaAsk::Read { from } => {
                if !is_owner {
                    return self.answer(asker, &request, ReplicaAnswer::Refused { held }, out);
                }
                let from = *from;
                self.read(asker, request, from, out);
                false
            }
            ReplicaAsk::Accept { .. } | ReplicaAsk::Keep { .. } if token < held => {
                self.answer(asker, &request, ReplicaAnswer::Refused { held }, out)
            }
            ReplicaAsk::Accept { .. } => {
                let mut changes = accepted(&request, head.snapshot);
                if !is_owner {
                    changes.push(put_head(&request.log, promised));
                }
                if changes.is_empty() {
                    return self.answer(asker, &request, ReplicaAnswer::Accepted, out);
                }
                self.write(asker, request, promised, changes, out);
                false
            }
            ReplicaAsk::Keep { snapshot, .. } => {
                if head.snapshot.is_some_and(|kept| kept.through >= snapshot.through) {
                    self.drop_parts(&request.log);
                    return self.answer(asker, &request, ReplicaAnswer::Kept, out);
                }
                let kept = ReplicaHead {
                    snapshot: Some(*snapshot),
                    ..promised
                };
                let Some(changes) = self.replace_snapshot(&request, kept) else {
                    self.release(&request);
                    return true;
                };
                self.write(asker, request, kept, changes, out);
                false
            }
        }
    }

    /// The snapshot in place of the earlier one and of every entry that it covers, once all of its parts have
    /// come.
    fn replace_snapshot(&mut self, request: &ReplicaRequest, head: ReplicaHead) -> Option<Vec<Change>> {
        let ReplicaAsk::Keep {
            snapshot,
            index,
            bytes,
        } = &request.ask
        else {
            return None;
        };
        let log = &request.log;
        let parts = self.collect(log, *snapshot, (*index, Bytes::clone(bytes)))?;
        Some(replaced(log, head, snapshot.through, parts))
    }

    /// Takes a part of a snapshot; all of them if they are complete by it.
    fn collect(&mut self, log: &str, snapshot: SnapshotHead, part: (u32, Bytes)) -> Option<Vec<Bytes>> {
        if snapshot.parts == 0 {
            self.drop_parts(log);
            return Some(Vec::new());
        }
        let slot = self.slots.get_mut(log)?;
        if slot
            .coming
            .as_ref()
            .is_none_or(|coming| coming.snapshot != snapshot)
        {
            self.drop_parts(log);
        }
        let slot = self.slots.get_mut(log)?;
        let coming = slot.coming.get_or_insert_with(|| ComingSnapshot {
            snapshot,
            parts: OrderedMap::new(),
            bytes: 0,
        });
        let (index, bytes) = part;
        if !coming.parts.contains_key(&index) {
            if coming.bytes.saturating_add(bytes.len()) > SNAPSHOT_BYTES_MAX {
                self.drop_parts(log);
                return None;
            }
            coming.bytes += bytes.len();
            self.waiting_bytes += bytes.len();
            coming.parts.insert(index, bytes);
        }
        if coming.parts.len() != snapshot.parts as usize {
            return None;
        }
        let parts = coming.parts.values().map(Bytes::clone).collect();
        self.drop_parts(log);
        Some(parts)
    }

    fn drop_parts(&mut self, log: &str) {
        if let Some(coming) = self.slots.get_mut(log).and_then(|slot| slot.coming.take()) {
            self.waiting_bytes = self.waiting_bytes.saturating_sub(coming.bytes);
        }
    }

    fn page(&self, log: &str, answer: StoreAnswer) -> Result<ReplicaPage, StoreError> {
        let head = self.slots.get(log).and_then(|slot| slot.head);
        page(log, head.and_then(|head| head.snapshot), answer)
    }

    fn read(&mut self, asker: A, request: ReplicaRequest, from: LogPlace, out: &mut Vec<ReplicaOutput<A>>) {
        let order = StoreOrder::Range {
            from: layout::item_key(&request.log, from),
            to: Some(layout::end_key(&request.log)),
            bytes_max: self.page_bytes,
        };
        self.ask(asker, request, ReplicaStep::Read, order, out);
    }

    fn write(
        &mut self,
        asker: A,
        request: ReplicaRequest,
        head: ReplicaHead,
        batch: Vec<Change>,
        out: &mut Vec<ReplicaOutput<A>>,
    ) {
        self.ask(
            asker,
            request,
            ReplicaStep::Write(head),
            StoreOrder::Write { batch },
            out,
        );
    }

    fn ask(
        &mut self,
        asker: A,
        request: ReplicaRequest,
        step: ReplicaStep,
        order: StoreOrder,
        out: &mut Vec<ReplicaOutput<A>>,
    ) {
        self.last_question += 1;
        let id = self.last_question;
        self.asked.insert(id, Arc::clone(&request.log));
        if let Some(slot) = self.slots.get_mut(&request.log) {
            slot.work = Some(ReplicaWork { asker, request, step });
        }
        out.push(ReplicaOutput::Store(StoreRequest { id, order }));
    }

    /// The request is done with.
    fn answer(
        &mut self,
        asker: A,
        request: &ReplicaRequest,
        said: ReplicaAnswer,
        out: &mut Vec<ReplicaOutput<A>>,
    ) -> bool {
        self.release(request);
        let reply = ReplicaReply {
            log: Arc::clone(&request.log),
            store: self.store,
            opener: request.opener,
            id: request.id,
            said,
        };
        out.push(ReplicaOutput::Reply(asker, reply));
        true
    }

    fn fail(&mut self, request: &ReplicaRequest, error: StoreError, out: &mut Vec<ReplicaOutput<A>>) -> bool {
        self.release(request);
        out.push(ReplicaOutput::Failed(error));
        true
    }

    fn release(&mut self, request: &ReplicaRequest) {
        self.waiting = self.waiting.saturating_sub(1);
        self.waiting_bytes = self.waiting_bytes.saturating_sub(request.payload_bytes());
    }

    fn remember(&mut self, log: &str, head: Option<ReplicaHead>) {
        if let Some(slot) = self.slots.get_mut(log) {
            slot.head = head;
        }
    }

    /// Forgets a log that nothing is done with, if as many are remembered as may be: each in its turn.
    fn make_room(&mut self) {
        if self.slots.len() < LOGS_REMEMBERED_MAX {
            return;
        }
        let behind = (Bound::Excluded(Arc::clone(&self.forgotten)), Bound::Unbounded);
        let idle = |(_, slot): &(&Arc<str>, &ReplicaLog<A>)| slot.work.is_none() && slot.waiting.is_empty();
        let found = self
            .slots
            .range(behind)
            .find(idle)
            .or_else(|| self.slots.iter().find(idle));
        if let Some(log) = found.map(|(log, _)| Arc::clone(log)) {
            self.drop_parts(&log);
            self.slots.remove(&log);
            self.forgotten = log;
        }
    }
}

impl<A> LogReplica<A> {
    /// The token that is promised for a log; `None` if it is not remembered.
    #[must_use]
    pub fn promised(&self, log: &str) -> Option<Token> {
        self.slots.get(log)?.head.map(|head| head.promise)
    }
}
