//! A producer, its consumer and two daemons in the profile `durable`: the producer lives in some process, its
//! consumer is an entity, each message is an ask whose answer is what the consumer wants, and so are the
//! daemons that somebody sees to. I-58: nothing is handed out before everything that came before it was,
//! twice by no incarnation of the consumer, and what is confirmed was handed out. I-59: a daemon begins only
//! if it is of the scale that counts, and each of those answers at rest. Spec: sharding 1.8, 1.14;
//! reliability I-58, I-59.

use core::time::Duration;
use std::collections::BTreeMap;

use quorate_core::daemons::{DaemonId, DaemonScale};
use quorate_core::delivery::{
    ConsumerController, ConsumerOutput, ConsumerRequest, ConsumerSettings, MessagePart, ProducerController,
    ProducerOutput, ProducerSettings, SequencedMessage,
};
use quorate_core::input::HostReport;
use quorate_core::sharding::ids::{EntityId, Payload, Slot};

use super::super::chance::Chance;
use super::super::engine::Sim;
use super::super::entities::Letter;
use super::super::history::ProcessId;
use super::super::plan::SECOND;
use super::super::watches::End;
use super::Turn;

/// The entity that consumes.
const CONSUMER: &str = "consumer";
/// The daemons that there are.
const DAEMONS: DaemonScale = DaemonScale::first(2);
/// With so many of a thousand messages the producer is given one, and somebody sees to a daemon or to one
/// that is none any more.
const JOBS_PER_MILLE: u64 = 300;
const DAEMONS_PER_MILLE: u64 = 60;
/// The producer hears of an ask that failed after this.
const AGAIN_AFTER: u64 = SECOND / 5;
/// The producer looks at its timer as often at rest.
const LOOK: u64 = SECOND / 10;
/// Everything is confirmed within this time at rest: an ask, and repetitions of the first message.
const REST_MAX: u64 = 30 * SECOND;

/// What an answer asks for.
const WANTS: u64 = 1;
const AGAIN: u64 = 2;

/// What became of an ask of the producer's.
#[derive(Debug)]
pub(super) struct Delivered {
    id: u64,
    /// What the consumer wants; nothing if it is not known.
    wanted: Option<Vec<u64>>,
}

/// One incarnation of the consumer, for one producer.
#[derive(Debug)]
struct Consuming {
    consumer: ConsumerController<u64>,
    /// The last number that it has handed out.
    last: Option<u64>,
    /// What it wanted last.
    wants: Option<(u64, u64, bool)>,
}

/// The producer that there is, and where.
#[derive(Debug)]
struct Producing {
    process: ProcessId,
    id: u64,
    producer: ProducerController<u64>,
    /// The number that it has given last.
    given: u64,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Deliveries {
    pub(super) chance: Chance,
    consumers: BTreeMap<(ProcessId, Slot), BTreeMap<u64, Consuming>>,
    producing: Option<Producing>,
    producers: u64,
    /// Whose messages are on their way.
    asks: BTreeMap<usize, u64>,
    /// The last number that was ever handed out, of each producer.
    handed_out: BTreeMap<u64, u64>,
    pub(super) given: u64,
    pub(super) delivered: u64,
    pub(super) repeated: u64,
    pub(super) daemons_begun: u64,
    pub(super) daemons_refused: u64,
}

impl Deliveries {
    pub(super) fn new(chance: Chance) -> Self {
        Self {
            chance,
            consumers: BTreeMap::new(),
            producing: None,
            producers: 0,
            asks: BTreeMap::new(),
            handed_out: BTreeMap::new(),
            given: 0,
            delivered: 0,
            repeated: 0,
            daemons_begun: 0,
            daemons_refused: 0,
        }
    }

    pub(super) fn ended(&mut self, process: ProcessId, slot: Slot) {
        self.consumers.remove(&(process, slot));
    }

    pub(super) fn died(&mut self, process: ProcessId) {
        self.consumers.retain(|(host, _), _| *host != process);
        self.producing.take_if(|producing| producing.process == process);
    }

    fn consuming(&mut self, at: (ProcessId, Slot), producer: u64) -> Option<&mut Consuming> {
        self.consumers.get_mut(&at)?.get_mut(&producer)
    }

