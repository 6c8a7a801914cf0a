//! Who hears of changes of replicated data. A slow reader keeps one change per key, the newest:
//! nothing here grows with time. Spec: sharding 1.12 (subscriptions).

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use quorate_core::ddata::protocol::Change;
use quorate_core::ddata::state::key::Key;
use quorate_core::input::Token;

use crate::sync::lock;

/// Changes that one subscriber has not taken yet: the newest of each key.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    inside: Mutex<Inside>,
}

#[derive(Debug, Default)]
struct Inside {
    changes: BTreeMap<Key, Change>,
    ended: bool,
    waker: Option<Waker>,
}

impl Inbox {
    fn put(&self, key: &Key, change: &Change) {
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

    pub(crate) fn poll(&self, cx: &Context<'_>) -> Poll<Option<(Key, Change)>> {
        let mut inside = lock(&self.inside);
        if let Some(first) = inside.changes.pop_first() {
            return Poll::Ready(Some(first));
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
    inboxes: HashMap<Token, Arc<Inbox>>,
}

impl Subscriptions {
    pub(crate) fn insert(&mut self, token: Token, inbox: Arc<Inbox>) {
        self.inboxes.insert(token, inbox);
    }

    pub(crate) fn remove(&mut self, token: Token) {
        if let Some(inbox) = self.inboxes.remove(&token) {
            inbox.end();
        }
    }

    /// The token under which an inbox hears.
    pub(crate) fn token_of(&self, inbox: &Arc<Inbox>) -> Option<Token> {
        let mut all = self.inboxes.iter();
        all.find(|(_, held)| Arc::ptr_eq(held, inbox))
            .map(|(token, _)| *token)
    }

    pub(crate) fn tell(&self, subscribers: &[Token], key: &Key, change: &Change) {
        for inbox in subscribers.iter().filter_map(|token| self.inboxes.get(token)) {
            inbox.put(key, change);
        }
    }

    /// The node has ended.
    pub(crate) fn clear(&mut self) {
        self.inboxes.drain().for_each(|(_, inbox)| inbox.end());
    }
}
