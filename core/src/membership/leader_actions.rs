//! Leader actions: moves members between statuses on convergence. Acts only on this node's own state; never
//! reads a peer's opinion of what the leader should do. Spec: membership 2.8.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use crate::config::MembershipConfig;
use crate::event::MembershipEvent;
use crate::ident::{Role, UniqueAddress};
use crate::membership::Cx;
use crate::membership::incarnations::has_rival;
use crate::membership::machine::Membership;
use crate::membership::state::convergence;
use crate::membership::state::gossip::Gossip;
use crate::membership::state::leader;
use crate::membership::state::member::{Member, Status, UpNumber};
use crate::membership::state::reachability::ReachabilityStatus;
use crate::ordered::{OrderedMap, OrderedSet};
use crate::timer::MembershipTimer;

/// Leader ticks without convergence after which users are told, and then again after each
/// [`INCAPACITATED_AGAIN`].
const INCAPACITATED_AFTER: u64 = 20;
const INCAPACITATED_AGAIN: u64 = 60;
/// Oldest members, of all and of a role, that hear at once who is exiting and who was removed.
const EXITING_HINTS: usize = 2;
/// Members that hear at once that they are Up: those of a rolling restart, where one or a few come at a time.
const UP_HINTS: usize = 4;

/// What a converged leader does in one tick.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) removed: Vec<UniqueAddress>,
    pub(super) up: Vec<(UniqueAddress, UpNumber)>,
    pub(super) exiting: Vec<UniqueAddress>,
    pub(super) ready: Vec<UniqueAddress>,
    pub(super) forgotten: Vec<UniqueAddress>,
}

impl Plan {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Decides the actions of a leader in data center `dc` on a converged state. Those in `held` stay Leaving.
pub(super) fn plan(
    gossip: &Gossip,
    dc: &str,
    exiting_confirmed: &OrderedSet<UniqueAddress>,
    held: &OrderedSet<UniqueAddress>,
    config: &MembershipConfig,
) -> Plan {
    let mut plan = Plan::default();
    let reach = convergence::dc_reachability(gossip, dc);
    let may_rise = !leader::is_shutting_down(gossip) && enough_members(gossip, config);
    let mut number = leader::youngest_up_number(gossip, dc);
    for member in gossip.members() {
        let node = &member.node;
        if member.data_center() != dc {
            if matches!(member.status, Status::Down | Status::Exiting) {
                plan.removed.push(node.clone());
            }
            continue;
        }
        match member.status {
            Status::Joining | Status::WeaklyUp if may_rise && !has_rival(gossip, member) => {
                number = number.next();
                plan.up.push((node.clone(), number));
            }
            Status::Joining | Status::WeaklyUp | Status::Up => {}
            Status::Leaving if held.contains(node) => {}
            Status::Leaving => plan.exiting.push(node.clone()),
            Status::PreparingForShutdown => plan.ready.push(node.clone()),
            Status::ReadyForShutdown | Status::Removed => {}
            Status::Exiting if exiting_confirmed.contains(node) || gossip.is_gone(node) => {
                plan.removed.push(node.clone())
            }
            Status::Exiting | Status::Down => {
                if reach.aggregate(node) != ReachabilityStatus::Reachable {
                    plan.removed.push(node.clone());
                }
            }
        }
    }
    plan
}

/// Whom a leader that cannot reach convergence admits meanwhile: joining members of its data center that
/// nobody who is not Down finds unreachable, as long as enough members are present and the cluster does not
/// shut down.
pub(super) fn plan_weakly_up(gossip: &Gossip, dc: &str, config: &MembershipConfig) -> Vec<UniqueAddress> {
    if leader::is_shutting_down(gossip) || !enough_members(gossip, config) {
        return Vec::new();
    }
    let reach = convergence::dc_reachability_excluding_downed_observers(gossip, dc);
    let rises = |m: &&Member| {
        m.status == Status::Joining
            && m.data_center() == dc
            && reach.aggregate(&m.node) == ReachabilityStatus::Reachable
            && !has_rival(gossip, m)
    };
    gossip
        .members()
        .iter()
        .filter(rises)
        .map(|m| m.node.clone())
        .collect()
}

/// Whether as many members are present as must be before any becomes Up; all statuses count.
fn enough_members(gossip: &Gossip, config: &MembershipConfig) -> bool {
    let members = gossip.members();
    let per_role = config.min_nr_of_members_per_role.iter();
    members.len() >= config.min_nr_of_members
        && per_role
            .into_iter()
            .all(|(role, min)| members.iter().filter(|m| m.roles.contains(role)).count() >= *min)
}

impl Membership {
    /// The periodic leader task; every node runs the parts that are not the leader's.
    pub(super) fn on_leader_tick(&mut self, cx: &mut Cx<'_>) {
        let again = cx.mono() + cx.config().membership.leader_actions_interval;
        cx.wake(MembershipTimer::LeaderActions, again);
        if !self.is_member() {
            return;
        }
        self.act_as_leader(cx);
        let gossip = &self.gossip;
        self.exiting_confirmed.retain(|node| gossip.contains(node));
        self.confirmed_before.clone_from(&self.exiting_confirmed);
        let own = gossip.member(cx.me()).map(|m| m.status);
        if own == Some(Status::Up) && cx.view().is_shutting_down() && leader::is_shutting_down(gossip) {
            self.prepare_for_shutdown(cx);
        }
        self.check_self_down(cx);
    }

