//! What the nodes work at beside greeting (step 8): counters that keep what they were told, two daemons, and
//! a producer whose consumer handles each job once. What is decided is in the core's values; here is what a
//! host does with them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::PoisonError;
use std::time::Duration;

use quorate_core::daemons::{self, DaemonId, DaemonScale};
use quorate_core::delivery::{
    ConsumerController, ConsumerOutput, ConsumerRequest as Wanted, ConsumerSettings, MessagePart,
    ProducerController, ProducerOutput, ProducerSettings, SequencedMessage,
};
use quorate_core::durable::{DurableFailure, DurableMachine, DurableStep, LogRetention};
use quorate_core::effect::{Answer, HostOrder, HostedInstance};
use quorate_core::input::{
    Command, HostReport, Input, KindSettings, MessageCommand, Recipient, ShardingCommand, Token,
};
use quorate_core::log::{LogRequest, ReplayedPart, UnreadableLog};
use quorate_core::owner::Requester;
use quorate_core::sharding::chain::AskChain;
use quorate_core::sharding::errors::AskFailure;
use quorate_core::sharding::ids::{AskRef, EntityId, KindId, Payload, Slot};
use quorate_core::store::{Bytes, LogName, Space, StoreAnswer, StoreError, StoreOrder};
use quorate_core::time::Instant;
use quorate_core::token::Token as Fence;

use super::keeping::ProcessKeeper;
use super::{Failure, Host, now};

/// The kinds whose entities are run here.
pub(crate) const COUNTER: &str = "counter";
pub(crate) const DAEMON: &str = "daemon";
pub(crate) const CONSUMER: &str = "consumer";

/// There are two daemons. A host whose number changes keeps it in replicated data, and asks a majority before
/// one begins.
pub(crate) const DAEMONS: DaemonScale = DaemonScale::first(2);

/// Tokens of the producer's asks; its messages' numbers follow.
const JOBS: Token = 1 << 40;
const NOBODY: Token = Token::MAX;

/// How often somebody sees that the daemons run.
const LOOK: Duration = Duration::from_millis(200);

/// One entity.
enum LoopWorker {
    Counter(Box<DurableCounter>),
    Daemon(DaemonId),
    Consumer(Box<ConsumerController<u64>>),
}

/// See the module.
pub(crate) struct Working {
    keeper: ProcessKeeper,
    opener: u64,
    workers: BTreeMap<Slot, LoopWorker>,
    producer: Option<ProducerController<u64>>,
    look_at: Option<Instant>,
    /// What the producer still has to send.
    pub(crate) jobs: VecDeque<String>,
    /// What the consumer that lives here has handled.
    pub(crate) handled: Vec<String>,
}

impl Working {
    pub(crate) fn new(keeper: &ProcessKeeper, opener: u64) -> Self {
        Self {
            keeper: keeper.clone(),
            opener,
            workers: BTreeMap::new(),
            producer: None,
            look_at: None,
            jobs: VecDeque::new(),
            handled: Vec::new(),
        }
    }

