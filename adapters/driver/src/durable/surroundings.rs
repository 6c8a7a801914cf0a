//! What a durable entity needs beside its journal. Values only.

use quorate_core::ident::Role;
use quorate_core::membership::member::Member;

use super::clocks::{ClockAnswer, ClockRequest};
use crate::background::Sleep;
use crate::entity::EntityContext;
use crate::region::Region;

/// What an entity needs beside its journal.
#[derive(Clone)]
pub(super) struct Surroundings {
    pub(super) sleep: Sleep,
    /// The role of a kind that only this node may host; `None` in there: all members.
    pub(super) alone: Option<Option<Role>>,
    /// The clocks that wake its kind; `None` where nobody does.
    pub(super) clocks: Option<Region<ClockRequest, ClockAnswer>>,
}

impl Surroundings {
    /// How many other members could host the kind, if none may.
    pub(super) fn other_hosts(&self, context: &EntityContext) -> usize {
        let Some(role) = &self.alone else {
            return 0;
        };
        let view = context.shared().hub.view();
        let hosts = |member: &&Member| role.as_ref().is_none_or(|role| member.roles.contains(role));
        let others = view.members().iter().filter(hosts);
        others.filter(|member| member.node != *context.node()).count()
    }
}
