//! The stream of changes of keys of a bucket. Decides nothing. Spec: sharding 5.6.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_core::Stream;
use quorate_core::ddata::state::key::Pattern;
use quorate_core::kv::state::bucket::BucketName;

use crate::commands::DataCommand;
pub use crate::error::KvChangesError;
pub use crate::notices::KvNotice;
use crate::notices::NoticeInbox;
use crate::shared::Shared;

/// A stream of changes: see [`Kv::changes`](super::Kv::changes). Ends with the node. Dropping it ends the
/// subscription.
#[must_use = "changes are only seen by who asks for them"]
pub struct KvChanges {
    shared: Arc<Shared>,
    inbox: Arc<NoticeInbox>,
}

impl KvChanges {
    pub(super) fn new(shared: Arc<Shared>, bucket: BucketName, pattern: Option<Pattern>) -> Self {
        let inbox = match (pattern, shared.subscribers.take()) {
            (Some(pattern), Some(place)) => {
                let inbox = NoticeInbox::new(place);
                let command = DataCommand::Follow {
                    bucket,
                    pattern,
                    inbox: Arc::clone(&inbox),
                };
                shared.data_later(command);
                inbox
            }
            (Some(_), None) => NoticeInbox::refused(KvChangesError::TooManySubscribers),
            (None, _) => NoticeInbox::refused(KvChangesError::BadKey),
        };
        Self { shared, inbox }
    }

    /// The next one; `None` once the node has ended. A refused stream yields its error once and ends.
    ///
    /// # Errors
    /// [`KvChangesError`], after which it ends.
    ///
    /// # Cancel safety
    /// Safe: a notice is taken only when it is returned.
    pub async fn next(&mut self) -> Option<Result<KvNotice, KvChangesError>> {
        poll_fn(|cx| self.inbox.poll(cx)).await
    }
}

impl Stream for KvChanges {
    type Item = Result<KvNotice, KvChangesError>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.inbox.poll(cx)
    }
}

impl Drop for KvChanges {
    fn drop(&mut self) {
        if self.inbox.has_place() {
            let inbox = Arc::clone(&self.inbox);
            self.shared.data_later(DataCommand::Unfollow(inbox));
        }
    }
}

impl fmt::Debug for KvChanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KvChanges").finish_non_exhaustive()
    }
}
