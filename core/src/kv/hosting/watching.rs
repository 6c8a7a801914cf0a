//! Who is told of changes of what this store holds. A subscription ends unless it is said again; what is not
//! sent, because too much changed at once, leaves a gap in the numbers. Spec: sharding 5.6.

use alloc::vec::Vec;
use core::time::Duration;

use super::{BucketStore, Listener};
use crate::ddata::state::key::{Key, Pattern};
use crate::ident::UniqueAddress;
use crate::kv::protocol::BucketBody;
use crate::kv::protocol::watching::{NOTICE_KEYS_MAX, NoticeStatement};
use crate::kv::state::exchange::KvAsk;
use crate::ordered::{OrderedMap, OrderedSet};
use crate::time::Instant;

/// Subscriptions of a bucket at one store at most: each write looks at all of them, some microseconds.
pub(super) const WATCHES_PER_STORE_MAX: usize = 1_024;

/// How long a subscription lasts that is not said again: four times as long as it takes until it is.
const LEASE: Duration = Duration::from_secs(20);

#[derive(Clone, Debug)]
struct Watcher {
    pattern: Pattern,
    session: u64,
    /// Notices with keys so far, those among them that were not sent.
    number: u64,
    changed: OrderedSet<Key>,
    /// It has asked, and is to be answered.
    is_owed: bool,
    until: Instant,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct Watchers {
    last_session: u64,
    /// By node and its number.
    open: OrderedMap<(UniqueAddress, u64), Watcher>,
}

impl Watchers {
    /// A question about a key changed what is held of it.
    pub(super) fn on_changed(&mut self, key: &Key, ask: &KvAsk) {
        // Promises and the end of what is forgotten change no value.
        if !matches!(
            ask,
            KvAsk::Mint(_) | KvAsk::Merge(_) | KvAsk::Accept(_) | KvAsk::Extend { .. }
        ) {
            return;
        }
        for watcher in self
            .open
            .values_mut()
            .filter(|watcher| watcher.pattern.matches(key))
        {
            if watcher.changed.len() < NOTICE_KEYS_MAX || watcher.changed.contains(key) {
                watcher.changed.insert(key.clone());
            } else {
                watcher.number += 1;
            }
        }
    }

    pub(super) fn forget_origin(&mut self, origin: u64) {
        self.open.retain(|(node, _), _| node.uid() != origin);
    }
}

impl BucketStore {
    /// A node wants to hear of changes.
    pub(in crate::kv) fn on_watch(
        &mut self,
        from: &UniqueAddress,
        watch: u64,
        pattern: Pattern,
        now: Instant,
    ) {
        let by = (from.clone(), watch);
        let until = now + LEASE;
        if let Some(open) = self.watchers.open.get_mut(&by)
            && open.pattern == pattern
        {
            (open.until, open.is_owed) = (until, true);
            return;
        }
        self.watchers.open.remove(&by);
        if self.watchers.open.len() >= WATCHES_PER_STORE_MAX {
            let store = self.id;
            let refused = BucketBody::Notice(NoticeStatement::Refused { store, watch });
            if self.has_room() {
                self.say(Listener::Node(from.clone()), refused);
            }
            return;
        }
        self.watchers.last_session += 1;
        let watcher = Watcher {
            pattern,
            session: self.watchers.last_session,
            number: 0,
            changed: OrderedSet::new(),
            is_owed: true,
            until,
        };
        self.watchers.open.insert(by, watcher);
    }

    /// It does no more.
    pub(in crate::kv) fn on_unwatch(&mut self, from: &UniqueAddress, watch: u64) {
        self.watchers.open.remove(&(from.clone(), watch));
    }

    /// Tells who is to be told, behind what has been said.
    pub(super) fn tell_watchers(&mut self) {
        let store = self.id;
        let mut told = Vec::new();
        for ((node, watch), watcher) in self.watchers.open.iter_mut() {
            if !core::mem::take(&mut watcher.is_owed) && watcher.changed.is_empty() {
                continue;
            }
            let keys: Vec<Key> = watcher.changed.iter().cloned().collect();
            watcher.changed.clear();
            let number = watcher.number;
            watcher.number += u64::from(!keys.is_empty());
            let notice = NoticeStatement::Changed {
                store,
                watch: *watch,
                session: watcher.session,
                number,
                keys,
            };
            told.push((Listener::Node(node.clone()), BucketBody::Notice(notice)));
        }
        for (to, body) in told {
            self.say(to, body);
        }
    }

    /// Forgets subscriptions that were not said again.
    pub(super) fn expire_watchers(&mut self, now: Instant) {
        self.watchers.open.retain(|_, watcher| watcher.until > now);
    }

    /// Whether anybody is to be told of changes.
    pub(in crate::kv) fn has_watchers(&self) -> bool {
        !self.watchers.open.is_empty()
    }
}
