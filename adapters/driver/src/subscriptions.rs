//! Who hears of changes of replicated data. A slow reader keeps one change per key, the newest:
//! nothing here grows with time. Spec: sharding 1.12 (subscriptions).

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use quorate_core::ddata::protocol::DataChange;
use quorate_core::ddata::state::key::Key;
use quorate_core::input::Token;
use quorate_core::ordered::OrderedMap;

use crate::error::DataReadError;
use crate::sync::lock;

/// Changes that one subscriber has not taken yet: the newest of each key.
#[derive(Debug)]
pub(crate) struct ChangeInbox {
    inside: Mutex<InboxContents>,
    /// Freed once neither the reader, nor the loop, nor a queue between them holds the inbox any more.
    place: Option<SubscriberPlace>,
}

/// How many inboxes there may be on a node. As each has at most two commands in the queue to the loop (begin,
/// end), this bounds the queue as well, which neither may wait.
#[derive(Debug)]
pub(crate) struct SubscriberPlaces {
    free: AtomicUsize,
}

/// The right to one inbox.
#[derive(Debug)]
pub(crate) struct SubscriberPlace(Arc<SubscriberPlaces>);

impl SubscriberPlaces {
    pub(crate) fn new(count: usize) -> Arc<Self> {
        let free = AtomicUsize::new(count);
        Arc::new(Self { free })
    }

    /// A place, if one is free.
    pub(crate) fn take(self: &Arc<Self>) -> Option<SubscriberPlace> {
        let less = |free: usize| free.checked_sub(1);
        let taken = self.free.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        taken.ok().map(|_| SubscriberPlace(Arc::clone(self)))
    }
}

impl Drop for SubscriberPlace {
    fn drop(&mut self) {
        self.0.free.fetch_add(1, Ordering::Relaxed);
    }
}

#[derive(Debug, Default)]
struct InboxContents {
    changes: OrderedMap<Key, DataChange>,
    /// Why nothing comes at all; told once.
    refused: Option<DataReadError>,
    ended: bool,
    waker: Option<Waker>,
}

impl ChangeInbox {
    pub(crate) fn new(place: SubscriberPlace) -> Arc<Self> {
        Arc::new(Self {
            inside: Mutex::default(),
            place: Some(place),
        })
    }

    /// One that only says why nothing comes.
    pub(crate) fn refused(error: DataReadError) -> Arc<Self> {
        let inbox = Self {
            inside: Mutex::default(),
            place: None,
        };
        inbox.refuse(error);
        Arc::new(inbox)
    }

    /// Whether the loop was told of it.
    pub(crate) const fn has_place(&self) -> bool {
        self.place.is_some()
    }

    /// Nothing comes, for a reason that the reader is told.
    pub(crate) fn refuse(&self, error: DataReadError) {
        lock(&self.inside).refused = Some(error);
        self.end();
    }

    fn put(&self, key: &Key, change: &DataChange) {
        let mut inside = lock(&self.inside);
        inside.changes.insert(key.clone(), change.clone());
        let waker = inside.waker.take();
        drop(inside);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Nothing more comes.
    pub(crate) fn end(&self) {
        let mut inside = lock(&self.inside);
        inside.ended = true;
        let waker = inside.waker.take();
        drop(inside);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub(crate) fn poll(&self, cx: &Context<'_>) -> Poll<Option<Result<(Key, DataChange), DataReadError>>> {
        let mut inside = lock(&self.inside);
        if let Some(first) = inside.changes.pop_first() {
            return Poll::Ready(Some(Ok(first)));
        }
        if let Some(error) = inside.refused.take() {
            return Poll::Ready(Some(Err(error)));
        }
        if inside.ended {
            return Poll::Ready(None);
        }
        inside.waker = Some(cx.waker().clone());
        Poll::Pending
    }
}

/// Everybody who hears of changes. Bounded by the core, which refuses subscriptions beyond its limit.
#[derive(Debug, Default)]
pub(crate) struct Subscriptions {
    inboxes: HashMap<Token, Arc<ChangeInbox>>,
}

impl Subscriptions {
    pub(crate) fn insert(&mut self, token: Token, inbox: Arc<ChangeInbox>) {
        self.inboxes.insert(token, inbox);
    }

    pub(crate) fn remove(&mut self, token: Token) {
        if let Some(inbox) = self.inboxes.remove(&token) {
            inbox.end();
        }
    }

    /// The token under which an inbox hears.
    pub(crate) fn token_of(&self, inbox: &Arc<ChangeInbox>) -> Option<Token> {
        let mut all = self.inboxes.iter();
        all.find(|(_, held)| Arc::ptr_eq(held, inbox))
            .map(|(token, _)| *token)
    }

    pub(crate) fn tell(&self, subscribers: &[Token], key: &Key, change: &DataChange) {
        for inbox in subscribers.iter().filter_map(|token| self.inboxes.get(token)) {
            inbox.put(key, change);
        }
    }

    /// The node has ended.
    pub(crate) fn clear(&mut self) {
        self.inboxes.drain().for_each(|(_, inbox)| inbox.end());
    }
}
