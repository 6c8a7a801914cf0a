//! I-42: a moved shard starts only after its old owner reported it stopped, or is gone and the margin has
//! passed (then nobody hosts it any more); a shard counts as stopped only when none of its entities runs; and
//! nothing is ordered of entities in a shard that the node does not host. At rest a shard runs on one node,
//! whatever was before: where two claimed it, both were stopped.

use std::collections::BTreeMap;
use std::sync::Arc;

use quorate_core::effect::HostOrder;
use quorate_core::effect::HostedInstance;
use quorate_core::event::ShardingEvent;
use quorate_core::sharding::ids::{KindId, ShardId, Slot};
use quorate_core::view::View;

use super::Said;
use super::i_41::other_host;
use crate::sim::{History, ProcessId, shard_of};

/// The shard of each entity that was started.
#[derive(Debug, Default)]
pub(super) struct StoppedFirst {
    shards: BTreeMap<(ProcessId, Slot), (KindId, ShardId)>,
}

impl StoppedFirst {
    pub(super) fn on_order(
        &mut self,
        process: ProcessId,
        order: &HostOrder,
        history: &History,
    ) -> Result<(), String> {
        let shard = match order {
            HostOrder::Start {
                slot,
                instance: HostedInstance::Entity { kind, shard, .. },
            } => {
                self.shards.insert((process, *slot), (*kind, *shard));
                (*kind, *shard)
            }
            HostOrder::Deliver { slot, .. } => match self.shards.get(&(process, *slot)) {
                Some(shard) => *shard,
                None => return Err(format!("delivers to {slot:?}, in which nothing was started")),
            },
            HostOrder::Start {
                instance: HostedInstance::Singleton { .. } | HostedInstance::Path { .. },
                ..
            }
            | HostOrder::Stop { .. }
            | HostOrder::StopWithState { .. }
            | HostOrder::Kill { .. } => return Ok(()),
        };
        if history.processes[process as usize].shards.contains(&shard) {
            return Ok(());
        }
        Err(format!("{order:?} in a shard that it does not host"))
    }
}

/// `nodes` are in one cluster and agree on it.
pub(super) fn at_rest(
    nodes: &[(ProcessId, &Arc<View>)],
    history: &History,
) -> Result<(), (ProcessId, String)> {
    let mut hosts = BTreeMap::new();
    for (process, _) in nodes {
        for shard in &history.processes[*process as usize].shards {
            if let Some(other) = hosts.insert(*shard, *process) {
                let what = format!("hosts {:?} at rest, and so does p{other}", shard.1);
                return Err((*process, what));
            }
        }
    }
    Ok(())
}

pub(super) fn on_event(
    Said { process, kind, event }: Said<'_>,
    safe: bool,
    history: &History,
) -> Result<u64, String> {
    match event {
        ShardingEvent::ShardStarted { shard, .. } => {
            other_host(history, (kind, *shard), process, safe, "starts")
        }
        ShardingEvent::ShardStopped { shard } => {
            let running = history.active.iter().find(|((of, entity), instances)| {
                *of == kind
                    && shard_of(kind, entity) == *shard
                    && instances.iter().any(|(host, _)| *host == process)
            });
            match running {
                Some(((_, entity), _)) => Err(format!("{shard:?} has stopped and {entity} still runs")),
                None => Ok(0),
            }
        }
        ShardingEvent::RegionRegistered { .. }
        | ShardingEvent::KindRefused { .. }
        | ShardingEvent::KindRefusedOn { .. }
        | ShardingEvent::MayRunTwice { .. }
        | ShardingEvent::AllocationUnanswered { .. }
        | ShardingEvent::CoordinatorStarted { .. }
        | ShardingEvent::CoordinatorRecovered { .. }
        | ShardingEvent::ShardAllocated { .. }
        | ShardingEvent::ShardFailed { .. }
        | ShardingEvent::RememberedDamaged { .. }
        | ShardingEvent::ShardLeaseLost { .. }
        | ShardingEvent::CoordinatorStateLate { .. }
        | ShardingEvent::CoordinatorRefused { .. }
        | ShardingEvent::CoordinatorStateDamaged
        | ShardingEvent::ShardStopTimeout { .. }
        | ShardingEvent::HandOffTimeout { .. }
        | ShardingEvent::HandOffCancelled { .. }
        | ShardingEvent::ShardConflict { .. }
        | ShardingEvent::ShardMovesByLoad { .. }
        | ShardingEvent::DeadLetter { .. }
        | ShardingEvent::EnvelopeUnmatched
        | ShardingEvent::BufferFull { .. }
        | ShardingEvent::BufferHasRoom
        | ShardingEvent::Drained => Ok(0),
        // A later version's; its checker is still to be written.
        _ => Ok(0),
    }
}
