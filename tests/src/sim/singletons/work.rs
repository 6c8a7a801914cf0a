//! What users ask of singletons, and what their instances do with it.

use core::time::Duration;

use quorate_core::effect::{HostOrder, HostedInstance as Started};
use quorate_core::input::MessageCommand;
use quorate_core::input::Recipient;
use quorate_core::input::{Command, HostReport, Input, SingletonCommand};
use quorate_core::owner::Requester;
use quorate_core::sharding::chain::AskChain;
use quorate_core::sharding::errors::AskFailure;
use quorate_core::sharding::ids::{EntityId, Slot};
use quorate_core::singleton::state::SingletonId;

use super::instance::{Answered, Instance, Letter, Turn};
use super::ledger::{Answer, Call};
use super::{InstanceHappening, KINDS, Kind, Starting};
use crate::invariants::{Cause, i_44};
use crate::sim::engine::{Happening, Sim};
use crate::sim::history::{InstanceRecord, Life, ProcessId, Whereabouts};
use crate::sim::process::Open;
use crate::sim::trace::Show;

/// Of a thousand messages an instance fails over so many.
const FAILURES_PER_MILLE: u64 = 5;
/// Of a thousand handlers so many hold their thread.
const BLOCKING_PER_MILLE: u64 = 50;
/// Of a thousand calls of the database so many have an outcome that nobody knows.
const UNKNOWN_PER_MILLE: u64 = 15;
/// After that an answer that does not come is not waited for any more.
const NO_ANSWER_AFTER: u64 = 200_000;
/// How soon an instance that must not begin looks again.
const LOOK_AGAIN: u64 = 20_000;

impl Sim {
    /// Asks a singleton from the node at an address, or tells it something (without a timeout); `None` if
    /// nothing runs there.
    pub(crate) fn ask_singleton(
        &mut self,
        index: usize,
        kind: &Kind,
        timeout: Option<Duration>,
    ) -> Option<usize> {
        let (process, at, payload) = self.compose(index, kind.name, timeout.is_some())?;
        let (to, payload) = (Recipient::Singleton(kind.id()), payload.into());
        let (open, command) = match timeout {
            Some(timeout) => {
                let micros = u64::try_from(timeout.as_micros()).unwrap_or(u64::MAX / 2);
                self.history.messages[at].timeout = Some(micros);
                let ask = MessageCommand::Ask {
                    to,
                    payload,
                    timeout,
                    chain: AskChain::default(),
                };
                (Open::Ask(at), ask)
            }
            None => (Open::Tell(at), MessageCommand::Tell { to, payload }),
        };
        self.command(process, open, Command::Message(command));
        Some(at)
    }

    /// One message of the random workload.
    pub(crate) fn random_singleton_message(&mut self, nodes: usize) {
        let index = self.workload.index(nodes);
        let kind = KINDS[self.workload.index(KINDS.len())];
        let ask = self.workload.per_mille(800);
        let timeout = Duration::from_millis(self.workload.between(500, 5_000));
        self.ask_singleton(index, &kind, ask.then_some(timeout));
    }

    /// The node wants something done with an instance.
    pub(crate) fn on_instance_order(&mut self, process: ProcessId, order: HostOrder) {
        self.trace.begin(self.now, process, b'I');
        self.trace.debug(&order);
        let is_routine = matches!(order, HostOrder::Deliver { .. });
        if self
            .trace
            .shows(if is_routine { Show::Everything } else { Show::Facts })
        {
            self.say(process, format_args!("{order:?}"));
        }
        let slot = order.slot();
        let was_started = self.was_started(process, slot);
        let host = &mut self.processes[process as usize];
        let instance = host.instances.get_mut(&slot);
        match (order, instance) {
            (
                HostOrder::Start {
                    slot,
                    instance: Started::Singleton { singleton, token },
                },
                None,
            ) => {
                let starting = Starting {
                    slot,
                    singleton,
                    token,
                };
                self.start_instance(process, starting);
            }
            (
                HostOrder::Deliver {
                    payload, reply_to, ..
                },
                Some(instance),
            ) if !instance.is_stopping() => {
                let letter = Letter { payload, reply_to };
                let at = letter.number();
                match instance.deliver(letter) {
                    Ok(schedule) => {
                        self.note_delivery(process, at);
                        if schedule {
                            self.take_turn(process, slot, (10, 2_000));
                        }
                    }
                    Err(letter) => {
                        let report = HostReport::Refused {
                            slot,
                            ask: letter.reply_to,
                            reason: AskFailure::MailboxFull,
                        };
                        self.report_instance(process, report, 1);
                    }
                }
            }
            (HostOrder::Stop { .. }, Some(instance)) if !instance.is_stopping() => {
                let (schedule, record) = (instance.stop(), instance.record);
                self.history.instances[record].told_to_stop = true;
                if schedule {
                    self.take_turn(process, slot, (10, 2_000));
                }
            }
            (HostOrder::Kill { .. }, Some(_)) => self.kill_instance(process, slot),
            // It has ended on its own, or of an earlier order, and its node has not heard of it yet.
            (HostOrder::Kill { .. } | HostOrder::Stop { .. }, None) if was_started => {}
            (order, _) => self.violated(
                "I-30",
                process,
                format!("an order that makes no sense: {order:?}"),
            ),
        }
    }

