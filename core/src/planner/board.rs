//! The situation by positions instead of names, kept up to date while a plan is made: who has what, and what
//! is under way. Does not know why something changes. Spec: sharding 5.3.

use alloc::vec;
use alloc::vec::Vec;

use super::ring::{NodeRing, NodeSearch};
use super::values::{
    ChangeReason, MoveError, NodeStanding, PlanLimits, PlanNode, PlanSituation, PlanSlot, PlanUnit,
    PlannedChange, SlotStage, WantedMove,
};

/// Who has a slot.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SlotHost {
    /// The node at this position.
    At(usize),
    /// One that is gone, and would be at this position.
    Gone(usize),
    /// Nobody.
    Nobody,
}

impl SlotHost {
    pub(super) const fn node(self) -> Option<usize> {
        match self {
            Self::At(at) => Some(at),
            Self::Gone(_) | Self::Nobody => None,
        }
    }
}

/// What may be done with a slot.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SlotFreedom {
    /// Anything.
    Free,
    /// What is necessary or commanded.
    Resting,
    /// Nothing.
    Fixed,
}

/// A slot.
pub(super) struct BoardSlot {
    pub(super) number: u16,
    pub(super) host: SlotHost,
    pub(super) freedom: SlotFreedom,
    /// Where it counts, if that is not its host.
    counts_at: Option<usize>,
    /// Who is to repair it, if it is somebody in particular.
    pub(super) prefers: Option<usize>,
}

/// A unit.
pub(super) struct BoardUnit {
    pool: Option<u16>,
    /// Sorted.
    refused: Vec<usize>,
    pub(super) weight: u64,
    /// How many slots it is to have on the nodes that there are.
    pub(super) wanted: usize,
    /// How many it will have when all changes are done.
    pub(super) staying: usize,
    /// Slots that do not serve: their host is gone, they start, or they move and are silent meanwhile.
    pub(super) silent: usize,
    silent_max: Option<usize>,
    /// Slots that change, the first ones not counted.
    changing: usize,
    changing_max: Option<usize>,
    pub(super) slots: Vec<BoardSlot>,
    /// Who has a slot or gets one, sorted; who gives one away is among them until that is done.
    holders: Vec<usize>,
    /// Slots per zone when all changes are done; empty with one zone.
    zones: Vec<u32>,
}

impl BoardUnit {
    pub(super) fn in_zone(&self, zone: usize) -> u32 {
        self.zones.get(zone).copied().unwrap_or(0)
    }

    pub(super) fn is_held_by(&self, node: usize) -> bool {
        self.holders.binary_search(&node).is_ok()
    }

    /// How many slots it has too many.
    pub(super) const fn surplus(&self) -> usize {
        self.staying.saturating_sub(self.wanted)
    }

    /// Whether another of its slots may move now.
    pub(super) fn may_move(&self) -> bool {
        self.may_change() && self.silent_max.is_none_or(|max| self.silent < max)
    }

    /// Whether another of its slots may change now, be it necessary or not.
    pub(super) fn may_change(&self) -> bool {
        self.changing_max.is_none_or(|max| self.changing < max)
    }

    /// The lowest number that no slot of it has.
    pub(super) fn new_slot(&self) -> u16 {
        let mut taken: Vec<u16> = self.slots.iter().map(|slot| slot.number).collect();
        taken.sort_unstable();
        let mut free = 0;
        for number in taken {
            free = if number == free {
                number.saturating_add(1)
            } else {
                free
            };
        }
        free
    }

    /// A search for a node that may have it and does not yet.
    pub(super) fn search(&self, from: usize) -> NodeSearch<'_> {
        NodeSearch {
            pool: self.pool,
            holders: &self.holders,
            refused: &self.refused,
            from,
            below: u64::MAX,
            is_unlimited: false,
        }
    }

    /// Whether it may be on the node at all.
    pub(super) fn suits(&self, node: usize, ring: &NodeRing) -> bool {
        ring.is_in(node, self.pool) && self.refused.binary_search(&node).is_err()
    }

    /// Whether the node may be given a slot of it, if it has none.
    pub(super) fn is_for(&self, node: usize, ring: &NodeRing) -> bool {
        ring.node(node).standing == NodeStanding::Open && self.suits(node, ring)
    }

    fn hold(&mut self, node: usize) {
        if let Err(at) = self.holders.binary_search(&node) {
            self.holders.insert(at, node);
        }
    }

    /// A slot begins to go from one node to another.
    fn begin(&mut self, from: Option<usize>, to: Option<usize>, ring: &mut NodeRing) {
        ring.begin(from, to, self.weight);
        self.changing += 1;
        to.into_iter().for_each(|to| self.hold(to));
        let is_silent = from.is_none() || (to.is_some() && self.silent_max.is_some());
        self.silent += usize::from(is_silent);
    }
}

