//! From when on the work of members that are gone may be done by others. A member that was removed may still
//! be running, cut off, or with a handler that does not end; it gets the removal margin to notice. One that
//! has said of itself that nothing runs there any more needs none. Decides nothing else and sends nothing.
//! Spec: sharding 10.1.

use alloc::vec::Vec;
use core::time::Duration;

use crate::ident::{Role, Roles, UniqueAddress};
use crate::membership::state::member::UpNumber;
use crate::time::Instant;
use crate::view::View;

/// A removed member whose work may still be running.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Departure {
    pub(crate) node: UniqueAddress,
    /// Its age; the oldest there is if this node never saw its record, or was not Up then: the number that it
    /// got afterwards may be lower than that of who was removed just before.
    pub(crate) up_number: UpNumber,
    /// `None` if this node never saw its record.
    roles: Option<Roles>,
    safe_at: Instant,
}

/// Members removed less than a margin ago. Forgets them after that.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Departures {
    recent: Vec<Departure>,
    is_member: bool,
    /// Set once by a node that finds tombstones when it becomes a member: it cannot know when those were
    /// removed, unless they are of members that said that they were gone.
    before_me_safe_at: Option<Instant>,
}

impl Departures {
    /// Takes note of who has been removed between two pictures.
    pub(crate) fn on_view_changed(&mut self, now: Instant, margin: Duration, before: &View, after: &View) {
        self.recent.retain(|departure| departure.safe_at > now);
        let safe_at = now + margin;
        if !self.is_member && after.self_member().is_some() {
            self.is_member = true;
            let gossip = after.gossip();
            if !gossip.tombstones().is_subset(gossip.gone()) {
                self.before_me_safe_at = Some(safe_at);
            }
            return;
        }
        let is_gone = |node: &UniqueAddress| before.gossip().is_gone(node) || after.gossip().is_gone(node);
        let was_up = before.self_member().is_some_and(|me| me.up_number.is_assigned());
        for member in after.gone_since(before) {
            if member.node != *after.me() && !is_gone(&member.node) {
                self.recent.push(Departure {
                    node: member.node.clone(),
                    up_number: if was_up { member.up_number } else { UpNumber::FIRST },
                    roles: Some(member.roles.clone()),
                    safe_at,
                });
            }
        }
        let (old, new) = (before.gossip().tombstones(), after.gossip().tombstones());
        for node in new.difference(old) {
            if before.member(node).is_none() && !is_gone(node) {
                self.recent.push(Departure {
                    node: node.clone(),
                    up_number: UpNumber::FIRST,
                    roles: None,
                    safe_at,
                });
            }
        }
    }

    /// When everything that ran on the removed members with the role, as far as `counts` says that they
    /// matter, has certainly stopped.
    pub(crate) fn safe_at(&self, role: Option<&Role>, counts: impl Fn(&Departure) -> bool) -> Instant {
        let has_role = |departure: &&Departure| match (role, &departure.roles) {
            (Some(role), Some(roles)) => roles.contains(role),
            (None, _) | (_, None) => true,
        };
        let recent = self
            .recent
            .iter()
            .filter(has_role)
            .filter(|departure| counts(departure));
        let latest = recent.map(|departure| departure.safe_at).max();
        latest.max(self.before_me_safe_at).unwrap_or(Instant::ZERO)
    }

    /// When the next member's work becomes free.
    pub(crate) fn next_safe_at(&self, now: Instant) -> Option<Instant> {
        let of_members = self.recent.iter().map(|departure| departure.safe_at);
        of_members
            .chain(self.before_me_safe_at)
            .filter(|at| *at > now)
            .min()
    }

    /// When everything that ran on one removed member has certainly stopped.
    pub(crate) fn safe_at_of(&self, node: &UniqueAddress) -> Instant {
        let found = self.recent.iter().find(|departure| departure.node == *node);
        found.map_or(Instant::ZERO, |departure| departure.safe_at)
    }
}

#[cfg(test)]
mod tests;
