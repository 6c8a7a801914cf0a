//! Durable entities over stores that do what stores do: stall, fail with and without having done it, fill up,
//! go away, and belong to somebody else meanwhile.

mod messages;
mod quorum;
mod schedules;
mod states;
mod waking;

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use quorate_core::sharding::errors::AskFailure;
use quorate_core::store::{Outcome, Sequence, Space, StoreAnswer, StoreIdentity, StoreOrder};
use serde::{Deserialize, Serialize};

use super::*;
use crate::entity::EntityContext;
use crate::error::AskError;
use crate::store::{SharedMemoryStore, Store, StoreFault};
use crate::sync::lock;
use crate::testing::{DurableEntity, DurableHost, voter};

/// What happens to a group that holds an append.
#[derive(Clone, Debug)]
enum Fault {
    /// It is done, and nobody is told.
    FailDone,
    /// It is not done, and nobody is told that either.
    FailUndone,
    Full,
    Unavailable,
    /// It is done when the gate opens.
    Wait(Arc<Gate>),
}

#[derive(Debug, Default)]
struct Gate {
    is_open: Mutex<bool>,
    changed: Condvar,
    reached: AtomicU64,
}

impl Gate {
    fn open(&self) {
        *lock(&self.is_open) = true;
        self.changed.notify_all();
    }

    fn pass(&self) {
        self.reached.fetch_add(1, Ordering::SeqCst);
        let mut is_open = lock(&self.is_open);
        while !*is_open {
            is_open = self.changed.wait(is_open).unwrap();
        }
    }
}

/// What else happens before the next order of this name is done.
type Intrusion = (&'static str, Box<dyn FnOnce() + Send>);

/// What the test sees and sets.
#[derive(Default)]
struct Plan {
    faults: Mutex<VecDeque<Fault>>,
    intrusion: Mutex<Option<Intrusion>>,
    orders: Mutex<Vec<&'static str>>,
    /// The record that is gone, of all logs.
    gone: Mutex<Option<Sequence>>,
}

impl Plan {
    fn without_what_is_gone(&self, mut outcomes: Vec<Outcome>) -> Vec<Outcome> {
        let gone = *lock(&self.gone);
        for outcome in &mut outcomes {
            if let Ok(StoreAnswer::Records { records, .. }) = outcome {
                records.retain(|record| Some(record.sequence) != gone);
            }
        }
        outcomes
    }
}

struct Tricky {
    inner: SharedMemoryStore,
    plan: Arc<Plan>,
}

impl std::fmt::Debug for Tricky {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tricky")
    }
}

fn name_of(order: &StoreOrder) -> &'static str {
    match order {
        StoreOrder::Open { .. } => "open",
        StoreOrder::Append { .. } => "append",
        StoreOrder::ReadLog { .. } => "read",
        StoreOrder::Snapshot { .. } => "keep",
        StoreOrder::ReadSnapshot { .. } => "read snapshot",
        StoreOrder::DeleteRange { .. } => "delete",
        _ => "other",
    }
}

impl Store for Tricky {
    fn open(&mut self) -> Result<StoreIdentity, StoreFault> {
        self.inner.open()
    }

    fn commit(&mut self, orders: &[(Space, &StoreOrder)]) -> Result<Vec<Outcome>, StoreFault> {
        let names: Vec<_> = orders.iter().map(|(_, order)| name_of(order)).collect();
        lock(&self.plan.orders).extend(&names);
        let intrudes = |(before, _): &mut Intrusion| names.contains(before);
        let intrusion = lock(&self.plan.intrusion).take_if(intrudes);
        if let Some((_, intrusion)) = intrusion {
            intrusion();
        }
        if !names.contains(&"append") {
            let outcomes = self.inner.commit(orders)?;
            return Ok(self.plan.without_what_is_gone(outcomes));
        }
        let said = |what: &str| io::Error::other(what.to_owned());
        let fault = lock(&self.plan.faults).pop_front();
        match fault {
            None => self.inner.commit(orders),
            Some(Fault::FailDone) => {
                self.inner.commit(orders)?;
                Err(StoreFault::Failed(said("the answer was lost")))
            }
            Some(Fault::FailUndone) => Err(StoreFault::Failed(said("it was lost"))),
            Some(Fault::Full) => Err(StoreFault::Full(said("full"))),
            Some(Fault::Unavailable) => Err(StoreFault::Unavailable(said("away"))),
            Some(Fault::Wait(gate)) => {
                gate.pass();
                self.inner.commit(orders)
            }
        }
    }