    /// I-58: the consumer hands a message out.
    fn hands_out(&mut self, at: (ProcessId, Slot), producer: u64, seq: u64) -> Result<(), String> {
        let last = self.handed_out.entry(producer).or_default();
        if seq > *last + 1 {
            return Err(format!(
                "message {seq} of {producer} is handed out, and the last one was {last}"
            ));
        }
        self.delivered += 1;
        self.repeated += u64::from(seq <= *last);
        *last = seq.max(*last);
        let consuming = self.consuming(at, producer);
        match consuming.and_then(|consuming| consuming.last.replace(seq)) {
            Some(before) if seq != before + 1 => Err(format!(
                "message {seq} of {producer} is handed out behind {before} of the same consumer"
            )),
            Some(_) | None => Ok(()),
        }
    }
}

/// What a daemon's or the consumer's name is, beside accounts.
pub(super) fn is_account(entity: &EntityId) -> bool {
    entity.as_bytes() != CONSUMER.as_bytes() && DaemonId::of(entity).is_none()
}

fn numbers(bytes: &[u8]) -> Vec<u64> {
    let (chunks, _) = bytes.as_chunks::<8>();
    chunks.iter().map(|chunk| u64::from_le_bytes(*chunk)).collect()
}

fn bytes(numbers: &[u64]) -> Payload {
    let all: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    all.into()
}

impl Sim {
    /// The consumer or a daemon starts.
    pub(super) fn starts_other(&mut self, at: (ProcessId, Slot), entity: &EntityId) {
        let deliveries = &mut self.durables.deliveries;
        if let Some(daemon) = DaemonId::of(entity) {
            if daemon.may_begin([DAEMONS]) {
                deliveries.daemons_begun += 1;
                if !DAEMONS.daemons().any(|wanted| wanted == daemon) {
                    self.violated("I-59", at.0, format!("{daemon:?} begins, of {DAEMONS:?}"));
                }
            } else {
                deliveries.daemons_refused += 1;
                self.happens_to(at, self.now + 1, Turn::MayNotBegin);
            }
            return;
        }
        deliveries.consumers.insert(at, BTreeMap::new());
    }

    /// A daemon that is none any more ends at once.
    pub(super) fn may_not_begin(&mut self, (process, slot): (ProcessId, Slot)) {
        let was_told = self.processes[process as usize].entities.is_stopping(slot);
        self.crash_entity(process, slot, (!was_told).then_some(End::Stopped));
    }

    /// The consumer or a daemon handles a message.
    pub(super) fn handle_other(&mut self, at: (ProcessId, Slot), letter: &Letter, message: usize) {
        let daemon = DaemonId::of(&self.history.messages[message].entity);
        if let Some(daemon) = daemon.filter(|daemon| !daemon.may_begin([DAEMONS])) {
            return self.violated("I-59", at.0, format!("{daemon:?} runs, of {DAEMONS:?}"));
        }
        let wanted = match numbers(&letter.payload)[..] {
            [_, producer, seq, first, ref given @ ..]
                if self.durables.deliveries.consumers.contains_key(&at) =>
            {
                let message = SequencedMessage {
                    producer,
                    seq,
                    first: first == 1,
                    part: MessagePart::WHOLE,
                    payload: bytes(given),
                };
                self.consume(at, message)
            }
            _ => Ok(Vec::new()),
        };
        let wanted = match wanted {
            Ok(wanted) => wanted,
            Err(what) => return self.violated("I-58", at.0, what),
        };
        if let Some(ask) = letter.reply_to.clone() {
            let result = Ok(bytes(&[&[message as u64][..], &wanted].concat()));
            self.report_now(at.0, HostReport::Answered { ask, result });
        }
        self.may_passivate(at);
    }

