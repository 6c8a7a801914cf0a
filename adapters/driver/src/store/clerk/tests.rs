//! The thread that asks the store, with a store that stalls, fails, fills up and panics on demand. Spec:
//! reliability I-81 to I-83.

use std::sync::atomic::AtomicU64;
use std::sync::{Condvar, Mutex};
use std::task::{Context, Poll, Waker};

use quorate_core::store::{Bytes, Change, StoreAnswer, StoreIdentity};

use super::*;
use crate::store::MemoryStore;
use crate::sync::lock;

const LIMIT: Duration = Duration::from_secs(20);

/// What the next calls do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mood {
    Good,
    Stall(Duration),
    /// Takes as long as this is its mood.
    Wait,
    Fail,
    Panic,
    Forget,
    FullBeyond(usize),
    /// Full for several, and for one alone it fails.
    FullThenFail,
}

/// What the test sees and sets.
#[derive(Debug)]
struct Control {
    mood: Mutex<Mood>,
    changed: Condvar,
    opens_fail: AtomicU64,
    opened: AtomicU64,
    groups: Mutex<Vec<usize>>,
}

impl Control {
    fn set(&self, mood: Mood) {
        *lock(&self.mood) = mood;
        self.changed.notify_all();
    }
}

#[derive(Debug)]
struct Moody {
    inner: MemoryStore,
    control: Arc<Control>,
}

impl Store for Moody {
    fn open(&mut self) -> Result<StoreIdentity, StoreFault> {
        let fails = &self.control.opens_fail;
        if fails.load(Ordering::SeqCst) > 0 {
            fails.fetch_sub(1, Ordering::SeqCst);
            return Err(StoreFault::Unavailable(io::Error::other("moody")));
        }
        self.control.opened.fetch_add(1, Ordering::SeqCst);
        self.inner.open()
    }

    fn commit(&mut self, orders: &[(Space, &StoreOrder)]) -> Result<Vec<Outcome>, StoreFault> {
        lock(&self.control.groups).push(orders.len());
        let mood = *lock(&self.control.mood);
        match mood {
            Mood::Good => self.inner.commit(orders),
            Mood::Stall(time) => {
                thread::sleep(time);
                self.inner.commit(orders)
            }
            Mood::Wait => {
                let is_so = |mood: &mut Mood| *mood == Mood::Wait;
                drop(self.control.changed.wait_while(lock(&self.control.mood), is_so));
                self.inner.commit(orders)
            }
            Mood::Fail => {
                *lock(&self.control.mood) = Mood::Good;
                Err(StoreFault::Failed(io::Error::other("fsync")))
            }
            Mood::Panic => {
                *lock(&self.control.mood) = Mood::Good;
                panic!("moody")
            }
            Mood::Forget => Ok(Vec::new()),
            Mood::FullBeyond(most) if orders.iter().any(|(_, order)| order.bytes() > most) => {
                Err(StoreFault::Full(io::Error::other("full")))
            }
            Mood::FullBeyond(_) => self.inner.commit(orders),
            Mood::FullThenFail if orders.len() > 1 => Err(StoreFault::Full(io::Error::other("full"))),
            Mood::FullThenFail => {
                *lock(&self.control.mood) = Mood::Good;
                Err(StoreFault::Failed(io::Error::other("fsync")))
            }
        }
    }
}

fn start(mood: Mood) -> (Stores, Arc<Control>) {
    let control = Arc::new(Control {
        mood: Mutex::new(mood),
        changed: Condvar::new(),
        opens_fail: AtomicU64::new(0),
        opened: AtomicU64::new(0),
        groups: Mutex::default(),
    });
    let store = Moody {
        inner: MemoryStore::new(),
        control: Arc::clone(&control),
    };
    let stores = Stores::start(Box::new(store), Arc::default()).unwrap();
    (stores, control)
}

fn put(id: u64, len: usize) -> StoreRequest {
    let change = Change::Put {
        key: id.to_be_bytes().as_slice().into(),
        value: vec![7; len].into(),
    };
    let order = StoreOrder::Write { batch: vec![change] };
    StoreRequest { id, order }
}

fn read(id: u64, of: u64) -> StoreRequest {
    let key: Bytes = of.to_be_bytes().as_slice().into();
    let order = StoreOrder::Read { key };
    StoreRequest { id, order }
}

fn ask(stores: &Stores, request: StoreRequest) {
    assert_eq!(stores.order(Requester::Ddata, request), None);
}

/// The next report, however long the thread takes.
fn answer(stores: &Stores) -> (u64, Outcome) {
    let started = Instant::now();
    while started.elapsed() < LIMIT {
        if let Some((owner, report)) = stores.next_report() {
            assert_eq!(owner, Requester::Ddata);
            return (report.id, report.outcome);
        }
        thread::sleep(Duration::from_millis(1));
    }
    panic!("no answer within {LIMIT:?}");
}

