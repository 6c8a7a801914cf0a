//! The strangers' process: what it is told on its command line, and how many connections it has opened, said
//! twice a second.

use std::ffi::OsString;
use std::io::{BufRead, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use quorate_demo::process::{ChildProcess, end_with_parent, introduction};

use crate::knocks::{self, Knocks, Says};
use crate::{Result, half_open};

/// How often the count is said.
const SAY_EVERY: Duration = Duration::from_millis(100);

/// The strangers as the members' process sees them. Dropping it ends them.
#[derive(Debug)]
pub(crate) struct Strangers {
    _process: ChildProcess,
    opened: Arc<AtomicU64>,
}

impl Strangers {
    /// Starts them against a transport.
    pub(crate) fn start(transport: &str, knocks: &Knocks) -> Result<Self> {
        let ports: Vec<String> = knocks.to.iter().map(|to| to.port().to_string()).collect();
        let arguments = [
            "--besiege".to_owned(),
            transport.to_owned(),
            "--held".to_owned(),
            knocks.held.to_string(),
            "--total".to_owned(),
            knocks.total.to_string(),
            "--sources".to_owned(),
            knocks.sources.to_string(),
            "--ports".to_owned(),
            ports.join(","),
        ];
        let mut process = ChildProcess::start(arguments.map(OsString::from))?;
        let output = process.output().ok_or("a child has an output")?;
        let opened = Arc::new(AtomicU64::new(0));
        let newest = Arc::clone(&opened);
        thread::spawn(move || {
            for line in output.lines().map_while(std::io::Result::ok) {
                if let Ok(count) = line.parse() {
                    newest.store(count, Ordering::Relaxed);
                }
            }
        });
        Ok(Self {
            _process: process,
            opened,
        })
    }

    /// Connections that they have opened.
    pub(crate) fn opened(&self) -> u64 {
        self.opened.load(Ordering::Relaxed)
    }
}

/// What this process does if it was started as the strangers'.
pub(crate) fn run(transport: &str, ports: &str, mut knocks: Knocks) -> Result<()> {
    introduction()?;
    end_with_parent()?;
    for port in ports.split(',') {
        knocks
            .to
            .push(SocketAddr::from((Ipv4Addr::LOCALHOST, port.parse()?)));
    }
    let count = Arc::new(AtomicU64::new(0));
    let said = Arc::clone(&count);
    thread::spawn(move || {
        let mut output = std::io::stdout();
        while writeln!(output, "{}", said.load(Ordering::Relaxed)).is_ok() {
            thread::sleep(SAY_EVERY);
        }
    });
    match transport {
        "quic" => half_open::besiege(&knocks, &count),
        "tokio-psk" => knocks::besiege(&knocks, Says::Nothing, &count),
        _ => knocks::besiege(&knocks, Says::Tls, &count),
    }
}
