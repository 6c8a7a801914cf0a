//! What a node is asked about itself and about a kind: what hosts it, and where an entity is and why. Decides
//! nothing. Spec: sharding 1.9.

use std::sync::Arc;
use std::time::Duration;

use quorate_core::effect::{Answer, ShardingAnswer};
use quorate_core::explain::Explanation;
use quorate_core::input::{Command, ShardingCommand};
use quorate_core::sharding::ids::{EntityId, KindId, ShardId};
use quorate_core::sharding::protocol::stop::StoppedShards;
use quorate_core::sharding::protocol::survey::{EntityPage, EntityPosition, Explained, Survey};

use super::Region;
use crate::commands::{ControlCommand, outcome};
use crate::error::ClusterError;
use crate::request::{Request, TIMEOUT_DEFAULT};
use crate::shared::Shared;
use crate::stats::{BucketState, KindState, LinkState, PathState};
use crate::sync;

impl<M, R> Region<M, R> {
    /// Which entities of the kind run, shard by shard and in the order of their ids, from any node: a page of
    /// at most some 256 KiB of ids, and where the next one begins ([`EntityPage::next`]). Give that as
    /// `after` for the next page, and `None` for the first. Asks every member that may host the kind, and
    /// answers when all have, at the latest after its time limit (default [`TIMEOUT_DEFAULT`], 1 ms to 60 s,
    /// clamped): shards of which nobody
    /// has spoken then are named ([`EntityPage::unanswered`]), and so are the nodes. What moves meanwhile may
    /// be in two pages, or in none. For tests and people who watch. Mirrors `GetShardRegionState`.
    ///
    /// # Errors
    /// [`ClusterError::Refused`] with `TooManySurveys` if sixteen questions of this node are open already,
    /// [`ClusterError::Stopped`].
    ///
    /// # Cancel safety
    /// Safe: it only reads.
    pub fn entities(&self, after: Option<EntityPosition>) -> Request<Result<EntityPage, ClusterError>> {
        let (shared, kind) = (Arc::clone(self.shared()), self.kind());
        Request::new(TIMEOUT_DEFAULT, async move |timeout| {
            shared.list_entities(kind, after, timeout).await
        })
    }

    /// Stops shards of the kind, wherever they are, from any node: their entities handle what is in their
    /// mailboxes and stop, as in a hand-off, and each shard begins again, anywhere, with its next message.
    /// Completes when each has been acknowledged, one that has stopped at once, or after its time limit
    /// (default `sharding.handoff_timeout`, 1 ms to 24 h, clamped): it says which have and which have not. An
    /// entity that takes longer than `sharding.handoff_timeout` keeps its shard running. Mirrors
    /// `StopShards`.
    ///
    /// # Errors
    /// [`ClusterError::Refused`] with `RemembersEntities` if the kind remembers its entities, which would
    /// begin again at once; with `NoSuchShard`, with `ClusterShuttingDown` if the cluster prepares to shut
    /// down, with `TooManyStops` if sixteen such commands of this node are open already;
    /// [`ClusterError::Stopped`].
    ///
    /// # Cancel safety
    /// Dropping it stops waiting; the shards may be stopped.
    pub fn stop_shards(
        &self,
        shards: impl IntoIterator<Item = ShardId>,
    ) -> Request<Result<StoppedShards, ClusterError>> {
        let (shared, kind) = (Arc::clone(self.shared()), self.kind());
        let shards = shards.into_iter().collect();
        Request::new(self.shared().handoff_timeout, async move |timeout| {
            shared.stop_shards(kind, shards, timeout).await
        })
    }
}

impl Shared {
    pub(crate) async fn links(&self) -> Result<Vec<LinkState>, ClusterError> {
        let (reply, answer) = sync::oneshot();
        self.control(ControlCommand::Links(reply)).await?;
        answer.await.ok_or(ClusterError::Stopped)
    }

    pub(crate) async fn kinds(&self) -> Result<Vec<KindState>, ClusterError> {
        let (reply, answer) = sync::oneshot();
        self.control(ControlCommand::Kinds(reply)).await?;
        answer.await.ok_or(ClusterError::Stopped)
    }

    /// Every path that the cluster has.
    pub(crate) async fn paths(&self) -> Result<Vec<PathState>, ClusterError> {
        let (reply, answer) = sync::oneshot();
        self.control(ControlCommand::Paths(reply)).await?;
        answer.await.ok_or(ClusterError::Stopped)
    }

    /// Every bucket that is open here.
    pub(crate) async fn buckets(&self) -> Result<Vec<BucketState>, ClusterError> {
        let (reply, answer) = sync::oneshot();
        self.control(ControlCommand::Buckets(reply)).await?;
        answer.await.ok_or(ClusterError::Stopped)
    }

    pub(crate) async fn explain(&self) -> Result<Explanation, ClusterError> {
        let (reply, answer) = sync::oneshot();
        self.control(ControlCommand::Explain(reply)).await?;
        answer.await.ok_or(ClusterError::Stopped)
    }

    /// What hosts a kind.
    pub(crate) async fn survey(&self, kind: KindId, timeout: Duration) -> Result<Survey, ClusterError> {
        let (reply, answer) = sync::oneshot();
        let command = Command::Sharding(ShardingCommand::Survey { kind, timeout });
        self.control(ControlCommand::Core { command, reply }).await?;
        match answer.await {
            Some(Answer::Sharding(ShardingAnswer::Surveyed(survey))) => Ok(survey),
            answer => outcome(answer).and(Err(ClusterError::Stopped)),
        }
    }

    /// Which entities of a kind run.
    pub(crate) async fn list_entities(
        &self,
        kind: KindId,
        after: Option<EntityPosition>,
        timeout: Duration,
    ) -> Result<EntityPage, ClusterError> {
        let (reply, answer) = sync::oneshot();
        let command = Command::Sharding(ShardingCommand::ListEntities { kind, after, timeout });
        self.control(ControlCommand::Core { command, reply }).await?;
        match answer.await {
            Some(Answer::Sharding(ShardingAnswer::Entities(page))) => Ok(page),
            answer => outcome(answer).and(Err(ClusterError::Stopped)),
        }
    }

    /// Has shards of a kind stopped.
    pub(crate) async fn stop_shards(
        &self,
        kind: KindId,
        shards: Vec<ShardId>,
        timeout: Duration,
    ) -> Result<StoppedShards, ClusterError> {
        let (reply, answer) = sync::oneshot();
        let command = Command::Sharding(ShardingCommand::StopShards {
            kind,
            shards,
            timeout,
        });
        self.control(ControlCommand::Core { command, reply }).await?;
        match answer.await {
            Some(Answer::Sharding(ShardingAnswer::ShardsStopped(stopped))) => Ok(stopped),
            answer => outcome(answer).and(Err(ClusterError::Stopped)),
        }
    }

    /// Where an entity's shard is and why.
    pub(crate) async fn explain_entity(
        &self,
        kind: KindId,
        entity: EntityId,
        timeout: Duration,
    ) -> Result<Explained, ClusterError> {
        let (reply, answer) = sync::oneshot();
        let command = Command::Sharding(ShardingCommand::Explain {
            kind,
            entity,
            timeout,
        });
        self.control(ControlCommand::Core { command, reply }).await?;
        match answer.await {
            Some(Answer::Sharding(ShardingAnswer::Explained(explained))) => Ok(explained),
            answer => outcome(answer).and(Err(ClusterError::Stopped)),
        }
    }
}
