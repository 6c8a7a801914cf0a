//! Watching: a node asks the home of an entity to be told of its end, and follows the entity when it moves.
//! Each watch ends with exactly one answer: the entity stopped or failed, its node was removed, it did not
//! run, or the watch was given up. A move or a passivation is no end. Watched nodes end when they are
//! removed. Spec: sharding 1.17.
//!
//! `peers` repeats and counts what is said, `held` keeps who watches the entities here, `ends` which of them
//! have ended, `seeking` finds homes; this file follows this node's own watches.

mod ends;
mod held;
mod peers;
mod seeking;

use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use self::ends::{EndMemory, EndedEntities};
use self::held::WatcherTable;
use self::peers::{WatchPeers, wake_by};
use crate::effect::{Answer, CommandError, ShardingAnswer, ShardingCommandError};
use crate::ident::UniqueAddress;
use crate::input::Token;
use crate::ordered::{OrderedMap, OrderedSet};
use crate::reject::ShardingRejection;
use crate::sharding::pending_message::RegionContext;
use crate::sharding::protocol::watch::{
    EntityEnd, TerminationReason, WatchId, WatchMsg, WatchStatement, WatchTarget,
};
use crate::sharding::slots::Tenant;
use crate::sharding::state::ids::{EntityId, KindId, ShardId, Slot};
use crate::sharding::{Cx, Sharding};
use crate::time::Instant;
use crate::timer::ShardingTimer;
use crate::view::View;

/// How long a node that is in no picture may take to appear in this node's: gossip takes seconds.
const APPEARS_WITHIN: Duration = Duration::from_secs(30);

/// What this node watches, and who watches what is here.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watches {
    own: OrderedMap<WatchId, LocalWatch>,
    /// Those of `own` whose entity's home is to be found.
    seeking: OrderedSet<WatchId>,
    held: WatcherTable,
    ends: EndedEntities,
    peers: WatchPeers,
    /// Entities that have said why they end, and have not ended yet: who begins to watch one of them hears of
    /// that end.
    ending: OrderedMap<Slot, EntityEnd>,
    /// Until when the end of this node waits for others to hear what was said.
    last_words_until: Option<Instant>,
}

#[derive(Clone, Debug)]
struct LocalWatch {
    token: Token,
    target: WatchedTarget,
}

#[derive(Clone, Debug)]
enum WatchedTarget {
    Node {
        node: UniqueAddress,
        /// Until when it may appear; `None` once it has.
        appears_until: Option<Instant>,
    },
    Entity(WatchedEntity),
}

#[derive(Clone, Debug)]
struct WatchedEntity {
    kind: KindId,
    shard: ShardId,
    entity: EntityId,
    stage: WatchStage,
    /// A home has confirmed the watch.
    known: bool,
}

/// Where a watch of an entity is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum WatchStage {
    /// Its home is to be found.
    Seeking,
    /// This node was told, and has not answered.
    Asked(UniqueAddress),
    /// This node will say when it ends.
    Watching(UniqueAddress),
}

impl WatchStage {
    const fn home(&self) -> Option<&UniqueAddress> {
        match self {
            Self::Seeking => None,
            Self::Asked(node) | Self::Watching(node) => Some(node),
        }
    }
}

impl Watches {
    fn finish(&mut self, cx: &mut Cx<'_>, id: WatchId, answer: Answer) {
        self.seeking.remove(&id);
        if let Some(own) = self.own.remove(&id) {
            cx.reply(own.token, answer);
        }
    }

    fn end(&mut self, cx: &mut Cx<'_>, id: WatchId, why: TerminationReason) {
        cx.counters().watches_ended += 1;
        self.finish(cx, id, Answer::Sharding(ShardingAnswer::Terminated(why)));
    }

    fn tell(
        &mut self,
        cx: &mut Cx<'_>,
        watchers: Vec<held::Watcher>,
        says: impl Fn(WatchId) -> WatchStatement,
    ) {
        for (node, id) in watchers {
            self.peers.say(cx, &node, says(id));
        }
    }

    /// Whether nothing that others have to hear is unheard, or has waited long enough at the end of this
    /// node.
    pub(super) fn has_had_last_words(&mut self, cx: &mut Cx<'_>) -> bool {
        if self.peers.all_heard() {
            return true;
        }
        let patience = cx.config().sharding.watch_resend_interval.saturating_mul(2);
        let until = *self.last_words_until.get_or_insert(cx.mono() + patience);
        cx.mono() >= until
    }

