//! The pump and the instances of singletons: orders reach the users' code, reports come back, and what is
//! refused is undone or told. Spec: sharding 1.10, 1.11.

use std::future::ready;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use quorate_core::effect::{Answer, CommandError, Effect, HostOrder, HostedInstance, SingletonCommandError};
use quorate_core::input::{HostReport, SingletonSettings};
use quorate_core::owner::Requester;
use quorate_core::sharding::chain::AskChain;
use quorate_core::sharding::errors::AskFailure;
use quorate_core::sharding::ids::{AskRef, Payload, Slot};
use quorate_core::singleton::state::SingletonId;
use quorate_core::token::Token;

use super::action::LoopAction;
use super::hosted::RegisteredName;
use super::tests::{Bench, Heard, me};
use crate::commands::{ControlCommand, Registration, UserCommand};
use crate::mailbox::{EntityStart, Starter};
use crate::sync;
use crate::sync::Task;
use quorate_core::input::Recipient;

const SLOT: Slot = Slot {
    index: 0,
    generation: 1,
};

/// Starts a task that lives until its mailbox is closed by the test.
struct Idle;

impl Starter for Idle {
    fn start(&self, start: EntityStart) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        drop(start);
        Box::pin(ready(()))
    }
}

fn id() -> SingletonId {
    SingletonId::of("billing")
}

fn poll<T>(receiver: &mut sync::Receiver<T>) -> Poll<Option<T>> {
    Pin::new(receiver).poll(&mut Context::from_waker(Waker::noop()))
}

impl Bench {
    fn register_billing(&mut self, lease: bool) -> sync::Receiver<Answer> {
        let (reply, answer) = sync::oneshot();
        self.pump.control(ControlCommand::Register {
            what: Registration::Singleton(SingletonSettings {
                name: "billing".into(),
                role: None,
                hosts: true,
                lease,
                durable: false,
            }),
            starter: Some(Arc::new(Idle)),
            decider: None,
            reply,
        });
        answer
    }

    fn answers(&mut self, token: u64, answer: Answer) {
        self.says(Effect::Reply { token, answer });
    }

    fn starts_billing(&mut self) -> Option<Task> {
        self.says(Effect::Host(
            Requester::Singleton,
            HostOrder::Start {
                slot: SLOT,
                instance: HostedInstance::Singleton {
                    singleton: id(),
                    token: Token::new(1, 1),
                },
            },
        ));
        std::iter::from_fn(|| self.pump.next_action()).find_map(|action| match action {
            LoopAction::Start(task) => Some(task),
            _ => None,
        })
    }

    fn delivers(&mut self, reply_to: Option<AskRef>) {
        self.says(Effect::Host(
            Requester::Singleton,
            HostOrder::Deliver {
                slot: SLOT,
                payload: Payload::from([7]),
                reply_to,
                deadline: None,
                chain: AskChain::default(),
            },
        ));
    }
}

fn ask() -> AskRef {
    AskRef { asker: me(), id: 7 }
}

#[test]
fn an_instance_gets_what_is_for_it_until_it_has_ended() {
    let mut bench = Bench::new();
    drop(bench.starts_billing());
    let stopped = Heard::Instance(HostReport::Stopped { slot: SLOT });
    assert_eq!(bench.heard(), [stopped], "nobody knows how to make it");

    let mut registered = bench.register_billing(false);
    bench.answers(1, Answer::Done);
    assert_eq!(poll(&mut registered), Poll::Ready(Some(Answer::Done)));
    bench.heard();
    let task = bench.starts_billing();
    assert!(task.is_some());
    assert_eq!(bench.pump.stats().host.singletons, 1);
    bench.delivers(Some(ask()));
    assert_eq!(bench.heard(), [], "it waits in its mailbox");
    bench.says(Effect::Host(Requester::Singleton, HostOrder::Kill { slot: SLOT }));
    bench.delivers(Some(ask()));
    let unhandled = HostReport::Refused {
        slot: SLOT,
        ask: Some(ask()),
        reason: AskFailure::EntityStoppedUnhandled,
    };
    assert_eq!(bench.heard(), [Heard::Instance(unhandled)], "after it was killed");
}

#[test]
fn a_registration_that_is_refused_leaves_what_there_was() {
    let mut bench = Bench::new();
    let mut registered = bench.register_billing(false);
    let too_many = CommandError::Singleton(SingletonCommandError::TooMany);
    bench.answers(1, Answer::Refused(too_many.clone()));
    assert_eq!(
        poll(&mut registered),
        Poll::Ready(Some(Answer::Refused(too_many)))
    );
    assert!(bench.starts_billing().is_none(), "it is not known");
    let mut registered = bench.register_billing(true);
    assert_eq!(
        poll(&mut registered),
        Poll::Ready(Some(Answer::Refused(CommandError::Singleton(
            SingletonCommandError::NoLeaseKeeper
        ))))
    );
}

#[test]
fn an_ask_of_a_singleton_is_answered() {
    let mut bench = Bench::new();
    let (reply, mut answer) = sync::oneshot();
    bench.pump.user(UserCommand::Ask {
        to: Recipient::Singleton(id()),
        payload: Payload::from([7]),
        timeout: std::time::Duration::from_secs(1),
        chain: AskChain::default(),
        reply,
    });
    let result: Result<Payload, AskFailure> = Ok(Payload::from([8]));
    bench.answers(1, Answer::Asked(result.clone()));
    assert_eq!(poll(&mut answer), Poll::Ready(Some(result)));
}

#[test]
fn an_instance_lives_until_its_own_end_is_reported_and_the_node_does_not_end_before() {
    let mut bench = Bench::new();
    drop(bench.register_billing(false));
    bench.answers(1, Answer::Done);
    let _task = bench.starts_billing().expect("it is known");
    assert!(!bench.pump.forget_ended_entities(), "it runs");
    let of = |generation: u32| HostReport::Stopped {
        slot: Slot { generation, ..SLOT },
    };
    for (generation, lives) in [(0, 1), (2, 1), (1, 0), (1, 0)] {
        bench.pump.hosted.is_told(Requester::Singleton, of(generation));
        assert_eq!(bench.pump.forget_ended_entities(), lives == 0, "{generation}");
        assert_eq!(bench.pump.stats().host.singletons, lives, "{generation}");
    }
}

#[test]
fn an_instance_is_called_by_its_name_and_one_that_is_not_known_by_its_number() {
    let mut bench = Bench::new();
    let unknown = format!("{:?}", id());
    let named = RegisteredName::Singleton(id());
    assert_eq!(bench.pump.hosted.name(named), unknown);
    bench.register_billing(false);
    assert_eq!(bench.pump.hosted.name(named), "billing");
}
