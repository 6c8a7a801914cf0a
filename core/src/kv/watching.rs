//! Subscriptions of this node to changes of keys: has owners tell of them, says so again as long as somebody
//! listens, and finds out whether something may have been missed. A subscription is in place when so many
//! owners of each range have answered that no put at the bucket's least level misses all of them. Spec:
//! sharding 5.6.

use alloc::vec::Vec;
use core::time::Duration;

use super::bucket::{BucketStanding, OpenBucket};
use super::protocol::watching::{KeyWatchStatement, NoticeStatement, WatchNews};
use super::protocol::{BucketBody, Event, KvCommandError, Rejection};
use super::state::bucket::BucketName;
use super::state::configuration::{Configuration, OwnersTally};
use super::state::table::RangeId;
use super::{Cx, KeyedStore, refuse, send};
use crate::ddata::state::key::Pattern;
use crate::effect::Answer as AnyAnswer;
use crate::ident::UniqueAddress;
use crate::input::Token as CallerToken;
use crate::journal::state::StoreId;
use crate::ordered::{OrderedMap, OrderedSet};
use crate::time::Instant;

/// Subscriptions of a node at most: each is said to owners of all ranges that it concerns, again and again.
pub(super) const WATCHES_MAX: usize = 1_024;

/// After which time a subscription is said again, and who owns what is asked.
const SAID_AGAIN: Duration = Duration::from_secs(5);

/// What was heard last of an owner.
#[derive(Clone, Debug, PartialEq, Eq)]
struct HeardOwner {
    node: UniqueAddress,
    session: u64,
    /// The number of its next notice.
    next: u64,
}

#[derive(Clone, Debug)]
struct OpenWatch {
    bucket: BucketName,
    pattern: Pattern,
    heard: OrderedMap<StoreId, HeardOwner>,
    /// The ranges that it concerns, as they were when it was last in place or began.
    epochs: Vec<(RangeId, u64)>,
    /// No change is missed.
    is_in_place: bool,
    /// It was in place once.
    is_begun: bool,
    said_at: Option<Instant>,
}

/// See the module. By the token of the command, which names it in messages too.
#[derive(Clone, Debug, Default)]
pub(super) struct OpenWatches(OrderedMap<CallerToken, OpenWatch>);

impl OpenWatches {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The ranges in which keys may lie that are meant, and who owns them; `None` if of one that is not known.
fn concerned<'b>(open: &'b OpenBucket, pattern: &Pattern) -> Option<Vec<(RangeId, &'b Configuration)>> {
    let ranges = match pattern {
        Pattern::Key(key) => {
            let range = open.settings().range_of(key).0;
            range..range + 1
        }
        Pattern::Prefix(_) => 0..open.settings().ranges,
    };
    let mut ranges = ranges.map(RangeId);
    ranges.try_fold(Vec::new(), |mut all, range| {
        all.push((range, open.configuration(range)?));
        Some(all)
    })
}

impl KeyedStore {
    /// Somebody wants to hear of changes.
    pub(super) fn begin_watch(
        &mut self,
        cx: &mut Cx<'_>,
        watch: CallerToken,
        bucket: BucketName,
        pattern: Pattern,
    ) {
        let open = self.buckets.get(&bucket);
        if open.is_none_or(|open| open.standing == BucketStanding::Refused) {
            return refuse(cx, watch, KvCommandError::NotOpen);
        }
        if self.watches.0.len() >= WATCHES_MAX {
            return refuse(cx, watch, KvCommandError::TooManyCalls);
        }
        let begun = OpenWatch {
            bucket,
            pattern,
            heard: OrderedMap::new(),
            epochs: Vec::new(),
            is_in_place: false,
            is_begun: false,
            said_at: None,
        };
        self.watches.0.insert(watch, begun);
        cx.reply(watch, AnyAnswer::Done);
        self.say_watch(cx, watch);
    }

    /// Nobody wants to hear any more.
    pub(super) fn end_watch(&mut self, cx: &mut Cx<'_>, watch: CallerToken) {
        let Some(ended) = self.watches.0.remove(&watch) else {
            return;
        };
        for (store, owner) in ended.heard.iter() {
            let body = BucketBody::Watch(KeyWatchStatement::Unwatch { store: *store, watch });
            send(cx, &owner.node, &ended.bucket, body);
        }
    }

    /// Says all of them again that are not in place, or were not said for long.
    pub(super) fn say_watches(&mut self, cx: &mut Cx<'_>) {
        let watches: Vec<CallerToken> = self.watches.0.keys().copied().collect();
        for watch in watches {
            self.say_watch(cx, watch);
        }
    }

