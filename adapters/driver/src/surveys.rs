//! What the cluster is asked about a kind: what hosts it, and where an entity is and why. Decides nothing. Spec: sharding 1.9.

use std::time::Duration;

use quorate_core::effect::{Answer, ShardingAnswer};
use quorate_core::input::{Command, ShardingCommand};
use quorate_core::sharding::ids::{EntityId, KindId};
use quorate_core::sharding::protocol::survey::{Explained, Survey};

use crate::error::ClusterError;
use crate::shared::{ControlCommand, Shared, outcome};
use crate::sync;

impl Shared {
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
