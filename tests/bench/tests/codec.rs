//! The codec's benchmark runs and measures every step. How fast they are, is nothing for a test.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test")]

use quorate_programs::{Program, turn};
use serde_json::Value;

#[test]
fn a_quick_run_measures_every_step() {
    let _turn = turn();
    let arguments = ["--quick", "--members", "100", "--json"];
    let ended = Program::start(env!("CARGO_BIN_EXE_codec"), &arguments).end();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let json: Value = serde_json::from_str(ended.stdout.last().unwrap()).unwrap();
    let steps = json.as_array().unwrap();
    assert_eq!(steps.len(), 12, "{json}");
    for step in steps {
        assert!(step["ns"].as_f64().is_some_and(|value| value > 0.0), "{step}");
    }
}

#[test]
fn sizes_beyond_the_limit_are_refused() {
    let _turn = turn();
    let ended = Program::start(env!("CARGO_BIN_EXE_codec"), &["--members", "10001"]).end();
    assert_eq!(ended.code, Some(2));
    assert!(ended.stderr.contains("from 1 to 10000"), "{}", ended.stderr);
}
