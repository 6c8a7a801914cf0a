//! The thread that asks the keeper, with a keeper that fails and loses on demand. Real time, in fractions of
//! a second. Spec: reliability I-26.

use std::io;
use std::sync::atomic::{AtomicU8, Ordering};

use quorate_core::ident::Address;
use quorate_core::ordered::OrderedSet;

use super::*;
use crate::lease::MemoryLeases;

const TTL: Duration = Duration::from_millis(200);
const LIMIT: Duration = Duration::from_secs(10);

/// A keeper that can be told to fail or to lose what it keeps.
#[derive(Debug, Default)]
struct Moody {
    inner: MemoryLeases,
    mood: AtomicU8,
}

const FAILS: u8 = 1;
const LOSES: u8 = 2;
const HANGS: u8 = 3;
const GRANTS_LATE: u8 = 4;

impl LeaseKeeper for Moody {
    fn acquire(&self, name: &str, owner: &UniqueAddress, time_to_live: Duration) -> io::Result<Option<u64>> {
        let granted = self.inner.acquire(name, owner, time_to_live);
        if self.mood.load(Ordering::SeqCst) == GRANTS_LATE {
            thread::sleep(time_to_live);
        }
        granted
    }

    fn renew(&self, name: &str, owner: &UniqueAddress, token: u64) -> io::Result<bool> {
        match self.mood.load(Ordering::SeqCst) {
            FAILS => Err(io::Error::other("moody")),
            LOSES => Ok(false),
            HANGS => {
                while self.mood.load(Ordering::SeqCst) == HANGS {
                    thread::sleep(TTL / 100);
                }
                self.inner.renew(name, owner, token)
            }
            _ => self.inner.renew(name, owner, token),
        }
    }

    fn release(&self, name: &str, owner: &UniqueAddress) -> io::Result<()> {
        self.inner.release(name, owner)
    }
}

fn owner(uid: u64) -> UniqueAddress {
    UniqueAddress::new(Address::new("host", 7355).unwrap(), uid)
}

fn acquire(uid: u64) -> LeaseOrder {
    LeaseOrder::Acquire {
        name: "sbr".into(),
        owner: owner(uid),
        time_to_live: TTL,
    }
}

fn release(uid: u64) -> LeaseOrder {
    LeaseOrder::Release {
        name: "sbr".into(),
        owner: owner(uid),
    }
}

/// The next report, however long the thread takes.
fn answer(leases: &Leases) -> LeaseOutcome {
    let reports = &leases.thread.as_ref().unwrap().reports;
    reports.recv_timeout(LIMIT).unwrap().outcome
}

fn start(keeper: &Arc<Moody>) -> Leases {
    let keeper: Arc<dyn LeaseKeeper> = Arc::<Moody>::clone(keeper);
    Leases::start(keeper, Arc::default()).unwrap()
}

#[test]
fn i_26_a_held_lease_is_renewed_until_it_is_given_back() {
    let keeper = Arc::new(Moody::default());
    let (mut mine, mut other) = (start(&keeper), start(&keeper));
    assert_eq!(mine.order(Requester::Resolver, acquire(1)), None);
    assert_eq!(answer(&mine), LeaseOutcome::Granted { token: 1 });
    // Real time, because the thread's is: three times to live, in which only renewing keeps it.
    thread::sleep(TTL * 3);
    other.order(Requester::Resolver, acquire(2));
    assert_eq!(answer(&other), LeaseOutcome::Denied);
    assert_eq!(mine.next_report(), None);
    mine.order(Requester::Resolver, release(1));
    assert_eq!(answer(&mine), LeaseOutcome::Released);
    other.order(Requester::Resolver, acquire(2));
    assert_eq!(answer(&other), LeaseOutcome::Granted { token: 2 });
}

#[test]
fn i_26_a_holder_learns_that_it_lost_the_lease_even_from_a_keeper_that_cannot_be_asked() {
    for mood in [FAILS, LOSES] {
        let keeper = Arc::new(Moody::default());
        let mut leases = start(&keeper);
        leases.order(Requester::Resolver, acquire(1));
        assert_eq!(answer(&leases), LeaseOutcome::Granted { token: 1 });
        keeper.mood.store(mood, Ordering::SeqCst);
        assert_eq!(answer(&leases), LeaseOutcome::Lost);
    }
}

#[test]
fn a_node_that_ends_leaves_its_lease_to_expire() {
    let keeper = Arc::new(Moody::default());
    let mut leases = start(&keeper);
    leases.order(Requester::Resolver, acquire(1));
    assert_eq!(answer(&leases), LeaseOutcome::Granted { token: 1 });
    leases.stop();
    assert_eq!(keeper.acquire("sbr", &owner(2), TTL).unwrap(), None);
    thread::sleep(TTL * 2);
    assert_eq!(keeper.acquire("sbr", &owner(2), TTL).unwrap(), Some(2));
}

