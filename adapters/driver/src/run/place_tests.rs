//! Who may take the pump past the loop's queues, what is left to the loop then, and what a panic does.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::thread;
use std::time::Duration;

use async_channel::Sender;
use quorate_core::config::Config;
use quorate_core::ident::{Address, ClusterName, UniqueAddress};
use quorate_core::input::{HostReport, Recipient};
use quorate_core::owner::Requester;
use quorate_core::sharding::chain::AskChain;
use quorate_core::sharding::errors::AskFailure;
use quorate_core::sharding::ids::{EntityId, KindId, Payload, Slot};
use quorate_core::time::Now;
use quorate_links::ValidLinkLimits;
use rand_chacha::ChaCha8Rng;
use rand_core::SeedableRng;

use super::link::LinkTable;
use super::place::{PumpPlace, StandingPump};
use crate::commands::UserCommand;
use crate::mailbox::Reports;
use crate::pump::{Parts, Pump};
use crate::security::Security;
use crate::shortcut::Shortcut;
use crate::sync::{Notify, Receiver, lock, oneshot};

type Asked = Receiver<Result<Payload, AskFailure>>;

struct Rig {
    place: Arc<PumpPlace>,
    user: Sender<UserCommand>,
    wake: Arc<Notify>,
    reports: Arc<Reports>,
}

impl Rig {
    /// A node that has not begun, of whose picture users know.
    fn new() -> Self {
        let me = UniqueAddress::new(Address::new("alone", 1).unwrap(), 1);
        let reports = Arc::new(Reports::default());
        let parts = Parts {
            config: Config::fast(ClusterName::new("alone").unwrap())
                .validate()
                .unwrap(),
            limits: ValidLinkLimits::default(),
            me,
            rng: ChaCha8Rng::seed_from_u64(1),
            reports: Arc::clone(&reports),
            authentication: Security::insecure_plaintext().authentication(),
        };
        let (user, users) = async_channel::bounded(8);
        let mut standing = StandingPump::new(
            Pump::new(parts, Now::default()),
            users,
            Arc::<LinkTable>::default(),
        );
        // As after a turn.
        standing.pump.tick();
        standing.pump.flush();
        while standing.pump.next_action().is_some() {}
        standing.shown = Some(Arc::clone(standing.pump.view()));
        standing.until = standing.pump.deadline();
        let wake = Arc::new(Notify::default());
        Self {
            place: Arc::new(PumpPlace::new(standing, Arc::clone(&wake), Now::default)),
            user,
            wake,
            reports,
        }
    }

    fn ask(&self) -> Result<Asked, Asked> {
        let (command, answer) = ask();
        match self.place.say(command) {
            Ok(()) => Ok(answer),
            Err(_) => Err(answer),
        }
    }

    fn is_woken(&self) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        self.wake.poll(&mut cx).is_ready()
    }
}

/// Of a kind that nobody has registered: answered at once.
fn ask() -> (UserCommand, Asked) {
    let (reply, answer) = oneshot();
    let command = UserCommand::Ask {
        to: Recipient::Entity(KindId::of("nothing"), EntityId::from("nobody")),
        payload: Payload::from(b"?".as_slice()),
        timeout: Duration::from_secs(1),
        chain: AskChain::default(),
        reply,
    };
    (command, answer)
}

fn answer_of(mut asked: Asked) -> Option<Result<Payload, AskFailure>> {
    let mut cx = Context::from_waker(Waker::noop());
    match Pin::new(&mut asked).poll(&mut cx) {
        std::task::Poll::Ready(answer) => answer,
        std::task::Poll::Pending => None,
    }
}

fn stopped() -> HostReport {
    let slot = Slot {
        index: 0,
        generation: 1,
    };
    HostReport::Stopped { slot }
}

#[test]
fn a_lone_ask_is_said_by_its_caller_and_the_loop_sleeps_on() {
    let rig = Rig::new();
    let asked = rig.ask().expect("nobody holds the pump");
    assert_eq!(answer_of(asked), Some(Err(AskFailure::UnknownKind)));
    assert!(!rig.is_woken(), "there is nothing for the loop to do");
    rig.place
        .say((Requester::Sharding, stopped()))
        .expect("nobody holds the pump");
    assert!(!rig.is_woken());
}

