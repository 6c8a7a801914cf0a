//! Who hears of changes in buckets of the keyed store. A slow reader keeps each key once, and so many: past
//! that it is told that it lagged. Spec: sharding 5.6.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use quorate_core::ddata::state::key::Key;
use quorate_core::event::WatchNews;
use quorate_core::input::Token;
use quorate_core::ordered::OrderedSet;

use crate::error::KvChangesError;
use crate::subscriptions::SubscriberPlace;
use crate::sync::lock;

/// Keys that wait for a slow reader at most.
pub(crate) const NOTICES_MAX: usize = 1_024;

/// Something that a subscriber hears.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KvNotice {
    /// This key has changed: it was written or deleted. Read it to know what it holds.
    Changed(String),
    /// Changes may have been missed up to now: read what you need. From now on they are heard.
    Lagged,
}

/// What one subscriber has not taken yet.
#[derive(Debug)]
pub(crate) struct NoticeInbox {
    inside: Mutex<InboxContents>,
    place: Option<SubscriberPlace>,
}

#[derive(Debug, Default)]
struct InboxContents {
    has_lagged: bool,
    keys: VecDeque<Key>,
    waiting: OrderedSet<Key>,
    /// Why nothing comes any more; told once.
    refused: Option<KvChangesError>,
    is_ended: bool,
    waker: Option<Waker>,
}

impl InboxContents {
    fn put(&mut self, news: &WatchNews) {
        match news {
            WatchNews::Changed(keys) => {
                for key in keys {
                    if self.waiting.insert(key.clone()) {
                        self.keys.push_back(key.clone());
                    }
                }
                if self.keys.len() > NOTICES_MAX {
                    self.lag();
                }
            }
            WatchNews::Lagged => self.lag(),
            WatchNews::Refused => {
                (self.refused, self.is_ended) = (Some(KvChangesError::OwnerFull), true);
            }
        }
    }

    /// Who is to read everything needs to hear of no key before.
    fn lag(&mut self) {
        self.has_lagged = true;
        self.keys.clear();
        self.waiting.clear();
    }
}

impl NoticeInbox {
    pub(crate) fn new(place: SubscriberPlace) -> Arc<Self> {
        Arc::new(Self {
            inside: Mutex::default(),
            place: Some(place),
        })
    }

