//! The producer's side as a task of the users' executor: takes messages while there is room, asks what the
//! rules of the core say, and has an ask open to every entity that has something to confirm. Spec: sharding
//! 1.14.

use std::sync::Arc;
use std::time::Duration;

use async_channel::Receiver;
use quorate_core::delivery::{
    BadSetting, SequencedMessage, ToEntities, ToEntitiesOutput, ToEntitiesSettings,
};
use quorate_core::ordered::OrderedMap;
use quorate_core::sharding::ids::{EntityId, KindId, Payload};
use quorate_core::time::Instant;

use super::SendError;
use super::length::bytes_of;
use super::message::{DeliveryBody, DeliveryMessage, Origin};
use super::open_lines::OpenLines;
use super::orders::{Offer, ProducerInbox, ProducerOrder, TaskReport};
use super::parked::Parked;
use super::queue::{DurableQueue, Entry};
use crate::codec;
use crate::codec::Bytes;
use crate::commands::UserCommand;
use crate::shared::Shared;
use crate::sync::{self, Either, race};
use quorate_core::input::Recipient;

/// Orders of users that wait for the task: some turns, so that neither waits for the other.
pub(super) const ORDERS_MAX: usize = 64;

/// Orders that wait for room, for one entity or for all. While there are so many, no others are looked at:
/// their callers wait one step before.
pub(super) const PARKED_MAX: usize = 1_024;

/// Messages that one entity has not confirmed: the default window is on its way, and as much waits, so that
/// one slow entity takes a tenth of what may wait.
pub(super) const PER_ENTITY_MAX: usize = 100;

/// Messages that all entities together have not confirmed.
const UNCONFIRMED_MAX: usize = 10_000;

/// Bytes that are not confirmed, all entities together; and the largest message, which is taken when nothing
/// else waits. As much as a region buffers; of a durable producer no more than half of a log.
pub(super) const BYTES_MAX: usize = 64 << 20;

/// What is written around a message beside the producer's name: numbers and flags.
pub(super) const OWN_BYTES: usize = 64;

/// How often times are looked at while something is unconfirmed: all of them are tenths of seconds or more.
pub(super) const TICK: Duration = Duration::from_millis(100);
/// And otherwise: what is not used is forgotten after minutes.
const IDLE_TICK: Duration = Duration::from_secs(10);

/// One entity with something to confirm.
#[derive(Default)]
pub(super) struct Pair {
    pub(super) unconfirmed: usize,
    /// The largest number that was sent.
    pub(super) sent: u64,
    pub(super) lines: OpenLines,
    /// A entity of which all lines broke is asked again then.
    pub(super) again_at: Option<Instant>,
    pub(super) pause: Option<Duration>,
}

/// A message that is not confirmed.
struct OpenDelivery {
    entity: EntityId,
    bytes: usize,
    /// Until it is stored.
    taken: Option<sync::Sender<Result<(), SendError>>>,
    confirmed: Option<sync::Sender<()>>,
}

pub(super) type Output = ToEntitiesOutput<(), EntityId>;

/// See the module.
pub(super) struct Task {
    pub(super) shared: Arc<Shared>,
    pub(super) kind: KindId,
    pub(super) from: Origin,
    is_durable: bool,
    bytes_max: usize,
    waiting_max: usize,
    pub(super) rules: ToEntities<(), EntityId>,
    pub(super) pairs: OrderedMap<EntityId, Pair>,
    open: OrderedMap<u64, OpenDelivery>,
    bytes: usize,
    /// Who waits for room.
    parked: Parked,
    /// When times are looked at next.
    tick_at: Option<Instant>,
    flushes: Vec<(u64, sync::Sender<()>)>,
    pub(super) inbox: Arc<ProducerInbox>,
    /// Confirmations that a durable one has not stored yet.
    unnoted: usize,
    /// What is to be stored, for a durable one.
    entries: Option<async_channel::Sender<Entry>>,
}

/// The task has nothing more to do.
pub(super) struct Ended;

