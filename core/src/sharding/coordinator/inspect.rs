//! What tests, simulators and operators may see of a coordinator, and what must hold for it. Changes nothing.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::hand_off::HandOffStage;
use super::{Coordinator, CoordinatorTenure};
use crate::ident::UniqueAddress;
use crate::sharding::state::ids::{ShardId, Term};

/// Where a coordinator is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CoordinatorPhase {
    /// This node is the oldest; the removal margin of those before it has not passed.
    Waiting,
    /// It asks every member of the role what it hosts, and allocates nothing.
    Recovering,
    /// It knows every home and allocates.
    Active,
}

/// A coordinator at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CoordinatorState {
    /// Its term; `None` while it waits.
    pub term: Option<Term>,
    /// Where it is in its life.
    pub phase: CoordinatorPhase,
    /// Shards and where they live, those on the move and those of lost regions included.
    pub homes: Vec<(ShardId, UniqueAddress)>,
    /// Registered regions, proxies included, with the number of their shards.
    pub regions: Vec<(UniqueAddress, usize)>,
    /// Shards on the move.
    pub moving: Vec<ShardId>,
    /// Shards that somebody waits for.
    pub requested: Vec<ShardId>,
}

impl Coordinator {
    /// This coordinator, now; `None` while another member is the oldest.
    pub(crate) fn state(&self) -> Option<CoordinatorState> {
        let phase = match self.tenure {
            CoordinatorTenure::Idle => return None,
            CoordinatorTenure::Waiting | CoordinatorTenure::Resting => CoordinatorPhase::Waiting,
            CoordinatorTenure::Recovering(_) => CoordinatorPhase::Recovering,
            CoordinatorTenure::Active(_) => CoordinatorPhase::Active,
        };
        let regions = self.regions.iter();
        Some(CoordinatorState {
            term: self.term().cloned(),
            phase,
            homes: self.known_homes().map(|(id, node)| (id, node.clone())).collect(),
            regions: regions.map(|(node, r)| (node.clone(), r.shards.len())).collect(),
            moving: self.hand_offs.keys().copied().collect(),
            requested: self.requesters.keys().copied().collect(),
        })
    }

    /// Shards and where they live, while this node coordinates them.
    pub(crate) fn known_homes(&self) -> impl Iterator<Item = (ShardId, &UniqueAddress)> {
        self.places.homes()
    }

    /// What must hold between the calls.
    pub(crate) fn check_invariants(&self) -> Result<(), String> {
        if self.term().is_none() && !(self.regions.is_empty() && self.places.homes().next().is_none()) {
            return Err(String::from("coordinator: knows regions before it started"));
        }
        let listed: usize = self.regions.values().map(|region| region.shards.len()).sum();
        let chosen = self.places.all_chosen().map(|(shard, at)| (shard, &at.node));
        let mut placed = self.places.homes().chain(chosen);
        let mirrored = placed.all(|(shard, home)| {
            let region = self.regions.get(home);
            region.is_some_and(|region| region.shards.contains(&shard))
        });
        if !self.places.are_listed() {
            return Err(String::from(
                "coordinator: what is chosen or renewed is not what is listed so",
            ));
        }
        if listed != self.places.homes().count() + self.places.all_chosen().count() || !mirrored {
            return Err(String::from(
                "coordinator: homes and regions do not mirror each other",
            ));
        }
        if let Some((id, _)) = self.places.homes().find(|(id, _)| !self.kind.has(*id)) {
            return Err(format!("coordinator: shard {id} does not exist"));
        }
        if let Some((node, _)) = self.regions.iter().find(|(_, r)| r.proxy && !r.shards.is_empty()) {
            return Err(format!("coordinator: the proxy on {node} has a shard"));
        }
        for (id, hand_off) in &self.hand_offs {
            if !hand_off.claims.is_conflict() && !self.places.has_home(*id) {
                return Err(format!("coordinator: shard {id} moves and has no home"));
            }
            if hand_off.owners.is_empty() {
                return Err(format!("coordinator: shard {id} moves and nobody has to stop it"));
            }
            match &hand_off.stage {
                HandOffStage::Forgetting if hand_off.barrier.is_open() => {
                    return Err(format!("coordinator: shard {id} moves and waits for nobody"));
                }
                HandOffStage::Forgetting | HandOffStage::Stopping => {}
            }
        }
        if !self.homeless.is_empty() && !self.is_active() {
            return Err(String::from(
                "coordinator: shards wait to be allocated before it recovered",
            ));
        }
        if !self.asking.is_idle() && !self.is_active() {
            return Err(String::from(
                "coordinator: the application is asked before it recovered",
            ));
        }
        let waits_for_nothing = |id: &&ShardId| self.tellable_home(**id).is_some();
        if let Some(id) = self.requesters.keys().find(waits_for_nothing) {
            return Err(format!(
                "coordinator: the home of shard {id} is asked for, known and not told"
            ));
        }
        if self
            .without_region
            .iter()
            .any(|node| self.regions.contains_key(node))
        {
            return Err(String::from("coordinator: a member has and has no region"));
        }
        Ok(())
    }
}
