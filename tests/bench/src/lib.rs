//! What the programs of this package share: messages of plain bytes, and how instructions are counted: by
//! valgrind's callgrind, which says the same on a busy machine.
#![forbid(unsafe_code)]

pub mod payload;

use std::ffi::OsStr;
use std::process::{Command, Stdio};

/// Whether instructions can be counted here.
#[must_use]
pub fn is_callgrind_installed() -> bool {
    let version = Command::new("valgrind")
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    version.is_ok_and(|status| status.success())
}

/// The instructions of this program, run with these arguments; `None` where valgrind is not installed, or if
/// it or the program fails.
pub fn instructions<A: AsRef<OsStr>>(arguments: impl IntoIterator<Item = A>) -> Option<u64> {
    let me = std::env::current_exe().ok()?;
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(me)
        .args(arguments)
        .output()
        .ok()?;
    if !output.status.success() {
        return None;
    }
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let line = text.lines().find(|line| line.contains("Collected :"))?;
    line.split_whitespace().last()?.parse().ok()
}
