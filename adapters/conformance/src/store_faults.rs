//! What a store has to show on a disk that fails: [`crate::store_faults`]. Spec: reliability F-02, F-20,
//! F-22, F-23, I-80 to I-83.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::{Duration, Instant};

use quorate_core::store::{Outcome, Space, StoreAnswer, StoreError, StoreOrder};
use quorate_driver::store::{Store, StoreFault};
use quorate_driver::testing::StoreThread;

use super::disk::FaultyDisk;
use super::stores::{SPACE, append, get, one, open_log, put, read_log, value};

/// Puts a store onto a disk, without opening it.
pub type OnDisk<'a> = &'a dyn Fn(FaultyDisk) -> Box<dyn Store>;

/// Commits of one life; each appends one record and changes one of [`KEYS`] keys.
const COMMITS: u64 = 24;
const KEYS: u64 = 5;

/// Moments at which the power fails, spread over a life.
const POWER_FAILURES: u64 = 120;

/// Disks with a bit turned over.
const FLIPS: u64 = 250;

/// How long an fsync takes on a disk that stalls.
const STALL: Duration = Duration::from_secs(5);

/// How late a heartbeat may be: on a machine that has other things to do a little, and one that waits for the
/// disk until the stall is over.
const LATE_MAX: Duration = Duration::from_secs(2);

/// What was acknowledged, and what was asked for and may be there too.
#[derive(Clone, Copy, Debug, Default)]
struct AcknowledgedWrites {
    acknowledged: u64,
    asked: u64,
}

fn record(number: u64) -> String {
    format!(
        "record {number} {}",
        "x".repeat(usize::try_from(number % 40).unwrap_or(0) * 20)
    )
}

fn key(number: u64) -> String {
    format!("key {}", number % KEYS)
}

fn group(number: u64) -> [StoreOrder; 2] {
    [
        append(1, number - 1, &[&record(number)]),
        put(&key(number), record(number).as_bytes()),
    ]
}

/// One life: opens, and commits until all is done or the disk fails.
fn live(store: &mut dyn Store) -> AcknowledgedWrites {
    let mut told = AcknowledgedWrites::default();
    if store.open().is_err() || !commit(store, &[open_log(1)]) {
        return told;
    }
    for number in 1..=COMMITS {
        told.asked = number;
        if !commit(store, &group(number)) {
            break;
        }
        told.acknowledged = number;
    }
    told
}

/// Whether all of it was acknowledged.
fn commit(store: &mut dyn Store, orders: &[StoreOrder]) -> bool {
    let orders: Vec<(Space, &StoreOrder)> = orders.iter().map(|order| (SPACE, order)).collect();
    store
        .commit(&orders)
        .is_ok_and(|outcomes| outcomes.iter().all(Result::is_ok))
}

/// How many records are there, all of them in order, as they were written.
fn records(store: &mut dyn Store) -> u64 {
    let outcome = one(store, &read_log(0));
    let Ok(StoreAnswer::Records { records, more: false }) = outcome else {
        panic!("not a whole log: {outcome:?}");
    };
    for (number, found) in (1..).zip(&records) {
        assert_eq!(found.sequence, number, "a log has no gaps");
        assert_eq!(*found.bytes, *record(number).as_bytes());
    }
    records.len() as u64
}

/// The number that a key has, 0 if it has none.
fn number_of(store: &mut dyn Store, key: &str) -> u64 {
    match one(store, &get(key)) {
        Ok(StoreAnswer::Value(None)) => 0,
        Ok(StoreAnswer::Value(Some(found))) => {
            let is_it = |number: &u64| *found == *record(*number).as_bytes();
            (1..=COMMITS).find(is_it).expect("a value that was written")
        }
        other => panic!("{other:?}"),
    }
}

/// Everything acknowledged is there, nothing is there that was not asked for, and it can be written on.
fn verify(store: &mut dyn Store, told: AcknowledgedWrites, what: &str) {
    store
        .open()
        .unwrap_or_else(|fault| panic!("{what}: it does not open again: {fault}"));
    let found = records(store);
    assert!(
        (told.acknowledged..=told.asked).contains(&found),
        "{what}: {found} records, {told:?}"
    );
    for number in 1..=KEYS {
        let key = key(number);
        let at_least = (1..=told.acknowledged).rev().find(|n| n % KEYS == number % KEYS);
        let held = number_of(store, &key);
        assert!(
            held >= at_least.unwrap_or(0) && held <= told.asked,
            "{what}: {key} has {held}, {told:?}"
        );
    }
    assert_eq!(
        one(store, &put("afterwards", b"1")),
        Ok(StoreAnswer::Written),
        "{what}"
    );
    assert_eq!(one(store, &get("afterwards")), value(b"1"), "{what}");
}

