//! The demo on async-std from end to end.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test")]

use std::fs;
use std::process::Command;

use serde_json::Value;

#[test]
fn on_async_std_a_node_is_killed_and_no_answer_is_lost() {
    let root = std::env::temp_dir().join(format!("quorate-async-std-{}", std::process::id()));
    fs::create_dir_all(&root).unwrap();
    for number in 0..100 {
        fs::write(root.join(format!("file-{number}")), "word ".repeat(number)).unwrap();
    }
    let demo = Command::new(env!("CARGO_BIN_EXE_quorate-async-std-demo"))
        .args(["--nodes", "2", "--json", "--input"])
        .arg(&root)
        .env_remove("RUST_LOG")
        .output()
        .unwrap();
    fs::remove_dir_all(&root).unwrap();
    let said = String::from_utf8_lossy(&demo.stderr);
    assert_eq!(demo.status.code(), Some(0), "{said}");
    let json: Value = serde_json::from_str(String::from_utf8(demo.stdout).unwrap().trim()).unwrap();
    let words = (0..100).sum::<u64>();
    for (key, expected) in [
        ("nodes", 2),
        ("files", 100),
        ("words", words),
        ("expected", words),
    ] {
        assert_eq!(json[key], expected, "{key} in {json}\n{said}");
    }
    for key in ["unreachable_ms", "removed_ms", "failover_ms"] {
        assert!(json[key].is_u64(), "{key} in {json}\n{said}");
    }
}
