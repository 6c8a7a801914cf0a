//! An ask: a message before it is sent, and the future that waits for its answer. Decides nothing.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use quorate_core::input::Recipient;
use quorate_core::sharding::chain::AskChain;
use quorate_core::sharding::errors::AskFailure;
use quorate_core::sharding::ids::Payload;
use serde::de::DeserializeOwned;

use super::ASK_TIMEOUT_DEFAULT;
use crate::asking;
use crate::codec;
use crate::commands::UserCommand;
use crate::error::{AskError, TellError};
use crate::shared::Shared;
use crate::sync;

/// An ask before it is sent.
#[must_use = "nothing is sent before it is awaited"]
pub struct Ask<R> {
    shared: Arc<Shared>,
    to: Recipient,
    payload: Option<Payload>,
    timeout: Duration,
    reply: PhantomData<fn() -> R>,
}

impl<R> Ask<R> {
    /// An ask of this message; `None` if it could not be encoded.
    pub(crate) const fn new(shared: Arc<Shared>, to: Recipient, payload: Option<Payload>) -> Self {
        Self {
            shared,
            to,
            payload,
            timeout: ASK_TIMEOUT_DEFAULT,
            reply: PhantomData,
        }
    }

    /// Sets how long to wait for the answer from when the node takes the message, 1 ms to 24 h (clamped).
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }
}

impl<R> fmt::Debug for Ask<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ask")
            .field("to", &self.to)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

impl<R: DeserializeOwned> IntoFuture for Ask<R> {
    type Output = Result<R, AskError>;
    type IntoFuture = AskFuture<R>;

    fn into_future(self) -> AskFuture<R> {
        let Some(payload) = self.payload else {
            return AskFuture {
                state: AskProgress::Failed(AskError::Encode),
                reply: PhantomData,
            };
        };
        let (reply, answer) = sync::oneshot();
        let command = UserCommand::Ask {
            to: self.to,
            payload,
            timeout: self.timeout,
            chain: AskChain::default(),
            reply,
        };
        AskFuture {
            state: AskProgress::New(self.shared, command, answer),
            reply: PhantomData,
        }
    }
}

type Answer = sync::Receiver<Result<Payload, AskFailure>>;
type Submission = Pin<Box<dyn Future<Output = Result<(), TellError>> + Send>>;

enum AskProgress {
    Failed(AskError),
    New(Arc<Shared>, UserCommand, Answer),
    Submitting(Submission, Answer),
    Waiting(Answer),
    Done,
}

/// A pending ask. Completes with the answer, or an error that says whether the message may have been handled.
///
/// # Cancel safety
/// Dropping it stops waiting. It does not recall a message that was sent.
#[must_use = "futures do nothing unless polled"]
pub struct AskFuture<R> {
    state: AskProgress,
    reply: PhantomData<fn() -> R>,
}

impl<R> AskFuture<R> {
    /// Whether the node has the question: from when this is so, later ones come after it.
    pub(crate) const fn is_submitted(&self) -> bool {
        matches!(self.state, AskProgress::Waiting(_))
    }
}

impl<R> fmt::Debug for AskFuture<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AskFuture").finish_non_exhaustive()
    }
}

/// The node had ended before it took the question.
const NOT_TAKEN: AskError = AskError::Failed(AskFailure::NodeStoppedUnsent);

/// Hands the question in; boxes a future only if the queue is full.
fn submit(shared: Arc<Shared>, mut command: UserCommand, answer: Answer) -> AskProgress {
    match asking::chain(&shared, command.to()) {
        Ok(waiting) => command.waited_for_by(waiting),
        Err(error) => return AskProgress::Failed(error),
    }
    match shared.try_user(command) {
        Ok(()) => AskProgress::Waiting(answer),
        Err((_, Some(command))) => {
            let submission = async move { shared.user(command).await };
            AskProgress::Submitting(Box::pin(submission), answer)
        }
        Err((_, None)) => AskProgress::Failed(NOT_TAKEN),
    }
}

impl<R: DeserializeOwned> Future for AskFuture<R> {
    type Output = Result<R, AskError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<R, AskError>> {
        loop {
            match std::mem::replace(&mut self.state, AskProgress::Done) {
                AskProgress::Failed(error) => return Poll::Ready(Err(error)),
                AskProgress::New(shared, command, answer) => self.state = submit(shared, command, answer),
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
