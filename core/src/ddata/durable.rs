//! Keys that the store keeps: reads all of it before anything is served, then stores what changed, one batch
//! after the other, and answers who waits once it is durable. Never does I/O. Spec: sharding 1.12 (durable),
//! 10.10; reliability I-81.

use alloc::vec::Vec;
use core::time::Duration;

use super::entries::KeyEntries;
use super::protocol::{DdataBody, Event, Nack, Timer};
use super::state::key::{Key, VALUE};
use super::{Replicator, ReplicatorStage, send};
use crate::ddata::Cx;
use crate::ident::UniqueAddress;
use crate::ordered::OrderedMap;
use crate::store::limits::{ANSWER_BYTES_MAX, CHANGES_PER_BATCH_MAX, ORDER_BYTES_MAX};
use crate::store::{Bytes, Change, StoreAnswer, StoreError, StoreOrder, StoreReport, StoreRequest};
use crate::wire;

/// A store that cannot be read for the time being is asked again after the first of these, then after twice
/// as long, up to the second: a store that is being opened takes a moment, a database that is down minutes,
/// and nobody is to wait for long once it is there.
const LOAD_AGAIN_MIN: Duration = Duration::from_millis(100);
const LOAD_AGAIN_MAX: Duration = Duration::from_secs(5);

/// When this replica was last known to be alive, by the wall clock. Stands before all values.
const ALIVE: &[u8] = b"a";

/// Who waits until a key is durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum DurableWaiter {
    /// An operation of this node.
    Local { operation: u64 },
    /// One of another.
    Remote { node: UniqueAddress, operation: u64 },
}

#[derive(Clone, Debug)]
enum DurableRequest {
    /// A part of what is stored.
    Load,
    /// When this replica was last alive.
    Age,
    /// A batch, and who waits for it.
    Write(OrderedMap<Key, Vec<DurableWaiter>>),
}

/// What is to be stored, and what is on its way.
#[derive(Clone, Debug, Default)]
pub(super) struct DurableKeys {
    last: u64,
    /// At most one: the next batch gathers until it is done.
    open: Option<(u64, DurableRequest)>,
    dirty: OrderedMap<Key, Vec<DurableWaiter>>,
    alive_due: bool,
    /// The write-behind interval runs.
    gathering: bool,
    /// The store refused; the next gossip tick tries again.
    held_back: bool,
    /// What was asked last while the store is read, to be asked again, and the time until then.
    loading: Option<(DurableRequest, StoreOrder)>,
    load_again: Duration,
}

impl DurableKeys {
    /// A key changed, or somebody waits for it.
    pub(super) fn note(&mut self, key: &Key, waiter: Option<DurableWaiter>) {
        self.dirty.entry(key.clone()).or_default().extend(waiter);
    }

    pub(super) fn note_alive(&mut self) {
        self.alive_due = true;
    }

    /// The store refused for the time being; it is asked again.
    pub(super) fn retry(&mut self) {
        self.held_back = false;
    }

    /// Whether the store lacks a change of a key.
    pub(super) fn lacks(&self, key: &Key) -> bool {
        let is_under_way = match &self.open {
            Some((_, DurableRequest::Write(batch))) => batch.contains_key(key),
            Some((_, DurableRequest::Load | DurableRequest::Age)) | None => false,
        };
        is_under_way || self.dirty.contains_key(key)
    }

    pub(super) const fn is_held_back(&self) -> bool {
        self.held_back
    }

    pub(super) fn on_write_behind(&mut self) {
        self.gathering = false;
    }

    /// Begins to read what is stored.
    pub(super) fn load(&mut self, cx: &mut Cx<'_>) {
        self.ask(
            cx,
            DurableRequest::Age,
            StoreOrder::Read {
                key: Bytes::from(ALIVE),
            },
        );
    }

    fn load_from(&mut self, cx: &mut Cx<'_>, from: Bytes) {
        let order = StoreOrder::Range {
            from,
            to: Some(Bytes::from(&[VALUE + 1][..])),
            bytes_max: ANSWER_BYTES_MAX,
        };
        self.ask(cx, DurableRequest::Load, order);
    }