    /// Does what is ordered of an entity of these kinds; gives back what concerns another one.
    pub(crate) fn order(&mut self, order: HostOrder, now: Instant) -> Result<Vec<Input<'static>>, HostOrder> {
        let mut reports = Vec::new();
        match order {
            #[rustfmt::skip]
            HostOrder::Start { slot, instance: HostedInstance::Entity { kind, ref entity, token, .. } } => {
                let worker = if kind == KindId::of(COUNTER) {
                    LoopWorker::Counter(Box::new(DurableCounter::new(entity, token.stored(), self.opener)))
                } else if kind == KindId::of(CONSUMER) {
                    let consumer = ConsumerController::new(ConsumerSettings::default());
                    LoopWorker::Consumer(Box::new(consumer.map_err(|_| order.clone())?))
                } else if kind == KindId::of(DAEMON) {
                    match DaemonId::of(entity).filter(|id| id.may_begin([DAEMONS])) {
                        Some(id) => LoopWorker::Daemon(id),
                        None => return Ok(vec![of_an_entity(HostReport::Stopped { slot })]),
                    }
                } else {
                    return Err(order);
                };
                self.workers.insert(slot, worker);
                if let Some(LoopWorker::Counter(counter)) = self.workers.get_mut(&slot) {
                    let step = counter.entity.begin();
                    counter.go_on(step, &self.keeper, now, &mut reports);
                }
            }
            HostOrder::Start { .. } => return Err(order),
            #[rustfmt::skip]
            HostOrder::Deliver { slot, ref payload, ref reply_to, .. } => match self.workers.get_mut(&slot) {
                None => return Err(order),
                Some(LoopWorker::Daemon(_)) => {}
                Some(LoopWorker::Consumer(consumer)) => {
                    let result = Ok(handle(consumer, payload, now, &mut self.handled));
                    let answered = |ask: &AskRef| HostReport::Answered { ask: ask.clone(), result };
                    reports.extend(reply_to.as_ref().map(answered));
                }
                Some(LoopWorker::Counter(counter)) => {
                    counter.waiting.push_back((payload.clone(), reply_to.clone()));
                    if let Some(step) = counter.begin_next(&mut reports) {
                        counter.go_on(step, &self.keeper, now, &mut reports);
                    }
                }
            },
            HostOrder::Stop { slot } | HostOrder::StopWithState { slot } | HostOrder::Kill { slot } => {
                let worker = self.workers.remove(&slot).ok_or(order)?;
                if let LoopWorker::Counter(mut counter) = worker {
                    counter.turn_away(&mut reports);
                }
                reports.push(HostReport::Stopped { slot });
            }
        }
        Ok(reports.into_iter().map(of_an_entity).collect())
    }

    /// What is due by now.
    pub(crate) fn on_time(&mut self, now: Instant) -> Vec<Input<'static>> {
        let mut reports = Vec::new();
        for worker in self.workers.values_mut() {
            if let LoopWorker::Counter(counter) = worker
                && counter.wait_until.take_if(|until| *until <= now).is_some()
            {
                let step = counter.entity.on_waited();
                counter.go_on(step, &self.keeper, now, &mut reports);
            }
        }
        let mut inputs: Vec<_> = reports.into_iter().map(of_an_entity).collect();
        if self.look_at.is_some_and(|at| at <= now) {
            self.look_at = Some(now + LOOK);
            inputs.extend(DAEMONS.daemons().map(|daemon| {
                let (kind, entity) = (KindId::of(DAEMON), daemon.entity());
                let payload = Payload::from(*b"see that you run");
                let to = Recipient::Entity(kind, entity);
                let command = Command::Message(MessageCommand::Tell { to, payload });
                Input::Command {
                    token: NOBODY,
                    command,
                }
            }));
        }
        if !self.jobs.is_empty() && self.producer.is_none() {
            self.producer = ProducerController::new(1, ProducerSettings::default()).ok();
            inputs.extend(self.produce(now, |producer, out| producer.on_consumer(now, out)));
        }
        if self
            .producer
            .as_ref()
            .and_then(ProducerController::timer_at)
            .is_some_and(|at| at <= now)
        {
            inputs.extend(self.produce(now, |producer, out| producer.on_timer(now, out)));
        }
        inputs
    }

    /// The consumer's answer, which is its next request.
    fn on_answer(&mut self, answer: Answer, now: Instant) -> Vec<Input<'static>> {
        let Answer::Asked(Ok(wanted)) = answer else {
            return Vec::new(); // it is sent again, or nobody wants to know
        };
        let Some((confirmed, up_to)) = two_numbers(&wanted) else {
            return Vec::new();
        };
        #[rustfmt::skip]
        let wanted = Wanted { confirmed, up_to, support_resend: true, via_timeout: false };
        self.produce(now, |producer, out| producer.on_request(now, wanted, out))
    }

    /// Has the producer do something, and does what it wants then: each message is an ask of its consumer,
    /// whose answer is the next request.
    fn produce(
        &mut self,
        now: Instant,
        does: impl FnOnce(&mut ProducerController<u64>, &mut Vec<ProducerOutput<u64>>),
    ) -> Vec<Input<'static>> {
        let Some(producer) = &mut self.producer else {
            return Vec::new();
        };
        let (mut out, mut inputs) = (Vec::new(), Vec::new());
        does(producer, &mut out);
        while !out.is_empty() {
            for output in std::mem::take(&mut out) {
                match output {
                    ProducerOutput::Send(message) => inputs.push(ask(&message)),
                    ProducerOutput::RequestNext { .. } => {
                        if let Some(job) = self.jobs.pop_front() {
                            let payload = Payload::from(job.as_bytes());
                            // It has just asked for one.
                            let _ = producer.on_message(now, payload, &mut out);
                        }
                    }
                    // It is not durable, and nobody wants to know.
                    ProducerOutput::Confirmed { .. }
                    | ProducerOutput::Store(_)
                    | ProducerOutput::StoreConfirmed { .. }
                    | ProducerOutput::StoreFailed => {}
                }
            }
        }
        inputs
    }
}