/// A change by positions.
#[derive(Clone, Copy)]
pub(super) struct PlanningStep {
    pub(super) unit: usize,
    pub(super) slot: u16,
    pub(super) from: Option<usize>,
    pub(super) to: Option<usize>,
    pub(super) reason: ChangeReason,
}

/// A wanted move by positions.
#[derive(Clone, Copy)]
pub(super) struct WantedStep {
    pub(super) unit: usize,
    pub(super) slot: u16,
    pub(super) from: usize,
    pub(super) to: usize,
}

/// The names of positions.
pub(super) struct PlanNames<'s, U, N> {
    nodes: Vec<&'s PlanNode<N>>,
    units: Vec<&'s PlanUnit<U, N>>,
}

impl<'s, U: Ord, N: Ord> PlanNames<'s, U, N> {
    pub(super) fn of(situation: &'s PlanSituation<U, N>) -> Self {
        let mut nodes: Vec<_> = situation.nodes.iter().collect();
        nodes.sort_by(|one, other| one.node.cmp(&other.node));
        nodes.dedup_by(|one, other| one.node == other.node);
        let mut units: Vec<_> = situation.units.iter().collect();
        units.sort_by(|one, other| one.unit.cmp(&other.unit));
        units.dedup_by(|one, other| one.unit == other.unit);
        Self { nodes, units }
    }

    /// The position of a node, or the one that it would have.
    pub(super) fn position(&self, node: &N) -> Result<usize, usize> {
        self.nodes.binary_search_by(|other| other.node.cmp(node))
    }

    /// A wanted move by positions.
    pub(super) fn wish(&self, wanted: &WantedMove<U, N>) -> Result<WantedStep, MoveError> {
        let unit = self.units.binary_search_by(|other| other.unit.cmp(&wanted.unit));
        Ok(WantedStep {
            unit: unit.map_err(|_| MoveError::UnknownUnit)?,
            slot: wanted.slot,
            from: self.position(&wanted.from).map_err(|_| MoveError::OtherHost)?,
            to: self.position(&wanted.to).map_err(|_| MoveError::NotEligible)?,
        })
    }
}

impl<U: Clone, N: Clone> PlanNames<'_, U, N> {
    pub(super) fn node(&self, at: usize) -> N {
        self.nodes[at].node.clone()
    }

    pub(super) fn change(&self, step: &PlanningStep) -> PlannedChange<U, N> {
        PlannedChange {
            unit: self.units[step.unit].unit.clone(),
            slot: step.slot,
            from: step.from.map(|at| self.node(at)),
            to: step.to.map(|at| self.node(at)),
            reason: step.reason,
        }
    }
}

/// All of it.
pub(super) struct PlanningBoard {
    pub(super) ring: NodeRing,
    /// In their order.
    pub(super) units: Vec<BoardUnit>,
    pub(super) steps: Vec<PlanningStep>,
}

impl PlanningBoard {
    pub(super) fn of<U: Ord, N: Ord>(names: &PlanNames<'_, U, N>, limits: PlanLimits) -> Self {
        let mut ring = NodeRing::of(&names.nodes, limits);
        let units = names.units.iter().map(|unit| known(unit, names, &mut ring));
        Self {
            units: units.collect(),
            ring,
            steps: Vec::new(),
        }
    }

    /// Whether a wanted move can be done, apart from what is under way elsewhere.
    pub(super) fn check(&self, wish: WantedStep) -> Result<(), MoveError> {
        let unit = &self.units[wish.unit];
        let mut slots = unit.slots.iter();
        let slot = slots
            .find(|slot| slot.number == wish.slot)
            .ok_or(MoveError::UnknownSlot)?;
        if slot.host != SlotHost::At(wish.from) {
            return Err(MoveError::OtherHost);
        }
        if unit.is_held_by(wish.to) {
            return Err(MoveError::AlreadyThere);
        }
        if !unit.is_for(wish.to, &self.ring) {
            return Err(MoveError::NotEligible);
        }
        match slot.freedom {
            SlotFreedom::Fixed => Err(MoveError::InFlight),
            SlotFreedom::Free | SlotFreedom::Resting => Ok(()),
        }
    }

    /// Plans a change.
    pub(super) fn plan(&mut self, step: PlanningStep) {
        let (unit, ring) = (&mut self.units[step.unit], &mut self.ring);
        if let Some(slot) = unit.slots.iter_mut().find(|slot| slot.number == step.slot) {
            slot.freedom = SlotFreedom::Fixed;
            if let (Some(there), Some(from)) = (slot.counts_at.take(), step.from) {
                ring.take(there, unit.weight);
                ring.put(from, unit.weight);
            }
            // Without a host it counted as silent already.
            unit.silent -= usize::from(step.from.is_none());
            unit.staying -= usize::from(step.to.is_none());
        } else {
            unit.staying += 1;
            unit.slots.push(BoardSlot {
                number: step.slot,
                host: SlotHost::Nobody,
                freedom: SlotFreedom::Fixed,
                counts_at: None,
                prefers: None,
            });
        }
        if let Some(count) = step.from.and_then(|at| unit.zones.get_mut(ring.node(at).zone)) {
            *count -= 1;
        }
        if let Some(count) = step.to.and_then(|at| unit.zones.get_mut(ring.node(at).zone)) {
            *count += 1;
        }
        match (step.from, step.to) {
            (None, None) => {}
            (None, Some(to)) if step.reason == ChangeReason::First => {
                ring.put(to, unit.weight);
                unit.hold(to);
            }
            (from, to) => unit.begin(from, to, ring),
        }
        self.steps.push(step);
    }
}

