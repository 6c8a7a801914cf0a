//! Servers that are away, come back, forget, or are none. Needs the program that `QUORATE_ETCD_PROGRAM` names
//! where a real one is killed; `tests/with_etcd.sh COMMAND` says where it is.

use crate::common;

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use common::{Etcd, ask, ask_as, at, node};
use quorate_driver::lease::LeaseKeeper;
use quorate_lease_etcd::{EtcdError, EtcdLeases, Tls};
use serde_json::json;

const NAME: &str = "orders-sbr";
const TTL: Duration = Duration::from_secs(60);
/// Nobody listens there.
const AWAY: &str = "http://127.0.0.1:9";

/// A server that takes connections, and does this with each on a thread of its own.
fn fake(serve: impl Fn(&mut TcpStream) + Clone + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let serve = serve.clone();
            thread::spawn(move || {
                serve(&mut stream);
                // Closed with something unread, it would be reset before its answer is read.
                while matches!(stream.read(&mut [0; 1_024]), Ok(read) if read > 0) {}
            });
        }
    });
    endpoint
}

/// One that says nothing.
fn silent() -> String {
    fake(|_| {})
}

/// What is within an error of the trait.
fn cause(error: &io::Error) -> EtcdError {
    let cause = error
        .get_ref()
        .and_then(|error| error.downcast_ref::<EtcdError>());
    cause.unwrap_or_else(|| panic!("{error:?}")).clone()
}

#[test]
fn a_server_that_is_away_or_silent_is_an_error_in_time_and_never_a_grant() {
    for endpoints in [
        vec![AWAY.to_owned()],
        vec![silent()],
        vec![silent(), AWAY.to_owned(), silent()],
    ] {
        let keeper = EtcdLeases::new(&endpoints, Tls::off()).unwrap();
        let keeper = keeper.timeout(Duration::from_millis(500));
        let started = Instant::now();
        let error = keeper.acquire(NAME, &node(1), TTL).unwrap_err();
        assert!(matches!(cause(&error), EtcdError::Unreachable { .. }), "{error}");
        assert!(keeper.renew(NAME, &node(1), 1).is_err());
        assert!(keeper.release(NAME, &node(1)).is_err());
        // Three questions of half a second; a machine that has other things to do may take longer, one that
        // waits for ever does.
        assert!(started.elapsed() < Duration::from_secs(20), "{endpoints:?}");
    }
}

#[test]
fn what_does_not_answer_as_etcd_does_is_an_error_and_bounded() {
    let says = |head: &'static str, body: String| {
        fake(move |stream| {
            let _ = stream.read(&mut [0; 4_096]);
            let _ = write!(
                stream,
                "HTTP/1.1 {head}\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            );
        })
    };
    // Speaks for as long as it is heard.
    let endless = fake(|stream| {
        let _ = stream.read(&mut [0; 4_096]);
        let _ = write!(stream, "HTTP/1.1 200 OK\r\n\r\n[");
        while stream.write_all(&[b' '; 4_096]).is_ok() {}
    });
    let outcome = |endpoint: &str| {
        let keeper = at(endpoint).timeout(Duration::from_secs(2));
        cause(&keeper.acquire(NAME, &node(1), TTL).unwrap_err())
    };
    let is_other = |error: &EtcdError, expected: u16| matches!(error, EtcdError::NotEtcd { status, .. } if *status == expected);
    for (head, body, status) in [
        ("404 Not Found", "Not Found\n", 404),
        ("200 OK", "<html>", 200),
        ("200 OK", "[]", 200),
        ("500 No", "{}", 500),
        ("302 Found\r\nLocation: http://127.0.0.1:9/", "", 302),
    ] {
        let error = outcome(&says(head, body.to_owned()));
        assert!(is_other(&error, status), "{head}: {error}");
    }
    let large = json!({ "kvs": [{ "value": "A".repeat(1 << 20) }] });
    for endpoint in [says("200 OK", large.to_string()), endless] {
        let error = outcome(&endpoint);
        let is_bounded = |reason: &str| reason.contains("limit");
        assert!(
            matches!(&error, EtcdError::Unreachable { reason, .. } if is_bounded(reason)),
            "{error}"
        );
    }
    let odd = json!({ "kvs": [{ "value": "%", "create_revision": "1", "mod_revision": "1" }] });
    let error = outcome(&says("200 OK", odd.to_string()));
    assert!(matches!(error, EtcdError::BadAnswer(_)), "{error}");
}

