//! What this node's user wants of entities: messages, asks. Checks the caller's arguments once, then hands
//! the message to the kind's region; decides nothing else. Spec: `README.md`, sharding 10.5.

use alloc::boxed::Box;

use crate::effect::{Answer, CommandError, ShardingCommandError};
use crate::input::{ShardingCommand, Token};
use crate::message::{AskTicket, EntityEnvelope};
use crate::messaging::AskWait;
use crate::ordered::OrderedMap;
use crate::sharding::coordinator::Coordinator;
use crate::sharding::pending_message::{PendingMessage, RegionContext, fail};
use crate::sharding::region::ShardRegion;
use crate::sharding::state::allocation::AllocationSettings;
use crate::sharding::state::errors::AskFailure;
use crate::sharding::state::ids::{EntityId, KindId, Payload, SHARDS_MAX, ShardId};
use crate::sharding::{Cx, KindMachines, Sharding};

impl Sharding {
    /// A caller wants something.
    pub(crate) fn on_command(&mut self, cx: &mut Cx<'_>, token: Token, command: ShardingCommand) {
        match command {
            ShardingCommand::RegisterKind(settings) => self.register(cx, token, *settings),
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

    /// A user's message that expects no answer.
    pub(crate) fn tell(&mut self, cx: &mut Cx<'_>, kind: KindId, entity: EntityId, payload: Payload) {
        match address(&mut self.kinds, cx, self.halted, (kind, entity), payload) {
            Ok((region, envelope)) => region.route(shared!(self, cx), PendingMessage::own(envelope, None)),
            Err((envelope, reason)) => fail(cx, &mut self.asks, envelope, reason),
        }
    }

    /// The same, of a caller who waits to hear that it was taken.
    pub(crate) fn tell_and_wait(
        &mut self,
        cx: &mut Cx<'_>,
        token: Token,
        to: (KindId, EntityId),
        payload: Payload,
    ) {
        match address(&mut self.kinds, cx, self.halted, to, payload) {
            Ok((region, envelope)) => {
                region.tell(shared!(self, cx), token, PendingMessage::own(envelope, None));
            }
            Err(_) if self.halted => cx.reply(token, Answer::Refused(CommandError::Stopped)),
            Err((_, AskFailure::UnknownKind)) => {
                cx.reply(token, answer(Err(ShardingCommandError::NotRegistered)));
            }
            Err((envelope, reason)) => {
                fail(cx, &mut self.asks, envelope, reason);
                cx.reply(token, Answer::Done);
            }
        }
    }

    /// A user's message that expects an answer.
    pub(crate) fn ask(
        &mut self,
        cx: &mut Cx<'_>,
        token: Token,
        to: (KindId, EntityId),
        payload: Payload,
        AskWait { timeout, chain }: AskWait,
    ) {
        let addressed = address(&mut self.kinds, cx, self.halted, to, payload);
        let opened = addressed
            .map_err(|(_, reason)| reason)
            .and_then(|(region, envelope)| {
                let place = (envelope.kind, envelope.shard);
                let (id, deadline) = self.asks.open(cx, token, place, timeout)?;
                Ok((region, envelope, id, deadline))
            });
        match opened {
            Ok((region, mut envelope, id, deadline)) => {
                envelope.ask = Some(AskTicket::of(cx.me(), id, chain));
                region.route(shared!(self, cx), PendingMessage::own(envelope, Some(deadline)));
            }
            Err(reason) => {
                cx.counters().asks_failed += 1;
                cx.reply(token, Answer::Asked(Err(reason)));
            }
        }
    }

    /// The shard of an entity; of a kind that nobody knows it does not matter which.
    fn shard_of(&self, kind: KindId, entity: &EntityId) -> ShardId {
        let known = self.kinds.get(&kind);
        known.map_or(ShardId(0), |machines| machines.region.kind().shard_of(entity))
    }
}

/// Checks what a user wants to send, wherever it will go, and finds the region that it goes through.
fn address<'k>(
    kinds: &'k mut OrderedMap<KindId, Box<KindMachines>>,
    cx: &mut Cx<'_>,
    has_halted: bool,
    (kind, entity): (KindId, EntityId),
    payload: Payload,
) -> Result<(&'k mut ShardRegion, EntityEnvelope), (EntityEnvelope, AskFailure)> {
    let region = kinds.get_mut(&kind).map(|machines| &mut machines.region);
    let shard = region
        .as_ref()
        .map_or(ShardId(0), |region| region.kind().shard_of(&entity));
    let envelope = EntityEnvelope {
        kind,
        shard,
        entity,
        payload,
        ask: None,
        hops: 0,
    };
    let limits = &cx.config().limits;
    let id_bytes = envelope.entity.as_bytes().len();
    let reason = match region {
        Some(_) | None if has_halted => AskFailure::NodeStoppedUnsent,
        None => AskFailure::UnknownKind,
        Some(_) if id_bytes == 0 || id_bytes > limits.entity_id_bytes_max => AskFailure::BadEntityId,
        Some(_) if envelope.payload.len().saturating_add(id_bytes) > limits.payload_bytes_max() => {
            AskFailure::TooLarge
        }
        Some(region) => {
            cx.counters().entity_messages_accepted += 1;
            return Ok((region, envelope));
        }
    };
    Err((envelope, reason))
}

fn answer(done: Result<(), ShardingCommandError>) -> Answer {
    match done {
        Ok(()) => Answer::Done,
        Err(error) => Answer::Refused(CommandError::Sharding(error)),
    }
}
