//! A connection that breaks at COMMIT: nobody knows whether the transaction is there. The store says so,
//! acknowledges nothing until it was opened again, and what is there then is whole (I-81). Needs a server, as
//! `conformance.rs` does.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread;

use quorate_driver::Token;
use quorate_driver::store::{Bytes, Change, Space, StoreAnswer, StoreOrder};
use quorate_driver::store::{Store, StoreFault};
use quorate_store_postgres::{Postgres, Tls};

const SPACE: Space = Space(2);

/// What the wire does at the next COMMIT; once.
const PASS: u8 = 0;
const CUT_BEFORE: u8 = 1;
const CUT_AFTER: u8 = 2;
const SWALLOW: u8 = 3;

/// A wire to the server that can be cut at a COMMIT.
struct Wire {
    port: u16,
    mode: Arc<AtomicU8>,
}

impl Wire {
    fn to(server: &str) -> Self {
        let field = |name: &str| {
            let mut fields = server.split_whitespace();
            let found = fields.find_map(|field| field.strip_prefix(name)?.strip_prefix('='));
            found.unwrap().to_owned()
        };
        let server = format!("{}:{}", field("host"), field("port"));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let mode = Arc::new(AtomicU8::new(PASS));
        let shared = Arc::clone(&mode);
        thread::spawn(move || {
            for client in listener.incoming() {
                let (client, server) = (client.unwrap(), TcpStream::connect(&server).unwrap());
                carry(client, server, &shared);
            }
        });
        Self { port, mode }
    }
}

fn carry(client: TcpStream, server: TcpStream, mode: &Arc<AtomicU8>) {
    let cut = |one: &TcpStream, other: &TcpStream| {
        let _ = one.shutdown(Shutdown::Both);
        let _ = other.shutdown(Shutdown::Both);
    };
    let pump = move |mut from: TcpStream, mut to: TcpStream, mode: Arc<AtomicU8>, is_client: bool| {
        let mut chunk = [0; 1 << 14];
        while let Ok(read @ 1..) = from.read(&mut chunk) {
            let bytes = &chunk[..read];
            let commits = is_client && bytes.windows(6).any(|window| window == b"COMMIT");
            match mode.load(Ordering::SeqCst) {
                CUT_BEFORE if commits => {
                    mode.store(PASS, Ordering::SeqCst);
                    break;
                }
                CUT_AFTER if commits => mode.store(SWALLOW, Ordering::SeqCst),
                SWALLOW if !is_client => {
                    mode.store(PASS, Ordering::SeqCst);
                    break;
                }
                _ => {}
            }
            if to.write_all(bytes).is_err() {
                break;
            }
        }
        cut(&from, &to);
    };
    let (from, to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
    let shared = Arc::clone(mode);
    thread::spawn(move || pump(from, to, shared, true));
    let shared = Arc::clone(mode);
    thread::spawn(move || pump(server, client, shared, false));
}

fn bytes(text: &str) -> Bytes {
    text.as_bytes().into()
}

#[test]
fn i_81_a_commit_whose_connection_breaks_is_unknown_and_nothing_is_acknowledged_until_reopening() {
    let Ok(server) = std::env::var("QUORATE_POSTGRES") else {
        let _ = writeln!(
            std::io::stderr(),
            "skipped: QUORATE_POSTGRES does not name a PostgreSQL server"
        );
        return;
    };
    for (mode, is_there) in [(CUT_BEFORE, false), (CUT_AFTER, true)] {
        let wire = Wire::to(&server);
        let through = format!("host=127.0.0.1 port={} user=quorate dbname=postgres", wire.port);
        let schema = format!("quorate_commits_{}_{mode}", std::process::id());
        let store = Postgres::new(&through, "node-1", Tls::off()).unwrap();
        let mut store = store.schema(&schema).unwrap();
        let before = store.open().unwrap();
        let token = Token::new(1, 1);
        let open = StoreOrder::Open {
            log: "journal".into(),
            token,
            opener: 1,
        };
        let put = |value: &str| StoreOrder::Write {
            batch: vec![Change::Put {
                key: bytes("k"),
                value: bytes(value),
            }],
        };
        let append = StoreOrder::Append {
            log: "journal".into(),
            token,
            expected: 0,
            records: vec![bytes("first")],
        };
        let (old, new) = (put("old"), put("new"));
        let done = store.commit(&[(SPACE, &open), (SPACE, &old)]).unwrap();
        assert!(done.iter().all(Result::is_ok), "{done:?}");
        wire.mode.store(mode, Ordering::SeqCst);
        let unknown = store.commit(&[(SPACE, &append), (SPACE, &new)]);
        assert!(matches!(unknown, Err(StoreFault::Failed(_))), "{unknown:?}");
        let read = StoreOrder::Read { key: bytes("k") };
        let between = store.commit(&[(SPACE, &read)]);
        assert!(matches!(between, Err(StoreFault::Unavailable(_))), "{between:?}");
        let after = store.open().unwrap();
        assert_eq!((after.id, after.boot), (before.id, before.boot + 1));
        let value = if is_there { "new" } else { "old" };
        let found = store.commit(&[(SPACE, &read)]).unwrap();
        assert_eq!(found, [Ok(StoreAnswer::Value(Some(bytes(value))))]);
        // Whoever does not know says the same again, and it is there once.
        let again = store.commit(&[(SPACE, &append), (SPACE, &new)]).unwrap();
        assert!(again.iter().all(Result::is_ok), "{again:?}");
        let read_log = StoreOrder::ReadLog {
            log: "journal".into(),
            from: 0,
            bytes_max: 1_000,
        };
        let log = store.commit(&[(SPACE, &read_log)]).unwrap().remove(0);
        assert!(
            matches!(&log, Ok(StoreAnswer::Records { records, more: false }) if records.len() == 1),
            "{log:?}"
        );
    }
}
