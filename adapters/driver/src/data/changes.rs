//! The stream of what becomes of a value. Spec: sharding 1.12 (subscriptions).

use std::fmt;
use std::future::poll_fn;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_core::Stream;
use quorate_core::ddata::protocol::Change;
use quorate_core::ddata::state::key::Pattern;

use super::error::DataReadError;
use super::hub::Inbox;
use super::kinds::DataKind;
use crate::shared::{DataCommand, Shared};

/// What became of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValueChange<V> {
    /// It is this now.
    Value(V),
    /// The key was deleted, for good.
    Deleted,
    /// Nobody used the key for too long and it was forgotten; it may be used again.
    Expired,
}

/// What becomes of a value: see [`super::Replicated::changes`]. Ends with the node. Dropping it ends the subscription.
#[must_use = "changes are only seen by who asks for them"]
pub struct Changes<T> {
    shared: Arc<Shared>,
    inbox: Arc<Inbox>,
    kind: PhantomData<fn() -> T>,
}

impl<T> fmt::Debug for Changes<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Changes").finish_non_exhaustive()
    }
}

impl<T> Drop for Changes<T> {
    fn drop(&mut self) {
        if self.inbox.has_place() {
            self.shared
                .data_later(DataCommand::Unsubscribe(Arc::clone(&self.inbox)));
        }
    }
}

impl<T: DataKind> Changes<T> {
    pub(super) fn new(shared: Arc<Shared>, pattern: Option<Pattern>) -> Self {
        let inbox = match (pattern, shared.subscribers.take()) {
            (Some(pattern), Some(place)) => {
                let inbox = Inbox::new(place);
                let told = Arc::clone(&inbox);
                shared.data_later(DataCommand::Subscribe { pattern, inbox: told });
                inbox
            }
            (Some(_), None) => Inbox::refused(DataReadError::TooManySubscribers),
            (None, _) => Inbox::refused(DataReadError::BadKey),
        };
        Self {
            shared,
            inbox,
            kind: PhantomData,
        }
    }

    /// The next change; `None` once the node has ended. A stream that was refused says why, once, and ends.
    ///
    /// # Errors
    /// Inside: [`DataReadError::WrongType`], [`DataReadError::Decode`]; [`DataReadError::BadKey`] and
    /// [`DataReadError::TooManySubscribers`] (`ddata.subscribers_max` streams on this node) end it.
    ///
    /// # Cancel safety
    /// Safe: a change is taken only when it is returned.
    pub async fn next(&mut self) -> Option<Result<ValueChange<T::Value>, DataReadError>> {
        poll_fn(|cx| self.poll(cx)).await
    }

    fn poll(&self, cx: &Context<'_>) -> Poll<Option<Result<ValueChange<T::Value>, DataReadError>>> {
        let read = |change| match change {
            Change::Value(data) => T::value(&data).map(ValueChange::Value),
            Change::Deleted => Ok(ValueChange::Deleted),
            Change::Expired => Ok(ValueChange::Expired),
        };
        self.inbox
            .poll(cx)
            .map(|next| next.map(|change| change.and_then(read)))
    }
}

impl<T: DataKind> Stream for Changes<T> {
    type Item = Result<ValueChange<T::Value>, DataReadError>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll(cx)
    }
}
