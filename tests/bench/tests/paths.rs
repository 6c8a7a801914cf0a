//! The program `paths` measures everything and says so in one line. How fast it is, is nothing for a test.
#![cfg(unix)]

use quorate_programs::{Program, turn};
use serde_json::Value;

#[test]
fn a_quick_run_measures_asks_the_table_and_a_hand_off() {
    let _turn = turn();
    let arguments = ["--quick", "--state-mib", "2", "--json"];
    let ended = Program::start(env!("CARGO_BIN_EXE_paths"), &arguments).end();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let json: Value = serde_json::from_str(ended.stdout.last().unwrap()).unwrap();
    let rows: [(&str, &[&str]); 3] = [
        (
            "asks",
            &["entity_p50_us", "path_p50_us", "entity_per_s", "path_per_s"],
        ),
        (
            "table",
            &[
                "merge-equal_us",
                "merge-older_us",
                "merge-newer_us",
                "merge-both_us",
                "compare_us",
                "copy_us",
            ],
        ),
        (
            "hand_off",
            &[
                "hand_off_ms",
                "gap_ms",
                "beside_ms",
                "quiet_ms",
                "tcp_ms",
                "codec_ms",
            ],
        ),
    ];
    for (part, figures) in rows {
        for figure in figures {
            assert!(
                json[part][figure].as_f64().is_some_and(|value| value > 0.0),
                "{part} {figure}: {json}"
            );
        }
    }
    // Bytes are the same on every machine.
    assert!(
        json["table"]["bytes_beside_name"].as_f64().unwrap() <= 64.0,
        "{json}"
    );
    assert_eq!(json["hand_off"]["bytes"].as_u64(), Some(2 << 20), "{json}");
}