fn until(mut done: impl FnMut() -> bool) {
    let started = Instant::now();
    while !done() {
        assert!(started.elapsed() < LIMIT);
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn i_83_a_store_that_stalls_keeps_nobody_waiting_and_what_waited_becomes_durable_together() {
    let stall = Duration::from_secs(2);
    let (stores, control) = start(Mood::Stall(stall));
    ask(&stores, put(0, 1));
    until(|| !lock(&control.groups).is_empty());
    let started = Instant::now();
    for id in 1..=100 {
        ask(&stores, put(id, 1));
    }
    let handed_in = started.elapsed();
    assert!(handed_in < stall / 2, "{handed_in:?} for a hundred orders");
    for id in 0..=100 {
        assert_eq!(
            answer(&stores),
            (id, Ok(StoreAnswer::Written)),
            "in the order asked"
        );
    }
    assert_eq!(*lock(&control.groups), [1, 100], "one commit for all that waited");
}

#[test]
fn what_waits_for_a_store_is_bounded_in_number_and_in_bytes() {
    let (stores, control) = start(Mood::Stall(Duration::from_secs(1)));
    ask(&stores, put(0, 1));
    until(|| !lock(&control.groups).is_empty());
    for id in 0..ORDERS_WAITING_MAX as u64 {
        ask(&stores, put(id, 1));
    }
    let busy = |report: Option<(Requester, StoreReport)>| report.map(|(_, report)| report.outcome);
    assert_eq!(
        busy(stores.order(Requester::Ddata, put(9, 1))),
        Some(Err(StoreError::Busy))
    );
    let (stores, control) = start(Mood::Stall(Duration::from_secs(1)));
    ask(&stores, put(0, 1));
    until(|| !lock(&control.groups).is_empty());
    let large = 4 << 20;
    for id in 0..(BYTES_WAITING_MAX / large - 1) as u64 {
        ask(&stores, put(id, large));
    }
    assert_eq!(
        busy(stores.order(Requester::Ddata, put(9, large))),
        Some(Err(StoreError::Busy))
    );
    assert_eq!(
        stores.order(Requester::Ddata, put(10, 1)),
        None,
        "a small one still fits"
    );
}

#[test]
fn i_81_after_a_failure_nothing_is_acknowledged_until_the_store_was_opened_again() {
    for mood in [Mood::Fail, Mood::Panic] {
        let (stores, control) = start(Mood::Good);
        ask(&stores, put(1, 1));
        assert_eq!(answer(&stores), (1, Ok(StoreAnswer::Written)));
        control.opens_fail.store(2, Ordering::SeqCst);
        *lock(&control.mood) = mood;
        ask(&stores, put(2, 1));
        assert_eq!(answer(&stores), (2, Err(StoreError::OutcomeUnknown)), "{mood:?}");
        ask(&stores, put(3, 1));
        let (id, outcome) = answer(&stores);
        assert_eq!((id, outcome), (3, Err(StoreError::Unavailable)), "{mood:?}");
        until(|| control.opened.load(Ordering::SeqCst) == 2);
        ask(&stores, put(4, 1));
        assert_eq!(answer(&stores), (4, Ok(StoreAnswer::Written)));
        let order = StoreOrder::Identify;
        ask(&stores, StoreRequest { id: 5, order });
        let (_, outcome) = answer(&stores);
        assert!(matches!(
            outcome,
            Ok(StoreAnswer::Identity(StoreIdentity { boot: 2, .. }))
        ));
    }
}

#[test]
fn what_waits_while_the_store_is_opened_for_the_first_time_is_done_then() {
    let (stores, _) = start(Mood::Good);
    ask(&stores, put(1, 1));
    assert_eq!(answer(&stores), (1, Ok(StoreAnswer::Written)));
}

#[test]
fn i_82_a_full_store_refuses_what_does_not_fit_and_nothing_else() {
    let (stores, control) = start(Mood::Wait);
    ask(&stores, put(0, 1));
    until(|| !lock(&control.groups).is_empty());
    ask(&stores, put(1, 1));
    ask(&stores, put(2, 1_000));
    ask(&stores, read(3, 0));
    control.set(Mood::FullBeyond(100));
    let answers: Vec<(u64, Outcome)> = (0..4).map(|_| answer(&stores)).collect();
    let value = StoreAnswer::Value(Some(vec![7].into()));
    let expected = [
        (0, Ok(StoreAnswer::Written)),
        (1, Ok(StoreAnswer::Written)),
        (2, Err(StoreError::Full)),
        (3, Ok(value)),
    ];
    assert_eq!(answers, expected);
    *lock(&control.mood) = Mood::Good;
    ask(&stores, put(4, 1_000));
    assert_eq!(answer(&stores), (4, Ok(StoreAnswer::Written)));
    assert_eq!(control.opened.load(Ordering::SeqCst), 1, "it stayed open");
}

#[test]
fn i_81_one_that_fails_while_its_orders_are_done_one_by_one_is_asked_for_none_of_the_others() {
    let (stores, control) = start(Mood::Wait);
    ask(&stores, put(0, 1));
    until(|| !lock(&control.groups).is_empty());
    for id in 1..=3 {
        ask(&stores, put(id, 1));
    }
    control.set(Mood::FullThenFail);
    let outcomes: Vec<Outcome> = (0..4).map(|_| answer(&stores).1).collect();
    let expected = [
        Ok(StoreAnswer::Written),
        Err(StoreError::OutcomeUnknown),
        Err(StoreError::Unavailable),
        Err(StoreError::Unavailable),
    ];
    assert_eq!(outcomes, expected);
    assert_eq!(*lock(&control.groups), [1, 3, 1]);
}

#[test]
fn what_is_large_together_becomes_durable_in_several_groups() {
    let (stores, control) = start(Mood::Wait);
    ask(&stores, put(0, 1));
    until(|| !lock(&control.groups).is_empty());
    for id in 1..=5 {
        ask(&stores, put(id, BYTES_PER_COMMIT_MAX / 2 - 1_000));
    }
    control.set(Mood::Good);
    for id in 0..=5 {
        assert_eq!(answer(&stores), (id, Ok(StoreAnswer::Written)));
    }
    assert_eq!(*lock(&control.groups), [1, 2, 2, 1]);
}

#[test]
fn a_store_that_forgets_an_order_has_failed() {
    let (stores, control) = start(Mood::Forget);
    ask(&stores, put(1, 1));
    assert_eq!(answer(&stores), (1, Err(StoreError::OutcomeUnknown)));
    *lock(&control.mood) = Mood::Good;
    until(|| control.opened.load(Ordering::SeqCst) == 2);
}

#[test]
fn what_was_taken_before_the_end_is_still_done() {
    let (mut stores, control) = start(Mood::Stall(Duration::from_millis(100)));
    for id in 0..10 {
        ask(&stores, put(id, 1));
    }
    stores.stop();
    assert!(!stores.has_ended());
    until(|| stores.has_ended());
    assert_eq!(lock(&control.groups).iter().sum::<usize>(), 10);
}

#[test]
fn without_a_store_every_order_is_answered_at_once() {
    let stores = Stores::default();
    let request = put(1, 1);
    let answer = request.without_a_store();
    assert_eq!(
        stores.order(Requester::Ddata, request),
        Some((Requester::Ddata, answer))
    );
    assert!(stores.has_ended());
}

/// However many tasks write: the machines of the node find a place, and every task gets one in the end.
#[test]
fn tasks_wait_for_a_place_and_never_take_those_of_machines() {
    const TASKS: u64 = 700;
    let (stores, control) = start(Mood::Stall(Duration::from_millis(50)));
    let access = stores.access().unwrap();
    let order = |id: u64| {
        let access = access.clone();
        Box::pin(async move { access.order(Space(16), put(id, 10).order).await })
    };
    let mut tasks: Vec<_> = (0..TASKS).map(order).collect();
    let mut cx = Context::from_waker(Waker::noop());
    assert!(
        tasks
            .iter_mut()
            .all(|task| task.as_mut().poll(&mut cx).is_pending())
    );
    // Half of all places: that so many are taken is the queue's business alone.
    for id in 0..400 {
        ask(&stores, put(id, 10));
    }
    for id in 0..400 {
        assert_eq!(answer(&stores), (id, Ok(StoreAnswer::Written)));
    }
    until(|| {
        tasks.retain_mut(
            |task| match task.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(outcome) => {
                    assert_eq!(outcome, Ok(StoreAnswer::Written));
                    false
                }
                Poll::Pending => true,
            },
        );
        tasks.is_empty()
    });
    assert!(
        lock(&control.groups).iter().any(|group| *group > 100),
        "they share commits"
    );
}

#[test]
fn who_lets_go_of_its_store_lets_go_of_the_tasks_that_wait_for_it() {
    let (mut stores, _) = start(Mood::Stall(Duration::from_millis(20)));
    let access = stores.access().unwrap();
    let mut open = Box::pin(access.order(Space(16), put(1, 10).order));
    let mut cx = Context::from_waker(Waker::noop());
    assert!(open.as_mut().poll(&mut cx).is_pending());
    stores.stop();
    until(|| stores.has_ended());
    let Poll::Ready(done) = open.as_mut().poll(&mut cx) else {
        panic!("what was taken is done before the thread ends");
    };
    assert_eq!(done, Ok(StoreAnswer::Written));
    let mut late = Box::pin(access.order(Space(16), put(2, 10).order));
    assert_eq!(
        late.as_mut().poll(&mut cx),
        Poll::Ready(Err(StoreError::Unavailable))
    );
}