    /// Does what the leader has to do, if this node is the leader.
    pub(super) fn act_as_leader(&mut self, cx: &mut Cx<'_>) {
        if leader::acting_leader(&self.gossip, cx.me()).as_ref() != Some(cx.me()) {
            self.ticks_without_convergence = 0;
            return;
        }
        if !convergence::converged(&self.gossip, cx.me(), &self.exiting_confirmed) {
            self.ticks_without_convergence += 1;
            let ticks = self.ticks_without_convergence;
            if ticks == INCAPACITATED_AFTER || ticks.is_multiple_of(INCAPACITATED_AGAIN) {
                cx.notify(MembershipEvent::LeaderIncapacitated { ticks });
            }
            return self.admit_weakly(cx, ticks);
        }
        self.act_converged(cx);
    }

    /// Something was heard after which the leader may act: it does so at once, in a step of its own, not at
    /// its next tick.
    pub(super) fn wake_if_converged(&self, cx: &mut Cx<'_>) {
        if self.may_act(cx) {
            let now = cx.mono();
            cx.wake(MembershipTimer::Converged, now);
        }
    }

    /// The state was converged a moment ago.
    pub(super) fn on_converged(&mut self, cx: &mut Cx<'_>) {
        if self.may_act(cx) {
            self.act_converged(cx);
        }
    }

    /// A goodbye that has overtaken the gossip of who said it is not enough: that member may have acted as
    /// the leader itself, from this very state, and its gossip is on its way. By the next tick it is here or
    /// lost.
    fn may_act(&self, cx: &Cx<'_>) -> bool {
        let is_on_its_way = |m: &Member| !m.status.is_terminal();
        let mut confirmed = self.exiting_confirmed.iter();
        self.is_member()
            && cx.view().converged
            && !confirmed.any(|node| self.gossip.member(node).is_some_and(is_on_its_way))
            && leader::acting_leader(&self.gossip, cx.me()).as_ref() == Some(cx.me())
    }

    fn act_converged(&mut self, cx: &mut Cx<'_>) {
        self.ticks_without_convergence = 0;
        let dc = cx.config().node_roles().data_center();
        // Who said goodbye also gossips, for everybody, whether anything still runs there. That is on another
        // lane and may be overtaken; one who is removed without it would be given the removal margin. It is
        // waited for, up to a tick.
        let held = self.held_by_paths(cx);
        let config = &cx.config().membership;
        let mut plan = plan(&self.gossip, dc, &self.confirmed_before, &held, config);
        // A leader on its way out may be unreachable for others, and still only they can remove it.
        plan.removed.retain(|node| node != cx.me());
        plan.forgotten = self.expired_tombstones(cx);
        if cx.view().is_shutting_down() {
            // Also when all who prepared are on their way out, and the state does not show it any more.
            plan.up.clear();
        }
        if !plan.is_empty() {
            self.carry_out(cx, &plan);
        }
    }

