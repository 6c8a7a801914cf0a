//! Pages of keys that callers of this node wait for: asks owners of a range which keys they hold, reads those
//! of which they do not hold the same, and answers. Which those are is the page's to say. Spec: sharding 5.6.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

use super::bucket::BucketStanding;
use super::calls::{Asker, count, deadline};
use super::protocol::listing::{ListAnswer, ListAsk, OwnerListed};
use super::protocol::ranges::RangeCommandError;
use super::protocol::{Answer, BucketBody, KvCommandError, Rejection};
use super::requests::listing::{DraftPage, Listing};
use super::state::bucket::BucketName;
use super::state::exchange::KvRefusal;
use super::state::listed::{KeyPage, PageWanted};
use super::state::outcome::{CallAnswer, CallError, CallGoal};
use super::{Cx, KeyedStore, refuse, send};
use crate::ddata::state::key::Key;
use crate::effect::Answer as AnyAnswer;
use crate::ident::UniqueAddress;
use crate::input::Token as CallerToken;
use crate::kv::state::settings::range_of;
use crate::ordered::{OrderedMap, OrderedSet};
use crate::time::Instant;

/// Pages of a node that are open at most: each has up to [`READ_MAX`](super::requests::listing::READ_MAX)
/// keys read beside `kv.open_calls_max`.
pub(super) const PAGES_OPEN_MAX: usize = 256;

/// How far a page is.
#[derive(Clone, Debug)]
enum PageProgress {
    /// Nobody has said yet who owns the range.
    Waiting,
    /// Owners are asked what they hold.
    Asking(Box<Listing>),
    /// Keys are read; these are not yet.
    Reading(KeyPage, OrderedSet<Key>),
}

#[derive(Clone, Debug)]
struct OpenPage {
    bucket: BucketName,
    wanted: PageWanted,
    caller: CallerToken,
    progress: PageProgress,
    deadline: Instant,
    /// When it is looked at again: the deadline, or a repetition.
    due: Instant,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct OpenListings {
    open: OrderedMap<u64, OpenPage>,
    due: OrderedSet<(Instant, u64)>,
}

impl OpenListings {
    /// When a page is to be looked at next.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Whether each of them has one time at which it is looked at.
    pub(super) fn is_consistent(&self) -> bool {
        let is_due = |(number, page): (&u64, &OpenPage)| self.due.contains(&(page.due, *number));
        self.open.len() == self.due.len() && self.open.iter().all(is_due)
    }

    fn remove(&mut self, number: u64) -> Option<OpenPage> {
        let page = self.open.remove(&number)?;
        self.due.remove(&(page.due, number));
        Some(page)
    }

    fn schedule(&mut self, number: u64, at: Instant) {
        if let Some(page) = self.open.get_mut(&number) {
            self.due.remove(&(page.due, number));
            page.due = at.min(page.deadline);
            self.due.insert((page.due, number));
        }
    }
}

impl KeyedStore {
    /// A caller wants to know which keys there are.
    pub(super) fn begin_listing(
        &mut self,
        cx: &mut Cx<'_>,
        caller: CallerToken,
        bucket: BucketName,
        wanted: PageWanted,
        timeout: Duration,
    ) {
        let open = self.buckets.get(&bucket);
        let open = open.filter(|open| open.standing != BucketStanding::Refused);
        let Some(open) = open else {
            return refuse(cx, caller, KvCommandError::NotOpen);
        };
        if wanted.range.0 >= open.settings().ranges {
            return refuse(cx, caller, RangeCommandError::NoRange.into());
        }
        if self.listings.open.len() >= PAGES_OPEN_MAX {
            return refuse(cx, caller, KvCommandError::TooManyCalls);
        }
        let deadline = deadline(cx, timeout);
        let page = OpenPage {
            bucket,
            wanted,
            caller,
            progress: PageProgress::Waiting,
            deadline,
            due: deadline,
        };
        // Of the same numbers as calls: answers to one never mean the other.
        let number = self.calls.draw_number();
        self.listings.due.insert((deadline, number));
        self.listings.open.insert(number, page);
        self.list_if_known(cx, number);
    }

