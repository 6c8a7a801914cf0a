//! The program `bank` as users start it: what it says at the end, and that mistakes end with one line.

use std::process::{Command, Output};

fn bank(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_bank"))
        .args(arguments)
        .output()
        .unwrap()
}

#[test]
fn i_80_every_transfer_is_there_once_after_nodes_were_killed_cut_off_and_stood_still() {
    let _turn = quorate_programs::turn();
    let mut arguments = vec!["--seconds", "5", "--json"];
    let server = std::env::var("QUORATE_POSTGRES");
    if let Ok(server) = &server {
        arguments.extend(["--postgres", server]);
    }
    let output = bank(&arguments);
    let text = String::from_utf8(output.stdout).unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let result: serde_json::Value = serde_json::from_str(text.lines().last().unwrap_or_default())
        .unwrap_or_else(|error| panic!("{error}: {text}\n{said}"));
    assert!(output.status.success(), "{result}\n{said}");
    let count = |name: &str| result[name].as_u64().unwrap();
    for nothing in ["lost", "doubled", "wrong", "sum"] {
        assert_eq!(result[nothing].as_i64(), Some(0), "{nothing}: {result}\n{said}");
    }
    assert_eq!(count("accounts"), 60);
    assert_eq!(count("transfers"), count("acknowledged"));
    assert!(count("transfers") > 20 && count("recovered") >= 60, "{result}");
    // One is killed alone, then all are; each of the other things happens once at least.
    assert!(
        count("kills") >= 6 && count("cuts") >= 1 && count("stops") >= 1,
        "{result}"
    );
    assert!(
        count("resent") > 0,
        "nothing was under way when nodes ended: {result}"
    );
    if server.is_ok() {
        // The one that stood still had a write on its way.
        assert!(count("refused") > 0, "no stale owner wrote: {result}");
    }
}

#[test]
fn mistakes_end_with_one_line_and_exit_code_2() {
    let help = quorate_programs::refuses(bank, &quorate_programs::MISTAKES);
    assert!(help.contains("--postgres"));
    quorate_programs::refuses(bank, &[&["--postgres"]]);
}
