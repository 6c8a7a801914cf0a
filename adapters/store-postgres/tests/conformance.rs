//! PostgreSQL passes what is asked of every store, and of those that machines share. Needs a server:
//! `QUORATE_POSTGRES` says how to reach it, as a connection string; `QUORATE_POSTGRES_CA` names the authority
//! of its certificate, if it has one. `tests/with_postgres.sh COMMAND` starts one for the length of a
//! command, with `QUORATE_POSTGRES_SMALL`, a file system of a few megabytes, where it may mount one.

use std::io::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use quorate_driver::Token;
use quorate_driver::store::{Change, Space, StoreAnswer, StoreError, StoreOrder};
use quorate_driver::store::{Store, StoreFault};
use quorate_store_postgres::{Postgres, Tls};

pub(crate) const SPACE: Space = Space(2);

/// The server, or a line that says why there is no test.
pub(crate) fn server() -> Option<String> {
    let server = std::env::var("QUORATE_POSTGRES").ok();
    if server.is_none() {
        let _ = writeln!(
            std::io::stderr(),
            "skipped: QUORATE_POSTGRES does not name a PostgreSQL server"
        );
    }
    server
}

/// A schema of its own for each test of each run.
pub(crate) fn schema() -> String {
    static MADE: AtomicU64 = AtomicU64::new(0);
    let number = MADE.fetch_add(1, Ordering::SeqCst);
    format!("quorate_test_{}_{number}", std::process::id())
}

fn node(schema: &str, name: &str) -> Option<impl Fn() -> Box<dyn Store> + Clone + use<>> {
    let (server, schema, name) = (server()?, schema.to_owned(), name.to_owned());
    Some(move || -> Box<dyn Store> {
        let store = Postgres::new(&server, &name, Tls::off()).unwrap();
        Box::new(store.schema(&schema).unwrap())
    })
}

mod alone {
    quorate_conformance::store_conformance!(super::node(&super::schema(), "node-1"));
}

mod shared {
    quorate_conformance::shared_store_conformance!({
        let schema = super::schema();
        super::node(&schema, "node-1").zip(super::node(&schema, "node-2"))
    });
}

pub(crate) fn put(key: &str, value: &str) -> StoreOrder {
    let change = Change::Put {
        key: key.as_bytes().into(),
        value: value.as_bytes().into(),
    };
    StoreOrder::Write { batch: vec![change] }
}

/// Two nodes whose groups name the same two logs in opposite order, again and again.
#[test]
fn groups_that_cross_each_other_are_all_done() {
    let schema = schema();
    let (Some(here), Some(there)) = (node(&schema, "node-1"), node(&schema, "node-2")) else {
        return;
    };
    let (mut here, mut there) = (here(), there());
    here.open().unwrap();
    there.open().unwrap();
    const ROUNDS: u64 = 20;
    let work = |store: &mut Box<dyn Store>, logs: [&str; 2], opener: u64| {
        for round in 1..=ROUNDS {
            let order = |log: &&str| StoreOrder::Open {
                log: (*log).into(),
                token: Token::new(round, opener),
                opener,
            };
            let orders: Vec<StoreOrder> = logs.iter().map(order).collect();
            let group: Vec<(Space, &StoreOrder)> = orders.iter().map(|order| (SPACE, order)).collect();
            let outcomes = store.commit(&group).unwrap();
            assert!(outcomes.iter().all(|outcome| match outcome {
                Ok(_) => true,
                Err(error) => error.is_refusal(),
            }));
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| work(&mut here, ["a", "b"], 1));
        work(&mut there, ["b", "a"], 2);
    });
}

#[test]
fn a_server_that_is_away_is_said_to_be_and_nothing_counts_as_done() {
    let mut store = Postgres::new("host=127.0.0.1 port=9 user=x", "node-1", Tls::off())
        .unwrap()
        .timeout(Duration::from_millis(500));
    let order = put("k", "v");
    assert!(matches!(
        store.commit(&[(SPACE, &order)]),
        Err(StoreFault::Unavailable(_))
    ));
    let started = Instant::now();
    assert!(matches!(store.open(), Err(StoreFault::Unavailable(_))));
    assert!(started.elapsed() < Duration::from_secs(5));
}

#[test]
fn a_session_that_the_server_ends_is_opened_again_and_nothing_is_acknowledged_between() {
    let schema = schema();
    let (Some(make), Some(killer)) = (node(&schema, "node-1"), server()) else {
        return;
    };
    let mut store = make();
    let before = store.open().unwrap();
    let order = put("k", "v");
    assert_eq!(
        store.commit(&[(SPACE, &order)]).unwrap(),
        [Ok(StoreAnswer::Written)]
    );
    end_sessions_of(&killer, &schema);
    assert!(
        store.commit(&[(SPACE, &order)]).is_err(),
        "its connection is gone"
    );
    assert!(
        matches!(store.commit(&[(SPACE, &order)]), Err(StoreFault::Unavailable(_))),
        "until it is opened"
    );
    let after = store.open().unwrap();
    assert_eq!((after.id, after.boot), (before.id, before.boot + 1));
    let read = StoreOrder::Read {
        key: b"k".as_slice().into(),
    };
    let value = StoreAnswer::Value(Some(b"v".as_slice().into()));
    assert_eq!(store.commit(&[(SPACE, &read)]).unwrap(), [Ok(value)]);
}

