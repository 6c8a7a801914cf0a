//! The task of a producer, turn by turn, on a node that is not there: how much it takes, when it looks again,
//! and what it waits for. Spec: sharding 1.14.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use quorate_core::delivery::ToEntitiesSettings;
use quorate_core::sharding::errors::AskFailure;
use quorate_core::sharding::ids::{EntityId, KindId};
use quorate_core::time::Instant;

use super::message::{Origin, Receipt, Wanted};
use super::orders::{Offer, ProducerInbox, ProducerOrder, TaskReport};
use super::queue::DurableQueue;
use super::sending::{PARKED_MAX, PER_ENTITY_MAX, TICK, Task};
use crate::background::Background;
use crate::error::AskError;
use crate::journal::Keeper;
use crate::shared::{Commands, Shared};
use crate::stats::HostStats;
use crate::sync::{self, lock};
use crate::testing::{block_on, node_beside, voter};

/// A producer's task, and the test in place of everything around it.
struct Bench {
    task: sync::Task,
    shared: Arc<Shared>,
    inbox: Arc<ProducerInbox>,
    orders: async_channel::Sender<ProducerOrder>,
    /// Until when the task waits.
    waits: Arc<Mutex<Vec<Instant>>>,
    /// What it has others do, which is never done.
    _spawned: Arc<Mutex<Vec<sync::Task>>>,
    _commands: Commands,
}

impl Bench {
    fn new(is_durable: bool) -> Self {
        let spawned = Arc::<Mutex<Vec<sync::Task>>>::default();
        let waits = Arc::<Mutex<Vec<Instant>>>::default();
        let (given, asked) = (Arc::clone(&spawned), Arc::clone(&waits));
        let background = Background::scripted(
            move |task| lock(&given).push(task),
            move |at| lock(&asked).push(at),
        );
        let (shared, commands) = node_beside(background, |config| config.journal.voters = 1);
        let queue = is_durable.then(|| {
            voter::serve(&commands, 1 << 20, Duration::ZERO);
            block_on(DurableQueue::open_with(&shared, &Keeper::Quorum, "p")).unwrap()
        });
        let from = Origin {
            name: "p".to_owned(),
            incarnation: 1,
            is_alone: is_durable,
        };
        let mut settings = ToEntitiesSettings::default();
        settings.producer.is_durable = is_durable;
        let task = Task::new(shared, KindId::of("k"), from, settings).unwrap();
        let (orders, taken) = async_channel::unbounded();
        lock(&waits).clear();
        Self {
            inbox: Arc::clone(&task.inbox),
            shared: Arc::clone(&task.shared),
            task: Box::pin(task.run(taken, queue)),
            orders,
            waits,
            _spawned: spawned,
            _commands: commands,
        }
    }

    fn order(&self, order: ProducerOrder) {
        self.orders.try_send(order).unwrap();
    }

    /// Lets the task do what there is to do; until when it waits then.
    fn turn(&mut self) -> Option<Instant> {
        lock(&self.waits).clear();
        let mut cx = Context::from_waker(Waker::noop());
        assert_eq!(self.task.as_mut().poll(&mut cx), Poll::Pending);
        lock(&self.waits).last().copied()
    }

    /// The entity has confirmed so much.
    fn confirms(&self, ack: u64) {
        self.answers(1, Ok(confirmed(ack)));
    }

    /// What becomes of the ask with this number.
    fn answers(&self, line: u64, said: Result<Receipt, AskError>) {
        let report = TaskReport::Line(EntityId::from("e"), line, said);
        self.inbox.put(report);
    }

    /// How often messages were sent, and sent again.
    fn sent(&self) -> (u64, u64) {
        let mut stats = HostStats::default();
        self.shared.deliveries.show(&mut stats);
        (stats.deliveries_sent, stats.deliveries_resent)
    }
}

fn confirmed(ack: u64) -> Receipt {
    Receipt {
        ack: Some(ack),
        ..Receipt::default()
    }
}