    fn scope(&self) -> crate::store::StoreScope {
        crate::store::StoreScope::Shared
    }
}

/// A node over these logs.
fn node(stores: &SharedMemoryStore) -> (DurableHost, Arc<Plan>) {
    let plan = Arc::<Plan>::default();
    let store = Tricky {
        inner: stores.node(),
        plan: Arc::clone(&plan),
    };
    (DurableHost::start(Box::new(store)).unwrap(), plan)
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
enum Event {
    Added(u64),
    Named(String),
}

impl Versioned for Event {}

#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
struct Sum {
    value: u64,
    events: u64,
    name: String,
}

impl Versioned for Sum {}

#[derive(Clone, Debug, Serialize, Deserialize)]
enum Command {
    Add(u64),
    AddEach(Vec<u64>),
    Name(String),
    Read,
    Panic,
    GiveUp,
    AddAndStop(u64),
}

/// Value, events applied, events replayed by this incarnation, and what its snapshot covered.
type Answer = (u64, u64, u64, Option<u64>);

struct Counter {
    retention: Retention,
    /// How far the recovery is, and then was.
    recovery: Recovery,
    /// How often it said so.
    heard: u64,
}

impl EventSourced for Counter {
    type Command = Command;
    type Reply = Answer;
    type Event = Event;
    type State = Sum;

    async fn handle(&mut self, context: &EntityContext, sum: &Sum, command: Command) -> Decision<Self> {
        let Recovery {
            replayed, snapshot, ..
        } = self.recovery;
        let now = move |sum: &Sum| (sum.value, sum.events, replayed, snapshot);
        match command {
            Command::Add(number) => Decision::persist(Event::Added(number)).then_reply(now),
            Command::AddEach(numbers) => {
                Decision::persist_all(numbers.into_iter().map(Event::Added)).then_reply(now)
            }
            Command::Name(name) => Decision::persist(Event::Named(name)).then_reply(now),
            Command::Read => Decision::reply(now(sum)),
            Command::Panic => panic!("on purpose"),
            Command::GiveUp => context.fail("on purpose").await,
            Command::AddAndStop(number) => Decision::persist(Event::Added(number)).then_reply(now).and_stop(),
        }
    }

    fn apply(sum: &mut Sum, event: Event) {
        sum.events += 1;
        match event {
            Event::Added(number) => sum.value += number,
            Event::Named(name) => sum.name = name,
        }
    }

    fn retention(&self) -> Retention {
        self.retention
    }

    fn on_recovering(&mut self, _: &EntityContext, so_far: &Recovery) {
        assert!(so_far.sequence > self.recovery.sequence && so_far.sequence <= so_far.last);
        self.recovery = *so_far;
        self.heard += 1;
    }

    async fn on_recovered(&mut self, _: &EntityContext, sum: &Sum, recovery: &Recovery) {
        assert!(
            recovery.replayed == 0 || self.recovery == *recovery,
            "it heard of all of it"
        );
        assert!(self.heard <= recovery.replayed, "once for each part");
        assert_eq!(sum.events, recovery.last, "every event once");
        assert_eq!(recovery.sequence, recovery.last);
        self.recovery = *recovery;
    }
}

/// A counter that counts what it hears of its recovery.
struct Progress(Arc<AtomicU64>);

impl EventSourced for Progress {
    type Command = Command;
    type Reply = Answer;
    type Event = Event;
    type State = Sum;

    async fn handle(&mut self, _: &EntityContext, sum: &Sum, _: Command) -> Decision<Self> {
        Decision::reply((sum.value, sum.events, 0, None))
    }

    fn apply(sum: &mut Sum, event: Event) {
        Counter::apply(sum, event);
    }

    fn retention(&self) -> Retention {
        Retention::events_only()
    }

    fn on_recovering(&mut self, _: &EntityContext, _: &Recovery) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

type Counting = DurableEntity<Command, Answer>;

fn counter_with(node: &DurableHost, retention: Retention) -> Counting {
    node.entity(("counter", b"7"), move |_| Counter {
        retention,
        recovery: Recovery::default(),
        heard: 0,
    })
}

fn counter(node: &DurableHost) -> Counting {
    counter_with(node, Retention::default())
}

fn failed(failure: DurableFailure) -> Result<Answer, AskError> {
    Err(AskError::NotDurable(failure))
}

#[test]
fn what_was_answered_is_there_for_the_next_incarnation() {
    let (node, _) = node(&SharedMemoryStore::new());
    let mut first = counter(&node);
    assert_eq!(first.ask(&Command::Add(3)), Ok((3, 1, 0, None)));
    assert_eq!(first.ask(&Command::AddEach(vec![4, 5])), Ok((12, 3, 0, None)));
    first.kill();
    let mut second = counter(&node);
    assert_eq!(second.ask(&Command::Read), Ok((12, 3, 3, None)));
    second.drain();
}

#[test]
fn s_10_7_a_log_is_read_behind_its_token() {
    let stores = SharedMemoryStore::new();
    let (here, plan) = node(&stores);
    let (there, _) = node(&stores);
    let mut other = counter(&there);
    assert_eq!(other.ask(&Command::Add(1)), Ok((1, 1, 0, None)));
    // The other one goes on until the very moment in which this one's token is written.
    let intrusion = move || {
        assert_eq!(other.ask(&Command::Add(10)), Ok((11, 2, 0, None)));
        other.kill();
    };
    *lock(&plan.intrusion) = Some(("open", Box::new(intrusion)));
    let mut this = counter(&here);
    assert_eq!(this.ask(&Command::Add(100)), Ok((111, 3, 2, None)));
    let orders = lock(&plan.orders).clone();
    let opened = orders.iter().rposition(|order| *order == "open");
    let read = orders.iter().position(|order| *order == "read");
    assert!(opened < read, "{orders:?}");
    this.drain();
}

#[test]
fn s_10_7_what_another_owner_has_written_since_a_log_was_opened_is_not_applied() {
    let stores = SharedMemoryStore::new();
    let ((here, plan), (there, _)) = (node(&stores), node(&stores));
    assert_eq!(counter(&there).ask(&Command::Add(1)), Ok((1, 1, 0, None)));
    let intrusion = move || {
        let mut next = counter(&there);
        assert_eq!(next.ask(&Command::Add(10)), Ok((11, 2, 1, None)));
        next.kill();
    };
    *lock(&plan.intrusion) = Some(("read", Box::new(intrusion)));
    let mut this = counter(&here);
    assert_eq!(this.ask(&Command::Read), Ok((1, 1, 1, None)), "as it was opened");
    assert_eq!(this.ask(&Command::Add(100)), failed(DurableFailure::Fenced));
    assert_eq!(counter(&here).ask(&Command::Read), Ok((11, 2, 2, None)));
}

#[test]
fn s_10_7_a_snapshot_of_a_later_owner_is_not_taken_for_what_was_opened() {
    let stores = SharedMemoryStore::new();
    let ((here, plan), (there, _)) = (node(&stores), node(&stores));
    let every_two = Retention::snapshot_every(2);
    let mut first = counter_with(&there, every_two);
    for _ in 0..2 {
        first.ask(&Command::Add(1)).unwrap();
    }
    first.drain();
    let intrusion = move || {
        let mut next = counter_with(&there, every_two);
        for _ in 0..2 {
            next.ask(&Command::Add(10)).unwrap();
        }
        next.drain();
    };
    *lock(&plan.intrusion) = Some(("read snapshot", Box::new(intrusion)));
    let mut this = counter_with(&here, every_two);
    let answer = this.ask(&Command::Read);
    assert!(
        answer == failed(DurableFailure::Fenced) || matches!(answer, Ok((22, 4, ..))),
        "{answer:?}"
    );
    this.kill();
    let (value, events, ..) = counter_with(&here, every_two).ask(&Command::Read).unwrap();
    assert_eq!((value, events), (22, 4));
}

#[test]
fn s_10_7_of_two_owners_the_stale_one_is_refused_and_stops() {
    let stores = SharedMemoryStore::new();
    let ((here, plan), (there, _)) = (node(&stores), node(&stores));
    let mut stale = counter(&here);
    assert_eq!(stale.ask(&Command::Add(1)), Ok((1, 1, 0, None)));
    let mut owner = counter(&there);
    assert_eq!(owner.ask(&Command::Add(2)), Ok((3, 2, 1, None)));
    let gate = Arc::new(Gate::default());
    lock(&plan.faults).push_back(Fault::Wait(Arc::clone(&gate)));
    stale.send(&Command::Add(4));
    let waiting = stale.send(&Command::Read);
    gate.open();
    assert_eq!(stale.next_answer(), Some((2, failed(DurableFailure::Fenced))));
    let unhandled = Err(AskError::Failed(AskFailure::EntityStoppedUnhandled));
    assert_eq!(stale.next_answer(), Some((waiting, unhandled)));
    assert_eq!(stale.next_answer(), None, "it has stopped");
    assert_eq!(owner.ask(&Command::Add(8)), Ok((11, 3, 1, None)));
    owner.kill();
    assert_eq!(counter(&here).ask(&Command::Read), Ok((11, 3, 3, None)));
}

#[test]
fn s_10_7_an_append_whose_outcome_is_unknown_is_repeated_and_counts_once() {
    let stores = SharedMemoryStore::new();
    let (node, plan) = node(&stores);
    let mut counter = counter(&node);
    lock(&plan.faults).extend([Fault::FailDone, Fault::FailUndone, Fault::Unavailable]);
    let first = counter.send(&Command::Add(1));
    let second = counter.send(&Command::Add(2));
    assert_eq!(counter.next_answer(), Some((first, Ok((1, 1, 0, None)))));
    assert_eq!(counter.next_answer(), Some((second, Ok((3, 2, 0, None)))));
    lock(&plan.faults).extend([Fault::FailUndone, Fault::FailDone, Fault::FailDone]);
    assert_eq!(counter.ask(&Command::AddEach(vec![4, 8])), Ok((15, 4, 0, None)));
    counter.kill();
    let mut next = super::tests::counter(&node);
    assert_eq!(next.ask(&Command::Read), Ok((15, 4, 4, None)));
}

#[test]
fn who_is_fenced_after_an_unknown_outcome_says_that_it_may_have_been_done() {
    let stores = SharedMemoryStore::new();
    let ((here, plan), (there, _)) = (node(&stores), node(&stores));
    let mut stale = counter(&here);
    assert_eq!(stale.ask(&Command::Add(1)), Ok((1, 1, 0, None)));
    let gate = Arc::new(Gate::default());
    lock(&plan.faults).extend([Fault::FailDone, Fault::Wait(Arc::clone(&gate))]);
    let asked = stale.send(&Command::Add(2));
    while gate.reached.load(Ordering::SeqCst) == 0 {
        std::thread::yield_now();
    }
    let mut owner = counter(&there);
    assert_eq!(owner.ask(&Command::Read), Ok((3, 2, 2, None)));
    gate.open();
    let unknown = failed(DurableFailure::FencedUnknown);
    assert_eq!(stale.next_answer(), Some((asked, unknown)));
    assert!(DurableFailure::FencedUnknown.may_have_been_handled());
    assert_eq!(stale.next_answer(), None);
    assert_eq!(owner.ask(&Command::Add(4)), Ok((7, 3, 2, None)));
}

#[test]
fn nothing_is_answered_before_it_is_durable_and_commands_wait_in_order() {
    let (node, plan) = node(&SharedMemoryStore::new());
    let mut counter = counter(&node);
    assert_eq!(counter.ask(&Command::Read), Ok((0, 0, 0, None)));
    let gate = Arc::new(Gate::default());
    lock(&plan.faults).push_back(Fault::Wait(Arc::clone(&gate)));
    let asked: Vec<u64> = (0..4).map(|_| counter.send(&Command::Add(1))).collect();
    while gate.reached.load(Ordering::SeqCst) == 0 {
        std::thread::yield_now();
    }
    assert!(!counter.has_answered(), "the store still works on it");
    gate.open();
    for (value, asked) in (1..).zip(asked) {
        assert_eq!(counter.next_answer(), Some((asked, Ok((value, value, 0, None)))));
    }
}

#[test]
fn an_entity_whose_store_stands_still_can_be_killed() {
    let (node, plan) = node(&SharedMemoryStore::new());
    let mut stuck = counter(&node);
    assert_eq!(stuck.ask(&Command::Read), Ok((0, 0, 0, None)));
    let gate = Arc::new(Gate::default());
    lock(&plan.faults).push_back(Fault::Wait(Arc::clone(&gate)));
    let open = stuck.send(&Command::Add(1));
    let waiting = stuck.send(&Command::Add(2));
    while gate.reached.load(Ordering::SeqCst) == 0 {
        std::thread::yield_now();
    }
    let failed = |failure| Err(AskError::Failed(failure));
    let left = stuck.kill();
    assert_eq!(left[0], (open, failed(AskFailure::EntityStopped)), "perhaps");
    assert_eq!(left[1], (waiting, failed(AskFailure::EntityStoppedUnhandled)));
    gate.open();
    assert_eq!(counter(&node).ask(&Command::Read), Ok((1, 1, 1, None)));
}

#[test]
fn a_full_store_is_said_at_once_and_changes_nothing() {
    let (node, plan) = node(&SharedMemoryStore::new());
    let mut counter = counter(&node);
    assert_eq!(counter.ask(&Command::Add(1)), Ok((1, 1, 0, None)));
    lock(&plan.faults).extend([Fault::Full, Fault::Full]);
    assert_eq!(counter.ask(&Command::Add(2)), failed(DurableFailure::Full));
    assert_eq!(
        counter.ask(&Command::Read),
        Ok((1, 1, 0, None)),
        "reading goes on"
    );
    assert_eq!(counter.ask(&Command::Add(2)), failed(DurableFailure::Full));
    assert_eq!(
        counter.ask(&Command::Add(2)),
        Ok((3, 2, 0, None)),
        "there is room again"
    );
}

#[test]
fn a_store_that_is_away_for_long_is_said_and_the_entity_goes_on_with_it() {
    let (node, plan) = node(&SharedMemoryStore::new());
    let mut counter = counter(&node);
    assert_eq!(counter.ask(&Command::Add(1)), Ok((1, 1, 0, None)));
    lock(&plan.faults).extend(vec![Fault::Unavailable; 200]);
    let unavailable = failed(DurableFailure::Unavailable);
    assert_eq!(counter.ask(&Command::Add(2)), unavailable);
    assert_eq!(counter.ask(&Command::Add(2)), unavailable);
    lock(&plan.faults).clear();
    assert_eq!(counter.ask(&Command::Add(2)), Ok((3, 2, 0, None)));
    counter.kill();
    assert_eq!(
        super::tests::counter(&node).ask(&Command::Read),
        Ok((3, 2, 2, None))
    );
}

#[test]
fn who_waits_behind_an_unknown_outcome_hears_that_nothing_of_it_was_done() {
    let (node, plan) = node(&SharedMemoryStore::new());
    let mut counter = counter(&node);
    assert_eq!(counter.ask(&Command::Add(1)), Ok((1, 1, 0, None)));
    lock(&plan.faults).extend(vec![Fault::FailUndone; 200]);
    let open = counter.send(&Command::Add(2));
    let waiting = counter.send(&Command::Add(4));
    let unavailable = failed(DurableFailure::Unavailable);
    assert_eq!(counter.next_answer(), Some((waiting, unavailable)));
    lock(&plan.faults).clear();
    assert_eq!(counter.next_answer(), Some((open, Ok((3, 2, 0, None)))));
    assert_eq!(counter.ask(&Command::Read), Ok((3, 2, 0, None)));
}

#[test]
fn nothing_is_kept_of_a_handler_that_panics_or_gives_up() {
    for failing in [Command::Panic, Command::GiveUp] {
        let (node, _) = node(&SharedMemoryStore::new());
        let mut first = counter(&node);
        assert_eq!(first.ask(&Command::Add(1)), Ok((1, 1, 0, None)));
        let stopped = Err(AskError::Failed(AskFailure::EntityStopped));
        assert_eq!(first.ask(&failing), stopped);
        assert_eq!(counter(&node).ask(&Command::Read), Ok((1, 1, 1, None)));
    }
}

#[test]
fn an_entity_may_stop_behind_its_events() {
    let (node, _) = node(&SharedMemoryStore::new());
    let mut first = counter(&node);
    assert_eq!(first.ask(&Command::AddAndStop(5)), Ok((5, 1, 0, None)));
    assert_eq!(first.next_answer(), None);
    assert_eq!(counter(&node).ask(&Command::Read), Ok((5, 1, 1, None)));
}

#[test]
fn a_recovery_begins_with_the_newest_snapshot() {
    let stores = SharedMemoryStore::new();
    let (node, plan) = node(&stores);
    for (retention, deletes) in [
        (Retention::snapshot_every(10), false),
        (Retention::snapshot_every(10).delete_covered_events(), true),
        (Retention::events_only().or_bytes(60), false),
    ] {
        let mut first = counter_with(&node, retention);
        let before = first.ask(&Command::Read).unwrap().1;
        for number in 1..=25 {
            let answer = first.ask(&Command::Add(1));
            assert_eq!(answer.map(|answer| answer.1), Ok(before + number));
        }
        first.drain();
        let orders = std::mem::take(&mut *lock(&plan.orders));
        assert_eq!(orders.contains(&"delete"), deletes, "{orders:?}");
        let (value, events, replayed, snapshot) = counter_with(&node, retention).ask(&Command::Read).unwrap();
        assert_eq!((value, events), (before + 25, before + 25));
        let snapshot = snapshot.expect("there is one");
        assert_eq!(snapshot + replayed, events);
        assert!(replayed <= 10, "{replayed}");
    }
}

#[test]
fn bytes_that_were_replayed_count_to_the_next_snapshot() {
    let (node, plan) = node(&SharedMemoryStore::new());
    let retention = Retention::events_only().or_bytes(100);
    let keeps = || {
        lock(&plan.orders)
            .iter()
            .filter(|order| **order == "keep")
            .count()
    };
    for kept in [0, 0, 1] {
        let mut counter = counter_with(&node, retention);
        assert!(counter.ask(&Command::Name("x".repeat(40))).is_ok());
        counter.drain();
        assert_eq!(keeps(), kept, "a third of it each");
    }
}

#[test]
fn without_snapshots_everything_is_read_page_by_page() {
    let (node, plan) = node(&SharedMemoryStore::new());
    let mut first = counter_with(&node, Retention::events_only());
    let name = "x".repeat(100 * 1024);
    for _ in 0..7 {
        first.ask(&Command::Name(name.clone())).unwrap();
    }
    first.drain();
    let heard = Arc::<AtomicU64>::default();
    let counted = Arc::clone(&heard);
    let mut second = node.entity(("counter", b"7"), move |_| Progress(Arc::clone(&counted)));
    assert_eq!(second.ask(&Command::Read), Ok((0, 7, 0, None)));
    assert_eq!(heard.load(Ordering::SeqCst), 4, "each part was said");
    second.drain();
    lock(&plan.orders).clear();
    assert_eq!(counter(&node).ask(&Command::Read), Ok((0, 7, 7, None)));
    let reads = lock(&plan.orders)
        .iter()
        .filter(|order| **order == "read")
        .count();
    assert_eq!(reads, 4, "two events of 100 KiB fit into a page of 256");
}

#[test]
fn what_is_beyond_a_limit_is_refused_and_nothing_of_it_kept() {
    let (node, _) = node(&SharedMemoryStore::new());
    let mut entity = counter(&node);
    let too_large = failed(DurableFailure::TooLarge);
    let all = Command::AddEach(vec![1; limits::EVENTS_PER_COMMAND_MAX]);
    assert_eq!(entity.ask(&all), Ok((1_024, 1_024, 0, None)));
    let more = Command::AddEach(vec![1; limits::EVENTS_PER_COMMAND_MAX + 1]);
    assert_eq!(entity.ask(&more), too_large);
    // The variant and the length take four bytes of an event.
    let largest = "x".repeat(limits::EVENT_BYTES_MAX - 4);
    assert_eq!(
        entity.ask(&Command::Name(largest.clone())),
        Ok((1_024, 1_025, 0, None))
    );
    assert_eq!(entity.ask(&Command::Name(largest + "x")), too_large);
    assert_eq!(entity.ask(&Command::Read), Ok((1_024, 1_025, 0, None)));
    let id = vec![b'x'; 1_024];
    let mut unnamed: Counting = node.entity(("counter", &id), |_| Counter {
        retention: Retention::default(),
        recovery: Recovery::default(),
        heard: 0,
    });
    assert_eq!(unnamed.ask(&Command::Read), failed(DurableFailure::NameTooLong));
}

#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
struct Profile {
    name: String,
    age: Option<u32>,
}

impl Versioned for Profile {
    const VERSION: u32 = 3;

    fn upcast(version: u32, bytes: &[u8]) -> Result<Self, SchemaError> {
        match version {
            2 => read(bytes).map(|name| Self { name, age: None }),
            _ => Err(SchemaError::UnknownVersion { version }),
        }
    }
}

#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
struct OldProfile(String);

impl Versioned for OldProfile {
    const VERSION: u32 = 2;
}

#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
struct OldestProfile(u8);

impl Versioned for OldestProfile {}

#[derive(Serialize, Deserialize)]
enum Edit {
    Name(String),
    Delete,
    Read,
}

struct User<S>(std::marker::PhantomData<fn(S)>);

trait Named: Versioned + Default + Sync {
    fn named(name: String) -> Self;
    fn name(&self) -> String;
}

impl Named for Profile {
    fn named(name: String) -> Self {
        Self { name, age: Some(7) }
    }
    fn name(&self) -> String {
        format!("{} {:?}", self.name, self.age)
    }
}

impl Named for OldProfile {
    fn named(name: String) -> Self {
        Self(name)
    }
    fn name(&self) -> String {
        self.0.clone()
    }
}

impl Named for OldestProfile {
    fn named(_: String) -> Self {
        Self(1)
    }
    fn name(&self) -> String {
        self.0.to_string()
    }
}

impl<S: Named> DurableState for User<S> {
    type Command = Edit;
    type Reply = String;
    type State = S;

    async fn handle(&mut self, _: &EntityContext, state: &S, edit: Edit) -> Change<Self> {
        match edit {
            Edit::Name(name) => Change::to(S::named(name)).reply(state.name()),
            Edit::Delete => Change::delete().reply(state.name()),
            Edit::Read => Change::reply(state.name()),
        }
    }
}

fn user<S: Named>(node: &DurableHost) -> DurableEntity<Edit, String> {
    node.entity(("user", b"ada"), |_| super::replacing::Replacing {
        inner: User::<S>(std::marker::PhantomData),
        nothing: S::default(),
    })
}

#[test]
fn a_durable_state_keeps_the_newest_alone() {
    let (node, plan) = node(&SharedMemoryStore::new());
    let mut first = user::<OldProfile>(&node);
    assert_eq!(first.ask(&Edit::Read), Ok(String::new()));
    for number in 0..50 {
        first.ask(&Edit::Name(number.to_string())).unwrap();
    }
    assert!(lock(&plan.orders).contains(&"delete"));
    first.kill();
    let mut second = user::<OldProfile>(&node);
    assert_eq!(second.ask(&Edit::Delete), Ok("49".to_owned()));
    second.kill();
    assert_eq!(user::<OldProfile>(&node).ask(&Edit::Read), Ok(String::new()));
}

#[test]
fn an_earlier_version_is_upcast_and_one_that_cannot_be_read_is_said() {
    let (node, _) = node(&SharedMemoryStore::new());
    user::<OldProfile>(&node)
        .ask(&Edit::Name("ada".to_owned()))
        .unwrap();
    let mut new = user::<Profile>(&node);
    assert_eq!(new.ask(&Edit::Read), Ok("ada None".to_owned()));
    assert_eq!(new.ask(&Edit::Name("eve".to_owned())), Ok("ada None".to_owned()));
    new.kill();
    let unreadable = Err(AskError::NotDurable(DurableFailure::Unreadable));
    let mut later = user::<OldProfile>(&node);
    assert_eq!(later.ask(&Edit::Read), unreadable, "written by a later version");
    later.drain();
    let mut other = user::<OldestProfile>(&node);
    assert_eq!(other.ask(&Edit::Read), unreadable);
    other.drain();
    assert_eq!(
        user::<Profile>(&node).ask(&Edit::Read),
        Ok("eve Some(7)".to_owned())
    );
}

#[test]
fn golden_files_say_what_cannot_be_read_any_more() {
    let folder = std::env::temp_dir().join(format!("quorate-golden-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let write = |name: &str, bytes: &[u8]| std::fs::write(folder.join(name), bytes).unwrap();
    let (old, new) = (OldProfile("ada".to_owned()), Profile::named("ada".to_owned()));
    write("v1-one.bin", &schema::to_bytes(&OldestProfile(1)).unwrap());
    write("v2-ada.bin", &schema::to_bytes(&old).unwrap());
    write("v3-ada.bin", &schema::to_bytes(&new).unwrap());
    let upcast = Profile {
        name: "ada".to_owned(),
        age: None,
    };
    let complaint = |golden: Golden<Profile>| {
        let said = std::panic::catch_unwind(|| golden.check());
        said.err()
            .and_then(|said| said.downcast_ref::<String>().cloned())
            .unwrap_or_default()
    };
    let golden = || {
        Golden::<Profile>::within(&folder)
            .sample("ada", &new)
            .earlier(2, "ada", &upcast)
    };
    let said = complaint(golden().earlier(1, "one", &upcast));
    assert!(said.contains("v1-one.bin: version 1 has no upcaster"), "{said}");
    let said = complaint(golden());
    assert!(said.contains("v1-one.bin: no sample names it"), "{said}");
    assert!(said.contains("version 1 has no sample"), "{said}");
    let said = complaint(golden().sample("eve", &Profile::named("eve".to_owned())));
    assert!(said.contains("v3-eve.bin"), "{said}");
    let changed = Golden::<Profile>::within(&folder).sample("ada", &upcast);
    assert!(complaint(changed).contains("raise `VERSION`"));
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_damaged_record_is_said_and_is_not_skipped() {
    let stores = SharedMemoryStore::new();
    let (node, _) = node(&stores);
    let mut first = counter(&node);
    for _ in 0..3 {
        first.ask(&Command::Add(1)).unwrap();
    }
    first.kill();
    stores.damage(|key| key.first() == Some(&3) && key.last() == Some(&2));
    let mut second = counter(&node);
    assert_eq!(second.ask(&Command::Read), failed(DurableFailure::Damaged));
    assert_eq!(second.ask(&Command::Add(1)), failed(DurableFailure::Damaged));
    second.drain();
}

#[test]
fn s_10_7_an_event_that_is_gone_is_missed_at_the_beginning_and_between_others() {
    let stores = SharedMemoryStore::new();
    let (node, plan) = node(&stores);
    let mut first = counter(&node);
    for _ in 0..3 {
        first.ask(&Command::Add(1)).unwrap();
    }
    first.kill();
    for gone in 1..=2 {
        *lock(&plan.gone) = Some(gone);
        let mut second = counter(&node);
        assert_eq!(
            second.ask(&Command::Read),
            failed(DurableFailure::Damaged),
            "{gone}"
        );
        second.drain();
    }
    *lock(&plan.gone) = None;
    assert_eq!(counter(&node).ask(&Command::Read).unwrap().0, 3);
}

#[test]
fn entities_wait_for_a_place_at_the_store_and_all_get_one() {
    let stores = SharedMemoryStore::new();
    let (node, plan) = node(&stores);
    let gate = Arc::new(Gate::default());
    lock(&plan.faults).push_back(Fault::Wait(Arc::clone(&gate)));
    let mut entities: Vec<Counting> = (0..40_u32)
        .map(|number| {
            node.entity(("counter", &number.to_be_bytes()), |_| Counter {
                retention: Retention::default(),
                recovery: Recovery::default(),
                heard: 0,
            })
        })
        .collect();
    for entity in &mut entities {
        entity.send(&Command::Add(1));
    }
    while gate.reached.load(Ordering::SeqCst) == 0 {
        std::thread::yield_now();
    }
    gate.open();
    for entity in &entities {
        assert_eq!(entity.next_answer(), Some((1, Ok((1, 1, 0, None)))));
    }
    drop(entities);
    node.stop();
}

#[test]
fn s_10_7_an_entity_that_keeps_no_snapshots_goes_on_when_its_log_over_voters_is_full() {
    const LOG_BYTES_MAX: usize = 256 << 10;
    let stores = SharedMemoryStore::new();
    let (host, _) = node(&stores);
    voter::serve(&host.commands, LOG_BYTES_MAX, Duration::ZERO);
    let begin = || {
        host.entity_over_voters(("Counter", b"7"), |_| Counter {
            retention: Retention::events_only(),
            recovery: Recovery::default(),
            heard: 0,
        })
    };
    let mut counter = begin();
    for number in 0..40 {
        let name = "x".repeat(20_000 + number);
        assert!(counter.ask(&Command::Name(name)).is_ok(), "of event {number}");
    }
    counter.kill();
    // What the snapshot covers is read no more.
    let (_, events, replayed, covered) = begin().ask(&Command::Read).unwrap();
    assert_eq!(events, 40);
    assert!(
        replayed < 14 && covered == Some(events - replayed),
        "{replayed} behind {covered:?}"
    );
}

/// Who asks meanwhile hears that the log cannot be had at present.
#[test]
fn s_10_7_a_log_whose_opening_takes_long_is_opened_in_the_end() {
    let stores = SharedMemoryStore::new();
    let (host, _) = node(&stores);
    // Longer than an opening is waited for, whose clock runs ten times as fast here.
    voter::serve(&host.commands, 1 << 20, Duration::from_secs(1));
    let mut counter = host.entity_over_voters(("Counter", b"7"), |_| Counter {
        retention: Retention::default(),
        recovery: Recovery::default(),
        heard: 0,
    });
    let answers = (0..50).map(|_| counter.ask(&Command::Add(1)));
    let first = answers.into_iter().find(Result::is_ok);
    assert_eq!(first, Some(Ok((1, 1, 0, None))));
}