impl Task {
    pub(super) fn new(
        shared: Arc<Shared>,
        kind: KindId,
        from: Origin,
        settings: ToEntitiesSettings,
    ) -> Result<Self, BadSetting> {
        let bytes_max = if settings.producer.is_durable {
            BYTES_MAX.min(shared.queue_bounds.live_bytes_max())
        } else {
            BYTES_MAX
        };
        Ok(Self {
            shared,
            kind,
            from,
            is_durable: settings.producer.is_durable,
            bytes_max,
            waiting_max: settings.waiting_max,
            rules: ToEntities::new((), settings)?,
            pairs: OrderedMap::new(),
            open: OrderedMap::new(),
            bytes: 0,
            parked: Parked::default(),
            tick_at: None,
            flushes: Vec::new(),
            inbox: Arc::default(),
            unnoted: 0,
            entries: None,
        })
    }

    /// Runs until the last handle is gone and everything is confirmed, or the node has ended.
    pub(super) async fn run(mut self, orders: Receiver<ProducerOrder>, queue: Option<DurableQueue>) {
        if let Some(queue) = queue {
            let (entries, kept) = self.begin_with(queue);
            self.entries = Some(entries);
            if self.recover(kept).await.is_err() {
                return;
            }
        }
        let ended = Arc::clone(&self.shared);
        let outcome = race(self.serve(&orders), ended.ended()).await;
        if let Either::Left(Ended) = outcome {
            // Entities forget at once what they would forget in time.
            let entities: Vec<EntityId> = self.pairs.keys().cloned().collect();
            for entity in entities {
                let from = self.from.clone();
                let _ = self.tell(entity, DeliveryBody::Bye { from }).await;
            }
        }
    }

    fn begin_with(
        &self,
        queue: DurableQueue,
    ) -> (async_channel::Sender<Entry>, Vec<(u64, EntityId, Payload)>) {
        let (entries, written) = async_channel::bounded(2 * UNCONFIRMED_MAX);
        let (kept, writer) = queue.split();
        let (background, inbox) = (self.shared.background.clone(), Arc::clone(&self.inbox));
        let (shared, settings) = (Arc::clone(&self.shared), self.rules.settings().producer.clone());
        background.spawn(async move {
            race(
                writer.run(written, &inbox, &shared.background, &settings),
                shared.ended(),
            )
            .await;
        });
        (entries, kept)
    }

    async fn recover(&mut self, kept: Vec<(u64, EntityId, Payload)>) -> Result<(), Ended> {
        for (seq, entity, payload) in &kept {
            let bytes = bytes_of(entity.as_bytes().len(), payload.len());
            self.note(*seq, entity.clone(), bytes, None, None);
        }
        let mut outputs = Vec::new();
        self.rules
            .recover(self.shared.background.now(), kept, &mut outputs);
        self.carry_out(outputs).await
    }

    fn note(
        &mut self,
        seq: u64,
        entity: EntityId,
        bytes: usize,
        taken: Option<sync::Sender<Result<(), SendError>>>,
        confirmed: Option<sync::Sender<()>>,
    ) {
        self.bytes = self.bytes.saturating_add(bytes);
        self.pairs.entry(entity.clone()).or_default().unconfirmed += 1;
        self.open.insert(
            seq,
            OpenDelivery {
                entity,
                bytes,
                taken,
                confirmed,
            },
        );
    }

    async fn serve(&mut self, orders: &Receiver<ProducerOrder>) -> Ended {
        let mut has_handles = true;
        loop {
            while let Some(said) = self.inbox.take() {
                if self.hear(said).await.is_err() {
                    return Ended;
                }
            }
            if self.take_parked().await.is_err() || self.on_time().await.is_err() {
                return Ended;
            }
            self.tell_flushed();
            if !has_handles && self.open.is_empty() && self.parked.is_empty() {
                return Ended;
            }
            let at = self.wakes_at();
            let background = self.shared.background.clone();
            let inbox = Arc::clone(&self.inbox);
            let reads = has_handles && self.parked.len() < PARKED_MAX;
            let order = async {
                if reads {
                    orders.recv().await
                } else {
                    std::future::pending().await
                }
            };
            let woken = race(inbox.notify.notified(), background.sleep_until(at));
            match race(woken, order).await {
                Either::Left(_) => {}
                Either::Right(Ok(order)) => {
                    if self.obey(order).await.is_err() {
                        return Ended;
                    }
                }
                Either::Right(Err(_)) => has_handles = false,
            }
        }
    }