/// What an incarnation says that has heard nothing of this producer.
fn begins_anew() -> Receipt {
    Receipt {
        resend: Some(0),
        ..Receipt::default()
    }
}

fn message() -> ProducerOrder {
    ProducerOrder::Send(Offer {
        entity: EntityId::from("e"),
        payload: [7].into(),
        taken: sync::oneshot().0,
        confirmed: sync::oneshot().0,
    })
}

#[test]
fn s_1_14_while_many_wait_for_room_no_others_are_looked_at() {
    const MORE: usize = 10;
    let mut bench = Bench::new(false);
    for _ in 0..PER_ENTITY_MAX + PARKED_MAX + MORE {
        bench.order(message());
    }
    bench.turn();
    assert_eq!(bench.orders.len(), MORE, "their callers wait one step before");
}

#[test]
fn s_1_14_times_are_looked_at_often_while_something_is_unconfirmed() {
    let mut bench = Bench::new(false);
    let begin = Instant::default();
    assert_eq!(bench.turn(), None, "it has sent nothing");
    bench.order(message());
    assert_eq!(bench.turn(), Some(begin + TICK));
    bench.confirms(1);
    assert_eq!(bench.turn(), Some(begin + TICK), "the time that was set");
}

#[test]
fn s_1_14_a_durable_producer_is_flushed_when_it_has_noted_what_is_confirmed() {
    let mut bench = Bench::new(true);
    bench.order(message());
    bench.turn();
    bench.inbox.put(TaskReport::Stored(1));
    bench.turn();
    bench.confirms(1);
    let (reply, mut flushed) = sync::oneshot();
    bench.order(ProducerOrder::Flush(reply));
    bench.turn();
    let mut cx = Context::from_waker(Waker::noop());
    assert_eq!(
        Pin::new(&mut flushed).poll(&mut cx),
        Poll::Pending,
        "it is not noted"
    );
    bench.inbox.put(TaskReport::Noted(1));
    bench.turn();
    assert_eq!(Pin::new(&mut flushed).poll(&mut cx), Poll::Ready(Some(())));
}

/// One message is confirmed, three are on their way: to the incarnation that was, or to the next one.
fn three_on_their_way() -> Bench {
    let mut bench = Bench::new(false);
    for _ in 0..4 {
        bench.order(message());
    }
    bench.turn();
    let wanted = Wanted {
        confirmed: 1,
        up_to: 50,
        support_resend: true,
        via_timeout: false,
    };
    let receipt = Receipt {
        request: Some(wanted),
        ..Receipt::default()
    };
    bench.answers(1, Ok(receipt));
    bench.turn();
    assert_eq!(bench.sent(), (4, 0));
    bench
}

#[test]
fn s_1_14_a_new_incarnation_is_sent_what_the_one_before_it_has_not_confirmed() {
    let mut bench = three_on_their_way();
    bench.answers(4, Ok(begins_anew()));
    bench.turn();
    assert_eq!(bench.sent(), (4, 0), "the asks before it may have been answered");
    bench.answers(2, Ok(confirmed(2)));
    bench.turn();
    assert_eq!(bench.sent(), (4, 0));
    bench.answers(3, Err(AskError::Failed(AskFailure::EntityStopped)));
    bench.turn();
    assert_eq!(bench.sent(), (4, 2), "what was confirmed is not sent again");
}

#[test]
fn s_1_14_what_a_new_incarnation_says_of_several_messages_is_heard_once_for_all() {
    let mut bench = three_on_their_way();
    for line in [4, 3] {
        bench.answers(line, Ok(begins_anew()));
        bench.turn();
    }
    assert_eq!(bench.sent(), (4, 0));
    bench.answers(2, Ok(confirmed(2)));
    bench.turn();
    assert_eq!(bench.sent(), (4, 2));
}

#[test]
fn s_1_14_a_gap_is_filled_at_once() {
    let mut bench = three_on_their_way();
    let gap = Receipt {
        resend: Some(3),
        ..Receipt::default()
    };
    bench.answers(4, Ok(gap));
    bench.turn();
    assert_eq!(bench.sent(), (4, 2));
}