    /// Begins to ask, if it is known whom.
    fn list_if_known(&mut self, cx: &mut Cx<'_>, number: u64) {
        let Some(page) = self.listings.open.get_mut(&number) else {
            return;
        };
        let Some(bucket) = self.buckets.get(&page.bucket) else {
            return;
        };
        let (PageProgress::Waiting, Some(configuration)) =
            (&page.progress, bucket.configuration(page.wanted.range))
        else {
            return;
        };
        match Listing::begin(bucket.levels(), configuration.clone(), page.wanted.level) {
            Ok(listing) => page.progress = PageProgress::Asking(Box::new(listing)),
            Err(error) => return self.end_listing(cx, number, Err(error.into())),
        }
        self.ask_to_list(cx, number);
    }

    /// It is known who owns what: pages that waited for it begin. Linear in the open pages.
    pub(super) fn list_waiting(&mut self, cx: &mut Cx<'_>, bucket: &BucketName) {
        let waits =
            |page: &OpenPage| page.bucket == *bucket && matches!(page.progress, PageProgress::Waiting);
        let waiting = self.listings.open.iter().filter(|(_, page)| waits(page));
        let waiting: Vec<u64> = waiting.map(|(number, _)| *number).collect();
        for number in waiting {
            self.list_if_known(cx, number);
        }
    }

    /// Asks owners that have not answered.
    fn ask_to_list(&mut self, cx: &mut Cx<'_>, number: u64) {
        let Some(page) = self.listings.open.get(&number) else {
            return;
        };
        let (PageProgress::Asking(listing), Some(bucket)) =
            (&page.progress, self.buckets.get_mut(&page.bucket))
        else {
            return;
        };
        for store in listing.missing() {
            let Some(node) = bucket.place_of(store, cx.view()) else {
                continue;
            };
            let asked = ListAsk {
                store,
                range: page.wanted.range,
                configuration: listing.configuration().clone(),
                listing: number,
                wanted: page.wanted.keys.clone(),
            };
            send(cx, &node, &page.bucket, BucketBody::List(Box::new(asked)));
        }
        let again = cx.mono() + cx.config().kv.repeat_interval;
        self.listings.schedule(number, again);
    }

    /// A member asks an owner which keys it holds.
    pub(super) fn on_list_asked(
        &mut self,
        cx: &mut Cx<'_>,
        from: &UniqueAddress,
        bucket: &BucketName,
        asked: &ListAsk,
    ) -> Result<(), Rejection> {
        cx.counters().asked += 1;
        let store = self.store_of(bucket, asked.store);
        store.map_or(Ok(()), |store| store.on_list(from, asked, cx.now()))
    }

    /// An owner says which keys it holds.
    pub(super) fn on_listed(
        &mut self,
        cx: &mut Cx<'_>,
        from: &UniqueAddress,
        name: &BucketName,
        said: ListAnswer,
    ) -> Result<(), Rejection> {
        let number = said.listing;
        let page = self.listings.open.get_mut(&number);
        let page = page.filter(|page| page.bucket == *name && page.wanted.range == said.range);
        let (Some(page), Some(bucket)) = (page, self.buckets.get_mut(name)) else {
            cx.counters().answers_late += 1;
            return Ok(());
        };
        match bucket.node_of(said.store) {
            Some(node) if node == from => {}
            Some(_) => return Err(Rejection::NotItsStore),
            None => {
                cx.counters().ignored += 1;
                return Ok(());
            }
        }
        let PageProgress::Asking(listing) = &mut page.progress else {
            return Ok(());
        };
        match said.said {
            OwnerListed::Part(part) => {
                part.check(&page.wanted.keys)?;
                let ranges = bucket.settings().ranges;
                if part
                    .keys
                    .iter()
                    .any(|listed| range_of(&listed.key, ranges) != said.range)
                {
                    return Err(Rejection::KeyElsewhere(said.range));
                }
                let keys_max = page.wanted.keys.count();
                if let Some(draft) = listing.on_part((said.store, said.epoch), part, keys_max) {
                    self.read_unsure(cx, number, draft);
                }
            }
            OwnerListed::Refused(KvRefusal::OtherConfiguration(configuration)) => {
                bucket.on_configuration(said.range, &configuration);
                // A call may have heard of it before.
                let known = bucket.configuration(said.range);
                if known.is_some_and(|known| listing.on_configuration(known)) {
                    self.ask_to_list(cx, number);
                }
            }
            OwnerListed::Refused(_) => {}
        }
        Ok(())
    }

