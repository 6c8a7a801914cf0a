//! Shards that a user of this node wants stopped: has their coordinator stop them, says so again until each
//! is acknowledged, and answers then or at the end of the time. Never stops anything itself. Spec: sharding
//! 1.1 (StopShards).

use alloc::vec::Vec;
use core::time::Duration;

use crate::effect::{Answer, CommandError, ShardingAnswer, ShardingCommandError};
use crate::ident::UniqueAddress;
use crate::input::Token;
use crate::message::{ShardingBody, ShardingMessage, ShardingMsg};
use crate::ordered::{OrderedMap, OrderedSet};
use crate::sharding::protocol::stop::{STOP_SHARDS_MAX, StopMsg, StopRefusal, StoppedShards};
use crate::sharding::state::ids::{KindId, ShardId};
use crate::sharding::{Cx, Sharding};
use crate::time::Instant;
use crate::timer::ShardingTimer;

/// Commands of this node that may be open at once: each is a person, or a deployment, that stops something.
const OPEN_MAX: usize = 16;

/// Shortest and longest time that is waited; anything else is clamped.
const TIMEOUT_MIN: Duration = Duration::from_millis(1);
const TIMEOUT_MAX: Duration = Duration::from_secs(24 * 3_600);

#[derive(Clone, Debug)]
struct OpenStop {
    token: Token,
    kind: KindId,
    deadline: Instant,
    left: OrderedSet<ShardId>,
    stopped: Vec<ShardId>,
}

/// The commands that are open here, by number.
#[derive(Clone, Debug, Default)]
pub(crate) struct StopCommands {
    open: OrderedMap<u64, OpenStop>,
    last: u64,
}

impl StopCommands {
    /// Looks again when it is time to say something once more, or when somebody has waited for long enough.
    fn arm(&self, cx: &mut Cx<'_>) {
        let Some(first) = self.open.values().map(|open| open.deadline).min() else {
            cx.cancel(ShardingTimer::Stops);
            return;
        };
        let again = cx.mono() + cx.config().sharding.retry_interval;
        cx.wake(ShardingTimer::Stops, first.min(again));
    }

    /// Answers those that wait for nothing more, and those whose time is over.
    fn finish(&mut self, cx: &mut Cx<'_>) {
        let now = cx.mono();
        let is_over = |open: &OpenStop| open.left.is_empty() || open.deadline <= now;
        let over: Vec<u64> = self
            .open
            .iter()
            .filter(|(_, open)| is_over(open))
            .map(|(id, _)| *id)
            .collect();
        for open in over.iter().filter_map(|id| self.open.remove(id)) {
            let mut stopped = open.stopped;
            stopped.sort_unstable();
            let unconfirmed = open.left.into_iter().collect();
            let answer = ShardingAnswer::ShardsStopped(StoppedShards { stopped, unconfirmed });
            cx.reply(open.token, Answer::Sharding(answer));
        }
        self.arm(cx);
    }

    /// This node has ended.
    pub(crate) fn halt(&mut self, cx: &mut Cx<'_>) {
        for (_, open) in core::mem::take(&mut self.open) {
            cx.reply(open.token, Answer::Refused(CommandError::Stopped));
        }
        cx.cancel(ShardingTimer::Stops);
    }
}

impl Sharding {
    /// A user wants shards of a kind stopped.
    pub(super) fn stop_shards(
        &mut self,
        cx: &mut Cx<'_>,
        token: Token,
        (kind, shards): (KindId, Vec<ShardId>),
        timeout: Duration,
    ) {
        if let Err(error) = self.may_stop(kind, &shards) {
            return cx.reply(token, Answer::Refused(error));
        }
        let open = OpenStop {
            token,
            kind,
            deadline: cx.mono() + timeout.clamp(TIMEOUT_MIN, TIMEOUT_MAX),
            left: shards.into_iter().collect(),
            stopped: Vec::new(),
        };
        self.say_what_to_stop(cx, &open);
        self.stops.last += 1;
        self.stops.open.insert(self.stops.last, open);
        self.stops.finish(cx);
    }

    fn may_stop(&self, kind: KindId, shards: &[ShardId]) -> Result<(), CommandError> {
        if self.halted {
            return Err(CommandError::Stopped);
        }
        let Some(machines) = self.kinds.get(&kind) else {
            return Err(CommandError::Sharding(ShardingCommandError::NotRegistered));
        };
        let settings = &machines.region.kind().settings;
        let refused = if settings.remember_entities.is_some() {
            Some(ShardingCommandError::RemembersEntities)
        } else if let Some(shard) = shards.iter().find(|shard| shard.0 >= settings.shards) {
            let (shard, shards) = (*shard, settings.shards);
            Some(ShardingCommandError::NoSuchShard { shard, shards })
        } else if self.stops.open.len() >= OPEN_MAX {
            Some(ShardingCommandError::TooManyStops)
        } else {
            None
        };
        refused.map_or(Ok(()), |refused| Err(CommandError::Sharding(refused)))
    }

    /// Tells the coordinator, if this node's region has found it, what it has not acknowledged.
    fn say_what_to_stop(&self, cx: &mut Cx<'_>, open: &OpenStop) {
        let machines = self.kinds.get(&open.kind);
        let Some(coordinator) = machines
            .and_then(|machines| machines.region.coordinator())
            .cloned()
        else {
            return;
        };
        let left: Vec<ShardId> = open.left.iter().copied().collect();
        for shards in left.chunks(STOP_SHARDS_MAX) {
            let (kind, shards) = (open.kind, shards.to_vec());
            let body = ShardingBody::Stop(StopMsg::Stop { shards });
            cx.send(&coordinator, ShardingMsg::Kind(ShardingMessage { kind, body }));
        }
    }

    /// What is not acknowledged yet is said again.
    pub(super) fn on_stops_timer(&mut self, cx: &mut Cx<'_>) {
        let now = cx.mono();
        for open in self.stops.open.values().filter(|open| open.deadline > now) {
            self.say_what_to_stop(cx, open);
        }
        self.stops.finish(cx);
    }

    /// A region and a coordinator speak about shards that are to stop.
    pub(super) fn on_stop(&mut self, cx: &mut Cx<'_>, from: &UniqueAddress, kind: KindId, message: StopMsg) {
        let Some(machines) = self.kinds.get_mut(&kind) else {
            return;
        };
        let is_coordinator = machines.region.coordinator() == Some(from);
        match message {
            StopMsg::Stop { shards } => machines.coordinator.on_stop_shards(cx, from, shards),
            // What an earlier one says comes too late: the one that there is now was asked as well, or will
            // be.
            StopMsg::Stopped { .. } | StopMsg::Refused { .. } if !is_coordinator => {}
            StopMsg::Stopped { shards } => {
                for open in self.stops.open.values_mut().filter(|open| open.kind == kind) {
                    let stopped = shards.iter().filter(|shard| open.left.remove(shard));
                    open.stopped.extend(stopped);
                }
                self.stops.finish(cx);
            }
            StopMsg::Refused { why } => {
                let error = match why {
                    StopRefusal::Remembers => ShardingCommandError::RemembersEntities,
                    StopRefusal::ShuttingDown => ShardingCommandError::ClusterShuttingDown,
                };
                self.stops.open.retain(|_, open| {
                    if open.kind == kind {
                        let refused = Answer::Refused(CommandError::Sharding(error.clone()));
                        cx.reply(open.token, refused);
                    }
                    open.kind != kind
                });
                self.stops.finish(cx);
            }
        }
    }
}
