//! A network of its own for every node: a namespace each, joined by a bridge, all within namespaces that end
//! with this program. A direction between two nodes is cut by a neighbour entry that leads nowhere: frames
//! vanish on the wire, nobody is told. Root is not needed where users may make namespaces.

use std::ffi::OsString;
use std::process::Command;

/// Where a node's frames to a cut-off peer go: no interface has this address.
const NOWHERE: &str = "02:00:00:00:00:fe";
/// Set for the program within its namespaces.
const INSIDE: &str = "QUORATE_CHAOS_INSIDE";

/// The nodes' network.
#[derive(Debug)]
pub(crate) struct Net {
    nodes: usize,
}

impl Net {
    /// Whether this process is within namespaces of its own already.
    pub(crate) fn is_inside() -> bool {
        std::env::var_os(INSIDE).is_some()
    }

    /// Runs this program again, with the same arguments, within namespaces of its own, and yields its exit
    /// code.
    pub(crate) fn enter() -> Result<i32, String> {
        let me = std::env::current_exe().map_err(|error| error.to_string())?;
        let mut last = String::new();
        // As root no user namespace is needed, and it may be forbidden.
        for flags in [
            &["--mount", "--net"][..],
            &["--map-root-user", "--mount", "--net"],
        ] {
            if let Err(error) = tried(Command::new("unshare").args(flags).arg("true")) {
                last = error;
                continue;
            }
            // `ip netns` keeps names below /run.
            let script = "mount -t tmpfs tmpfs /run && exec \"$0\" \"$@\"";
            let status = Command::new("unshare")
                .args(flags)
                .args(["sh", "-c", script])
                .arg(&me)
                .args(std::env::args_os().skip(1))
                .env(INSIDE, "1")
                .status()
                .map_err(|error| error.to_string())?;
            return Ok(status.code().unwrap_or(2));
        }
        Err(format!("no right to make network namespaces: {last}"))
    }

    /// Lays out the network.
    pub(crate) fn new(nodes: usize) -> Result<Self, String> {
        ip("link add name switch type bridge")?;
        ip("link set dev switch up")?;
        for node in 0..nodes {
            let number = node + 1;
            ip(&format!("netns add n{number}"))?;
            ip(&format!(
                "link add name v{number} type veth peer name eth0 netns n{number}"
            ))?;
            ip(&format!("link set dev v{number} master switch up"))?;
            ip(&format!("-n n{number} addr add 10.77.0.{number}/24 dev eth0"))?;
            ip(&format!("-n n{number} link set dev lo up"))?;
            ip(&format!("-n n{number} link set dev eth0 up"))?;
        }
        Ok(Self { nodes })
    }

    /// The address a node listens at.
    pub(crate) fn address(node: usize) -> String {
        format!("10.77.0.{}:7355", node + 1)
    }

    /// What runs a program in a node's namespace.
    pub(crate) fn prefix(node: usize) -> Vec<OsString> {
        let words = [
            "ip".to_owned(),
            "netns".into(),
            "exec".into(),
            format!("n{}", node + 1),
        ];
        words.into_iter().map(OsString::from).collect()
    }

    /// Frames from one node to another vanish from now on.
    pub(crate) fn cut(&self, from: usize, to: usize) -> Result<(), String> {
        let (from, to) = (from + 1, to + 1);
        ip(&format!(
            "-n n{from} neigh replace 10.77.0.{to} lladdr {NOWHERE} dev eth0 nud permanent"
        ))
    }

    /// They arrive again.
    pub(crate) fn open(&self, from: usize, to: usize) -> Result<(), String> {
        let (from, to) = (from + 1, to + 1);
        ip(&format!("-n n{from} neigh del 10.77.0.{to} dev eth0"))
    }

    /// Cuts, or opens again, everything between the nodes of `side` and the others.
    pub(crate) fn split(&self, side: &[usize], cut: bool) -> Result<(), String> {
        for &one in side {
            for other in (0..self.nodes).filter(|other| !side.contains(other)) {
                let change = if cut { Self::cut } else { Self::open };
                change(self, one, other)?;
                change(self, other, one)?;
            }
        }
        Ok(())
    }
}

fn ip(arguments: &str) -> Result<(), String> {
    tried(Command::new("ip").args(arguments.split(' ')))
}

fn tried(command: &mut Command) -> Result<(), String> {
    let output = command
        .output()
        .map_err(|error| format!("{command:?}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let error = String::from_utf8_lossy(&output.stderr);
    Err(format!("{command:?}: {}", error.trim()))
}