    /// The part of the store that could not be read is asked for again.
    pub(super) fn load_again(&mut self, cx: &mut Cx<'_>) {
        if let Some((request, order)) = self.loading.take() {
            self.ask(cx, request, order);
        }
    }

    /// The store cannot be read for the time being; whether that is news.
    fn wait_for_store(&mut self, cx: &mut Cx<'_>, request: DurableRequest) -> bool {
        let is_news = self.load_again.is_zero();
        self.load_again = (self.load_again * 2).clamp(LOAD_AGAIN_MIN, LOAD_AGAIN_MAX);
        if let Some((asked, _)) = &mut self.loading {
            *asked = request;
        }
        cx.wake(Timer::Load, cx.mono() + self.load_again);
        is_news
    }

    fn ask(&mut self, cx: &mut Cx<'_>, request: DurableRequest, order: StoreOrder) {
        match request {
            DurableRequest::Load | DurableRequest::Age => {
                self.loading = Some((request.clone(), order.clone()))
            }
            DurableRequest::Write(_) => {}
        }
        self.last += 1;
        self.open = Some((self.last, request));
        let request = StoreRequest { id: self.last, order };
        cx.order_store(request);
    }
}

impl Replicator {
    /// The store answers.
    pub(crate) fn on_stored(&mut self, cx: &mut Cx<'_>, report: StoreReport) {
        let is_mine = self.durable.open.as_ref().is_some_and(|(id, _)| *id == report.id);
        let Some((_, request)) = self.durable.open.take_if(|_| is_mine) else {
            return;
        };
        if self.stage == ReplicatorStage::Stopped {
            return;
        }
        self.notice_absence_now(cx);
        match (request, report.outcome) {
            (DurableRequest::Age, Ok(StoreAnswer::Value(value))) => {
                let away = away(cx, value.as_deref());
                let is_outdated = away > cx.config().ddata.durable_pruning_marker_time_to_live;
                if is_outdated && !cx.config().ddata.load_outdated {
                    cx.notify(Event::StoreOutdated { away });
                    return self.stop(cx);
                }
                self.durable.load_from(cx, Bytes::from(&[VALUE][..]));
            }
            (DurableRequest::Load, Ok(StoreAnswer::Items { items, more })) => {
                self.on_loaded(cx, &items, more)
            }
            (DurableRequest::Write(waiters), outcome) => self.on_batch_done(cx, waiters, outcome.is_ok()),
            (
                request @ (DurableRequest::Age | DurableRequest::Load),
                Err(error @ (StoreError::Busy | StoreError::Full | StoreError::Unavailable)),
            ) => {
                if self.durable.wait_for_store(cx, request) {
                    cx.notify(Event::StoreAwaited { error });
                }
            }
            // Nothing can be served without what is stored.
            (DurableRequest::Age | DurableRequest::Load, _) => self.on_store_lost(cx),
        }
        self.after_input(cx);
    }

    fn on_loaded(&mut self, cx: &mut Cx<'_>, items: &[(Bytes, Bytes)], more: bool) {
        for (stored_key, value) in items {
            let Ok((key, envelope)) = wire::decode_stored(value, &cx.config().ddata.custom_types) else {
                return self.on_store_lost(cx);
            };
            if **stored_key != *key.stored() || self.merge_in(cx, None, &key, envelope, cx.mono()).is_err() {
                return self.on_store_lost(cx);
            }
        }
        match items.last() {
            Some((last, _)) if more => {
                let mut next = last.to_vec();
                next.push(0);
                self.durable.load_from(cx, Bytes::from(next));
            }
            Some(_) | None => {
                // What was loaded need not be stored again.
                self.durable.dirty.clear();
                self.durable.alive_due = true;
                self.durable.loading = None;
                if !core::mem::take(&mut self.durable.load_again).is_zero() {
                    cx.notify(Event::StoreRead);
                }
                self.serve(cx);
            }
        }
    }

