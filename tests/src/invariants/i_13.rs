//! I-13: a leader removes a member only if it is Exiting and confirmed that it is done, or cannot be reached; or Down and
//! observed unreachable, the proof that it stopped. A node says that it is no longer a member at most once, and only after
//! all its entities were told to stop.

use quorate_core::event::{Event, MembershipEvent};
use quorate_core::membership::member::Status;

use super::{Step, oracle};
use crate::sim::{History, ProcessId};

/// Nothing to remember.
#[derive(Debug, Default)]
pub(super) struct OrderlyRemoval;

impl OrderlyRemoval {
    #[allow(clippy::unused_self, reason = "all invariants are asked in one way")]
    pub(super) fn check(&self, step: &Step<'_>, history: &History) -> Result<(), String> {
        if step.cause.is_merge() {
            return Ok(());
        }
        let (before, after) = (step.before.gossip(), step.after.gossip());
        let confirmed = &history.processes[step.process as usize].exiting_confirmed;
        for member in before.members().iter().filter(|m| !after.contains(&m.node)) {
            let node = &member.node;
            let gone = oracle::missed(before, node, oracle::home(before, step.after.me()), false);
            let orderly = match member.status {
                Status::Exiting => gone || confirmed.contains(node),
                Status::Down => gone,
                Status::Joining
                | Status::WeaklyUp
                | Status::Up
                | Status::PreparingForShutdown
                | Status::ReadyForShutdown
                | Status::Leaving
                | Status::Removed => false,
            };
            if !orderly {
                return Err(format!("removes {node}, which is {} and not gone", member.status));
            }
        }
        Ok(())
    }
}

pub(super) fn on_event(
    process: ProcessId,
    event: &Event,
    unstopped: usize,
    history: &History,
) -> Result<(), String> {
    if *event != Event::Membership(MembershipEvent::SelfRemoved) {
        return Ok(());
    }
    if history.processes[process as usize].self_removed > 1 {
        return Err("says twice that it is no longer a member".to_owned());
    }
    if unstopped > 0 {
        return Err(format!(
            "is no longer a member, and {unstopped} entities still run"
        ));
    }
    Ok(())
}