impl Host {
    /// Registers the kinds that are run here, and sees that the daemons run.
    pub(crate) fn begin_work(&mut self) {
        let daemon = KindSettings {
            extractor: daemons::extractor(),
            ..KindSettings::new(DAEMON, DAEMONS.count, true)
        };
        let kinds = [COUNTER, CONSUMER].map(|name| KindSettings::new(name, 12, true));
        for kind in kinds.into_iter().chain([daemon]) {
            let command = Command::Sharding(ShardingCommand::RegisterKind(Box::new(kind)));
            self.inputs.push_back(Input::Command {
                token: NOBODY,
                command,
            });
        }
        self.working.look_at = Some(Instant::ZERO);
    }

    /// What an ask came to.
    pub(super) fn hear(&mut self, token: Token, answer: Answer) {
        if token < JOBS {
            self.answers.insert(token, answer);
        } else {
            let inputs = self.working.on_answer(answer, now(self.origin).mono);
            self.inputs.extend(inputs);
        }
    }
}

/// The daemons that run.
pub(crate) fn daemons_of(hosts: &[Host]) -> Vec<u32> {
    let workers = hosts.iter().flat_map(|host| host.working.workers.values());
    let index = |worker: &LoopWorker| match worker {
        LoopWorker::Daemon(id) => Some(id.index),
        LoopWorker::Counter(_) | LoopWorker::Consumer(_) => None,
    };
    workers.filter_map(index).collect()
}

/// What an entity has to say goes to sharding.
const fn of_an_entity(report: HostReport) -> Input<'static> {
    Input::Host(Requester::Sharding, report)
}

/// A message on its way: its number, whether it is the first, its bytes.
fn ask(message: &SequencedMessage<u64>) -> Input<'static> {
    let head = [&message.seq.to_le_bytes()[..], &[u8::from(message.first)]].concat();
    let ask = MessageCommand::Ask {
        to: Recipient::Entity(KindId::of(CONSUMER), EntityId::from("all")),
        payload: [&head[..], &message.payload].concat().into(),
        timeout: Duration::from_secs(1),
        chain: AskChain::default(),
    };
    let (token, command) = (JOBS + message.seq, Command::Message(ask));
    Input::Command { token, command }
}

/// What the consumer makes of a message, and what it wants then.
fn handle(
    consumer: &mut ConsumerController<u64>,
    bytes: &[u8],
    now: Instant,
    handled: &mut Vec<String>,
) -> Payload {
    let nothing = Payload::from([]);
    let Some((seq, [first, payload @ ..])) = bytes.split_first_chunk::<8>() else {
        return nothing;
    };
    let message = SequencedMessage {
        producer: 1,
        seq: u64::from_le_bytes(*seq),
        first: *first == 1,
        part: MessagePart::WHOLE,
        payload: payload.into(),
    };
    let (mut out, mut answer) = (Vec::new(), nothing);
    consumer.on_message(now, message, &mut out);
    while !out.is_empty() {
        for output in std::mem::take(&mut out) {
            match output {
                ConsumerOutput::Deliver { seq, payload, .. } => {
                    handled.push(String::from_utf8_lossy(&payload).into_owned());
                    consumer.on_confirmed(now, seq, &mut out);
                }
                #[rustfmt::skip]
                ConsumerOutput::Request { confirmed, up_to, .. } => {
                    answer = [confirmed.to_le_bytes(), up_to.to_le_bytes()].concat().into();
                }
                // The producer sends the first again by itself, and the others with the next request.
                ConsumerOutput::Dropped { .. }
                | ConsumerOutput::Resend { .. }
                | ConsumerOutput::Ack { .. } => {}
            }
        }
    }
    answer
}

