//! I-49: shards are given only to members that host the kind and stay, and run only there; who has left in
//! good order has none, or a phase of its end was over time and it said so.

use std::collections::BTreeSet;

use quorate_core::effect::HaltReason;
use quorate_core::event::{Event, MembershipEvent, ShardingEvent};
use quorate_core::ident::UniqueAddress;
use quorate_core::membership::member::Status;
use quorate_core::view::View;

use crate::sim::{History, ProcessId};

/// Whose end took longer than it may.
#[derive(Debug, Default)]
pub(crate) struct OnMembersThatHost {
    late: BTreeSet<ProcessId>,
}

impl OnMembersThatHost {
    /// A node says something.
    pub(crate) fn on_event(&mut self, process: ProcessId, event: &Event) {
        if let Event::Membership(MembershipEvent::ShutdownPhaseTimedOut { .. }) = event {
            self.late.insert(process);
        }
    }

    /// A node has ended.
    pub(crate) fn on_halt(
        &self,
        process: ProcessId,
        reason: HaltReason,
        history: &History,
    ) -> Result<(), String> {
        let shards = &history.processes[process as usize].shards;
        if reason == HaltReason::Left && !shards.is_empty() && !self.late.contains(&process) {
            return Err(format!("has left with {shards:?}, and in time"));
        }
        Ok(())
    }
}

/// A node says something about its shards: `hosts` of whoever hosts the kind.
pub(crate) fn on_sharding(
    event: &ShardingEvent,
    view: &View,
    hosts: impl Fn(&UniqueAddress) -> bool,
) -> Result<(), String> {
    if let ShardingEvent::ShardStarted { shard, .. } = event
        && !hosts(view.me())
    {
        return Err(format!("runs {shard:?} and hosts nothing"));
    }
    if let ShardingEvent::ShardAllocated { shard, home } = event {
        let status = view.member(home).map(|member| member.status);
        let stays = matches!(
            status,
            Some(Status::Up | Status::PreparingForShutdown | Status::ReadyForShutdown)
        );
        if !(hosts(home) && stays) {
            return Err(format!("gives {shard:?} to {home}, which is {status:?}"));
        }
    }
    Ok(())
}
