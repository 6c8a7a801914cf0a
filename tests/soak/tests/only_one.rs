//! The program `only_one` as users start it: what it says at the end, and that mistakes end with one line.

use std::process::{Command, Output};

fn only_one(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_only_one"))
        .args(arguments)
        .output()
        .unwrap()
}

fn assert_right(output: &Output) {
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let result: serde_json::Value = serde_json::from_str(text.lines().last().unwrap_or_default())
        .unwrap_or_else(|error| panic!("{error}: {text}\n{said}"));
    assert!(output.status.success(), "{result}\n{said}");
    let count = |name: &str| result[name].as_u64().unwrap();
    for nothing in ["missing", "doubled", "lower_tokens_accepted"] {
        assert_eq!(count(nothing), 0, "{result}\n{said}");
    }
    // One at first, and one after each of three faults.
    assert!(count("instances") >= 4, "{result}\n{said}");
    assert!(
        count("acknowledged") > 100 && count("invoices") >= count("acknowledged"),
        "{result}\n{said}"
    );
    assert!(count("longest_gap_ms") > 0, "{result}");
    for happened in ["is killed", "is cut off", "leaves", "REFUSED: `append"] {
        assert!(said.contains(happened), "nothing {happened}:\n{said}");
    }
}

#[test]
fn i_30_an_instance_and_its_token_through_a_kill_a_cut_and_a_leave_and_a_second_run_goes_on() {
    let _turn = quorate_programs::turn();
    let folder =
        std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("only-one-{}", std::process::id()));
    let store = folder.to_str().unwrap();
    let run = || only_one(&["--seconds", "8", "--store", store, "--json"]);
    assert_right(&run());
    // Tokens that began at one again would be refused.
    assert_right(&run());
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn mistakes_end_with_one_line_and_exit_code_2() {
    quorate_programs::refuses(only_one, &quorate_programs::MISTAKES);
}
