//! Durable buckets on the node's store: finds out which store that is, reads what it holds of a bucket before
//! that one's store says anything, then has changes kept, one bucket's after another's, until they are. What
//! fails is asked again: until it is kept nobody hears of it. Spec: sharding 10.10, 10.19; reliability I-80
//! to I-84.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::bucket::BucketStanding;
use super::hosting::{BucketStore, StoredBucket};
use super::layout::{self, StoredPlace};
use super::protocol::{Event, KvCommandError};
use super::state::bucket::BucketName;
use super::state::entry::KvEntry;
use super::state::settings::BucketSettings;
use super::{Cx, KeyedStore, refuse};
use crate::store::limits::ANSWER_BYTES_MAX;
use crate::store::{
    Bytes, Change, StoreAnswer, StoreError, StoreIdentity, StoreOrder, StoreReport, StoreRequest,
};
use crate::wire::StoredForm;

#[derive(Clone, Debug)]
enum KeepRequest {
    /// Which store is it?
    Identify,
    /// A part of what it holds of a bucket.
    Load(BucketName),
    /// The settings of a bucket that it holds nothing of.
    Begin(BucketName),
    /// Changes of a bucket.
    Write(BucketName),
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Keeping {
    last: u64,
    identity: Option<StoreIdentity>,
    /// At most one request is on its way.
    open: Option<(u64, KeepRequest, StoreOrder)>,
    /// What failed, to be asked again.
    failed: Option<(KeepRequest, StoreOrder)>,
    /// Buckets that are to be read, the first one under way with what it holds so far.
    loading: VecDeque<(BucketName, StoredBucket)>,
    /// Buckets that stand and that the store holds nothing of: their settings come first.
    beginning: VecDeque<BucketName>,
    /// The bucket whose changes were kept last.
    turn: Option<BucketName>,
}

impl Keeping {
    /// Whether something failed that is asked again.
    pub(super) const fn waits(&self) -> bool {
        self.failed.is_some()
    }

    fn ask(&mut self, cx: &mut Cx<'_>, request: KeepRequest, order: StoreOrder) {
        self.last += 1;
        let id = self.last;
        self.open = Some((id, request, order.clone()));
        cx.order_store(StoreRequest { id, order });
    }

    /// Asks again what failed.
    pub(super) fn repeat(&mut self, cx: &mut Cx<'_>) {
        if let Some((request, order)) = self.failed.take() {
            self.ask(cx, request, order);
        }
    }
}

impl KeyedStore {
    /// A durable bucket is to be read before its store says anything.
    pub(super) fn load_bucket(&mut self, cx: &mut Cx<'_>, bucket: &BucketName) {
        self.keeping
            .loading
            .push_back((bucket.clone(), StoredBucket::default()));
        self.keep(cx);
    }

    /// Has the node's store do what is next, unless it is busy.
    pub(super) fn keep(&mut self, cx: &mut Cx<'_>) {
        let keeping = &mut self.keeping;
        if self.is_halted || keeping.open.is_some() || keeping.failed.is_some() {
            return;
        }
        if let Some((bucket, _)) = keeping.loading.front() {
            let (request, order) = match keeping.identity {
                None => (KeepRequest::Identify, StoreOrder::Identify),
                Some(_) => {
                    let (from, to) = layout::whole(bucket);
                    (KeepRequest::Load(bucket.clone()), range(from, to))
                }
            };
            return keeping.ask(cx, request, order);
        }
        let keeping = &mut self.keeping;
        while let Some(bucket) = keeping.beginning.pop_front() {
            let open = self.buckets.get(&bucket);
            let value = open.and_then(|open| open.settings().to_bytes().ok());
            if let Some(value) = value {
                let key = layout::settings_key(&bucket);
                let batch = [Change::Put { key, value }].into();
                let order = StoreOrder::Write { batch };
                return keeping.ask(cx, KeepRequest::Begin(bucket), order);
            }
        }
        let mut names: Vec<BucketName> = self.buckets.keys().cloned().collect();
        let behind = names.partition_point(|name| Some(name) <= self.keeping.turn.as_ref());
        names.rotate_left(behind);
        let next = names.into_iter().find_map(|name| {
            let open = self
                .buckets
                .get_mut(&name)
                .filter(|open| open.settings().is_durable)?;
            let batch = open.store.as_mut()?.batch(&name)?;
            Some((name, batch))
        });
        if let Some((name, batch)) = next {
            self.keeping.turn = Some(name.clone());
            self.keeping
                .ask(cx, KeepRequest::Write(name), StoreOrder::Write { batch });
        }
    }