#[test]
fn a_node_that_ends_first_gives_back_what_it_was_told_to() {
    let keeper = Arc::new(Moody::default());
    let mut leases = start(&keeper);
    leases.order(Requester::Singleton, acquire(1));
    assert_eq!(answer(&leases), LeaseOutcome::Granted { token: 1 });
    leases.order(Requester::Singleton, release(1));
    leases.stop();
    let began = Instant::now();
    while !leases.has_ended() {
        assert!(began.elapsed() < LIMIT, "it ends");
        thread::yield_now();
    }
    assert_eq!(keeper.acquire("sbr", &owner(2), LIMIT).unwrap(), Some(2));
}

#[test]
fn without_a_keeper_every_lease_is_refused() {
    let mut leases = Leases::default();
    let denied = leases.order(Requester::Resolver, acquire(1)).unwrap();
    assert_eq!(denied.outcome, LeaseOutcome::Denied);
    let released = leases.order(Requester::Resolver, release(1)).unwrap();
    assert_eq!(released.outcome, LeaseOutcome::Released);
}

/// What the loop hears next, looking as it does.
fn heard(leases: &Leases) -> (Requester, LeaseReport) {
    let began = Instant::now();
    loop {
        if let Some(report) = leases.next_report() {
            return report;
        }
        assert!(began.elapsed() < LIMIT, "a report");
        // As the loop does, which sleeps until then.
        thread::sleep(leases.safe_for().unwrap_or(TTL).min(TTL / 100));
    }
}

#[test]
fn i_26_a_lease_is_lost_in_time_although_its_keeper_hangs_and_stays_lost_when_it_comes_back() {
    let keeper = Arc::new(Moody::default());
    let mut leases = start(&keeper);
    leases.order(Requester::Singleton, acquire(1));
    let granted = LeaseOutcome::Granted { token: 1 };
    assert_eq!(
        heard(&leases),
        (Requester::Singleton, report("sbr".into(), granted))
    );
    keeper.mood.store(HANGS, Ordering::SeqCst);
    // The keeper answers nothing at all: only the loop's own look can tell.
    assert_eq!(heard(&leases).1.outcome, LeaseOutcome::Lost);
    assert_eq!(leases.safe_for(), None);
    keeper.mood.store(0, Ordering::SeqCst);
    leases.order(Requester::Singleton, acquire(1));
    assert!(matches!(heard(&leases).1.outcome, LeaseOutcome::Granted { .. }));
    assert!(leases.safe_for().is_some());
}

#[test]
fn i_26_what_is_granted_when_its_time_is_over_is_not_had() {
    let keeper = Arc::new(Moody::default());
    keeper.mood.store(GRANTS_LATE, Ordering::SeqCst);
    let mut leases = start(&keeper);
    leases.order(Requester::Resolver, acquire(1));
    assert_eq!(heard(&leases).1.outcome, LeaseOutcome::Denied);
    assert_eq!(leases.safe_for(), None);
}

#[test]
fn i_26_of_several_leases_the_first_that_ends_is_looked_at() {
    let keeper = Arc::new(Moody::default());
    let mut leases = start(&keeper);
    for (name, time_to_live) in [("long", LIMIT), ("sbr", TTL), ("longer", 2 * LIMIT)] {
        let (name, owner) = (LeaseName::from(name), owner(1));
        let order = LeaseOrder::Acquire {
            name,
            owner,
            time_to_live,
        };
        leases.order(Requester::Singleton, order);
        assert!(matches!(heard(&leases).1.outcome, LeaseOutcome::Granted { .. }));
    }
    assert!(leases.safe_for().is_some_and(|left| left <= TTL));
    keeper.mood.store(HANGS, Ordering::SeqCst);
    let lost = heard(&leases).1;
    keeper.mood.store(0, Ordering::SeqCst);
    assert_eq!(lost, report("sbr".into(), LeaseOutcome::Lost));
}

#[test]
fn as_many_leases_as_there_may_be_singletons_are_asked_for_at_once_and_each_is_answered() {
    let keeper = Arc::new(Moody::default());
    let mut leases = start(&keeper);
    let names: OrderedSet<LeaseName> = (0..300).map(|name| LeaseName::from(name.to_string())).collect();
    for name in &names {
        let order = LeaseOrder::Acquire {
            name: LeaseName::clone(name),
            owner: owner(1),
            time_to_live: LIMIT,
        };
        assert_eq!(leases.order(Requester::Singleton, order), None);
    }
    let granted = |_| {
        let (_, report) = heard(&leases);
        assert!(matches!(report.outcome, LeaseOutcome::Granted { .. }));
        report.name
    };
    assert_eq!(names.iter().map(granted).collect::<OrderedSet<_>>(), names);
}
