//! The leader's part: hears what members want, notes what has become of moves, and plans new ones, only on
//! convergence and only what the gate lets through. Keeps no table of its own: everything follows from the
//! gossiped one. Spec: sharding 5.3, 10.12, 10.17.

mod draft;
mod load;
mod wishes;

use alloc::sync::Arc;
use alloc::vec::Vec;

use self::draft::TableDraft;
use self::load::LeaderLoad;
use super::protocol::{Event, MoveRef, PathBody, PathRequest, REQUESTS_MAX, Timer};
use super::state::instances::{InstanceCount, InstanceDemand, instances};
use super::state::name::{PathId, PathName};
use super::state::settings::PathSettings;
use super::state::table::{MoveStatus, PathEntry};
use super::{Cx, say};
use crate::ident::{Role, UniqueAddress};
use crate::membership::state::leader::acting_leader;
use crate::membership::state::member::{Member, Status};
use crate::ordered::OrderedMap;
use crate::planner::gate::gate_of;
use crate::planner::{
    NodeStanding, PlanLimits, PlanNode, PlanSituation, PlanSlot, PlanUnit, SlotStage, WantedMove, plan,
};
use crate::time::Instant;
use crate::view::View;

/// Requests that wait for the leader's next plan: those of all members at once, a few each.
const WAITING_MAX: usize = 4_096;

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct PathLeader {
    /// By who asks and its number, in the order of both.
    waiting: OrderedMap<(UniqueAddress, u64), PathRequest>,
    /// Until when a member is not given a path that it could not host.
    excluded: OrderedMap<(PathId, UniqueAddress), Instant>,
    /// Since when a move has been awaited.
    since: OrderedMap<(PathId, u16), (u64, Instant)>,
    /// Paths whose fault tolerance is clamped, as users heard.
    clamped: OrderedMap<PathId, u16>,
    /// Since when a removed path has had no instance, as everybody has seen; with the epoch of its record.
    ended: OrderedMap<PathId, (u64, Instant)>,
    load: LeaderLoad,
}

impl PathLeader {
    /// Somebody wants something. Answered when it is planned for, which is when the cluster has converged;
    /// until then it is asked again.
    pub(super) fn on_request(
        &mut self,
        cx: &mut Cx<'_>,
        from: &UniqueAddress,
        number: u64,
        request: PathRequest,
    ) {
        if !leads(cx.view()) {
            return;
        }
        if let PathRequest::Register {
            settings,
            hosts: true,
        } = &request
        {
            self.excluded.remove(&(settings.name.id(), from.clone()));
        }
        let key = (from.clone(), number);
        let of_sender = (from.clone(), 0)..=(from.clone(), u64::MAX);
        let has_room =
            self.waiting.len() < WAITING_MAX && self.waiting.range(of_sender).count() < REQUESTS_MAX;
        if has_room || self.waiting.contains_key(&key) {
            self.waiting.insert(key, request);
            self.look(cx);
        }
    }

    /// Something changed: if there may be something to do, it is looked at in a step of its own.
    pub(super) fn look(&mut self, cx: &mut Cx<'_>) {
        let view = cx.view();
        if !leads(view) {
            self.waiting.clear();
            self.since.clear();
            self.ended.clear();
            self.load.forget();
            cx.cancel(Timer::Plan);
            return;
        }
        let is_idle = view.gossip().paths().is_empty() && self.waiting.is_empty();
        if view.is_converged() && !is_idle {
            cx.wake(Timer::Plan, cx.mono());
        }
    }

    /// Notes what has become of moves, answers requests, plans.
    pub(super) fn plan(&mut self, cx: &mut Cx<'_>) {
        let view = Arc::clone(cx.view());
        if !leads(&view) || !view.is_converged() || !acts(view.self_status()) {
            return;
        }
        let mut draft = TableDraft::of(&view, cx.now().unix_ms);
        self.forget_ended(cx, &mut draft);
        self.note_outcomes(cx, &view, &mut draft);
        let (answers, moves) = self.hear_wishes(cx, &view, &mut draft);
        let refused = self.plan_moves(cx, &view, &mut draft, moves);
        match draft.finish() {
            Ok(Some(table)) => cx.write_table(Arc::new(table)),
            Ok(None) => {}
            // Nothing of it is written; whoever asks for something is told so when it is asked alone.
            Err(_) => return,
        }
        for (node, number, refusal) in answers.into_iter().chain(refused) {
            say(cx, &node, PathBody::Answer { number, refusal });
        }
        let again = cx.mono() + cx.config().paths.plan_interval;
        if !view.gossip().paths().is_empty() {
            cx.wake(Timer::Plan, again);
        }
    }

