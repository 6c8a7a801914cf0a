//! The program `instances` as users start it: what it says at the end, and that mistakes end with one line.

use std::process::{Command, Output};

fn instances(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_instances"))
        .args(arguments)
        .output()
        .unwrap()
}

#[test]
fn nothing_is_lost_or_late_while_slots_move_a_host_is_killed_and_the_leader_leaves() {
    let _turn = quorate_programs::turn();
    let output = instances(&["--seconds", "4", "--json"]);
    let text = String::from_utf8(output.stdout).unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let result: serde_json::Value = serde_json::from_str(text.lines().last().unwrap_or_default())
        .unwrap_or_else(|error| panic!("{error}: {text}\n{said}"));
    assert!(output.status.success(), "{result}\n{said}");
    let count = |name: &str| result[name].as_u64().unwrap();
    for nothing in ["lost", "reordered", "two_alive", "below_minimum"] {
        assert_eq!(count(nothing), 0, "{result}\n{said}");
    }
    let known = count("handled") + count("refused") + count("destroyed");
    assert_eq!(count("sent"), known, "{result}");
    assert!(count("sent") >= 10_000, "{result}");
    for happened in ["is moved", "is killed", "leaves"] {
        assert!(said.contains(happened), "nothing {happened}:\n{said}");
    }
}

#[test]
fn mistakes_end_with_one_line_and_exit_code_2() {
    quorate_programs::refuses(instances, &quorate_programs::MISTAKES);
}
