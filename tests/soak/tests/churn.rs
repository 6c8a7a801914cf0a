//! A round of churn. Ten minutes of it:
//! `cargo run --release -p quorate-soak --bin churn -- --transport tokio`.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test")]

use std::process::Command;

use quorate_programs::turn;

#[test]
fn nodes_that_come_and_go_leave_nothing_behind() {
    let _turn = turn();
    let ended = Command::new(env!("CARGO_BIN_EXE_churn"))
        .args(["--minutes", "0"])
        .output()
        .unwrap();
    let (out, errors) = (
        String::from_utf8_lossy(&ended.stdout),
        String::from_utf8_lossy(&ended.stderr),
    );
    assert!(ended.status.success(), "{out}{errors}");
    assert!(out.contains("12 changes"), "{out}");
}