    /// Removed paths are forgotten a while after everybody has seen that they have no instance: gossip from
    /// before may come late, and would bring them back.
    fn forget_ended(&mut self, cx: &Cx<'_>, draft: &mut TableDraft) {
        let (now, forget_after) = (cx.mono(), cx.config().paths.forget_after);
        let mut ended = OrderedMap::new();
        for entry in draft.entries().iter().filter(|entry| entry.has_ended()) {
            let (path, epoch) = (entry.name.id(), entry.record.epoch.counter);
            let known = self.ended.get(&path).filter(|known| known.0 == epoch);
            ended.insert(path, known.copied().unwrap_or((epoch, now)));
        }
        let old = ended
            .values()
            .filter(|(_, since)| now.since(*since) >= forget_after);
        if let Some(epoch) = old.map(|(epoch, _)| *epoch).max() {
            draft.forget_up_to(epoch);
        }
        self.ended = ended;
    }

    /// Moves that are over are noted; those whose hosts are gone are brought to an end.
    fn note_outcomes(&mut self, cx: &mut Cx<'_>, view: &View, draft: &mut TableDraft) {
        let now = cx.mono();
        let is_member = |node: &UniqueAddress| view.member(node).is_some();
        self.excluded.retain(|_, until| *until > now);
        let mut since = OrderedMap::new();
        for entry in draft.entries() {
            for at in 0..entry.slots() {
                let Ok(number) = u16::try_from(at) else { break };
                if let Some(host) = entry.host(at)
                    && entry.pending(at).is_none()
                    && !is_member(host)
                {
                    draft.set_host(&entry.name, at, None);
                }
                let Some(change) = entry.pending(at) else {
                    continue;
                };
                let to = change.to.as_ref().filter(|to| is_member(to));
                let from_is_gone = change.from.as_ref().is_some_and(|from| !is_member(from));
                match change.status {
                    MoveStatus::Settled => draft.apply(&entry.name, at, to),
                    MoveStatus::Complete if from_is_gone => draft.apply(&entry.name, at, to),
                    MoveStatus::Aborted => {
                        if let Some(to) = &change.to {
                            let until = now + cx.config().paths.move_cooldown;
                            self.excluded.insert((entry.name.id(), to.clone()), until);
                        }
                        draft.apply(
                            &entry.name,
                            at,
                            change.from.as_ref().filter(|from| is_member(from)),
                        );
                    }
                    MoveStatus::Awaiting if from_is_gone || (change.from.is_none() && to.is_none()) => {
                        draft.apply(&entry.name, at, None);
                    }
                    MoveStatus::Awaiting | MoveStatus::Complete => {
                        let key = (entry.name.id(), number);
                        let known = self.since.get(&key).filter(|known| known.0 == change.id.counter);
                        let begun = known.map_or(now, |known| known.1);
                        since.insert(key, (change.id.counter, begun));
                        let limit = cx.config().paths.ready_timeout.saturating_mul(2);
                        if change.status == MoveStatus::Awaiting
                            && now.since(begun) > limit
                            && let Some(from) = &change.from
                        {
                            let id = change.id.clone();
                            let path = entry.name.id();
                            let slot = number;
                            say(cx, from, PathBody::GiveUp(MoveRef { path, slot, id }));
                        }
                    }
                    MoveStatus::Applied => {}
                }
            }
        }
        self.since = since;
    }

