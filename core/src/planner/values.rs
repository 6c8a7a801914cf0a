//! What the planner is asked and what it answers. Decides nothing. Spec: sharding 5.3.

use alloc::sync::Arc;
use alloc::vec::Vec;

/// Whether a node may be given something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeStanding {
    /// It may.
    Open,
    /// It may not, and what it has has to go: it leaves.
    Leaving,
    /// It may not, and keeps what it has: it is neither Up nor leaving.
    Closed,
}

/// A node that may have something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanNode<N> {
    /// Which.
    pub node: N,
    /// Whether it may be given something.
    pub standing: NodeStanding,
    /// Where it stands, if somebody said so. Nodes of which nobody did are one more zone.
    pub zone: Option<Arc<str>>,
    /// The [pools](PlanUnit::pool) that it belongs to, in any order.
    pub pools: Vec<u16>,
}

impl<N> PlanNode<N> {
    /// A node that may be given everything, in no zone.
    pub const fn open(node: N) -> Self {
        Self {
            node,
            standing: NodeStanding::Open,
            zone: None,
            pools: Vec::new(),
        }
    }
}

/// What the planner may do with a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SlotStage<N> {
    /// Anything.
    Settled,
    /// Only what is necessary or commanded: it has come from this node because of load, and counts there.
    Away(N),
    /// Nothing: acknowledgements of its last move are missing, or a margin has not passed.
    Held,
    /// Nothing, because a change is under way: to this node, or to none if the slot ends.
    Moving(Option<N>),
    /// Nothing, because it goes to this node because of load; it counts at the one that has it.
    MovingByLoad(N),
}

/// One instance of a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanSlot<N> {
    /// Which one of the unit.
    pub slot: u16,
    /// Who has it. `None`: nobody. One that is not among the nodes is gone, and the slot is repaired.
    pub host: Option<N>,
    /// What may be done with it.
    pub stage: SlotStage<N>,
    /// Who gets it if it has to be repaired and that one may have it: the new host of a change whose old host
    /// is gone.
    pub prefers: Option<N>,
}

impl<N> PlanSlot<N> {
    /// A slot that may be moved.
    pub const fn settled(slot: u16, host: N) -> Self {
        Self {
            slot,
            host: Some(host),
            stage: SlotStage::Settled,
            prefers: None,
        }
    }
}

/// What is placed as a whole: a path, a shard, a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanUnit<U, N> {
    /// Which.
    pub unit: U,
    /// How many instances it is to have; with fewer nodes that may host it, one on each.
    pub count: u16,
    /// What one instance counts in the load of its node (1 for most).
    pub weight: u32,
    /// Only nodes of this pool host it (a role); `None`: all do.
    pub pool: Option<u16>,
    /// Nodes that do not host it although they are of the pool.
    pub refused: Vec<N>,
    /// Most instances that may be without service at a time because of moves, if a moved one is: max(1, f)
    /// under the options 2b and 2c. `None`: a moved one goes on serving.
    pub silent_max: Option<u16>,
    /// Most slots that may change at a time; the first ones all come at once. `None`: any number.
    pub changing_max: Option<u16>,
    /// What there is, changes under way included.
    pub slots: Vec<PlanSlot<N>>,
}

impl<U, N> PlanUnit<U, N> {
    /// A unit of weight 1 for all nodes, whose instances serve while they move.
    pub const fn new(unit: U, count: u16, slots: Vec<PlanSlot<N>>) -> Self {
        Self {
            unit,
            count,
            weight: 1,
            pool: None,
            refused: Vec::new(),
            silent_max: None,
            changing_max: None,
            slots,
        }
    }
}

/// One slot from one node to another, because somebody wants it there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedMove<U, N> {
    /// Of which unit.
    pub unit: U,
    /// Which slot.
    pub slot: u16,
    /// Who has it.
    pub from: N,
    /// Who is to have it.
    pub to: N,
}

