//! One value from the loop to one waiting task. Dropping either end tells the other.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use super::lock;

#[derive(Debug)]
enum Handover<T> {
    Waiting(Option<Waker>),
    Sent(T),
    Closed,
}

/// The sending end.
#[derive(Debug)]
pub(crate) struct Sender<T>(Option<Arc<Mutex<Handover<T>>>>);

/// The receiving end: a future of the value, or `None` if the sender was dropped.
#[derive(Debug)]
pub(crate) struct Receiver<T>(Arc<Mutex<Handover<T>>>);

/// Both ends. One allocation.
pub(crate) fn oneshot<T>() -> (Sender<T>, Receiver<T>) {
    let state = Arc::new(Mutex::new(Handover::Waiting(None)));
    (Sender(Some(Arc::clone(&state))), Receiver(state))
}

/// Whom to wake.
fn complete<T>(state: &Mutex<Handover<T>>, with: Handover<T>) -> Option<Waker> {
    let mut held = lock(state);
    let Handover::Waiting(waker) = &mut *held else {
        return None;
    };
    let waker = waker.take();
    *held = with;
    waker
}

impl<T> Sender<T> {
    /// Hands the value over; drops it if nobody waits any more.
    pub(crate) fn send(self, value: T) {
        if let Some(waker) = self.put(value) {
            waker.wake();
        }
    }

    /// The same, and leaves it to the caller to wake who waits.
    pub(crate) fn put(mut self, value: T) -> Option<Waker> {
        let state = self.0.take()?;
        complete(&state, Handover::Sent(value))
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let closed = self.0.take();
        if let Some(waker) = closed.and_then(|state| complete(&state, Handover::Closed)) {
            waker.wake();
        }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        *lock(&self.0) = Handover::Closed;
    }
}

impl<T> Future for Receiver<T> {
    type Output = Option<T>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        let mut state = lock(&self.0);
        if let Handover::Waiting(waker) = &mut *state {
            *waker = Some(cx.waker().clone());
            return Poll::Pending;
        }
        match std::mem::replace(&mut *state, Handover::Closed) {
            Handover::Sent(value) => Poll::Ready(Some(value)),
            Handover::Waiting(_) | Handover::Closed => Poll::Ready(None),
        }
    }
}