    /// Plans moves and writes them into the draft; says which wanted ones were refused.
    fn plan_moves(
        &mut self,
        cx: &mut Cx<'_>,
        view: &View,
        draft: &mut TableDraft,
        wanted: Vec<wishes::WantedByUser>,
    ) -> Vec<wishes::RequestAnswer> {
        self.load.look(cx, view, draft);
        self.scale(cx, view, draft);
        let by_load: Vec<WantedSlot> = self.load.wanted(cx, view, draft).into_iter().collect();
        let roles = roles_of(draft);
        let nodes = plan_nodes(view, &roles);
        let units = self.units(cx, view, draft, &roles);
        let limits = PlanLimits::for_nodes(
            nodes
                .iter()
                .filter(|node| node.standing == NodeStanding::Open)
                .count(),
        );
        let commanded = wanted.iter().map(|wanted| wanted.wanted.clone()).collect();
        let situation = PlanSituation {
            nodes,
            units,
            placed_last: draft.placed_last(),
            commanded,
            by_load: by_load.clone(),
        };
        let planned = plan(&situation, gate_of(view), limits);
        for change in &planned.changes {
            if change.from.is_none() && change.to.is_none() {
                continue;
            }
            cx.counters().moves_planned += 1;
            let (slot, from, to) = (change.slot, change.from.clone(), change.to.clone());
            cx.notify((change.unit.id(), Event::MoveBegun { slot, from, to }));
            let is_it = |wanted: &WantedSlot| wanted.unit == change.unit && wanted.slot == change.slot;
            if let Some(wanted) = by_load.iter().find(|wanted| is_it(wanted)) {
                self.load.moved(cx, wanted);
            }
            draft.begin(&change.unit, change.slot, change.from.clone(), change.to.clone());
        }
        draft.set_placed(planned.placed_last.clone());
        wishes::answers_of_moves(wanted, &planned)
    }

    /// Paths get an instance more or fewer, as their load asks.
    fn scale(&mut self, cx: &Cx<'_>, view: &View, draft: &mut TableDraft) {
        for entry in draft.entries() {
            let Some(settings) = entry.settings() else {
                continue;
            };
            let count = count_of(view, &entry, settings);
            let least = settings.instances_min.max(count.tolerance.saturating_add(1));
            let most = settings.instances_max.min(eligible(view, settings.role.as_ref()));
            let scale = self.load.scale(cx, &entry, count.instances, (least, most));
            if scale != entry.record.scale {
                draft.set_scale(&entry.name, scale);
            }
        }
    }

    /// The paths as the planner sees them.
    fn units(
        &mut self,
        cx: &mut Cx<'_>,
        view: &View,
        draft: &TableDraft,
        roles: &[Role],
    ) -> Vec<PlanUnit<PathName, UniqueAddress>> {
        let mut units = Vec::new();
        for entry in draft.entries() {
            let settings = entry.settings().cloned();
            let role = settings.as_ref().and_then(|settings| settings.role.clone());
            let (count, silent_max) = match &settings {
                None => (0, None),
                Some(settings) => {
                    let count = count_of(view, &entry, settings);
                    let eligible = eligible(view, role.as_ref());
                    self.tell_clamped(cx, entry.name.id(), eligible, count.is_clamped());
                    let silent = settings.handoff.never_two().then_some(count.tolerance.max(1));
                    (count.instances, silent)
                }
            };
            let slots = (0..entry.slots()).filter_map(|at| plan_slot(cx, &self.load, &entry, at));
            units.push(PlanUnit {
                unit: entry.name.clone(),
                count,
                weight: 1,
                pool: role.and_then(|role| {
                    let at = roles.iter().position(|known| *known == role)?;
                    u16::try_from(at).ok()
                }),
                refused: self.excluded_from(entry.name.id()),
                silent_max,
                changing_max: None,
                slots: slots.collect(),
            });
        }
        units
    }

    fn excluded_from(&self, path: PathId) -> Vec<UniqueAddress> {
        let excluded = self.excluded.keys().filter(|(id, _)| *id == path);
        excluded.map(|(_, node)| node.clone()).collect()
    }

    /// Users hear once that a fault tolerance is clamped, and again when the number of members is another.
    fn tell_clamped(&mut self, cx: &mut Cx<'_>, path: PathId, members: u16, is_clamped: bool) {
        if !is_clamped {
            self.clamped.remove(&path);
        } else if members > 0 && self.clamped.insert(path, members) != Some(members) {
            cx.notify((path, Event::ToleranceClamped { members }));
        }
    }
}

/// How many instances a path has to have.
fn count_of(view: &View, entry: &PathEntry, settings: &PathSettings) -> InstanceCount {
    let demand = InstanceDemand {
        scale_target: entry.record.scale.max(1),
        min: settings.instances_min,
        max: Some(settings.instances_max),
    };
    instances(
        eligible(view, settings.role.as_ref()),
        &settings.fault_tolerance,
        demand,
    )
}

