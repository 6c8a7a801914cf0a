//! A real server whose disk is full, that stands still for five seconds, or for longer than it may. Nothing
//! is acknowledged that is not there afterwards, nothing at all until the store was opened again, and the
//! thread that beats its heart waits for nothing. Spec: reliability I-81 to I-83.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use quorate_driver::store::{Change, Outcome, StoreAnswer, StoreError, StoreOrder};
use quorate_driver::store::{Store, StoreFault};
use quorate_driver::testing::StoreThread;
use quorate_store_postgres::{Postgres, Tls};

use crate::conformance::{SPACE, put, schema, server, sql};

/// How long the server stands still.
const STALL: Duration = Duration::from_secs(5);

/// How late a heartbeat may be: on a machine that has other things to do a little, and one that waits for the
/// server until that goes on.
const LATE_MAX: Duration = Duration::from_secs(2);

/// Orders that a stall meets at least.
const ORDERS_MIN: u64 = 5;

/// Bytes of a large value, which PostgreSQL cannot compress.
const LARGE: usize = 60_000;

fn store(server: &str, schema: &str) -> Postgres {
    let store = Postgres::new(server, "node-1", Tls::off()).unwrap();
    store.schema(schema).unwrap()
}

/// The first column of what a statement gives back.
fn ask(server: &str, text: &str) -> Vec<i32> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let (client, connection) = tokio_postgres::connect(server, tokio_postgres::NoTls)
            .await
            .unwrap();
        tokio::spawn(connection);
        let rows = client.query(text, &[]).await.unwrap();
        rows.iter().map(|row| row.get(0)).collect()
    })
}

/// Bytes that look like chance, another run of them for every number.
fn noise(number: u64, length: usize) -> Vec<u8> {
    let mut state = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    };
    (0..length).map(|_| next()).collect()
}

fn large(number: u64) -> StoreOrder {
    let change = Change::Put {
        key: format!("large {number:04}").into_bytes().into(),
        value: noise(number, LARGE).into(),
    };
    StoreOrder::Write { batch: vec![change] }
}

fn read(key: &str) -> StoreOrder {
    let key = key.as_bytes().into();
    StoreOrder::Read { key }
}

fn one(store: &mut dyn Store, order: &StoreOrder) -> Outcome {
    store.commit(&[(SPACE, order)]).unwrap().remove(0)
}

fn assert_held(store: &mut dyn Store, numbers: u64) {
    for number in 0..numbers {
        let held = one(store, &read(&format!("large {number:04}")));
        let whole = StoreAnswer::Value(Some(noise(number, LARGE).into()));
        assert!(held == Ok(whole), "large {number} was acknowledged");
    }
}

/// The next outcome of a store's thread.
fn outcome(stores: &StoreThread) -> Outcome {
    let began = Instant::now();
    loop {
        if let Some(outcome) = stores.next() {
            return outcome;
        }
        assert!(began.elapsed() < STALL * 6, "every order is answered");
        thread::sleep(Duration::from_millis(1));
    }
}

/// A few megabytes of a file system of its own, which only the script that starts the server can give.
fn small_disk() -> Option<PathBuf> {
    let path = std::env::var_os("QUORATE_POSTGRES_SMALL").map(PathBuf::from);
    if path.is_none() {
        let _ = writeln!(
            std::io::stderr(),
            "skipped: QUORATE_POSTGRES_SMALL does not name a small file system of the server's"
        );
    }
    path
}

