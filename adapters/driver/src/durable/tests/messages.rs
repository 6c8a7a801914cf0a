//! What an entity is refused when it wants to deliver, or to be reminded of, more than it may: nothing of it
//! is kept, and it goes on. And that what was kept is there for the next incarnation, through a snapshot too.

use std::time::Duration;

use quorate_core::sharding::ids::KindId;

use super::*;
use crate::durable::limits::REMINDERS_MAX;
use crate::region::Region;

#[derive(Clone, Debug, Serialize, Deserialize)]
enum Order {
    /// Sends so many, with one event.
    Send(usize),
    /// Wants to be reminded so often, with one event.
    Remind(usize),
    Look,
}

/// Events, and reminders.
type Seen = (u64, usize);

#[derive(Serialize, Deserialize)]
struct Done;

impl Versioned for Done {}

#[derive(Default, Serialize, Deserialize)]
struct Count(u64);

impl Versioned for Count {}

struct Sender {
    redelivery: AtLeastOnceSettings,
}

impl EventSourced for Sender {
    type Command = Order;
    type Reply = Seen;
    type Event = Done;
    type State = Count;

    async fn handle(&mut self, context: &EntityContext, count: &Count, order: Order) -> Decision<Self> {
        let reminders = context.reminders().len();
        let seen = move |count: &Count| (count.0, reminders);
        let mut persist = Decision::persist(Done);
        match order {
            Order::Look => return Decision::reply(seen(count)),
            Order::Send(messages) => {
                let kind = KindId::of("nobody hosts it");
                let region = Region::<u64, ()>::new(Arc::clone(context.shared()), kind, None);
                for _ in 0..messages {
                    persist = persist.deliver(&region.entity("b"), |id| id.number());
                }
            }
            Order::Remind(reminders) => {
                let never = Duration::from_secs(1 << 30);
                for name in 0..reminders {
                    persist = persist.remind(name.to_string(), never, &Order::Look);
                }
            }
        }
        persist.then_reply(seen)
    }

    fn apply(count: &mut Count, _: Done) {
        count.0 += 1;
    }

    fn retention(&self) -> Retention {
        Retention::snapshot_every(2).delete_covered_events()
    }

    fn redelivery(&self) -> AtLeastOnceSettings {
        self.redelivery.clone()
    }
}

fn sender(node: &DurableHost, redelivery: AtLeastOnceSettings) -> DurableEntity<Order, Seen> {
    node.entity(("sender", b"1"), move |_| Sender {
        redelivery: redelivery.clone(),
    })
}

fn refused(failure: DurableFailure) -> Result<Seen, AskError> {
    Err(AskError::NotDurable(failure))
}

#[test]
fn s_247_more_messages_than_may_be_unconfirmed_are_refused_whole_also_after_a_recovery() {
    let (node, _) = node(&SharedMemoryStore::new());
    let settings = AtLeastOnceSettings {
        unconfirmed_max: 3,
        ..AtLeastOnceSettings::default()
    };
    let mut first = sender(&node, settings.clone());
    assert_eq!(first.ask(&Order::Send(2)), Ok((1, 0)));
    assert_eq!(
        first.ask(&Order::Send(2)),
        refused(DurableFailure::TooManyUnconfirmed)
    );
    assert_eq!(first.ask(&Order::Look), Ok((1, 0)), "nothing of it was kept");
    assert_eq!(first.ask(&Order::Send(1)), Ok((2, 0)));
    first.kill();
    let mut second = sender(&node, settings);
    assert_eq!(
        second.ask(&Order::Send(1)),
        refused(DurableFailure::TooManyUnconfirmed)
    );
    assert_eq!(second.ask(&Order::Look), Ok((2, 0)));
    second.kill();
    // A lower limit than there are messages loses none of them.
    let lower = AtLeastOnceSettings {
        unconfirmed_max: 1,
        ..AtLeastOnceSettings::default()
    };
    let mut third = sender(&node, lower);
    assert_eq!(third.ask(&Order::Look), Ok((2, 0)));
    assert_eq!(
        third.ask(&Order::Send(1)),
        refused(DurableFailure::TooManyUnconfirmed)
    );
    third.drain();
}

#[test]
fn more_reminders_than_there_may_be_are_refused_whole_and_all_others_are_found_again() {
    let (node, _) = node(&SharedMemoryStore::new());
    let settings = AtLeastOnceSettings::default();
    let mut first = sender(&node, settings.clone());
    assert_eq!(first.ask(&Order::Remind(5)), Ok((1, 0)));
    assert_eq!(first.ask(&Order::Look), Ok((1, 5)));
    let too_many = REMINDERS_MAX + 1;
    assert_eq!(
        first.ask(&Order::Remind(too_many)),
        refused(DurableFailure::TooManyReminders)
    );
    assert_eq!(first.ask(&Order::Remind(7)), Ok((2, 5)));
    assert_eq!(first.ask(&Order::Look), Ok((2, 7)), "five in place of others");
    first.kill();
    let mut second = sender(&node, settings);
    assert_eq!(second.ask(&Order::Look), Ok((2, 7)));
    second.drain();
}

#[test]
fn settings_out_of_range_fail_every_command_and_keep_nothing() {
    let (node, _) = node(&SharedMemoryStore::new());
    let bad = AtLeastOnceSettings {
        redeliver_interval: Duration::ZERO,
        ..AtLeastOnceSettings::default()
    };
    let mut entity = sender(&node, bad);
    assert_eq!(entity.ask(&Order::Send(1)), refused(DurableFailure::BadSetting));
    entity.kill();
    let mut entity = sender(&node, AtLeastOnceSettings::default());
    assert_eq!(entity.ask(&Order::Look), Ok((0, 0)));
    entity.drain();
}