    /// This node has ended.
    pub(super) fn halt(&mut self, cx: &mut Cx<'_>) {
        for (_, own) in core::mem::take(self).own {
            cx.reply(own.token, Answer::Refused(CommandError::Stopped));
        }
        cx.cancel(ShardingTimer::Watch);
    }

    /// How many this node has open, and keeps for others.
    pub(super) fn count(&self) -> (usize, usize) {
        (self.own.len(), self.held.len())
    }

    /// What must hold between the calls.
    pub(super) fn check_invariants(&self) -> Result<(), String> {
        let seeks = |own: &LocalWatch| matches!(&own.target, WatchedTarget::Entity(of) if of.stage == WatchStage::Seeking);
        let seeking = self.own.iter().filter(|(_, own)| seeks(own));
        if !seeking.map(|(id, _)| id).eq(&self.seeking) {
            return Err(String::from("watch: who seeks is not who is noted"));
        }
        if !self.held.is_sound() || !self.ends.is_sound() || !self.peers.is_sound() {
            return Err(String::from("watch: the tables do not match"));
        }
        Ok(())
    }
}

impl Sharding {
    /// A user wants to hear of an end.
    pub(super) fn watch(&mut self, cx: &mut Cx<'_>, token: Token, id: WatchId, target: WatchTarget) {
        let target = match self.check_watch(cx, id, target) {
            Ok(target) => target,
            Err(error) => return cx.reply(token, Answer::Refused(error)),
        };
        cx.counters().watches_opened += 1;
        if matches!(target, WatchedTarget::Entity(_)) {
            self.watches.seeking.insert(id);
        }
        self.watches.own.insert(id, LocalWatch { token, target });
        let view = alloc::sync::Arc::clone(cx.view());
        self.look_at_node(cx, &view, id);
        self.pursue_watches(cx);
    }

    fn check_watch(
        &self,
        cx: &Cx<'_>,
        id: WatchId,
        target: WatchTarget,
    ) -> Result<WatchedTarget, CommandError> {
        let refused = |error| Err(CommandError::Sharding(error));
        if self.halted {
            return Err(CommandError::Stopped);
        }
        if self.watches.own.len() >= cx.config().sharding.watches_max || self.watches.own.contains_key(&id) {
            return refused(ShardingCommandError::TooManyWatches);
        }
        let (kind, entity) = match target {
            WatchTarget::Node(node) => {
                let appears_until = Some(cx.mono() + APPEARS_WITHIN);
                return Ok(WatchedTarget::Node { node, appears_until });
            }
            WatchTarget::Entity { kind, entity } => (kind, entity),
        };
        let Some(machines) = self.kinds.get(&kind) else {
            return refused(ShardingCommandError::NotRegistered);
        };
        let bytes = entity.as_bytes().len();
        if bytes == 0 || bytes > cx.config().limits.entity_id_bytes_max {
            return refused(ShardingCommandError::BadEntityId);
        }
        Ok(WatchedTarget::Entity(WatchedEntity {
            kind,
            shard: machines.region.kind().shard_of(&entity),
            entity,
            stage: WatchStage::Seeking,
            known: false,
        }))
    }

    /// A user does not want to hear any more: its watch is answered as done.
    pub(super) fn unwatch(&mut self, cx: &mut Cx<'_>, id: WatchId) {
        if let Some(own) = self.watches.own.get(&id)
            && let WatchedTarget::Entity(of) = &own.target
            && let Some(home) = of.stage.home().cloned()
        {
            self.watches.peers.say(cx, &home, WatchStatement::Unwatch { id });
        }
        self.watches.finish(cx, id, Answer::Done);
        self.watches.peers.transmit(cx);
    }

    /// Another node (or this one) speaks about watches.
    pub(super) fn on_watch(&mut self, cx: &mut Cx<'_>, from: &UniqueAddress, message: WatchMsg) {
        if self.halted {
            return;
        }
        match message {
            WatchMsg::Heard { up_to } => {
                self.watches.peers.on_heard(cx, from, up_to);
                self.say_if_drained(cx);
            }
            WatchMsg::Say { first, statements } => {
                for statement in self.watches.peers.hear(cx, from, first, statements) {
                    self.on_statement(cx, from, statement);
                }
            }
        }
        self.pursue_watches(cx);
    }