    fn say_watch(&mut self, cx: &mut Cx<'_>, watch: CallerToken) {
        let now = cx.mono();
        let Some(open) = self.watches.0.get_mut(&watch) else {
            return;
        };
        let Some(bucket) = self.buckets.get_mut(&open.bucket) else {
            return;
        };
        let Some(ranges) = concerned(bucket, &open.pattern) else {
            return;
        };
        let epochs: Vec<_> = ranges
            .iter()
            .map(|(range, known)| (*range, known.epoch))
            .collect();
        let stores: OrderedSet<StoreId> = ranges.iter().flat_map(|(_, known)| known.owners.all()).collect();
        if epochs != open.epochs {
            // Others may have taken writes that nobody told of.
            (open.epochs, open.is_in_place) = (epochs, false);
            open.heard.retain(|store, _| stores.contains(store));
        }
        let is_due = open.said_at.is_none_or(|at| now.since(at) >= SAID_AGAIN);
        if open.is_in_place && !is_due {
            return;
        }
        if is_due {
            open.said_at = Some(now);
            // A node that only listens hears of moves in no other way.
            bucket.miss();
        }
        for store in stores.iter().copied() {
            if let Some(node) = bucket.place_of(store, cx.view()) {
                let pattern = open.pattern.clone();
                let body = BucketBody::Watch(KeyWatchStatement::Watch {
                    store,
                    watch,
                    pattern,
                });
                send(cx, &node, &open.bucket, body);
            }
        }
        self.look_at_watch(cx, watch);
    }

    /// A node wants to hear of changes of what this node's store holds, or does no more.
    pub(super) fn on_watch_statement(
        &mut self,
        cx: &Cx<'_>,
        from: &UniqueAddress,
        bucket: &BucketName,
        statement: KeyWatchStatement,
    ) -> Result<(), Rejection> {
        match statement {
            KeyWatchStatement::Watch {
                store,
                watch,
                pattern,
            } => {
                if let Some(store) = self.store_of(bucket, store) {
                    store.on_watch(from, watch, pattern, cx.mono());
                }
            }
            KeyWatchStatement::Unwatch { store, watch } => {
                if let Some(store) = self.store_of(bucket, store) {
                    store.on_unwatch(from, watch);
                }
            }
        }
        Ok(())
    }

    /// An owner tells of changes.
    pub(super) fn on_notice(
        &mut self,
        cx: &mut Cx<'_>,
        from: &UniqueAddress,
        name: &BucketName,
        said: NoticeStatement,
    ) -> Result<(), Rejection> {
        let (NoticeStatement::Changed { store, watch, .. } | NoticeStatement::Refused { store, watch }) =
            said;
        let open = self.watches.0.get_mut(&watch).filter(|open| open.bucket == *name);
        let (Some(open), Some(bucket)) = (open, self.buckets.get(name)) else {
            let body = BucketBody::Watch(KeyWatchStatement::Unwatch { store, watch });
            send(cx, from, name, body);
            return Ok(());
        };
        if bucket.node_of(store) != Some(from) {
            cx.counters().ignored += 1;
            return Ok(());
        }
        let NoticeStatement::Changed {
            session,
            number,
            keys,
            ..
        } = said
        else {
            self.end_watch(cx, watch);
            cx.notify((name.clone(), watched(watch, WatchNews::Refused)));
            return Ok(());
        };
        if let Some(key) = keys.iter().find(|key| !open.pattern.matches(key)) {
            return Err(Rejection::KeyElsewhere(bucket.settings().range_of(key)));
        }
        let heard = HeardOwner {
            node: from.clone(),
            session,
            next: number.saturating_add(u64::from(!keys.is_empty())),
        };
        let before = open.heard.insert(store, heard);
        let is_gap = before
            .is_some_and(|before| before.node != *from || before.session != session || before.next != number);
        if is_gap && open.is_in_place {
            cx.notify((name.clone(), watched(watch, WatchNews::Lagged)));
        }
        if !keys.is_empty() && open.is_begun {
            cx.notify((name.clone(), watched(watch, WatchNews::Changed(keys))));
        }
        self.look_at_watch(cx, watch);
        Ok(())
    }

    /// Whether it is in place now.
    fn look_at_watch(&mut self, cx: &mut Cx<'_>, watch: CallerToken) {
        let Some(open) = self.watches.0.get_mut(&watch).filter(|open| !open.is_in_place) else {
            return;
        };
        let Some(bucket) = self.buckets.get(&open.bucket) else {
            return;
        };
        let merges = bucket.levels().merges();
        let is_heard = |known: &Configuration| {
            let mut tally = OwnersTally::new(known.clone());
            for store in open.heard.keys() {
                tally.count(*store, known.epoch);
            }
            tally.meets(merges)
        };
        let ranges = concerned(bucket, &open.pattern);
        if ranges.is_some_and(|ranges| ranges.iter().all(|(_, known)| is_heard(known))) {
            (open.is_in_place, open.is_begun) = (true, true);
            cx.notify((open.bucket.clone(), watched(watch, WatchNews::Lagged)));
        }
    }
}

const fn watched(watch: CallerToken, news: WatchNews) -> Event {
    Event::Watched { watch, news }
}
