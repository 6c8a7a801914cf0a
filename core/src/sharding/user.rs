//! What this node's user wants of entities: messages, asks. Checks the caller's arguments once, then hands the
//! message to the kind's region; decides nothing else. Spec: `README.md`, sharding 10.5.

use core::time::Duration;

use crate::effect::{Answer, CommandError, ShardingAnswer, ShardingCommandError};
use crate::input::{ShardingCommand, Token};
use crate::message::{AskTicket, EntityEnvelope};
use crate::sharding::Cx;
use crate::sharding::Sharding;
use crate::sharding::coordinator::Coordinator;
use crate::sharding::pending_message::{PendingMessage, Shared, fail};
use crate::sharding::state::allocation::AllocationSettings;
use crate::sharding::state::chain::AskChain;
use crate::sharding::state::errors::AskFailure;
use crate::sharding::state::ids::{EntityId, KindId, Payload, SHARDS_MAX, ShardId};

/// For how long an answer is waited for, and by whom beside this node's user.
struct Wait {
    timeout: Duration,
    chain: AskChain,
}

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
                chain,
            } => {
                let envelope = self.envelope(kind, entity, payload);
                self.ask(cx, token, envelope, Wait { timeout, chain });
            }
            ShardingCommand::Tell {
                kind,
                entity,
                payload,
            } => self.tell_and_wait(cx, token, (kind, entity), payload),
            ShardingCommand::ShutDownRegion { kind, timeout } => match self.kinds.get_mut(&kind) {
                Some(machines) => {
                    machines.region.retire(shared!(self, cx), token, timeout);
                    self.after_kind(cx, kind);
                }
                None => cx.reply(token, answer(Err(ShardingCommandError::NotRegistered))),
            },
            ShardingCommand::Watch { watch, target } => self.watch(cx, token, watch, target),
            ShardingCommand::Unwatch { watch } => {
                self.unwatch(cx, watch);
                cx.reply(token, Answer::Done);
            }
            ShardingCommand::Survey { kind, timeout } => self.survey(cx, token, kind, timeout),
            ShardingCommand::ListEntities { kind, after, timeout } => {
                self.list_entities(cx, token, (kind, after), timeout)
            }
            ShardingCommand::StopShards {
                kind,
                shards,
                timeout,
            } => self.stop_shards(cx, token, (kind, shards), timeout),
            ShardingCommand::Explain {
                kind,
                entity,
                timeout,
            } => {
                let length = entity.as_bytes().len();
                if length == 0 || length > cx.config().limits.entity_id_bytes_max {
                    cx.reply(token, answer(Err(ShardingCommandError::BadEntityId)));
                    return;
                }
                let shard = self.shard_of(kind, &entity);
                self.explain(cx, token, (kind, shard), timeout);
            }
            ShardingCommand::SetEntityLimit { kind, per_region } => {
                let done = self.set_entity_limit(cx, kind, per_region);
                cx.reply(token, answer(done));
            }
            ShardingCommand::AnswerAllocation(said) => {
                let done = self.coordinator_of(said.kind);
                let done = done.map(|coordinator| coordinator.on_allocation_answer(cx, said));
                cx.reply(token, answer(done));
            }
            ShardingCommand::CheckPlace { kind, shard } => {
                cx.reply(token, answer(self.check_place(kind, shard)));
            }
            ShardingCommand::SetDesiredHomes { kind, homes } => {
                let done = self.coordinator_of(kind);
                let done = done.map(|coordinator| coordinator.set_desired_homes(cx, homes));
                cx.reply(token, answer(done));
            }
        }
    }

    fn coordinator_of(&mut self, kind: KindId) -> Result<&mut Coordinator, ShardingCommandError> {
        let machines = self.kinds.get_mut(&kind);
        let machines = machines.ok_or(ShardingCommandError::NotRegistered)?;
        Ok(&mut machines.coordinator)
    }

    /// Whether a shard may be placed from outside, as far as this node knows.
    fn check_place(&self, kind: KindId, shard: ShardId) -> Result<(), ShardingCommandError> {
        let known = self.kinds.get(&kind);
        let settings = known.map(|machines| &machines.region.kind().settings);
        let shards = settings.map_or(SHARDS_MAX, |settings| settings.shards);
        if shard.0 >= shards {
            return Err(ShardingCommandError::NoSuchShard { shard, shards });
        }
        let is_placed = settings.is_none_or(|settings| match &settings.allocation {
            Some(AllocationSettings::External) => true,
            Some(
                AllocationSettings::LeastShards(_)
                | AllocationSettings::LeastShardsOneByOne(_)
                | AllocationSettings::ConsistentHashing(_)
                | AllocationSettings::Custom(_)
                | AllocationSettings::Asked(_),
            ) => false,
            None => !settings.hosts,
        });
        is_placed.then_some(()).ok_or(ShardingCommandError::NotPlaced)
    }

    fn set_entity_limit(
        &mut self,
        cx: &mut Cx<'_>,
        kind: KindId,
        per_region: usize,
    ) -> Result<(), ShardingCommandError> {
        let machines = self
            .kinds
            .get_mut(&kind)
            .ok_or(ShardingCommandError::NotRegistered)?;
        let has_limit = machines.region.set_entity_limit(shared!(self, cx), per_region);
        has_limit.then_some(()).ok_or(ShardingCommandError::NoEntityLimit)
    }

    fn envelope(&self, kind: KindId, entity: EntityId, payload: Payload) -> EntityEnvelope {
        EntityEnvelope {
            kind,
            shard: self.shard_of(kind, &entity),
            entity,
            payload,
            ask: None,
            hops: 0,
        }
    }

    /// A user's message that expects no answer.
    pub(crate) fn tell(&mut self, cx: &mut Cx<'_>, kind: KindId, entity: EntityId, payload: Payload) {
        let envelope = self.envelope(kind, entity, payload);
        match self.check_outgoing(cx, &envelope) {
            Ok(()) => self.route(cx, PendingMessage::own(envelope, None)),
            Err(reason) => fail(cx, &mut self.asks, envelope, reason),
        }
    }

    /// The same, of a caller who waits to hear that it was taken.
    fn tell_and_wait(&mut self, cx: &mut Cx<'_>, token: Token, to: (KindId, EntityId), payload: Payload) {
        let (kind, entity) = to;
        let envelope = self.envelope(kind, entity, payload);
        let checked = self.check_outgoing(cx, &envelope);
        match (checked, self.kinds.get_mut(&kind)) {
            (Ok(()), Some(machines)) => {
                let pending = PendingMessage::own(envelope, None);
                machines.region.tell(shared!(self, cx), token, pending);
            }
            (Err(_), _) if self.halted => cx.reply(token, Answer::Refused(CommandError::Stopped)),
            (Ok(()), None) | (Err(AskFailure::UnknownKind), _) => {
                cx.reply(token, answer(Err(ShardingCommandError::NotRegistered)));
            }
            (Err(reason), _) => {
                fail(cx, &mut self.asks, envelope, reason);
                cx.reply(token, Answer::Done);
            }
        }
    }

    /// A user's message that expects an answer.
    fn ask(&mut self, cx: &mut Cx<'_>, token: Token, mut envelope: EntityEnvelope, wait: Wait) {
        let (kind, shard) = (envelope.kind, envelope.shard);
        let opened = self
            .check_outgoing(cx, &envelope)
            .and_then(|()| self.asks.open(cx, token, (kind, shard), wait.timeout));
        let (id, deadline) = match opened {
            Ok(opened) => opened,
            Err(reason) => {
                cx.counters().asks_failed += 1;
                cx.reply(token, Answer::Sharding(ShardingAnswer::Asked(Err(reason))));
                return;
            }
        };
        envelope.ask = Some(AskTicket::of(cx.me(), id, wait.chain));
        self.route(cx, PendingMessage::own(envelope, Some(deadline)));
    }

    /// The shard of an entity; of a kind that nobody knows it does not matter which.
    fn shard_of(&self, kind: KindId, entity: &EntityId) -> ShardId {
        let known = self.kinds.get(&kind);
        known.map_or(ShardId(0), |machines| machines.region.kind().shard_of(entity))
    }

    /// Checks what a user wants to send, wherever it will go.
    fn check_outgoing(&self, cx: &mut Cx<'_>, envelope: &EntityEnvelope) -> Result<(), AskFailure> {
        let limits = &cx.config().limits;
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
        if envelope.payload.len().saturating_add(id_bytes) > limits.payload_bytes_max() {
            return Err(AskFailure::TooLarge);
        }
        cx.counters().entity_messages_accepted += 1;
        Ok(())
    }
}

fn answer(done: Result<(), ShardingCommandError>) -> Answer {
    match done {
        Ok(()) => Answer::Done,
        Err(error) => Answer::Refused(CommandError::Sharding(error)),
    }
}