#[test]
fn endpoints_that_cannot_be_are_refused_at_once() {
    let none: [&str; 0] = [];
    assert!(EtcdLeases::new(&none, Tls::off()).is_err());
    assert!(EtcdLeases::new(&[AWAY; 17], Tls::off()).is_err());
    assert!(
        EtcdLeases::new(&["https://127.0.0.1:9"], Tls::off()).is_err(),
        "TLS is off"
    );
    assert!(EtcdLeases::new(&["127.0.0.1:9"], Tls::off()).is_err());
    for prefix in [String::new(), "x".repeat(256)] {
        assert!(at(AWAY).prefix(&prefix).is_err());
    }
    assert!(Tls::trusting(b"no certificate").is_err());
    assert!(Tls::off().client(b"none", b"none").is_err());
}

#[test]
fn the_next_endpoint_answers_for_one_that_does_not() {
    let Some(etcd) = Etcd::start() else {
        return;
    };
    let endpoints = [AWAY.to_owned(), silent(), etcd.endpoint()];
    let keeper = EtcdLeases::new(&endpoints, Tls::off()).unwrap();
    let keeper = keeper.timeout(Duration::from_secs(16));
    let token = keeper.acquire(NAME, &node(1), TTL).unwrap().unwrap();
    // Whoever answered last is asked first: the silent one takes no further share of the time, which is eight
    // seconds.
    let started = Instant::now();
    assert!(keeper.renew(NAME, &node(1), token).unwrap());
    assert!(
        started.elapsed() < Duration::from_secs(5),
        "{:?}",
        started.elapsed()
    );
}

#[test]
fn a_server_that_comes_back_knows_who_holds_what() {
    let Some(mut etcd) = Etcd::start() else {
        return;
    };
    let keeper = at(&etcd.endpoint()).timeout(Duration::from_secs(1));
    let token = keeper.acquire(NAME, &node(1), TTL).unwrap().unwrap();
    etcd.kill();
    assert!(keeper.renew(NAME, &node(1), token).is_err());
    assert!(keeper.acquire(NAME, &node(2), TTL).is_err());
    etcd.run();
    assert!(keeper.renew(NAME, &node(1), token).unwrap());
    assert_eq!(keeper.acquire(NAME, &node(2), TTL).unwrap(), None);
    assert_eq!(keeper.acquire(NAME, &node(1), TTL).unwrap(), Some(token));
    keeper.release(NAME, &node(1)).unwrap();
    assert!(keeper.acquire(NAME, &node(2), TTL).unwrap() > Some(token));
}

#[test]
fn a_compacted_server_knows_who_holds_what() {
    let Some(etcd) = Etcd::start() else {
        return;
    };
    let keeper = at(&etcd.endpoint());
    let token = keeper.acquire(NAME, &node(1), TTL).unwrap().unwrap();
    let other = keeper.acquire("other", &node(1), TTL).unwrap().unwrap();
    let compaction = json!({ "revision": other.to_string(), "physical": true });
    let compacted = ask(&etcd.endpoint(), "/v3/kv/compaction", &compaction);
    assert!(compacted.get("header").is_some(), "{compacted}");
    assert!(keeper.renew(NAME, &node(1), token).unwrap());
    keeper.release(NAME, &node(1)).unwrap();
    assert!(keeper.acquire(NAME, &node(2), TTL).unwrap() > Some(other));
}

#[test]
fn a_server_that_forgot_everything_has_taken_the_lease() {
    let Some(mut etcd) = Etcd::start() else {
        return;
    };
    let keeper = at(&etcd.endpoint());
    let token = keeper.acquire(NAME, &node(1), TTL).unwrap().unwrap();
    etcd.wipe();
    etcd.run();
    assert!(!keeper.renew(NAME, &node(1), token).unwrap());
    keeper.release(NAME, &node(1)).unwrap();
    assert!(keeper.acquire(NAME, &node(2), TTL).unwrap().is_some());
    assert!(
        !keeper.renew(NAME, &node(1), token).unwrap(),
        "whatever the next one's token is"
    );
}