fn two_numbers(bytes: &[u8]) -> Option<(u64, u64)> {
    let (first, second) = bytes.split_first_chunk::<8>()?;
    Some((
        u64::from_le_bytes(*first),
        u64::from_le_bytes(second.try_into().ok()?),
    ))
}

/// A durable entity: what it is told is a number, which is its event; it answers the sum, once that is kept.
struct DurableCounter {
    entity: DurableMachine,
    log: LogName,
    fence: Option<Fence>,
    opener: u64,
    sum: u64,
    waiting: VecDeque<(Payload, Option<AskRef>)>,
    /// What is being written, and who hears of it.
    writing: Option<(u64, Option<AskRef>)>,
    wait_until: Option<Instant>,
}

impl DurableCounter {
    fn new(id: &EntityId, fence: Option<Fence>, opener: u64) -> Self {
        Self {
            entity: DurableMachine::new(LogRetention::default(), false),
            log: LogName::from(format!("{COUNTER}/{id}")),
            fence,
            opener,
            sum: 0,
            waiting: VecDeque::new(),
            writing: None,
            wait_until: None,
        }
    }

    /// Does what the core says until there is nothing to do, or it has to wait.
    fn go_on(
        &mut self,
        mut step: DurableStep,
        keeper: &ProcessKeeper,
        now: Instant,
        reports: &mut Vec<HostReport>,
    ) {
        loop {
            let next = match step {
                DurableStep::Ask(request) => Some(self.ask(request, keeper)),
                DurableStep::Wait(wait) => {
                    self.wait_until = Some(now + wait.pause);
                    if wait.told.is_some() {
                        self.turn_away(reports);
                    }
                    None
                }
                DurableStep::Durable => {
                    if let Some((added, ask)) = self.writing.take() {
                        self.sum += added;
                        reports.extend(ask.map(|ask| answered(ask, Ok(self.sum))));
                    }
                    match self.entity.is_due() {
                        true => Some(self.retain()),
                        false => self.begin_next(reports),
                    }
                }
                DurableStep::MakeRoom => Some(self.retain()),
                DurableStep::Recovered | DurableStep::Retained => self.begin_next(reports),
                DurableStep::NotDone(_) => {
                    self.fail(reports);
                    self.begin_next(reports)
                }
                // Its successor answers from now on; this one is told to stop by its node.
                DurableStep::Stopped(_) => {
                    self.fail(reports);
                    self.turn_away(reports);
                    None
                }
                DurableStep::Nothing => None,
            };
            let Some(next) = next else { return };
            step = next;
        }
    }

    fn retain(&mut self) -> DurableStep {
        let state = Bytes::from(self.sum.to_le_bytes());
        self.entity.retain(|| Some(state))
    }

    /// Begins with the next of what waits, if it is ready for that.
    fn begin_next(&mut self, reports: &mut Vec<HostReport>) -> Option<DurableStep> {
        while self.entity.is_running() {
            let (payload, ask) = self.waiting.pop_front()?;
            let number = std::str::from_utf8(&payload)
                .ok()
                .and_then(|text| text.parse::<u64>().ok());
            let Some(number) = number else {
                reports.extend(ask.map(|ask| answered(ask, Ok(self.sum))));
                continue;
            };
            self.writing = Some((number, ask));
            return Some(self.entity.write(vec![Bytes::from(number.to_le_bytes())]));
        }
        None
    }

