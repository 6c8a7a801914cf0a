//! What users hear about the cluster, as a stream that starts with a snapshot and never loses the newest
//! state. Spec: `README.md`.

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use futures_core::Stream;
pub use quorate_core::event::telling;
pub use quorate_core::event::{
    DataChange, DdataEvent, DetectorEvent, DowningEvent, DowningReport, DowningWait, Event, JoinFailure,
    JournalEvent, MembershipEvent, SeedCause, SeedFailure, ShardingEvent, ShutdownProgress, SingletonEvent,
};
use quorate_core::membership::member::Status;
pub use quorate_core::reject::{
    DdataRejection, JournalRejection, KvRejection, MembershipRejection, PathRejection, Rejection,
    ShardingRejection, SingletonRejection,
};
use quorate_core::view::View;
pub use quorate_core::wire::WireError;

use crate::error::Termination;
pub use crate::shutdown::ShutdownEvent;
use crate::sync::lock;

/// The most events that wait for one slow reader, enough for a rolling restart of a hundred nodes. Past it
/// they are replaced by one [`ClusterEvent::Resync`].
pub const EVENTS_WAITING_MAX: usize = 1_024;

/// One item of [`crate::Cluster::events`]. Its `Display` is one line for people.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ClusterEvent {
    /// The picture when the stream was made; the first item (unless the reader lags before it reads at all).
    Snapshot(Arc<View>),
    /// The reader was too slow and events were left out: this is the picture now.
    Resync(Arc<View>),
    /// Something happened.
    Event(Event),
    /// The node ends, in phases.
    Shutdown(ShutdownEvent),
    /// The node has ended, and all phases of its end are over; the last item.
    Terminated(Termination),
}

/// One line for people.
impl fmt::Display for ClusterEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let picture = |f: &mut fmt::Formatter<'_>, view: &View| {
            let (members, own) = (view.members().len(), view.self_status());
            write!(f, "{members} members, this node is {own}")
        };
        match self {
            Self::Snapshot(view) => picture(f, view),
            Self::Resync(view) => {
                f.write_str("events were skipped; ")?;
                picture(f, view)
            }
            Self::Event(event) => event.fmt(f),
            Self::Shutdown(event) => event.fmt(f),
            Self::Terminated(termination) => write!(f, "this node has ended: {termination}"),
        }
    }
}

#[derive(Debug, Default)]
struct EventQueue {
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
    /// Whether work can be done here.
    is_able: bool,
    subscribers: Vec<Arc<Mutex<EventQueue>>>,
    ended: Option<Termination>,
    /// What was last in the way of joining.
    join_failure: Option<JoinFailure>,
}

impl Hub {
    pub(crate) const fn new(view: Arc<View>) -> Self {
        Self {
            inside: Mutex::new(HubInside {
                view,
                is_able: true,
                subscribers: Vec::new(),
                ended: None,
                join_failure: None,
            }),
        }
    }

    /// What was last in the way of joining, the time limit of the whole aside.
    pub(crate) fn join_failure(&self) -> Option<JoinFailure> {
        lock(&self.inside).join_failure.clone()
    }

    /// An attempt to join has failed.
    pub(crate) fn join_failed(&self, reason: &JoinFailure) {
        if *reason != JoinFailure::Aborted {
            lock(&self.inside).join_failure = Some(reason.clone());
        }
    }

    pub(crate) fn view(&self) -> Arc<View> {
        Arc::clone(&lock(&self.inside).view)
    }

    pub(crate) fn termination(&self) -> Option<Termination> {
        lock(&self.inside).ended.clone()
    }

    /// Whether this node is a member that takes work, and can do it.
    pub(crate) fn is_ready(&self) -> bool {
        let inside = lock(&self.inside);
        let takes_work = match inside.view.self_status() {
            Status::WeaklyUp | Status::Up => true,
            Status::Joining
            | Status::PreparingForShutdown
            | Status::ReadyForShutdown
            | Status::Leaving
            | Status::Exiting
            | Status::Down
            | Status::Removed => false,
        };
        takes_work && inside.is_able && inside.ended.is_none()
    }

    /// The picture that snapshots show from now on, and whether work can be done here.
    pub(crate) fn set_view(&self, view: &Arc<View>, is_able: bool) {
        let mut inside = lock(&self.inside);
        inside.is_able = is_able;
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
        let mut queue = EventQueue::default();
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

/// A stream of [`ClusterEvent`]s: a snapshot first, [`ClusterEvent::Terminated`] last. It does not keep the
/// node alive.
#[derive(Debug)]
#[must_use = "events are only seen by who asks for them"]
pub struct Events {
    queue: Arc<Mutex<EventQueue>>,
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
            // The hub locks itself, then a queue: let go of the queue first. A picture taken later is newer,
            // never older.
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

#[cfg(test)]
mod tests {
    use quorate_core::ident::{Address, UniqueAddress};

    use super::*;
    use quorate_core::event::DetectorEvent;

    fn hub() -> Arc<Hub> {
        let address = Address::new("a", 1).unwrap();
        Arc::new(Hub::new(Arc::new(View::idle(UniqueAddress::new(address, 1)))))
    }

    fn paused(micros: u64) -> ClusterEvent {
        let excess = std::time::Duration::from_micros(micros);
        ClusterEvent::Event(Event::Detector(DetectorEvent::Paused { excess }))
    }

    fn taken(events: &Events) -> Vec<ClusterEvent> {
        let cx = Context::from_waker(Waker::noop());
        std::iter::from_fn(|| match events.poll(&cx) {
            Poll::Ready(item) => item,
            Poll::Pending => None,
        })
        .collect()
    }

    #[test]
    fn m_393_a_subscriber_begins_with_a_snapshot_and_misses_and_repeats_nothing_while_it_keeps_up() {
        let hub = hub();
        hub.publish(&paused(0));
        let events = hub.subscribe();
        hub.publish(&paused(1));
        assert_eq!(taken(&events), [ClusterEvent::Snapshot(hub.view()), paused(1)]);
        hub.publish(&paused(2));
        let later = hub.subscribe();
        assert_eq!(
            taken(&later),
            [ClusterEvent::Snapshot(hub.view())],
            "only the new one gets it"
        );
        assert_eq!(taken(&events), [paused(2)]);
        drop(later);
        hub.publish(&paused(3));
        assert_eq!(
            lock(&hub.inside).subscribers.len(),
            1,
            "who stops listening costs nothing"
        );
    }

    #[test]
    fn an_event_is_one_line_for_people() {
        let view = hub().view();
        let lines = [
            (
                ClusterEvent::Snapshot(Arc::clone(&view)),
                "0 members, this node is Removed",
            ),
            (
                ClusterEvent::Resync(view),
                "events were skipped; 0 members, this node is Removed",
            ),
            (
                paused(1_000),
                "this process was paused for 1ms longer than expected",
            ),
            (
                ClusterEvent::Terminated(Termination::Stopped),
                "this node has ended: it was stopped without leaving",
            ),
        ];
        for (event, line) in lines {
            assert_eq!(event.to_string(), line);
        }
    }

    #[test]
    fn a_subscriber_that_does_not_keep_up_gets_the_picture_instead_and_then_goes_on() {
        let hub = hub();
        let events = hub.subscribe();
        for micros in 0..EVENTS_WAITING_MAX as u64 {
            hub.publish(&paused(micros));
        }
        let found = taken(&events);
        assert_eq!(found[0], ClusterEvent::Resync(hub.view()));
        assert!(found.len() <= EVENTS_WAITING_MAX);
        hub.publish(&paused(7));
        assert_eq!(taken(&events), [paused(7)]);
    }
}
