//! Which node gets which instance of what: one pure function for everything that has a number of instances
//! on the nodes of a cluster, paths, shards and ranges alike. Never decides when to plan, sends nothing, and
//! remembers nothing: everything follows from the situation it is given, in which changes under way are part
//! of the assignment. Spec: sharding 5.3, 10.18.
//!
//! [`plan`] looks, in this order, for what
//!
//! 1. has to go: slots on leaving nodes, and on nodes that may not have them;
//! 2. is missing: slots whose host is gone;
//! 3. is too much or too little: numbers of instances;
//! 4. was commanded;
//! 5. is uneven: zones, then nodes;
//! 6. the load suggests, if nothing is uneven.
//!
//! A unit is never twice on one node. A node counts as loaded by the slots that it has and those that come to
//! it; for balance what goes from it counts no more. Where nodes have zones, a slot goes to the zone with the
//! fewest of its unit first. The load of a node is a sum of weights, so with units of unequal weight
//! "two slots more" reads: more than the weight of the slot that would move.
//!
//! # Cost
//!
//! O((slots + changes) · log nodes) with a few zones and pools, and for balance as much again for each round
//! that moved something; rounds are one or two unless zones or pools stand in the way. A thousand nodes that
//! differ in their zones or pools one by one are looked at one by one. 8,192 slots of 1,024 units on 1,000
//! nodes are planned in a few milliseconds.

mod balance;
mod board;
pub mod gate;
mod ordinals;
mod ring;
mod steps;
#[cfg(test)]
mod tests;
mod values;

pub use gate::PlanningGate;
pub use ordinals::Ordinals;
pub use values::{
    ChangeReason, MoveError, NodeStanding, PlacementPlan, PlanLimits, PlanNode, PlanSituation, PlanSlot,
    PlanUnit, PlannedChange, SlotStage, WantedMove,
};

use alloc::vec::Vec;

use board::{PlanNames, PlanningBoard};

/// What changes in a situation, as far as the gate and the limits let it. The same situation always gives the
/// same plan; once a plan is carried out, or part of the situation as changes under way, nothing of it is
/// planned again.
#[must_use]
pub fn plan<U: Ord + Clone, N: Ord + Clone>(
    situation: &PlanSituation<U, N>,
    gate: PlanningGate,
    limits: PlanLimits,
) -> PlacementPlan<U, N> {
    let names = PlanNames::of(situation);
    let mut board = PlanningBoard::of(&names, limits);
    let wishes = |wanted: &[WantedMove<U, N>], board: &PlanningBoard| -> Vec<_> {
        let checked = wanted.iter().map(|wanted| {
            let wish = names.wish(wanted)?;
            board.check(wish).map(|()| wish)
        });
        checked.collect()
    };
    let commanded = wishes(&situation.commanded, &board);
    let by_load = wishes(&situation.by_load, &board);
    let after = situation.placed_last.as_ref().map(|last| names.position(last));
    let first = after.map_or(0, |at| board.ring.round(at.map_or_else(|at| at, |at| at + 1)));
    let mut cursor = first;
    if gate != PlanningGate::Closed {
        board.forget();
        board.evacuate();
        board.repair(cursor);
        cursor = board.count(cursor);
    }
    if gate == PlanningGate::Open {
        for wish in commanded.iter().flatten() {
            board.carry_out(*wish, ChangeReason::Command);
        }
        board.ring.settle();
        let before = board.steps.len();
        board.spread_over_zones();
        board.balance();
        let is_even = board.steps.len() == before;
        for wish in by_load.iter().flatten().filter(|_| is_even) {
            board.carry_out(*wish, ChangeReason::Load);
        }
    }
    let refused = |(at, wish): (usize, &Result<_, MoveError>)| Some((at, wish.as_ref().err().copied()?));
    PlacementPlan {
        changes: board.steps.iter().map(|step| names.change(step)).collect(),
        placed_last: if cursor == first {
            situation.placed_last.clone()
        } else {
            Some(names.node(cursor.checked_sub(1).unwrap_or(board.ring.len() - 1)))
        },
        refused: commanded.iter().enumerate().filter_map(refused).collect(),
    }
}

/// Whether a move that somebody wants can be done, apart from what is under way elsewhere. Linear in the
/// situation.
///
/// # Errors
/// [`MoveError`] says why not.
pub fn check_move<U: Ord, N: Ord>(
    situation: &PlanSituation<U, N>,
    wanted: &WantedMove<U, N>,
) -> Result<(), MoveError> {
    let names = PlanNames::of(situation);
    let wish = names.wish(wanted)?;
    PlanningBoard::of(&names, PlanLimits::NONE).check(wish)
}
