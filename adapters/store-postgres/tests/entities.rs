//! Durable entities over a real server whose connections break all the time: what was acknowledged counts
//! once, whatever became of the commit that a break cut off. Needs a server, as `conformance.rs` does. Spec:
//! sharding 10.7.

use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use quorate_driver::durable::{Decision, EventSourced, Retention, Versioned};
use quorate_driver::testing::DurableHost;
use quorate_driver::{AskError, EntityContext};
use quorate_store_postgres::{Postgres, Tls};
use tokio_postgres::NoTls;

/// Commands, at least.
const COMMANDS: u64 = 400;
/// Commands that wait for their answer at a time, so that a break always meets some.
const IN_FLIGHT: u64 = 100;
/// Sessions broken, at least: commands go on until then, however fast the machine is.
const BREAKS: u64 = 4;
/// Between two breaks: some commits go through, some do not.
const BREAK_EVERY: Duration = Duration::from_millis(150);

#[derive(serde::Serialize, serde::Deserialize)]
struct Noted(u64);
impl Versioned for Noted {}

#[derive(Default, serde::Serialize, serde::Deserialize)]
struct Notes(Vec<u64>);
impl Versioned for Notes {}

/// Notes numbers; 0 only reads.
struct Book;

impl EventSourced for Book {
    type Command = u64;
    type Reply = Vec<u64>;
    type Event = Noted;
    type State = Notes;

    async fn handle(&mut self, _: &EntityContext, notes: &Notes, number: u64) -> Decision<Self> {
        if number == 0 {
            return Decision::reply(notes.0.clone());
        }
        Decision::persist(Noted(number)).reply(vec![number])
    }

    fn apply(notes: &mut Notes, Noted(number): Noted) {
        notes.0.push(number);
    }

    fn retention(&self) -> Retention {
        Retention::snapshot_every(30).delete_covered_events()
    }
}

/// Ends every session that the first node has in this schema, again and again, and counts them.
fn break_sessions(server: &str, name: &str, broken: &AtomicU64, is_over: &AtomicBool) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.unwrap().block_on(async {
        let (client, connection) = tokio_postgres::connect(server, NoTls).await.unwrap();
        tokio::spawn(connection);
        let text =
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1 || ' node-1'";
        while !is_over.load(Ordering::SeqCst) {
            tokio::time::sleep(BREAK_EVERY).await;
            let sessions = client.query(text, &[&name]).await.unwrap().len();
            broken.fetch_add(sessions as u64, Ordering::SeqCst);
        }
    });
}

#[test]
fn s_10_7_whatever_a_broken_connection_cut_off_counts_once() {
    let Ok(server) = std::env::var("QUORATE_POSTGRES") else {
        let _ = writeln!(
            std::io::stderr(),
            "skipped: QUORATE_POSTGRES does not name a PostgreSQL server"
        );
        return;
    };
    let name = format!("quorate_entities_{}", std::process::id());
    let named = format!("{server} application_name={name}");
    let store = |node: &str| {
        Postgres::new(&named, node, Tls::off())
            .unwrap()
            .schema(&name)
            .unwrap()
    };
    let host = DurableHost::start(Box::new(store("node-1"))).unwrap();
    let mut book = host.entity(("book", b"one"), |_| Book);
    // The tables are made before anything breaks.
    assert_eq!(book.ask(&0), Ok(Vec::new()));
    let (broken, is_over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let breaking = {
        let (server, name, broken, is_over) = (
            server.clone(),
            name.clone(),
            Arc::clone(&broken),
            Arc::clone(&is_over),
        );
        thread::spawn(move || break_sessions(&server, &name, &broken, &is_over))
    };
    let first = book.send(&1);
    let (mut sent, mut answered) = (1, 0);
    let (mut expected, mut refused) = (Vec::new(), 0);
    while answered < sent {
        while sent - answered < IN_FLIGHT && (sent < COMMANDS || broken.load(Ordering::SeqCst) < BREAKS) {
            sent += 1;
            book.send(&sent);
        }
        let (asked, answer) = book.next_answer().expect("it runs");
        let number = asked - first + 1;
        match answer {
            Ok(_) => expected.push(number),
            // The store was away for too long: surely not done.
            Err(AskError::NotDurable(failure)) if !failure.may_have_been_handled() => refused += 1,
            Err(error) => panic!("{number}: {error}"),
        }
        answered += 1;
    }
    is_over.store(true, Ordering::SeqCst);
    breaking.join().unwrap();
    let broken = broken.load(Ordering::SeqCst);
    assert!(expected.len() > 20, "some went through: {}", expected.len());
    drop(book.kill());
    host.stop();
    // Another machine.
    let host = DurableHost::start(Box::new(store("node-2"))).unwrap();
    assert_eq!(host.entity(("book", b"one"), |_| Book).ask(&0), Ok(expected));
    host.stop();
    println!("{sent} commands, {broken} connections broken, {refused} commands refused and not there");
}