/// Who acts as the leader. Not who is named: what downed members observed does not count (I-09).
pub(super) fn leader_of(view: &View) -> Option<UniqueAddress> {
    acting_leader(view.gossip(), view.me())
}

fn leads(view: &View) -> bool {
    leader_of(view).as_ref() == Some(view.me())
}

/// Whether a leader with this status plans.
const fn acts(status: Status) -> bool {
    matches!(status, Status::Up | Status::Leaving)
}

/// One slot as the planner sees it; `None` for one that has no host and no instance to come.
fn plan_slot(
    cx: &Cx<'_>,
    load: &LeaderLoad,
    entry: &PathEntry,
    at: usize,
) -> Option<PlanSlot<UniqueAddress>> {
    let slot = u16::try_from(at).ok()?;
    let host = entry.host(at).cloned();
    if let Some(change) = entry.pending(at) {
        let ends = change.from.as_ref().zip(change.to.as_ref());
        let by_load = ends.filter(|ends| load.has_sent(entry.name.id(), slot, *ends));
        return Some(PlanSlot {
            slot,
            host: change.from.clone(),
            stage: match by_load {
                Some((_, to)) => SlotStage::MovingByLoad(to.clone()),
                None => SlotStage::Moving(change.to.clone()),
            },
            prefers: None,
        });
    }
    // A slot whose host is gone: whatever ran there has certainly stopped only after the margin.
    let last = entry.last_move(at);
    let was_given_up = last.is_some_and(|last| last.to.is_none());
    if host.is_none() && was_given_up {
        return None;
    }
    let never_two = entry
        .settings()
        .is_some_and(|settings| settings.handoff.never_two());
    let nodes = last.into_iter().flat_map(|last| last.from.iter().chain(&last.to));
    let departures = cx.succession().departures();
    let is_in_margin = |node: &UniqueAddress| departures.safe_at_of(node) > cx.mono();
    let held = host.is_none()
        && never_two
        && nodes
            .clone()
            .any(|node| cx.view().is_removed(node) && is_in_margin(node));
    let from = host
        .as_ref()
        .and_then(|host| load.counts_at(entry.name.id(), slot, host));
    Some(PlanSlot {
        slot,
        stage: match from {
            _ if held => SlotStage::Held,
            Some(from) => SlotStage::Away(from.clone()),
            None => SlotStage::Settled,
        },
        prefers: if host.is_none() {
            last.and_then(|last| last.to.clone())
        } else {
            None
        },
        host,
    })
}

/// Members that can host a path with this role.
fn eligible(view: &View, role: Option<&Role>) -> u16 {
    let members = view.members_in(Status::Up);
    let hosts = members.filter(|member| role.is_none_or(|role| member.roles.contains(role)));
    u16::try_from(hosts.count()).unwrap_or(u16::MAX)
}

/// The roles that paths name, sorted.
fn roles_of(draft: &TableDraft) -> Vec<Role> {
    let entries = draft.entries();
    let settings = entries.iter().filter_map(|entry| entry.settings());
    let mut roles: Vec<Role> = settings.filter_map(|settings| settings.role.clone()).collect();
    roles.sort_unstable();
    roles.dedup();
    roles
}

fn plan_nodes(view: &View, roles: &[Role]) -> Vec<PlanNode<UniqueAddress>> {
    let of = |member: &Member| PlanNode {
        node: member.node.clone(),
        standing: match member.status {
            Status::Up => NodeStanding::Open,
            Status::Leaving | Status::Exiting => NodeStanding::Leaving,
            Status::Joining
            | Status::WeaklyUp
            | Status::Down
            | Status::Removed
            | Status::PreparingForShutdown
            | Status::ReadyForShutdown => NodeStanding::Closed,
        },
        zone: member.roles.zone().map(Arc::from),
        pools: (0..)
            .zip(roles)
            .filter(|(_, role)| member.roles.contains(role))
            .map(|(at, _)| at)
            .collect(),
    };
    view.members().iter().map(of).collect()
}

/// A slot that somebody wants elsewhere, as the planner is asked.
type WantedSlot = WantedMove<PathName, UniqueAddress>;
