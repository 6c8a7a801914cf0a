//! The programs `entities` and `rebalance` measure something, and say so in one line.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::Command;

fn last_line(program: &str, arguments: &[&str]) -> serde_json::Value {
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8(output.stdout).unwrap();
    serde_json::from_str(text.lines().last().unwrap()).unwrap()
}

#[test]
fn entities_are_counted_and_run_again() {
    let entities = |arguments: &[&str]| last_line(env!("CARGO_BIN_EXE_entities"), arguments);
    let result = entities(&["--only", "memory", "--entities", "3000", "--json"]);
    assert!(
        result["memory"]["idle_bytes"].as_f64().unwrap() > 100.0,
        "{result}"
    );
    let result = entities(&["--only", "recovery", "--remembered", "300", "--json"]);
    assert_eq!(result["recovery"]["entities"].as_u64(), Some(300), "{result}");
}

#[test]
fn every_strategy_leaves_as_many_entities_as_may_run() {
    let arguments = [
        "--only",
        "passivation",
        "--entities",
        "2000",
        "--limit",
        "600",
        "--json",
    ];
    let result = last_line(env!("CARGO_BIN_EXE_entities"), &arguments);
    let rows = result["passivation"]["strategies"].as_array().unwrap();
    assert_eq!(rows.len(), 7, "{result}");
    for row in rows {
        let [before, after, passivated] =
            ["before", "after", "passivated"].map(|key| row[key].as_u64().unwrap());
        assert_eq!((before, before - after), (2_000, passivated), "{row}");
        // Each of a hundred shards has its part of 200 per node, rounded down.
        assert!((500..=600).contains(&after), "{row}");
        assert!(row["passivated_meanwhile"].as_u64().unwrap() >= 1_400, "{row}");
    }
}

#[test]
fn every_strategy_comes_to_rest() {
    let result = last_line(env!("CARGO_BIN_EXE_rebalance"), &["--shards", "500", "--json"]);
    let rows = result.as_array().unwrap();
    assert_eq!(rows.len(), 20);
    for row in rows {
        assert!(row["rounds"].as_u64().unwrap() < 100_000, "{row}");
    }
    let limited = |row: &&serde_json::Value| row["strategy"].as_str().unwrap().starts_with("limits");
    for row in rows.iter().filter(limited) {
        let [most, least] = ["most", "least"].map(|key| row[key].as_u64().unwrap());
        assert!(most <= least + 1, "{row}");
    }
}
