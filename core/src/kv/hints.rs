//! Gives owners that are back what others kept for them: as an ordinary merge, under the range's present
//! owners, some at a time. What is refused for good is dropped; what is not answered is given again. Spec:
//! sharding 5.6, 10.19 b, e, g.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::bucket::OpenBucket;
use super::protocol::hints::{HintAnswer, HintStatement};
use super::protocol::{BucketBody, OwnerAnswer, OwnerAsk, Rejection};
use super::state::bucket::BucketName;
use super::state::configuration::OwnersTally;
use super::state::entry::KvEntry;
use super::state::exchange::{KvAnswer, KvAsk, KvRefusal};
use super::state::table::RangeId;
use super::sweeping::ANSWERS_WITHIN;
use super::{Cx, KeyedStore, send};
use crate::ddata::state::key::Key;
use crate::ident::UniqueAddress;
use crate::journal::state::StoreId;
use crate::ordered::OrderedMap;
use crate::time::Instant;

/// Hints that are on their way to one owner at once, at most: it serves calls as well.
const IN_FLIGHT_MAX: usize = 64;

/// Hints for one owner that are looked at in one interval: a fraction of a millisecond of work.
const LOOKED_AT_MAX: usize = 256;

/// A hint that is on its way.
#[derive(Clone, Debug)]
struct SentHint {
    bucket: BucketName,
    owner: StoreId,
    key: Key,
    range: RangeId,
    entry: KvEntry,
    /// Who is to have it.
    targets: Vec<StoreId>,
    tally: OwnersTally,
    /// When it is given again, unless there is an answer.
    due: Instant,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Hinting {
    sent: OrderedMap<u64, SentHint>,
    /// Behind which key the next look for an owner begins; of none that has no hints.
    places: OrderedMap<(BucketName, StoreId), Key>,
    /// When the tables were asked for last, because owners may have been replaced that are away.
    looked_at: Option<Instant>,
}

impl Hinting {
    /// The keys of hints that are on their way to an owner.
    fn keys_of(&self, bucket: &BucketName, owner: StoreId) -> Vec<Key> {
        let sent = self.sent.values();
        let sent = sent.filter(|sent| sent.owner == owner && sent.bucket == *bucket);
        sent.map(|sent| sent.key.clone()).collect()
    }
}

impl KeyedStore {
    /// A node asks this one in place of an owner, or answers so.
    pub(super) fn on_hint(
        &mut self,
        cx: &mut Cx<'_>,
        from: &UniqueAddress,
        bucket: &BucketName,
        statement: HintStatement,
    ) -> Result<(), Rejection> {
        match statement {
            HintStatement::Ask(asked) => {
                cx.counters().asked += 1;
                let Some(open) = self.buckets.get_mut(bucket) else {
                    return Ok(());
                };
                let known = open.configuration(asked.range).cloned();
                let store = open.store.as_mut().filter(|own| own.id() == asked.store);
                store.map_or(Ok(()), |store| {
                    store.on_hint_ask(from, &asked, known.as_ref(), cx.now())
                })
            }
            HintStatement::Answer(answered) => self.on_hint_answer(cx, from, bucket, answered),
        }
    }

    /// A store answers in place of an owner.
    fn on_hint_answer(
        &mut self,
        cx: &mut Cx<'_>,
        from: &UniqueAddress,
        bucket: &BucketName,
        answered: HintAnswer,
    ) -> Result<(), Rejection> {
        let Some(open) = self.buckets.get(bucket) else {
            return Ok(());
        };
        if !(open.settings().is_sloppy && answered.is_possible()) {
            return Err(Rejection::NoStandIn);
        }
        let said = OwnerAnswer {
            store: answered.owner,
            call: answered.call,
            step: answered.step,
            epoch: answered.epoch,
            answer: answered.answer,
        };
        self.on_call_answer(cx, (from, answered.store, answered.age_ms), said);
        Ok(())
    }

    /// Gives owners what this node's stores keep for them, if they can be reached.
    pub(super) fn deliver_hints(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now();
        self.hinting.sent.retain(|_, sent| sent.due > now.mono);
        let is_due = |at: Instant| now.mono.since(at) >= ANSWERS_WITHIN;
        let looks = self.hinting.looked_at.is_none_or(is_due);
        let buckets: Vec<BucketName> = self.buckets.keys().cloned().collect();
        for bucket in buckets {
            let Some(open) = self.buckets.get_mut(&bucket) else {
                continue;
            };
            let Some(store) = open.store.as_mut() else {
                continue;
            };
            store.expire_hints(now.unix_ms);
            let owners: Vec<StoreId> = store.hinted_owners().collect();
            let is_hinted = |owner: &StoreId| owners.binary_search(owner).is_ok();
            let places = &mut self.hinting.places;
            places.retain(|(of, owner), _| *of != bucket || is_hinted(owner));
            if looks && !owners.is_empty() {
                self.hinting.looked_at = Some(now.mono);
                open.miss();
            }
            for owner in owners {
                self.deliver_to(cx, &bucket, owner);
            }
            self.speak_for_store(cx, &bucket);
        }
        self.keep(cx);
    }

