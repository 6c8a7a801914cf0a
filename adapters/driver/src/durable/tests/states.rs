//! Durable-state entities that deliver and are reminded: one record says the state and all of that, whatever
//! has changed.

use std::time::Duration;

use quorate_core::sharding::ids::KindId;

use super::*;
use crate::region::Region;

#[derive(Clone, Debug, Serialize, Deserialize)]
enum Order {
    /// Counts, sends so many messages, and is reminded at once and much later.
    Count {
        messages: usize,
        is_reminded: bool,
    },
    /// The same without another state.
    Only {
        messages: usize,
        is_reminded: bool,
    },
    /// By a reminder.
    Ring,
    Regret,
    Delete,
    Look,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Tally {
    count: u64,
    rung: u64,
}

impl Versioned for Tally {}

/// Count, rung, and names of reminders.
type Seen = (u64, u64, Vec<String>);

struct Counter;

const NEVER: Duration = Duration::from_secs(1 << 30);

fn with(
    mut change: ChangeTo<Counter>,
    context: &EntityContext,
    messages: usize,
    is_reminded: bool,
) -> ChangeTo<Counter> {
    let kind = KindId::of("nobody hosts it");
    let region = Region::<u64, ()>::new(Arc::clone(context.shared()), kind, None);
    for _ in 0..messages {
        change = change.deliver(&region.entity("b"), |id| id.number());
    }
    if is_reminded {
        change = change
            .remind("at once", Duration::ZERO, &Order::Ring)
            .remind_every("later", NEVER, &Order::Look);
    }
    change
}

impl DurableState for Counter {
    type Command = Order;
    type Reply = Seen;
    type State = Tally;

    async fn handle(&mut self, context: &EntityContext, tally: &Tally, order: Order) -> Change<Self> {
        let Tally { count, rung } = *tally;
        let names = context.reminders().into_iter().map(|reminder| reminder.name);
        let seen = (count, rung, names.collect());
        match order {
            Order::Look => Change::reply(seen),
            Order::Count {
                messages,
                is_reminded,
            } => {
                let next = Change::to(Tally {
                    count: count + 1,
                    rung,
                });
                with(next, context, messages, is_reminded).reply(seen)
            }
            Order::Only {
                messages,
                is_reminded,
            } => with(Change::nothing(), context, messages, is_reminded).reply(seen),
            Order::Ring => Change::to(Tally {
                count,
                rung: rung + 1,
            })
            .reply(seen),
            Order::Regret => Change::nothing().forget_reminder("later").reply(seen),
            Order::Delete => Change::delete().reply(seen),
        }
    }

    fn redelivery(&self) -> AtLeastOnceSettings {
        AtLeastOnceSettings {
            unconfirmed_max: 3,
            ..AtLeastOnceSettings::default()
        }
    }
}

fn counter(node: &DurableHost) -> DurableEntity<Order, Seen> {
    node.entity(("tally", b"1"), |_| super::super::replacing::Replacing {
        inner: Counter,
        nothing: Tally::default(),
    })
}

/// Asks until it has rung so often.
fn rung(entity: &mut DurableEntity<Order, Seen>, times: u64) -> Seen {
    for _ in 0..100_000 {
        let seen = entity.ask(&Order::Look).unwrap();
        if seen.1 == times {
            return seen;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("it does not ring");
}

fn later() -> Vec<String> {
    vec!["later".to_owned()]
}

#[test]
fn a_state_its_reminders_and_its_messages_are_one_record() {
    let (node, plan) = node(&SharedMemoryStore::new());
    let mut first = counter(&node);
    let count = |messages, is_reminded| Order::Count {
        messages,
        is_reminded,
    };
    let only = |messages, is_reminded| Order::Only {
        messages,
        is_reminded,
    };
    assert_eq!(first.ask(&count(2, true)), Ok((0, 0, vec![])));
    assert_eq!(rung(&mut first, 1), (1, 1, later()));
    assert_eq!(
        first.ask(&only(2, true)),
        Err(AskError::NotDurable(DurableFailure::TooManyUnconfirmed))
    );
    // What was rung for is not there any more, and nothing of what was refused is.
    assert_eq!(first.ask(&only(1, false)), Ok((1, 1, later())));
    let appends = lock(&plan.orders)
        .iter()
        .filter(|order| **order == "append")
        .count();
    assert_eq!(appends, 3, "the count, the ring, a message");
    first.kill();

    let mut second = counter(&node);
    assert_eq!(second.ask(&Order::Look), Ok((1, 1, later())));
    assert_eq!(
        second.ask(&only(1, false)),
        Err(AskError::NotDurable(DurableFailure::TooManyUnconfirmed)),
        "the messages are there as well"
    );
    // A reminder alone keeps the state, and no state keeps the reminders.
    assert_eq!(second.ask(&only(0, true)), Ok((1, 1, later())));
    assert_eq!(rung(&mut second, 2), (1, 2, later()));
    assert_eq!(second.ask(&Order::Delete), Ok((1, 2, later())));
    second.kill();
    let mut third = counter(&node);
    assert_eq!(third.ask(&Order::Look), Ok((0, 0, later())));
    assert_eq!(third.ask(&Order::Regret), Ok((0, 0, later())));
    third.kill();
    let mut fourth = counter(&node);
    assert_eq!(
        fourth.ask(&count(1, false)),
        Err(AskError::NotDurable(DurableFailure::TooManyUnconfirmed))
    );
    assert_eq!(fourth.ask(&count(0, false)), Ok((0, 0, vec![])));
    assert_eq!(fourth.ask(&Order::Look), Ok((1, 0, vec![])));
    fourth.drain();
}

#[test]
fn a_state_that_never_delivered_nor_was_reminded_is_written_as_ever() {
    let (node, _) = node(&SharedMemoryStore::new());
    let mut first = counter(&node);
    for number in 0..40 {
        let count = Order::Count {
            messages: 0,
            is_reminded: false,
        };
        assert_eq!(first.ask(&count), Ok((number, 0, vec![])));
    }
    first.kill();
    let mut second = counter(&node);
    assert_eq!(second.ask(&Order::Look), Ok((40, 0, vec![])));
    second.drain();
}
