//! I-10: only a leader on a converged state moves members to Up, to Exiting or out of the table; and what a
//! node takes over from others, somebody else really did. An operator may remove a member at any node. From
//! one state at most one process acts (I-09's second half).

use std::collections::{BTreeSet, HashMap};

use quorate_core::ident::UniqueAddress;
use quorate_core::membership::gossip::Gossip;
use quorate_core::membership::member::Status;

use super::{Cause, Step, oracle};
use crate::sim::{History, ProcessId, digest};

/// Every status any process has ever given a member, and who acted from which state.
#[derive(Debug, Default)]
pub(super) struct LeaderOnly {
    given: BTreeSet<(UniqueAddress, Status)>,
    acted: HashMap<u64, ProcessId>,
}

impl LeaderOnly {
    pub(super) fn check(&mut self, step: &Step<'_>, history: &History) -> Result<(), String> {
        let (before, after) = (step.before.gossip(), step.after.gossip());
        let moves = moves(before, after);
        if step.cause.is_merge() {
            for moved in moves {
                // A node may declare others or itself Down in any step.
                if moved.1 != Status::Down && !self.given.contains(&moved) {
                    return Err(format!(
                        "takes over that {} is {}, which nobody did",
                        moved.0, moved.1
                    ));
                }
                self.given.insert(moved);
            }
            return Ok(());
        }
        let is_by_hand = |(node, status): &(UniqueAddress, Status)| {
            let is_command = *step.cause == Cause::Command && *status == Status::Removed;
            is_command && history.removed_by_hand.contains(node)
        };
        let mut acts = moves.iter().filter(|moved| is_leader_action(moved.1));
        if let Some((node, status)) = acts.find(|moved| !is_by_hand(moved)) {
            self.check_authority(step, history)
                .map_err(|why| format!("moves {node} to {status} {why}"))?;
        }
        self.given.extend(moves);
        Ok(())
    }

    fn check_authority(&mut self, step: &Step<'_>, history: &History) -> Result<(), String> {
        let (before, me) = (step.before.gossip(), step.after.me());
        if before.members().is_empty() {
            // The first node of a new cluster is alone and acts at once.
            let alone = step.after.gossip().members().len() == 1;
            return alone.then_some(()).ok_or_else(|| "out of nothing".to_owned());
        }
        let confirmed = &history.processes[step.process as usize].exiting_confirmed;
        if oracle::leader(before, me, true) != Some(me) {
            return Err("without being the leader".to_owned());
        }
        if !oracle::converged(before, me, confirmed) {
            return Err("without convergence".to_owned());
        }
        let clock = digest::clock(before.version());
        let first = *self.acted.entry(clock).or_insert(step.process);
        if first == step.process {
            return Ok(());
        }
        Err(format!("from a state from which p{first} acted"))
    }
}

const fn is_leader_action(status: Status) -> bool {
    matches!(
        status,
        Status::Up | Status::Exiting | Status::ReadyForShutdown | Status::Removed
    )
}

/// Who has which new status; who is gone has been removed.
fn moves(before: &Gossip, after: &Gossip) -> Vec<(UniqueAddress, Status)> {
    let mut moves = Vec::new();
    for member in after.members() {
        let old = before.member(&member.node).map(|old| old.status);
        if old != Some(member.status) {
            moves.push((member.node.clone(), member.status));
        }
    }
    for member in before.members() {
        if !after.contains(&member.node) {
            moves.push((member.node.clone(), Status::Removed));
        }
    }
    moves
}
