//! The age of members: who is the oldest of a role, and when its successor may act, which is when every older
//! member is removed and those that may have been cut off have had the removal margin to notice. Whoever acts
//! for others, as the shard coordinator does, hears of it from here and keeps no age of its own. Sends
//! nothing and starts nothing. Spec: sharding 1.10, 10.1.

pub mod protocol;
pub(crate) mod state;

use alloc::sync::Arc;

use crate::cx::OfOldest;
use crate::oldest::protocol::Timer;
use crate::oldest::state::{RoleStanding, Succession};
use crate::view::View;

/// What the machine may touch outside itself.
type Cx<'a> = crate::cx::Cx<'a, OfOldest>;

/// The machine. What it knows is published for all to read ([`Succession`]), so it has nothing of its own.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Oldest;

impl Oldest {
    /// The picture changed. Those who act for others hear of it from here, with the ages that belong to it.
    pub(crate) fn on_view_changed(self, cx: &mut Cx<'_>, before: &Arc<View>, after: &View) {
        // Whoever is cut off decides by the members it knows: those before the removal.
        let members = before.members().len().max(after.members().len());
        let margin = cx.config().removal_margin(members);
        let mut next = Succession::clone(cx.succession());
        next.on_view_changed(cx.mono(), margin, before, after);
        self.publish(cx, next);
        cx.say_ages_changed(Arc::clone(before));
    }

    /// A timer is due.
    pub(crate) fn on_timer(self, cx: &mut Cx<'_>, timer: &Timer) {
        match timer {
            Timer::MarginOver => {
                let mut next = Succession::clone(cx.succession());
                next.look(cx.mono(), &Arc::clone(cx.view()));
                self.publish(cx, next);
                cx.say_margin_over();
            }
        }
    }

    fn publish(self, cx: &mut Cx<'_>, next: Succession) {
        match next.departures().next_safe_at(cx.mono()) {
            Some(at) => cx.wake(Timer::MarginOver, at),
            None => {
                cx.cancel(Timer::MarginOver);
            }
        }
        if next == **cx.succession() {
            return;
        }
        let begins_to_wait = |role: Option<&_>| {
            next.standing(role) == Some(RoleStanding::Waiting)
                && cx.succession().standing(role) != Some(RoleStanding::Waiting)
        };
        let roles = cx.config().node_roles().as_slice().iter().map(Some);
        let waits = roles.chain([None]).filter(|role| begins_to_wait(*role)).count();
        cx.counters().successions_awaited += u64::try_from(waits).unwrap_or(u64::MAX);
        cx.publish_succession(next);
    }
}

#[cfg(test)]
mod tests;
