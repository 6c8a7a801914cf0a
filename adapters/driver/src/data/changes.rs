//! The streams of what becomes of a value, and of all values whose names begin alike. Decides nothing. Spec:
//! sharding 1.12 (subscriptions).

use std::fmt;
use std::future::poll_fn;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_core::Stream;
use quorate_core::ddata::protocol::DataChange;
use quorate_core::ddata::state::key::{Key, Pattern};

use super::kind::DataKind;
use crate::commands::DataCommand;
use crate::error::DataReadError;
use crate::shared::Shared;
use crate::subscriptions::ChangeInbox;

/// A change of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValueChange<V> {
    /// It is this now.
    Value(V),
    /// The key was deleted, for good.
    Deleted,
    /// Nobody used the key for too long and it was forgotten; it may be used again.
    Expired,
}

/// A change of one of several values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyChange<V> {
    /// Its name.
    pub key: String,
    /// What became of it.
    ///
    /// # Errors
    /// [`DataReadError::WrongType`] if it is of another type, [`DataReadError::Decode`] if it cannot be read.
    pub change: Result<ValueChange<V>, DataReadError>,
}

/// A subscription, until it is dropped.
struct Subscription {
    shared: Arc<Shared>,
    inbox: Arc<ChangeInbox>,
}

impl Subscription {
    fn new(shared: Arc<Shared>, pattern: Option<Pattern>) -> Self {
        let inbox = match (pattern, shared.subscribers.take()) {
            (Some(pattern), Some(place)) => {
                let inbox = ChangeInbox::new(place);
                let told = Arc::clone(&inbox);
                shared.data_later(DataCommand::Subscribe { pattern, inbox: told });
                inbox
            }
            (Some(_), None) => ChangeInbox::refused(DataReadError::TooManySubscribers),
            (None, _) => ChangeInbox::refused(DataReadError::BadKey),
        };
        Self { shared, inbox }
    }

    fn poll<T: DataKind>(&self, cx: &Context<'_>) -> Poll<Option<Next<T::Value>>> {
        let read = |(key, change): (Key, DataChange)| {
            let change = match change {
                DataChange::Value(data) => T::value(&data).map(ValueChange::Value),
                DataChange::Deleted => Ok(ValueChange::Deleted),
                DataChange::Expired => Ok(ValueChange::Expired),
            };
            (key, change)
        };
        self.inbox.poll(cx).map(|next| next.map(|next| next.map(read)))
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        if self.inbox.has_place() {
            self.shared
                .data_later(DataCommand::Unsubscribe(Arc::clone(&self.inbox)));
        }
    }
}

/// A key and what became of it; or why nothing comes.
type Next<V> = Result<(Key, Result<ValueChange<V>, DataReadError>), DataReadError>;

/// A stream of changes of one value: see [`super::Replicated::changes`]. Ends with the node. Dropping it ends
/// the subscription.
#[must_use = "changes are only seen by who asks for them"]
pub struct Changes<T> {
    subscription: Subscription,
    kind: PhantomData<fn() -> T>,
}

impl<T> fmt::Debug for Changes<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Changes").finish_non_exhaustive()
    }
}

impl<T: DataKind> Changes<T> {
    pub(super) fn new(shared: Arc<Shared>, pattern: Option<Pattern>) -> Self {
        Self {
            subscription: Subscription::new(shared, pattern),
            kind: PhantomData,
        }
    }

    /// The next change; `None` once the node has ended. A refused stream yields its error once and ends.
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
        let next = self.subscription.poll::<T>(cx);
        next.map(|next| next.map(|next| next.and_then(|(_, change)| change)))
    }
}

/// A stream of changes of all values whose names begin alike: see [`super::Data::changes_below`]. Ends with
/// the node. Dropping it ends the subscription.
#[must_use = "changes are only seen by who asks for them"]
pub struct PrefixChanges<T> {
    subscription: Subscription,
    kind: PhantomData<fn() -> T>,
}

impl<T> fmt::Debug for PrefixChanges<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PrefixChanges").finish_non_exhaustive()
    }
}

impl<T: DataKind> PrefixChanges<T> {
    pub(super) fn new(shared: Arc<Shared>, prefix: &str) -> Self {
        let pattern = Pattern::below(prefix).ok();
        Self {
            subscription: Subscription::new(shared, pattern),
            kind: PhantomData,
        }
    }

    /// The next change of any of them; `None` once the node has ended. A refused stream yields its error once
    /// and ends.
    ///
    /// # Errors
    /// [`DataReadError::BadKey`] (the prefix has more than 255 bytes) and
    /// [`DataReadError::TooManySubscribers`] (`ddata.subscribers_max` streams on this node) end it. What
    /// cannot be read of one value is said in [`KeyChange::change`].
    ///
    /// # Cancel safety
    /// Safe: a change is taken only when it is returned.
    pub async fn next(&mut self) -> Option<Result<KeyChange<T::Value>, DataReadError>> {
        poll_fn(|cx| self.poll(cx)).await
    }

    fn poll(&self, cx: &Context<'_>) -> Poll<Option<Result<KeyChange<T::Value>, DataReadError>>> {
        let named = |(key, change): (Key, _)| {
            let key = key.as_str().to_owned();
            KeyChange { key, change }
        };
        let next = self.subscription.poll::<T>(cx);
        next.map(|next| next.map(|next| next.map(named)))
    }
}

impl<T: DataKind> Stream for PrefixChanges<T> {
    type Item = Result<KeyChange<T::Value>, DataReadError>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll(cx)
    }
}

impl<T: DataKind> Stream for Changes<T> {
    type Item = Result<ValueChange<T::Value>, DataReadError>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll(cx)
    }
}
