//! Looks for the homes of what this node watches. Never asks itself about a shard that does not run here.
//! Spec: sharding 1.17.

use super::peers::wake_by;
use super::{LocalWatch, WatchStage, WatchedTarget};
use crate::effect::{Answer, CommandError, ShardingCommandError};
use crate::sharding::pending_message::RegionContext;
use crate::sharding::protocol::watch::{TerminationReason, WatchId, WatchStatement};
use crate::sharding::{Cx, Sharding};

impl Sharding {
    /// Looks for the homes of what is watched, and says what is to be said.
    pub(in crate::sharding) fn pursue_watches(&mut self, cx: &mut Cx<'_>) {
        for id in self.watches.seeking.clone() {
            self.seek(cx, id);
        }
        self.watches.peers.transmit(cx);
    }

    fn seek(&mut self, cx: &mut Cx<'_>, id: WatchId) {
        let Some(LocalWatch {
            target: WatchedTarget::Entity(of),
            ..
        }) = self.watches.own.get_mut(&id)
        else {
            return;
        };
        let (kind, entity, known) = (of.kind, of.entity.clone(), of.known);
        let Some(machines) = self.kinds.get_mut(&kind) else {
            let error = CommandError::Sharding(ShardingCommandError::NotRegistered);
            return self.watches.finish(cx, id, Answer::Refused(error));
        };
        let home = machines.region.home_of(of.shard).cloned();
        if home.as_ref() == Some(cx.me()) && machines.region.runs(of.shard, &of.entity).is_none() {
            // It begins here, or ends here: this node would ask itself without end.
            let at = cx.mono() + cx.config().sharding.watch_resend_interval;
            wake_by(cx, at);
        } else if let Some(home) = home {
            of.stage = WatchStage::Asked(home.clone());
            self.watches.seeking.remove(&id);
            let watch = WatchStatement::Watch {
                id,
                kind,
                entity,
                known,
            };
            self.watches.peers.say(cx, &home, watch);
        } else if !known && machines.region.nobody_can_host(cx.view()) {
            self.watches.end(cx, id, TerminationReason::NotRunning);
        } else {
            machines.region.seek(shared!(self, cx), of.shard);
        }
    }
}
