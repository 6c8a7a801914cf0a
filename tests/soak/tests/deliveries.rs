//! The program `deliveries` as users start it: what it says at the end, with messages of which many fit into
//! a log and of which few do.

use std::process::{Command, Output};

fn deliveries(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_deliveries"))
        .args(arguments)
        .output()
        .unwrap()
}

/// Nothing is lost, and the line has what is promised; how much was acknowledged.
fn assert_kept(arguments: &[&str], store: &str) -> u64 {
    let _turn = quorate_programs::turn();
    let output = deliveries(arguments);
    let text = String::from_utf8(output.stdout).unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let result: serde_json::Value = serde_json::from_str(text.lines().last().unwrap_or_default())
        .unwrap_or_else(|error| panic!("{error}: {text}\n{said}"));
    assert!(output.status.success(), "{result}\n{said}");
    let count = |name: &str| result[name].as_u64().unwrap();
    assert_eq!(
        (count("lost"), &result["store"]),
        (0, &store.into()),
        "{result}\n{said}"
    );
    assert!(count("jobs") >= count("acknowledged"), "{result}");
    assert!(result["doubled"].is_u64(), "{result}");
    // Two are killed alone at least, then all are.
    assert!(count("kills") >= 7, "{result}");
    count("acknowledged")
}

#[test]
fn s_1_14_what_was_acknowledged_is_handled_although_nodes_are_killed_all_the_time() {
    let arguments = ["--seconds", "5", "--json"];
    assert!(assert_kept(&arguments, "redb") > 100);
}

#[test]
fn s_1_14_what_was_acknowledged_is_handled_where_few_messages_fill_a_log() {
    let arguments = ["--seconds", "5", "--bytes", "900000", "--json"];
    assert!(assert_kept(&arguments, "redb") > 10);
}

#[test]
fn s_1_14_what_was_acknowledged_is_handled_over_a_server() {
    let Ok(server) = std::env::var("QUORATE_POSTGRES") else {
        return quorate_programs::skipped("QUORATE_POSTGRES does not name a PostgreSQL server");
    };
    let arguments = ["--seconds", "5", "--postgres", &server, "--json"];
    assert!(assert_kept(&arguments, "postgres") > 10);
}

#[test]
fn mistakes_end_with_one_line_and_exit_code_2() {
    let help = quorate_programs::refuses(deliveries, &quorate_programs::MISTAKES);
    assert!(help.contains("--bytes") && help.contains("--postgres"));
    quorate_programs::refuses(deliveries, &[&["--bytes", "2000000"], &["--bytes"]]);
}
