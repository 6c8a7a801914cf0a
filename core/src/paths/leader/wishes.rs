//! What members want of the leader: paths registered, changed, removed, slots moved. Each is checked against
//! the table and its limits, and refused with the reason. Spec: sharding 10.17 i, 10.11.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::draft::TableDraft;
use super::{PathLeader, WantedSlot};
use crate::bytes::WireError;
use crate::ident::UniqueAddress;
use crate::paths::Cx;
use crate::paths::protocol::{PathRefusal, PathRequest};
use crate::paths::state::instances::{InstanceDemand, instances};
use crate::paths::state::name::PathName;
use crate::paths::state::settings::{PATHS_MAX, PathSettings, SLOTS_MAX};
use crate::paths::state::table::PathEntry;
use crate::paths::state::written::table_bytes_max;
use crate::planner::{MoveError, PlacementPlan, PlannedChange, WantedMove};
use crate::view::View;

/// To whom, the number of its request, and why not.
pub(super) type RequestAnswer = (UniqueAddress, u64, Option<PathRefusal>);

/// A move that somebody wants.
pub(super) struct WantedByUser {
    pub(super) wanted: WantedSlot,
    by: (UniqueAddress, u64),
}

impl PathLeader {
    /// Does what is wanted, as far as it can be done at once; moves are for the planner.
    pub(super) fn hear_wishes(
        &mut self,
        cx: &Cx<'_>,
        view: &View,
        draft: &mut TableDraft,
    ) -> (Vec<RequestAnswer>, Vec<WantedByUser>) {
        let (mut answers, mut moves) = (Vec::new(), Vec::new());
        for ((node, number), request) in core::mem::take(&mut self.waiting) {
            let refusal = match request {
                PathRequest::Register { settings, .. } => register(cx, view, draft, &settings).err(),
                PathRequest::Change(settings) => change(cx, view, draft, &settings).err(),
                PathRequest::Remove(path) => remove(draft, &path).err(),
                PathRequest::Move { path, slot, to } => match wanted_move(draft, path, slot, to) {
                    Ok(wanted) => {
                        let by = (node, number);
                        moves.push(WantedByUser { wanted, by });
                        continue;
                    }
                    Err(refusal) => Some(refusal),
                },
            };
            answers.push((node, number, refusal));
        }
        (answers, moves)
    }
}

fn register(
    cx: &Cx<'_>,
    view: &View,
    draft: &mut TableDraft,
    settings: &Arc<PathSettings>,
) -> Result<(), PathRefusal> {
    match draft.get(&settings.name) {
        Some(entry) if entry.settings() == Some(settings) => return Ok(()),
        Some(entry) if entry.settings().is_some() => return Err(PathRefusal::Differs),
        // It was removed a moment ago; its instances have not all ended.
        Some(entry) if !entry.has_ended() => return Err(PathRefusal::Moving),
        Some(_) | None => {}
    }
    let entries = draft.entries();
    if let Some(other) = entries
        .iter()
        .find(|entry| entry.settings().is_some() && entry.name.overlaps(&settings.name))
    {
        return Err(PathRefusal::Overlaps(other.name.clone()));
    }
    let id = settings.name.id();
    let is_other = |entry: &&Arc<PathEntry>| entry.name.id() == id && entry.name != settings.name;
    if let Some(other) = entries.iter().find(is_other) {
        return Err(PathRefusal::SameId(other.name.clone()));
    }
    if entries.len() >= PATHS_MAX && draft.get(&settings.name).is_none() {
        return Err(PathRefusal::TooManyPaths);
    }
    write(cx, view, draft, settings)
}

fn change(
    cx: &Cx<'_>,
    view: &View,
    draft: &mut TableDraft,
    settings: &Arc<PathSettings>,
) -> Result<(), PathRefusal> {
    match draft.get(&settings.name).map(|entry| entry.settings()) {
        Some(Some(present)) if present == settings => Ok(()),
        // Hosts that run keep what they have: such a path is removed and registered again.
        Some(Some(present)) if present.mailbox != settings.mailbox => Err(PathRefusal::Differs),
        Some(Some(_)) => write(cx, view, draft, settings),
        Some(None) | None => Err(PathRefusal::Unknown),
    }
}

/// Writes settings, unless the slots or bytes would be too many. Half of the bytes are left for moves, and
/// for what the other side of a partition registers.
fn write(
    cx: &Cx<'_>,
    view: &View,
    draft: &mut TableDraft,
    settings: &Arc<PathSettings>,
) -> Result<(), PathRefusal> {
    let before = draft.mark();
    draft.set_settings(settings);
    let demand = InstanceDemand {
        scale_target: 1,
        min: settings.instances_min,
        max: Some(settings.instances_max),
    };
    let eligible = super::eligible(view, settings.role.as_ref());
    let wanted = usize::from(instances(eligible, &settings.fault_tolerance, demand).instances);
    let slots = |entry: &crate::paths::state::table::PathEntry| {
        if entry.name == settings.name {
            entry.slots().max(wanted)
        } else {
            entry.slots()
        }
    };
    let all: usize = draft.entries().iter().map(|entry| slots(entry)).sum();
    let bytes_max = table_bytes_max(cx.config().limits.gossip_frame_bytes_max) / 2;
    let refusal = match draft.table() {
        _ if all > SLOTS_MAX => PathRefusal::TooManySlots,
        Ok(table) if table.bytes().len() <= bytes_max => return Ok(()),
        Err(WireError::LimitExceeded { what: "path slots" }) => PathRefusal::TooManySlots,
        Ok(_) | Err(_) => PathRefusal::TooManyBytes,
    };
    draft.go_back(before);
    Err(refusal)
}

fn remove(draft: &mut TableDraft, path: &PathName) -> Result<(), PathRefusal> {
    match draft.get(path).map(|entry| entry.settings().is_some()) {
        Some(true) => {
            draft.remove(path);
            Ok(())
        }
        Some(false) | None => Err(PathRefusal::Unknown),
    }
}

fn wanted_move(
    draft: &TableDraft,
    path: PathName,
    slot: u16,
    to: UniqueAddress,
) -> Result<WantedSlot, PathRefusal> {
    let entry = draft.get(&path).ok_or(PathRefusal::Unknown)?;
    if entry.pending(usize::from(slot)).is_some() {
        return Err(PathRefusal::Moving);
    }
    let from = entry.host(usize::from(slot)).cloned();
    Ok(WantedMove {
        from: from.ok_or(PathRefusal::Move(MoveError::UnknownSlot))?,
        unit: path,
        slot,
        to,
    })
}

/// What the planner said of the moves that were wanted. One that waits for others has no answer, and is asked
/// for again.
pub(super) fn answers_of_moves(
    wanted: Vec<WantedByUser>,
    planned: &PlacementPlan<PathName, UniqueAddress>,
) -> Vec<RequestAnswer> {
    let answer = |(at, wanted): (usize, WantedByUser)| {
        let WantedByUser { wanted, by } = wanted;
        let refused = planned.refused.iter().find(|(position, _)| *position == at);
        let is_it = |change: &PlannedChange<PathName, UniqueAddress>| {
            change.unit == wanted.unit && change.slot == wanted.slot && change.to.as_ref() == Some(&wanted.to)
        };
        let refusal = match refused {
            Some((_, error)) => Some(PathRefusal::Move(*error)),
            None if planned.changes.iter().any(is_it) => None,
            None => return None,
        };
        Some((by.0, by.1, refusal))
    };
    wanted.into_iter().enumerate().filter_map(answer).collect()
}