/// The power fails at any write, and of what was not synced anything may be on the disk, whole, torn or not.
pub fn i_80_whatever_was_acknowledged_survives_a_power_failure_at_any_write(make: OnDisk<'_>) {
    let disk = FaultyDisk::new(1);
    let told = live(&mut *make(disk.clone()));
    assert_eq!(told.acknowledged, COMMITS, "without a fault all is acknowledged");
    let steps = disk.steps();
    assert!(steps > COMMITS * 2, "the disk was used: {steps} steps");
    let (mut cut_short, mut unacknowledged_and_there) = (0, 0);
    for moment in 1..=POWER_FAILURES {
        let disk = FaultyDisk::new(moment);
        disk.fail_power_after(steps * moment / POWER_FAILURES);
        let told = live(&mut *make(disk.clone()));
        cut_short += u64::from(told.acknowledged < COMMITS);
        let what = format!("power failure {moment}");
        let mut store = make(disk.after_power_failure());
        verify(&mut *store, told, &what);
        unacknowledged_and_there += u64::from(records(&mut *store) > told.acknowledged);
    }
    assert!(cut_short > POWER_FAILURES / 2, "the power did fail: {cut_short}");
    println!(
        "{POWER_FAILURES} power failures, {cut_short} in the middle of a life, {unacknowledged_and_there} times more was there than acknowledged"
    );
}

/// After an fsync that failed nothing is acknowledged until the store was opened again; what is seen then is
/// durable, even if it was in nothing but a cache before.
pub fn i_81_a_failed_fsync_acknowledges_nothing_until_the_store_was_opened_again(make: OnDisk<'_>) {
    let mut there = 0;
    for (round, fails) in [1, 1, 1, 1, 2, 3].into_iter().enumerate() {
        let seed = round as u64;
        let disk = FaultyDisk::new(seed);
        let mut store = make(disk.clone());
        let mut told = live(&mut *store);
        disk.fail_syncs(fails);
        // Far from where a store counts its lives, so that opening does not write it again by chance.
        let [fresh, _] = group(COMMITS + 1);
        let failed = store.commit(&[(SPACE, &fresh)]);
        assert!(matches!(failed, Err(StoreFault::Failed(_))), "{failed:?}");
        disk.fail_syncs(fails - 1);
        for order in [put("x", b"1"), get("key 1")] {
            let before = store.commit(&[(SPACE, &order)]);
            assert!(before.is_err(), "before it was opened again: {before:?}");
        }
        for attempt in 0.. {
            assert!(attempt < 10, "it opens once the disk is well");
            if store.open().is_ok() {
                break;
            }
        }
        let seen = records(&mut *store);
        // Nothing more is written: what was seen must not have been a cache's.
        told.asked = told.acknowledged + 1;
        drop(store);
        let mut store = make(disk.after_power_failure());
        store.open().expect("it opens again");
        assert_eq!(
            records(&mut *store),
            seen,
            "round {round}: what was seen once stays"
        );
        there += seen - told.acknowledged;
        verify(&mut *store, told, "after a failed fsync");
    }
    println!("6 failed fsyncs, {there} times what they were for was there all the same");
}

/// A full disk refuses to write, all that is there can be read, and writing goes on when there is room.
pub fn i_82_a_full_disk_refuses_cleanly_and_writes_resume(make: OnDisk<'_>) {
    let disk = FaultyDisk::new(1);
    let mut store = make(disk.clone());
    let mut told = live(&mut *store);
    let room = usize::try_from(disk.size().expect("the power is on")).unwrap_or(0);
    disk.set_capacity(room + 100_000);
    let large = vec![7; 60_000];
    let mut filled = 0;
    let fault = loop {
        let order = put(&format!("large {filled}"), &large);
        match store.commit(&[(SPACE, &order)]) {
            Ok(outcomes) => assert_eq!(outcomes, [Ok(StoreAnswer::Written)]),
            Err(fault) => break fault,
        }
        filled += 1;
        assert!(filled < 10_000, "the disk is full some time");
    };
    assert!(matches!(fault, StoreFault::Full(_)), "{fault}");
    assert_eq!(
        records(&mut *store),
        told.acknowledged,
        "what is there can be read"
    );
    for number in 0..filled {
        assert_eq!(one(&mut *store, &get(&format!("large {number}"))), value(&large));
    }
    assert_eq!(
        one(&mut *store, &get(&format!("large {filled}"))),
        Ok(StoreAnswer::Value(None))
    );
    disk.set_capacity(usize::MAX);
    let order = put("large again", &large);
    assert_eq!(
        one(&mut *store, &order),
        Ok(StoreAnswer::Written),
        "writing goes on"
    );
    told.asked = told.acknowledged;
    drop(store);
    let mut store = make(disk.after_power_failure());
    verify(&mut *store, told, "after a full disk");
    assert_eq!(one(&mut *store, &get("large again")), value(&large));
}