    fn fail(&mut self, reports: &mut Vec<HostReport>) {
        let ask = self.writing.take().and_then(|(_, ask)| ask);
        reports.extend(ask.map(|ask| answered(ask, Err(AskFailure::EntityStopped))));
    }

    /// What waits is not begun with.
    fn turn_away(&mut self, reports: &mut Vec<HostReport>) {
        let asks = self.waiting.drain(..).filter_map(|(_, ask)| ask);
        reports.extend(asks.map(|ask| answered(ask, Err(AskFailure::EntityStoppedUnhandled))));
    }

    /// Asks the store, here one of all hosts that answers at once, and hands in what it says.
    fn ask(&mut self, request: LogRequest, keeper: &ProcessKeeper) -> DurableStep {
        let Some(token) = self.fence else {
            return self.entity.hinder(DurableFailure::Unavailable); // nothing outlives the cluster that is not fenced
        };
        let (log, opener) = (self.log.clone(), self.opener);
        #[rustfmt::skip]
        let order = match request {
            LogRequest::Claim => StoreOrder::Open { log, token, opener },
            LogRequest::ReadSnapshot => StoreOrder::ReadSnapshot { log },
            LogRequest::Read { from } => StoreOrder::ReadLog { log, from, bytes_max: 1 << 16 },
            LogRequest::Append { expected, records, .. } => StoreOrder::Append { log, token, expected, records },
            LogRequest::Keep { covers, state } => StoreOrder::Snapshot { log, token, through: covers, state },
            LogRequest::Forget { through } => StoreOrder::DeleteRange { log, token, through },
            LogRequest::Close => return DurableStep::Nothing,
        };
        let mut logs = keeper.logs.lock().unwrap_or_else(PoisonError::into_inner);
        let Self { entity, sum, .. } = self;
        let mut replay = |found: ReplayedPart<'_>| replay(sum, found);
        match logs.obey(Space(0), &order) {
            Ok(StoreAnswer::Opened(found)) => entity.on_claimed(found, &mut replay),
            Ok(StoreAnswer::Snapshot(snapshot)) => entity.on_snapshot(snapshot.as_ref(), &mut replay),
            Ok(StoreAnswer::Records { records, .. }) => entity.on_records(&records, &mut replay),
            Ok(StoreAnswer::Appended { .. }) => entity.on_appended(),
            Ok(StoreAnswer::Kept | StoreAnswer::Deleted) => entity.on_kept(),
            Ok(
                StoreAnswer::Identity(_)
                | StoreAnswer::Value(_)
                | StoreAnswer::Items { .. }
                | StoreAnswer::Written,
            ) => entity.on_failed(StoreError::Unavailable),
            Err(error) => entity.on_failed(error),
        }
    }
}

fn replay(sum: &mut u64, found: ReplayedPart<'_>) -> Result<(), UnreadableLog> {
    let number = |bytes: &Bytes| {
        Ok(u64::from_le_bytes(
            bytes[..].try_into().map_err(|_| UnreadableLog)?,
        ))
    };
    match found {
        ReplayedPart::Beginning => *sum = 0,
        ReplayedPart::Snapshot(snapshot) => *sum = number(&snapshot.state)?,
        ReplayedPart::Record(record) => *sum += number(&record.bytes)?,
    }
    Ok(())
}

fn answered(ask: AskRef, sum: Result<u64, AskFailure>) -> HostReport {
    let result = sum.map(|sum| sum.to_string().into_bytes().into());
    HostReport::Answered { ask, result }
}

/// Turns all hosts, for twenty seconds at most, until it is so.
pub(crate) fn until(hosts: &mut [Host], what: &str, done: impl Fn(&[Host]) -> bool) -> Result<(), Failure> {
    let started = std::time::Instant::now();
    while !done(hosts) {
        if started.elapsed() > Duration::from_secs(20) {
            return Err(format!("waited for {what}").into());
        }
        let millisecond = Duration::from_millis(1);
        hosts.iter_mut().for_each(|host| host.turn(millisecond));
    }
    Ok(())
}
