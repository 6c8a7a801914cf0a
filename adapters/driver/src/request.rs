//! A request with a time limit: what all calls that wait for others give back. Decides nothing.

use std::fmt;
use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

/// How long a request waits unless it says otherwise or its `timeout` sets another limit. Mirrors Akka's
/// usual ask timeout.
pub const TIMEOUT_DEFAULT: Duration = Duration::from_secs(5);

type Running<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A request that begins when it is first polled: await it, or set a time limit first,
/// `region.stats().timeout(duration).await`. What it completes with, its default limit and what dropping it
/// means, the method says that made it. Costs two allocations.
#[must_use = "nothing happens before it is awaited"]
pub struct Request<T> {
    state: RequestState<T>,
}

enum RequestState<T> {
    New {
        timeout: Duration,
        begin: Box<dyn FnOnce(Duration) -> Running<T> + Send>,
    },
    Running(Running<T>),
    Done,
}

impl<T> Request<T> {
    /// What begins with its time limit, which is this one unless the caller sets another.
    pub(crate) fn new<F>(timeout: Duration, begin: impl FnOnce(Duration) -> F + Send + 'static) -> Self
    where
        F: Future<Output = T> + Send + 'static,
    {
        let begin = Box::new(move |timeout| -> Running<T> { Box::pin(begin(timeout)) });
        Self {
            state: RequestState::New { timeout, begin },
        }
    }

    /// Sets another time limit. The method that made the request gives the range; what is outside of it
    /// counts as the nearest value inside. Too late once it was polled: nothing changes then.
    pub fn timeout(mut self, limit: Duration) -> Self {
        if let RequestState::New { timeout, .. } = &mut self.state {
            *timeout = limit;
        }
        self
    }
}

impl<T> Future for Request<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let mut running = match mem::replace(&mut self.state, RequestState::Done) {
            RequestState::New { timeout, begin } => begin(timeout),
            RequestState::Running(running) => running,
            RequestState::Done => return Poll::Pending,
        };
        let polled = running.as_mut().poll(cx);
        if polled.is_pending() {
            self.state = RequestState::Running(running);
        }
        polled
    }
}

impl<T> fmt::Debug for Request<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Request");
        match &self.state {
            RequestState::New { timeout, .. } => shown.field("timeout", timeout),
            RequestState::Running(_) => shown.field("state", &"running"),
            RequestState::Done => shown.field("state", &"done"),
        };
        shown.finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::block_on;

    #[test]
    fn a_request_begins_when_it_is_polled_with_the_last_limit_that_was_set() {
        let request = || Request::new(TIMEOUT_DEFAULT, async |timeout| timeout);
        assert_eq!(block_on(request()), TIMEOUT_DEFAULT);
        let limit = Duration::from_millis(7);
        assert_eq!(block_on(request().timeout(Duration::ZERO).timeout(limit)), limit);
        let never = Request::<()>::new(TIMEOUT_DEFAULT, |_| async { panic!("it was not polled") });
        drop(never);
    }

    #[test]
    fn a_request_that_is_done_or_runs_takes_no_other_limit() {
        let mut request = Request::new(TIMEOUT_DEFAULT, async |timeout: Duration| timeout);
        assert_eq!(block_on(&mut request), TIMEOUT_DEFAULT);
        assert_eq!(format!("{request:?}"), "Request { state: \"done\", .. }");
        let request = request.timeout(Duration::ZERO);
        assert_eq!(format!("{request:?}"), "Request { state: \"done\", .. }");
    }
}
