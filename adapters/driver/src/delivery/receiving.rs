//! The consumer's side as an entity: the rules of the core for each producer, deliveries to the user one at a
//! time, and answers to the producers' lines. Spec: sharding 1.14.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use quorate_core::delivery::{self as rules, ConsumerOutput, ConsumerSettings, SequencedMessage};
use quorate_core::ordered::OrderedMap;
use quorate_core::sharding::ids::Payload;
use quorate_core::time::Instant;

use super::consumer::{Confirm, Consumer, Delivery, Desk, Outcome};
use super::message::{DeliveryBody, DeliveryMessage, Origin, Receipt};
use crate::codec;
use crate::entity::{Entity, EntityContext, ReplyTo};

/// Producers that one entity hears at a time. What it keeps of the one that it has heard of least recently is
/// forgotten for the next: that one is asked to begin again with what is unconfirmed.
const PRODUCERS_MAX: usize = 1_024;

/// The timers.
const LOOK: &str = "quorate-delivery-look";
const DUE: &str = "quorate-delivery-due";

/// What is known of one producer.
struct KnownProducer {
    rules: rules::ConsumerController<()>,
    /// Whether a message of it was taken: if not, it does not know that it speaks to a new incarnation.
    has_begun: bool,
    /// The asks by which it hears, oldest first: one for each message that is on its way or with its user.
    lines: VecDeque<ReplyTo<Receipt>>,
    /// What it has to hear.
    said: Receipt,
    /// What its user has, or had and did not confirm.
    out: Option<(u64, Payload)>,
    /// When that is handed out again.
    again_at: Option<Instant>,
    used: u64,
}

impl KnownProducer {
    /// Answers a line for which somebody waits, if there is one and something to say.
    fn say(&mut self) {
        while !self.said.is_empty()
            && let Some(line) = self.lines.pop_front()
        {
            if !line.time_left().is_zero() {
                line.send(&std::mem::take(&mut self.said));
            }
        }
    }

    /// One more way to be heard. Repetitions and gaps bring more of them than anything will be said by.
    fn listen(&mut self, line: Option<ReplyTo<Receipt>>, lines_max: usize) {
        self.lines.extend(line);
        while self.lines.len() > lines_max
            && let Some(line) = self.lines.pop_front()
        {
            line.send(&std::mem::take(&mut self.said));
        }
    }

    /// Whether somebody waits for what it says.
    fn is_heard(&self) -> bool {
        self.lines.iter().any(|line| !line.time_left().is_zero())
    }

    /// Whether its producer is to be told the same again if nothing comes: it waits for an answer, and
    /// nothing else is held up by the user.
    fn repeats(&self) -> bool {
        self.out.is_none() && !self.lines.is_empty()
    }

    /// When something is due.
    fn due_at(&self) -> Option<Instant> {
        let retry = self.rules.retry_at().filter(|_| self.repeats());
        match (retry, self.again_at) {
            (Some(retry), Some(again)) => Some(retry.min(again)),
            (retry, again) => retry.or(again),
        }
    }
}

/// See the module.
pub(crate) struct Receiving<C> {
    consumer: C,
    settings: ConsumerSettings,
    sources: OrderedMap<Arc<Origin>, KnownProducer>,
    /// What is to be handed out, in this order.
    ready: VecDeque<Arc<Origin>>,
    desk: Arc<Desk>,
    uses: u64,
}

impl<C: Consumer> Receiving<C> {
    pub(crate) fn new(consumer: C, settings: ConsumerSettings, context: EntityContext) -> Self {
        Self {
            consumer,
            settings,
            sources: OrderedMap::new(),
            ready: VecDeque::new(),
            desk: Arc::new(Desk::new(move || look::<C>(&context, LOOK, Duration::ZERO))),
            uses: 0,
        }
    }

