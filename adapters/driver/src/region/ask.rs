//! An ask: a message, and the future that waits for its answer. Decides nothing.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use quorate_core::input::Recipient;
use quorate_core::sharding::errors::AskFailure;
use quorate_core::sharding::ids::Payload;
use serde::de::DeserializeOwned;

use crate::asking;
use crate::codec;
use crate::commands::UserCommand;
use crate::error::{AskError, TellError};
use crate::request::TIMEOUT_DEFAULT;
use crate::shared::Shared;
use crate::sync;

/// An ask: it is sent when it is first polled, and completes with the answer, or with an error that says
/// whether the message may have been handled ([`AskError::may_have_been_handled`]).
///
/// # Cancel safety
/// Dropping it stops waiting. It does not recall a message that was sent.
#[must_use = "nothing is sent before it is awaited"]
pub struct Ask<R> {
    state: AskProgress,
    reply: PhantomData<fn() -> R>,
}

impl<R> Ask<R> {
    /// An ask of this message; `None` if it could not be encoded.
    pub(crate) fn new(shared: Arc<Shared>, to: Recipient, payload: Option<Payload>) -> Self {
        let state = match payload {
            Some(payload) => AskProgress::New {
                shared,
                to,
                payload,
                timeout: TIMEOUT_DEFAULT,
            },
            None => AskProgress::Failed(AskError::Encode),
        };
        let reply = PhantomData;
        Self { state, reply }
    }

    /// Sets how long to wait for the answer from when the node takes the message, 1 ms to 24 h (clamped).
    pub fn timeout(mut self, limit: Duration) -> Self {
        if let AskProgress::New { timeout, .. } = &mut self.state {
            *timeout = limit;
        }
        self
    }

    /// Whether the node has the question: from when this is so, later ones come after it.
    pub(crate) const fn is_submitted(&self) -> bool {
        matches!(self.state, AskProgress::Waiting(_))
    }
}

impl<R> fmt::Debug for Ask<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Ask");
        if let AskProgress::New { to, timeout, .. } = &self.state {
            shown.field("to", to).field("timeout", timeout);
        }
        shown.finish_non_exhaustive()
    }
}

type Answer = sync::Receiver<Result<Payload, AskFailure>>;
type Submission = Pin<Box<dyn Future<Output = Result<(), TellError>> + Send>>;

enum AskProgress {
    Failed(AskError),
    New {
        shared: Arc<Shared>,
        to: Recipient,
        payload: Payload,
        timeout: Duration,
    },
    Submitting(Submission, Answer),
    Waiting(Answer),
    Done,
}

/// The node had ended before it took the question.
const NOT_TAKEN: AskError = AskError::Failed(AskFailure::NodeStoppedUnsent);

/// Hands the question in; boxes a future only if the queue is full.
fn submit(shared: Arc<Shared>, to: Recipient, payload: Payload, timeout: Duration) -> AskProgress {
    let chain = match asking::chain(&shared, &to) {
        Ok(chain) => chain,
        Err(error) => return AskProgress::Failed(error),
    };
    let (reply, answer) = sync::oneshot();
    let command = UserCommand::Ask {
        to,
        payload,
        timeout,
        chain,
        reply,
    };
    match shared.try_ask(command) {
        Ok(()) => AskProgress::Waiting(answer),
        Err((_, Some(command))) => {
            let submission = async move { shared.user(command).await };
            AskProgress::Submitting(Box::pin(submission), answer)
        }
        Err((_, None)) => AskProgress::Failed(NOT_TAKEN),
    }
}

impl<R: DeserializeOwned> Future for Ask<R> {
    type Output = Result<R, AskError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<R, AskError>> {
        loop {
            match std::mem::replace(&mut self.state, AskProgress::Done) {
                AskProgress::Failed(error) => return Poll::Ready(Err(error)),
                AskProgress::New {
                    shared,
                    to,
                    payload,
                    timeout,
                } => self.state = submit(shared, to, payload, timeout),
                AskProgress::Submitting(mut submission, answer) => match submission.as_mut().poll(cx) {
                    Poll::Ready(Ok(())) => self.state = AskProgress::Waiting(answer),
                    Poll::Ready(Err(_)) => return Poll::Ready(Err(NOT_TAKEN)),
                    Poll::Pending => {
                        self.state = AskProgress::Submitting(submission, answer);
                        return Poll::Pending;
                    }
                },
                AskProgress::Waiting(mut answer) => {
                    let Poll::Ready(answered) = Pin::new(&mut answer).poll(cx) else {
                        self.state = AskProgress::Waiting(answer);
                        return Poll::Pending;
                    };
                    return Poll::Ready(match answered {
                        Some(Ok(payload)) => codec::decode_answer(&payload),
                        Some(Err(failure)) => Err(AskError::Failed(failure)),
                        None => Err(AskError::Stopped),
                    });
                }
                AskProgress::Done => return Poll::Pending,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use quorate_core::sharding::ids::{EntityId, KindId};

    use super::*;
    use crate::testing::idle_node;

    #[test]
    fn an_ask_is_sent_when_it_is_polled_with_the_last_limit_that_was_set() {
        let (shared, commands) = idle_node(|_| {});
        let ask = || {
            let to = Recipient::Entity(KindId::of("greeter"), EntityId::from("ada"));
            Ask::<u64>::new(Arc::clone(&shared), to, codec::encode(&7_u64))
        };
        let mut cx = Context::from_waker(std::task::Waker::noop());
        let limit = Duration::from_millis(7);
        for (mut ask, wanted) in [
            (ask(), TIMEOUT_DEFAULT),
            (ask().timeout(Duration::MAX).timeout(limit), limit),
        ] {
            assert!(commands.user.try_recv().is_err(), "nothing was sent before");
            assert!(Pin::new(&mut ask).poll(&mut cx).is_pending());
            let Ok(UserCommand::Ask { timeout, .. }) = commands.user.try_recv() else {
                panic!("it was not sent")
            };
            assert_eq!(timeout, wanted);
        }
    }
}