#[test]
fn whatever_waits_is_said_first() {
    let rig = Rig::new();
    rig.user.try_send(ask().0).unwrap();
    assert!(rig.ask().is_err(), "another message came before");
    assert!(rig.place.say((Requester::Sharding, stopped())).is_err());
    rig.place.turn().as_ref().unwrap().user.try_recv().unwrap();
    assert!(rig.ask().is_ok());
    rig.reports.push(stopped());
    assert!(
        rig.place.say((Requester::Sharding, stopped())).is_err(),
        "another report came before"
    );
    assert!(rig.place.say((Requester::Singleton, stopped())).is_err());
}

#[test]
fn who_finds_the_pump_held_or_gone_takes_the_queue() {
    let rig = Rig::new();
    let turn = rig.place.turn();
    assert!(rig.ask().is_err(), "the loop has its turn");
    drop(turn);
    assert!(rig.ask().is_ok());
    drop(rig.place.take());
    assert!(rig.ask().is_err(), "the node has ended");
    assert!(rig.place.say((Requester::Sharding, stopped())).is_err());
}

#[test]
fn asks_beside_an_open_one_are_left_to_the_loop() {
    let rig = Rig::new();
    rig.place.turn().as_mut().unwrap().pump.opens_an_ask();
    assert!(rig.ask().is_err());
    let report = rig.place.say((Requester::Sharding, stopped()));
    assert!(report.is_ok(), "that is about asks of this node alone");
}

/// Who comes in one by one would take the batch apart of which it is a part.
#[test]
fn whoever_is_one_of_many_is_left_to_the_loop_until_they_come_one_at_a_time_for_a_while() {
    let rig = Rig::new();
    let turned = |messages| {
        let mut turn = rig.place.turn();
        turn.as_mut().unwrap().pump.turned(messages);
    };
    turned(0);
    assert!(rig.ask().is_ok());
    turned(2);
    for _ in 0..8 {
        assert!(rig.ask().is_err(), "there was a batch not long ago");
        assert!(rig.place.say((Requester::Sharding, stopped())).is_err());
        turned(0);
        turned(1);
    }
    assert!(rig.ask().is_ok());
    assert!(rig.place.say((Requester::Sharding, stopped())).is_ok());
}

#[test]
fn the_loop_is_woken_for_what_is_its_own() {
    let rig = Rig::new();
    rig.place.turn().as_mut().unwrap().shown = None;
    assert!(rig.ask().is_ok());
    assert!(rig.is_woken(), "users do not know of the picture");
    assert!(rig.ask().is_ok());
    let rig = Rig::new();
    rig.place.turn().as_mut().unwrap().until = None;
    let has_deadline = rig.place.turn().as_ref().unwrap().pump.deadline().is_some();
    assert!(rig.ask().is_ok());
    assert_eq!(rig.is_woken(), has_deadline, "it would sleep for too long");
}

#[test]
fn a_panic_lets_go_of_the_pump_and_wakes_the_loop_which_ends() {
    let rig = Rig::new();
    let said = rig
        .place
        .have_said((), |_| true, |_, ()| panic!("a bug of the node, on purpose"));
    assert!(said.is_ok(), "its caller lives");
    assert!(rig.place.is_broken());
    assert!(rig.is_woken());
    assert!(rig.ask().is_err(), "nobody takes it any more");
    assert!(rig.place.take().is_some(), "the loop can");
}

/// Callers that have something to say all the time: each says one thing, and then the loop is next.
#[test]
fn the_loop_gets_its_turn_among_any_number_of_callers() {
    let rig = Rig::new();
    let (is_over, said) = (AtomicBool::new(false), AtomicU64::new(0));
    let longest = Mutex::new(Duration::ZERO);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !is_over.load(Ordering::SeqCst) {
                    said.fetch_add(u64::from(rig.ask().is_ok()), Ordering::SeqCst);
                }
            });
        }
        for _ in 0..200 {
            thread::sleep(Duration::from_micros(100));
            let begun = std::time::Instant::now();
            drop(rig.place.turn());
            let mut longest = lock(&longest);
            *longest = begun.elapsed().max(*longest);
        }
        is_over.store(true, Ordering::SeqCst);
    });
    assert!(said.load(Ordering::SeqCst) > 0, "callers say nothing");
    let longest = *lock(&longest);
    assert!(
        longest < Duration::from_secs(1),
        "the loop waited for {longest:?}"
    );
}