    /// What the consumer makes of a message, and what it wants then.
    fn consume(&mut self, at: (ProcessId, Slot), message: SequencedMessage<u64>) -> Result<Vec<u64>, String> {
        let now = self.processes[at.0 as usize].now(self.now).mono;
        let (deliveries, producer) = (&mut self.durables.deliveries, message.producer);
        let settings = ConsumerSettings {
            window: 8,
            resend_max: Duration::from_secs(4),
            ..ConsumerSettings::default()
        };
        let consumer = ConsumerController::new(settings).map_err(|error| error.to_string())?;
        let all = deliveries.consumers.entry(at).or_default();
        let consuming = all.entry(producer).or_insert(Consuming {
            consumer,
            last: None,
            wants: None,
        });
        let (mut out, mut again) = (Vec::new(), None);
        if message.seq == 0 {
            consuming.wants = consuming
                .wants
                .map(|(confirmed, up_to, _)| (confirmed, up_to, false));
            consuming.consumer.on_retry(now, &mut out);
        } else {
            consuming.consumer.on_message(now, message, &mut out);
        }
        while !out.is_empty() {
            for output in core::mem::take(&mut out) {
                match output {
                    ConsumerOutput::Deliver { seq, payload, .. } => {
                        if numbers(&payload) != [producer, seq] {
                            return Err(format!("message {seq} of {producer} is {payload:?}"));
                        }
                        deliveries.hands_out(at, producer, seq)?;
                        if let Some(consuming) = deliveries.consuming(at, producer) {
                            consuming.consumer.on_confirmed(now, seq, &mut out);
                        }
                    }
                    ConsumerOutput::Request {
                        confirmed,
                        up_to,
                        via_timeout,
                        ..
                    } => {
                        if let Some(consuming) = deliveries.consuming(at, producer) {
                            consuming.wants = Some((confirmed, up_to, via_timeout));
                        }
                    }
                    ConsumerOutput::Resend { from, .. } => again = Some(from),
                    ConsumerOutput::Ack { .. } => {}
                    ConsumerOutput::Dropped { seq, .. } => {
                        return Err(format!("message {seq} of {producer} is left out"));
                    }
                }
            }
        }
        let wants = deliveries
            .consuming(at, producer)
            .and_then(|consuming| consuming.wants);
        Ok(match (again, wants) {
            (Some(from), _) => vec![AGAIN, from],
            (None, Some((confirmed, up_to, via_timeout))) => {
                vec![WANTS, confirmed, up_to, u64::from(via_timeout)]
            }
            // It has heard of nothing yet.
            (None, None) => vec![AGAIN, 0],
        })
    }

    /// An ask ends: the producer hears of it, behind what its node does now; of one that failed a moment
    /// later.
    pub(crate) fn on_delivery_answer(&mut self, message: usize, answer: Option<&[u8]>) {
        let Some(id) = self.durables.deliveries.asks.remove(&message) else {
            return;
        };
        let process = self.history.messages[message].sender;
        let wanted = answer.map(numbers);
        let after = if wanted.is_some() { 1 } else { AGAIN_AFTER };
        let delivered = Delivered { id, wanted };
        let slot = Slot {
            index: 0,
            generation: 0,
        };
        self.happens_to((process, slot), self.now + after, Turn::Delivered(delivered));
    }

    /// The producer goes on with what the consumer wants, or sends the same again.
    pub(super) fn hears_of_delivery(&mut self, delivered: Delivered) {
        let Delivered { id, wanted } = delivered;
        self.produce(id, |producer, now, out| match wanted.as_deref() {
            Some([_, WANTS, confirmed, up_to, via_timeout]) => {
                let wanted = ConsumerRequest {
                    confirmed: *confirmed,
                    up_to: *up_to,
                    support_resend: true,
                    via_timeout: *via_timeout == 1,
                };
                producer.on_request(now, wanted, out);
            }
            Some([_, AGAIN, from]) => producer.on_resend(now, *from, out),
            // What failed is asked for anew once nothing is on its way.
            Some(_) | None => {}
        });
    }

    /// Has the producer do something, and does what it wants then.
    fn produce(
        &mut self,
        id: u64,
        does: impl FnOnce(
            &mut ProducerController<u64>,
            quorate_core::time::Instant,
            &mut Vec<ProducerOutput<u64>>,
        ),
    ) {
        let Some(mut producing) = self
            .durables
            .deliveries
            .producing
            .take_if(|producing| producing.id == id)
        else {
            return;
        };
        let process = producing.process;
        let now = self.processes[process as usize].now(self.now).mono;
        let mut out = Vec::new();
        does(&mut producing.producer, now, &mut out);
        self.durables.deliveries.producing = Some(producing);
        for output in out {
            match output {
                ProducerOutput::Send(message) => self.sends_job(process, &message),
                ProducerOutput::Confirmed { seq } => {
                    let handed_out = self.durables.deliveries.handed_out.get(&id).copied().unwrap_or(0);
                    if seq > handed_out {
                        let what = format!("{seq} is confirmed to {id}, and {handed_out} was handed out");
                        self.violated("I-58", process, what);
                    }
                }
                // It is given one when somebody has one.
                ProducerOutput::RequestNext { .. }
                | ProducerOutput::Store(_)
                | ProducerOutput::StoreConfirmed { .. }
                | ProducerOutput::StoreFailed => {}
            }
        }
    }

    fn sends_job(&mut self, process: ProcessId, job: &SequencedMessage<u64>) {
        let index = self.processes[process as usize].index;
        if self.running_at(index) != Some(process) {
            return;
        }
        let head = bytes(&[job.producer, job.seq, u64::from(job.first)]);
        let behind = [&head[..], &job.payload].concat();
        if let Some(message) = self.ask_with(index, CONSUMER, &behind) {
            self.durables.deliveries.asks.insert(message, job.producer);
        }
    }

