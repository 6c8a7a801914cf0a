//! A watch as users hold it: a future of the end of an entity or of a node. Decides nothing: the core follows
//! what is watched. Spec: sharding 1.17; `docs/entities.md`.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use quorate_core::effect::{Answer, CommandError, ShardingAnswer, ShardingCommandError};
use quorate_core::sharding::protocol::watch::{TerminationReason, WatchId, WatchTarget};

use crate::commands::DataCommand;
use crate::error::ClusterError;
use crate::shared::Shared;
use crate::subscriptions::SubscriberPlace;
use crate::sync;

/// What was watched has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Terminated {
    /// Why.
    pub why: TerminationReason,
}

/// A future that completes once, when an entity ([`EntityRef::watch`](crate::EntityRef::watch)) or a node
/// ([`Cluster::watch`](crate::Cluster::watch)) has ended. It watches from the call on, whether it is polled
/// or not.
///
/// # Errors
/// [`ClusterError::Refused`] with `TooManyWatches` if as many of this node are open as `sharding.watches_max`
/// says, with `TooManyWatchers` if as many watch the entity as `sharding.watchers_per_entity_max` of its node
/// says, with `BadEntityId`, or with `NotRegistered` if the kind is not, or no more;
/// [`ClusterError::Stopped`] if this node ends before.
///
/// # Cancel safety
/// Dropping it ends the watch; nobody is told anything then.
#[must_use = "dropping it ends the watch"]
pub struct Watch(WatchState);

enum WatchState {
    Refused(ClusterError),
    Open(OpenWatch),
    Done,
}

struct OpenWatch {
    shared: Arc<Shared>,
    id: WatchId,
    answer: sync::Receiver<Answer>,
    /// `None` once it is answered.
    place: Option<SubscriberPlace>,
}

impl Drop for OpenWatch {
    fn drop(&mut self) {
        if let Some(place) = self.place.take() {
            self.shared.data_later(DataCommand::Unwatch(self.id, place));
        }
    }
}

impl Watch {
    pub(crate) fn new(shared: &Arc<Shared>, target: WatchTarget) -> Self {
        let Some(place) = shared.watchers.take() else {
            let error = CommandError::Sharding(ShardingCommandError::TooManyWatches);
            return Self(WatchState::Refused(ClusterError::Refused(error)));
        };
        let (reply, answer) = sync::oneshot();
        let watch = shared.next_watch();
        shared.data_later(DataCommand::Watch { watch, target, reply });
        Self(WatchState::Open(OpenWatch {
            shared: Arc::clone(shared),
            id: watch,
            answer,
            place: Some(place),
        }))
    }
}

impl Future for Watch {
    type Output = Result<Terminated, ClusterError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = match &mut self.0 {
            WatchState::Refused(error) => {
                let error = error.clone();
                self.0 = WatchState::Done;
                return Poll::Ready(Err(error));
            }
            WatchState::Open(open) => match Pin::new(&mut open.answer).poll(cx) {
                Poll::Ready(answer) => {
                    open.place = None;
                    answer
                }
                Poll::Pending => return Poll::Pending,
            },
            WatchState::Done => return Poll::Pending,
        };
        self.0 = WatchState::Done;
        Poll::Ready(match answer {
            Some(Answer::Sharding(ShardingAnswer::Terminated(why))) => Ok(Terminated { why }),
            Some(Answer::Refused(CommandError::Stopped)) | None => Err(ClusterError::Stopped),
            Some(Answer::Refused(error)) => Err(ClusterError::Refused(error)),
            Some(
                Answer::Done
                | Answer::Asked(_)
                | Answer::Sharding(_)
                | Answer::Ddata(_)
                | Answer::Singleton(_)
                | Answer::Journal(_)
                | Answer::Kv(_),
            ) => Err(ClusterError::Stopped),
        })
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").finish_non_exhaustive()
    }
}
