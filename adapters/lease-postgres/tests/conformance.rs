//! Leases in PostgreSQL pass what is asked of every keeper. Needs a server, which `QUORATE_POSTGRES` names;
//! `tests/with_postgres.sh COMMAND` starts one for the length of a command.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use quorate_driver::lease::LeaseKeeper;
use quorate_driver::{Address, UniqueAddress};
use quorate_lease_postgres::{PostgresLeases, Tls};

/// A keeper with a schema of its own for each test of each run, or a line that says why there is no test.
fn keeper() -> Option<(PostgresLeases, String)> {
    static MADE: AtomicU64 = AtomicU64::new(0);
    let Ok(server) = std::env::var("QUORATE_POSTGRES") else {
        let _ = writeln!(
            std::io::stderr(),
            "skipped: QUORATE_POSTGRES does not name a PostgreSQL server"
        );
        return None;
    };
    let number = MADE.fetch_add(1, Ordering::SeqCst);
    let schema = format!("quorate_lease_{}_{number}", std::process::id());
    Some((at(&server, &schema), schema))
}

fn at(server: &str, schema: &str) -> PostgresLeases {
    let leases = PostgresLeases::new(server, Tls::off()).unwrap();
    leases.schema(schema).unwrap()
}

macro_rules! suite {
    ($($test:ident,)+) => {
        $(
            #[test]
            fn $test() {
                if let Some((keeper, _)) = keeper() {
                    quorate_conformance::$test(&keeper, &thread::sleep);
                }
            }
        )+
    };
}

suite!(
    one_holder_at_a_time,
    a_lease_given_back_is_free_and_its_token_grows,
    a_stopped_holder_does_not_block_for_ever_and_a_resumed_one_has_lost_it,
    renewing_keeps_a_lease,
    a_token_shown_by_another_holder_renews_nothing,
    leases_of_different_names_do_not_meet,
    one_of_many_who_ask_at_once_gets_the_lease,
);

fn node(uid: u64) -> UniqueAddress {
    UniqueAddress::new(Address::new("host", 7355).unwrap(), uid)
}

/// Each node has a connection of its own: what one keeper's lock would order, the server has to.
#[test]
fn i_26_of_many_machines_that_ask_at_once_one_gets_the_lease() {
    let Some((_, schema)) = keeper() else {
        return;
    };
    let server = std::env::var("QUORATE_POSTGRES").unwrap();
    let keepers: Vec<PostgresLeases> = (0..4).map(|_| at(&server, &schema)).collect();
    let ttl = Duration::from_secs(60);
    let mut last = 0;
    for round in 0..20_u64 {
        let granted: Vec<(usize, u64)> = thread::scope(|scope| {
            let askers: Vec<_> = keepers
                .iter()
                .enumerate()
                .map(|(at, keeper)| {
                    let me = node(round * 10 + at as u64);
                    scope.spawn(move || keeper.acquire("sbr", &me, ttl).unwrap().map(|token| (at, token)))
                })
                .collect();
            askers
                .into_iter()
                .filter_map(|asker| asker.join().unwrap())
                .collect()
        });
        assert_eq!(granted.len(), 1, "round {round}: {granted:?}");
        let (at, token) = granted[0];
        assert!(token > last, "tokens grow over all machines");
        last = token;
        keepers[at].release("sbr", &node(round * 10 + at as u64)).unwrap();
    }
}

#[test]
fn a_server_that_is_away_is_an_error_in_time_and_never_a_grant() {
    let keeper = PostgresLeases::new("host=127.0.0.1 port=9 user=x", Tls::off()).unwrap();
    let keeper = keeper.timeout(Duration::from_millis(500));
    let started = Instant::now();
    assert!(keeper.acquire("sbr", &node(1), Duration::from_secs(60)).is_err());
    assert!(keeper.renew("sbr", &node(1), 1).is_err());
    assert!(keeper.release("sbr", &node(1)).is_err());
    assert!(started.elapsed() < Duration::from_secs(5));
}