#[test]
fn i_82_a_full_disk_of_a_real_server_refuses_what_does_not_fit_and_keeps_what_was_acknowledged() {
    let schema = schema();
    let (Some(server), Some(disk)) = (server(), small_disk()) else {
        return;
    };
    let mut held = store(&server, &schema);
    let before = held.open().unwrap();
    let path = disk.display();
    sql(&server, &format!("CREATE TABLESPACE small LOCATION '{path}'"));
    sql(
        &server,
        &format!(
            "ALTER TABLE {schema}.items SET TABLESPACE small; ALTER INDEX {schema}.items_pkey SET TABLESPACE small"
        ),
    );
    // Room that somebody else takes, and gives back later.
    let ballast = disk.join("ballast");
    std::fs::write(&ballast, vec![7; 3 << 20]).unwrap();
    let mut written = 0;
    let fault = loop {
        match held.commit(&[(SPACE, &large(written))]) {
            Ok(outcomes) => assert_eq!(outcomes, [Ok(StoreAnswer::Written)]),
            Err(fault) => break fault,
        }
        written += 1;
        assert!(written < 1_000, "the disk is full some time");
    };
    println!("full after {written} values of {LARGE} bytes: {fault}");
    assert!(matches!(fault, StoreFault::Full(_)), "{fault}");
    assert!(written > 5, "{written}");
    assert_held(&mut held, written);
    let missing = read(&format!("large {written:04}"));
    assert_eq!(one(&mut held, &missing), Ok(StoreAnswer::Value(None)));
    // On the node's thread what can be read is read beside what does not fit.
    drop(held);
    let stores = StoreThread::start(Box::new(store(&server, &schema))).unwrap();
    assert!(stores.order(1, large(written)) && stores.order(2, read("large 0000")));
    assert_eq!(outcome(&stores), Err(StoreError::Full));
    let first = StoreAnswer::Value(Some(noise(0, LARGE).into()));
    assert!(outcome(&stores) == Ok(first));
    std::fs::remove_file(&ballast).unwrap();
    assert!(stores.order(3, large(written)));
    assert_eq!(outcome(&stores), Ok(StoreAnswer::Written), "there is room again");
    drop(stores);
    let mut after = store(&server, &schema);
    assert_eq!(after.open().unwrap().id, before.id);
    assert_held(&mut after, written + 1);
}

/// What makes a server stand still, and lets it go on once it is dropped.
enum Still {
    /// Another session holds the table.
    Locked(thread::JoinHandle<()>),
    /// The process of the store's own session is stopped.
    Stopped(i32),
}

fn signal(process: i32, name: &str) -> bool {
    let done = Command::new("kill").args([name, &process.to_string()]).status();
    done.is_ok_and(|status| status.success())
}

impl Still {
    /// For so long, and holds when it comes back.
    fn locked(server: &str, schema: &str, time: Duration) -> Self {
        let text = format!(
            "BEGIN; LOCK TABLE {schema}.items IN ACCESS EXCLUSIVE MODE; SELECT pg_sleep({}); COMMIT",
            time.as_secs_f64()
        );
        let of_locks = format!(
            "SELECT pid FROM pg_locks WHERE granted AND mode = 'AccessExclusiveLock' AND relation = '{schema}.items'::regclass"
        );
        let holder = {
            let server = server.to_owned();
            thread::spawn(move || sql(&server, &text))
        };
        while ask(server, &of_locks).is_empty() {
            thread::sleep(Duration::from_millis(5));
        }
        Self::Locked(holder)
    }

    /// Until it is dropped; nothing if the server's processes are not ours to stop.
    fn stopped(server: &str, schema: &str) -> Option<Self> {
        let text = format!("SELECT pid FROM pg_stat_activity WHERE application_name LIKE '{schema} %'");
        let [process] = ask(server, &text)[..] else {
            panic!("one session of this store");
        };
        if signal(process, "-STOP") {
            Some(Self::Stopped(process))
        } else {
            let _ = writeln!(
                std::io::stderr(),
                "skipped: the server's processes belong to somebody else"
            );
            None
        }
    }
}

impl Drop for Still {
    fn drop(&mut self) {
        match self {
            Self::Locked(holder) => {
                while !holder.is_finished() && !thread::panicking() {
                    thread::sleep(Duration::from_millis(5));
                }
            }
            Self::Stopped(process) => {
                signal(*process, "-CONT");
            }
        }
    }
}