    fn ask_with(&mut self, index: usize, entity: &str, behind: &[u8]) -> Option<usize> {
        self.ask_saying(index, entity, Duration::from_secs(1), behind)
    }

    /// The producer is given something, looks at its timer, begins anew elsewhere if its process has ended;
    /// and somebody sees to daemons.
    pub(crate) fn deliver_at_random(&mut self, nodes: usize) {
        if !self.durables.enabled {
            return;
        }
        let chance = &mut self.durables.deliveries.chance;
        let (is_given, sees) = (
            chance.per_mille(JOBS_PER_MILLE),
            chance.per_mille(DAEMONS_PER_MILLE),
        );
        let (index, which, is_old) = (chance.index(nodes), chance.below(2), chance.per_mille(200));
        if sees {
            let scale = if is_old { DaemonScale::first(3) } else { DAEMONS };
            let daemon = scale.daemons().nth(usize::try_from(which).unwrap_or(0));
            if let Some(daemon) = daemon {
                self.ask_with(index, &daemon.entity().to_string(), &[]);
            }
        }
        self.begin_to_produce(index);
        self.go_on_producing(is_given);
    }

    fn begin_to_produce(&mut self, index: usize) {
        let Some(process) = self.running_at(index) else {
            return;
        };
        let deliveries = &mut self.durables.deliveries;
        if deliveries.producing.is_some() {
            return;
        }
        deliveries.producers += 1;
        let id = deliveries.producers;
        if let Ok(producer) = ProducerController::new(id, ProducerSettings::default()) {
            deliveries.producing = Some(Producing {
                process,
                id,
                producer,
                given: 0,
            });
            self.produce(id, |producer, now, out| producer.on_consumer(now, out));
        }
    }

    fn go_on_producing(&mut self, is_given: bool) {
        let Some(producing) = &self.durables.deliveries.producing else {
            return;
        };
        let host = &self.processes[producing.process as usize];
        if self.now < host.paused_until {
            return;
        }
        let (process, id, next) = (producing.process, producing.id, producing.given + 1);
        let is_waiting = !producing.producer.is_idle();
        let deliveries = &self.durables.deliveries;
        if is_waiting && !deliveries.asks.values().any(|of| *of == id) {
            // Nothing is on its way: it asks what is wanted.
            let question = SequencedMessage {
                producer: id,
                seq: 0,
                first: false,
                part: MessagePart::WHOLE,
                payload: bytes(&[]),
            };
            self.sends_job(process, &question);
        }
        let mut is_taken = false;
        self.produce(id, |producer, now, out| {
            if producer.timer_at().is_some_and(|at| at <= now) {
                producer.on_timer(now, out);
            }
            if is_given && producer.is_asked() {
                is_taken = producer.on_message(now, bytes(&[id, next]), out) == Ok(next);
            }
        });
        let deliveries = &mut self.durables.deliveries;
        if let Some(producing) = deliveries.producing.as_mut().filter(|_| is_taken) {
            producing.given = next;
            deliveries.given += 1;
        }
    }

    /// At rest everything is confirmed, and the daemons answer.
    pub(super) fn rest_of_deliveries(&mut self, index: usize) {
        let limit = self.now + REST_MAX;
        let is_idle = |sim: &Self| {
            let producing = &sim.durables.deliveries.producing;
            producing
                .as_ref()
                .is_none_or(|producing| producing.producer.is_idle())
        };
        let mut unseen: Vec<DaemonId> = DAEMONS.daemons().collect();
        while self.violation.is_none() && (!is_idle(self) || !unseen.is_empty()) {
            if self.now >= limit {
                let (invariant, what) = if is_idle(self) {
                    ("I-59", format!("{unseen:?} do not answer"))
                } else {
                    ("I-58", "the producer's messages are not confirmed".to_owned())
                };
                return self.violated(invariant, 0, what);
            }
            let asks: Vec<_> = unseen
                .iter()
                .map(|daemon| (*daemon, self.ask_with(index, &daemon.entity().to_string(), &[])))
                .collect();
            for _ in 0..15 {
                self.go_on_producing(false);
                self.advance(self.now + LOOK);
            }
            let answers = |ask: Option<usize>| ask.is_some_and(|ask| self.outcome(ask) == Some(Ok(())));
            unseen = asks
                .into_iter()
                .filter(|(_, ask)| !answers(*ask))
                .map(|(daemon, _)| daemon)
                .collect();
        }
    }
}