    fn admit_weakly(&mut self, cx: &mut Cx<'_>, ticks: u64) {
        let m = &cx.config().membership;
        let waited =
            u32::try_from(ticks).map_or(Duration::MAX, |n| m.leader_actions_interval.saturating_mul(n));
        if cx.view().is_shutting_down() || m.allow_weakly_up_members.is_none_or(|after| waited < after) {
            return;
        }
        let dc = cx.config().node_roles().data_center();
        let admitted = plan_weakly_up(&self.gossip, dc, m);
        if admitted.is_empty() {
            return;
        }
        let mut next = Gossip::clone(&self.gossip);
        for node in &admitted {
            next.set_status(node, Status::WeaklyUp);
        }
        cx.counters().leader_actions += 1;
        cx.counters().members_weakly_up += admitted.len() as u64;
        self.update(cx, next);
    }

    /// Moves everybody who is Up to PreparingForShutdown and says so at once.
    pub(super) fn prepare_for_shutdown(&mut self, cx: &mut Cx<'_>) {
        let up: Vec<UniqueAddress> = self
            .gossip
            .members()
            .iter()
            .filter(|m| m.status == Status::Up)
            .map(|m| m.node.clone())
            .collect();
        if up.is_empty() {
            return;
        }
        let mut next = Gossip::clone(&self.gossip);
        for node in &up {
            next.set_status(node, Status::PreparingForShutdown);
        }
        self.update(cx, next);
        self.gossip_round(cx);
    }

    fn carry_out(&mut self, cx: &mut Cx<'_>, plan: &Plan) {
        for node in self.not_handed_over(cx, &plan.exiting) {
            cx.notify(MembershipEvent::PathsNotHandedOver { node });
        }
        cx.counters().leader_actions += 1;
        cx.counters().tombstones_pruned += plan.forgotten.len() as u64;
        let mut next = Gossip::clone(&self.gossip);
        for (node, number) in &plan.up {
            next.set_status(node, Status::Up);
            next.set_up_number(node, *number);
        }
        for node in &plan.exiting {
            next.set_status(node, Status::Exiting);
        }
        for node in &plan.ready {
            next.set_status(node, Status::ReadyForShutdown);
        }
        for node in &plan.removed {
            next.remove(node);
        }
        next.prune_tombstones(&plan.forgotten);
        let leavers = plan.exiting.iter().chain(&plan.removed);
        let leavers = leavers.filter_map(|node| self.gossip.member(node));
        let roles: OrderedSet<Role> = leavers.flat_map(|m| m.roles.user_roles()).cloned().collect();
        if plan.exiting.contains(cx.me()) {
            // Before the update, so that this node does not count as having seen its own last state.
            self.enter_exit();
        }
        self.update(cx, next);
        if !plan.exiting.is_empty() || !plan.removed.is_empty() {
            self.hint_oldest(cx, &roles);
        }
        // They wait for it, and begin their work only when they know. When many come at once gossip is the
        // cheaper way.
        for (node, _) in plan.up.iter().take(UP_HINTS) {
            self.push_to(cx, node);
        }
    }

    /// Tells the oldest members, and the oldest of each role that somebody who goes has: what runs once per
    /// cluster or role moves to them, when that member exits and when it has been removed.
    fn hint_oldest(&mut self, cx: &mut Cx<'_>, roles: &OrderedSet<Role>) {
        let mut hinted: OrderedMap<&Role, usize> = roles.iter().map(|role| (role, 0)).collect();
        let dc = cx.config().node_roles().data_center();
        let gossip = Arc::clone(&self.gossip);
        let in_dc = gossip.members().iter().filter(|m| m.data_center() == dc);
        for (rank, member) in leader::age_sorted(in_dc, None).into_iter().enumerate() {
            let mut oldest = rank < EXITING_HINTS;
            for role in member.roles.user_roles() {
                if let Some(count) = hinted.get_mut(role) {
                    oldest |= *count < EXITING_HINTS;
                    *count += 1;
                }
            }
            if oldest {
                self.push_to(cx, &member.node);
            }
        }
    }

    fn expired_tombstones(&self, cx: &Cx<'_>) -> Vec<UniqueAddress> {
        let keep = cx.config().membership.prune_gossip_tombstones_after;
        let expired = self
            .tombstones_since
            .iter()
            .filter(|(_, since)| cx.mono().since(**since) >= keep);
        expired.map(|(node, _)| node.clone()).collect()
    }
}