    fn on_batch_done(
        &mut self,
        cx: &mut Cx<'_>,
        batch: OrderedMap<Key, Vec<DurableWaiter>>,
        is_stored: bool,
    ) {
        if !is_stored {
            cx.counters().store_failures += 1;
            self.durable.held_back = true;
        }
        for (key, waiters) in batch {
            if !is_stored {
                self.durable.note(&key, None);
            }
            for waiter in waiters {
                match waiter {
                    DurableWaiter::Local { operation } => self.on_stored_here(cx, operation, is_stored),
                    DurableWaiter::Remote { node, operation } => {
                        let body = if is_stored {
                            DdataBody::WriteAck { operation }
                        } else {
                            let reason = Nack::Store;
                            DdataBody::WriteNack { operation, reason }
                        };
                        send(cx, &node, body);
                    }
                }
            }
        }
    }

    /// Has the store keep what was noted, unless it is busy with what was noted before.
    pub(super) fn store_noted(&mut self, cx: &mut Cx<'_>) {
        let takes_part = self.takes_part();
        let durable = &mut self.durable;
        let is_due = !durable.dirty.is_empty() || durable.alive_due;
        if !takes_part || !is_due || durable.open.is_some() {
            return;
        }
        if durable.held_back || cx.config().ddata.durable_keys.is_empty() {
            return self.refuse_waiters(cx);
        }
        if let Some(interval) = cx.config().ddata.write_behind_interval {
            if durable.gathering {
                return;
            }
            durable.gathering = true;
            cx.wake(Timer::WriteBehind, cx.mono() + interval);
        }
        let mut batch = Vec::new();
        if core::mem::take(&mut durable.alive_due) {
            batch.push(Change::Put {
                key: Bytes::from(ALIVE),
                value: Bytes::from(&cx.now().unix_ms.to_le_bytes()[..]),
            });
        }
        let mut bytes = 0;
        let mut waiters = OrderedMap::new();
        while let Some((key, waiting)) = durable.dirty.pop_first() {
            let Some(change) = stored(&self.entries, &key) else {
                continue;
            };
            let weight = match &change {
                Change::Put { value, .. } => value.len() + key.as_str().len(),
                Change::Delete { .. } | Change::DeleteRange { .. } => key.as_str().len(),
            };
            let is_full = batch.len() >= CHANGES_PER_BATCH_MAX || bytes + weight > ORDER_BYTES_MAX / 2;
            if is_full && !batch.is_empty() {
                durable.dirty.insert(key, waiting);
                break;
            }
            bytes += weight;
            batch.push(change);
            waiters.insert(key, waiting);
        }
        durable.ask(cx, DurableRequest::Write(waiters), StoreOrder::Write { batch });
    }

    /// The store refused a moment ago: who came since is told at once, and the values are stored later.
    fn refuse_waiters(&mut self, cx: &mut Cx<'_>) {
        let dirty = core::mem::take(&mut self.durable.dirty);
        let (quiet, waiting): (OrderedMap<_, _>, OrderedMap<_, _>) =
            dirty.into_iter().partition(|(_, waiters)| waiters.is_empty());
        self.durable.dirty = quiet;
        if !waiting.is_empty() {
            self.on_batch_done(cx, waiting, false);
        }
    }
}

/// How the store is to hold a key now.
fn stored(entries: &KeyEntries, key: &Key) -> Option<Change> {
    let place = key.stored();
    Some(match entries.get(key) {
        None => Change::Delete { key: place },
        Some(entry) => {
            let encoded = wire::encode_stored(key, &entry.envelope);
            debug_assert!(encoded.is_ok(), "what is held can be written");
            let value = Bytes::from(encoded.ok()?);
            Change::Put { key: place, value }
        }
    })
}

/// For how long this replica was not alive (I-66); nothing if it never was.
fn away(cx: &Cx<'_>, alive: Option<&[u8]>) -> Duration {
    let alive_ms = alive
        .and_then(|bytes| bytes.first_chunk().copied())
        .map(u64::from_le_bytes);
    let away_ms = alive_ms.map_or(0, |alive_ms| cx.now().unix_ms.saturating_sub(alive_ms));
    Duration::from_millis(away_ms)
}