    /// Reads keys of which owners do not hold the same.
    fn read_unsure(&mut self, cx: &mut Cx<'_>, number: u64, draft: DraftPage) {
        let Some(open) = self.listings.open.get_mut(&number) else {
            return;
        };
        let DraftPage { page, unsure } = draft;
        if unsure.is_empty() {
            return self.end_listing(cx, number, Ok(page));
        }
        open.progress = PageProgress::Reading(page, unsure.iter().cloned().collect());
        let (bucket, level) = (open.bucket.clone(), open.wanted.level);
        let (asker, timeout) = (Some(Asker::Listing(number)), open.deadline.since(cx.mono()));
        for key in unsure {
            let goal = CallGoal::Get { level };
            self.insert_call(cx, asker, (bucket.clone(), key), goal, timeout);
        }
    }

    /// A key of a page was read.
    pub(super) fn on_key_read(
        &mut self,
        cx: &mut Cx<'_>,
        number: u64,
        key: &Key,
        result: Result<CallAnswer, CallError>,
    ) {
        let page = self.listings.open.get_mut(&number);
        let Some(PageProgress::Reading(page, unread)) = page.map(|page| &mut page.progress) else {
            return;
        };
        match result {
            Ok(CallAnswer::Found(entry)) if !entry.is_alive() => page.keys.retain(|listed| listed != key),
            Ok(_) => {}
            Err(error) => return self.end_listing(cx, number, Err(error)),
        }
        unread.remove(key);
        if unread.is_empty() {
            let page = core::mem::take(page);
            self.end_listing(cx, number, Ok(page));
        }
    }

    fn end_listing(&mut self, cx: &mut Cx<'_>, number: u64, result: Result<KeyPage, CallError>) {
        if let Some(page) = self.listings.remove(number) {
            count(cx, result.is_ok());
            cx.reply(page.caller, AnyAnswer::Kv(Answer::Listed(result)));
        }
    }

    /// Owners are to be asked again, or the time of pages is over.
    pub(super) fn on_listings_due(&mut self, cx: &mut Cx<'_>) {
        let now = cx.mono();
        while let Some((_, number)) = self.listings.due.first().copied().filter(|(at, _)| *at <= now) {
            let Some(page) = self.listings.open.get(&number).filter(|page| page.deadline > now) else {
                self.fail_listing(cx, number);
                continue;
            };
            let deadline = page.deadline;
            match &page.progress {
                PageProgress::Asking(_) => {
                    cx.counters().calls_repeated += 1;
                    self.ask_to_list(cx, number);
                }
                // What reads them repeats itself.
                PageProgress::Waiting | PageProgress::Reading(..) => self.listings.schedule(number, deadline),
            }
        }
    }

    fn fail_listing(&mut self, cx: &mut Cx<'_>, number: u64) {
        let page = self.listings.open.get(&number);
        let acknowledged = match page.map(|page| &page.progress) {
            Some(PageProgress::Asking(listing)) => listing.answered(),
            Some(PageProgress::Waiting | PageProgress::Reading(..)) | None => 0,
        };
        self.end_listing(cx, number, Err(CallError::Timeout { acknowledged }));
    }

    /// The node ends: nobody waits for a page any more.
    pub(super) fn end_listings(&mut self, cx: &mut Cx<'_>) {
        while let Some(number) = self.listings.open.keys().next().copied() {
            self.fail_listing(cx, number);
        }
    }
}