    /// When it looks at what is due: often while something is unconfirmed, which costs a look at each entity.
    fn wakes_at(&mut self) -> Option<Instant> {
        if self.pairs.is_empty() {
            self.tick_at = None;
            return None;
        }
        let tick = if self.open.is_empty() { IDLE_TICK } else { TICK };
        let next = self.shared.background.now() + tick;
        let at = self.tick_at.map_or(next, |at| at.min(next));
        self.tick_at = Some(at);
        Some(at)
    }

    async fn obey(&mut self, order: ProducerOrder) -> Result<(), Ended> {
        match order {
            ProducerOrder::Send(offer) => self.parked.push(offer),
            ProducerOrder::Try(offer) if self.is_next(&offer) && self.has_room(&offer) => {
                self.take(offer).await?
            }
            ProducerOrder::Try(offer) => offer.taken.send(Err(SendError::Full)),
            ProducerOrder::Unconfirmed(reply) => reply.send(self.open.len()),
            ProducerOrder::Flush(reply) => {
                let newest = self.open.last_key_value().map_or(0, |(seq, _)| *seq);
                self.flushes.push((newest, reply));
            }
        }
        Ok(())
    }

    fn tell_flushed(&mut self) {
        let oldest = self.open.first_key_value().map_or(u64::MAX, |(seq, _)| *seq);
        for (newest, reply) in std::mem::take(&mut self.flushes) {
            if newest < oldest && self.unnoted == 0 {
                reply.send(());
            } else {
                self.flushes.push((newest, reply));
            }
        }
    }

    /// Whether nobody waits before it to send to the same entity.
    fn is_next(&self, offer: &Offer) -> bool {
        !self.parked.waits_for(&offer.entity)
    }

    fn has_room(&self, offer: &Offer) -> bool {
        self.entity_has_room(&offer.entity) && self.all_have_room(offer.bytes())
    }

    fn entity_has_room(&self, entity: &EntityId) -> bool {
        let pair = self.pairs.get(entity);
        pair.is_none_or(|pair| pair.unconfirmed < PER_ENTITY_MAX)
    }

    /// Whether there is room for so many bytes more, all entities together.
    fn all_have_room(&self, bytes: usize) -> bool {
        let fits = self.bytes.saturating_add(bytes) <= self.bytes_max;
        (fits || self.open.is_empty())
            && self.open.len() < UNCONFIRMED_MAX
            && self.rules.waiting() < self.waiting_max
    }

    /// Takes what there is room for, in order. Whoever waits for one entity does not hold up those for
    /// others, but comes before all later ones for its own; what waits for the room of all holds up all, or
    /// the largest would wait for ever. Looks at what goes, and at each entity without room once until it has
    /// some.
    async fn take_parked(&mut self) -> Result<(), Ended> {
        while let Some(first) = self.parked.first() {
            if !self.entity_has_room(&first.entity) {
                self.parked.hold_first();
            } else if !self.all_have_room(first.bytes()) {
                return Ok(());
            } else if let Some(offer) = self.parked.take_first() {
                self.take(offer).await?;
            }
        }
        Ok(())
    }

    async fn take(&mut self, offer: Offer) -> Result<(), Ended> {
        let (now, bytes) = (self.shared.background.now(), offer.bytes());
        let Offer {
            entity,
            payload,
            taken,
            confirmed,
        } = offer;
        let mut outputs = Vec::new();
        match self.rules.on_message(now, entity.clone(), payload, &mut outputs) {
            Err(_) => {
                taken.send(Err(SendError::Full));
                Ok(())
            }
            Ok(seq) => {
                let taken = if self.is_durable {
                    Some(taken)
                } else {
                    taken.send(Ok(()));
                    None
                };
                self.note(seq, entity, bytes, taken, Some(confirmed));
                self.carry_out(outputs).await
            }
        }
    }