/// Ends all sessions that look at this schema.
fn end_sessions_of(server: &str, schema: &str) {
    let text = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE";
    sql(server, &format!("{text} '{schema} %'"));
}

pub(crate) fn sql(server: &str, text: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let (client, connection) = tokio_postgres::connect(server, tokio_postgres::NoTls)
            .await
            .unwrap();
        let connection = tokio::spawn(connection);
        client.batch_execute(text).await.unwrap();
        drop(client);
        drop(connection.await);
    });
}

#[test]
fn i_80_a_damaged_row_is_never_given_out() {
    let schema = schema();
    let (Some(make), Some(server)) = (node(&schema, "node-1"), server()) else {
        return;
    };
    let mut store = make();
    store.open().unwrap();
    let open = StoreOrder::Open {
        log: "journal".into(),
        token: Token::new(1, 1),
        opener: 1,
    };
    let append = StoreOrder::Append {
        log: "journal".into(),
        token: Token::new(1, 1),
        expected: 0,
        records: vec![b"first".as_slice().into(), b"second".as_slice().into()],
    };
    let (first, second) = (put("a", "one"), put("b", "two"));
    let group = [
        (SPACE, &open),
        (SPACE, &append),
        (SPACE, &first),
        (SPACE, &second),
    ];
    assert!(store.commit(&group).unwrap().iter().all(Result::is_ok));
    for (table, place) in [("items", "key = 'b'"), ("records", "sequence = 2")] {
        let flip = format!(
            "UPDATE {schema}.{table} SET sealed = set_bit(sealed, 41, 1 - get_bit(sealed, 41)) WHERE {place}"
        );
        sql(&server, &flip);
    }
    let read = |key: &str| StoreOrder::Read {
        key: key.as_bytes().into(),
    };
    let read_log = |from| StoreOrder::ReadLog {
        log: "journal".into(),
        from,
        bytes_max: 1_000,
    };
    let range = StoreOrder::Range {
        from: b"".as_slice().into(),
        to: None,
        bytes_max: 1_000,
    };
    let mut ask = |order: &StoreOrder| store.commit(&[(SPACE, order)]).unwrap().remove(0);
    assert!(ask(&read("a")).is_ok());
    assert_eq!(ask(&read("b")), Err(StoreError::Corrupt));
    assert!(matches!(ask(&range), Ok(StoreAnswer::Items { items, more: true }) if items.len() == 1));
    assert!(
        matches!(ask(&read_log(0)), Ok(StoreAnswer::Records { records, more: true }) if records.len() == 1)
    );
    assert_eq!(ask(&read_log(2)), Err(StoreError::Corrupt));
    sql(
        &server,
        &format!("DELETE FROM {schema}.records WHERE sequence = 2"),
    );
    assert!(
        matches!(ask(&read_log(0)), Ok(StoreAnswer::Records { records, more: true }) if records.len() == 1)
    );
    assert_eq!(
        ask(&read_log(2)),
        Err(StoreError::Corrupt),
        "a record that is missing is damage"
    );
}

#[test]
fn a_connection_is_encrypted_to_a_server_that_proves_who_it_is_and_to_no_other() {
    let (Some(server), Ok(authority)) = (server(), std::env::var("QUORATE_POSTGRES_CA")) else {
        let _ = writeln!(
            std::io::stderr(),
            "skipped: QUORATE_POSTGRES_CA does not name the authority of the server's certificate"
        );
        return;
    };
    let authority = std::fs::read(authority).unwrap();
    let schema = schema();
    let open = |tls| {
        let store = Postgres::new(&server, "node-1", tls).unwrap();
        store.schema(&schema).unwrap().open()
    };
    assert_eq!(open(Tls::trusting(&authority).unwrap()).unwrap().boot, 1);
    let [.., other] = quorate_driver::security::DevCa::new("somebody else")
        .unwrap()
        .issue_pem()
        .unwrap();
    assert!(
        open(Tls::trusting(other.as_bytes()).unwrap()).is_err(),
        "a stranger's certificate"
    );
}

#[test]
fn names_that_cannot_be_are_refused_before_anything_is_connected() {
    assert!(Postgres::new("host=", "", Tls::off()).is_err());
    assert!(Postgres::new("host=x", "a\0b", Tls::off()).is_err());
    assert!(Postgres::new("nonsense", "node", Tls::off()).is_err());
    assert!(
        Postgres::new("host=x sslmode=require", "node", Tls::off()).is_err(),
        "no silent plaintext"
    );
    for name in ["", "Upper", "with space", "x; DROP TABLE items", "1st"] {
        let store = Postgres::new("host=x", "node", Tls::off()).unwrap();
        assert!(store.schema(name).is_err(), "{name}");
    }
    assert!(Tls::trusting(b"nothing").is_err());
}
