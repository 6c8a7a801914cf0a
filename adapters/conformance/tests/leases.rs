//! The keepers of this crate pass what is asked of every keeper. Time is virtual but for the last.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A clock that only `pass` moves.
fn clock() -> (impl Fn() -> Duration + Send + Sync + 'static, impl Fn(Duration)) {
    let micros = Arc::new(AtomicU64::new(1_000_000_000));
    let moved = Arc::clone(&micros);
    let now = move || Duration::from_micros(micros.load(Ordering::SeqCst));
    let pass = move |time: Duration| {
        let time = u64::try_from(time.as_micros()).unwrap();
        moved.fetch_add(time, Ordering::SeqCst);
    };
    (now, pass)
}

/// A directory of its own for each test of each run.
fn directory() -> PathBuf {
    static MADE: AtomicU64 = AtomicU64::new(0);
    let number = MADE.fetch_add(1, Ordering::SeqCst);
    let name = format!("quorate-leases-{}-{number}", std::process::id());
    let path = std::env::temp_dir().join(name);
    drop(std::fs::remove_dir_all(&path));
    path
}

mod memory {
    use quorate_driver::lease::MemoryLeases;

    quorate_conformance::lease_conformance!({
        let (now, pass) = super::clock();
        (MemoryLeases::with_clock(now), pass)
    });
}

mod file {
    use quorate_driver::lease::FileLeases;

    quorate_conformance::lease_conformance!({
        let (now, pass) = super::clock();
        (FileLeases::with_clock(super::directory(), now).unwrap(), pass)
    });
}

mod file_in_real_time {
    use quorate_driver::lease::FileLeases;

    quorate_conformance::lease_conformance!((
        FileLeases::new(super::directory()).unwrap(),
        std::thread::sleep
    ));
}

mod several_keepers_of_one_directory {
    use quorate_driver::lease::{FileLeases, LeaseKeeper};

    use super::*;

    #[test]
    fn the_token_is_stored_and_files_are_cleared_away() {
        let directory = directory();
        let address = quorate_driver::Address::new("host", 7355).unwrap();
        let node = |uid| quorate_driver::UniqueAddress::new(address.clone(), uid);
        for uid in 1..=5 {
            let keeper = FileLeases::new(&directory).unwrap();
            let token = keeper
                .acquire("sbr", &node(uid), Duration::from_secs(60))
                .unwrap();
            assert_eq!(token, Some(uid));
            keeper.release("sbr", &node(uid)).unwrap();
        }
        assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 1);
    }

    #[test]
    fn what_is_no_lease_is_an_error_and_never_a_grant() {
        let directory = directory();
        let keeper = FileLeases::new(&directory).unwrap();
        std::fs::write(directory.join("sbr.7"), "something else").unwrap();
        let address = quorate_driver::Address::new("host", 7355).unwrap();
        let node = quorate_driver::UniqueAddress::new(address, 1);
        assert!(keeper.acquire("sbr", &node, Duration::from_secs(60)).is_err());
    }
}
