//! Two processes of the service: counters are reached through both, and outlive requests that are under way
//! when one of them ends.
#![cfg(unix)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

/// A process, killed if the test fails.
struct Service {
    process: Child,
    http: String,
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.process.kill();
    }
}

impl Service {
    fn start(node: &str, seed: &str) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_quorate-axum-service"))
            .args(["127.0.0.1:0", node, seed])
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut line = String::new();
        let stdout = process.stdout.take().expect("it is piped");
        BufReader::new(stdout)
            .read_line(&mut line)
            .expect("it says where it serves");
        let http = line
            .trim()
            .strip_prefix("serving ")
            .expect("an address")
            .to_owned();
        Self { process, http }
    }

    /// Status and body.
    fn request(&self, method: &str, path: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.http).expect("it listens");
        let head = format!("{method} {path} HTTP/1.1\r\nHost: service\r\nConnection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        let status = answer
            .split(' ')
            .nth(1)
            .expect("a status")
            .parse()
            .expect("a number");
        let body = answer.split_once("\r\n\r\n").expect("a body").1.trim().to_owned();
        (status, body)
    }

    /// Ends it as a supervisor does, and gives its exit code.
    fn end(mut self) -> Option<i32> {
        let id = self.process.id().to_string();
        let sent = Command::new("kill")
            .args(["-TERM", &id])
            .status()
            .expect("there is `kill`");
        assert!(sent.success());
        self.process.wait().expect("it ends").code()
    }
}

#[test]
fn counters_are_reached_through_every_process() {
    // A port that is free now; the node takes it at once.
    let free = TcpListener::bind("127.0.0.1:0").expect("a port");
    let seed = free.local_addr().expect("it is bound").to_string();
    drop(free);
    let first = Service::start(&seed, &seed);
    let second = Service::start("127.0.0.1:0", &seed);
    for service in [&first, &second] {
        assert_eq!(service.request("GET", "/ready"), (200, String::new()));
    }
    for number in 0..20 {
        let path = format!("/counters/{number}/3");
        assert_eq!(first.request("POST", &path), (200, "3".to_owned()));
        assert_eq!(second.request("POST", &path), (200, "6".to_owned()));
        assert_eq!(
            first.request("GET", &format!("/counters/{number}")),
            (200, "6".to_owned())
        );
    }
    assert_eq!(first.request("GET", "/elsewhere").0, 404);
    assert_eq!(first.end(), Some(0), "it has left");
    // What lived there begins anew; what lived here has its count.
    let (status, count) = second.request("GET", "/counters/1");
    assert!(
        status == 200 && ["0", "6"].contains(&count.as_str()),
        "{status} {count}"
    );
    assert_eq!(second.end(), Some(0), "it has left");
}
