//! Instructions, counted by callgrind: a hidden run of one step, once few and once more times; the difference is the
//! step's own.

use std::process::{Command, Stdio};

use crate::work::Step;

const FEW: u64 = 2;
const MORE: u64 = 12;

pub(crate) fn is_installed() -> bool {
    let version = Command::new("valgrind")
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    version.is_ok_and(|status| status.success())
}

/// Instructions per member; `None` where valgrind is not installed or fails.
pub(crate) fn per_member(step: Step, members: usize) -> Option<f64> {
    let counted = run(step, members, MORE)?.checked_sub(run(step, members, FEW)?)?;
    Some(counted as f64 / ((MORE - FEW) as f64 * members as f64))
}

fn run(step: Step, members: usize, times: u64) -> Option<u64> {
    let me = std::env::current_exe().ok()?;
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(me)
        .args(["--members", &members.to_string(), "--only", step.name()])
        .arg(times.to_string())
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let line = text.lines().find(|line| line.contains("Collected :"))?;
    line.split_whitespace().last()?.parse().ok()
}
