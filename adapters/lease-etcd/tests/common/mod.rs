//! Servers that a test starts for itself, to kill, restart and empty them, and questions to them past the
//! crate. `tests/with_etcd.sh COMMAND` says where the program is.
#![allow(dead_code, reason = "each test uses some of it")]

use std::io::Write as _;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use quorate_driver::{Address, UniqueAddress};
use quorate_lease_etcd::{EtcdLeases, Tls};
use serde_json::Value;

/// How long a server may take to start.
const PATIENCE: Duration = Duration::from_secs(30);

/// A number that no other test of this process has.
pub(crate) fn fresh() -> u64 {
    static GIVEN: AtomicU64 = AtomicU64::new(0);
    GIVEN.fetch_add(1, Ordering::SeqCst)
}

/// A value that `tests/with_etcd.sh` gives, or a line that says why there is no test.
pub(crate) fn told(name: &str) -> Option<String> {
    let value = std::env::var(name).ok();
    if value.is_none() {
        let _ = writeln!(
            std::io::stderr(),
            "skipped: {name} is not set; tests/with_etcd.sh does"
        );
    }
    value
}

pub(crate) fn node(uid: u64) -> UniqueAddress {
    UniqueAddress::new(Address::new("host", 7355).unwrap(), uid)
}

/// A keeper at this server.
pub(crate) fn at(endpoint: &str) -> EtcdLeases {
    EtcdLeases::new(&[endpoint], Tls::off()).unwrap()
}

/// Asks a server something, past the crate.
pub(crate) fn ask(endpoint: &str, path: &str, body: &Value) -> Value {
    ask_as(None, endpoint, path, body)
}

/// The same as a user.
pub(crate) fn ask_as(token: Option<&str>, endpoint: &str, path: &str, body: &Value) -> Value {
    let agent = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .timeout_global(Some(Duration::from_secs(5)))
        .build()
        .new_agent();
    let request = agent.post(format!("{endpoint}{path}"));
    let request = match token {
        Some(token) => request.header("Authorization", token),
        None => request,
    };
    let answer = request
        .send(body.to_string())
        .and_then(|mut answer| answer.body_mut().read_to_string());
    answer.map_or(Value::Null, |text| {
        serde_json::from_str(&text).unwrap_or_default()
    })
}

/// A server of this test. Gone with the value.
pub(crate) struct Etcd {
    program: String,
    folder: PathBuf,
    /// Of clients and of peers.
    ports: [u16; 2],
    running: Option<Child>,
}

impl Etcd {
    /// Started, or `None` and a line that says why there is no test.
    pub(crate) fn start() -> Option<Self> {
        let program = told("QUORATE_ETCD_PROGRAM")?;
        let name = format!("quorate-etcd-{}-{}", std::process::id(), fresh());
        // Both at once, so that they differ.
        let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let ports = listeners.map(|listener| listener.local_addr().unwrap().port());
        let mut etcd = Self {
            program,
            folder: std::env::temp_dir().join(name),
            ports,
            running: None,
        };
        etcd.run();
        Some(etcd)
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.ports[0])
    }

    /// Runs it on what it has stored, and waits until it answers.
    pub(crate) fn run(&mut self) {
        let peers = format!("http://127.0.0.1:{}", self.ports[1]);
        let child = Command::new(&self.program)
            .arg("--data-dir")
            .arg(&self.folder)
            .args(["--listen-client-urls", &self.endpoint()])
            .args(["--advertise-client-urls", &self.endpoint()])
            .args([
                "--listen-peer-urls",
                &peers,
                "--initial-advertise-peer-urls",
                &peers,
            ])
            .args(["--initial-cluster", &format!("default={peers}")])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        self.running = Some(child.unwrap());
        let begun = Instant::now();
        let everything = serde_json::json!({"key": "AA==", "range_end": "AA==", "limit": 1});
        while ask(&self.endpoint(), "/v3/kv/range", &everything).is_null() {
            assert!(begun.elapsed() < PATIENCE, "etcd does not start");
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Stands still with `-STOP`, goes on with `-CONT`.
    pub(crate) fn signal(&self, signal: &str) {
        let pid = self.running.as_ref().unwrap().id().to_string();
        let status = Command::new("kill").args([signal, &pid]).status();
        assert!(status.unwrap().success());
    }

    /// SIGKILL.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.running.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Kills it, and everything that it has stored is gone.
    pub(crate) fn wipe(&mut self) {
        self.kill();
        std::fs::remove_dir_all(&self.folder).unwrap();
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        self.kill();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
