//! The benchmark works: it measures everything and says so. How fast it is, is nothing for a test.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test")]

use quorate_programs::{Program, turn};
use serde_json::Value;

#[test]
fn a_quick_run_measures_both_systems_with_both_payloads() {
    let _turn = turn();
    let ended = Program::start(env!("CARGO_BIN_EXE_bench"), &["--quick", "--json"]).end();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let json: Value = serde_json::from_str(ended.stdout.last().unwrap()).unwrap();
    for (row, bytes, place) in [(0, 16, "peer"), (1, 1024, "peer"), (2, 16, "here")] {
        let row = &json["rows"][row];
        assert_eq!(row["payload_bytes"], bytes, "{json}");
        assert_eq!(row["where"], place, "{json}");
        for system in ["sharded", "bare"] {
            for figure in ["ask_p50_us", "ask_p99_us", "asks_per_s", "tells_per_s"] {
                assert!(
                    row[system][figure].as_f64().is_some_and(|value| value > 0.0),
                    "{system} {figure}: {json}"
                );
            }
        }
        assert_eq!(row["bare"]["tells_arrived"].as_f64(), Some(1.0), "{json}");
    }
}

#[test]
fn a_quick_run_measures_updates_of_replicated_data_beside_both_floors() {
    let _turn = turn();
    let ended = Program::start(env!("CARGO_BIN_EXE_bench"), &["--data", "--quick", "--json"]).end();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let json: Value = serde_json::from_str(ended.stdout.last().unwrap()).unwrap();
    let report = &json["transports"][0];
    let rows = report["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 12, "{json}");
    for row in rows {
        for figure in ["p50_us", "p99_us", "per_s"] {
            assert!(row[figure].as_f64().is_some_and(|value| value > 0.0), "{row}");
        }
    }
    // Whatever the machine does, a change is smaller than the set of a thousand that it changes.
    let bytes = |at: usize| report["bytes_per_update"][at]["majority"].as_f64().unwrap();
    assert!(bytes(0) < bytes(1), "{json}");
}

#[test]
fn a_quick_run_measures_calls_of_the_keyed_store_beside_three_bare_links() {
    let _turn = turn();
    let ended = Program::start(env!("CARGO_BIN_EXE_bench"), &["--kv", "--quick", "--json"]).end();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let json: Value = serde_json::from_str(ended.stdout.last().unwrap()).unwrap();
    let rows = json["transports"][0]["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 16, "{json}");
    for row in rows {
        for figure in ["p50_us", "p99_us", "per_s"] {
            assert!(row[figure].as_f64().is_some_and(|value| value > 0.0), "{row}");
        }
    }
}

/// What is counted is what it is said to be: the program ends with an error unless every message and every
/// answer has come.
#[test]
fn every_step_of_the_core_alone_sends_what_it_says() {
    let _turn = turn();
    let recipients = ["", "singleton-", "path-"];
    for recipient in recipients
        .map(|of| ["elsewhere", "here"].map(|at| format!("{of}{at}")))
        .as_flattened()
    {
        for verb in ["ask", "tell"] {
            let step = format!("{verb}-{recipient}");
            for at_once in ["1", "100"] {
                let arguments = ["core-alone", &step, at_once, "250"];
                let ended = Program::start(env!("CARGO_BIN_EXE_bench"), &arguments).end();
                assert_eq!(ended.code, Some(0), "{step}: {}", ended.stderr);
            }
        }
    }
}