/// A bit that turned over is noticed where it matters: as damage, or as a store that does not open; never as
/// a record.
pub fn i_80_damaged_bytes_are_never_given_out(make: OnDisk<'_>) {
    let clean = FaultyDisk::new(1);
    let told = live(&mut *make(clean.clone()));
    assert_eq!(told.acknowledged, COMMITS);
    let bits = clean.size().expect("the power is on") * 8;
    let (mut refused, mut damaged) = (0, 0);
    for flip in 0..FLIPS {
        let disk = clean.after_power_failure();
        // Most of it in front, where all stores have what matters; multiples of a prime reach every kind of
        // place.
        let at = flip.wrapping_mul(0x9E37_79B9_7F4A_7C15) % (bits >> (flip % 7));
        disk.flip_bit(at);
        let mut store = make(disk);
        let opened = catch_unwind(AssertUnwindSafe(|| store.open()));
        if !matches!(opened, Ok(Ok(_))) {
            refused += 1;
            continue;
        }
        let questions: Vec<StoreOrder> = (1..=KEYS)
            .map(|number| get(&key(number)))
            .chain((0..=COMMITS).map(read_log))
            .collect();
        for question in questions {
            let asked = AssertUnwindSafe(|| store.commit(&[(SPACE, &question)]));
            let Ok(Ok(outcomes)) = catch_unwind(asked) else {
                damaged += 1;
                break;
            };
            damaged += outcomes.iter().filter(|outcome| !is_true(outcome)).count();
        }
    }
    println!("{FLIPS} bits: {refused} stores did not open, {damaged} answers said damage");
    assert!(refused + damaged > 0, "some damage was met");
}

/// Whether it is an answer; one with anything but what was written is a failed test.
fn is_true(outcome: &Outcome) -> bool {
    let written = |bytes: &[u8]| (1..=COMMITS).any(|number| *bytes == *record(number).as_bytes());
    match outcome {
        Ok(StoreAnswer::Records { records, .. }) => {
            for found in records {
                assert_eq!(
                    *found.bytes,
                    *record(found.sequence).as_bytes(),
                    "a damaged record"
                );
            }
            true
        }
        Ok(StoreAnswer::Value(found)) => {
            assert!(
                found.as_ref().is_none_or(|bytes| written(bytes)),
                "a damaged value"
            );
            true
        }
        Err(StoreError::Corrupt) => false,
        other => panic!("{other:?}"),
    }
}

/// A disk that stalls for five seconds keeps the loop, which beats between its orders, waiting for nothing.
pub fn i_83_a_disk_that_stalls_for_five_seconds_delays_no_heartbeat(make: OnDisk<'_>) {
    const BEAT: Duration = Duration::from_millis(50);
    let disk = FaultyDisk::new(1);
    let stores = StoreThread::start(make(disk.clone())).expect("a thread");
    let ask = |id| {
        let order = put(&format!("key {id}"), &[7; 1_000]);
        stores.order(id, order)
    };
    let mut answered = 0;
    let mut take = || {
        while let Some(outcome) = stores.next() {
            assert_eq!(outcome, Ok(StoreAnswer::Written));
            answered += 1;
        }
        answered
    };
    let began = Instant::now();
    assert!(ask(0));
    while take() < 1 {
        assert!(began.elapsed() < STALL * 4, "it opens");
        thread::sleep(Duration::from_millis(1));
    }
    disk.delay_syncs(STALL);
    let (mut asked, mut latest, stalled) = (1, Duration::ZERO, Instant::now());
    // The loop: a heartbeat, then orders and answers, as often as it is due.
    while take() < asked || stalled.elapsed() < STALL {
        assert!(
            stalled.elapsed() < STALL * 6,
            "{asked} asked, {answered} answered",
            answered = take()
        );
        let turn = Instant::now();
        if asked <= 1 || stalled.elapsed() < STALL / 2 {
            for _ in 0..5 {
                assert!(ask(asked), "there is room");
                asked += 1;
            }
        }
        take();
        latest = latest.max(turn.elapsed());
        thread::sleep(BEAT);
    }
    assert!(stalled.elapsed() >= STALL, "it did stall");
    println!("{asked} orders, longest turn {latest:?} while an fsync took {STALL:?}");
    assert!(latest < LATE_MAX, "a heartbeat {latest:?} late");
}
