//! The program `ranges` measures everything and says so in one line. How fast it is, is nothing for a test.
#![cfg(unix)]

use quorate_programs::{Program, turn};
use serde_json::Value;

#[test]
fn a_quick_run_measures_the_memory_of_keys_and_a_move_under_calls() {
    let _turn = turn();
    let ended = Program::start(env!("CARGO_BIN_EXE_ranges"), &["--quick", "--json"]).end();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let json: Value = serde_json::from_str(ended.stdout.last().unwrap()).unwrap();
    let bytes = json["memory"]["bytes_per_key"].as_f64().unwrap();
    assert!(bytes >= 116.0, "an owner holds the key and the value: {json}");
    // Three quarters of 256.
    assert!(json["moves"]["ranges"].as_u64().unwrap() >= 192, "{json}");
    for when in ["at_rest", "meanwhile"] {
        let served = &json["moves"][when];
        assert!(served["calls"].as_u64().unwrap() > 0, "{json}");
        assert_eq!(served["failed"], 0, "{json}");
    }
}
