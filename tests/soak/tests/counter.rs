//! The program `counter` as users start it: what it says at the end, that a second run finds what the first
//! has left, and that mistakes end with one line.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output};

fn counter(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_counter"))
        .args(arguments)
        .output()
        .unwrap()
}

fn result(output: &Output) -> (serde_json::Value, String) {
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let result = serde_json::from_str(text.lines().last().unwrap_or_default())
        .unwrap_or_else(|error| panic!("{error}: {text}\n{said}"));
    (result, said)
}

fn assert_right(output: &Output) -> String {
    let (result, said) = result(output);
    assert!(output.status.success(), "{result}\n{said}");
    let count = |name: &str| result[name].as_u64().unwrap();
    assert_eq!((count("lost"), count("doubled")), (0, 0), "{result}\n{said}");
    assert_eq!(count("counters"), 200);
    assert!(count("acknowledged") > 100 && count("commands") >= count("acknowledged"));
    // A node of five is killed, one is cut off, then all: most counters have begun anew somewhere, and nearly
    // all leave memory.
    assert!(count("recovered") > 100 && count("passivated") > 100, "{result}");
    // After all were killed each is where it was, and who is remembered runs.
    assert_eq!(
        (count("homes"), count("moved"), count("alarms")),
        (220, 0, 20),
        "{result}\n{said}"
    );
    for happened in [
        "is killed",
        "is cut off",
        "leaves",
        "all nodes are killed at once",
    ] {
        assert!(said.contains(happened), "nothing {happened}:\n{said}");
    }
    said
}

/// The second run keeps homes and remembered ids the other way, on the same store.
#[test]
fn i_80_counters_outlive_their_nodes_and_a_second_run_finds_every_value() {
    let _turn = quorate_programs::turn();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("counter-{}", std::process::id()));
    let store = folder.to_str().unwrap();
    for (mode, is_first) in [("events", true), ("data", false)] {
        let said = assert_right(&counter(&[
            "--seconds",
            "5",
            "--store",
            store,
            "--state",
            mode,
            "--json",
        ]));
        assert!(said.contains(&format!("state mode {mode}")), "{said}");
        let found = said.contains("200 counters of an earlier run");
        assert_eq!(found, !is_first, "{said}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Counters in the memory of three of five nodes, each of which is killed; then one stands still, and goes on
/// when its counters are elsewhere.
#[test]
fn i_80_counters_move_with_their_logs_in_a_bucket() {
    let _turn = quorate_programs::turn();
    let output = counter(&["--seconds", "5", "--state", "bucket", "--json"]);
    let (result, said) = result(&output);
    assert!(output.status.success(), "{result}\n{said}");
    let count = |name: &str| result[name].as_u64().unwrap();
    assert_eq!((count("lost"), count("doubled")), (0, 0), "{result}\n{said}");
    assert!(
        count("acknowledged") > 100 && count("recovered") > 100,
        "{result}"
    );
    assert_eq!(said.matches("is killed").count(), 5, "{said}");
    assert_eq!(said.matches("every range has three copies").count(), 7, "{said}");
    assert!(
        said.contains("went on with what it had lost, and ended"),
        "{said}"
    );
}

/// The same on a server, where there is one.
#[test]
fn i_80_counters_outlive_their_nodes_on_a_server_in_both_state_modes() {
    let Ok(server) = std::env::var("QUORATE_POSTGRES") else {
        let _ = writeln!(
            std::io::stderr(),
            "skipped: QUORATE_POSTGRES does not name a PostgreSQL server"
        );
        return;
    };
    let _turn = quorate_programs::turn();
    for mode in ["events", "data"] {
        assert_right(&counter(&[
            "--seconds",
            "5",
            "--postgres",
            &server,
            "--state",
            mode,
            "--json",
        ]));
    }
}

#[test]
fn mistakes_end_with_one_line_and_exit_code_2() {
    let help = quorate_programs::refuses(counter, &quorate_programs::MISTAKES);
    assert!(help.contains("--postgres") && help.contains("--state"));
    quorate_programs::refuses(counter, &[&["--postgres"], &["--state"], &["--state", "memory"]]);
}
