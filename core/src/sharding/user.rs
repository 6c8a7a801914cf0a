//! What this node's user wants of sharding: kinds, messages, asks. Checks the caller's arguments once, then hands the
//! message to the kind's region; decides nothing else. Spec: `README.md`, sharding 10.5.

use core::time::Duration;

use crate::cx::Cx;
use crate::effect::{Answer, CommandError, ShardingAnswer, ShardingCommandError};
use crate::input::{KindSettings, ShardingCommand, Token};
use crate::message::{AskTicket, EntityEnvelope};
use crate::sharding::coordinator::Coordinator;
use crate::sharding::kind::Kind;
use crate::sharding::parcel::{Parcel, Shared, fail};
use crate::sharding::region::Region;
use crate::sharding::state::errors::AskFailure;
use crate::sharding::state::ids::{AskRef, EntityId, KindId, Payload, SHARDS_MAX, ShardId};
use crate::sharding::{Machines, Sharding};

/// Longest name of a kind in bytes: names appear in messages to operators.
const KIND_NAME_BYTES_MAX: usize = 255;

impl Sharding {
    /// A caller wants something.
    pub(crate) fn on_command(&mut self, cx: &mut Cx<'_>, token: Token, command: ShardingCommand) {
        match command {
            ShardingCommand::RegisterKind(settings) => self.register(cx, token, settings),
            ShardingCommand::Ask {
                kind,
                entity,
                payload,
                timeout,
            } => self.ask(cx, token, kind, entity, payload, timeout),
        }
    }

    /// A user registers a kind.
    fn register(&mut self, cx: &mut Cx<'_>, token: Token, settings: KindSettings) {
        let answer = match self.check_registration(cx, &settings) {
            Err(error) => Answer::Refused(error),
            Ok(true) => Answer::Done,
            Ok(false) => {
                self.add(cx, settings);
                Answer::Done
            }
        };
        cx.reply(token, answer);
    }

    /// A user's message that expects no answer.
    pub(crate) fn tell(&mut self, cx: &mut Cx<'_>, kind: KindId, entity: EntityId, payload: Payload) {
        let shards = self
            .kinds
            .get(&kind)
            .map_or(1, |m| m.region.kind().settings.shards);
        let envelope = EntityEnvelope {
            kind,
            shard: ShardId::of(&entity, shards),
            entity,
            payload,
            ask: None,
            hops: 0,
        };
        match self.admit(cx, &envelope) {
            Ok(()) => self.route(
                cx,
                Parcel {
                    envelope,
                    deadline: None,
                },
            ),
            Err(reason) => fail(cx, &mut self.asks, envelope, reason),
        }
    }

    /// A user's message that expects an answer.
    fn ask(
        &mut self,
        cx: &mut Cx<'_>,
        token: Token,
        kind: KindId,
        entity: EntityId,
        payload: Payload,
        timeout: Duration,
    ) {
        let shards = self
            .kinds
            .get(&kind)
            .map_or(1, |m| m.region.kind().settings.shards);
        let shard = ShardId::of(&entity, shards);
        let mut envelope = EntityEnvelope {
            kind,
            shard,
            entity,
            payload,
            ask: None,
            hops: 0,
        };
        let opened = self
            .admit(cx, &envelope)
            .and_then(|()| self.asks.open(cx, token, (kind, shard), timeout));
        let (id, deadline) = match opened {
            Ok(opened) => opened,
            Err(reason) => {
                cx.stats.asks_failed += 1;
                cx.reply(token, Answer::Sharding(ShardingAnswer::Asked(Err(reason))));
                return;
            }
        };
        let asker = cx.me.clone();
        envelope.ask = Some(AskTicket {
            ask: AskRef { asker, id },
            remaining_ms: 0,
        });
        let deadline = Some(deadline);
        self.route(cx, Parcel { envelope, deadline });
    }

    fn check_registration(&self, cx: &Cx<'_>, settings: &KindSettings) -> Result<bool, CommandError> {
        if self.halted {
            return Err(CommandError::Stopped);
        }
        if settings.name.is_empty() || settings.name.len() > KIND_NAME_BYTES_MAX {
            return Err(CommandError::Sharding(ShardingCommandError::BadKindName));
        }
        if settings.shards == 0 || settings.shards > SHARDS_MAX {
            return Err(CommandError::Sharding(ShardingCommandError::BadShardCount));
        }
        let lacks_role = |role| !cx.config.node_roles().contains(role);
        if settings.hosts && settings.role.as_ref().is_some_and(lacks_role) {
            return Err(CommandError::Sharding(ShardingCommandError::RoleMissing));
        }
        match self.kinds.get(&KindId::of(&settings.name)) {
            None => Ok(false),
            Some(known) if known.region.kind().settings == *settings => Ok(true),
            Some(_) => Err(CommandError::Sharding(ShardingCommandError::KindConflict)),
        }
    }

    fn add(&mut self, cx: &mut Cx<'_>, settings: KindSettings) {
        let id = KindId::of(&settings.name);
        let kind = Kind { id, settings };
        let mut machines = Machines {
            region: Region::new(kind.clone()),
            coordinator: Coordinator::new(kind),
        };
        machines.coordinator.on_view_changed(cx, &self.departures);
        machines.region.register(cx);
        if self.draining {
            self.drained = false;
            machines.region.drain(shared!(self, cx));
        }
        self.kinds.insert(id, machines);
        self.say_if_drained(cx);
    }

    /// Checks what a user wants to send, wherever it will go.
    fn admit(&self, cx: &mut Cx<'_>, envelope: &EntityEnvelope) -> Result<(), AskFailure> {
        let limits = &cx.config.limits;
        let id_bytes = envelope.entity.as_bytes().len();
        if self.halted {
            return Err(AskFailure::NodeStoppedUnsent);
        }
        if !self.kinds.contains_key(&envelope.kind) {
            return Err(AskFailure::UnknownKind);
        }
        if id_bytes == 0 || id_bytes > limits.entity_id_bytes_max {
            return Err(AskFailure::BadEntityId);
        }
        if envelope.payload.len().saturating_add(id_bytes) > payload_bytes_max(cx) {
            return Err(AskFailure::TooLarge);
        }
        cx.stats.entity_messages_accepted += 1;
        Ok(())
    }
}

/// Most payload bytes, an entity's id included, that surely fit into a user frame.
pub(super) fn payload_bytes_max(cx: &Cx<'_>) -> usize {
    cx.config.limits.payload_bytes_max()
}
