//! The program `events` measures something, and says so in one line.

use std::process::Command;

#[test]
fn events_are_measured_beside_the_bare_store() {
    let _turn = quorate_programs::turn();
    let events = Command::new(env!("CARGO_BIN_EXE_events"))
        .args(["--quick", "--json"])
        .output()
        .unwrap();
    assert!(
        events.status.success(),
        "{}",
        String::from_utf8_lossy(&events.stderr)
    );
    let text = String::from_utf8(events.stdout).unwrap();
    let result: serde_json::Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    let rows = result["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 6, "two stores: {result}");
    for row in rows {
        assert!(row["events_per_s"].as_f64().unwrap() > 1.0, "{result}");
        assert!(row["appends_per_s"].as_f64().unwrap() > 1.0, "{result}");
    }
}