    fn source(&mut self, from: Origin) -> Option<(Arc<Origin>, &mut KnownProducer)> {
        let from = Arc::new(from);
        self.uses += 1;
        if !self.sources.contains_key(&from) {
            if from.is_alone {
                self.sources
                    .retain(|known, _| !known.is_alone || known.name != from.name);
            }
            while self.sources.len() >= PRODUCERS_MAX {
                let oldest = self.sources.iter().min_by_key(|(_, source)| source.used);
                let oldest = oldest.map(|(from, _)| Arc::clone(from))?;
                self.sources.remove(&oldest);
            }
            let source = KnownProducer {
                rules: rules::ConsumerController::new(self.settings.clone()).ok()?,
                has_begun: false,
                lines: VecDeque::new(),
                said: Receipt::default(),
                out: None,
                again_at: None,
                used: 0,
            };
            self.sources.insert(Arc::clone(&from), source);
        }
        let source = self.sources.get_mut(&from)?;
        source.used = self.uses;
        Some((from, source))
    }

    fn on_message(&mut self, context: &EntityContext, from: Origin, message: SequencedMessage<()>) {
        let (now, lines_max) = (context.now(), self.lines_max());
        let line = context.reply_later::<Self>().ok();
        let Some((from, source)) = self.source(from) else {
            return;
        };
        source.listen(line, lines_max);
        source.has_begun |= message.first;
        let mut outputs = Vec::new();
        source.rules.on_message(now, message, &mut outputs);
        self.carry_out(context, &from, outputs);
    }

    /// Lines of one producer: for a window, and some that were opened for what was lost.
    fn lines_max(&self) -> usize {
        usize::try_from(self.settings.window).map_or(usize::MAX, |window| window.saturating_mul(2))
    }

    fn on_line(&mut self, context: &EntityContext, from: Origin) {
        let line = context.reply_later::<Self>().ok();
        let lines_max = self.lines_max();
        if let Some((_, source)) = self.source(from) {
            source.listen(line, lines_max);
            if !source.has_begun {
                source.said.resend = Some(0);
            }
            source.say();
        }
    }

    fn carry_out(&mut self, context: &EntityContext, from: &Arc<Origin>, outputs: Vec<ConsumerOutput<()>>) {
        let Some(source) = self.sources.get_mut(from) else {
            return;
        };
        for output in outputs {
            match source.said.add(output) {
                Some(ConsumerOutput::Deliver { seq, payload, .. }) => {
                    source.out = Some((seq, payload));
                    self.ready.push_back(Arc::clone(from));
                }
                Some(ConsumerOutput::Dropped { seq, .. }) => {
                    tracing::warn!(
                        target: "cluster::delivery", event = "delivery_dropped", entity = ?context,
                        producer = from.name, seq, "a message is too large, or lost parts are not sent again"
                    );
                    context.shared().deliveries.dropped();
                }
                Some(
                    ConsumerOutput::Request { .. }
                    | ConsumerOutput::Resend { .. }
                    | ConsumerOutput::Ack { .. },
                )
                | None => {}
            }
        }
        source.say();
    }

    /// What users have said of deliveries.
    fn settle(&mut self, context: &EntityContext) {
        for Outcome {
            from,
            seq,
            is_confirmed,
        } in self.desk.take()
        {
            let now = context.now();
            let Some(source) = self.sources.get_mut(&from) else {
                continue;
            };
            if source.out.as_ref().is_none_or(|(out, _)| *out != seq) {
                continue;
            }
            if !is_confirmed {
                source.again_at = Some(now + self.settings.resend_min);
                continue;
            }
            source.out = None;
            let mut outputs = Vec::new();
            source.rules.on_confirmed(now, seq, &mut outputs);
            // At once, so that whoever waits for it knows.
            outputs.push(ConsumerOutput::Ack {
                to: (),
                confirmed: seq,
            });
            self.carry_out(context, &from, outputs);
        }
    }