    fn deliver_to(&mut self, cx: &mut Cx<'_>, bucket: &BucketName, owner: StoreId) {
        let sent = self.hinting.keys_of(bucket, owner);
        let (view, is_leaving) = (Arc::clone(cx.view()), self.is_draining);
        let Some(open) = self.buckets.get_mut(bucket) else {
            return;
        };
        // If it is not known where it is, or is known no more, the table says more.
        open.place_of(owner, &view);
        let of = (bucket.clone(), owner);
        let place = self.hinting.places.remove(&of);
        let mut next = None;
        let mut found = Vec::new();
        let mut looked = 0;
        let hints = open.store().into_iter();
        let mut hints = hints
            .flat_map(|store| store.hints_for(owner, place.as_ref()))
            .peekable();
        while looked < LOOKED_AT_MAX
            && sent.len() + found.len() < IN_FLIGHT_MAX
            && let Some((key, entry)) = hints.next()
        {
            looked += 1;
            next = hints.peek().map(|_| key.clone());
            let range = open.settings().range_of(key);
            let owners = open.configuration(range).filter(|_| !sent.contains(key));
            let targets = owners.map(|owners| open.hint_targets(owners, owner, is_leaving, &view));
            if let (Some(owners), Some(targets)) = (owners, targets.filter(|targets| !targets.is_empty())) {
                found.push(SentHint {
                    bucket: bucket.clone(),
                    owner,
                    key: key.clone(),
                    range,
                    entry: entry.clone(),
                    targets,
                    tally: OwnersTally::new(owners.clone()),
                    due: cx.mono() + ANSWERS_WITHIN,
                });
            }
        }
        drop(hints);
        if let Some(next) = next {
            self.hinting.places.insert(of, next);
        }
        for sent in found {
            self.send_hint(cx, sent);
        }
    }

    fn send_hint(&mut self, cx: &mut Cx<'_>, sent: SentHint) {
        let number = self.calls.draw_number();
        let open = self.buckets.get(&sent.bucket);
        for target in &sent.targets {
            let Some(node) = open.and_then(|open| open.node_of(*target)) else {
                continue;
            };
            let asked = OwnerAsk {
                store: *target,
                range: sent.range,
                configuration: sent.tally.configuration().clone(),
                key: sent.key.clone(),
                call: number,
                step: 0,
                ask: KvAsk::Merge(sent.entry.clone()),
            };
            send(cx, node, &sent.bucket, BucketBody::Ask(Box::new(asked)));
        }
        self.hinting.sent.insert(number, sent);
    }

    /// An owner answers whether it has taken in a hint; whether it was asked that.
    pub(super) fn on_hint_taken(
        &mut self,
        cx: &mut Cx<'_>,
        from: &UniqueAddress,
        said: &OwnerAnswer,
    ) -> bool {
        let Some(sent) = self.hinting.sent.get_mut(&said.call) else {
            return false;
        };
        let Some(open) = self.buckets.get_mut(&sent.bucket) else {
            return true;
        };
        if open.node_of(said.store) != Some(from) || !sent.targets.contains(&said.store) {
            return true;
        }
        match &said.answer {
            KvAnswer::Done => {
                sent.tally.count(said.store, said.epoch);
                if !sent.targets.iter().all(|target| sent.tally.has(*target)) {
                    return true;
                }
                cx.counters().hints_delivered += 1;
                drop_hint(open, sent);
            }
            KvAnswer::Refused(KvRefusal::OtherConfiguration(configuration)) => {
                open.on_configuration(sent.range, configuration);
            }
            KvAnswer::Refused(KvRefusal::Conditional | KvRefusal::Put(_) | KvRefusal::TooFarAhead) => {
                cx.counters().hints_refused += 1;
                drop_hint(open, sent);
            }
            // Later.
            KvAnswer::Refused(_) | KvAnswer::Held(_) | KvAnswer::Minted { .. } => {}
        }
        let is_over = !matches!(
            said.answer,
            KvAnswer::Refused(KvRefusal::Blocked(_) | KvRefusal::Busy)
        );
        if let Some(sent) = self.hinting.sent.remove(&said.call).filter(|_| is_over) {
            self.deliver_to(cx, &sent.bucket, sent.owner);
        }
        true
    }
}

fn drop_hint(open: &mut OpenBucket, sent: &SentHint) {
    if let Some(store) = open.store.as_mut() {
        store.drop_hint(sent.owner, &sent.key, &sent.entry);
    }
}
