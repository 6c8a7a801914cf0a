//! What users hear about the cluster, as a stream that starts with a snapshot and never loses the newest state.
//! Spec: conventions 1.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use futures_core::Stream;
use quorate_core::event::Event;
use quorate_core::view::View;

use crate::error::Termination;
use crate::sync::lock;

/// Events that wait for one slow reader: a rolling restart of a hundred nodes. Beyond it they are replaced by one
/// [`ClusterEvent::Resync`].
pub const EVENTS_WAITING_MAX: usize = 1_024;

/// One item of [`crate::Cluster::events`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ClusterEvent {
    /// The picture when the stream was made; the first item (unless the reader lags before it reads at all).
    Snapshot(Arc<View>),
    /// The reader was too slow and events were left out: this is the picture now.
    Resync(Arc<View>),
    /// Something happened.
    Event(Event),
    /// The node has ended; the last item.
    Terminated(Termination),
}

#[derive(Debug, Default)]
struct Queue {
    items: VecDeque<ClusterEvent>,
    lagged: bool,
    ended: bool,
    waker: Option<Waker>,
}

/// Everybody who listens. One per node.
#[derive(Debug)]
pub(crate) struct Hub {
    inside: Mutex<HubInside>,
}

#[derive(Debug)]
struct HubInside {
    view: Arc<View>,
    subscribers: Vec<Arc<Mutex<Queue>>>,
    ended: Option<Termination>,
}

impl Hub {
    pub(crate) const fn new(view: Arc<View>) -> Self {
        Self {
            inside: Mutex::new(HubInside {
                view,
                subscribers: Vec::new(),
                ended: None,
            }),
        }
    }

    pub(crate) fn view(&self) -> Arc<View> {
        Arc::clone(&lock(&self.inside).view)
    }

    pub(crate) fn termination(&self) -> Option<Termination> {
        lock(&self.inside).ended.clone()
    }

    /// The picture that snapshots show from now on.
    pub(crate) fn set_view(&self, view: &Arc<View>) {
        let mut inside = lock(&self.inside);
        if !Arc::ptr_eq(&inside.view, view) {
            inside.view = Arc::clone(view);
        }
    }

    pub(crate) fn publish(&self, event: &ClusterEvent) {
        let mut wakers = Vec::new();
        let mut inside = lock(&self.inside);
        // A queue nobody else holds has lost its reader.
        inside.subscribers.retain(|queue| Arc::strong_count(queue) > 1);
        for subscriber in &inside.subscribers {
            let mut queue = lock(subscriber);
            if queue.items.len() >= EVENTS_WAITING_MAX {
                queue.items.clear();
                queue.lagged = true;
            }
            queue.items.push_back(event.clone());
            wakers.extend(queue.waker.take());
        }
        drop(inside);
        wakers.into_iter().for_each(Waker::wake);
    }

    pub(crate) fn end(&self, termination: &Termination) {
        lock(&self.inside)
            .ended
            .get_or_insert_with(|| termination.clone());
        self.publish(&ClusterEvent::Terminated(termination.clone()));
        let subscribers = std::mem::take(&mut lock(&self.inside).subscribers);
        for subscriber in subscribers {
            let mut queue = lock(&subscriber);
            queue.ended = true;
            let waker = queue.waker.take();
            drop(queue);
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }

    pub(crate) fn subscribe(self: &Arc<Self>) -> Events {
        let mut inside = lock(&self.inside);
        let mut queue = Queue::default();
        queue
            .items
            .push_back(ClusterEvent::Snapshot(Arc::clone(&inside.view)));
        if let Some(termination) = &inside.ended {
            queue
                .items
                .push_back(ClusterEvent::Terminated(termination.clone()));
            queue.ended = true;
        }
        let queue = Arc::new(Mutex::new(queue));
        inside.subscribers.push(Arc::clone(&queue));
        drop(inside);
        Events {
            queue,
            hub: Arc::clone(self),
        }
    }
}

/// A stream of [`ClusterEvent`]s: a snapshot first, [`ClusterEvent::Terminated`] last. It does not keep the node alive.
#[derive(Debug)]
#[must_use = "events are only seen by who asks for them"]
pub struct Events {
    queue: Arc<Mutex<Queue>>,
    hub: Arc<Hub>,
}

impl Events {
    /// The next event; `None` after the last. The same as the stream's, for callers without stream helpers.
    ///
    /// # Cancel safety
    /// Safe: an event is taken only when it is returned.
    pub async fn next(&mut self) -> Option<ClusterEvent> {
        poll_fn(|cx| self.poll(cx)).await
    }

    fn poll(&self, cx: &Context<'_>) -> Poll<Option<ClusterEvent>> {
        let mut queue = lock(&self.queue);
        if std::mem::take(&mut queue.lagged) {
            // The hub locks itself, then a queue: let go of the queue first. A picture taken later is newer, never older.
            drop(queue);
            return Poll::Ready(Some(ClusterEvent::Resync(self.hub.view())));
        }
        if let Some(item) = queue.items.pop_front() {
            return Poll::Ready(Some(item));
        }
        if queue.ended {
            return Poll::Ready(None);
        }
        queue.waker = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl Stream for Events {
    type Item = ClusterEvent;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<ClusterEvent>> {
        self.poll(cx)
    }
}
