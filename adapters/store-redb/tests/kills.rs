//! kill -9 at the n-th fsync, for n = 1 to 50, before and after it: what is recovered holds every
//! acknowledged record. The child is this test program itself: it says each acknowledgement on its standard
//! output, and at the fsync it stands still until its parent kills it. Spec: reliability F-02, I-80.

use crate::common;

use std::io::{self, BufRead, BufReader, Write};
use std::ops::Bound;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use quorate_driver::Token;
use quorate_driver::store::Store;
use quorate_driver::store::{Space, StoreAnswer, StoreOrder};
use quorate_store_redb::Redb;
use redb::backends::FileBackend;
use redb::{BackendError, StorageBackend};

const SPACE: Space = Space(2);
/// The file, and at which fsync to stand still: `3 before`, `3 after`.
const FILE: &str = "QUORATE_KILLS_FILE";
const MOMENT: &str = "QUORATE_KILLS_MOMENT";
const LAST_FSYNC: u64 = 50;
/// More than a child can do before its 50th fsync.
const RECORDS_MAX: u64 = 200;

fn record(number: u64) -> String {
    format!(
        "record {number} {}",
        "x".repeat(usize::try_from(number).unwrap() * 7 % 300)
    )
}

fn open_log(term: u64) -> StoreOrder {
    StoreOrder::Open {
        log: "journal".into(),
        token: Token::new(term, 1),
        opener: term,
    }
}

fn append(number: u64) -> StoreOrder {
    StoreOrder::Append {
        log: "journal".into(),
        token: Token::new(1, 1),
        expected: number - 1,
        records: vec![record(number).as_bytes().into()],
    }
}

/// A file whose n-th fsync never ends.
#[derive(Debug)]
struct Halting {
    file: FileBackend,
    syncs: AtomicU64,
    at: u64,
    after: bool,
}

impl Halting {
    fn halt(&self) {
        println!("halt");
        io::stdout().flush().unwrap();
        loop {
            thread::sleep(Duration::from_secs(60));
        }
    }
}

impl StorageBackend for Halting {
    fn len(&self) -> Result<u64, io::Error> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), io::Error> {
        self.file.read(offset, out)
    }

    fn set_len(&self, len: u64) -> Result<(), io::Error> {
        self.file.set_len(len)
    }

    fn sync_data(&self) -> Result<(), io::Error> {
        let is_it = self.syncs.fetch_add(1, Ordering::SeqCst) + 1 == self.at;
        if is_it && !self.after {
            self.halt();
        }
        self.file.sync_data()?;
        if is_it {
            self.halt();
        }
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), io::Error> {
        self.file.write(offset, data)
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.unlock_range(start, end)
    }
}

/// Writes until it is killed. Does nothing unless it was started as a child.
#[test]
fn child() {
    let (Ok(path), Ok(moment)) = (std::env::var(FILE), std::env::var(MOMENT)) else {
        return;
    };
    let (at, when) = moment.split_once(' ').unwrap();
    let (at, after) = (at.parse().unwrap(), when == "after");
    let mut store = Redb::on(move || {
        let mut options = std::fs::OpenOptions::new();
        let file = options
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)?;
        Ok(Box::new(Halting {
            file: FileBackend::new(file).map_err(io::Error::other)?,
            syncs: AtomicU64::new(0),
            at,
            after,
        }))
    });
    store.open().unwrap();
    assert!(store.commit(&[(SPACE, &open_log(1))]).unwrap()[0].is_ok());
    for number in 1..=RECORDS_MAX {
        let done = store.commit(&[(SPACE, &append(number))]).unwrap();
        assert_eq!(done, [Ok(StoreAnswer::Appended { last: number })]);
        println!("acknowledged {number}");
        io::stdout().flush().unwrap();
    }
    panic!("nobody killed it");
}

/// Runs a child to its n-th fsync and kills it; how many records it was told are durable.
fn acknowledged_before_kill(path: &Path, at: u64, when: &str) -> u64 {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "kills::child", "--nocapture"])
        .env(FILE, path)
        .env(MOMENT, format!("{at} {when}"))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let (mut acknowledged, mut halted) = (0, false);
    for line in lines.map_while(Result::ok) {
        if let Some(number) = line.strip_prefix("acknowledged ") {
            acknowledged = number.parse().unwrap();
        }
        if line.ends_with("halt") {
            halted = true;
            // SIGKILL.
            child.kill().unwrap();
            break;
        }
    }
    assert!(!child.wait().unwrap().success());
    assert!(halted, "fsync {at}: the child ended before it");
    acknowledged
}

#[test]
fn i_80_killed_at_any_of_fifty_fsyncs_a_file_holds_all_that_was_acknowledged() {
    let folder = common::directory();
    std::fs::create_dir_all(&folder).unwrap();
    let (mut total, mut most) = (0, 0);
    for at in 1..=LAST_FSYNC {
        let when = if at % 2 == 0 { "before" } else { "after" };
        let path = folder.join(format!("{at}.redb"));
        let acknowledged = acknowledged_before_kill(&path, at, when);
        let mut store = Redb::open(&path).unwrap_or_else(|error| panic!("fsync {at} {when}: {error}"));
        store.open().unwrap();
        let read = StoreOrder::ReadLog {
            log: "journal".into(),
            from: 0,
            bytes_max: usize::MAX,
        };
        let found = match store.commit(&[(SPACE, &read)]).unwrap().remove(0) {
            Ok(StoreAnswer::Records { records, more: false }) => records,
            other => panic!("{other:?}"),
        };
        for (number, found) in (1..).zip(&found) {
            assert_eq!(
                (found.sequence, &*found.bytes),
                (number, record(number).as_bytes())
            );
        }
        let found = found.len() as u64;
        assert!(
            (acknowledged..=acknowledged + 1).contains(&found),
            "fsync {at} {when}: {acknowledged} acknowledged, {found} found"
        );
        total += acknowledged;
        most = most.max(acknowledged);
    }
    println!("50 kills, {total} acknowledged records, none missing; at most {most} in one life");
    assert!(most > 10, "the later kills came among appends");
    drop(std::fs::remove_dir_all(&folder));
}