    /// What is due: requests that nothing has followed, and deliveries that were dropped.
    fn on_due(&mut self, context: &EntityContext) {
        let now = context.now();
        let sources: Vec<Arc<Origin>> = self.sources.keys().cloned().collect();
        for from in sources {
            let Some(source) = self.sources.get_mut(&from) else {
                continue;
            };
            if source.again_at.is_some_and(|at| at <= now) {
                source.again_at = None;
                self.ready.push_back(Arc::clone(&from));
            }
            let mut outputs = Vec::new();
            source.lines.retain(|line| !line.time_left().is_zero());
            if source.repeats() {
                source.rules.on_retry(now, &mut outputs);
            }
            self.carry_out(context, &from, outputs);
        }
    }

    /// Which message is handed out next: one whose confirmation will be heard at once, so that the entity can
    /// end at any moment after it without its being delivered again.
    fn next_ready(&self) -> Option<usize> {
        let is_heard = |from| self.sources.get(from).is_none_or(KnownProducer::is_heard);
        self.ready.iter().position(is_heard)
    }

    /// Hands out one message; the entity takes its other messages in between.
    async fn hand_out(&mut self, context: &EntityContext) {
        let next = self.next_ready();
        let Some(from) = next.and_then(|at| self.ready.remove(at)) else {
            return;
        };
        let source = self.sources.get(&from);
        let Some((seq, payload)) = source.and_then(|source| source.out.as_ref()) else {
            return;
        };
        let (seq, message) = (*seq, codec::decode::<C::Message>(payload));
        let confirm = Confirm::new(Arc::clone(&from), seq, Arc::clone(&self.desk));
        let handling = self.desk.handling();
        if let Some(message) = message {
            let delivery = Delivery::new(message, confirm);
            self.consumer.handle(context, delivery).await;
        } else {
            drop(confirm);
            context.shared().deliveries.undecodable();
            tracing::warn!(
                target: "cluster::delivery", event = "delivery_undecodable", entity = ?context, producer = from.name, seq,
                "this node cannot decode a message; it waits for a node that can"
            );
        }
        self.settle(context);
        drop(handling);
    }

    fn arm(&self, context: &EntityContext) {
        if self.next_ready().is_some() {
            look::<C>(context, LOOK, Duration::ZERO);
        }
        match self.sources.values().filter_map(KnownProducer::due_at).min() {
            Some(at) => look::<C>(context, DUE, at.since(context.now())),
            None => {
                context.cancel_timer(DUE);
            }
        }
    }
}

/// Has the entity look after a time. From any thread.
fn look<C: Consumer>(context: &EntityContext, timer: &'static str, after: Duration) {
    let started = context.start_timer::<Receiving<C>>(timer, after, DeliveryMessage::new(DeliveryBody::Look));
    debug_assert!(started.is_ok(), "an entity of such a kind has two timers");
}

impl<C: Consumer> Entity for Receiving<C> {
    type Message = DeliveryMessage<C::Message>;
    type Reply = Receipt;

    async fn on_start(&mut self, context: &EntityContext) {
        self.consumer.on_start(context).await;
    }

    async fn handle(&mut self, context: &EntityContext, message: DeliveryMessage<C::Message>) -> Receipt {
        match message.inside {
            DeliveryBody::Message {
                from,
                seq,
                first,
                begins,
                ends,
                payload,
            } => {
                let message = SequencedMessage {
                    producer: (),
                    seq,
                    first,
                    part: DeliveryBody::part(begins, ends),
                    payload: payload.0,
                };
                self.on_message(context, from, message);
            }
            DeliveryBody::Line { from } => self.on_line(context, from),
            DeliveryBody::Bye { from } => {
                self.sources.remove(&from);
            }
            DeliveryBody::Look => {
                self.settle(context);
                self.on_due(context);
            }
        }
        self.hand_out(context).await;
        self.arm(context);
        // The answer to whatever was asked has been put off.
        Receipt::default()
    }

    async fn on_stop(&mut self, context: &EntityContext) {
        self.settle(context);
        self.consumer.on_stop(context).await;
        self.settle(context);
        for source in self.sources.values_mut() {
            let mut outputs = Vec::new();
            source.rules.on_stop(&mut outputs);
            for output in outputs {
                source.said.add(output);
            }
            source.say();
        }
    }
}