#[test]
fn a_lease_taken_away_by_hand_is_lost_with_the_next_renewal() {
    let Some(etcd) = Etcd::start() else {
        return;
    };
    let keeper = at(&etcd.endpoint()).prefix("x").unwrap();
    let token = keeper.acquire("y", &node(1), TTL).unwrap().unwrap();
    // `etcdctl del xy`.
    let deleted = ask(&etcd.endpoint(), "/v3/kv/deleterange", &json!({ "key": "eHk=" }));
    assert_eq!(deleted.get("deleted"), Some(&json!("1")), "{deleted}");
    assert!(!keeper.renew("y", &node(1), token).unwrap());
    let next = keeper.acquire("y", &node(2), TTL).unwrap();
    assert!(next > Some(token));
    assert!(!keeper.renew("y", &node(1), token).unwrap());
}

#[test]
fn who_was_refused_leaves_nothing_behind_and_who_gives_back_neither() {
    let Some(etcd) = Etcd::start() else {
        return;
    };
    let keeper = at(&etcd.endpoint());
    let leases = || {
        let answer = ask(&etcd.endpoint(), "/v3/lease/leases", &json!({}));
        let leases = answer.get("leases").and_then(|leases| leases.as_array());
        leases.map_or(0, Vec::len)
    };
    // Some are refused before they write anything, some because they were late.
    for round in 0..20_u64 {
        thread::scope(|scope| {
            let ask = |uid| keeper.acquire(NAME, &node(round * 10 + uid), TTL).unwrap();
            (0..4).for_each(|uid| drop(scope.spawn(move || ask(uid))));
        });
        assert_eq!(leases(), 1, "round {round}");
        (0..4).for_each(|uid| keeper.release(NAME, &node(round * 10 + uid)).unwrap());
        assert_eq!(leases(), 0, "round {round}");
    }
}

#[test]
fn a_user_has_what_the_user_may_have_also_when_etcd_forgot_the_token() {
    let Some(etcd) = Etcd::start() else {
        return;
    };
    let endpoint = etcd.endpoint();
    let keys = json!({ "permType": "READWRITE", "key": "b3JkZXJzLw==", "range_end": "b3JkZXJzMA==" });
    for (path, body) in [
        ("user/add", json!({ "name": "root", "password": "r" })),
        ("user/grant", json!({ "user": "root", "role": "root" })),
        ("user/add", json!({ "name": "orders", "password": "secret" })),
        ("role/add", json!({ "name": "orders" })),
        ("role/grant", json!({ "name": "orders", "perm": keys })),
        ("user/grant", json!({ "user": "orders", "role": "orders" })),
        ("enable", json!({})),
    ] {
        let answer = ask(&endpoint, &format!("/v3/auth/{path}"), &body);
        assert!(answer.get("header").is_some(), "{path}: {answer}");
    }
    let as_user = |password: &str, prefix: &str| {
        let keeper = at(&endpoint).user("orders", password);
        keeper.prefix(prefix).unwrap()
    };
    let refused = |outcome: io::Result<Option<u64>>| {
        let error = outcome.unwrap_err();
        assert!(matches!(cause(&error), EtcdError::Refused { .. }), "{error}");
        error.kind()
    };
    refused(
        at(&endpoint)
            .prefix("orders/")
            .unwrap()
            .acquire(NAME, &node(1), TTL),
    );
    refused(as_user("guess", "orders/").acquire(NAME, &node(1), TTL));
    let kind = refused(as_user("secret", "others/").acquire(NAME, &node(1), TTL));
    assert_eq!(kind, io::ErrorKind::PermissionDenied);
    let keeper = as_user("secret", "orders/");
    let token = keeper.acquire(NAME, &node(1), TTL).unwrap().unwrap();
    assert!(keeper.renew(NAME, &node(1), token).unwrap());
    let root = json!({ "name": "root", "password": "r" });
    let root = ask(&endpoint, "/v3/auth/authenticate", &root);
    let root = root.get("token").and_then(|token| token.as_str()).unwrap();
    // With its password a user's tokens go.
    let same = json!({ "name": "orders", "password": "secret" });
    let answer = ask_as(Some(root), &endpoint, "/v3/auth/user/changepw", &same);
    assert!(answer.get("header").is_some(), "{answer}");
    assert!(keeper.renew(NAME, &node(1), token).unwrap());
    keeper.release(NAME, &node(1)).unwrap();
}
