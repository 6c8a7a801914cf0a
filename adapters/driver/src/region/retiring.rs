//! A region that is shut down by its user: the command and its answer. Decides nothing. Spec: sharding 1.3.

use std::time::Duration;

use quorate_core::effect::{Answer, CommandError, RegionShutdown, ShardingAnswer};
use quorate_core::input::{Command, ShardingCommand};
use quorate_core::sharding::ids::KindId;

use crate::commands::{ControlCommand, outcome};
use crate::error::ClusterError;
use crate::shared::Shared;
use crate::sync;

impl Shared {
    /// Has this node host nothing of a kind any more.
    pub(crate) async fn shut_down_region(
        &self,
        kind: KindId,
        limit: Duration,
    ) -> Result<RegionShutdown, ClusterError> {
        let (reply, answer) = sync::oneshot();
        let command = Command::Sharding(ShardingCommand::ShutDownRegion {
            kind,
            timeout: Some(limit),
        });
        self.control(ControlCommand::Core { command, reply }).await?;
        match answer.await {
            Some(Answer::Sharding(ShardingAnswer::ShutDown(outcome))) => Ok(outcome),
            Some(Answer::Refused(CommandError::Stopped)) => Err(ClusterError::Stopped),
            answer => outcome(answer).and(Err(ClusterError::Stopped)),
        }
    }
}
