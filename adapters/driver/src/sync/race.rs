//! Two futures, the first to finish or both; and a polite pause.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

/// Which of the two finished.
#[derive(Debug)]
pub(crate) enum Either<A, B> {
    /// The first.
    Left(A),
    /// The second.
    Right(B),
}

/// Runs both and drops the one that is late. The first is asked first: the order is the priority.
pub(crate) async fn race<A: Future, B: Future>(a: A, b: B) -> Either<A::Output, B::Output> {
    let mut a = pin!(a);
    let mut b = pin!(b);
    poll_fn(|cx| {
        if let Poll::Ready(done) = a.as_mut().poll(cx) {
            return Poll::Ready(Either::Left(done));
        }
        b.as_mut().poll(cx).map(Either::Right)
    })
    .await
}

/// Runs both until both have finished.
pub(crate) async fn both(a: impl Future<Output = ()>, b: impl Future<Output = ()>) {
    let (mut a, mut b) = (pin!(a), pin!(b));
    let (mut a_runs, mut b_runs) = (true, true);
    poll_fn(|cx| {
        a_runs = a_runs && a.as_mut().poll(cx).is_pending();
        b_runs = b_runs && b.as_mut().poll(cx).is_pending();
        if a_runs || b_runs {
            return Poll::Pending;
        }
        Poll::Ready(())
    })
    .await;
}

/// Lets other tasks of the executor run once.
pub(crate) async fn yield_now() {
    let mut yielded = false;
    poll_fn(|cx| {
        if yielded {
            return Poll::Ready(());
        }
        yielded = true;
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