    fn was_started(&self, process: ProcessId, slot: Slot) -> bool {
        let mut records = self.history.instances.iter();
        records.any(|record| (record.process, record.slot) == (process, slot))
    }

    fn note_delivery(&mut self, process: ProcessId, at: usize) {
        self.history.messages[at].whereabouts = Whereabouts::Mailbox(process);
        if let Err(what) = i_44::on_delivered(&self.history.messages[at], self.now) {
            self.violated("I-44", process, format!("message {at} {what}"));
        }
    }

    fn start_instance(&mut self, process: ProcessId, starting: Starting) {
        self.check_start(process, &starting);
        let Starting {
            slot,
            singleton,
            token,
        } = starting;
        let record = self.history.instances.len();
        self.history.instances.push(InstanceRecord {
            singleton,
            process,
            slot,
            token,
            started_at: self.now,
            told_to_stop: false,
            ended_at: None,
        });
        let instance = Instance::new(singleton, record);
        self.processes[process as usize].instances.insert(slot, instance);
        let slow = self.oddly(50);
        self.take_turn(
            process,
            slot,
            if slow { (100_000, 1_500_000) } else { (10, 50_000) },
        );
    }

    fn kill_instance(&mut self, process: ProcessId, slot: Slot) {
        let host = &mut self.processes[process as usize];
        let Some(instance) = host.instances.get_mut(&slot) else {
            return;
        };
        let record = instance.record;
        self.history.instances[record].told_to_stop = true;
        let (waiting, in_hand, ends) = instance.kill();
        self.drop_letters_of(process, waiting, AskFailure::EntityStoppedUnhandled);
        self.drop_letters_of(process, in_hand.into_iter().collect(), AskFailure::EntityStopped);
        if ends {
            self.processes[process as usize].instances.remove(&slot);
            self.history.instances[record].ended_at = Some(self.now);
            let wait = self.singletons.chance.between(10, 3_000);
            let unheard = &mut self.processes[process as usize].unheard;
            unheard.instances.insert(slot);
            self.report_instance(process, HostReport::Stopped { slot }, wait);
        } else {
            self.singletons.counts.ran_on += 1;
        }
    }

    fn drop_letters_of(&mut self, process: ProcessId, letters: Vec<Letter>, why: AskFailure) {
        for letter in letters {
            self.history.message_is(&letter.payload, Whereabouts::Destroyed);
            if let Some(ask) = letter.reply_to {
                let result = Err(why);
                self.report_instance(process, HostReport::Answered { ask, result }, 1);
            }
        }
    }

    /// Whether something odd happens, of a thousand times so many; never in the quiet phase. Always drawn.
    fn oddly(&mut self, per_mille: u64) -> bool {
        self.singletons.chance.per_mille(per_mille) && !self.singletons.calm
    }

    fn take_turn(&mut self, process: ProcessId, slot: Slot, (low, high): (u64, u64)) {
        let at = self.now + self.singletons.chance.between(low, high);
        let turn = InstanceHappening::Turn { process, slot };
        self.queue.push(at, Happening::Instance(Box::new(turn)));
    }

    fn report_instance(&mut self, process: ProcessId, report: HostReport, wait: u64) {
        let reported = InstanceHappening::Reported { process, report };
        self.queue
            .push(self.now + wait, Happening::Instance(Box::new(reported)));
    }