    /// One that only says why nothing comes.
    pub(crate) fn refused(error: KvChangesError) -> Arc<Self> {
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
    pub(crate) fn refuse(&self, error: KvChangesError) {
        self.change(|inside| (inside.refused, inside.is_ended) = (Some(error), true));
    }

    /// Nothing more comes.
    pub(crate) fn end(&self) {
        self.change(|inside| inside.is_ended = true);
    }

    fn change(&self, change: impl FnOnce(&mut InboxContents)) {
        let mut inside = lock(&self.inside);
        change(&mut inside);
        let waker = inside.waker.take();
        drop(inside);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub(crate) fn poll(&self, cx: &Context<'_>) -> Poll<Option<Result<KvNotice, KvChangesError>>> {
        let mut inside = lock(&self.inside);
        if std::mem::take(&mut inside.has_lagged) {
            return Poll::Ready(Some(Ok(KvNotice::Lagged)));
        }
        if let Some(key) = inside.keys.pop_front() {
            inside.waiting.remove(&key);
            return Poll::Ready(Some(Ok(KvNotice::Changed(key.as_str().to_owned()))));
        }
        if let Some(error) = inside.refused.take() {
            return Poll::Ready(Some(Err(error)));
        }
        if inside.is_ended {
            return Poll::Ready(None);
        }
        inside.waker = Some(cx.waker().clone());
        Poll::Pending
    }
}

/// Everybody who hears of them. Bounded by places, and by the core.
#[derive(Debug, Default)]
pub(crate) struct Followers {
    inboxes: HashMap<Token, Arc<NoticeInbox>>,
}

impl Followers {
    pub(crate) fn insert(&mut self, token: Token, inbox: Arc<NoticeInbox>) {
        self.inboxes.insert(token, inbox);
    }

    /// The token under which an inbox hears, which it does no more.
    pub(crate) fn remove(&mut self, inbox: &Arc<NoticeInbox>) -> Option<Token> {
        let mut all = self.inboxes.iter();
        let token = *all.find(|(_, held)| Arc::ptr_eq(held, inbox))?.0;
        self.inboxes.remove(&token).map(|inbox| inbox.end())?;
        Some(token)
    }

    pub(crate) fn tell(&self, watch: Token, news: &WatchNews) {
        if let Some(inbox) = self.inboxes.get(&watch) {
            inbox.change(|inside| inside.put(news));
        }
    }

    /// The node has ended.
    pub(crate) fn clear(&mut self) {
        self.inboxes.drain().for_each(|(_, inbox)| inbox.end());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subscriptions::SubscriberPlaces;

    fn changed(keys: std::ops::Range<usize>) -> WatchNews {
        let key = |key| Key::new(&format!("{key:04}")).unwrap();
        WatchNews::Changed(keys.map(key).collect())
    }

    /// What is there to be taken.
    fn taken(inbox: &NoticeInbox) -> Vec<Option<Result<KvNotice, KvChangesError>>> {
        let cx = Context::from_waker(Waker::noop());
        let mut taken = Vec::new();
        while let Poll::Ready(next) = inbox.poll(&cx) {
            taken.push(next);
            if taken.last() == Some(&None) {
                break;
            }
        }
        taken
    }

    fn key(name: &str) -> Option<Result<KvNotice, KvChangesError>> {
        Some(Ok(KvNotice::Changed(name.to_owned())))
    }

    const LAGGED: Option<Result<KvNotice, KvChangesError>> = Some(Ok(KvNotice::Lagged));

    #[test]
    fn a_slow_reader_hears_of_each_key_once_and_that_it_lagged() {
        let places = SubscriberPlaces::new(1);
        let inbox = NoticeInbox::new(places.take().unwrap());
        let mut followers = Followers::default();
        followers.insert(7, Arc::clone(&inbox));
        followers.tell(8, &changed(0..1));
        assert_eq!(taken(&inbox), []);
        followers.tell(7, &changed(1..2));
        followers.tell(7, &changed(0..2));
        assert_eq!(taken(&inbox), [key("0001"), key("0000")]);
        followers.tell(7, &changed(0..1));
        assert_eq!(taken(&inbox), [key("0000")], "it was taken before");

        followers.tell(7, &changed(0..NOTICES_MAX));
        assert_eq!(taken(&inbox).len(), NOTICES_MAX);
        followers.tell(7, &changed(0..NOTICES_MAX + 1));
        followers.tell(7, &changed(3..4));
        assert_eq!(taken(&inbox), [LAGGED, key("0003")]);
        followers.tell(7, &changed(1..2));
        followers.tell(7, &WatchNews::Lagged);
        assert_eq!(taken(&inbox), [LAGGED]);

        assert_eq!(followers.remove(&inbox), Some(7));
        assert_eq!(followers.remove(&inbox), None);
        assert_eq!(taken(&inbox), [None]);
    }

    #[test]
    fn who_is_refused_hears_why_and_no_more() {
        let full = NoticeInbox::refused(KvChangesError::TooManySubscribers);
        assert_eq!(
            taken(&full),
            [Some(Err(KvChangesError::TooManySubscribers)), None]
        );
        let places = SubscriberPlaces::new(1);
        let inbox = NoticeInbox::new(places.take().unwrap());
        let mut followers = Followers::default();
        followers.insert(7, Arc::clone(&inbox));
        followers.tell(7, &changed(1..2));
        followers.tell(7, &WatchNews::Refused);
        let ends = [key("0001"), Some(Err(KvChangesError::OwnerFull)), None];
        assert_eq!(taken(&inbox), ends);
        followers.clear();
        assert!(places.take().is_none());
        drop(inbox);
        assert!(places.take().is_some());
    }
}
