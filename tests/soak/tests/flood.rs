//! A short flood. The long one: `cargo run --release -p quorate-soak --bin flood`.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test")]

use std::process::Command;

use quorate_programs::turn;

#[test]
fn a_flooded_node_keeps_its_memory_and_its_peers() {
    let _turn = turn();
    let ended = Command::new(env!("CARGO_BIN_EXE_flood"))
        .args(["--seconds", "2"])
        .output()
        .unwrap();
    let (out, errors) = (
        String::from_utf8_lossy(&ended.stdout),
        String::from_utf8_lossy(&ended.stderr),
    );
    assert!(ended.status.success(), "{out}{errors}");
    assert_eq!(out.lines().count(), 2, "{out}");
}