    pub(crate) fn on_instance(&mut self, happening: InstanceHappening) {
        match happening {
            InstanceHappening::Turn { process, slot } => self.on_instance_turn(process, slot),
            InstanceHappening::Called {
                process,
                slot,
                record,
                call,
            } => self.on_called(process, slot, record, call),
            InstanceHappening::Answered {
                process,
                slot,
                answer,
            } => self.on_database_answer(process, slot, answer),
            InstanceHappening::Reported { process, report } => self.on_instance_reported(process, report),
        }
    }

    fn on_instance_reported(&mut self, process: ProcessId, report: HostReport) {
        if let HostReport::Stopped { slot } = &report {
            let unheard = &mut self.processes[process as usize].unheard;
            unheard.instances.remove(slot);
        }
        if !self.processes[process as usize].runs() {
            return;
        }
        self.trace.begin(self.now, process, b'E');
        self.trace.debug(&report);
        let is_routine = matches!(report, HostReport::Answered { .. });
        if self
            .trace
            .shows(if is_routine { Show::Everything } else { Show::Facts })
        {
            self.say(process, format_args!("{report:?}"));
        }
        self.feed(process, &Cause::Entity, Input::Host(Requester::Singleton, report));
    }

    fn on_instance_turn(&mut self, process: ProcessId, slot: Slot) {
        let host = &mut self.processes[process as usize];
        let Some(instance) = host.instances.get_mut(&slot) else {
            return;
        };
        if host.in_doubt && instance.begins_something() {
            return self.take_turn(process, slot, (LOOK_AGAIN, LOOK_AGAIN));
        }
        match instance.turn() {
            Turn::Nothing => {}
            Turn::Calls(call) => self.call_database(process, slot, call, None),
            Turn::Begins(letter) => self.begin(process, slot, letter),
            Turn::CleansUp => {
                // Longer than an instance may take to stop, now and then.
                let slow = self.oddly(40);
                self.take_turn(
                    process,
                    slot,
                    if slow {
                        (2_200_000, 3_500_000)
                    } else {
                        (10, 20_000)
                    },
                );
            }
            Turn::Ended => self.end_instance(process, slot),
        }
    }

    fn begin(&mut self, process: ProcessId, slot: Slot, letter: Letter) {
        let at = letter.number();
        let instance = self.processes[process as usize].instances.get(&slot);
        let name = instance.and_then(|instance| Kind::of(instance.singleton));
        let name = name.map(|kind| EntityId::from(kind.name));
        let handled = self.checks.i44.on_handled(&mut self.history, at, name.as_ref());
        if let Err(what) = handled {
            return self.violated("I-44", process, what);
        }
        let fails = self.oddly(FAILURES_PER_MILLE);
        let blocks = self.oddly(BLOCKING_PER_MILLE);
        let longest = if self.singletons.long_handlers {
            5_000_000
        } else {
            800_000
        };
        let holds = self.singletons.chance.between(50_000, longest);
        if fails {
            self.singletons.counts.failures += 1;
            self.drop_letters_of(process, vec![letter], AskFailure::EntityStopped);
            return self.end_instance(process, slot);
        }
        if let Some(instance) = self.processes[process as usize].instances.get_mut(&slot) {
            let call = instance.append(letter, blocks);
            self.call_database(process, slot, call, blocks.then_some(holds));
        }
    }

    /// An instance asks the database, which takes its time. `holds`: the instance holds its thread for so
    /// long before.
    fn call_database(&mut self, process: ProcessId, slot: Slot, call: Call, holds: Option<u64>) {
        let slow = self.oddly(20);
        let way = self
            .singletons
            .chance
            .between(100, if slow { 300_000 } else { 2_000 });
        let Some(instance) = self.processes[process as usize].instances.get(&slot) else {
            return;
        };
        let called = InstanceHappening::Called {
            process,
            slot,
            record: instance.record,
            call,
        };
        let at = self.now + way + holds.unwrap_or(0);
        self.queue.push(at, Happening::Instance(Box::new(called)));
    }

