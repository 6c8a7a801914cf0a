//! Wakes one waiting task. Says only "look again"; what there is to see is elsewhere. Many notifications
//! before a look are one.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};

use super::lock;

/// A flag with at most one task waiting for it.
#[derive(Debug, Default)]
pub(crate) struct Notify {
    set: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl Notify {
    /// Sets the flag and wakes the waiter. Costs one atomic operation if it was set already.
    pub(crate) fn notify(&self) {
        if !self.set.swap(true, Ordering::SeqCst)
            && let Some(waker) = lock(&self.waker).take()
        {
            waker.wake();
        }
    }

    /// Ready if the flag was set, and clears it; else remembers the task.
    pub(crate) fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
        if self.set.swap(false, Ordering::SeqCst) {
            return Poll::Ready(());
        }
        *lock(&self.waker) = Some(cx.waker().clone());
        // A notification between the two looks found no waker: look again.
        if self.set.swap(false, Ordering::SeqCst) {
            return Poll::Ready(());
        }
        Poll::Pending
    }

    /// Forgets the task that waited. It runs and will look by itself: waking it would only have it scheduled
    /// once more.
    pub(crate) fn disarm(&self) {
        *lock(&self.waker) = None;
    }

    /// Completes once the flag was set, and clears it.
    pub(crate) async fn notified(&self) {
        std::future::poll_fn(|cx| self.poll(cx)).await;
    }
}