    async fn on_time(&mut self) -> Result<(), Ended> {
        let now = self.shared.background.now();
        if self.tick_at.is_none_or(|at| at > now) {
            return Ok(());
        }
        self.tick_at = None;
        if self.rules.timer_at().is_some_and(|at| at <= now) {
            let mut outputs = Vec::new();
            self.rules.on_timer(now, &mut outputs);
            self.carry_out(outputs).await?;
            let rules = &self.rules;
            self.pairs
                .retain(|entity, pair| pair.unconfirmed > 0 || rules.knows(entity));
        }
        let due = |pair: &Pair| pair.again_at.is_some_and(|at| at <= now);
        let due: Vec<EntityId> = self
            .pairs
            .iter()
            .filter(|(_, pair)| due(pair))
            .map(|(entity, _)| entity.clone())
            .collect();
        for entity in due {
            self.open_line(&entity);
        }
        Ok(())
    }

    async fn hear(&mut self, said: TaskReport) -> Result<(), Ended> {
        let now = self.shared.background.now();
        let mut outputs = Vec::new();
        match said {
            TaskReport::StoreFailed => {
                for open in self.open.values_mut() {
                    if let Some(taken) = open.taken.take() {
                        taken.send(Err(SendError::Store));
                    }
                }
                for offer in self.parked.drain() {
                    offer.taken.send(Err(SendError::Store));
                }
                return Err(Ended);
            }
            TaskReport::Stored(seq) => {
                if let Some(taken) = self.open.get_mut(&seq).and_then(|open| open.taken.take()) {
                    taken.send(Ok(()));
                }
                self.rules.on_stored(now, seq, &mut outputs);
            }
            TaskReport::Noted(count) => self.unnoted = self.unnoted.saturating_sub(count),
            TaskReport::Line(entity, line, said) => return self.on_line(now, &entity, line, said).await,
        }
        self.carry_out(outputs).await
    }

    pub(super) async fn carry_out(&mut self, outputs: Vec<Output>) -> Result<(), Ended> {
        for output in outputs {
            match output {
                ToEntitiesOutput::Send { entity, message } => self.send(entity, message).await?,
                ToEntitiesOutput::Confirmed { seq } => self.on_confirmed(seq),
                ToEntitiesOutput::Store { seq, entity, payload } => self.store(Entry::Sent {
                    seq,
                    entity: entity.as_bytes().to_vec(),
                    payload: Bytes(payload),
                }),
                ToEntitiesOutput::StoreConfirmed { seq } => self.store(Entry::Confirmed { seq }),
            }
        }
        Ok(())
    }

    /// There is room for what may be unconfirmed; a confirmation that finds none is left out, and its message
    /// sent once more after a restart.
    fn store(&mut self, entry: Entry) {
        let is_confirmation = matches!(entry, Entry::Confirmed { .. });
        if let Some(entries) = &self.entries
            && entries.try_send(entry).is_ok()
        {
            self.unnoted += usize::from(is_confirmation);
        }
    }

    async fn send(
        &mut self,
        entity: EntityId,
        message: SequencedMessage<((), EntityId)>,
    ) -> Result<(), Ended> {
        let Some(pair) = self.pairs.get_mut(&entity) else {
            return Ok(());
        };
        let is_again = message.seq <= pair.sent;
        pair.sent = pair.sent.max(message.seq);
        self.shared.deliveries.sent(is_again);
        let inside = DeliveryBody::Message {
            from: self.from.clone(),
            seq: message.seq,
            first: message.first,
            begins: message.part.first,
            ends: message.part.last,
            payload: Bytes(message.payload),
        };
        let line = pair.lines.open();
        let asked = self.ask(&entity, inside);
        self.submit(entity, line, asked).await
    }

    async fn tell(&self, entity: EntityId, inside: DeliveryBody) -> Result<(), Ended> {
        let Some(payload) = codec::encode(&DeliveryMessage::<()>::new(inside)) else {
            return Ok(());
        };
        let to = Recipient::Entity(self.kind, entity);
        let told = self.shared.user(UserCommand::Tell { to, payload }).await;
        told.map_err(|_| Ended)
    }

    fn on_confirmed(&mut self, seq: u64) {
        let Some(open) = self.open.remove(&seq) else {
            return;
        };
        self.bytes = self.bytes.saturating_sub(open.bytes);
        if let Some(pair) = self.pairs.get_mut(&open.entity) {
            pair.unconfirmed = pair.unconfirmed.saturating_sub(1);
            self.parked.has_room(&open.entity);
        }
        self.shared.deliveries.confirmed();
        if let Some(confirmed) = open.confirmed {
            confirmed.send(());
        }
    }
}