/// A unit by positions; notes what it has on the nodes.
fn known<U: Ord, N: Ord>(
    unit: &PlanUnit<U, N>,
    names: &PlanNames<'_, U, N>,
    ring: &mut NodeRing,
) -> BoardUnit {
    let refused = unit.refused.iter().filter_map(|node| names.position(node).ok());
    let mut refused: Vec<usize> = refused.collect();
    refused.sort_unstable();
    refused.dedup();
    let mut known = BoardUnit {
        pool: unit.pool,
        refused,
        weight: u64::from(unit.weight.max(1)),
        wanted: 0,
        staying: 0,
        silent: 0,
        silent_max: unit.silent_max.map(usize::from),
        changing: 0,
        changing_max: unit.changing_max.map(usize::from),
        slots: Vec::with_capacity(unit.slots.len()),
        holders: Vec::with_capacity(unit.slots.len()),
        zones: if ring.zones() > 1 {
            vec![0; ring.zones()]
        } else {
            Vec::new()
        },
    };
    let mut slots: Vec<_> = unit.slots.iter().collect();
    slots.sort_by_key(|slot| slot.slot);
    slots.dedup_by_key(|slot| slot.slot);
    for slot in slots {
        add(&mut known, slot, names, ring);
    }
    let is_open = |at: usize| ring.node(at).standing == NodeStanding::Open;
    let refusing = known
        .refused
        .iter()
        .filter(|at| is_open(**at) && ring.is_in(**at, known.pool));
    let able = ring.open(known.pool) - refusing.count();
    let keeping = known
        .holders
        .iter()
        .filter(|at| ring.node(**at).standing == NodeStanding::Closed);
    known.wanted = usize::from(unit.count).min(able + keeping.count());
    known
}

fn add<U: Ord, N: Ord>(
    unit: &mut BoardUnit,
    slot: &PlanSlot<N>,
    names: &PlanNames<'_, U, N>,
    ring: &mut NodeRing,
) {
    let at = |node: &N| names.position(node).ok();
    let host = match slot.host.as_ref().map(|host| names.position(host)) {
        Some(Ok(at)) => SlotHost::At(at),
        Some(Err(at)) => SlotHost::Gone(ring.round(at)),
        None => SlotHost::Nobody,
    };
    let freedom = match &slot.stage {
        SlotStage::Settled => SlotFreedom::Free,
        SlotStage::Away(_) => SlotFreedom::Resting,
        SlotStage::Held | SlotStage::Moving(_) | SlotStage::MovingByLoad(_) => SlotFreedom::Fixed,
    };
    let here = host.node();
    let counts_at = match &slot.stage {
        SlotStage::Away(from) => here.and_then(|_| at(from)),
        SlotStage::MovingByLoad(_) => here,
        SlotStage::Settled | SlotStage::Held | SlotStage::Moving(_) => None,
    };
    unit.slots.push(BoardSlot {
        number: slot.slot,
        host,
        freedom,
        counts_at,
        prefers: slot.prefers.as_ref().and_then(at),
    });
    if let Some(here) = here {
        unit.hold(here);
        ring.put(counts_at.unwrap_or(here), unit.weight);
    }
    let goes_to = match &slot.stage {
        SlotStage::Moving(to) => Some(to.as_ref()),
        SlotStage::MovingByLoad(to) => Some(Some(to)),
        SlotStage::Settled | SlotStage::Away(_) | SlotStage::Held => None,
    };
    let stays_at = if let Some(to) = goes_to {
        let there = to.and_then(at);
        unit.staying += usize::from(to.is_some());
        unit.begin(here, there, ring);
        if let (Some(counts_at), Some(there)) = (counts_at, there) {
            ring.counts_on(counts_at, there, unit.weight);
        }
        // Its new host may be gone already, and it is silent until its old one has noticed.
        let goes_nowhere = here.is_some() && to.is_some() && there.is_none();
        unit.silent += usize::from(goes_nowhere && unit.silent_max.is_some());
        there
    } else {
        unit.staying += 1;
        unit.silent += usize::from(here.is_none());
        here
    };
    if let Some(count) = stays_at.and_then(|at| unit.zones.get_mut(ring.node(at).zone)) {
        *count += 1;
    }
}