/// Everything that a plan follows from. Lists in any order; of two entries of one node, unit or slot the
/// first counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanSituation<U, N> {
    /// The nodes; one that is not here is gone.
    pub nodes: Vec<PlanNode<N>>,
    /// The units.
    pub units: Vec<PlanUnit<U, N>>,
    /// Who was given the last new slot: the next one is placed from the node behind it on.
    pub placed_last: Option<N>,
    /// What users command.
    pub commanded: Vec<WantedMove<U, N>>,
    /// What the load suggests: done when the numbers of slots call for nothing.
    pub by_load: Vec<WantedMove<U, N>>,
}

impl<U, N: Ord> PlanSituation<U, N> {
    /// Whether a slot or a change names the node: until none does, it does not go.
    #[must_use]
    pub fn names(&self, node: &N) -> bool {
        let mut slots = self.units.iter().flat_map(|unit| &unit.slots);
        slots.any(|slot| slot.is_at(node))
    }
}

impl<N: Ord> PlanSlot<N> {
    /// Whether the node has the slot or is about to get it.
    pub(super) fn is_at(&self, node: &N) -> bool {
        let comes = match &self.stage {
            SlotStage::Moving(to) => to.as_ref() == Some(node),
            SlotStage::MovingByLoad(to) => to == node,
            SlotStage::Settled | SlotStage::Away(_) | SlotStage::Held => false,
        };
        comes || self.host.as_ref() == Some(node)
    }
}

/// How much may be under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanLimits {
    /// Changes of all units.
    pub pending_max: usize,
    /// Changes that come to one node.
    pub arriving_max: usize,
    /// Changes that go from one node.
    pub departing_max: usize,
}

impl PlanLimits {
    /// No limits.
    pub const NONE: Self = Self {
        pending_max: usize::MAX,
        arriving_max: usize::MAX,
        departing_max: usize::MAX,
    };

    /// The documented ones for so many nodes: a quarter of them, at least 3, and at each node one that comes
    /// and one that goes.
    #[must_use]
    pub const fn for_nodes(nodes: usize) -> Self {
        let quarter = nodes / 4;
        Self {
            pending_max: if quarter > 3 { quarter } else { 3 },
            arriving_max: 1,
            departing_max: 1,
        }
    }
}

/// Why something changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeReason {
    /// The unit had no slot at all: nothing is handed over, so no limit counts.
    First,
    /// Its host leaves, or may not have it any more.
    Evacuation,
    /// Its host is gone.
    Repair,
    /// The unit is to have more or fewer.
    Count,
    /// A user commanded it.
    Command,
    /// The unit was spread unevenly over zones.
    Zones,
    /// Nodes had unequal numbers of slots.
    Balance,
    /// A node had more work than another.
    Load,
}

/// One slot changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedChange<U, N> {
    /// Of which unit.
    pub unit: U,
    /// Which slot.
    pub slot: u16,
    /// Who has it; `None`: nobody, or one that is gone.
    pub from: Option<N>,
    /// Who gets it; `None`: the slot ends. Of one without a host nothing is left to do then.
    pub to: Option<N>,
    /// Why.
    pub reason: ChangeReason,
}

/// What follows from a situation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacementPlan<U, N> {
    /// What changes, the most important first.
    pub changes: Vec<PlannedChange<U, N>>,
    /// [`PlanSituation::placed_last`] for the next plan, once this one is carried out.
    pub placed_last: Option<N>,
    /// Commanded moves that cannot be done, by their position. Those that are neither here nor among the
    /// changes wait for others.
    pub refused: Vec<(usize, MoveError)>,
}

/// Why a wanted move cannot be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MoveError {
    /// There is no such unit.
    #[error("no such unit")]
    UnknownUnit,
    /// The unit has no such slot.
    #[error("the unit has no such slot")]
    UnknownSlot,
    /// Another node has it.
    #[error("another node has the slot")]
    OtherHost,
    /// It changes, or its last change is not over.
    #[error("a change of the slot is under way")]
    InFlight,
    /// The node has an instance of the unit, or is about to get one.
    #[error("the node already has an instance of the unit")]
    AlreadyThere,
    /// The node may not have the unit, or is no node.
    #[error("the node may not host the unit")]
    NotEligible,
}
