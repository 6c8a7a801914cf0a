//! Who is the oldest of a role, and whether that one may act already. A member that is Down is not removed:
//! it stays the oldest, acts no more, and nobody acts for it. Spec: sharding 1.10, 10.1.

use alloc::vec::Vec;
use core::time::Duration;

use crate::ident::{Role, UniqueAddress};
use crate::membership::state::member::{Member, Status, UpNumber};
use crate::oldest::state::departures::{Departure, Departures};
use crate::ordered::OrderedMap;
use crate::time::Instant;
use crate::view::View;

/// What this node is for a role of which it is the oldest member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RoleStanding {
    /// Those before it may still be running, cut off: it waits.
    Waiting,
    /// Nobody older can be running: it may act.
    Acting,
}

/// What this node is for each role that it has, and whose work is not free yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Succession {
    departures: Departures,
    /// Of the roles of which this node is the oldest member, `None` being every member's. At most as many as
    /// it has roles.
    mine: OrderedMap<Option<Role>, (UpNumber, RoleStanding)>,
}

impl Succession {
    /// The up number under which this node is the oldest of the role, whether or not it may act already.
    pub(crate) fn up_number(&self, role: Option<&Role>) -> Option<UpNumber> {
        self.of(role).map(|(up_number, _)| up_number)
    }

    /// What this node is for the role; `None` if another member is the oldest, or this one is Down.
    pub(crate) fn standing(&self, role: Option<&Role>) -> Option<RoleStanding> {
        self.of(role).map(|(_, standing)| standing)
    }

    /// Whether this node is the oldest of any role.
    pub(crate) fn is_oldest_of_any(&self) -> bool {
        !self.mine.is_empty()
    }

    fn of(&self, role: Option<&Role>) -> Option<(UpNumber, RoleStanding)> {
        self.mine.get(&role.cloned()).copied()
    }

    /// Whose work is not free yet.
    pub(crate) const fn departures(&self) -> &Departures {
        &self.departures
    }

    /// Takes note of a change between two pictures.
    pub(crate) fn on_view_changed(&mut self, now: Instant, margin: Duration, before: &View, after: &View) {
        let known = self.departures.clone();
        self.departures.on_view_changed(now, margin, before, after);
        let is_same = core::ptr::eq(before.members(), after.members()) && before.phase() == after.phase();
        if !is_same || known != self.departures {
            self.look(now, after);
        }
    }

    /// Looks what this node is now.
    pub(crate) fn look(&mut self, now: Instant, view: &View) {
        self.mine.clear();
        let Some(me) = view.self_member() else {
            return;
        };
        let roles = me.roles.as_slice().iter().map(Some);
        for role in roles.chain([None]) {
            let mine = |member: &&Member| member.node == me.node && may_act(member.status);
            let Some(up_number) = oldest(view, role).filter(mine).map(|member| member.up_number) else {
                continue;
            };
            let older = |departure: &Departure| departure.up_number <= up_number;
            let standing = if self.departures.safe_at(role, older) > now {
                RoleStanding::Waiting
            } else {
                RoleStanding::Acting
            };
            self.mine.insert(role.cloned(), (up_number, standing));
        }
    }
}

/// The oldest member of a role (of all if `None`) in this node's data center, be it Down.
pub(crate) fn oldest<'a>(view: &'a View, role: Option<&Role>) -> Option<&'a Member> {
    view.oldest(role)
}

/// Members that act for the role now or will soon, oldest first: up to the first that is Up, so that the
/// successor of a leaving one hears everything too (P-4). A member that is Down acts no more.
pub(crate) fn candidates(view: &View, role: Option<&Role>) -> Vec<UniqueAddress> {
    let mut candidates = Vec::new();
    for member in view.by_age(role) {
        if member.status != Status::Down {
            candidates.push(member.node.clone());
        }
        if member.status == Status::Up {
            break;
        }
    }
    candidates
}

/// Whether, in this picture, a member may speak for the role under this number: it acts for it now or will
/// soon, and it is the number at which it became Up. Whoever could say any number would outdo everybody who
/// says his own.
pub(crate) fn may_speak(view: &View, role: Option<&Role>, node: &UniqueAddress, up_number: UpNumber) -> bool {
    let has_number = view
        .member(node)
        .is_some_and(|member| member.up_number == up_number);
    has_number && candidates(view, role).contains(node)
}

/// Whether a member with this status may act for others: a full member or one on its way out in good order.
pub(crate) const fn may_act(status: Status) -> bool {
    match status {
        Status::Up
        | Status::PreparingForShutdown
        | Status::ReadyForShutdown
        | Status::Leaving
        | Status::Exiting => true,
        Status::Joining | Status::WeaklyUp | Status::Down | Status::Removed => false,
    }
}
