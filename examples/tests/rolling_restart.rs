//! A rolling restart as systemd does it: a notification socket of the test's, and SIGTERM.
#![cfg(target_os = "linux")]

use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use quorate_programs::turn;

/// How long a step may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A unit: its process, and the socket on which it reports.
struct Unit {
    process: Child,
    socket: UnixDatagram,
}

impl Drop for Unit {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Unit {
    /// Starts it and waits until it is ready.
    fn start(address: &str, version: &str, seeds: &[String]) -> Self {
        let name = format!("quorate-{}-{address}-{version}", std::process::id());
        let bound = SocketAddr::from_abstract_name(&name).unwrap();
        let socket = UnixDatagram::bind_addr(&bound).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let process = Command::new(super::short::built("rolling_restart"))
            .args([address, version])
            .args(seeds)
            .env("NOTIFY_SOCKET", format!("@{name}"))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let unit = Self { process, socket };
        unit.reports("READY=1");
        unit
    }

    fn reports(&self, state: &str) {
        let mut bytes = [0; 64];
        let read = self
            .socket
            .recv(&mut bytes)
            .unwrap_or_else(|error| panic!("{state}: {error}"));
        assert_eq!(&bytes[..read], state.as_bytes());
    }

    /// Ends it as `systemctl stop` does: what it said.
    fn stop(mut self) -> String {
        let id = self.process.id().to_string();
        assert!(
            Command::new("kill")
                .args(["-TERM", &id])
                .status()
                .unwrap()
                .success()
        );
        self.reports("STOPPING=1");
        let mut said = String::new();
        let stdout = self.process.stdout.as_mut().unwrap();
        std::io::Read::read_to_string(stdout, &mut said).unwrap();
        assert_eq!(self.process.wait().unwrap().code(), Some(0), "{said}");
        said
    }
}

#[test]
fn a_rolling_restart_loses_no_message() {
    let _turn = turn();
    let ports = [(); 3].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let addresses = ports
        .each_ref()
        .map(|port| port.local_addr().unwrap().to_string());
    drop(ports);
    let mut units: Vec<Unit> = Vec::new();
    for address in &addresses {
        units.push(Unit::start(address, "1.4.0", &addresses));
    }
    let mut said = Vec::new();
    for address in &addresses {
        said.push(units.remove(0).stop());
        units.push(Unit::start(address, "1.4.1", &addresses));
    }
    said.extend(units.into_iter().rev().map(Unit::stop));
    for said in said {
        let counted = said.lines().find(|line| line.ends_with("of unknown outcome"));
        let (answered, unknown) = counted.unwrap().split_once(" answers, ").unwrap();
        assert_eq!(unknown, "0 of unknown outcome", "{said}");
        assert_ne!(answered, "0", "{said}");
    }
}
