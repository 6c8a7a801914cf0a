//! I-10: only a leader on a converged state moves members to Up, to Exiting or out of the table; and what a
//! node takes over from others, somebody else really did. An operator may remove a member at any node. From
//! one state at most one process acts (I-09's second half), but for a successor: who knows that everybody who
//! acted from this state has said goodbye acts from it again, because what they did may be lost with them. It
//! then gives the same statuses and numbers to the same members; whom it removes is I-13's business, because
//! two leaders need not know of the same goodbyes.

use std::collections::{BTreeSet, HashMap};

use quorate_core::ident::UniqueAddress;
use quorate_core::membership::gossip::Gossip;
use quorate_core::membership::member::{Status, UpNumber};

use super::{Cause, Step, oracle};
use crate::sim::{History, ProcessId, digest};

/// Every status any process has ever given a member, and what was done from which state.
#[derive(Debug, Default)]
pub(super) struct LeaderOnly {
    given: BTreeSet<(UniqueAddress, Status)>,
    acted: HashMap<u64, Acted>,
}

/// Who acted from one state, and what all of them gave to whom.
#[derive(Debug)]
struct Acted {
    leaders: Vec<(ProcessId, UniqueAddress)>,
    gave: Given,
}

/// Statuses with the numbers that belong to them.
type Given = BTreeSet<(UniqueAddress, Status, UpNumber)>;

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
        let (before, after, me) = (step.before.gossip(), step.after.gossip(), step.after.me());
        if before.members().is_empty() {
            // The first node of a new cluster is alone and acts at once.
            let alone = after.members().len() == 1;
            return alone.then_some(()).ok_or_else(|| "out of nothing".to_owned());
        }
        let confirmed = &history.processes[step.process as usize].exiting_confirmed;
        if oracle::leader(before, me, true) != Some(me) {
            return Err("without being the leader".to_owned());
        }
        let acts_alone = oracle::left_alone(before, after, me, confirmed);
        if !acts_alone && !oracle::converged(before, me, confirmed) {
            return Err("without convergence".to_owned());
        }
        let gave = gave(before, after);
        self.note_act(
            digest::clock(before.version()),
            (step.process, me),
            gave,
            confirmed,
        )
    }

    /// `leader` acts from the state with this clock, and knows who has said goodbye.
    fn note_act(
        &mut self,
        clock: u64,
        leader: (ProcessId, &UniqueAddress),
        gave: Given,
        confirmed: &BTreeSet<UniqueAddress>,
    ) -> Result<(), String> {
        let Some(acted) = self.acted.get_mut(&clock) else {
            let leaders = vec![(leader.0, leader.1.clone())];
            self.acted.insert(clock, Acted { leaders, gave });
            return Ok(());
        };
        let goes_on =
            |other: &&(ProcessId, UniqueAddress)| other.0 != leader.0 && !confirmed.contains(&other.1);
        if let Some((process, _)) = acted.leaders.iter().find(goes_on) {
            return Err(format!("from a state from which p{process} acted"));
        }
        if acted.gave != gave {
            let (first, did) = (acted.leaders[0].0, &acted.gave);
            return Err(format!(
                "and gives {gave:?} in a state in which p{first} gave {did:?}"
            ));
        }
        acted.leaders.push((leader.0, leader.1.clone()));
        Ok(())
    }
}

const fn is_leader_action(status: Status) -> bool {
    matches!(
        status,
        Status::Up | Status::Exiting | Status::ReadyForShutdown | Status::Removed
    )
}

/// What a leader gave in one step: to whom which status, with which number.
fn gave(before: &Gossip, after: &Gossip) -> Given {
    let numbered = |(node, status): (UniqueAddress, Status)| {
        let member = after.member(&node).filter(|_| is_leader_action(status));
        member.map(|member| (node, status, member.up_number))
    };
    moves(before, after).into_iter().filter_map(numbered).collect()
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

#[cfg(test)]
mod tests {
    use quorate_core::ident::Address;

    use super::*;

    const CLOCK: u64 = 1;

    fn node(uid: u64) -> UniqueAddress {
        UniqueAddress::new(Address::new("a", 7355).expect("an address"), uid)
    }

    /// Node 0 moves itself to Exiting and makes node 2 Up; node 1 acts from the same state, does this and
    /// knows these goodbyes.
    fn acts_again(gives: &[(u64, Status, u32)], confirmed: &[u64]) -> Result<(), String> {
        let given = |all: &[(u64, Status, u32)]| {
            let all = all.iter();
            all.map(|(uid, status, number)| (node(*uid), *status, UpNumber::new(*number)))
                .collect::<Given>()
        };
        let mut checker = LeaderOnly::default();
        let first = given(&[(0, Status::Exiting, 1), (2, Status::Up, 3)]);
        checker.note_act(CLOCK, (0, &node(0)), first, &BTreeSet::new())?;
        let confirmed = confirmed.iter().map(|uid| node(*uid)).collect();
        checker.note_act(CLOCK, (1, &node(1)), given(gives), &confirmed)
    }

    #[test]
    fn i_10_only_a_successor_of_one_who_said_goodbye_acts_again_and_does_the_same() {
        let same = [(0, Status::Exiting, 1), (2, Status::Up, 3)];
        assert_eq!(acts_again(&same, &[0]), Ok(()));
        assert!(acts_again(&same, &[]).is_err(), "who leads goes on");
        assert!(acts_again(&same, &[2]).is_err(), "another one said goodbye");
        for other in [
            &[(0, Status::Exiting, 1), (2, Status::Up, 4)][..],
            &[(0, Status::Exiting, 1)],
            &[(2, Status::Up, 3)],
            &[(0, Status::Exiting, 1), (2, Status::Up, 3), (3, Status::Up, 4)],
            &[],
        ] {
            assert!(acts_again(other, &[0]).is_err(), "{other:?}");
        }
    }
}