    fn on_statement(&mut self, cx: &mut Cx<'_>, from: &UniqueAddress, statement: WatchStatement) {
        match statement {
            WatchStatement::Watch {
                id,
                kind,
                entity,
                known,
            } => {
                let reply = self.watched_here(cx, (from.clone(), id), kind, entity, known);
                self.watches.peers.say(cx, from, reply);
            }
            WatchStatement::Unwatch { id } => self.watches.held.remove(&(from.clone(), id)),
            WatchStatement::Watching { id } => {
                if let Some(of) = self.watch_at(id, from) {
                    of.stage = WatchStage::Watching(from.clone());
                    of.known = true;
                    cx.counters().watches_confirmed += 1;
                }
            }
            WatchStatement::Moved { id } => self.on_watched_moved(cx, from, id),
            WatchStatement::Ended { id, why } => {
                if self.watch_at(id, from).is_some() {
                    let why = match why {
                        EntityEnd::Stopped => TerminationReason::Stopped,
                        EntityEnd::Failed => TerminationReason::Failed,
                        EntityEnd::NotRunning => TerminationReason::NotRunning,
                    };
                    self.watches.end(cx, id, why);
                }
            }
            WatchStatement::Full { id } => {
                if self.watch_at(id, from).is_some() {
                    let error = CommandError::Sharding(ShardingCommandError::TooManyWatchers);
                    self.watches.finish(cx, id, Answer::Refused(error));
                }
            }
        }
    }

    /// This node's watch with this number, if it is this node that speaks for it.
    fn watch_at(&mut self, id: WatchId, home: &UniqueAddress) -> Option<&mut WatchedEntity> {
        match &mut self.watches.own.get_mut(&id)?.target {
            WatchedTarget::Entity(of) if of.stage.home() == Some(home) => Some(of),
            WatchedTarget::Entity(_) | WatchedTarget::Node { .. } => None,
        }
    }

    /// The entity is to be looked for elsewhere. What was taken for its home is forgotten; a home that never
    /// confirmed may be on its way to be one, and is asked for again a little later.
    fn on_watched_moved(&mut self, cx: &mut Cx<'_>, from: &UniqueAddress, id: WatchId) {
        let Some(of) = self.watch_at(id, from) else { return };
        let at_once = matches!(of.stage, WatchStage::Watching(_));
        of.stage = WatchStage::Seeking;
        let (kind, shard) = (of.kind, of.shard);
        self.watches.seeking.insert(id);
        if let Some(machines) = self.kinds.get_mut(&kind) {
            machines
                .region
                .is_not_home(shared!(self, cx), shard, from, at_once);
        }
    }

    /// Somebody wants to hear of the end of an entity that is taken to live here.
    fn watched_here(
        &mut self,
        cx: &mut Cx<'_>,
        watcher: held::Watcher,
        kind: KindId,
        entity: EntityId,
        known: bool,
    ) -> WatchStatement {
        let id = watcher.1;
        let bytes = entity.as_bytes().len();
        if bytes == 0 || bytes > cx.config().limits.entity_id_bytes_max {
            let what = "length of an entity id";
            let rejection = ShardingRejection::OutOfRange { what };
            cx.reject(&watcher.0, rejection);
            return WatchStatement::Full { id };
        }
        let Some(machines) = self.kinds.get(&kind) else {
            return WatchStatement::Moved { id };
        };
        let shard = machines.region.kind().shard_of(&entity);
        let memory = self.watches.ends.of(kind, shard, &entity);
        if let (true, EndMemory::Ended(why)) = (known, memory) {
            // Its watch was on the way here from the shard's earlier home when it ended.
            return WatchStatement::Ended { id, why };
        }
        let Some(runs) = machines.region.runs(shard, &entity) else {
            return WatchStatement::Moved { id };
        };
        // One that others watch and that does not run was passivated, or has come here and had no message
        // yet.
        let goes_on = known && memory == EndMemory::Nothing;
        if !runs && !goes_on && !self.watches.held.has(kind, shard, &entity) {
            let why = EntityEnd::NotRunning;
            return WatchStatement::Ended { id, why };
        }
        let most = cx.config().sharding.watchers_per_entity_max;
        if self.watches.held.add(watcher, (kind, shard, entity), most) {
            WatchStatement::Watching { id }
        } else {
            cx.counters().watches_refused += 1;
            WatchStatement::Full { id }
        }
    }

    /// An entity says why it ends, before it has.
    pub(super) fn on_entity_ends(&mut self, slot: Slot, why: EntityEnd) {
        if self.slots.is_taken(slot) {
            self.watches.ending.insert(slot, why);
        }
    }

    /// How the entity in this slot ends, now that it has stopped; `None` if it was told to, and lives on
    /// somewhere or later. To be asked before its region hears of it.
    pub(super) fn end_of(&mut self, slot: Slot, tenant: &Tenant) -> Option<EntityEnd> {
        let said = self.watches.ending.remove(&slot);
        let machines = self.kinds.get(&tenant.kind)?;
        let by_itself = machines.region.is_wanted(tenant.shard, &tenant.entity);
        said.or(by_itself.then_some(EntityEnd::Stopped))
    }

