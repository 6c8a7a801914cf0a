//! A kind is the same everywhere or nowhere: two coordinators of one kind, because its role differs between
//! nodes, would each run the same entity. So is a singleton: two members that are each the oldest of the role
//! that they believe it has would each run an instance; and a bucket of the keyed store, whose ranges two
//! coordinators would each give away. Every node announces what it has registered to the oldest member of the
//! cluster, whatever its roles, and begins with none before it is accepted. This room decides which fields
//! each stands with; it never starts or stops anything. Spec: sharding 10.11.
//!
//! `announcer` is every node's part, `registrar` the oldest member's, `claims` its pure rule.

mod announcer;
mod claims;
mod registrar;

use alloc::vec::Vec;

use crate::ident::UniqueAddress;
use crate::input::Token;
use crate::message::ShardingMsg;
use crate::sharding::Cx;
use crate::sharding::protocol::registry::{
    KINDS_PER_NODE_MAX, RegistrationFields, RegistrationId, RegistryMsg, RegistryTimer,
};
use crate::sharding::registry::announcer::Announcer;
use crate::sharding::registry::registrar::Registrar;
use crate::sharding::state::ids::KindId;
use crate::timer::ShardingTimer;
use crate::view::View;

pub(in crate::sharding) use announcer::{AnnouncedStanding, NewJudgement};

/// Both parts of one node.
#[derive(Clone, Debug, Default)]
pub(super) struct Registry {
    announcer: Announcer,
    registrar: Registrar,
}

impl Registry {
    /// Whether one more with such fields can be announced: in one control frame, and kinds in number.
    /// Singletons and buckets are counted where they are.
    pub(super) fn has_room_for(&self, cx: &Cx<'_>, fields: &RegistrationFields) -> bool {
        let bytes = self
            .announcer
            .bytes_max_beside(&fields.id())
            .saturating_add(fields.bytes_max());
        let in_number = match fields {
            RegistrationFields::Kind(_) => self.announcer.kinds() < KINDS_PER_NODE_MAX,
            RegistrationFields::Singleton(_) | RegistrationFields::Bucket(_) => true,
        };
        in_number && bytes <= cx.config().limits.control_frame_bytes_max / 2
    }

    /// This node has one (again); `waits` hears what is decided about it.
    pub(super) fn add(
        &mut self,
        cx: &mut Cx<'_>,
        fields: RegistrationFields,
        waits: Option<Token>,
        running: impl Fn(KindId) -> bool,
    ) {
        self.announcer.add(fields, waits);
        self.announcer.announce(cx, running);
    }

    /// Has a caller wait for what is decided about one; `false` if another one does already.
    pub(super) fn wait(&mut self, id: &RegistrationId, token: Token) -> bool {
        self.announcer.wait_for(id, token)
    }

    /// This node does not have it any more.
    pub(super) fn remove(&mut self, id: &RegistrationId) {
        self.announcer.remove(id);
    }

    /// Whether a kind of this node stands.
    pub(super) fn is_accepted(&self, kind: KindId) -> bool {
        match self.announcer.standing(&RegistrationId::Kind(kind)) {
            Some(AnnouncedStanding::Accepted { .. }) => true,
            Some(AnnouncedStanding::Pending | AnnouncedStanding::Refused) | None => false,
        }
    }

    /// What has been decided about one of this node.
    pub(super) fn standing(&self, id: &RegistrationId) -> Option<&AnnouncedStanding> {
        self.announcer.standing(id)
    }

    /// Another node speaks, or this one to itself. Gives back what was decided about this node's
    /// registrations.
    pub(super) fn on_message(
        &mut self,
        cx: &mut Cx<'_>,
        from: &UniqueAddress,
        message: RegistryMsg,
        running: impl Fn(KindId) -> bool,
    ) -> Vec<NewJudgement> {
        match message {
            RegistryMsg::Announce { round, all } => {
                self.registrar.on_announce(cx, from, round, all);
                Vec::new()
            }
            RegistryMsg::Query { term } => {
                self.announcer.on_query(cx, from, &term, running);
                Vec::new()
            }
            RegistryMsg::Verdicts {
                term,
                round,
                verdicts,
            } => self.announcer.on_verdicts(cx, from, &term, round, verdicts),
        }
    }

    /// The picture changed.
    pub(super) fn on_view_changed(
        &mut self,
        cx: &mut Cx<'_>,
        before: &View,
        after: &View,
        running: impl Fn(KindId) -> bool,
    ) {
        self.registrar.on_view_changed(cx);
        self.announcer.on_view_changed(cx, before, after, running);
    }

    /// A timer of this room is due.
    pub(super) fn on_timer(
        &mut self,
        cx: &mut Cx<'_>,
        timer: RegistryTimer,
        running: impl Fn(KindId) -> bool,
    ) {
        match timer {
            RegistryTimer::Announce => self.announcer.on_timer(cx, running),
            RegistryTimer::Recovery => self.registrar.on_timer(cx),
        }
    }

    /// After a pause the oldest member decides nothing until it is known to be a member still; announcements
    /// are repeated.
    pub(super) const fn set_paused(&mut self, paused: bool) {
        self.registrar.set_paused(paused);
    }

    /// This node leaves or has stopped: gives back who waits for a decision. The oldest member decides for
    /// the others until it is removed.
    pub(super) fn take_waiting(&mut self) -> Vec<Token> {
        self.announcer.take_waiting()
    }

    /// This node has stopped and decides nothing any more.
    pub(super) fn halt(&mut self, cx: &mut Cx<'_>) {
        self.registrar.halt(cx);
        cx.cancel(timer(RegistryTimer::Announce));
    }
}

/// Says something to a node, this one included.
fn send(cx: &mut Cx<'_>, to: &UniqueAddress, message: RegistryMsg) {
    cx.send(to, ShardingMsg::Registry(message));
}

const fn timer(timer: RegistryTimer) -> ShardingTimer {
    ShardingTimer::Registry(timer)
}

#[cfg(test)]
mod tests;