/// The loop of a node: a heartbeat, then orders and answers, while the server stands still and until all is
/// answered. Gives back the longest turn.
fn beat(stores: &StoreThread, until: Instant, still: Still) -> Duration {
    let (mut still, mut asked, mut answered, mut latest) = (Some(still), 1, 1, Duration::ZERO);
    while answered < asked || asked <= ORDERS_MIN || Instant::now() < until {
        assert!(until.elapsed() < STALL * 6, "{answered} of {asked} answered");
        if Instant::now() >= until {
            still = None;
        }
        let turn = Instant::now();
        // At least these, however long it took to have the server stand still.
        if asked <= ORDERS_MIN || until.saturating_duration_since(turn) > STALL / 2 {
            for _ in 0..5 {
                assert!(
                    stores.order(asked, put(&format!("key {asked}"), "v")),
                    "there is room"
                );
                asked += 1;
            }
        }
        while let Some(outcome) = stores.next() {
            assert_eq!(outcome, Ok(StoreAnswer::Written));
            assert!(Instant::now() >= until, "nothing is done while it stands still");
            answered += 1;
        }
        latest = latest.max(turn.elapsed());
        thread::sleep(Duration::from_millis(50));
    }
    drop(still);
    println!("{asked} orders, longest turn {latest:?}");
    latest
}

/// Orders before and while a server stands still, and what is there afterwards.
fn stand_still(server: &str, schema: &str, still: impl FnOnce() -> Option<Still>) {
    let stores = StoreThread::start(Box::new(store(server, schema))).unwrap();
    assert!(stores.order(0, put("key 0", "v")));
    assert_eq!(outcome(&stores), Ok(StoreAnswer::Written));
    let until = Instant::now() + STALL;
    let Some(still) = still() else {
        return;
    };
    let latest = beat(&stores, until, still);
    assert!(latest < LATE_MAX, "a heartbeat {latest:?} late");
    drop(stores);
    let mut after = store(server, schema);
    assert_eq!(after.open().unwrap().boot, 2, "the session held");
    let value = Ok(StoreAnswer::Value(Some(b"v".as_slice().into())));
    assert_eq!(one(&mut after, &read("key 5")), value);
}

#[test]
fn i_83_a_table_that_is_locked_for_five_seconds_delays_no_heartbeat() {
    let schema = schema();
    if let Some(server) = server() {
        stand_still(&server, &schema, || Some(Still::locked(&server, &schema, STALL)));
    }
}

#[test]
fn i_83_a_server_process_that_is_stopped_for_five_seconds_delays_no_heartbeat() {
    let schema = schema();
    if let Some(server) = server() {
        stand_still(&server, &schema, || Still::stopped(&server, &schema));
    }
}

#[test]
fn i_81_a_real_server_that_stands_still_for_too_long_acknowledges_nothing_until_it_was_opened_again() {
    const LIMIT: Duration = Duration::from_secs(1);
    let Some(server) = server() else {
        return;
    };
    for is_locked in [true, false] {
        let schema = schema();
        let mut store = store(&server, &schema).timeout(LIMIT);
        let before = store.open().unwrap();
        assert_eq!(one(&mut store, &put("k", "old")), Ok(StoreAnswer::Written));
        let still = if is_locked {
            Some(Still::locked(&server, &schema, 5 * LIMIT))
        } else {
            Still::stopped(&server, &schema)
        };
        let Some(still) = still else {
            return;
        };
        let began = Instant::now();
        let failed = store.commit(&[(SPACE, &put("k", "new"))]);
        assert!(
            matches!(failed, Err(StoreFault::Unavailable(_) | StoreFault::Failed(_))),
            "{failed:?}"
        );
        assert!(began.elapsed() < 4 * LIMIT, "{:?}", began.elapsed());
        let between = store.commit(&[(SPACE, &read("k"))]);
        assert!(matches!(between, Err(StoreFault::Unavailable(_))), "{between:?}");
        drop(still);
        let after = store.open().unwrap();
        assert_eq!((after.id, after.boot), (before.id, before.boot + 1));
        let found = one(&mut store, &read("k"));
        let is_unknown = matches!(failed, Err(StoreFault::Failed(_)));
        let value = |text: &str| Ok(StoreAnswer::Value(Some(text.as_bytes().into())));
        assert!(
            found == value("old") || is_unknown && found == value("new"),
            "{found:?}"
        );
        assert_eq!(one(&mut store, &put("k", "newest")), Ok(StoreAnswer::Written));
        assert_eq!(one(&mut store, &read("k")), value("newest"));
    }
}
