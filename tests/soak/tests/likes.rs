//! The program `likes` as users start it: what it says at the end, and that mistakes end with one line.

use std::process::{Command, Output};

fn likes(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_likes"))
        .args(arguments)
        .output()
        .unwrap()
}

/// The last line of standard output, as JSON.
fn result(output: &Output) -> serde_json::Value {
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    serde_json::from_str(text.lines().last().unwrap_or_default()).unwrap_or_else(|error| {
        let said = String::from_utf8_lossy(&output.stderr);
        panic!("{error}: {text}\n{said}")
    })
}

fn assert_kept(output: &Output) {
    let result = result(output);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{result}\n{said}");
    assert_eq!(
        (&result["nodes"], &result["missing"]),
        (&5.into(), &0.into()),
        "{result}\n{said}"
    );
    assert_eq!(result["equal"], true, "{result}\n{said}");
    let count = |name: &str| result[name].as_u64().unwrap();
    assert!(
        count("acknowledged") > 100 && count("updates") >= count("acknowledged"),
        "{result}"
    );
    // The faults really happened.
    for happened in ["stands still", "is cut off", "is killed", "as a new process"] {
        assert!(said.contains(happened), "nobody {happened}:\n{said}");
    }
}

#[test]
fn i_61_i_63_i_64_replicas_are_equal_and_keep_what_was_acknowledged_through_three_faults() {
    let _turn = quorate_programs::turn();
    assert_kept(&likes(&["--seconds", "10", "--json"]));
}

#[test]
fn i_63_what_was_acknowledged_outlives_the_death_of_all_nodes_and_a_second_run_finds_it() {
    let _turn = quorate_programs::turn();
    let folder =
        std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("likes-{}", std::process::id()));
    let store = folder.to_str().unwrap();
    let run = || likes(&["--seconds", "10", "--store", store, "--json"]);
    let first = run();
    assert_kept(&first);
    assert!(String::from_utf8_lossy(&first.stderr).contains("all nodes are killed at once"));
    assert_kept(&run());
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn mistakes_end_with_one_line_and_exit_code_2() {
    quorate_programs::refuses(likes, &quorate_programs::MISTAKES);
}
