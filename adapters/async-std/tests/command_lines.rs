//! The example `churn`: a mistake in its arguments ends it with exit code 2 before any node starts, `--help`
//! with 0.

use std::process::{Command, Output};

fn churn(arguments: &[&str]) -> Output {
    // Examples are built with the tests, beside their folder.
    let tests = std::env::current_exe().unwrap();
    let built = tests.parent().unwrap().parent().unwrap().join("examples/churn");
    Command::new(built).args(arguments).output().unwrap()
}

#[test]
fn a_mistake_in_the_arguments_ends_it_with_2_and_one_line() {
    for arguments in [
        &["many"][..],
        &["-1"],
        &["1", "2"],
        &["--bogus"],
        &["--minutes", "1"],
    ] {
        let output = churn(arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(
            (output.status.code(), said.lines().count(), output.stdout.len()),
            (Some(2), 1, 0),
            "{arguments:?}: {said}"
        );
    }
    let help = churn(&["--help"]);
    assert!(help.status.success() && !help.stdout.is_empty());
}