    fn on_called(&mut self, process: ProcessId, slot: Slot, record: usize, call: Call) {
        let is_unknown = self.oddly(UNKNOWN_PER_MILLE);
        let is_lost = self.singletons.chance.per_mille(500);
        let way = self.singletons.chance.between(100, 2_000);
        let (singleton, token) = {
            let record = &self.history.instances[record];
            (record.singleton, record.token)
        };
        let obeyed = if is_unknown && is_lost {
            Answer::Unknown
        } else {
            let writer = (process, record);
            let obeyed = self.singletons.ledger.obey(writer, (singleton, token), call);
            obeyed.map_or_else(Answer::Refused, Answer::Done)
        };
        self.trace.begin(self.now, process, b'W');
        self.trace.debug(&(record, call, obeyed));
        let (answer, wait) = if is_unknown {
            self.singletons.counts.unknown_outcomes += 1;
            (Answer::Unknown, NO_ANSWER_AFTER)
        } else {
            (obeyed, way)
        };
        if let Answer::Refused(held) = answer {
            self.fact(
                process,
                format_args!("the database refuses {token} of {singleton:?} for {held}"),
            );
        }
        let answered = InstanceHappening::Answered {
            process,
            slot,
            answer,
        };
        self.queue
            .push(self.now + wait, Happening::Instance(Box::new(answered)));
    }

    fn on_database_answer(&mut self, process: ProcessId, slot: Slot, answer: Answer) {
        let Some(instance) = self.processes[process as usize].instances.get_mut(&slot) else {
            return;
        };
        match instance.on_answer(answer) {
            Answered::Opened => self.take_turn(process, slot, (10, 1_000)),
            Answered::Repeat(call) => self.call_database(process, slot, call, None),
            Answered::Handled(letter) => {
                self.take_turn(process, slot, (10, 2_000));
                if let Some(ask) = letter.reply_to {
                    let result = Ok(letter.payload);
                    self.on_instance_reported(process, HostReport::Answered { ask, result });
                }
            }
            Answered::Refused(held, in_hand) => {
                let singleton = instance.singleton;
                let in_hand = in_hand.into_iter().collect();
                self.drop_letters_of(process, in_hand, AskFailure::EntityStopped);
                let refused = SingletonCommand::TokenRefused { singleton, held };
                self.command(process, Open::Command("refused"), Command::Singleton(refused));
                self.end_instance(process, slot);
            }
            Answered::Ends(in_hand) => {
                let in_hand = in_hand.into_iter().collect();
                self.drop_letters_of(process, in_hand, AskFailure::EntityStopped);
                self.end_instance(process, slot);
            }
        }
    }

    /// An instance has ended.
    fn end_instance(&mut self, process: ProcessId, slot: Slot) {
        let Some(mut instance) = self.processes[process as usize].instances.remove(&slot) else {
            return;
        };
        self.history.instances[instance.record].ended_at = Some(self.now);
        self.drop_letters_of(process, instance.end(), AskFailure::EntityStoppedUnhandled);
        self.on_instance_reported(process, HostReport::Stopped { slot });
    }

    /// A process has ended, and its instances with it; those whose handlers hold their threads run on if only
    /// the node has.
    pub(crate) fn bury_instances(&mut self, process: ProcessId, life: Life) {
        let _ = self.instances_that_end(process, life);
    }

    /// The instances of a node that has ended are no more, and it hears so.
    pub(crate) fn end_instances(&mut self, process: ProcessId, life: Life) {
        let mut ended = self.instances_that_end(process, life);
        let unheard = &mut self.processes[process as usize].unheard;
        ended.extend(core::mem::take(&mut unheard.instances));
        for slot in ended {
            let host = &mut self.processes[process as usize];
            let now = host.now(self.now);
            host.node.handle(
                now,
                Input::Host(Requester::Singleton, HostReport::Stopped { slot }),
            );
        }
    }

    fn instances_that_end(&mut self, process: ProcessId, life: Life) -> Vec<Slot> {
        let host = &mut self.processes[process as usize];
        let mut ended = Vec::new();
        let runs_on = |instance: &Instance| life != Life::Crashed && instance.is_blocked();
        let slots: Vec<Slot> = host.instances.keys().copied().collect();
        for slot in slots {
            let Some(instance) = host.instances.get_mut(&slot) else {
                continue;
            };
            if runs_on(instance) {
                let _ = instance.kill();
            } else {
                self.history.instances[instance.record].ended_at = Some(self.now);
                host.instances.remove(&slot);
                ended.push(slot);
            }
        }
        ended
    }

    /// The instances of a singleton that have not ended.
    pub(crate) fn running_instances(&self, singleton: SingletonId) -> Vec<InstanceRecord> {
        let of_it = |record: &&InstanceRecord| record.singleton == singleton && record.ended_at.is_none();
        self.history.instances.iter().filter(of_it).cloned().collect()
    }
}