    /// The node's store answers.
    pub(crate) fn on_stored(&mut self, cx: &mut Cx<'_>, report: StoreReport) {
        let is_mine = |open: &mut (u64, KeepRequest, StoreOrder)| open.0 == report.id;
        let Some((_, request, order)) = self.keeping.open.take_if(is_mine) else {
            return;
        };
        if self.is_halted {
            return;
        }
        match (request, report.outcome) {
            (KeepRequest::Identify, Ok(StoreAnswer::Identity(identity))) => {
                self.keeping.identity = Some(identity);
            }
            (KeepRequest::Load(bucket), Ok(StoreAnswer::Items { items, more })) => {
                self.on_loaded(cx, &bucket, &items, more);
            }
            (KeepRequest::Begin(bucket), Ok(StoreAnswer::Written)) => self.serve(cx, &bucket),
            (KeepRequest::Write(bucket), Ok(StoreAnswer::Written)) => {
                let now = cx.mono();
                let open = self.buckets.get_mut(&bucket);
                if let Some(store) = open.and_then(|open| open.store.as_mut()) {
                    store.on_kept(now);
                }
                self.speak_for_store(cx, &bucket);
            }
            (KeepRequest::Identify, Err(StoreError::NoStore)) => {
                while let Some((bucket, _)) = self.keeping.loading.pop_front() {
                    self.give_up(cx, &bucket, &KvCommandError::NoStore);
                }
            }
            (KeepRequest::Load(bucket), Err(StoreError::Corrupt)) => {
                self.keeping.loading.pop_front();
                self.on_damaged(cx, &bucket);
            }
            (request, _) => {
                cx.counters().store_failures += 1;
                self.keeping.failed = Some((request, order));
            }
        }
        self.keep(cx);
        self.await_next(cx);
    }

    /// A part of what the node's store holds of a bucket.
    fn on_loaded(&mut self, cx: &mut Cx<'_>, bucket: &BucketName, items: &[(Bytes, Bytes)], more: bool) {
        let Some((_, stored)) = self.keeping.loading.front_mut() else {
            return;
        };
        for (key, value) in items {
            if take_in(stored, bucket, key, value).is_none() {
                self.keeping.loading.pop_front();
                return self.on_damaged(cx, bucket);
            }
        }
        if let Some((last, _)) = items.last().filter(|_| more) {
            let mut next = last.to_vec();
            next.push(0);
            let (_, to) = layout::whole(bucket);
            let order = range(Bytes::from(next), to);
            return self.keeping.ask(cx, KeepRequest::Load(bucket.clone()), order);
        }
        let Some((_, stored)) = self.keeping.loading.pop_front() else {
            return;
        };
        let Some(open) = self.buckets.get_mut(bucket) else {
            return;
        };
        let kept = stored.settings.as_ref();
        if let Some(difference) = kept.and_then(|kept| open.settings().differs_from(kept)) {
            return self.give_up(cx, bucket, &KvCommandError::Differs { difference });
        }
        open.loaded = Some(stored);
        self.register(cx, bucket);
    }

    /// The settings of a bucket stand that has been read: what it begins with is kept before it is served.
    pub(super) fn begin_loaded(&mut self, cx: &mut Cx<'_>, bucket: &BucketName) {
        let loaded = self.buckets.get(bucket).and_then(|open| open.loaded.as_ref());
        if loaded.is_some_and(|loaded| loaded.settings.is_some()) {
            self.serve(cx, bucket);
        } else {
            self.keeping.beginning.push_back(bucket.clone());
        }
    }

    /// All that the node's store holds of a bucket is known, and its settings are kept.
    fn serve(&mut self, cx: &mut Cx<'_>, bucket: &BucketName) {
        let host = self.host_settings(cx, bucket);
        let open = self.buckets.get_mut(bucket);
        let (Some(open), Some(host), Some(identity)) = (open, host, self.keeping.identity) else {
            return;
        };
        let Some(loaded) = open.loaded.take() else {
            return;
        };
        let Some(store) = BucketStore::open(identity, host, loaded, cx.now()) else {
            return self.on_damaged(cx, bucket);
        };
        open.store = Some(store);
        self.look(cx, bucket);
        self.speak_for_store(cx, bucket);
    }

    fn on_damaged(&mut self, cx: &mut Cx<'_>, bucket: &BucketName) {
        cx.say_registered(bucket.clone(), None);
        self.give_up(cx, bucket, &KvCommandError::StoreDamaged);
        cx.notify((bucket.clone(), Event::StoreDamaged));
    }

    /// This node takes no part in the bucket.
    pub(super) fn give_up(&mut self, cx: &mut Cx<'_>, bucket: &BucketName, error: &KvCommandError) {
        if let Some(open) = self.buckets.get_mut(bucket) {
            open.standing = BucketStanding::Refused;
            open.loaded = None;
            for caller in core::mem::take(&mut open.waits) {
                refuse(cx, caller, error.clone());
            }
        }
    }
}

fn range(from: Bytes, to: Bytes) -> StoreOrder {
    StoreOrder::Range {
        from,
        to: Some(to),
        bytes_max: ANSWER_BYTES_MAX,
    }
}

/// `None` if nobody wrote that here.
fn take_in(stored: &mut StoredBucket, bucket: &BucketName, key: &[u8], value: &Bytes) -> Option<()> {
    match layout::place(bucket, key)? {
        StoredPlace::Settings => stored.settings = Some(BucketSettings::from_bytes(value).ok()?),
        StoredPlace::Seen => stored.seen_ms = Some(u64::from_le_bytes((**value).try_into().ok()?)),
        StoredPlace::Head(range) => {
            stored.heads.insert(range, value.clone());
        }
        StoredPlace::Entry(range, key) => {
            let entry = KvEntry::decode(value).ok()?;
            stored.entries.entry(range).or_default().insert(key, entry);
        }
        StoredPlace::Hint(owner, key) => {
            let (since, entry) = value.split_first_chunk()?;
            let hint = (u64::from_le_bytes(*since), KvEntry::decode(entry).ok()?);
            stored.hints.insert((owner, key), hint);
        }
    }
    Some(())
}
