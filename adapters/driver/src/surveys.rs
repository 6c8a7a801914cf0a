//! What a node is asked about itself and about a kind: what hosts it, and where an entity is and why. Decides nothing. Spec: sharding 1.9.

use std::time::Duration;

use quorate_core::effect::{Answer, ShardingAnswer};
use quorate_core::explain::Explanation;
use quorate_core::input::{Command, ShardingCommand};
use quorate_core::sharding::ids::{EntityId, KindId, ShardId};
use quorate_core::sharding::protocol::stop::StoppedShards;
use quorate_core::sharding::protocol::survey::{EntityPage, EntityPosition, Explained, Survey};

use crate::error::ClusterError;
use crate::shared::{ControlCommand, Shared, outcome};
use crate::stats::{KindState, LinkState};
use crate::sync;

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