    /// An entity is no more.
    pub(super) fn on_entity_ended(&mut self, cx: &mut Cx<'_>, tenant: &Tenant, why: EntityEnd) {
        let Tenant { kind, shard, entity } = tenant;
        self.watches.ends.add((*kind, *shard, entity), why);
        let watchers = self.watches.held.take_entity(*kind, *shard, entity);
        let ended = |id| WatchStatement::Ended { id, why };
        self.watches.tell(cx, watchers, ended);
    }

    /// All entities of a shard are no more, because one of them has failed. Those in these slots are about to
    /// end.
    pub(super) fn on_shard_failed(&mut self, cx: &mut Cx<'_>, kind: KindId, shard: ShardId, slots: &[Slot]) {
        for slot in slots {
            self.on_entity_ends(*slot, EntityEnd::Failed);
        }
        let watchers = self.watches.held.take_shard(kind, shard);
        let why = EntityEnd::Failed;
        let ended = |id| WatchStatement::Ended { id, why };
        self.watches.tell(cx, watchers, ended);
    }

    /// Something may have changed about a kind's shards: those that are here no more are looked for
    /// elsewhere.
    pub(super) fn after_kind(&mut self, cx: &mut Cx<'_>, kind: KindId) {
        let ended = match self.kinds.get_mut(&kind) {
            Some(machines) => machines.region.take_ended(),
            None => return,
        };
        for shard in ended {
            self.watches.ends.end(kind, shard);
            let watchers = self.watches.held.take_shard(kind, shard);
            self.watches.tell(cx, watchers, |id| WatchStatement::Moved { id });
        }
        self.pursue_watches(cx);
    }

    /// The members are others.
    pub(super) fn watches_see(&mut self, cx: &mut Cx<'_>, before: &View, after: &View) {
        for member in after.gone_since(before) {
            self.watches.held.forget(&member.node);
            self.watches.peers.forget(&member.node);
        }
        let all: Vec<WatchId> = self.watches.own.keys().copied().collect();
        for id in all {
            self.look_at_node(cx, after, id);
            self.look_at_home(cx, after, id);
        }
        self.after_kinds(cx);
    }

    /// Something may have changed about all kinds' shards.
    pub(super) fn after_kinds(&mut self, cx: &mut Cx<'_>) {
        let kinds: Vec<KindId> = self.kinds.keys().copied().collect();
        for kind in kinds {
            self.after_kind(cx, kind);
        }
    }

    fn look_at_node(&mut self, cx: &mut Cx<'_>, view: &View, id: WatchId) {
        let Some(LocalWatch {
            target: WatchedTarget::Node { node, appears_until },
            ..
        }) = self.watches.own.get_mut(&id)
        else {
            return;
        };
        if view.member(node).is_some() {
            *appears_until = None;
        } else if view.is_removed(node) || appears_until.is_none() {
            self.watches.end(cx, id, TerminationReason::NodeRemoved);
        } else if appears_until.is_some_and(|until| until <= cx.mono()) {
            self.watches.end(cx, id, TerminationReason::NeverSeen);
        } else if let Some(until) = *appears_until {
            wake_by(cx, until);
        }
    }

    /// A home that is no member any more says nothing more. One that left in good order had handed its shards
    /// over, and said what had ended before.
    fn look_at_home(&mut self, cx: &mut Cx<'_>, view: &View, id: WatchId) {
        let Some(LocalWatch {
            target: WatchedTarget::Entity(of),
            ..
        }) = self.watches.own.get_mut(&id)
        else {
            return;
        };
        let Some(home) = of.stage.home().filter(|home| view.member(home).is_none()) else {
            return;
        };
        let ran_there = matches!(of.stage, WatchStage::Watching(_)) && !view.gossip().is_gone(home);
        if ran_there {
            return self.watches.end(cx, id, TerminationReason::NodeRemoved);
        }
        of.stage = WatchStage::Seeking;
        self.watches.seeking.insert(id);
    }

    /// Says again what was not heard, and looks for nodes that have not appeared.
    pub(super) fn on_watch_timer(&mut self, cx: &mut Cx<'_>) {
        self.watches.peers.repeat();
        let view = alloc::sync::Arc::clone(cx.view());
        let all: Vec<WatchId> = self.watches.own.keys().copied().collect();
        for id in all {
            self.look_at_node(cx, &view, id);
        }
        self.pursue_watches(cx);
        self.say_if_drained(cx);
    }
}
